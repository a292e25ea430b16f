//! Opens a thread: connects, starts or resumes the thread, and checks that Codex applied the settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codex_wire::call::{
    CleanBackgroundTerminals, InitialTurnsPage, ThreadArchive, ThreadFork, ThreadLoadedList, ThreadOpened,
    ThreadResume, ThreadSettings, ThreadStart, ThreadTurnsList, ThreadUnarchive, TurnInterrupt,
};
use codex_wire::confinement::{Confinement, Difference};
use codex_wire::host::holder::{Holder, holder_of};
use codex_wire::item::Item;
use codex_wire::peer::{self, CallError, Inbox, InboxSender, Peer};
use codex_wire::thread::{Turn, TurnStatus};
use codex_wire::{ThreadId, TurnId};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::bounds_watch::UsersFile;
use crate::failure::{Failure, FailureKind, reads_as_network_withheld};
use crate::link::{Dial, Error as DialError, Link};
use crate::settings::SessionConfig;

/// Part of the error of codex 0.166 when another process has the thread open.
const BUSY: &str = "already has an active writer";
/// How often the opening is tried while Codex reads a new login, and the pause between two tries.
const OPENING_TRIES: u32 = 6;
const OPENING_PAUSE: Duration = Duration::from_millis(300);

/// A thread that is open on a connection.
pub(super) struct Opened {
    pub(super) link: Link,
    pub(super) inbox: Inbox,
    pub(super) inbox_sender: InboxSender,
    pub(super) thread_id: ThreadId,
    /// The path of its rollout; `None` if it has none.
    pub(super) rollout: Option<PathBuf>,
    /// A turn that already runs on it.
    pub(super) running_turn: Option<TurnId>,
    /// The running items of that turn.
    pub(super) under_way: Option<UnderWay>,
    /// The bounds with which it was opened.
    pub(super) confinement: Confinement,
    /// The user's `config.toml`; `None` if the home is unknown.
    pub(super) users: Option<UsersFile>,
}

/// Items that were running when the thread was resumed. No event reports their start.
pub(super) struct UnderWay {
    pub(super) turn_id: TurnId,
    pub(super) items: Vec<Item>,
}

impl UnderWay {
    fn of(turn: Turn) -> Self {
        let has_begun = |item: &Item| item.is_in_progress() == Some(true);
        Self { turn_id: turn.id, items: turn.items.into_iter().filter(has_begun).collect() }
    }
}

/// Which thread to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A new thread.
    New,
    /// This existing thread.
    Resume(ThreadId),
    /// A fork of this thread, which may be open elsewhere: only its file is read.
    Fork(ThreadId),
}

/// Connects and opens a thread. If the session is closed meanwhile, the connection is closed again.
pub(super) async fn open(
    config: Arc<SessionConfig>,
    dial: Arc<dyn Dial>,
    source: Source,
    unwanted: CancellationToken,
) -> Result<Opened, Failure> {
    let link = tokio::select! {
        biased;
        link = dial.dial(config.call_limits.initialize) => link.map_err(dial_failure)?,
        () = unwanted.cancelled() => return Err(no_longer_wanted()),
    };
    let mut guard = CloseIfDropped(Some(link.connection.peer.clone()));
    let opened = tokio::select! {
        biased;
        opened = open_on(&config, &link, &source) => opened,
        () = unwanted.cancelled() => Err(no_longer_wanted()),
    };
    let opened = match opened {
        Ok((opened, confinement, users, inbox, inbox_sender)) => {
            let running = running_turn(&config, &link, &opened).await;
            let Some(thread_id) = opened.id() else { return Err(no_thread_id()) };
            let running_turn = running.as_ref().map(|turn| turn.id.clone());
            let under_way = running.map(UnderWay::of);
            let rollout = opened.thread.path.map(PathBuf::from);
            Ok(Opened {
                link,
                inbox,
                inbox_sender,
                thread_id,
                rollout,
                running_turn,
                under_way,
                confinement,
                users,
            })
        }
        Err(mut failure) => {
            failure.stderr_tail = link.connection.stderr_tail(config.stderr_tail_lines).await;
            // The error of the opening is returned below.
            if let Err(error) = link.leave().await {
                warn!(error, "the connection of a thread that could not be opened did not end");
            }
            Err(failure)
        }
    };
    guard.0 = None;
    opened
}

/// Closes the connection if the caller stops waiting.
struct CloseIfDropped(Option<Peer>);

