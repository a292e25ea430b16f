//! Watches a turn from outside and fails when a rule is broken.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use codex_wire::Epoch;
use codex_wire::event::Event;

use super::super::{
    Closing, Decide, DecideOutcome, Effect, Input, Millis, Notice, Outgoing, Plan, Reply, SteerOutcome, Turn,
};
use crate::decision::RequestKey;

#[derive(Debug)]
pub(super) struct Witness {
    now: Millis,
    epoch: Epoch,
    is_attached: bool,
    has_ended: bool,
    /// Whether the time that a decision takes can be told from outside.
    sees_decisions: bool,
    worked_ms: Millis,
    /// Questions to people that are open, with what each asks.
    asked: BTreeMap<RequestKey, String>,
    undecided: BTreeSet<RequestKey>,
    /// Requests that are being looked at, with their digests.
    inspected: BTreeSet<(RequestKey, String)>,
    /// How often each request came, and was answered.
    came: HashMap<RequestKey, u32>,
    answered: HashMap<RequestKey, u32>,
    resolved: HashSet<RequestKey>,
    starts: u32,
    lists_since_start: u32,
    steers: HashMap<u64, bool>,
    told: HashSet<String>,
}

impl Witness {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            now: 0,
            epoch: plan.epoch.clone(),
            is_attached: true,
            has_ended: false,
            sees_decisions: plan.policy.answer_limit.is_none(),
            worked_ms: 0,
            asked: BTreeMap::new(),
            undecided: BTreeSet::new(),
            inspected: BTreeSet::new(),
            came: HashMap::new(),
            answered: HashMap::new(),
            resolved: HashSet::new(),
            starts: 0,
            lists_since_start: 0,
            steers: HashMap::new(),
            told: HashSet::new(),
        }
    }

    /// What is about to come in.
    pub(super) fn hear(&mut self, turn: &Turn, input: &Input, now: Millis) {
        if self.is_attached && self.undecided.is_empty() {
            self.worked_ms += now - self.now;
        }
        self.now = now;
        match input {
            Input::Request { id, .. } => {
                let key = RequestKey { epoch: self.epoch.clone(), id: id.clone() };
                *self.came.entry(key).or_default() += 1;
            }
            Input::Event { event: Event::RequestResolved(id), .. } => {
                self.resolved.insert(RequestKey { epoch: self.epoch.clone(), id: id.clone() });
            }
            Input::Decide(decide) => self.hear_decision(decide, turn.outcome_of(decide)),
            Input::Inspected { key, digest, .. } if self.inspected.remove(&(key.clone(), digest.clone())) => {
                self.undecided.remove(key);
            }
            Input::Steer { token, .. } => drop(self.steers.insert(*token, false)),
            Input::Reply(Reply::Turns(_)) => self.lists_since_start += 1,
            Input::Lost(_) if !self.has_ended => self.is_attached = false,
            Input::Attached { epoch } if !self.has_ended => {
                self.is_attached = true;
                self.epoch = epoch.clone();
            }
            _ => {}
        }
    }

    /// What the turn wants done.
    pub(super) fn see(&mut self, turn: &Turn, effects: &[Effect]) {
        for effect in effects {
            self.see_one(effect);
        }
        assert_eq!(turn.has_ended(), self.has_ended);
        if let Some(deadline) = turn.next_deadline(self.now) {
            assert!(deadline > self.now, "a deadline in the past: {deadline} at {}", self.now);
        }
        if self.has_ended {
            assert!(self.asked.is_empty(), "asked for ever: {:?}", self.asked);
            let forgotten = self.steers.iter().find(|(_, has_outcome)| !**has_outcome);
            assert_eq!(forgotten, None, "a steer without an outcome");
        } else if self.sees_decisions {
            assert_eq!(turn.clock.worked_ms(self.now), self.worked_ms, "the clock counts what is not work");
        }
    }

    fn see_one(&mut self, effect: &Effect) {
        let is_refusal = matches!(effect, Effect::Answer { .. })
            || matches!(effect, Effect::Steered { outcome: SteerOutcome::NoActiveTurn, .. });
        assert!(!self.has_ended || is_refusal, "after the end: {effect:?}");
        match effect {
            Effect::Call(call) => self.see_call(call),
            Effect::Answer { key, .. } => {
                assert!(self.is_attached, "an answer without a connection");
                assert_eq!(key.epoch, self.epoch, "an answer to another epoch");
                let answered = self.answered.entry(key.clone()).or_default();
                *answered += 1;
                assert!(*answered <= self.came[key], "answered more often than asked: {key:?}");
                self.undecided.remove(key);
            }
            Effect::Inspect { key, digest, .. } => {
                self.inspected.insert((key.clone(), digest.clone()));
                self.undecided.insert(key.clone());
            }
            Effect::Ask { key, request, patch, .. } => {
                let digest = request.digest(patch.as_deref());
                assert_eq!(self.asked.insert(key.clone(), digest), None, "asked twice: {key:?}");
                self.undecided.insert(key.clone());
            }
            Effect::RequestClosed { key, closing } => {
                self.asked.remove(key);
                self.undecided.remove(key);
                self.inspected.retain(|(of, _)| of != key);
                if matches!(closing, Closing::Taken { .. }) {
                    assert!(self.resolved.contains(key), "taken before Codex said so");
                    assert!(self.answered.contains_key(key), "taken without an answer");
                }
            }
            Effect::Steered { token, .. } => {
                let had_outcome = self.steers.insert(*token, true);
                assert_eq!(had_outcome, Some(false), "one outcome for each steer");
            }
            Effect::End(_) => self.has_ended = true,
            Effect::DrainHost => assert!(self.is_attached),
            Effect::Tell(Notice::Happened(Event::ItemCompleted(item))) => {
                let name = format!("{} {:?}", item.type_name(), item.id());
                assert!(self.told.insert(name), "told twice: {item:?}");
            }
            Effect::AskProgram { .. } | Effect::Tell(_) | Effect::HangUp | Effect::Reconnect => {}
        }
    }

    fn hear_decision(&mut self, decide: &Decide, outcome: DecideOutcome) {
        let (key, asked) = (&decide.key, self.asked.get(&decide.key));
        match outcome {
            DecideOutcome::Given => {
                assert_eq!(asked, Some(&decide.digest), "a decision on something else: {key:?}");
                self.undecided.remove(key);
            }
            // Nobody is asked where there is a standing decision.
            DecideOutcome::AlreadyDecided => assert!(asked.is_none_or(|asked| *asked == decide.digest)),
            DecideOutcome::AnotherRequest => assert_ne!(asked, Some(&decide.digest), "just this is asked"),
            DecideOutcome::NotOpen => assert_eq!(asked, None, "it is open: {key:?}"),
        }
    }

    fn see_call(&mut self, call: &Outgoing) {
        assert!(self.is_attached, "a call without a connection: {call:?}");
        if let Outgoing::Start(_) = call {
            assert!(self.starts == 0 || self.lists_since_start >= 2, "sent again without two looks");
            self.starts += 1;
            self.lists_since_start = 0;
        }
    }
}
