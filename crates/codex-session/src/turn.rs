//! One turn as a pure state machine: no clock, no IO, no async. Time is passed in as a number, and the machine returns
//! [`Effect`]s to perform. So every rule below is tested with thousands of interleavings.
//!
//! The rules:
//! - Only `turn/completed` for this thread and turn, or the end of the host, ends a turn. The end is final.
//! - Silence gives a warning. It stops a turn only under a configured limit, and no clock runs while a person is asked.
//! - A request is answered once, in the epoch that asked, and counts as taken only when Codex says so while the
//!   turn still runs.
//! - After a gap (a lost connection, a prompt in flight) the thread is read before anything is repeated.
//!
//! Knows neither the JSON of messages (`codex-wire` does) nor how people are asked (`session` does).

use std::collections::HashSet;

use codex_wire::call::{TurnStart, UserInput};
use codex_wire::peer::CallError;
use codex_wire::thread::{TokenUsage, TurnError};
use codex_wire::{Epoch, ThreadId, TurnId};

use crate::failure::{Failure, FailureKind, reads_as_network_withheld};
use crate::policy::ApprovalPolicy;
use crate::projection::{Echo, Projector};

mod catch_up;
mod clock;
mod end;
mod events;
mod interface;
mod requests;
mod steers;
mod stop;

use catch_up::{Held, Unheard};
use clock::WorkClock;
use events::Stage;
pub use events::is_abort_marker;
pub use interface::{
    Begin, Decide, DecideOutcome, Effect, Input, Limits, Loss, Notice, Outgoing, Plan, Reply, SteerOutcome,
};
pub use requests::Closing;
use requests::Requests;
use steers::Steers;
use stop::Stop;
pub use stop::StopCause;

/// Milliseconds on a monotonic clock of the caller's choice.
pub type Millis = u64;

/// How long reconnecting to a living host may take.
const RECONNECT_LIMIT: Millis = 30_000;
/// How often a prompt is sent again while Codex reads a new login, and the pause before.
const STARTS_AGAIN: u32 = 5;
const START_PAUSE: Millis = 300;

#[derive(Debug)]
enum Phase {
    /// Checking whether the prompt is already in the thread.
    Looking { looks_left: u8, next_look: Option<Millis> },
    /// The call was sent.
    Starting,
    /// Codex accepted the prompt; the turn is not active yet.
    Accepted(TurnId),
    /// The turn runs.
    Active(TurnId),
    /// The turn has ended.
    Ended,
}

/// One turn.
#[derive(Debug)]
pub struct Turn {
    thread_id: ThreadId,
    epoch: Epoch,
    phase: Phase,
    is_compaction: bool,
    /// The prompt, which is searched for after a lost connection.
    prompt: Option<Box<TurnStart>>,
    /// When a refused prompt is to be sent again, and how often it was refused.
    start_again_at: Option<Millis>,
    refused_starts: u32,
    limits: Limits,
    policy: ApprovalPolicy,
    someone_answers: bool,
    requests: Requests,
    clock: WorkClock,
    stop: Option<Stop>,
    /// Since when there is no connection.
    detached_since: Option<Millis>,
    /// Whether the turn is being read from the thread's history.
    reading_back: bool,
    /// When it is to be read, unless an event comes before.
    read_back_at: Option<Millis>,
    /// Whether an end that was read from the history was checked a second time.
    doubted_end: bool,
    /// Set while no event of the turn has come since it was resumed on this connection.
    unheard: Unheard,
    held: Held,
    /// Items that were reported to listeners, by type and id.
    told: HashSet<(Stage, String)>,
    steers: Steers,
    tool_result_at: Option<Millis>,
    last_error: Option<TurnError>,
    resets_at: Option<i64>,
    usage: Option<TokenUsage>,
    projector: Projector,
}