impl Drop for CloseIfDropped {
    fn drop(&mut self) {
        if let Some(peer) = &self.0 {
            peer.close();
        }
    }
}

fn no_longer_wanted() -> Failure {
    Failure::new(FailureKind::Closed, "the session was closed before its thread was open")
}

fn dial_failure(error: DialError) -> Failure {
    let message = format!("codex app-server startup failed: {error}");
    let (kind, stderr_tail) = match error {
        DialError::Handshake { stderr_tail, .. } => (FailureKind::Startup, stderr_tail),
        DialError::Unconfined { .. } => (FailureKind::Breach, Vec::new()),
        DialError::Spawn(_) | DialError::Host(_) | DialError::Boot(_) | DialError::Transport(_) => {
            (FailureKind::Startup, Vec::new())
        }
    };
    Failure { stderr_tail, ..Failure::new(kind, message) }
}

/// A thread that was opened within its bounds.
type Within = (ThreadOpened, Confinement, Option<UsersFile>, Inbox, InboxSender);

async fn open_on(config: &SessionConfig, link: &Link, source: &Source) -> Result<Within, Failure> {
    let (sender, inbox) = peer::inbox();
    let users = link.user_config().await.map_err(|error| dial_failure(error.into()))?;
    let mut confinement = config.confinement(link.connection.server.codex_home.as_deref(), &users)?;
    let mut users = UsersFile::begin(link, users, &confinement);
    let settings = config.thread_settings(&confinement);
    let first =
        if is_loaded(config, link, source).await { ThreadSettings::default() } else { settings.clone() };
    let opened = request_open(config, link, source, &first, &sender).await?;
    if opened.is_active() {
        confinement.keep_profile_of(&opened);
    }
    let opened = match (confinement.check_opened(&opened), source) {
        (Ok(()), _) => opened,
        (Err(difference), Source::Resume(thread_id)) => {
            unload(config, &link.connection.peer, thread_id, &opened)
                .await
                .map_err(|()| breach(&difference))?;
            let again = request_open(config, link, source, &settings, &sender).await?;
            confinement.check_opened(&again).map_err(|difference| breach(&difference))?;
            again
        }
        (Err(difference), _) => return Err(breach(&difference)),
    };
    let new_entry = match &mut users {
        Some(users) => users.new_entry(link).await.map_err(|error| dial_failure(error.into()))?,
        None => None,
    };
    match new_entry {
        Some(message) => Err(Failure::new(FailureKind::Breach, message)),
        None => Ok((opened, confinement, users, inbox, sender)),
    }
}

/// Whether the thread to resume is loaded on the server. codex 0.166: a loaded thread keeps the settings of its last
/// opening, and sending settings to it aborts a turn that is just beginning.
async fn is_loaded(config: &SessionConfig, link: &Link, source: &Source) -> bool {
    let Source::Resume(thread_id) = source else { return false };
    let loaded = link.connection.peer.call(&ThreadLoadedList {}, config.call_limits.thread_start).await;
    loaded.is_ok_and(|page| page.data.contains(thread_id))
}

/// Asks Codex to open the thread. Codex refuses this for a moment while a login changes. A refused thread was not
/// created, so the call is repeated.
async fn request_open(
    config: &SessionConfig,
    link: &Link,
    source: &Source,
    settings: &ThreadSettings,
    sender: &InboxSender,
) -> Result<ThreadOpened, Failure> {
    for _ in 1..OPENING_TRIES {
        match request_open_once(config, link, source, settings, sender).await {
            Err(failure) if reads_as_network_withheld(&failure.message) => {
                tokio::time::sleep(OPENING_PAUSE).await;
            }
            opened => return opened,
        }
    }
    request_open_once(config, link, source, settings, sender).await
}

