//! The life of one turn, as a pure machine: no clock, no IO, no async. Time enters as a number, what is to be done
//! leaves as [`Effect`]s, so that every rule below can be tested by the thousand interleavings.
//!
//! The rules:
//! - Only `turn/completed` for this very thread and turn, or the end of the host, ends a turn. The end is final.
//! - Silence warns. It stops a turn only under a limit that someone set, and no clock runs while a person is asked.
//! - A request is answered once, in the epoch that asked, and counts as taken only when Codex says so while the
//!   turn still runs.
//! - Whatever may have happened unseen (a lost connection, a prompt in flight) is looked up before it is repeated.
//!
//! What a message looks like on the wire is `codex-wire`'s business; talking to people is the session's.

use codex_wire::call::{TurnStart, UserInput};
use codex_wire::event::Event;
use codex_wire::item::Item;
use codex_wire::peer::CallError;
use codex_wire::thread::{TokenUsage, TurnError};
use codex_wire::{Epoch, ThreadId, TurnId};

use crate::failure::{Failure, FailureKind};
use crate::policy::ApprovalPolicy;
use crate::projection::{Echo, Projector};

mod clock;
mod ending;
mod interface;
mod looking;
mod requests;
mod stopping;

use clock::WorkClock;
pub use interface::{Begin, Effect, Input, Limits, Loss, Notice, Outgoing, Plan, Reply, SteerOutcome};
use looking::CatchUp;
pub use requests::Closing;
use requests::Requests;
use stopping::Stop;
pub use stopping::StopCause;

/// Milliseconds on a monotonic clock of the caller's choice.
pub type Millis = u64;

/// Events that may come before the reply that tells our turn's id.
const EARLY_EVENTS: usize = 256;
/// How long a lost connection to a living host may take to come back.
const RECONNECT_LIMIT: Millis = 30_000;
/// How long after an agent message that is nothing but an abort marker the turn is read back.
const ABORT_MARKER_QUIET: Millis = 2_000;

#[derive(Debug)]
enum Phase {
    /// Looking whether the prompt is already there.
    Looking { start: Box<TurnStart>, looks_left: u8, next_look: Option<Millis> },
    /// The call is out.
    Starting,
    /// Codex took the prompt; the turn is not active yet.
    Accepted(TurnId),
    /// The turn runs.
    Active(TurnId),
    /// Over.
    Ended,
}

/// One turn.
#[derive(Debug)]
pub struct Turn {
    thread_id: ThreadId,
    epoch: Epoch,
    phase: Phase,
    is_compaction: bool,
    /// The prompt, to look for after a lost connection.
    prompt: Option<Box<TurnStart>>,
    limits: Limits,
    policy: ApprovalPolicy,
    someone_answers: bool,
    requests: Requests,
    clock: WorkClock,
    stop: Option<Stop>,
    /// Since when there is no connection.
    detached_since: Option<Millis>,
    catch_up: Option<CatchUp>,
    early: Vec<(Option<TurnId>, Event)>,
    waiting_steers: Vec<(u64, Vec<UserInput>)>,
    abort_marker_at: Option<Millis>,
    tool_result_at: Option<Millis>,
    last_error: Option<TurnError>,
    resets_at: Option<i64>,
    usage: Option<TokenUsage>,
    projector: Projector,
}

impl Turn {
    /// Begins a turn. The connection stands and the thread is open.
    pub fn begin(plan: Plan, now: Millis, effects: &mut Vec<Effect>) -> Self {
        let Plan { thread_id, epoch, begin, limits, policy, someone_answers } = plan;
        let mut turn = Self {
            projector: Projector::new(thread_id.as_str()),
            thread_id,
            epoch,
            phase: Phase::Starting,
            is_compaction: matches!(begin, Begin::Compact),
            prompt: None,
            limits,
            policy,
            someone_answers,
            requests: Requests::default(),
            clock: WorkClock::new(now),
            stop: None,
            detached_since: None,
            catch_up: None,
            early: Vec::new(),
            waiting_steers: Vec::new(),
            abort_marker_at: None,
            tool_result_at: None,
            last_error: None,
            resets_at: None,
            usage: None,
        };
        turn.start(begin, effects);
        turn
    }

