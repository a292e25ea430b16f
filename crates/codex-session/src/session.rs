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
use crate::result::{TurnOutcome, TurnResult};
use crate::session_event::SessionEvent;
use crate::settings::{SessionConfig, TurnOptions};
use crate::turn::{Decide, DecideOutcome, SteerOutcome};

mod actor;
mod bounds_watch;
mod effects;
mod inspect;
mod open;
mod running_turn;

use open::Source;

/// Most commands that wait for the actor.
const COMMANDS: usize = 64;
/// Most events that wait for a slow listener. Further ones are missed.
const EVENTS: usize = 4096;

/// One Codex thread, driven turn by turn.
///
/// After the process died, the login expired or a turn timed out, the next turn resumes the thread on a new connection
/// by itself.
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

/// A command for the actor.
enum Command {
    Open { reply: oneshot::Sender<Result<ThreadId, Failure>> },
    Run { job: Job, options: Box<TurnOptions>, reply: oneshot::Sender<TurnResult> },
    Steer { input: Vec<UserInput>, client_id: Option<String>, reply: oneshot::Sender<SteerOutcome> },
    Decide { decide: Decide, reply: oneshot::Sender<DecideOutcome> },
    Interrupt,
    Status { reply: oneshot::Sender<SessionStatus> },
    Close { reply: oneshot::Sender<()> },
}

/// What a turn does.
enum Job {
    Prompt(Vec<UserInput>),
    /// Joins the turn that already runs.
    Join,
    Compact,
}

/// The state of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionStatus {
    /// The thread, once open.
    pub thread_id: Option<ThreadId>,
    /// A turn that ran when the thread was resumed, and that [`Session::join_turn`] has not joined yet.
    pub unjoined_turn: Option<TurnId>,
    /// The process id of the session's own Codex, while it runs.
    pub child_pid: Option<u32>,
    /// The epoch of the server that the thread is open on.
    pub epoch: Option<Epoch>,
    /// The id of the host that the thread is open on, if there is one.
    pub host: Option<String>,
}

/// The events of a session from a moment on.
pub struct Events(broadcast::Receiver<SessionEvent>);

impl Events {
    /// The next event; `None` when the session has ended. [`SessionEvent::Missed`] counts the events that a slow
    /// listener missed.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(count)) => {
                warn!(count, "a slow listener of a session missed events");
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

    /// A session that resumes a thread. If a turn runs on it, [`Session::join_turn`] joins the turn; its requests wait
    /// until then.
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

    /// Sends a prompt and waits for the end of its turn. A failure is in the result.
    pub async fn run_turn(&self, input: impl Into<Prompt>, options: TurnOptions) -> TurnResult {
        self.run(Job::Prompt(input.into().0), options).await
    }

    /// Joins the turn that ran when the session was resumed, and waits for its end.
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

    /// Adds a message to the running turn. A turn that is starting gets it as soon as it runs.
    pub async fn steer(&self, input: impl Into<Prompt>) -> SteerOutcome {
        self.steer_as(input, None).await
    }

    /// The same with an id of the caller. [`SessionEvent::Heard`] with this id reports that Codex took the message.
    pub async fn steer_as(&self, input: impl Into<Prompt>, client_id: Option<String>) -> SteerOutcome {
        let (reply, outcome) = oneshot::channel();
        if self.commands.send(Command::Steer { input: input.into().0, client_id, reply }).await.is_err() {
            return SteerOutcome::NoActiveTurn;
        }
        // The steer may have been sent before the session was closed.
        outcome.await.unwrap_or_else(|_| SteerOutcome::Unconfirmed("the session was closed".to_owned()))
    }

    /// Decides on a request from [`SessionEvent::Asked`]. `key` names the request, and `digest`
    /// ([`Ask::digest`](crate::Ask::digest)) its content. The first decision counts. [`SessionEvent::RequestClosed`]
    /// reports that Codex took it.
    pub async fn decide(
        &self,
        key: RequestKey,
        digest: impl Into<String>,
        decision: Decision,
        by: Decider,
    ) -> DecideOutcome {
        let decide = Decide { key, digest: digest.into(), decision, by };
        // A session that has ended runs no turn.
        self.ask(|reply| Command::Decide { decide, reply }).await.unwrap_or(DecideOutcome::NotOpen)
    }

    /// Stops the running turn, also one that has not begun yet. The turn's result is the proof that it has stopped.
    pub async fn interrupt(&self) {
        // A session that has ended runs no turn.
        self.commands.send(Command::Interrupt).await.ok();
    }

    /// Forks the thread: a new session with the history up to now.
    pub async fn fork(&self) -> Result<Session, Failure> {
        let trunk = self.status().await.thread_id.ok_or_else(|| {
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

    /// The current state of the session.
    pub async fn status(&self) -> SessionStatus {
        self.ask(|reply| Command::Status { reply }).await.unwrap_or_default()
    }

    /// The events from now on.
    pub fn events(&self) -> Events {
        Events(self.events.subscribe())
    }

    /// Ends the session. A running turn gets a result at once. The session's own Codex ends; a host, and the turn on
    /// it, goes on. Safe to call again.
    pub async fn close(&self) {
        self.ask(|reply| Command::Close { reply }).await;
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.ok()?;
        answer.await.ok()
    }
}

/// The content of a prompt: text, images, or both.
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
