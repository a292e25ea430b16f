//! Messages that answer what Codex asks: replies to a request, comments on one, and words such as "yes". Pure.

use codex_session::Decision;

use super::decisions::{self, MAY_NOT, Named, Said};
use super::{Effect, Facts, Outcome, answer};
use crate::inbox::{About, Message, MessageKind};
use crate::request::{RequestRecord, RequestState};
use crate::task::TimeMs;
use crate::token::Role;

/// Answers what Codex asks. A message that answers nothing becomes a prompt.
pub fn respond(message: &Message, text: String, facts: &Facts, now: TimeMs) -> Effect {
    let say = |text: &str| answer(message, None, text, now);
    if let Some(Outcome::Decided(verdict)) = &facts.outcome {
        return say(verdict.text());
    }
    match (&message.about, &facts.named) {
        (Some(About::Comment(_)), Named::One(request)) => comment(message, request, facts, now),
        (Some(About::Reply(id)), Named::One(request)) if request.state == RequestState::Open => {
            if !request.ask.is_question() {
                return say(&waits_for(&[request]));
            }
            match decisions::in_words(message, Some(id.as_str()), Said::Answer(text), facts) {
                Ok((request, decision)) => Effect::Decide(Box::new(request), decision),
                Err(text) => say(&text),
            }
        }
        (None, _) if !facts.requests.is_empty() => {
            say(&waits_for(&facts.requests.iter().collect::<Vec<_>>()))
        }
        _ => becomes(MessageKind::Prompt, message, now),
    }
}

/// Gives a comment to the running turn. The request is declined once Codex has the comment, so that it reads both at once.
fn comment(message: &Message, request: &RequestRecord, facts: &Facts, now: TimeMs) -> Effect {
    if facts.rules.role_of(message) != Some(Role::Approver) {
        return answer(message, None, MAY_NOT, now);
    }
    if request.state != RequestState::Open {
        let late = "This is no longer open, so your comment was not given to Codex. Write it again as a message of its own if \
            it still applies.";
        return answer(message, None, late, now);
    }
    becomes(MessageKind::Steer, message, now)
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