    fn start(&mut self, begin: Begin, effects: &mut Vec<Effect>) {
        match begin {
            Begin::Prompt(start) => {
                self.expect_echo(&start);
                self.prompt = Some(start.clone());
                effects.push(Effect::Call(Outgoing::Start(start)));
            }
            Begin::PromptOnce { start, host_lives } => {
                self.expect_echo(&start);
                self.prompt = Some(start);
                self.look_for_prompt(host_lives, effects);
            }
            Begin::Attach(turn_id) => {
                self.phase = Phase::Active(turn_id);
                self.begin_catch_up(effects);
            }
            Begin::Compact => effects.push(Effect::Call(Outgoing::Compact)),
        }
    }

    fn expect_echo(&mut self, start: &TurnStart) {
        self.projector
            .submitted(Echo { client_id: start.client_user_message_id.clone(), text: text_of(&start.input) });
    }

    /// Takes an input and says what is to be done.
    pub fn step(&mut self, input: Input, now: Millis, effects: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Ended) {
            return self.refuse_after_end(input, effects);
        }
        match input {
            Input::Event { thread_id, turn_id, event } => {
                self.on_event(thread_id, turn_id, event, now, effects)
            }
            Input::Request { id, request } => self.on_request(id, request, now, effects),
            Input::Reply(reply) => self.on_reply(reply, now, effects),
            Input::Decided { key, decision, by } => self.on_decision(&key, &decision, by, effects),
            Input::ProgramAnswered { key, answer } => self.on_program_answer(&key, answer, effects),
            Input::Steer { token, input } => self.on_steer(token, input, effects),
            Input::Interrupt => self.stop(StopCause::User, now, effects),
            Input::Lost(loss) => self.on_lost(loss, now, effects),
            Input::Attached { epoch } => self.on_attached(epoch, effects),
            Input::Time => {}
        }
        self.on_time(now, effects);
        self.clock.run(self.is_working(), now);
    }

    /// Whether the turn is over.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// The turn's id, once Codex told it.
    pub fn turn_id(&self) -> Option<&TurnId> {
        match &self.phase {
            Phase::Accepted(turn_id) | Phase::Active(turn_id) => Some(turn_id),
            Phase::Looking { .. } | Phase::Starting | Phase::Ended => None,
        }
    }

    /// When [`Input::Time`] is due, if nothing else comes before.
    pub fn next_deadline(&self, now: Millis) -> Option<Millis> {
        if self.has_ended() {
            return None;
        }
        let next_look = match &self.phase {
            Phase::Looking { next_look, .. } => *next_look,
            _ => None,
        };
        [
            self.limits.work_ms.and_then(|limit| self.clock.work_reaches(limit, now)),
            self.limits.idle_ms.and_then(|limit| self.clock.idle_reaches(limit)),
            self.quiet_deadline(),
            self.abort_marker_at.map(|at| at + ABORT_MARKER_QUIET),
            self.detached_since.map(|since| since + RECONNECT_LIMIT),
            self.stop.as_ref().and_then(Stop::until),
            self.requests.next_deadline(),
            next_look,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether Codex could be working: connected, and not waiting for a person.
    fn is_working(&self) -> bool {
        self.detached_since.is_none() && !self.requests.wait_for_people()
    }

    fn on_time(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.has_ended() {
            return;
        }
        self.clock.run(self.is_working(), now);
        self.expire_requests(now, effects);
        self.check_limits(now, effects);
        self.climb_if_due(now, effects);
        self.check_abort_marker(now, effects);
        self.look_again_if_due(now, effects);
        if self.detached_since.is_some_and(|since| now >= since + RECONNECT_LIMIT) {
            self.end_lost("the connection to a living host did not come back", effects);
        }
    }

    fn check_limits(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.stop.is_none() && !self.has_ended() {
            if let Some(limit) = self.limits.work_ms.filter(|limit| self.clock.worked_ms(now) >= *limit) {
                self.stop(StopCause::WorkLimit(limit), now, effects);
            } else if let Some(limit) = self.limits.idle_ms.filter(|limit| self.clock.idle_ms(now) >= *limit)
            {
                self.stop(StopCause::IdleLimit(limit), now, effects);
            }
        }
        if self.quiet_deadline().is_some_and(|deadline| now >= deadline) {
            let seconds = self.limits.quiet_after_tool_ms.unwrap_or_default() / 1000;
            self.tool_result_at = None;
            effects
                .push(Effect::Tell(Notice::Warning(format!("silent for {seconds} s after a tool result"))));
        }
    }

    fn quiet_deadline(&self) -> Option<Millis> {
        let since = self.tool_result_at.filter(|_| self.is_working())?;
        Some(since + self.limits.quiet_after_tool_ms?)
    }

    fn on_event(
        &mut self,
        thread_id: Option<ThreadId>,
        turn_id: Option<TurnId>,
        event: Event,
        now: Millis,
        effects: &mut Vec<Effect>,
    ) {
        if thread_id.as_ref().is_some_and(|thread_id| *thread_id != self.thread_id) {
            // A sub-agent's thread. It never ends or feeds our turn, but it is our turn's work.
            if let Event::RequestResolved(id) = &event {
                self.on_resolved(id, effects);
            }
            return self.clock.active(now);
        }
        if let Event::RequestResolved(id) = &event {
            self.on_resolved(id, effects);
        }
        if let Some(catch_up) = &mut self.catch_up {
            return catch_up.hold_back(turn_id, event);
        }
        match &self.phase {
            Phase::Looking { .. } => {}
            Phase::Starting if self.is_compaction && matches!(event, Event::TurnStarted(_)) => {
                self.accept(event_turn(&event).unwrap_or_else(|| TurnId(String::new())), now, effects);
                self.take_event(event, now, effects);
            }
            Phase::Starting if turn_id.is_some() => {
                if self.early.len() < EARLY_EVENTS {
                    self.early.push((turn_id, event));
                }
            }
            Phase::Accepted(own) | Phase::Active(own)
                if turn_id.as_ref().is_some_and(|turn_id| turn_id != own) => {}
            Phase::Starting | Phase::Accepted(_) | Phase::Active(_) => self.take_event(event, now, effects),
            Phase::Ended => {}
        }
    }

    /// An event of this very turn, or of no turn.
    fn take_event(&mut self, event: Event, now: Millis, effects: &mut Vec<Effect>) {
        if !matches!(event, Event::RateLimits(_) | Event::ThreadStatus(_)) {
            self.clock.active(now);
            self.tool_result_at = None;
            self.abort_marker_at = None;
        }
        let mut completed = None;
        match &event {
            Event::TurnStarted(_) => self.activate(now, effects),
            Event::ItemStarted(item) => {
                self.requests.remember_patch(item);
                self.projector.start(item);
            }
            Event::ItemCompleted(item) => self.complete_item(item, now),
            Event::TokenUsage(usage) => self.usage = Some(usage.clone()),
            Event::Error { error, will_retry: false } => self.last_error = Some(error.clone()),
            Event::RateLimits(limits) => self.resets_at = limits.resets_at().or(self.resets_at),
            Event::Compacted => self.projector.note_compaction(),
            Event::TurnCompleted(turn) => completed = Some(turn.clone()),
            _ => {}
        }
        effects.push(Effect::Tell(Notice::Happened(event)));
        if let Some(turn) = completed {
            self.end_as_reported(turn, effects);
        }
    }

    fn complete_item(&mut self, item: &Item, now: Millis) {
        self.requests.forget_patch(item);
        let projected = self.projector.complete(item);
        if projected.is_tool_iteration {
            self.tool_result_at = Some(now);
        }
        if let Item::AgentMessage(message) = item
            && is_abort_marker(&message.text)
        {
            self.abort_marker_at = Some(now);
        }
    }

    fn on_reply(&mut self, reply: Reply, now: Millis, effects: &mut Vec<Effect>) {
        match reply {
            Reply::Start(Ok(turn_id)) => self.accept(turn_id, now, effects),
            Reply::Start(Err(error)) => self.on_start_failed("turn/start", error, effects),
            Reply::Compact(Ok(())) => {}
            Reply::Compact(Err(error)) => self.on_start_failed("thread/compact/start", error, effects),
            Reply::Steer { token, result } => self.on_steer_reply(token, result, effects),
            Reply::Turns(result) => self.on_turns(result, now, effects),
        }
    }

    /// The turn's id is known.
    fn accept(&mut self, turn_id: TurnId, now: Millis, effects: &mut Vec<Effect>) {
        if !matches!(self.phase, Phase::Starting | Phase::Looking { .. }) {
            return;
        }
        self.projector.name_turn(turn_id.as_str());
        self.phase = Phase::Accepted(turn_id);
        self.await_activity_to_stop(now);
        for (turn_id, event) in std::mem::take(&mut self.early) {
            if self.turn_id() == turn_id.as_ref() {
                self.take_event(event, now, effects);
            }
        }
    }

    /// The turn runs: what waited for it can go out.
    fn activate(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        let Phase::Accepted(turn_id) = &self.phase else { return };
        self.phase = Phase::Active(turn_id.clone());
        for (token, input) in std::mem::take(&mut self.waiting_steers) {
            self.on_steer(token, input, effects);
        }
        self.interrupt_if_stopping(now, effects);
    }

    fn on_start_failed(&mut self, what: &str, error: CallError, effects: &mut Vec<Effect>) {
        match error {
            // Whether the host got the prompt is found out when the connection's end is reported.
            CallError::Closed(_) => {}
            CallError::TimedOut { .. } => {
                // It may run all the same: nobody is there to watch it.
                effects.push(Effect::Call(Outgoing::Interrupt { turn_id: String::new() }));
                self.end_unknown(Failure::of_call(what, &error), effects);
            }
            CallError::Refused(_) | CallError::Unreadable { .. } => {
                self.end_failed(Failure::of_call(what, &error), effects)
            }
        }
    }

    fn on_steer(&mut self, token: u64, input: Vec<UserInput>, effects: &mut Vec<Effect>) {
        let outcome = match &self.phase {
            _ if self.stop.is_some() => SteerOutcome::NoActiveTurn,
            _ if self.is_compaction => SteerOutcome::NotSteerable,
            Phase::Active(turn_id) => {
                let turn_id = turn_id.clone();
                self.projector.submitted(Echo { client_id: None, text: text_of(&input) });
                return effects.push(Effect::Call(Outgoing::Steer { token, turn_id, input }));
            }
            Phase::Looking { .. } | Phase::Starting | Phase::Accepted(_) => {
                return self.waiting_steers.push((token, input));
            }
            Phase::Ended => SteerOutcome::NoActiveTurn,
        };
        effects.push(Effect::Steered { token, outcome });
    }

    fn on_steer_reply(
        &mut self,
        token: u64,
        result: Result<Option<TurnId>, CallError>,
        effects: &mut Vec<Effect>,
    ) {
        let outcome = match result {
            Ok(Some(turn_id)) if self.turn_id() != Some(&turn_id) => SteerOutcome::WrongTurn,
            Ok(_) => SteerOutcome::Accepted,
            Err(CallError::Refused(error)) => read_steer_refusal(&error.message),
            Err(error) => SteerOutcome::Failed(error.to_string()),
        };
        effects.push(Effect::Steered { token, outcome });
    }

    fn on_lost(&mut self, loss: Loss, now: Millis, effects: &mut Vec<Effect>) {
        match loss {
            Loss::HostLives if !self.is_compaction || self.turn_id().is_some() => {
                self.detached_since = Some(now);
                self.catch_up = None;
                effects.push(Effect::Reconnect);
            }
            Loss::HostLives => self.end_lost("the connection was lost before the compaction began", effects),
            Loss::HostGone(how) => self.end_lost(&how, effects),
            Loss::ClosedByUs => {
                let failure =
                    Failure::new(FailureKind::Closed, "the session was closed while the turn was in flight");
                self.end_unknown(failure, effects);
            }
        }
    }

    fn on_attached(&mut self, epoch: Epoch, effects: &mut Vec<Effect>) {
        self.detached_since = None;
        if epoch != self.epoch {
            self.epoch = epoch;
            return self.end_lost("the host was replaced by another", effects);
        }
        match &self.phase {
            Phase::Accepted(_) | Phase::Active(_) => self.begin_catch_up(effects),
            Phase::Starting | Phase::Looking { .. } => self.look_for_prompt(true, effects),
            Phase::Ended => {}
        }
    }
}

fn event_turn(event: &Event) -> Option<TurnId> {
    match event {
        Event::TurnStarted(turn) => Some(turn.id.clone()),
        _ => None,
    }
}

fn read_steer_refusal(message: &str) -> SteerOutcome {
    let lower = message.to_lowercase();
    if lower.contains("no active turn") {
        SteerOutcome::NoActiveTurn
    } else if lower.contains("expected active turn") {
        SteerOutcome::WrongTurn
    } else if lower.contains("steerable")
        || lower.contains("cannot be steered")
        || lower.contains("cannot steer")
    {
        SteerOutcome::NotSteerable
    } else {
        SteerOutcome::Failed(message.to_owned())
    }
}

/// The text parts of an input, as Codex shows them again.
fn text_of(input: &[UserInput]) -> String {
    let texts = input.iter().filter_map(|part| match part {
        UserInput::Text { text } => Some(text.as_str()),
        UserInput::Image { .. } | UserInput::LocalImage { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Whether an agent message is nothing but the marker that some servers leave instead of a `turn/completed`.
/// A message that quotes it is not one.
pub fn is_abort_marker(text: &str) -> bool {
    matches!(text.trim(), "<turn_aborted>" | "<turn_aborted/>" | "<turn_aborted />")
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod properties;
