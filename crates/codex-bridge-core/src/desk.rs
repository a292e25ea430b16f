//! The desk: the only way from the doors to the tasks.
//!
//! Each verb is one method: a [`Caller`] and typed parameters in, a typed outcome out. A door only translates. Every
//! verb takes the same steps in the same order:
//!
//! 1. May this caller do it? ([`Caller::may`])
//! 2. Do the operator's rules allow it? ([`admission`]: roots, profiles, sandbox)
//! 3. Is it a repetition? (the caller's name for the request)
//! 4. Record it in the audit log.
//! 5. Do it.
//!
//! For verbs that hand over work, steps 3 to 5 are one transaction of the bridge.

mod administration;
pub mod admission;
mod caller;
pub mod calls;
mod reading;

use std::sync::Arc;

use codex_session::{Decision, SteerOutcome};
use futures_util::future::BoxFuture;
use redact::Redactor;

use crate::bridge::{
    Bridge, Continued, DecisionReport, EndNotice, Error, NewBranch, NotifyMode, RequestSelector, TaskView,
};
use crate::inbox::machine::ChatTurn;
use crate::outbox::Delivery;
use crate::refusal::{Refusal, Rule};
use crate::request::{RequestName, RequestRecord};
use crate::task::{AuthorKind, Task};
use crate::token::Role;
use admission::Rules;
use calls::{Decide, Door, Fork, ONLY_REQUEST, Prompt, Start};

pub use caller::{Caller, Requirement, Verb};
pub use reading::TaskLog;

/// The only way from the doors to the tasks. Clones are cheap.
#[derive(Clone)]
pub struct Desk {
    bridge: Bridge,
    rules: Arc<Rules>,
}

/// A request without redaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revealed {
    /// The request.
    pub request_id: RequestName,
    /// The digest of what is shown.
    pub digest: String,
    /// The whole request.
    pub text: String,
}

impl Desk {
    /// The desk of a bridge.
    pub fn new(bridge: Bridge) -> Self {
        let rules = Arc::new(Rules::of(&bridge.inner.config));
        Self { bridge, rules }
    }

    /// The bridge behind the desk, for work without a caller: channels, upkeep, metrics.
    pub fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    /// The operator's rules for what callers may ask for.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Starts a task. A repeated name gives the task that was started under it, even if the rules have changed.
    pub async fn start(&self, caller: &Caller, mut start: Start) -> Result<TaskView, Error> {
        caller.may(Verb::Start)?;
        if start.prompt.trim().is_empty() {
            return Err(Error::EmptyPrompt);
        }
        start.door = caller.door(start.door);
        start.client_request_id = caller.stored_name(start.client_request_id);
        let named = start.client_request_id.clone().map(|name| (name, start.prompt.clone()));
        let started = match (self.rules().admit(start, caller.author()), named) {
            (Ok(new), _) => self.bridge.start(new).await?,
            (Err(refusal), Some((name, prompt))) => {
                self.bridge.started_under(&name, &prompt).await?.ok_or(refusal)?
            }
            (Err(refusal), None) => return Err(refusal.into()),
        };
        Ok(self.as_seen_by(caller, started))
    }

    /// Continues a finished task with another turn.
    pub async fn continue_task(&self, caller: &Caller, id: &str, turn: Prompt) -> Result<Continued, Error> {
        caller.may(Verb::Continue)?;
        self.within_reach(caller, &self.bridge.find(id).await?)?;
        let name = caller.stored_name(turn.client_request_id);
        let continued =
            self.bridge.continue_once(id, &turn.prompt, name.as_deref(), &caller.author()).await?;
        Ok(Continued { view: self.as_seen_by(caller, continued.view), ..continued })
    }

