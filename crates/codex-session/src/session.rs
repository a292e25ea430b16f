//! A Codex session: one thread, driven turn by turn. The handle is cheap to clone; an actor behind it owns
//! everything, so that a turn, a steer, a decision and an interrupt never wait for each other.

use std::sync::Arc;

use codex_wire::call::UserInput;
use codex_wire::{Epoch, ThreadId, TurnId};
use tokio::sync::{broadcast, mpsc, oneshot};
use tracing::{Instrument, warn};

use crate::approver::Approver;
use crate::decision::{Decider, Decision, RequestKey};
use crate::failure::{Failure, FailureKind};
use crate::link::Dial;
use crate::narration::SessionEvent;
use crate::result::{TurnOutcome, TurnResult};
use crate::settings::{SessionConfig, TurnOptions};
use crate::turn::{Decide, DecideOutcome, SteerOutcome};

mod actor;
mod inspecting;
mod opening;
mod performing;
mod running;
mod watching;

use opening::Source;

/// Commands that wait for the actor.
const COMMANDS: usize = 64;
/// Events that a slow listener may be behind before it misses some.
const EVENTS: usize = 4096;

/// One Codex thread, driven turn by turn.
///
/// A session that should be retired (its process died, its login expired, a turn timed out) is replaced by the next
/// turn by itself: the thread is taken up again on a fresh connection.
///
/// ```no_run
/// use codex_session::{OwnCodex, Session, SessionConfig, TurnOptions};
/// use codex_wire::transport::stdio::Spawn;
///
/// # async fn example(env: std::collections::BTreeMap<String, String>) -> Result<(), codex_session::Failure> {
/// let config = SessionConfig::new("/home/me/project");
/// let session = Session::start(config, OwnCodex(Spawn::new("codex", env)), None).await?;
/// let result = session.run_turn("What does this project do?", TurnOptions::default()).await;
/// println!("{}", result.final_text);
/// session.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    commands: mpsc::Sender<Command>,
    events: broadcast::Sender<SessionEvent>,
    config: Arc<SessionConfig>,
    dial: Arc<dyn Dial>,
    approver: Option<Arc<dyn Approver>>,
}

/// What the actor is told.
enum Command {
    Open { reply: oneshot::Sender<Result<ThreadId, Failure>> },
    Run { job: Job, options: Box<TurnOptions>, reply: oneshot::Sender<TurnResult> },
    Steer { input: Vec<UserInput>, client_id: Option<String>, reply: oneshot::Sender<SteerOutcome> },
    Decide { decide: Decide, reply: oneshot::Sender<DecideOutcome> },
    Interrupt,
    Standing { reply: oneshot::Sender<Standing> },
    Close { reply: oneshot::Sender<()> },
}

/// What a turn is for.
enum Job {
    Prompt(Vec<UserInput>),
    /// Take up the turn that already runs.
    Join,
    Compact,
}

/// How a session stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// The thread, once open.
    pub thread_id: Option<ThreadId>,
    /// A turn that ran when the thread was taken up and that nobody here has joined yet.
    pub unjoined_turn: Option<TurnId>,
    /// The process id of a Codex of the session's own, while it runs.
    pub child_pid: Option<u32>,
    /// The start of the server that the thread is open on.
    pub epoch: Option<Epoch>,
    /// The host that the thread is open on, if it is on one.
    pub host: Option<String>,
}

/// The events of a session, from the moment of asking on.
pub struct Events(broadcast::Receiver<SessionEvent>);

