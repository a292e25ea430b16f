//! The requests of a turn. Each is answered once, and then taken by Codex or orphaned.

use std::collections::{BTreeMap, HashMap};

use codex_wire::answer::Answer;
use codex_wire::item::{FileChange, Item};
use codex_wire::request::ServerRequest;
use codex_wire::{RequestId, ThreadId};
use serde::{Deserialize, Serialize};

use super::{Decide, DecideOutcome, Effect, Input, Millis, SteerOutcome, Turn, Unheard, warn};
use crate::decision::{Decider, Decision, RequestKey, answer};
use crate::inspection::Inspection;

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "closing")]
pub enum Closing {
    /// Codex took our answer while the turn was running.
    Taken {
        /// What was decided.
        decision: Decision,
        /// Who decided.
        by: Decider,
    },
    /// Codex no longer waits, but not because of our answer: another client answered.
    AnsweredElsewhere,
    /// The turn or the host ended first. It is unknown whether a decision took effect.
    Orphaned {
        /// What had been decided, if anything.
        decision: Option<Decision>,
    },
}

impl Closing {
    /// The same without typed answers, which may be secret.
    #[must_use]
    pub fn without_answers(self) -> Self {
        match self {
            Self::Taken { decision, by } => Self::Taken { decision: decision.without_answers(), by },
            Self::Orphaned { decision } => {
                Self::Orphaned { decision: decision.map(Decision::without_answers) }
            }
            Self::AnsweredElsewhere => Self::AnsweredElsewhere,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<RequestKey, Open>,
    /// Running file changes by thread and item: the approval request does not contain them.
    patches: HashMap<(ThreadId, String), FileChange>,
}

#[derive(Debug)]
struct Open {
    request: Box<ServerRequest>,
    /// The digest of what a decision covers.
    digest: String,
    /// The file change that it is about, in its state when the request came.
    patch: Option<Box<FileChange>>,
    /// The result of its inspection; `None` until it is known.
    inspection: Option<Inspection>,
    /// When the time to answer ends. It is counted from the moment a person is asked.
    deadline: Option<Millis>,
    given: Option<Given>,
}

/// An answer, kept in case the same host asks again.
#[derive(Debug)]
struct Given {
    answer: Answer,
    decided: Option<(Decision, Decider)>,
    /// Whether it was sent; not without a connection.
    is_sent: bool,
}

/// An approval of an escalation counts once. If it were accepted for the session, codex 0.166 would let the command leave the
/// sandbox again without asking.
fn once(request: &ServerRequest, decision: &Decision) -> Decision {
    match (request, decision) {
        (ServerRequest::Permissions(_), decision) => decision.clone(),
        (_, Decision::AcceptForSession | Decision::AcceptAlways) => Decision::Accept,
        (_, decision) => decision.clone(),
    }
}

impl Requests {
    /// Whether an answer of a person is awaited.
    pub(super) fn wait_for_people(&self) -> bool {
        self.open.values().any(|open| open.given.is_none() && open.request.is_for_a_person())
    }

    pub(super) fn next_deadline(&self) -> Option<Millis> {
        self.open.values().filter(|open| open.given.is_none()).filter_map(|open| open.deadline).min()
    }

    fn keys_of(&self, is_meant: impl Fn(&Open) -> bool) -> Vec<RequestKey> {
        self.open.iter().filter(|(_, open)| is_meant(open)).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn remember_patch(&mut self, thread_id: &ThreadId, item: &Item) {
        if let Item::FileChange(patch) = item
            && let Some(id) = &patch.id
        {
            self.patches.insert((thread_id.clone(), id.clone()), patch.clone());
        }
    }

    pub(super) fn forget_patch(&mut self, thread_id: &ThreadId, item: &Item) {
        if let Item::FileChange(patch) = item
            && let Some(id) = &patch.id
        {
            self.patches.remove(&(thread_id.clone(), id.clone()));
        }
    }

    /// Closes all open requests, at the end of the turn.
    pub(super) fn orphan_all(&mut self, effects: &mut Vec<Effect>) {
        for key in self.keys_of(|_| true) {
            self.orphan(&key, effects);
        }
    }

    fn orphan(&mut self, key: &RequestKey, effects: &mut Vec<Effect>) {
        let Some(open) = self.open.remove(key).filter(|open| open.request.is_for_a_person()) else { return };
        let decision = open.given.and_then(|given| given.decided).map(|(decision, _)| decision);
        effects.push(Effect::RequestClosed { key: key.clone(), closing: Closing::Orphaned { decision } });
    }
}

impl Turn {
    /// The file change that a request is about, if it is known.
    fn patch_of(&self, request: &ServerRequest) -> Option<Box<FileChange>> {
        let ServerRequest::FileChange(approval) = request else { return None };
        let thread_id = request.thread_id().unwrap_or_else(|| self.thread_id.clone());
        self.requests.patches.get(&(thread_id, approval.item_id.clone())).cloned().map(Box::new)
    }

    pub(super) fn on_request(
        &mut self,
        id: RequestId,
        request: Box<ServerRequest>,
        now: Millis,
        effects: &mut Vec<Effect>,
    ) {
        self.clock.active(now);
        self.tool_result_at = None;
        self.unheard = Unheard::default();
        let key = RequestKey { epoch: self.epoch.clone(), id };
        let patch = self.patch_of(&request);
        let digest = request.digest(patch.as_deref());
        match self.requests.open.get(&key) {
            // The same host repeats its request after a reconnect: give the same answer, or keep waiting.
            Some(open) if open.digest == digest => return self.send_answer(&key, effects),
            // Another request under a used key: the old decision does not apply to it.
            Some(_) => self.requests.orphan(&key, effects),
            None => {}
        }
        if let ServerRequest::Unknown { method, .. } = &*request {
            warn(format!("refused an unknown request of Codex: {method}"), effects);
            return effects.push(Effect::Answer { key, answer: Answer::unknown_method(method) });
        }
        let open = Open {
            request: request.clone(),
            digest: digest.clone(),
            patch: patch.clone(),
            inspection: None,
            deadline: None,
            given: None,
        };
        self.requests.open.insert(key.clone(), open);
        if !request.is_for_a_person() {
            return effects.push(Effect::AskProgram { key, request });
        }
        if Inspection::is_needed(&request) {
            return effects.push(Effect::Inspect { key, digest, request, patch });
        }
        self.on_inspected(&key, &digest, Inspection::default(), now, effects);
    }

    /// The inspection is done, so the request can be decided. The first decision counts.
    pub(super) fn on_inspected(
        &mut self,
        key: &RequestKey,
        digest: &str,
        inspection: Inspection,
        now: Millis,
        effects: &mut Vec<Effect>,
    ) {
        let limit_ms =
            self.policy.answer_limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let Some(open) = self.requests.open.get_mut(key) else { return };
        let is_awaited = open.inspection.is_none() && open.given.is_none() && open.request.is_for_a_person();
        if open.digest != digest || !is_awaited {
            return;
        }
        open.inspection = Some(inspection.clone());
        open.deadline = limit_ms.map(|limit| now.saturating_add(limit));
        let (key, request, patch) = (key.clone(), open.request.clone(), open.patch.clone());
        if let Some((decision, reason)) = self.policy.standing_decision(&request, &inspection) {
            return self.decide(&key, &decision, Decider::Policy(reason), effects);
        }
        if self.someone_answers {
            return effects.push(Effect::Ask { key, request, patch, inspection });
        }
        let method = request.method();
        warn(format!("declined {method}: nobody is here to answer"), effects);
        let nobody = Decider::Policy("nobody is here to answer".to_owned());
        self.decide(&key, &Decision::Decline, nobody, effects);
    }

    /// The outcome of a decision. The first one counts, only for the request that was shown, and only after the request
    /// was inspected.
    pub fn outcome_of(&self, decide: &Decide) -> DecideOutcome {
        match self.requests.open.get(&decide.key).filter(|open| open.inspection.is_some()) {
            None => DecideOutcome::NotOpen,
            Some(open) if open.digest != decide.digest => DecideOutcome::AnotherRequest,
            Some(open) if open.given.is_some() => DecideOutcome::AlreadyDecided,
            Some(_) => DecideOutcome::Given,
        }
    }

    pub(super) fn on_decide(&mut self, decide: Decide, effects: &mut Vec<Effect>) {
        if self.outcome_of(&decide) == DecideOutcome::Given {
            self.decide(&decide.key, &decide.decision, decide.by, effects);
        }
    }

    fn decide(&mut self, key: &RequestKey, decision: &Decision, by: Decider, effects: &mut Vec<Effect>) {
        if let Some(open) = self.requests.open.get(key)
            && open.given.is_none()
        {
            let is_wider = open.inspection.as_ref().is_none_or(|it| it.escalation.counts());
            let decision = if is_wider { once(&open.request, decision) } else { decision.clone() };
            let answer = answer(&open.request, &decision, self.policy.allow_permanent_rules);
            self.give(key, answer, Some((decision, by)), effects);
        }
    }

    /// The first answer counts, and only to a request that is not for people.
    pub(super) fn on_program_answer(&mut self, key: &RequestKey, answer: Answer, effects: &mut Vec<Effect>) {
        let is_open = |open: &Open| open.given.is_none() && !open.request.is_for_a_person();
        if self.requests.open.get(key).is_some_and(is_open) {
            self.give(key, answer, None, effects);
        }
    }

    fn give(
        &mut self,
        key: &RequestKey,
        answer: Answer,
        decided: Option<(Decision, Decider)>,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(open) = self.requests.open.get_mut(key) {
            open.given = Some(Given { answer, decided, is_sent: false });
            self.send_answer(key, effects);
        }
    }

    /// Sends the answer to a request, if there is an answer and a connection.
    fn send_answer(&mut self, key: &RequestKey, effects: &mut Vec<Effect>) {
        if self.is_attached()
            && let Some(given) = self.requests.open.get_mut(key).and_then(|open| open.given.as_mut())
        {
            given.is_sent = true;
            effects.push(Effect::Answer { key: key.clone(), answer: given.answer.clone() });
        }
    }

    /// Sends decisions that were made without a connection. Requests that the host repeats are answered again anyway,
    /// but requests of sub-agents are not repeated and would wait for ever.
    pub(super) fn send_unsent_answers(&mut self, effects: &mut Vec<Effect>) {
        let is_unsent = |open: &Open| open.given.as_ref().is_some_and(|given| !given.is_sent);
        for key in self.requests.keys_of(is_unsent) {
            self.send_answer(&key, effects);
        }
    }

    pub(super) fn on_resolved(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        let key = RequestKey { epoch: self.epoch.clone(), id: id.clone() };
        let Some(open) = self.requests.open.remove(&key).filter(|open| open.request.is_for_a_person()) else {
            return;
        };
        // Requests that are not for people are not reported.
        let closing = match open.given.filter(|given| given.is_sent).and_then(|given| given.decided) {
            Some((decision, by)) => Closing::Taken { decision, by },
            None => Closing::AnsweredElsewhere,
        };
        effects.push(Effect::RequestClosed { key, closing });
    }

    pub(super) fn expire_requests(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        let is_due =
            |open: &Open| open.given.is_none() && open.deadline.is_some_and(|deadline| now >= deadline);
        for key in self.requests.keys_of(is_due) {
            self.decide(&key, &Decision::Decline, Decider::TimeLimit, effects);
        }
    }

    /// The turn was abandoned and may still run: its open requests are declined, if the host can be reached.
    pub(super) fn refuse_open_requests(&self, effects: &mut Vec<Effect>) {
        let unanswered = self.requests.open.iter().filter(|(_, open)| open.given.is_none());
        for (key, open) in unanswered.filter(|(key, _)| self.is_attached() && key.epoch == self.epoch) {
            effects.push(Effect::Answer { key: key.clone(), answer: Answer::fail_closed(&open.request) });
        }
    }

    /// After the end nobody is asked, but requests of a living host are still refused.
    pub(super) fn refuse_after_end(&self, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Request { id, request } if self.is_attached() => {
                let key = RequestKey { epoch: self.epoch.clone(), id };
                effects.push(Effect::Answer { key, answer: Answer::fail_closed(&request) });
            }
            Input::Steer { token, .. } => {
                effects.push(Effect::Steered { token, outcome: SteerOutcome::NoActiveTurn });
            }
            _ => {}
        }
    }
}
