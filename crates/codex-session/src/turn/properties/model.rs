//! A small world around a turn: a host, the wire to it and people, at their best and at their worst.

use std::collections::VecDeque;

use codex_wire::answer::Answer;
use codex_wire::escalation::Escalation;
use codex_wire::event::Event;
use codex_wire::peer::CallError;
use codex_wire::request::ServerRequest;
use codex_wire::thread::TurnStatus;
use codex_wire::{Epoch, RequestId, ThreadId};
use proptest::sample::Index;

use super::super::tests::{closed, message, prompt_item, refused, steer, timed_out, wire_turn};
use super::super::{Begin, Decide, Effect, Input, Loss, Millis, Outgoing, Plan, Reply, Turn};
use super::host::{Host, ToHost, asks, told};
use super::witness::Witness;
use crate::decision::{Decider, Decision, RequestKey};
use crate::result::{TurnOutcome, TurnResult};

/// Longest way of a prompt through a living host that was seen.
const LATE_MS: Millis = 60;

/// Something that happens.
#[derive(Debug, Clone)]
pub(super) enum Op {
    /// The next message of the host arrives.
    Deliver,
    /// The host takes the next message of ours.
    HostTakes,
    /// The next call has no reply in time.
    TimesOut { takes: bool },
    /// The host refuses the next call.
    HostRefuses,
    /// The accepted turn becomes active.
    Announces,
    /// An item begins or completes.
    Works(u8),
    /// Events that are not of our turn, and events twice.
    Noise,
    /// The host asks.
    HostAsks { request: Box<ServerRequest>, by_text: bool },
    /// The host's turn ends.
    HostEnds(TurnStatus),
    /// Another client answers.
    AnsweredElsewhere,
    /// A person decides, perhaps again.
    Decides { decision: Decision, which: Index },
    /// A person decides on a request of another epoch.
    DecidesForeign,
    /// A person decides on something else than what a request asks.
    DecidesUnseen(Index),
    /// It is found out what a request asks for.
    FindsOut(Escalation),
    /// The program answers.
    ProgramAnswers,
    /// Stop.
    Interrupt,
    /// Steer.
    Steer,
    /// Time passes.
    Passes(Millis),
    /// The connection breaks. The bits say which messages of ours arrived before.
    Disconnect { taken: u8, late: bool },
    /// It comes back.
    Reconnect,
    /// The host dies; perhaps another stands in its place before we know.
    HostDies { replaced: bool },
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) turn: Turn,
    witness: Witness,
    now: Millis,
    is_connected: bool,
    is_reconnecting: bool,
    to_host: VecDeque<ToHost>,
    late: Vec<(Millis, ToHost)>,
    to_us: VecDeque<Input>,
    /// Calls whose reply has not arrived.
    unreplied: Vec<Outgoing>,
    host: Option<Host>,
    epochs: u32,
    /// Requests that people were asked, with their digests, and those of the program.
    asked: Vec<(RequestKey, String)>,
    asked_program: Vec<RequestKey>,
    /// Requests that are being looked at, with their digests.
    inspected: Vec<(RequestKey, String)>,
    steers: u64,
}

impl World {
    fn new(plan: Plan) -> Self {
        let mut effects = Vec::new();
        let mut host = Host::new();
        if matches!(plan.begin, Begin::Attach(_)) {
            host.begin_turn(vec![prompt_item("c1")]);
            host.is_announced = true;
        }
        let witness = Witness::new(&plan);
        let turn = Turn::begin(plan, 0, &mut effects);
        let mut world = Self {
            turn,
            witness,
            now: 0,
            is_connected: true,
            is_reconnecting: false,
            to_host: VecDeque::new(),
            late: Vec::new(),
            to_us: VecDeque::new(),
            unreplied: Vec::new(),
            host: Some(host),
            epochs: 1,
            asked: Vec::new(),
            asked_program: Vec::new(),
            inspected: Vec::new(),
            steers: 0,
        };
        world.witness.see(&world.turn, &effects);
        world.perform(effects);
        world
    }

