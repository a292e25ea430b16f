//! Messages that answer what Codex asks: replies to a request, comments on one, and words such as "yes". Pure.

use codex_session::Decision;

use super::decisions::{self, MAY_NOT, Named, Said};
use super::{Effect, Facts, Outcome, answer, give};
use crate::inbox::{About, Message, MessageKind, intake};
use crate::request::{RequestRecord, RequestState};
use crate::task::{Task, TimeMs};
use crate::token::Role;

/// Answers what Codex asks. A message that answers nothing becomes a prompt.
pub fn respond(message: &Message, text: String, facts: &Facts, now: TimeMs) -> Effect {
    let say = |text: &str| answer(message, None, text, now);
    if let Some(Outcome::Decided(verdict)) = &facts.outcome {
        return say(verdict.text());
    }
    match (&message.about, &facts.named) {
        (Some(About::Comment(_)), _) => becomes(MessageKind::Steer, message, now),
        // Even if the request is no longer open: this message may be what answered it, before a crash.
        (Some(About::Reply(id)), Named::One(request)) if request.ask.is_question() => {
            match decisions::in_words(message, Some(id.as_str()), Said::Answer(text), facts) {
                Ok((request, decision)) => Effect::Decide(Box::new(request), decision),
                Err(text) => say(&text),
            }
        }
        (Some(About::Reply(_)), Named::One(request))
            if request.state == RequestState::Open && intake::is_short_word(&text) =>
        {
            say(&waits_for(&[request]))
        }
        (None, _) if !facts.requests.is_empty() => {
            say(&waits_for(&facts.requests.iter().collect::<Vec<_>>()))
        }
        _ => becomes(MessageKind::Prompt, message, now),
    }
}

/// Gives a comment to the turn that asked. The request is declined once Codex has the comment, so that it reads both at once.
/// If the comment cannot be given, the request is declined now, and the author is told.
pub fn comment(message: &Message, text: String, facts: &Facts, now: TimeMs) -> Effect {
    let say = |text: &str| answer(message, None, text, now);
    let not_given = |why: &str| {
        let again = "Your comment was not given to Codex. Write it again as a message of its own if it still applies.";
        say(&format!("{why} {again}"))
    };
    if let Some(Outcome::Decided(verdict)) = &facts.outcome {
        return not_given(verdict.text());
    }
    if facts.rules.role_of(message) != Some(Role::Approver) {
        return say(MAY_NOT);
    }
    let Named::One(request) = &facts.named else { return not_given("This is no longer open.") };
    if request.state != RequestState::Open {
        return not_given("This is no longer open.");
    }
    // A comment that has the name of a task was refused by its turn.
    let takes_it = |task: &&Task| facts.is_driven && task.id == request.task_id && message.task_id.is_none();
    match facts.task.as_ref().filter(takes_it) {
        Some(task) => give(message, task, text, now),
        None => Effect::Decide(request.clone(), Decision::Decline),
    }
}

/// The decision of a comment, as long as its request is open.
pub fn declines(message: &Message, facts: &Facts) -> Option<Effect> {
    let (Some(About::Comment(_)), Named::One(request)) = (&message.about, &facts.named) else { return None };
    let is_open = request.state == RequestState::Open && facts.rules.role_of(message) == Some(Role::Approver);
    is_open.then(|| Effect::Decide(request.clone(), Decision::Decline))
}

fn becomes(kind: MessageKind, message: &Message, now: TimeMs) -> Effect {
    Effect::Save(Box::new(Message { kind, next_at: now, updated_at: now, ..message.clone() }))
}

fn waits_for(requests: &[&RequestRecord]) -> String {
    let titles: Vec<&str> = requests.iter().map(|request| request.ask.title.as_str()).collect();
    format!(
        "Codex waits for your decision above: {} A word alone decides nothing. Use the buttons or the commands of that \
         message.",
        titles.join(" ")
    )
}