    /// Forks a finished task.
    pub async fn fork(&self, caller: &Caller, id: &str, fork: Fork) -> Result<TaskView, Error> {
        caller.may(Verb::Fork)?;
        self.within_reach(caller, &self.bridge.find(id).await?)?;
        let prompt = fork.prompt.filter(|prompt| !prompt.trim().is_empty());
        let client_request_id = caller.stored_name(fork.client_request_id);
        let new = NewBranch { prompt, client_request_id, by: caller.author() };
        Ok(self.as_seen_by(caller, self.bridge.fork(id, new).await?))
    }

    /// Adds text to the running turn. Only the owner and approvers can add to a turn that the owner started.
    /// Returns the task once Codex has taken the text.
    pub async fn steer(&self, caller: &Caller, id: &str, text: &str) -> Result<TaskView, Error> {
        match self.steer_as(caller, id, text, None).await? {
            SteerOutcome::Accepted => self.show(caller, id).await,
            refused => Err(Error::NotSteered(refused)),
        }
    }

    /// As [`Desk::steer`], with an id by which the text is found in the log.
    pub(crate) async fn steer_as(
        &self,
        caller: &Caller,
        id: &str,
        text: &str,
        client_id: Option<String>,
    ) -> Result<SteerOutcome, Error> {
        caller.may(Verb::Steer)?;
        let task = self.bridge.find(id).await?;
        self.within_reach(caller, &task)?;
        if caller.role < Role::Approver && task.settings.turn_given_by == AuthorKind::Owner {
            return Err(Refusal {
                rule: Rule::BeyondReach,
                message: "the owner of this machine handed over the running turn: nobody else adds to it"
                    .to_owned(),
                hint: "continue the task when the turn has ended".to_owned(),
            }
            .into());
        }
        self.note(caller, "steer", &task).await?;
        self.bridge.steer(id, text, &caller.author(), client_id).await
    }

    /// Gives a chat message its turn, in one transaction with the message. The settings come from the operator's rules
    /// for the channel, so [`admission`] need not check them.
    pub(crate) async fn take_message(&self, caller: &Caller, turn: ChatTurn) -> Result<(), Error> {
        let is_known = turn.conversation.task_id.is_some();
        caller.may(if is_known { Verb::Continue } else { Verb::Start })?;
        self.bridge.begin_chat_turn(turn, caller.author()).await
    }

    /// Interrupts a task, or only this turn of it. Returns once Codex has confirmed.
    pub async fn interrupt(&self, caller: &Caller, id: &str, turn: Option<u32>) -> Result<TaskView, Error> {
        caller.may(Verb::Interrupt)?;
        self.note(caller, "interrupt", &self.bridge.find(id).await?).await?;
        Ok(self.as_seen_by(caller, self.bridge.interrupt(id, turn).await?))
    }

    /// Releases a finished task's thread for another program.
    pub async fn release(&self, caller: &Caller, id: &str) -> Result<TaskView, Error> {
        caller.may(Verb::Release)?;
        let task_id = self.bridge.find(id).await?.id;
        self.bridge.note(&caller.name, "release", Some(&task_id)).await?;
        Ok(self.as_seen_by(caller, self.bridge.release(id).await?))
    }

    /// Decides on a request; `-` stands for the only open one. The first decision wins: a later one is an error.
    pub async fn decide(
        &self,
        caller: &Caller,
        id: &str,
        request: &str,
        decide: &Decide,
    ) -> Result<DecisionReport, Error> {
        caller.may(Verb::Decide)?;
        let which = match (request, decide.digest.as_deref()) {
            // A caller who decides for others must say what those were shown.
            (ONLY_REQUEST, _) | (_, None) if !caller.is_local() => return Err(Error::DigestMissing),
            (ONLY_REQUEST, _) => RequestSelector::Only,
            (request_id, None) => RequestSelector::Named(request_id),
            (request_id, Some(digest)) if decide.revealed => {
                caller.may(Verb::Reveal)?;
                RequestSelector::Revealed { request_id, digest }
            }
            (request_id, Some(digest)) => RequestSelector::Shown { request_id, digest },
        };
        let decision = decide.read()?;
        if decision == Decision::AcceptAlways && !caller.is_person() {
            return Err(Error::UnknownDecision("acceptAlways is for people, not for agents".to_owned()));
        }
        Ok(self.record_decision(caller, id, which, decision).await?.await?.counted()?)
    }