impl Turn {
    /// Begins a turn on an open thread.
    pub fn begin(plan: Plan, now: Millis, effects: &mut Vec<Effect>) -> Self {
        let Plan { thread_id, epoch, begin, limits, policy, redactor, someone_answers } = plan;
        let mut turn = Self {
            projector: Projector::new(thread_id.as_str()).with_redactor(redactor),
            thread_id,
            epoch,
            phase: Phase::Starting,
            is_compaction: matches!(begin, Begin::Compact),
            prompt: None,
            start_again_at: None,
            refused_starts: 0,
            limits,
            policy,
            someone_answers,
            requests: Requests::default(),
            clock: WorkClock::new(now),
            stop: None,
            detached_since: None,
            reading_back: false,
            read_back_at: None,
            doubted_end: false,
            unheard: Unheard::default(),
            held: Held::default(),
            told: HashSet::new(),
            steers: Steers::default(),
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
                self.call(Outgoing::Start(start), effects);
            }
            Begin::PromptOnce { start, host_lives } => {
                self.expect_echo(&start);
                self.prompt = Some(start);
                self.look_for_prompt(host_lives, effects);
            }
            Begin::Attach(turn_id) => {
                self.projector.name_turn(turn_id.as_str());
                self.phase = Phase::Active(turn_id);
                self.read_back(effects);
            }
            Begin::Compact => self.call(Outgoing::Compact, effects),
        }
    }

    fn expect_echo(&mut self, start: &TurnStart) {
        self.projector
            .submitted(Echo { client_id: start.client_user_message_id.clone(), text: text_of(&start.input) });
    }

    /// Processes an input and returns the effects to perform.
    pub fn step(&mut self, input: Input, now: Millis, effects: &mut Vec<Effect>) {
        self.take(input, now, effects);
        self.on_time(now, effects);
        self.clock.run(self.is_working(), now);
    }

    fn take(&mut self, input: Input, now: Millis, effects: &mut Vec<Effect>) {
        if self.has_ended() {
            return self.refuse_after_end(input, effects);
        }
        match input {
            Input::Event { .. } | Input::Request { .. } if self.is_looking() => self.hold(input, now),
            Input::Event { thread_id, turn_id, event } => {
                self.on_event(thread_id, turn_id, event, now, effects);
            }
            // A request of a lost connection cannot be answered; a living host asks again.
            Input::Request { .. } if !self.is_attached() => {}
            Input::Request { id, request } => self.on_request(id, request, now, effects),
            Input::Reply(reply) => self.on_reply(reply, now, effects),
            Input::Inspected { key, digest, inspection } => {
                self.on_inspected(&key, &digest, inspection, now, effects);
            }
            Input::Decide(decide) => self.on_decide(decide, effects),
            Input::ProgramAnswered { key, answer } => self.on_program_answer(&key, answer, effects),
            Input::Steer { token, input, client_id } => self.on_steer(token, input, client_id, effects),
            Input::Interrupt => self.stop(StopCause::User, now, effects),
            Input::Breach(message) => self.stop(StopCause::Breach(message), now, effects),
            Input::Lost(loss) => self.on_lost(loss, now, effects),
            Input::Attached { epoch } => self.on_attached(epoch, now, effects),
            Input::Time => {}
        }
    }

    /// Milliseconds in which Codex could work, without waits for people.
    pub fn worked_ms(&self, now: Millis) -> Millis {
        self.clock.worked_ms(now)
    }

    /// Whether the turn has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// The turn's id, once it is known.
    pub fn turn_id(&self) -> Option<&TurnId> {
        match &self.phase {
            Phase::Accepted(turn_id) | Phase::Active(turn_id) => Some(turn_id),
            Phase::Looking { .. } | Phase::Starting | Phase::Ended => None,
        }
    }

    /// When [`Input::Time`] is due, if no other input comes before. After an [`Input::Time`], this is in the future.
    pub fn next_deadline(&self, now: Millis) -> Option<Millis> {
        if self.has_ended() {
            return None;
        }
        let next_look = match &self.phase {
            Phase::Looking { next_look, .. } => *next_look,
            _ => None,
        };
        [
            self.limit_deadline(now),
            self.quiet_deadline(),
            self.start_again_at,
            self.read_back_at,
            self.unheard.until,
            self.detached_since.map(|since| since + RECONNECT_LIMIT),
            self.stop.as_ref().and_then(Stop::until),
            self.requests.next_deadline(),
            next_look,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn is_attached(&self) -> bool {
        self.detached_since.is_none()
    }

    /// Whether Codex could be working: connected, and not waiting for a person.
    fn is_working(&self) -> bool {
        self.is_attached() && !self.requests.wait_for_people()
    }

    /// Makes a call, if there is a connection. Important calls are repeated after a reconnect.
    fn call(&self, call: Outgoing, effects: &mut Vec<Effect>) {
        if self.is_attached() {
            effects.push(Effect::Call(call));
        }
    }

    fn on_time(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        self.clock.run(self.is_working(), now);
        let duties: [fn(&mut Self, Millis, &mut Vec<Effect>); 9] = [
            Self::expire_requests,
            Self::check_limits,
            Self::check_quiet,
            Self::escalate_stop_if_due,
            Self::start_again_if_due,
            Self::read_back_if_due,
            Self::look_again_if_due,
            Self::hang_up_if_unheard,
            Self::give_up_reconnecting_if_due,
        ];
        for duty in duties {
            if self.has_ended() {
                return;
            }
            duty(self, now, effects);
        }
    }

    fn check_limits(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.stop.is_some() {
            return;
        }
        if let Some(limit) = self.limits.work_ms.filter(|limit| self.clock.worked_ms(now) >= *limit) {
            self.stop(StopCause::WorkLimit(limit), now, effects);
        } else if let Some(limit) = self.limits.idle_ms.filter(|limit| self.clock.idle_ms(now) >= *limit) {
            self.stop(StopCause::IdleLimit(limit), now, effects);
        }
    }

    /// When a limit will be reached, if the clock runs on; `None` for a turn that is being stopped.
    fn limit_deadline(&self, now: Millis) -> Option<Millis> {
        if self.stop.is_some() {
            return None;
        }
        let work = self.limits.work_ms.and_then(|limit| self.clock.work_reaches(limit, now));
        let idle = self.limits.idle_ms.and_then(|limit| self.clock.idle_reaches(limit));
        work.into_iter().chain(idle).min()
    }

    fn check_quiet(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.quiet_deadline().is_some_and(|deadline| now >= deadline) {
            let seconds = self.limits.quiet_after_tool_ms.unwrap_or_default() / 1000;
            self.tool_result_at = None;
            warn(format!("Codex has been silent for {seconds} s after a tool result"), effects);
        }
    }

    fn quiet_deadline(&self) -> Option<Millis> {
        let since = self.tool_result_at.filter(|_| self.is_working())?;
        Some(since.saturating_add(self.limits.quiet_after_tool_ms?))
    }

    fn on_reply(&mut self, reply: Reply, now: Millis, effects: &mut Vec<Effect>) {
        match reply {
            Reply::Start(Ok(turn_id)) => self.accept(turn_id, now, effects),
            Reply::Start(Err(error)) => self.on_start_failed("turn/start", &error, now, effects),
            Reply::Compact(Ok(())) => {}
            Reply::Compact(Err(error)) => self.on_start_failed("thread/compact/start", &error, now, effects),
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
        self.release_held(now, effects);
    }

    /// The turn runs: waiting steers and stops are sent now.
    fn activate(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        let Phase::Accepted(turn_id) = &self.phase else { return };
        self.phase = Phase::Active(turn_id.clone());
        self.send_waiting_steers(effects);
        self.interrupt_if_stopping(now, effects);
    }

    fn on_start_failed(&mut self, what: &str, error: &CallError, now: Millis, effects: &mut Vec<Effect>) {
        if !matches!(self.phase, Phase::Starting) {
            return;
        }
        match error {
            // Whether the host got the prompt is checked when the end of the connection is reported.
            CallError::Closed(_) => {}
            CallError::TimedOut { .. } | CallError::Unreadable { .. } => {
                // The turn may run nevertheless, unwatched: stop it.
                self.call(Outgoing::Interrupt { turn_id: String::new() }, effects);
                self.end_unknown(Failure::of_call(what, error), effects);
            }
            // Codex refuses while it reads a new login, and has not taken the prompt.
            CallError::Refused(refusal)
                if reads_as_network_withheld(&refusal.message) && self.may_start_again() =>
            {
                self.refused_starts += 1;
                self.start_again_at = Some(now + START_PAUSE);
            }
            CallError::Refused(_) => self.end_failed(Failure::of_call(what, error), effects),
        }
    }

    fn may_start_again(&self) -> bool {
        self.prompt.is_some() && self.stop.is_none() && self.refused_starts < STARTS_AGAIN
    }

    fn start_again_if_due(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.start_again_at.take_if(|due| now >= *due).is_some()
            && let Some(start) = &self.prompt
        {
            self.call(Outgoing::Start(start.clone()), effects);
        }
    }

    fn on_lost(&mut self, loss: Loss, now: Millis, effects: &mut Vec<Effect>) {
        let was_attached = self.detached_since.replace(self.detached_since.unwrap_or(now)).is_none();
        self.tool_result_at = None;
        self.start_again_at = None;
        self.read_back_at = None;
        self.unheard.until = None;
        self.fail_sent_steers("the connection was lost before Codex answered", effects);
        self.process_or_drop_held(now, effects);
        if self.has_ended() {
            return;
        }
        match loss {
            Loss::HostLives if self.is_compaction && self.turn_id().is_none() => {
                self.end_lost("the connection was lost before the compaction began", effects);
            }
            Loss::HostLives => {
                self.pause_stop();
                if was_attached {
                    effects.push(Effect::Reconnect);
                }
            }
            Loss::HostGone(how) => self.end_with_host(&how, effects),
            Loss::ClosedByUs => {
                let failure =
                    Failure::new(FailureKind::Closed, "the session was closed while the turn was in flight");
                self.end_unknown(failure, effects);
            }
        }
    }

    fn give_up_reconnecting_if_due(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.detached_since.is_some_and(|since| now >= since + RECONNECT_LIMIT) {
            self.end_lost("the host still runs but could not be reached again", effects);
        }
    }

    fn on_attached(&mut self, epoch: Epoch, now: Millis, effects: &mut Vec<Effect>) {
        self.process_or_drop_held(now, effects);
        self.detached_since = None;
        if epoch != self.epoch {
            self.epoch = epoch;
            return self.end_with_host("the host was replaced by a new one", effects);
        }
        match &self.phase {
            Phase::Accepted(_) | Phase::Active(_) => self.read_back(effects),
            Phase::Starting | Phase::Looking { .. } => self.look_for_prompt(true, effects),
            Phase::Ended => {}
        }
        self.take_up_stop(now, effects);
    }
}

fn warn(message: String, effects: &mut Vec<Effect>) {
    effects.push(Effect::Tell(Notice::Warning(message)));
}

/// The text parts of an input, joined as Codex reports them.
fn text_of(input: &[UserInput]) -> String {
    let texts = input.iter().filter_map(|part| match part {
        UserInput::Text { text } => Some(text.as_str()),
        UserInput::Image { .. } | UserInput::LocalImage { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod properties;