impl Events {
    /// The next event; none when the session is gone. A listener that is too slow is told how much it missed.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(count)) => {
                warn!(count, "a slow reader of a session missed events");
                Some(SessionEvent::Missed { count })
            }
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl Session {
    /// A session that connects when it is first used.
    pub fn new(config: SessionConfig, dial: impl Dial, approver: Option<Arc<dyn Approver>>) -> Self {
        Self::with_thread(Arc::new(config), Arc::new(dial), approver, Source::New)
    }

    /// A session with a new thread, connected.
    pub async fn start(
        config: SessionConfig,
        dial: impl Dial,
        approver: Option<Arc<dyn Approver>>,
    ) -> Result<Self, Failure> {
        let session = Self::new(config, dial, approver);
        session.open().await?;
        Ok(session)
    }

    /// A session that takes up a thread. If a turn runs there, [`Session::join_turn`] takes it up too; what it asks
    /// waits until then.
    pub async fn resume(
        config: SessionConfig,
        dial: impl Dial,
        approver: Option<Arc<dyn Approver>>,
        thread_id: ThreadId,
    ) -> Result<Self, Failure> {
        let session =
            Self::with_thread(Arc::new(config), Arc::new(dial), approver, Source::Resume(thread_id));
        session.open().await?;
        Ok(session)
    }

    fn with_thread(
        config: Arc<SessionConfig>,
        dial: Arc<dyn Dial>,
        approver: Option<Arc<dyn Approver>>,
        source: Source,
    ) -> Self {
        let (commands, queue) = mpsc::channel(COMMANDS);
        let (events, _) = broadcast::channel(EVENTS);
        let session = Self { commands, events, config, dial, approver };
        let actor = actor::Actor::new(&session, queue, source);
        tokio::spawn(actor.run().in_current_span());
        session
    }

    /// Connects and opens the thread, unless that has been done.
    pub async fn open(&self) -> Result<ThreadId, Failure> {
        self.ask(|reply| Command::Open { reply }).await.unwrap_or_else(|| Err(closed()))
    }

    /// Sends a prompt and waits for the end of its turn. Never fails otherwise than in the result.
    pub async fn run_turn(&self, input: impl Into<Prompt>, options: TurnOptions) -> TurnResult {
        self.run(Job::Prompt(input.into().0), options).await
    }

    /// Takes up the turn that ran when the session was resumed, and waits for its end.
    pub async fn join_turn(&self, options: TurnOptions) -> TurnResult {
        self.run(Job::Join, options).await
    }

    /// Has the thread's history summarised.
    pub async fn compact(&self, options: TurnOptions) -> TurnResult {
        self.run(Job::Compact, options).await
    }

    async fn run(&self, job: Job, options: TurnOptions) -> TurnResult {
        let cancel = options.cancel.clone();
        if cancel.as_ref().is_some_and(tokio_util::sync::CancellationToken::is_cancelled) {
            return TurnResult::not_begun(TurnOutcome::Interrupted, None);
        }
        let turn = self.ask(|reply| Command::Run { job, options: Box::new(options), reply });
        tokio::pin!(turn);
        let result = match cancel {
            Some(cancel) => tokio::select! {
                biased;
                result = &mut turn => result,
                () = cancel.cancelled() => {
                    self.interrupt().await;
                    turn.await
                }
            },
            None => turn.await,
        };
        result.unwrap_or_else(|| TurnResult::not_begun(TurnOutcome::Failed, Some(closed())))
    }

    /// Adds to the running turn. A turn that is about to run gets it as soon as it does.
    pub async fn steer(&self, input: impl Into<Prompt>) -> SteerOutcome {
        self.steer_as(input, None).await
    }

    /// The same, under a name of the caller's own: that Codex took it is told as [`SessionEvent::Heard`].
    pub async fn steer_as(&self, input: impl Into<Prompt>, client_id: Option<String>) -> SteerOutcome {
        let (reply, outcome) = oneshot::channel();
        if self.commands.send(Command::Steer { input: input.into().0, client_id, reply }).await.is_err() {
            return SteerOutcome::NoActiveTurn;
        }
        // It may have been sent by then.
        outcome.await.unwrap_or_else(|_| SteerOutcome::unknown("the session was closed"))
    }

    /// Decides on what Codex asks, as [`SessionEvent::Asked`] told it: `key` names the request and `digest`
    /// ([`Ask::digest`](crate::Ask::digest)) what it asks. The first decision counts. That Codex took it is told as
    /// [`SessionEvent::RequestClosed`].
    pub async fn decide(
        &self,
        key: RequestKey,
        digest: impl Into<String>,
        decision: Decision,
        by: Decider,
    ) -> DecideOutcome {
        let decide = Decide { key, digest: digest.into(), decision, by };
        // A session that is gone runs no turn.
        self.ask(|reply| Command::Decide { decide, reply }).await.unwrap_or(DecideOutcome::NotOpen)
    }

    /// Stops the running turn, also one that has not begun yet. The turn's result tells when it has stopped.
    pub async fn interrupt(&self) {
        // A session that is gone runs nothing.
        self.commands.send(Command::Interrupt).await.ok();
    }

    /// Branches the thread: a session of its own that knows everything up to now.
    pub async fn fork(&self) -> Result<Session, Failure> {
        let trunk = self.standing().await.thread_id.ok_or_else(|| {
            Failure::new(FailureKind::Configuration, "the session has no open thread to fork")
        })?;
        let session = Self::with_thread(
            Arc::clone(&self.config),
            Arc::clone(&self.dial),
            self.approver.clone(),
            Source::Fork(trunk),
        );
        session.open().await?;
        Ok(session)
    }

    /// How the session stands.
    pub async fn standing(&self) -> Standing {
        self.ask(|reply| Command::Standing { reply }).await.unwrap_or_default()
    }

    /// What happens from now on.
    pub fn events(&self) -> Events {
        Events(self.events.subscribe())
    }

    /// Ends the session: a running turn ends with it as far as this side is concerned, a Codex of its own ends, a
    /// host goes on. Safe to call again.
    pub async fn close(&self) {
        self.ask(|reply| Command::Close { reply }).await;
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.ok()?;
        answer.await.ok()
    }
}

/// What a turn is told: words, pictures, or both.
pub struct Prompt(pub Vec<UserInput>);

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self(vec![UserInput::text(text)])
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self(vec![UserInput::text(text)])
    }
}

impl From<Vec<UserInput>> for Prompt {
    fn from(input: Vec<UserInput>) -> Self {
        Self(input)
    }
}

fn closed() -> Failure {
    Failure::new(FailureKind::Closed, "the session is closed")
}

/// 128 random bits in hex.
pub(crate) fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