    /// Stores a decision. The returned future waits until Codex has confirmed it.
    pub(crate) async fn record_decision(
        &self,
        caller: &Caller,
        id: &str,
        which: RequestSelector<'_>,
        decision: Decision,
    ) -> Result<BoxFuture<'static, Result<DecisionReport, Error>>, Error> {
        caller.may(Verb::Decide)?;
        self.bridge.record_decision(id, which, decision, &caller.name).await
    }

    /// Shows a request without redaction.
    pub async fn reveal(&self, caller: &Caller, id: &str, request: &str) -> Result<Revealed, Error> {
        caller.may(Verb::Reveal)?;
        let record = self.bridge.request(&self.bridge.find(id).await?.id, request).await?;
        let text = self.bridge.reveal(&record, &caller.name).await?;
        Ok(Revealed { request_id: record.request_id, digest: record.digest, text })
    }

    /// Reports finished tasks that were not reported before, each once.
    pub async fn notify_ended(
        &self,
        caller: &Caller,
        limit: usize,
        mode: NotifyMode,
    ) -> Result<Vec<EndNotice>, Error> {
        caller.may(Verb::NotifyEnded)?;
        self.bridge.notify_ended(limit, mode, &caller.name).await
    }

    /// Retries a delivery now.
    pub async fn retry_delivery(&self, caller: &Caller, id: &str) -> Result<Delivery, Error> {
        caller.may(Verb::Deliver)?;
        self.bridge.retry_delivery(id, &caller.name).await
    }

    /// Sends one test notice to a target. Returns the platform's id of the message.
    pub async fn test_target(&self, caller: &Caller, target: &str) -> Result<Option<String>, Error> {
        caller.may(Verb::Deliver)?;
        self.bridge.try_target(target, &caller.name).await
    }

    /// Whether a caller may continue or steer a task, which amounts to handing over work in its directory. A caller who
    /// could not have started the task may not. An approver may, because approving is no less powerful, except in a
    /// directory where only the owner may have tasks work.
    fn within_reach(&self, caller: &Caller, task: &Task) -> Result<(), Refusal> {
        // A chat continues and steers only its conversation's task, under the operator's rules. (Decisions do not pass
        // here: a chat also decides on requests of other tasks that were sent to it.)
        if caller.is_owner() || caller.is_in_chat() {
            return Ok(());
        }
        let door = caller.door(Door::Agent);
        self.rules().admit_place_again(&task.settings, door)?;
        if caller.role >= Role::Approver { Ok(()) } else { self.rules().admit_again(&task.settings, door) }
    }

    /// Records who does what, before it is done. What will be refused anyway is not recorded.
    async fn note(&self, caller: &Caller, action: &str, task: &Task) -> Result<(), Error> {
        if task.status.is_finished() && task.parked.is_none() {
            return Ok(());
        }
        self.bridge.note(&caller.name, action, Some(&task.id)).await
    }

    fn as_seen_by(&self, caller: &Caller, mut view: TaskView) -> TaskView {
        self.hide_secrets(caller, &mut view.open_requests);
        view
    }

    /// Redacts the secrets in requests for callers who may not approve. Approvers must see them.
    fn hide_secrets(&self, caller: &Caller, requests: &mut [RequestRecord]) {
        if let Some(redactor) = self.redactor_for(caller) {
            for request in requests {
                request.ask.ask.redact(redactor);
            }
        }
    }

    fn redactor_for(&self, caller: &Caller) -> Option<&Redactor> {
        (caller.role < Role::Approver).then(|| self.bridge.redactor())
    }
}
