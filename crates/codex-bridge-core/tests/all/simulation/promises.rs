//! What must hold after every run, whatever failed in it.

use std::collections::BTreeSet;

use codex_bridge_core::event::Event;
use codex_bridge_core::inbox::{self, Message};
use codex_bridge_core::outbox::{self, Content, Delivery};
use codex_bridge_core::request::{RequestRecord, RequestState};
use codex_bridge_core::store::{DeliveryFilter, MessageFilter, RequestFilter, Store, TaskFilter};
use codex_bridge_core::task::{Task, TurnProgress, TurnRecord};
use codex_session::TurnOutcome;

use super::world::Ledger;
use crate::memory_store::Memory;

/// What is in the store when a run is over.
pub struct Rows {
    tasks: Vec<(Task, Vec<TurnRecord>, Vec<Event>)>,
    requests: Vec<RequestRecord>,
    messages: Vec<Message>,
    /// Messages without a text that still have files.
    left_files: Vec<Message>,
    deliveries: Vec<Delivery>,
}

impl Rows {
    pub async fn of(store: &Memory) -> Self {
        let mut tasks = Vec::new();
        for task in store.tasks(&TaskFilter::default()).await.unwrap() {
            let turns = store.turns(&task.id).await.unwrap();
            let events = store.events(&task.id, 0, u32::MAX).await.unwrap();
            tasks.push((task, turns, events));
        }
        let messages = store.messages(&MessageFilter::default()).await.unwrap();
        let mut left_files = Vec::new();
        for message in messages.iter().filter(|message| message.sealed_text.is_none()) {
            if !store.attachments(&message.id).await.unwrap().is_empty() {
                left_files.push(message.clone());
            }
        }
        Self {
            tasks,
            requests: store.requests(&RequestFilter::default()).await.unwrap(),
            messages,
            left_files,
            deliveries: store.deliveries(&DeliveryFilter::default()).await.unwrap(),
        }
    }

    /// Whether nothing is under way any more.
    pub fn are_quiet(&self) -> bool {
        let is_finished = |task: &Task| task.status.is_finished() && task.parked.is_none();
        self.tasks.iter().all(|(task, ..)| is_finished(task))
            && self.deliveries.iter().all(|one| !outbox::DeliveryState::UNFINISHED.contains(&one.state))
            && self.messages.iter().all(is_over)
    }
}

/// The promises that were broken.
pub fn broken(ledger: &Ledger, rows: &Rows) -> Vec<String> {
    let mut broken = Broken(ledger.broken.clone());
    nothing_is_lost(ledger, rows, &mut broken);
    nothing_happens_twice(ledger, &mut broken);
    decisions_count(ledger, rows, &mut broken);
    messages_are_answered(ledger, rows, &mut broken);
    answers_are_right(ledger, rows, &mut broken);
    targets_hear_of_each_end_once(ledger, rows, &mut broken);
    broken.0
}

struct Broken(Vec<String>);

impl Broken {
    fn unless(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }
}

/// What was acknowledged is there, and every turn ends.
fn nothing_is_lost(ledger: &Ledger, rows: &Rows, broken: &mut Broken) {
    for (id, prompt) in &ledger.started {
        let is_there = rows.tasks.iter().any(|(task, ..)| task.id == *id);
        broken.unless(is_there, || format!("{id} ({prompt}) was acknowledged and is lost"));
    }
    for (id, number, prompt) in &ledger.continued {
        let turns = rows.tasks.iter().filter(|(task, ..)| task.id == *id).flat_map(|(_, turns, _)| turns);
        let is_there = turns.into_iter().any(|turn| turn.number == *number);
        broken.unless(is_there, || format!("turn {number} of {id} ({prompt}) was acknowledged and is lost"));
    }
    for message in &rows.left_files {
        broken.unless(false, || format!("files of {} are kept for nothing", message.external_id));
    }
    for (task, turns, events) in &rows.tasks {
        broken.unless(task.status.is_finished(), || format!("{} is {} for ever", task.id, task.status));
        for turn in turns {
            let has_ended = turn.progress == TurnProgress::Ended;
            broken.unless(has_ended, || format!("turn {} of {} never ends", turn.number, task.id));
        }
        let is_numbered = events.iter().zip(1..).all(|(event, seq)| event.seq == seq);
        broken.unless(is_numbered, || format!("the log of {} has a gap", task.id));
    }
}

