//! Commands of people in a chat: `/status`, `/stop`, `/approve` … Pure.

use codex_session::Decision;

use super::decisions::{self, Said, capitalised};
use super::{Effect, Facts, Outcome, Reply, TOO_LONG_AGO, answer, answer_in, answered, is_past, threads};
use crate::inbox::command::help;
use crate::inbox::{Command, Conversation, Message, MessageKind, Room, Rules, answer as words};
use crate::outbox::notice::TextFormat;
use crate::task::{ShownStatus, Task, TimeMs};
use crate::token::Role;

pub(super) const NOTHING_YET: &str = "Codex has done nothing here yet.";
/// The reasoning efforts that people may choose.
const EFFORTS: [&str; 5] = ["minimal", "low", "medium", "high", "xhigh"];

/// Carries out a command, or words its outcome.
pub fn carry_out(message: &Message, command: Command, facts: &Facts, now: TimeMs) -> Effect {
    let say = |text: &str| answer(message, None, text, now);
    match &facts.outcome {
        Some(Outcome::Stopped(task)) => return say(&stopped(task.as_deref())),
        Some(Outcome::Decided(verdict)) => return say(verdict.text()),
        _ if command.ages() && is_past(message, now) => return say(TOO_LONG_AGO),
        _ => {}
    }
    let conversation = facts.conversation_of(message, now);
    let decide = |id: Option<&str>, said| match decisions::in_words(message, id, said, facts) {
        Ok((request, decision)) => Effect::Decide(Box::new(request), decision),
        Err(text) => say(&text),
    };
    match command {
        // Prompts and steers are messages of their own kind.
        Command::Help | Command::Steer(_) | Command::Enqueue(_) => say(&help()),
        Command::Unknown(what) => say(&format!("{}.\n\n{}", capitalised(&what), help())),
        Command::Status => say(&status(&conversation, facts)),
        Command::Queue => say(&queue(facts)),
        Command::Stop => facts.task.as_ref().map_or(say(NOTHING_YET), |task| Effect::Stop(task.id.clone())),
        Command::Approve(id) => decide(id.as_deref(), Said::Decision(Decision::Accept)),
        Command::Deny(id) => decide(id.as_deref(), Said::Decision(Decision::Decline)),
        Command::Answer { request_id, text } => decide(Some(request_id.as_str()), Said::Answer(text)),
        Command::New => {
            let text = "The next message begins a new conversation with Codex.".to_owned();
            changed(message, Conversation { task_id: None, ..conversation }, text, now)
        }
        Command::Projects => say(&projects(&facts.rules, &conversation)),
        Command::Project(name) if facts.rules.workspaces.contains_key(&name) => {
            let text = format!("From here on Codex works in {name}, in a new conversation.");
            // A thread belongs to its directory.
            let there = Conversation { workspace: Some(name), task_id: None, ..conversation };
            changed(message, there, text, now)
        }
        Command::Project(name) => {
            say(&format!("There is no workspace {name}.\n{}", projects(&facts.rules, &conversation)))
        }
        Command::Model(None) => say(&model(&facts.rules, &conversation)),
        Command::Model(Some(name)) if facts.rules.models.contains(&name) => {
            let text = format!("From the next turn on Codex uses {name} here.");
            changed(message, Conversation { model: Some(name), ..conversation }, text, now)
        }
        Command::Model(Some(name)) => {
            say(&format!("{name} cannot be chosen here.\n{}", model(&facts.rules, &conversation)))
        }
        Command::Effort(Some(level)) if EFFORTS.contains(&level.as_str()) => {
            let text = format!("From the next turn on the model thinks with effort {level} here.");
            changed(message, Conversation { effort: Some(level), ..conversation }, text, now)
        }
        Command::Effort(_) => say(&effort(&facts.rules, &conversation)),
        Command::List => say(&threads::list(facts, now)),
        Command::Switch(number) => threads::switch(message, conversation, &number, facts, now),
        Command::Resume(_) => threads::resume(message, conversation, facts, now),
        Command::WhoAmI => say(&who(message, &facts.rules)),
        Command::Details => say(&details(facts.task.as_ref())),
        Command::Retry => retry(message, facts, now),
        // With its task, where people can read a diff that is too long for the platform.
        Command::Diff => changes(message, facts, now),
        Command::Usage => say(&facts.task.as_ref().map_or_else(|| NOTHING_YET.to_owned(), usage)),
    }
}

/// Replies to a command that changes the conversation, in one transaction with the change.
pub(super) fn changed(message: &Message, conversation: Conversation, text: String, now: TimeMs) -> Effect {
    let conversation = Some(Conversation { updated_at: now, ..conversation });
    let reply = Reply::new(answered(message, now), text);
    Effect::Reply(Box::new(Reply { conversation, ..reply }))
}

fn model(rules: &Rules, conversation: &Conversation) -> String {
    let own = conversation.model.as_ref().or(rules.model.as_ref());
    let now = own.map_or("Codex chooses the model.".to_owned(), |own| format!("The model is {own}."));
    if rules.models.is_empty() {
        return format!("{now} The operator has listed no others.");
    }
    format!("{now} /model NAME changes it: {}", rules.models.join(", "))
}

