//! Every rule of a turn's life, as stories: at this time this comes in, and exactly that is to be done.

mod compaction;
mod holding;
mod limits;
mod reconnecting;
mod requests;
mod scope;
mod starting;
mod steering;
mod stopping;

use std::collections::HashMap;
use std::time::Duration;

use codex_wire::RequestId;
use codex_wire::answer::{Answer, CommandDecision, RpcError};
use codex_wire::event::Event;
use codex_wire::item::Item;
use codex_wire::peer::Closed;
use codex_wire::request::{CommandApproval, FileChangeApproval, ServerRequest};
use codex_wire::thread::{Turn as WireTurn, TurnStatus};
use redact::Redactor;
use serde_json::json;

use super::*;
use crate::decision::{Decider, Decision, RequestKey};
use crate::inspection::Inspection;
use crate::result::TurnResult;

/// A turn at work, with what it said last.
pub(super) struct Bench {
    pub(super) turn: Turn,
    now: Millis,
    /// What was told of events, all along.
    told: Vec<Event>,
    result: Option<TurnResult>,
    /// The digests under which people were shown the requests that they were asked last.
    shown: HashMap<RequestKey, String>,
    /// Whether a story tells itself what requests ask for. If not, each asks for no more than the sandbox gives.
    inspects: bool,
}

/// Plays a story: each step is a time, what comes in, and what is to be done, joined by `; `. Told events are left
/// out.
fn check(plan: Plan, at_once: &str, story: impl IntoIterator<Item = (Millis, Input, &'static str)>) -> Bench {
    let (mut bench, said) = Bench::begin(plan);
    assert_eq!(said, at_once, "at the beginning");
    for (at, input, expected) in story {
        let shown = format!("at {at}: {input:?}");
        assert_eq!(bench.step(at, input), expected, "{shown}");
    }
    bench
}

/// A story of a turn that was prompted, accepted and is active at time 0.
fn check_active(plan: Plan, story: impl IntoIterator<Item = (Millis, Input, &'static str)>) -> Bench {
    let opening = [(0, accepted(), ""), (0, started(), "")];
    check(plan, "start", opening.into_iter().chain(story))
}

impl Bench {
    pub(super) fn begin(plan: Plan) -> (Self, String) {
        let mut effects = Vec::new();
        let turn = Turn::begin(plan, 0, &mut effects);
        let (told, shown) = (Vec::new(), HashMap::new());
        let mut bench = Self { turn, now: 0, told, result: None, shown, inspects: false };
        let said = bench.note(effects);
        (bench, said)
    }

    /// A decision without a digest is one on what was shown last under its key. One that does not count says why.
    pub(super) fn step(&mut self, at: Millis, mut input: Input) -> String {
        assert!(at >= self.now, "time does not run backwards");
        self.now = at;
        let mut refused = None;
        if let Input::Decide(decide) = &mut input {
            if decide.digest.is_empty() {
                decide.digest = self.shown.get(&decide.key).cloned().unwrap_or_default();
            }
            let outcome = self.turn.outcome_of(decide);
            refused = (outcome != DecideOutcome::Given).then(|| format!("{outcome:?}"));
        }
        let mut effects = Vec::new();
        self.turn.step(input, at, &mut effects);
        let found: Vec<Input> = effects.iter().filter(|_| !self.inspects).filter_map(finds_nothing).collect();
        effects.retain(|effect| self.inspects || !matches!(effect, Effect::Inspect { .. }));
        for input in found {
            self.turn.step(input, at, &mut effects);
        }
        let said = self.note(effects);
        assert!(refused.is_none() || said.is_empty(), "a decision that does not count did this: {said}");
        refused.unwrap_or(said)
    }

    fn note(&mut self, effects: Vec<Effect>) -> String {
        let mut said = Vec::new();
        for effect in effects {
            said.extend(say(&effect));
            match effect {
                Effect::Ask { key, request, patch, .. } => {
                    self.shown.insert(key, request.digest(patch.as_deref()));
                }
                Effect::Tell(Notice::Happened(event)) => self.told.push(event),
                Effect::End(result) => {
                    assert!(self.result.is_none(), "a turn ends once");
                    self.result = Some(*result);
                }
                _ => {}
            }
        }
        said.join("; ")
    }

    fn result(&self) -> &TurnResult {
        self.result.as_ref().expect("the turn has ended")
    }

    fn deadline(&self) -> Option<Millis> {
        self.turn.next_deadline(self.now)
    }

    /// The ids of the items that were told as complete.
    fn told_items(&self) -> Vec<&str> {
        let completed = self.told.iter().filter_map(|event| match event {
            Event::ItemCompleted(item) => item.id(),
            _ => None,
        });
        completed.collect()
    }
}

/// What a request asks for that an effect wants looked at: nothing beyond the sandbox.
pub(super) fn finds_nothing(effect: &Effect) -> Option<Input> {
    let Effect::Inspect { key, digest, .. } = effect else { return None };
    let (key, digest) = (key.clone(), digest.clone());
    Some(Input::Inspected { key, digest, inspection: Inspection::default() })
}

/// An effect in short; none for told events.
fn say(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Call(Outgoing::Start(_)) => "start".to_owned(),
        Effect::Call(Outgoing::Compact) => "compact".to_owned(),
        Effect::Call(Outgoing::Steer { token, turn_id, .. }) => format!("steer {token} {turn_id}"),
        Effect::Call(Outgoing::Interrupt { turn_id }) if turn_id.is_empty() => "interrupt any".to_owned(),
        Effect::Call(Outgoing::Interrupt { turn_id }) => format!("interrupt {turn_id}"),
        Effect::Call(Outgoing::CleanTerminals) => "clean".to_owned(),
        Effect::Call(Outgoing::ListTurns) => "list".to_owned(),
        Effect::Answer { key, answer } => format!("answer {} {}", key.id, say_answer(answer)),
        Effect::Inspect { key, .. } => format!("inspect {}", key.id),
        Effect::Ask { key, patch: None, .. } => format!("ask {}", key.id),
        Effect::Ask { key, patch: Some(patch), .. } => {
            format!("ask {} with {} change", key.id, patch.changes.len())
        }
        Effect::AskProgram { key, .. } => format!("ask program {}", key.id),
        Effect::RequestClosed { key, closing } => format!("closed {} {}", key.id, say_closing(closing)),
        Effect::Steered { token, outcome } => format!("steered {token} {outcome:?}"),
        Effect::Tell(Notice::Warning(message)) => format!("warn: {message}"),
        Effect::Tell(Notice::Happened(_)) => return None,
        Effect::HangUp => "hang up".to_owned(),
        Effect::Reconnect => "reconnect".to_owned(),
        Effect::DrainHost => "drain".to_owned(),
        Effect::End(result) => say_end(result),
    })
}