/// No prompt twice, neither by its id nor by what it says; nothing added to a turn twice; no command twice.
fn nothing_happens_twice(ledger: &Ledger, broken: &mut Broken) {
    for id in twice(ledger.prompts.iter().map(|(id, _)| id).collect()) {
        broken.unless(false, || format!("Codex got the prompt with the id {id} twice"));
    }
    let said = ledger.prompts.iter().map(|(_, text)| text).chain(&ledger.steers);
    for text in twice(said.filter(|text| is_ours(text)).collect()) {
        broken.unless(false, || format!("Codex was told {text:?} twice"));
    }
    for command in twice(ledger.ran.iter().collect()) {
        broken.unless(false, || format!("Codex ran {command:?} twice"));
    }
}

/// What people decide is what Codex is told, for the request that they saw; and every request ends.
fn decisions_count(ledger: &Ledger, rows: &Rows, broken: &mut Broken) {
    for command in &ledger.ran {
        broken.unless(command.ends_with('0'), || format!("Codex ran {command:?}, which everybody declines"));
    }
    for (question, answers) in &ledger.answers {
        let expected = format!("re {question}");
        for answer in answers {
            let is_meant = *answer == expected || answer == "nothing";
            broken.unless(is_meant, || format!("{question:?} was answered {answer:?}"));
        }
    }
    for (asked, is_yes) in &ledger.decided {
        let was_done = ledger.ran.contains(asked) || ledger.answers.contains_key(asked);
        broken.unless(!*is_yes || was_done, || format!("the yes to {asked:?} counted, and it did not run"));
    }
    for request in &rows.requests {
        let (name, state) = (&request.request_id, request.state);
        let is_over = !matches!(state, RequestState::Open | RequestState::Decided);
        broken.unless(is_over, || format!("{name} is {state:?} for ever"));
        if let Some(told) = ledger.deciders.get(name) {
            let recorded = request.decided_by.as_deref();
            broken.unless(recorded == Some(told), || format!("{told} decided on {name}, not {recorded:?}"));
        }
    }
}

/// Every message is there once, and answered or marked; everything that is to be said is said or given up.
fn messages_are_answered(ledger: &Ledger, rows: &Rows, broken: &mut Broken) {
    for name in &ledger.taken {
        let found = rows.messages.iter().filter(|message| message.external_id == *name).count();
        broken.unless(found == 1, || format!("the message {name} is there {found} times"));
    }
    for message in &rows.messages {
        let name = &message.external_id;
        broken.unless(is_over(message), || {
            format!("the message {name} is {} for ever", message.state.as_str())
        });
        let own = message.own_reply_id().to_string();
        let is_answer = |key: &&String| **key == own || **key == format!("{own}-again");
        let answers = ledger.received.keys().filter(is_answer).count();
        broken.unless(answers <= 1, || format!("the message {name} is answered {answers} times"));
        let Some(reply) = &message.reply_id else {
            broken.unless(message.error.is_some(), || {
                format!("the message {name} has no answer and no reason")
            });
            continue;
        };
        let is_given_up = |one: &Delivery| one.id == *reply && one.state == outbox::DeliveryState::Dead;
        let is_marked = rows.deliveries.iter().any(is_given_up);
        let has_arrived = ledger.received.contains_key(reply.as_str());
        broken.unless(has_arrived || is_marked, || format!("the reply to {name} never arrived"));
    }
    for delivery in &rows.deliveries {
        let is_over = !outbox::DeliveryState::UNFINISHED.contains(&delivery.state);
        broken.unless(is_over, || format!("{} is {} for ever", delivery.id, delivery.state.as_str()));
    }
}

