//! Commands of people in a chat: `/status`, `/stop`, `/approve` … Pure.

use codex_session::Decision;

use super::decisions::{self, Said};
use super::{Effect, Facts, Outcome, Reply, TOO_LONG_AGO, answer, answer_in, answered, is_past};
use crate::inbox::command::HELP;
use crate::inbox::{Command, Conversation, Message, MessageKind, Rules, answer as words};
use crate::outbox::notice::TextFormat;
use crate::task::{ShownStatus, Task, TimeMs};

const NOTHING_YET: &str = "Codex has done nothing here yet.";

/// Carries out a command, or words its outcome.
pub fn carry_out(message: &Message, command: Command, facts: &Facts, now: TimeMs) -> Effect {
    let say = |text: &str| answer(message, None, text, now);
    match &facts.outcome {
        Some(Outcome::Stopped(task)) => return say(&stopped(task.as_deref())),
        Some(Outcome::Decided(text)) => return say(text),
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
        Command::Help | Command::Steer(_) | Command::Enqueue(_) => say(HELP),
        Command::Unknown(what) => say(&format!("{}.\n\n{HELP}", capitalised(&what))),
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
        // With its task, where people can read a diff that is too long for the platform.
        Command::Diff => changes(message, facts, now),
        Command::Usage => say(&facts.task.as_ref().map_or_else(|| NOTHING_YET.to_owned(), usage)),
    }
}

/// Replies to a command that changes the conversation, in one transaction with the change.
fn changed(message: &Message, conversation: Conversation, text: String, now: TimeMs) -> Effect {
    let conversation = Some(Conversation { updated_at: now, ..conversation });
    let message = answered(message, now);
    Effect::Reply(Box::new(Reply {
        message,
        task: None,
        text,
        format: TextFormat::Plain,
        added: Vec::new(),
        conversation,
    }))
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
    format!("{} turns, {} s of work, {tokens} tokens", task.used.turns, task.used.work_ms / 1000)
}

fn projects(rules: &Rules, conversation: &Conversation) -> String {
    let own = conversation.workspace.as_ref().unwrap_or(&rules.workspace);
    let line = |name: &String| if name == own { format!("{name} (here)") } else { name.clone() };
    format!("Codex can work in: {}", rules.workspaces.keys().map(line).collect::<Vec<_>>().join(", "))
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
