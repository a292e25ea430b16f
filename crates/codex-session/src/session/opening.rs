//! Opening a thread: connect, start or resume, check that Codex took the settings.

use std::sync::Arc;

use codex_wire::call::{Page, ThreadOpened, ThreadResume, ThreadStart, ThreadTurnsList};
use codex_wire::peer::{self, CallError, Inbox, InboxSender};
use codex_wire::thread::{Turn, TurnStatus};
use codex_wire::{ThreadId, TurnId};
use serde_json::Value;

use crate::failure::{Failure, FailureKind};
use crate::link::{Dial, Error as DialError, Link};
use crate::settings::SessionConfig;

/// A thread that is open on a connection.
pub(super) struct Opened {
    pub(super) link: Link,
    pub(super) inbox: Inbox,
    pub(super) inbox_sender: InboxSender,
    pub(super) thread_id: ThreadId,
    /// A turn that runs there already.
    pub(super) running_turn: Option<TurnId>,
    /// The sandbox that holds, in the turn's own spelling.
    pub(super) sandbox: Option<Value>,
}

/// Connects and opens: the given thread, or a new one.
pub(super) async fn open(
    config: Arc<SessionConfig>,
    dial: Arc<dyn Dial>,
    thread_id: Option<ThreadId>,
) -> Result<Opened, Failure> {
    let link = dial.dial(config.call_limits.initialize).await.map_err(dial_failure)?;
    match open_on(&config, &link, thread_id).await {
        Ok((opened, inbox, inbox_sender)) => {
            let running_turn = running_turn(&config, &link, &opened).await;
            let Some(thread_id) = opened.id() else { return Err(no_thread_id()) };
            Ok(Opened { link, inbox, inbox_sender, thread_id, running_turn, sandbox: opened.sandbox })
        }
        Err(mut failure) => {
            failure.stderr_tail = link.connection.stderr_tail(config.stderr_tail_lines);
            // The session reports why it could not begin; how its process ends is no news.
            let _ = link.leave().await;
            Err(failure)
        }
    }
}

fn dial_failure(error: DialError) -> Failure {
    let message = format!("codex app-server startup failed: {error}");
    let stderr_tail = match error {
        DialError::Handshake { stderr_tail, .. } => stderr_tail,
        DialError::Spawn(_) | DialError::Host(_) | DialError::Transport(_) => Vec::new(),
    };
    Failure { stderr_tail, ..Failure::new(FailureKind::Startup, message) }
}

async fn open_on(
    config: &SessionConfig,
    link: &Link,
    thread_id: Option<ThreadId>,
) -> Result<(ThreadOpened, Inbox, InboxSender), Failure> {
    let (sender, inbox) = peer::inbox();
    let peer = &link.connection.peer;
    let settings = config.thread_settings();
    let (what, opened) = match &thread_id {
        None => {
            let dynamic_tools = (!config.dynamic_tools.is_empty()).then(|| config.dynamic_tools.clone());
            let start = ThreadStart { settings, dynamic_tools };
            ("thread/start", peer.open_thread(&start, config.call_limits.thread_start, sender.clone()).await)
        }
        Some(thread_id) => {
            // Requests that waited are sent again, perhaps before the reply.
            peer.route(thread_id.clone(), sender.clone());
            let resume = ThreadResume { thread_id: thread_id.clone(), exclude_turns: true, settings };
            (
                "thread/resume",
                peer.open_thread(&resume, config.call_limits.thread_resume, sender.clone()).await,
            )
        }
    };
    let opened = opened.map_err(|error| open_failure(what, &error))?;
    let got = opened.id().ok_or_else(no_thread_id)?;
    if let Some(wanted) = thread_id.filter(|wanted| *wanted != got) {
        let message = format!("codex opened thread {got} when asked for {wanted}");
        return Err(Failure::new(FailureKind::Protocol, message));
    }
    config.check_echo(&opened)?;
    Ok((opened, inbox, sender))
}

fn no_thread_id() -> Failure {
    Failure::new(FailureKind::Protocol, "codex app-server startup failed: the reply has no thread id")
}

/// The words of the refusal, with the holder of the thread if another process has it.
fn open_failure(what: &str, error: &CallError) -> Failure {
    let failure = Failure::of_call(what, error);
    if failure.kind == FailureKind::Auth {
        return failure;
    }
    let message = format!("codex app-server startup failed: {}", failure.message);
    Failure::new(FailureKind::Startup, message)
}

async fn running_turn(config: &SessionConfig, link: &Link, opened: &ThreadOpened) -> Option<TurnId> {
    if opened.thread.status.kind != "active" {
        return None;
    }
    let newest = list_turns(opened.id()?, 1);
    let page: Page<Turn> = link.connection.peer.call(&newest, config.call_limits.thread_start).await.ok()?;
    page.data.into_iter().find(|turn| turn.status == TurnStatus::InProgress).map(|turn| turn.id)
}

/// The newest turns with all their items.
pub(super) fn list_turns(thread_id: ThreadId, limit: u32) -> ThreadTurnsList {
    ThreadTurnsList { thread_id, limit, sort_direction: "desc", items_view: "full" }
}