fn say_answer(answer: &Answer) -> String {
    match answer {
        Answer::Command(CommandDecision::Plain(verdict)) | Answer::FileChange(verdict) => {
            format!("{verdict:?}")
        }
        Answer::Refusal { code, .. } => code.to_string(),
        Answer::ToolCall { text, .. } => text.clone(),
        other => format!("{other:?}"),
    }
}

fn say_closing(closing: &Closing) -> String {
    match closing {
        Closing::Taken { decision, by } => format!("taken {decision:?} by {by}"),
        Closing::AnsweredElsewhere => "elsewhere".to_owned(),
        Closing::Orphaned { decision } => format!("orphaned {decision:?}"),
    }
}

fn say_end(result: &TurnResult) -> String {
    let unknown = if result.outcome_unknown { " unknown" } else { "" };
    let error = result.error.as_ref().map(|error| format!(" {:?}: {}", error.kind, error.message));
    format!("end {:?}{unknown}{}", result.outcome, error.unwrap_or_default())
}

fn of_thread(thread: &str, turn: Option<&str>, event: Event) -> Input {
    Input::Event { thread_id: Some(ThreadId::from(thread)), turn_id: turn.map(TurnId::from), event }
}

/// An event of our turn.
pub(super) fn own(event: Event) -> Input {
    of_thread("t", Some("u"), event)
}

pub(super) fn accepted() -> Input {
    Input::Reply(Reply::Start(Ok(TurnId::from("u"))))
}

pub(super) fn wire_turn(id: &str, status: TurnStatus, items: Vec<Item>) -> WireTurn {
    WireTurn { id: TurnId::from(id), status, error: None, items }
}

pub(super) fn started() -> Input {
    own(Event::TurnStarted(wire_turn("u", TurnStatus::InProgress, vec![])))
}

pub(super) fn ended(status: TurnStatus) -> Input {
    own(Event::TurnCompleted(wire_turn("u", status, vec![])))
}

