//! New versions of messages. Pure.

use super::{Effect, Facts, Reply, answer, answered, is_past};
use crate::inbox::{Command, Message, MessageKind, MessageState, Party, intake};
use crate::task::TimeMs;

/// Replaces the text of a message that waits. Later the sender is told that Codex has it as it was. An agent is told nothing:
/// it may change its message many times, and may answer each reply.
pub fn edit(message: &Message, text: &str, facts: &Facts, now: TimeMs) -> Vec<Effect> {
    let is_agent = message.party == Party::Agent;
    let say =
        |text: &str| vec![if is_agent { closed(message, now) } else { answer(message, None, text, now) }];
    let Some((original, present)) = facts.edited.as_deref() else {
        // It was not for us before, or was too long ago.
        let is_late =
            is_agent || is_past(message, now) || intake::too_old(message, &facts.rules, now).is_some();
        return if is_late { say(TOO_LATE) } else { vec![as_new(message, text, now)] };
    };
    if original.sender_id != message.sender_id {
        return vec![closed(message, now)];
    }
    // A platform may report a change that is none, such as a preview of a link.
    let is_same = present.as_deref().map_or(original.summary == message.summary, |present| present == text);
    if is_same {
        return vec![closed(message, now)];
    }
    let waits = original.state == MessageState::Received && original.kind == MessageKind::Prompt;
    if !waits {
        return say(if original.kind == MessageKind::Prompt { TOO_LATE } else { NOT_A_PROMPT });
    }
    // What was spoken, or stands in a file, is part of the old text.
    if !original.attached.is_nothing() {
        return say(HAS_FILES);
    }
    let command = Command::parse(text).filter(|_| !is_agent);
    if command.is_some_and(|command| !matches!(command, Command::Enqueue(_))) {
        return say(NO_COMMAND);
    }
    let summary = message.summary.clone();
    let changed = Message { summary, hops: message.hops, updated_at: now, ..original.clone() };
    if is_agent {
        return vec![Effect::Rewrite(Box::new(changed), text.to_owned(), None), closed(message, now)];
    }
    // In one transaction: otherwise a crash between them would make the same change look like none.
    let rewritten = Some((changed, text.to_owned()));
    let reply = Reply::new(answered(message, now), TAKEN.to_owned());
    vec![Effect::Reply(Box::new(Reply { rewritten, ..reply }))]
}

const TAKEN: &str = "Your change was taken over: Codex gets the new text.";
const TOO_LATE: &str =
    "Codex already has this message as it was. Send what you want to change as a new message.";
const HAS_FILES: &str = "A message with files cannot be changed. Codex gets it as it was.";
const NOT_A_PROMPT: &str =
    "Only messages to Codex can be changed. Send this as a new message if it still applies.";
const NO_COMMAND: &str = "A command is not carried out when it is written into an old message. Send it as a new one; the old message waits as it was.";

/// The message as if it were no new version of another.
fn as_new(message: &Message, text: &str, now: TimeMs) -> Effect {
    let kind = intake::kind(text, message.about.as_ref());
    Effect::Save(Box::new(Message { kind, edits: None, next_at: now, updated_at: now, ..message.clone() }))
}

/// Nothing is to be done, and nothing to be said.
fn closed(message: &Message, now: TimeMs) -> Effect {
    let closed =
        Message { state: MessageState::Answered, sealed_text: None, updated_at: now, ..message.clone() };
    Effect::Save(Box::new(closed))
}