/// Asks Codex to open the thread, and checks the returned thread id.
async fn request_open_once(
    config: &SessionConfig,
    link: &Link,
    source: &Source,
    settings: &ThreadSettings,
    sender: &InboxSender,
) -> Result<ThreadOpened, Failure> {
    let (peer, settings) = (&link.connection.peer, settings.clone());
    let (what, opened) = match source {
        Source::New => {
            let dynamic_tools = (!config.dynamic_tools.is_empty()).then(|| config.dynamic_tools.clone());
            let start = ThreadStart { settings, dynamic_tools };
            ("thread/start", peer.open_thread(&start, config.call_limits.thread_start, sender.clone()).await)
        }
        Source::Resume(thread_id) => {
            // Codex repeats open requests, perhaps before the reply.
            peer.route(thread_id.clone(), sender.clone());
            let resume = ThreadResume {
                thread_id: thread_id.clone(),
                exclude_turns: true,
                initial_turns_page: Some(InitialTurnsPage { limit: 1, items_view: "full" }),
                settings,
            };
            (
                "thread/resume",
                peer.open_thread(&resume, config.call_limits.thread_resume, sender.clone()).await,
            )
        }
        Source::Fork(trunk) => {
            let fork =
                ThreadFork { thread_id: trunk.clone(), last_turn_id: None, exclude_turns: true, settings };
            ("thread/fork", peer.open_thread(&fork, config.call_limits.thread_start, sender.clone()).await)
        }
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => return Err(open_failure(what, &error, source).await),
    };
    let got = opened.id().ok_or_else(no_thread_id)?;
    if let Source::Resume(wanted) = source
        && *wanted != got
    {
        let message = format!("codex opened thread {got} when asked for {wanted}");
        return Err(Failure::new(FailureKind::Protocol, message));
    }
    Ok(opened)
}

/// Unloads a thread, so that the next resume applies the settings. A thread whose turn runs outside of its bounds is
/// interrupted instead, and not used.
async fn unload(
    config: &SessionConfig,
    peer: &Peer,
    thread_id: &ThreadId,
    opened: &ThreadOpened,
) -> Result<(), ()> {
    let (thread_id, limit) = (thread_id.clone(), config.call_limits.interrupt);
    if opened.is_active() {
        let interrupt = TurnInterrupt { thread_id: thread_id.clone(), turn_id: String::new() };
        // The thread is not used, even if the interrupt fails.
        warn!(thread = %thread_id, "the turn of a thread runs outside of its bounds and is interrupted");
        if let Err(error) = peer.call(&interrupt, limit).await {
            error!(thread = %thread_id, %error, "the turn of a thread outside of its bounds could not be interrupted");
        }
        let clean = CleanBackgroundTerminals { thread_id: thread_id.clone() };
        if let Err(error) = peer.call(&clean, limit).await {
            error!(thread = %thread_id, %error, "the background terminals of a thread outside of its bounds could not be ended");
        }
        return Err(());
    }
    let archived = peer.call(&ThreadArchive { thread_id: thread_id.clone() }, limit).await;
    let restored = peer.call(&ThreadUnarchive { thread_id }, limit).await;
    archived.and(restored).map(drop).map_err(drop)
}

/// The failure when the settings in effect differ from those that were sent.
pub(super) fn breach(difference: &Difference) -> Failure {
    Failure::new(FailureKind::Breach, difference.to_string())
}

fn no_thread_id() -> Failure {
    Failure::new(FailureKind::Protocol, "codex app-server startup failed: the reply has no thread id")
}

/// The failure of an opening. If another process has the thread open, that process is named.
async fn open_failure(what: &str, error: &CallError, source: &Source) -> Failure {
    let failure = Failure::of_call(what, error);
    if failure.kind == FailureKind::Auth {
        return failure;
    }
    let message = format!("codex app-server startup failed: {}", failure.message);
    match (error, source) {
        (CallError::Refused(refusal), Source::Resume(thread_id)) if refusal.message.contains(BUSY) => {
            thread_busy(message, thread_id.clone()).await
        }
        _ => Failure::new(FailureKind::Startup, message),
    }
}

async fn thread_busy(message: String, thread_id: ThreadId) -> Failure {
    // Reading all processes blocks.
    let holder = tokio::task::spawn_blocking(move || holder_of(thread_id.as_str())).await.ok().flatten();
    let message = match &holder {
        Some(Holder { pid, command }) => format!("{message}; process {pid} has it open: {command}"),
        None => message,
    };
    Failure::new(FailureKind::ThreadBusy { holder_pid: holder.map(|holder| holder.pid) }, message)
}

async fn running_turn(config: &SessionConfig, link: &Link, opened: &ThreadOpened) -> Option<Turn> {
    if !opened.is_active() {
        return None;
    }
    let page = if let Some(page) = &opened.initial_turns_page {
        page.clone()
    } else {
        let newest = list_turns(opened.id()?, 1);
        link.connection.peer.call(&newest, config.call_limits.thread_start).await.ok()?
    };
    page.data.into_iter().find(|turn| turn.status == TurnStatus::InProgress)
}

/// The newest turns with all their items.
pub(super) fn list_turns(thread_id: ThreadId, limit: u32) -> ThreadTurnsList {
    ThreadTurnsList { thread_id, limit, sort_direction: "desc", items_view: "full" }
}