/// A turn that completed was given its own prompt, has the answer of its own turn, and a chat gets that answer.
fn answers_are_right(ledger: &Ledger, rows: &Rows, broken: &mut Broken) {
    let first = ledger.started.iter().map(|(id, prompt)| (id, 1, prompt));
    let later = ledger.continued.iter().map(|(id, number, prompt)| (id, *number, prompt));
    let acknowledged: Vec<_> = first.chain(later).collect();
    for turn in rows.tasks.iter().flat_map(|(_, turns, _)| turns) {
        if turn.outcome != Some(TurnOutcome::Completed) {
            let has_reason = turn.error.is_some() || turn.outcome.is_some() || turn.turn_id.is_none();
            broken.unless(has_reason, || format!("{} of {} has no outcome", turn.number, turn.task_id));
            continue;
        }
        let name = format!("turn {} of {}", turn.number, turn.task_id);
        let expected = turn.turn_id.as_ref().map(|id| format!("done {id}"));
        broken.unless(turn.final_text == expected, || format!("{name} has the answer {:?}", turn.final_text));
        let mut prompts =
            acknowledged.iter().filter(|(id, number, _)| (*id, *number) == (&turn.task_id, turn.number));
        let was_given = prompts.all(|(.., prompt)| ledger.prompts.iter().any(|(_, text)| text == *prompt));
        broken.unless(was_given, || format!("{name} is completed, and Codex never got its prompt"));
    }
    for message in rows.messages.iter().filter(|message| is_ours(&message.summary)) {
        let reply = message.reply_id.as_ref().and_then(|id| ledger.received.get(id.as_str()));
        let task = rows.tasks.iter().find(|(task, ..)| Some(&task.id) == message.task_id.as_ref());
        let (Some(reply), Some((_, turns, _))) = (reply, task) else { continue };
        let is_in = |turn: &&TurnRecord| turn.prompt_summary.contains(&message.summary);
        let own = turns.iter().find(is_in).map(|turn| with_its_resumptions(turns, turn));
        // A message that was added to a turn shares the answer of that turn.
        let expected = own.map_or(turns.as_slice(), |own| own);
        let last = expected.last().filter(|turn| turn.outcome == Some(TurnOutcome::Completed));
        let is_answered = |turn: &TurnRecord| {
            turn.final_text.as_ref().is_some_and(|text| reply.contains(&format!("text: \"{text}")))
        };
        let is_right = match (own, last) {
            (Some(_), Some(last)) => is_answered(last),
            _ => !reply.contains("text: \"done turn-") || expected.iter().any(is_answered),
        };
        let (name, text) = (&message.external_id, &message.summary);
        broken.unless(is_right, || format!("the message {name} ({text}) got another answer: {reply}"));
    }
}

/// A turn, and the turns after it that the bridge began by itself because the host was lost.
fn with_its_resumptions<'a>(turns: &'a [TurnRecord], turn: &TurnRecord) -> &'a [TurnRecord] {
    let from = turns.iter().position(|one| one.number == turn.number).unwrap();
    let is_resumed = |turn: &&TurnRecord| turn.before.as_ref().is_some_and(|before| before.resumes);
    let more = turns[from + 1..].iter().take_while(is_resumed).count();
    &turns[from..=from + more]
}

/// A target of a task gets one notice for each turn that ended and was not resumed.
fn targets_hear_of_each_end_once(ledger: &Ledger, rows: &Rows, broken: &mut Broken) {
    for (task, turns, _) in rows.tasks.iter().filter(|(task, ..)| ledger.started.contains_key(&task.id)) {
        let Some(target) = task.notify_target.as_deref().and_then(|one| one.strip_suffix("?on=all")) else {
            continue;
        };
        let is_end = |one: &&Delivery| {
            let is_of_task = matches!(&one.notice.content, Content::Finished(end) if end.task.id == task.id);
            is_of_task && one.target == target
        };
        let told = rows.deliveries.iter().filter(is_end).count();
        let ended = turns.iter().filter(|turn| is_ours(&turn.prompt_summary)).count();
        broken.unless(told == ended, || format!("{} ended {ended} times and told it {told} times", task.id));
    }
}

fn is_over(message: &Message) -> bool {
    matches!(
        message.state,
        inbox::MessageState::Answered | inbox::MessageState::Acknowledged | inbox::MessageState::Dead
    )
}

/// Whether a text is one of a caller or a chat, who never say the same twice.
pub fn is_ours(text: &str) -> bool {
    ["start ", "continue ", "write "].iter().any(|word| text.starts_with(word))
}

fn twice(mut all: Vec<&String>) -> BTreeSet<&String> {
    all.sort();
    all.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect()
}