fn effort(rules: &Rules, conversation: &Conversation) -> String {
    let own = conversation.effort.as_ref().or(rules.effort.as_ref());
    let now = own.map_or("Codex chooses the effort.".to_owned(), |own| format!("The effort is {own}."));
    format!("{now} /effort LEVEL changes it: {}", EFFORTS.join(", "))
}

fn who(message: &Message, rules: &Rules) -> String {
    let may = match rules.role_of(message) {
        Some(Role::Approver) => "write to Codex, and decide on what it asks",
        Some(_) => "write to Codex; others decide on what it asks",
        None => "not write here",
    };
    let room = if message.room == Room::Direct { "a private conversation" } else { "a group" };
    format!(
        "You are {} ({}) on {}. You may {may}.\nThis is {room}: {}",
        message.sender_name, message.sender_id, message.channel, message.conversation
    )
}

/// Why the last turn failed.
fn details(task: Option<&Task>) -> String {
    let Some(task) = task else { return NOTHING_YET.to_owned() };
    let (status, reason) = (ShownStatus::of(task.status, &[]), task.reason.as_deref());
    let mut lines = vec![format!("{}: {status}", task.id.short())];
    match &task.error {
        Some(error) => {
            lines.push(format!("Kind: {}", error.kind.replace('_', " ")));
            lines.push(error.message.clone());
            lines.extend(reason.filter(|reason| *reason != error.message).map(str::to_owned));
        }
        None => lines.push(reason.unwrap_or("No error.").to_owned()),
    }
    lines.push(format!("On the machine: codex-bridge show {}", task.id.short()));
    lines.join("\n")
}

/// Makes the command the prompt that failed.
fn retry(message: &Message, facts: &Facts, now: TimeMs) -> Effect {
    let Some((failed, text)) = facts.failed.as_deref() else {
        return answer(message, None, "Nothing that failed is left to be tried again.", now);
    };
    let kind = MessageKind::Prompt;
    let summary = failed.summary.clone();
    let attached = failed.attached;
    let again = Message { kind, summary, attached, next_at: now, updated_at: now, ..message.clone() };
    Effect::Rewrite(Box::new(again), text.clone(), Some(failed.id.clone()))
}

fn status(conversation: &Conversation, facts: &Facts) -> String {
    let Some(task) = &facts.task else { return NOTHING_YET.to_owned() };
    let workspace = conversation.workspace.as_ref().unwrap_or(&facts.rules.workspace);
    let status = ShownStatus::of(task.status, &facts.requests);
    let mut lines = vec![format!("{} in {workspace}: {status}", task.id.short())];
    lines.extend(task.reason.clone());
    // The task itself knows only its first prompt.
    let last_prompt = facts.last_prompt.as_ref().unwrap_or(&task.prompt_summary);
    lines.push(format!("Last asked: {last_prompt}"));
    for request in &facts.requests {
        let (title, id) = (&request.ask.title, request.request_id.short());
        let how = if request.ask.is_question() {
            words::how(&request.task_id, &request.request_id, &request.ask)
        } else {
            format!("/approve {id} or /deny {id}")
        };
        lines.push(format!("Waits for a decision: {title} – {how}"));
    }
    let waiting = prompts(facts).count();
    if waiting > 0 {
        lines.push(format!("{waiting} more in the queue"));
    }
    lines.join("\n")
}

/// The waiting prompts, the oldest first.
fn prompts(facts: &Facts) -> impl Iterator<Item = &Message> {
    facts.waiting.iter().filter(|message| message.kind == MessageKind::Prompt)
}

fn queue(facts: &Facts) -> String {
    let line = |(number, message): (usize, &Message)| {
        let start: String = message.summary.chars().take(80).collect();
        format!("{}. {} ({})", number + 1, start, message.sender_name)
    };
    let lines: Vec<String> = prompts(facts).enumerate().map(line).collect();
    if lines.is_empty() { "Nothing waits.".to_owned() } else { lines.join("\n") }
}

fn stopped(task: Option<&Task>) -> String {
    match task {
        Some(task) if task.status.is_finished() => format!("{} is {}.", task.id.short(), task.status),
        // A waiting message has already begun.
        Some(task) => format!("{} was stopped. The next message in the queue starts now.", task.id.short()),
        None => "Nothing runs.".to_owned(),
    }
}

fn changes(message: &Message, facts: &Facts, now: TimeMs) -> Effect {
    match (&facts.task, &facts.diff) {
        (None, _) => answer(message, None, NOTHING_YET, now),
        (task, None) => answer(message, task.as_ref(), "The last turn changed nothing.", now),
        (task, Some(diff)) => answer_in(TextFormat::Diff, message, task.as_ref(), diff, now),
    }
}

fn usage(task: &Task) -> String {
    let tokens = task.usage.map_or(0, |usage| usage.total.total);
    let turns = if task.used.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", task.used.turns) };
    format!("{turns}, {} s of work, {tokens} tokens", task.used.work_ms / 1000)
}

fn projects(rules: &Rules, conversation: &Conversation) -> String {
    let own = conversation.workspace.as_ref().unwrap_or(&rules.workspace);
    let line = |name: &String| if name == own { format!("{name} (here)") } else { name.clone() };
    format!("Codex can work in: {}", rules.workspaces.keys().map(line).collect::<Vec<_>>().join(", "))
}