    /// A world in which all of it happened.
    pub(super) fn played(plan: Plan, script: Vec<Op>) -> Self {
        let mut world = Self::new(plan);
        for op in script {
            world.play(op);
        }
        world
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.witness.hear(&self.turn, &input, self.now);
        self.turn.step(input, self.now, &mut effects);
        self.witness.see(&self.turn, &effects);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Call(call) => {
                    self.unreplied.push(call.clone());
                    self.to_host.push_back(ToHost::Call(call));
                }
                Effect::Answer { key, answer } => self.to_host.push_back(ToHost::Answer(key.id, answer)),
                Effect::Inspect { key, digest, .. } => self.inspected.push((key, digest)),
                Effect::Ask { key, request, patch, .. } => {
                    self.asked.push((key, request.digest(patch.as_deref())));
                }
                Effect::AskProgram { key, .. } => self.asked_program.push(key),
                // No host is lost by it, and nothing that it took.
                Effect::HangUp => self.disconnect(0, false),
                Effect::Reconnect => self.is_reconnecting = true,
                Effect::End(result) => {
                    self.is_reconnecting = false;
                    self.assert_told_truly(&result);
                }
                _ => {}
            }
        }
    }

    pub(super) fn play(&mut self, op: Op) {
        match op {
            Op::Deliver => self.deliver(),
            Op::HostTakes => self.host_takes(),
            Op::TimesOut { takes } => self.fail_call(takes, timed_out()),
            Op::HostRefuses => self.fail_call(false, refused("not now")),
            Op::Announces => self.host_does(Host::announce),
            Op::Works(kind) => self.host_does(|host| host.work(kind)),
            Op::Noise => self.noise(),
            Op::HostAsks { request, by_text } => self.host_does(|host| host.ask(*request, by_text)),
            Op::HostEnds(status) => self.host_does(|host| host.end_turn(status)),
            Op::AnsweredElsewhere => self.host_does(Host::answered_elsewhere),
            Op::Decides { decision, which } => self.decide(decision, which),
            Op::DecidesForeign => self.decide_foreign(),
            Op::DecidesUnseen(which) => self.decide_unseen(which),
            Op::FindsOut(escalation) => self.find_out(escalation),
            Op::ProgramAnswers => self.program_answers(),
            Op::Interrupt => self.step(Input::Interrupt),
            Op::Steer => {
                self.steers += 1;
                self.step(steer(self.steers));
            }
            Op::Passes(pause) => self.pass(pause),
            Op::Disconnect { taken, late } => self.disconnect(taken, late),
            Op::Reconnect => self.reconnect(),
            Op::HostDies { replaced } => self.host_dies(replaced),
        }
    }

    fn deliver(&mut self) {
        let Some(input) = self.to_us.pop_front() else { return };
        if let Input::Reply(reply) = &input
            && let Some(position) = self.unreplied.iter().position(|call| is_reply_to(reply, call))
        {
            self.unreplied.remove(position);
        }
        self.step(input);
    }

    fn host_takes(&mut self) {
        if let (Some(host), Some(message)) = (&mut self.host, self.to_host.pop_front()) {
            self.to_us.extend(host.take(message));
        }
    }

    /// The next call fails, whether or not the host took it.
    fn fail_call(&mut self, takes: bool, error: CallError) {
        let Some(ToHost::Call(call)) = self.to_host.front() else { return self.host_takes() };
        let failed = reply_error(call, error);
        let message = self.to_host.pop_front();
        if let (true, Some(host), Some(message)) = (takes, &mut self.host, message) {
            let told = host.take(message);
            self.to_us.extend(told.into_iter().filter(|input| !matches!(input, Input::Reply(_))));
        }
        self.to_us.extend(failed.map(Input::Reply));
    }

    fn host_does(&mut self, act: impl FnOnce(&mut Host) -> Vec<Input>) {
        if let Some(host) = &mut self.host {
            let told = act(host);
            if self.is_connected {
                self.to_us.extend(told);
            }
        }
    }

    fn noise(&mut self) {
        if let (true, Some(host)) = (self.is_connected, &self.host) {
            let again = host.turns.last().filter(|turn| turn.status != TurnStatus::InProgress).cloned();
            let stale = wire_turn("stale", TurnStatus::Completed, vec![message("s", "stale")]);
            self.to_us.extend(again.map(|turn| told(&turn.id.0.clone(), Event::TurnCompleted(turn))));
            self.to_us.push_back(told("stale", Event::TurnCompleted(stale.clone())));
            let child = ThreadId::from("child");
            let turn_id = Some(stale.id.clone());
            self.to_us.push_back(Input::Event {
                thread_id: Some(child),
                turn_id,
                event: Event::TurnCompleted(stale),
            });
        }
    }

    fn decide(&mut self, decision: Decision, which: Index) {
        if !self.asked.is_empty() {
            let asked = which.get(&self.asked).clone();
            self.decide_on(asked, decision);
        }
    }

    fn decide_on(&mut self, (key, digest): (RequestKey, String), decision: Decision) {
        let by = Decider::Person("ann".to_owned());
        self.step(Input::Decide(Decide { key, digest, decision, by }));
    }

    fn decide_foreign(&mut self) {
        let key = RequestKey { epoch: Epoch::from("e0"), id: RequestId::Number(0) };
        self.decide_on((key, String::new()), Decision::Accept);
    }

    fn decide_unseen(&mut self, which: Index) {
        if !self.asked.is_empty() {
            let (key, _) = which.get(&self.asked).clone();
            self.decide_on((key, "something else".to_owned()), Decision::Accept);
        }
    }

    fn find_out(&mut self, escalation: Escalation) {
        if let Some((key, digest)) = self.inspected.pop() {
            self.step(Input::Inspected { key, digest, inspection: escalation.into() });
        }
    }

    fn program_answers(&mut self) {
        if let Some(key) = self.asked_program.pop() {
            self.step(Input::ProgramAnswered { key, answer: Answer::unknown_method("x") });
        }
    }

    fn pass(&mut self, pause: Millis) {
        self.now += pause;
        self.take_late();
        self.step(Input::Time);
    }

    fn take_late(&mut self) {
        let now = self.now;
        for (_, message) in self.late.extract_if(.., |(due, _)| now >= *due) {
            if let Some(host) = &mut self.host {
                let told = host.take(message);
                let events = told.into_iter().filter(|input| !matches!(input, Input::Reply(_)));
                if self.is_connected {
                    self.to_us.extend(events);
                }
            }
        }
    }

    fn disconnect(&mut self, taken: u8, late: bool) {
        if !std::mem::take(&mut self.is_connected) {
            return;
        }
        self.to_us.clear();
        for (index, message) in std::mem::take(&mut self.to_host).into_iter().enumerate() {
            // Messages arrive in order: up to the first that does not.
            if index >= usize::from(taken % 8) {
                break;
            }
            if late {
                self.late.push((self.now + LATE_MS, message));
            } else if let Some(host) = &mut self.host {
                host.take(message);
            }
        }
        self.fail_unreplied();
        self.step(Input::Lost(Loss::HostLives));
    }

    fn fail_unreplied(&mut self) {
        for call in std::mem::take(&mut self.unreplied) {
            if let Some(reply) = reply_error(&call, closed()) {
                self.step(Input::Reply(reply));
            }
        }
    }

    fn reconnect(&mut self) {
        if self.is_connected || !std::mem::take(&mut self.is_reconnecting) {
            return;
        }
        self.is_connected = true;
        if let Some(host) = &self.host {
            self.to_us.extend(host.pending.iter().map(|(id, request)| asks(id.clone(), request.clone())));
        } else {
            self.host = Some(Host::new());
            self.epochs += 1;
        }
        self.step(Input::Attached { epoch: Epoch(format!("e{}", self.epochs)) });
    }

    fn host_dies(&mut self, replaced: bool) {
        if self.host.is_none() && !self.is_reconnecting {
            return;
        }
        self.to_host.clear();
        self.to_us.clear();
        self.late.clear();
        let was_connected = std::mem::take(&mut self.is_connected);
        self.fail_unreplied();
        if !replaced {
            self.is_reconnecting = false;
            self.step(Input::Lost(Loss::HostGone("killed".to_owned())));
        } else if was_connected {
            self.step(Input::Lost(Loss::HostLives));
        }
        self.host = None;
    }

    /// Everyone does what is left to do, in a few seconds.
    pub(super) fn settle(&mut self) {
        let until = self.now + 15_000;
        loop {
            self.reconnect();
            self.pass(1);
            while !(self.to_us.is_empty() && self.to_host.is_empty()) {
                self.host_takes();
                self.deliver();
            }
            self.decide_all();
            let is_quiet = self.to_us.is_empty() && self.to_host.is_empty() && self.late.is_empty();
            match self.turn.next_deadline(self.now) {
                Some(deadline) if is_quiet && deadline <= until => self.pass(deadline - self.now),
                _ if is_quiet && (self.is_connected || !self.is_reconnecting) => return,
                _ => {}
            }
        }
    }

    fn decide_all(&mut self) {
        while !self.inspected.is_empty() {
            self.find_out(Escalation::Unknown);
        }
        for asked in std::mem::take(&mut self.asked) {
            self.decide_on(asked, Decision::Decline);
        }
        while !self.asked_program.is_empty() {
            self.program_answers();
        }
    }

    pub(super) fn assert_nothing_waits(&self) {
        if let (true, Some(host)) = (self.is_connected, &self.host) {
            assert!(host.pending.is_empty(), "unanswered: {self:?}");
        }
    }

    /// The host's turn runs and completes, if there is one.
    pub(super) fn finish(&mut self) {
        self.host_does(Host::announce);
        self.settle();
        self.host_does(|host| host.end_turn(TurnStatus::Completed));
        self.settle();
    }

    /// Nothing comes any more but the ends of the calls, for an hour.
    pub(super) fn fall_silent(&mut self) {
        let until = self.now + 3_600_000;
        for _ in 0..200 {
            self.to_us.clear();
            self.to_host.clear();
            for call in std::mem::take(&mut self.unreplied) {
                if let Some(reply) = reply_error(&call, timed_out()) {
                    self.step(Input::Reply(reply));
                }
            }
            match self.turn.next_deadline(self.now) {
                Some(deadline) if deadline <= until => self.pass(deadline - self.now),
                _ if self.unreplied.is_empty() => return,
                _ => {}
            }
        }
        panic!("too busy for a silent host: {self:?}");
    }

    /// Nobody is told `completed` unless it is.
    fn assert_told_truly(&self, result: &TurnResult) {
        if result.outcome == TurnOutcome::Completed {
            let turns = self.host.iter().flat_map(|host| &host.turns);
            let own = turns.filter(|turn| Some(&turn.id) == result.turn_id.as_ref());
            assert!(
                own.into_iter().any(|turn| turn.status == TurnStatus::Completed),
                "not completed: {self:?}"
            );
        }
    }

    pub(super) fn assert_prompted_once(&self) {
        if let Some(host) = &self.host {
            assert!(host.prompts <= 1, "prompted twice: {self:?}");
        }
    }
}

fn reply_error(call: &Outgoing, error: CallError) -> Option<Reply> {
    Some(match call {
        Outgoing::Start(_) => Reply::Start(Err(error)),
        Outgoing::Compact => Reply::Compact(Err(error)),
        Outgoing::Steer { token, .. } => Reply::Steer { token: *token, result: Err(error) },
        Outgoing::ListTurns => Reply::Turns(Err(error)),
        Outgoing::Interrupt { .. } | Outgoing::CleanTerminals => return None,
    })
}

fn is_reply_to(reply: &Reply, call: &Outgoing) -> bool {
    match (reply, call) {
        (Reply::Start(_), Outgoing::Start(_))
        | (Reply::Compact(_), Outgoing::Compact)
        | (Reply::Turns(_), Outgoing::ListTurns) => true,
        (Reply::Steer { token, .. }, Outgoing::Steer { token: sent, .. }) => token == sent,
        _ => false,
    }
}