pub(super) fn completed() -> Input {
    ended(TurnStatus::Completed)
}

fn item_completed(item: Item) -> Input {
    own(Event::ItemCompleted(item))
}

pub(super) fn message(id: &str, text: &str) -> Item {
    Item::from_value(json!({"type": "agentMessage", "id": id, "text": text}))
}

pub(super) fn command(id: &str, status: &str) -> Item {
    Item::from_value(
        json!({"type": "commandExecution", "id": id, "command": format!("do {id}"), "status": status}),
    )
}

fn patch(id: &str) -> Item {
    let change = json!({"path": "a.txt", "kind": {"type": "add"}, "diff": "+a"});
    Item::from_value(json!({"type": "fileChange", "id": id, "changes": [change], "status": "inProgress"}))
}

pub(super) fn prompt_item(client_id: &str) -> Item {
    let content = json!([{"type": "text", "text": "hi"}]);
    Item::from_value(json!({"type": "userMessage", "id": "p", "clientId": client_id, "content": content}))
}

pub(super) fn number(id: i64) -> RequestId {
    RequestId::Number(id)
}

pub(super) fn key(id: i64) -> RequestKey {
    RequestKey { epoch: Epoch::from("e1"), id: number(id) }
}

fn asks(id: i64) -> Input {
    asks_as(number(id), ServerRequest::Command(CommandApproval::default()))
}

fn asks_patch(id: i64, item_id: &str) -> Input {
    let approval = FileChangeApproval { item_id: item_id.to_owned(), ..FileChangeApproval::default() };
    asks_as(number(id), ServerRequest::FileChange(approval))
}

fn asks_as(id: RequestId, request: ServerRequest) -> Input {
    Input::Request { id, request: Box::new(request) }
}

fn decides(id: i64, decision: Decision) -> Input {
    decides_on(key(id), "", decision)
}

/// A decision on what was shown under this digest.
fn decides_on(key: RequestKey, digest: &str, decision: Decision) -> Input {
    let (digest, by) = (digest.to_owned(), Decider::Person("ann".to_owned()));
    Input::Decide(Decide { key, digest, decision, by })
}

fn resolved(id: i64) -> Input {
    of_thread("t", None, Event::RequestResolved(number(id)))
}

pub(super) fn lost() -> Input {
    Input::Lost(Loss::HostLives)
}

fn host_gone() -> Input {
    Input::Lost(Loss::HostGone("killed".to_owned()))
}

pub(super) fn attached(epoch: &str) -> Input {
    Input::Attached { epoch: Epoch::from(epoch) }
}

pub(super) fn turns(turns: Vec<WireTurn>) -> Input {
    Input::Reply(Reply::Turns(Ok(turns)))
}

fn running(items: Vec<Item>) -> Input {
    turns(vec![wire_turn("u", TurnStatus::InProgress, items)])
}

pub(super) fn steer(token: u64) -> Input {
    let input = vec![UserInput::text(format!("steer {token}"))];
    Input::Steer { token, input, client_id: Some(format!("m{token}")) }
}

pub(super) fn refused(message: &str) -> CallError {
    CallError::Refused(RpcError { code: -32600, message: message.to_owned(), data: None })
}

pub(super) fn timed_out() -> CallError {
    CallError::TimedOut { method: "call", after: Duration::from_secs(10) }
}

pub(super) fn closed() -> CallError {
    CallError::Closed(Closed::ByServer)
}

pub(super) fn turn_start() -> Box<TurnStart> {
    Box::new(TurnStart {
        thread_id: "t".to_owned(),
        input: vec![UserInput::text("hi")],
        client_user_message_id: Some("c1".to_owned()),
        cwd: None,
        approval_policy: None,
        approvals_reviewer: None,
        permissions: None,
        model: None,
        effort: None,
        output_schema: None,
    })
}

pub(super) fn plan(begin: Begin) -> Plan {
    Plan {
        thread_id: ThreadId::from("t"),
        epoch: Epoch::from("e1"),
        begin,
        limits: Limits::default(),
        policy: ApprovalPolicy::default(),
        redactor: Redactor::default(),
        someone_answers: true,
    }
}

fn prompt() -> Plan {
    plan(Begin::Prompt(turn_start()))
}

fn prompt_once(host_lives: bool) -> Plan {
    plan(Begin::PromptOnce { start: turn_start(), host_lives })
}

fn limited(limits: Limits) -> Plan {
    Plan { limits, ..prompt() }
}
