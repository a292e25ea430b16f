//! What callers tell a runner, and what is kept of it until the turn can take it.

use std::collections::HashMap;
use std::time::Duration;

use codex_session::{Decider, Decision, RequestKey, Session, SteerOutcome};
use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument, debug};

use crate::bridge::{Bridge, Error, Inner, in_words};
use crate::failpoint;
use crate::request::{RequestName, RequestRecord, RequestState};
use crate::store::Write;
use crate::task::TaskId;

/// Commands that wait for a runner.
pub(crate) const COMMANDS: usize = 32;
/// How long a store that failed is left alone.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// What a runner is told.
pub(crate) enum Command {
    /// Add this to the turn.
    Steer(Steer),
    /// Decide on something that it asks.
    Decide(Decide),
    /// Stop it; `reply` is dropped when it has ended.
    Interrupt { reply: oneshot::Sender<()> },
}

/// What is to be added to a turn.
pub(crate) struct Steer {
    /// The words.
    pub(crate) text: String,
    /// Our name for it, by which it is found in the log once Codex took it.
    pub(crate) client_id: String,
    /// Who says it.
    pub(crate) by: String,
    /// What comes of it.
    pub(crate) reply: oneshot::Sender<SteerOutcome>,
}

/// A decision on a request of a turn.
pub(crate) struct Decide {
    /// Which request.
    pub(crate) request_id: RequestName,
    /// Names what was decided on.
    pub(crate) digest: String,
    /// What is decided, as Codex is to get it.
    pub(crate) decision: Decision,
    /// Who decides.
    pub(crate) by: String,
    /// What was recorded.
    pub(crate) reply: oneshot::Sender<Result<Recorded, Error>>,
}

/// What was recorded of a decision.
pub(crate) enum Recorded {
    /// This; Codex gets it.
    First(RequestRecord),
    /// Nothing: the request is decided on, or closed.
    TooLate(RequestRecord),
}

/// The commands of a runner. They outlive an attempt to run the turn that the store ended.
pub(super) struct Mailbox {
    pub(super) bridge: Bridge,
    pub(super) task_id: TaskId,
    pub(super) commands: mpsc::Receiver<Command>,
    /// Whoever waits for the turn to be stopped.
    pub(super) interrupters: Vec<oneshot::Sender<()>>,
    /// Steers that came before the thread was open. They are added as soon as it is.
    pub(super) early: Vec<Steer>,
    /// Decisions that hold secrets, so that no row has them: each with the digest of what was decided on.
    pub(super) unstored: HashMap<RequestKey, (String, Decision)>,
}

impl Mailbox {
    pub(super) fn new(bridge: Bridge, task_id: TaskId, commands: mpsc::Receiver<Command>) -> Self {
        let (interrupters, early, unstored) = (Vec::new(), Vec::new(), HashMap::new());
        Self { bridge, task_id, commands, interrupters, early, unstored }
    }

    /// Takes a command while there is no session to give it to. Says whether the turn is to stop.
    pub(super) async fn keep(&mut self, command: Command) -> bool {
        match command {
            // A turn that is taken up runs already, and one that is new takes it with its prompt.
            Command::Steer(steer) if self.early.len() < COMMANDS => self.early.push(steer),
            Command::Steer(steer) => drop(steer.reply.send(SteerOutcome::NoActiveTurn)),
            Command::Decide(decide) => self.decide(decide, None).await,
            Command::Interrupt { reply } => {
                self.interrupters.push(reply);
                return true;
            }
        }
        false
    }

    /// Leaves a store that failed alone for a while. Commands are taken meanwhile, so that whoever decides is told of the
    /// failure and does not wait for the store.
    pub(super) async fn pause(&mut self) {
        let pause = tokio::time::sleep(STORE_PAUSE);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                biased;
                () = &mut pause => return,
                Some(command) = self.commands.recv() => drop(self.keep(command).await),
            }
        }
    }

    /// Records a decision, then gives it to the session. If there is no session, or Codex has not asked it yet, the decision is
    /// given when the session tells that Codex asks.
    pub(super) async fn decide(&mut self, decide: Decide, session: Option<&Session>) {
        let recorded = self.record(&decide).await;
        let Decide { decision, reply, .. } = decide;
        if let Ok(Recorded::First(request)) = &recorded {
            if request.sealed_decision.is_none() {
                self.unstored.insert(request.key.clone(), (request.digest.clone(), decision.clone()));
            }
            if let Some(session) = session {
                give(&self.bridge.inner, session, request, decision);
            }
            failpoint::hit("decision.given");
        }
        // Whoever decided may not wait for it.
        reply.send(recorded).ok();
    }

    async fn record(&self, decide: &Decide) -> Result<Recorded, Error> {
        let Decide { request_id, digest, decision, by, .. } = decide;
        let mut request = self.bridge.request(&self.task_id, request_id.as_str()).await?;
        if request.state != RequestState::Open {
            return Ok(Recorded::TooLate(request));
        }
        if request.digest != *digest {
            return Err(Error::AnotherRequest(request.request_id));
        }
        request.state = RequestState::Decided;
        request.decision = Some(in_words(decision).to_owned());
        request.decided_by = Some(by.clone());
        request.decided_at = Some(self.bridge.inner.now());
        if !request.ask.asks_for_secret() {
            let refused = |error: &dyn std::fmt::Display| Error::Refused(error.to_string());
            let plain = serde_json::to_vec(decision).map_err(|error| refused(&error))?;
            let sealed =
                self.bridge.inner.key.seal(&plain, request_id.as_str()).map_err(|error| refused(&error))?;
            request.sealed_decision = Some(sealed);
        }
        let detail = format!("{request_id} {}", request.ask.title);
        let audit = self.bridge.inner.audit(
            by,
            &format!("decide {}", in_words(decision)),
            Some(&self.task_id),
            &detail,
        );
        failpoint::hit("decision.before_record");
        self.bridge.inner.commit(vec![Write::SaveRequest(Box::new(request.clone())), audit]).await?;
        failpoint::hit("decision.recorded");
        Ok(Recorded::First(request))
    }

    /// What was decided on a request and not stored.
    pub(super) fn unstored_decision(&self, request: &RequestRecord) -> Option<Decision> {
        let (digest, decision) = self.unstored.get(&request.key)?;
        (*digest == request.digest).then(|| decision.clone())
    }
}

/// Gives a session what was decided on a request. What Codex makes of it is told as the request's closing. Not waited for:
/// the session waits for the journal, which the caller reads.
pub(super) fn give(inner: &Inner, session: &Session, request: &RequestRecord, decision: Decision) {
    let (session, key, digest) = (session.clone(), request.key.clone(), request.digest.clone());
    let by = Decider::Person(request.decided_by.clone().unwrap_or_default());
    let given = async move {
        let outcome = session.decide(key, digest, decision, by).await;
        debug!(?outcome, "a decision was given to the session");
    };
    inner.spawn(given.in_current_span());
}
