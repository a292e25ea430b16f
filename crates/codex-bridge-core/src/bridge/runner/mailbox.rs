//! The commands of callers to a runner. They are kept until the turn can take them.

use std::collections::HashMap;
use std::time::Duration;

use codex_session::{Decider, Decision, RequestKey, Session, SteerOutcome};
use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument, debug};

use crate::bridge::{Bridge, Error, Inner};
use crate::failpoint;
use crate::request::{DecisionWord, RequestName, RequestRecord, RequestState};
use crate::store::Write;
use crate::task::TaskId;

/// How many commands may wait for a runner.
pub(crate) const COMMANDS: usize = 32;
/// The pause after the store has failed.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// A command to a runner.
pub(crate) enum Command {
    /// Add text to the turn.
    Steer(Steer),
    /// Decide on a request of the turn.
    Decide(Decide),
    /// Interrupt the turn. `reply` is dropped when the turn has ended.
    Interrupt { reply: oneshot::Sender<()> },
}

/// Text to add to a turn.
pub(crate) struct Steer {
    pub(crate) text: String,
    /// The bridge's id of the text, by which it is found in the log.
    pub(crate) client_id: String,
    pub(crate) by: String,
    pub(crate) reply: oneshot::Sender<SteerOutcome>,
}

/// A decision on a request of a turn.
pub(crate) struct Decide {
    pub(crate) request_id: RequestName,
    /// The digest of what was decided on.
    pub(crate) digest: String,
    /// The decision in the form for Codex.
    pub(crate) decision: Decision,
    pub(crate) by: String,
    pub(crate) reply: oneshot::Sender<Result<Recorded, Error>>,
}

/// What was stored of a decision.
pub(crate) enum Recorded {
    /// The decision. Codex gets it.
    First(RequestRecord),
    /// Nothing, because the request is already decided or closed.
    TooLate(RequestRecord),
}

/// The commands to a runner. They survive when a failing store makes the runner start over.
pub(super) struct Mailbox {
    pub(super) bridge: Bridge,
    pub(super) task_id: TaskId,
    pub(super) commands: mpsc::Receiver<Command>,
    /// The callers who wait for the end of the turn.
    pub(super) interrupters: Vec<oneshot::Sender<()>>,
    /// Steers that came before the thread was open. They are added once it is.
    pub(super) early: Vec<Steer>,
    /// Decisions that contain secrets and are not stored, with the digest of what was decided on.
    pub(super) unstored: HashMap<RequestKey, (String, Decision)>,
}

/// The callers of steers that were never sent hear so.
impl Drop for Mailbox {
    fn drop(&mut self) {
        self.commands.close();
        let queued = std::iter::from_fn(|| self.commands.try_recv().ok());
        let queued = queued.filter_map(|command| match command {
            Command::Steer(steer) => Some(steer),
            Command::Decide(_) | Command::Interrupt { .. } => None,
        });
        for steer in std::mem::take(&mut self.early).into_iter().chain(queued) {
            // The caller may be gone.
            steer.reply.send(SteerOutcome::NoActiveTurn).ok();
        }
    }
}

impl Mailbox {
    pub(super) fn new(bridge: Bridge, task_id: TaskId, commands: mpsc::Receiver<Command>) -> Self {
        let (interrupters, early, unstored) = (Vec::new(), Vec::new(), HashMap::new());
        Self { bridge, task_id, commands, interrupters, early, unstored }
    }

    /// Takes a command while there is no session. Returns whether the turn must stop.
    pub(super) async fn keep(&mut self, command: Command) -> bool {
        match command {
            // A resumed turn already runs. A new turn takes the text with its prompt.
            Command::Steer(steer) if self.early.len() < COMMANDS => self.early.push(steer),
            Command::Steer(steer) => drop(steer.reply.send(SteerOutcome::NoActiveTurn)),
            Command::Decide(decide) => {
                self.decide(decide, None).await;
            }
            Command::Interrupt { reply } => {
                self.interrupters.push(reply);
                return true;
            }
        }
        false
    }

    /// Pauses after the store has failed. Takes commands meanwhile, so that callers hear of the failure at once.
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

    /// Stores a decision, then gives it to the session. Without a session, or before Codex asks, the decision is given
    /// when the session reports the request. Returns whether the decision may be stored although the store failed.
    pub(super) async fn decide(&mut self, decide: Decide, session: Option<&Session>) -> bool {
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
        let is_in_doubt = matches!(recorded, Err(Error::Store(_)));
        // The caller may be gone.
        reply.send(recorded).ok();
        is_in_doubt
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
        let word = DecisionWord::from(decision);
        request.decision = Some(word.clone());
        request.decided_by = Some(by.clone());
        request.decided_at = Some(self.bridge.inner.now());
        if !request.ask.asks_for_secret() {
            let plain = serde_json::to_vec(decision).map_err(|error| Error::Refused(error.to_string()))?;
            request.sealed_decision = Some(self.bridge.inner.key.seal(&plain, request_id.as_str())?);
        }
        let detail = format!("{request_id} {}", request.ask.title);
        let action = format!("decide {}", word.as_str());
        let audit = self.bridge.inner.audit(by, &action, Some(&self.task_id), &detail);
        failpoint::hit("decision.before_record");
        self.bridge.inner.commit(vec![Write::SaveRequest(Box::new(request.clone())), audit]).await?;
        failpoint::hit("decision.recorded");
        Ok(Recorded::First(request))
    }

    /// A decision on this request that was not stored.
    pub(super) fn unstored_decision(&self, request: &RequestRecord) -> Option<Decision> {
        let (digest, decision) = self.unstored.get(&request.key)?;
        (*digest == request.digest).then(|| decision.clone())
    }
}

/// Gives a decision to the session, which later reports the closing of the request. Does not wait for it: the session
/// waits for the journal, which the caller reads.
pub(super) fn give(inner: &Inner, session: &Session, request: &RequestRecord, decision: Decision) {
    let (session, key, digest) = (session.clone(), request.key.clone(), request.digest.clone());
    let by = Decider::Person(request.decided_by.clone().unwrap_or_default());
    let given = async move {
        let outcome = session.decide(key, digest, decision, by).await;
        debug!(?outcome, "a decision was given to the session");
    };
    inner.spawn(given.in_current_span());
}
