//! Decisions in a chat: which request is meant, and whether an approval is valid. An approval is valid only for a
//! request that was shown in full, at the same place, before the approval was written. Pure.

use codex_session::Decision;

use super::Facts;
use crate::decision::{DecisionOutcome, DecisionReport, TooLate, is_no, is_yes};
use crate::inbox::{Message, answer};
use crate::outbox::{self, Asked, Delivery};
use crate::request::{Button, DecisionWord, RequestName, RequestRecord, RequestState};
use crate::task::TimeMs;
use crate::token::Role;

/// The reply to a sender who may write but not decide.
pub const MAY_NOT: &str = "You may not decide on what Codex asks.";

/// What became of a decision in a chat.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Codex took it, or will.
    Taken {
        /// The reply.
        text: String,
    },
    /// The decision came too late, or somebody else was first.
    TooLate {
        /// The reply.
        text: String,
    },
    /// The sender may not decide, the request is not in this conversation, or the answer does not fit.
    Forbidden {
        /// The reply.
        text: String,
    },
    /// Nothing is decided yet: the request has another question.
    Next {
        /// The request.
        asked: Box<Asked>,
        /// The options of the questions before, counted from 0.
        chosen: Vec<usize>,
    },
    /// Nothing is decided yet: the next message of the sender is a comment, and declines the request.
    Comment,
    /// The sender is not on the allow list, and gets no reply.
    NotAllowed,
}

impl Verdict {
    /// The reply; empty if there is none.
    pub fn text(&self) -> &str {
        match self {
            Self::Taken { text } | Self::TooLate { text } | Self::Forbidden { text } => text,
            Self::Comment => "Write your comment as your next message.",
            Self::Next { .. } | Self::NotAllowed => "",
        }
    }

    /// What became of a decision.
    pub(crate) fn of(report: DecisionReport) -> Self {
        match report.counted() {
            Ok(report) => {
                let what = capitalised(report.decision.as_ref().map_or("answered", DecisionWord::past_tense));
                let is_sent = report.outcome == DecisionOutcome::Sent;
                let taken = if is_sent { "it is on its way to Codex" } else { "Codex has it" };
                Self::Taken { text: format!("{what}: {taken}.") }
            }
            Err(TooLate(report)) => Self::TooLate { text: format!("This {}.", report.lateness()) },
        }
    }
}

/// What a button chooses.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// A decision.
    Decision(Decision),
    /// An option of each of the request's first questions, counted from 0.
    Options(Vec<usize>),
    /// To decline, with a comment that the sender has yet to write.
    Comment,
}

impl From<Decision> for Choice {
    fn from(decision: Decision) -> Self {
        Self::Decision(decision)
    }
}

impl Button {
    /// The reply to a button that belongs to something else.
    fn objection(&self) -> String {
        let id = self.request_id.short();
        format!("{id} is not approved: this belongs to an earlier form of the request. /deny {id} denies it.")
    }

    /// Whether the button belongs to what this request asks.
    fn is_of(&self, request: &RequestRecord) -> bool {
        self.digest.len() >= Self::DIGEST_CHARS && request.digest.starts_with(&self.digest)
    }
}

/// What the name of a request means in a conversation. Requests of other conversations are not found.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Named {
    /// No request.
    #[default]
    Nothing,
    /// This request.
    One(Box<RequestRecord>),
    /// Several requests, whose names begin with it.
    Several,
}

impl Named {
    /// The request, or the reply instead.
    fn only(&self, id: &RequestName) -> Result<&RequestRecord, String> {
        match self {
            Self::One(request) => Ok(request),
            Self::Nothing => Err(format!("There is no request {id} in this conversation.")),
            Self::Several => Err(format!("Several requests begin with {id}: write more of the id.")),
        }
    }
}

/// How much of a request had been shown at a place when a message was written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visibility {
    /// Nothing.
    None,
    /// Not all of it, or unknown how much.
    Part,
    /// All of it, but only after the message was written.
    After,
    /// All of it.
    Whole,
}

impl Visibility {
    /// How much of a request these deliveries had shown where and when the message was written.
    pub fn of(told: &[Delivery], request: &RequestRecord, message: &Message) -> Self {
        let is_shown = |one: &&Delivery| {
            one.state == outbox::DeliveryState::Delivered && bare(&one.target) == bare(&message.reply_to)
        };
        let visibilities =
            told.iter().filter(is_shown).map(|one| Self::by(one, request, written_until(message.sent_at)));
        visibilities.max().unwrap_or(Self::None)
    }

    /// How much of a request a delivered notice had shown until then.
    fn by(delivery: &Delivery, request: &RequestRecord, until: TimeMs) -> Self {
        // Another request may have had the same name.
        let is_it = |asked: &&Asked| asked.request_id == request.request_id && asked.digest == request.digest;
        match delivery.notice.requests().iter().find(is_it) {
            // A delivered notice no longer changes, so `updated_at` is when it was shown.
            Some(asked) if asked.was_shown && delivery.updated_at <= until => Self::Whole,
            Some(asked) if asked.was_shown => Self::After,
            Some(_) => Self::Part,
            None => Self::None,
        }
    }

    /// Why an approval is not valid, and what to do; `None` if it is.
    fn objection(self, request: &RequestRecord) -> Option<String> {
        let (id, task) = (request.request_id.short(), request.task_id.short());
        let elsewhere = format!(
            "`codex-bridge requests {task}` and the web page show all of it, `codex-bridge approve {task} {id}` \
             approves it; /deny {id} denies it."
        );
        Some(match self {
            Self::Whole => return None,
            Self::After => {
                format!("{id} was shown here only after this was written. Read it; then write /approve {id}.")
            }
            Self::Part => format!("{id} is not approved: it could not be shown here whole. {elsewhere}"),
            Self::None => format!("{id} is not approved: it has not been shown here. {elsewhere}"),
        })
    }
}

/// The latest moment at which a message may have been written: Telegram reports whole seconds.
fn written_until(sent_at: TimeMs) -> TimeMs {
    if sent_at % 1_000 == 0 { sent_at + 999 } else { sent_at }
}

/// A target without the optional `plugin:` prefix.
pub fn bare(target: &str) -> &str {
    target.strip_prefix("plugin:").unwrap_or(target)
}

/// What a command decides.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// A decision.
    Decision(Decision),
    /// An answer to a question, as written.
    Answer(String),
}

/// The request and the decision that a command means, or the reply instead.
pub fn in_words(
    message: &Message,
    id: Option<&str>,
    said: Said,
    facts: &Facts,
) -> Result<(RequestRecord, Decision), String> {
    if facts.rules.role_of(message) != Some(Role::Approver) {
        return Err(MAY_NOT.to_owned());
    }
    let is_agreed = matches!(&said, Said::Decision(decision) if is_yes(decision));
    let visibility = |request: &RequestRecord| {
        facts.visibilities.get(&request.request_id).copied().unwrap_or(Visibility::None)
    };
    let request = match id.map(Button::named) {
        Some(named) => {
            let request = facts.named.only(&named.request_id)?;
            let is_it = named.digest.is_empty() || named.is_of(request);
            if is_it { request } else { return Err(named.objection()) }
        }
        None if is_agreed => only(&agreeable(&facts.requests, visibility))?,
        None => only(&facts.requests.iter().collect::<Vec<_>>())?,
    };
    let is_open = request.state == RequestState::Open;
    // An answer takes the defaults of the fields that it leaves out. They must have been seen, as what is approved must.
    let takes_defaults = matches!(said, Said::Answer(_)) && request.ask.has_defaults();
    if is_open
        && (takes_defaults || is_agreed && !request.ask.is_question())
        && let Some(objection) = visibility(request).objection(request)
    {
        return Err(objection);
    }
    let decision = match said {
        Said::Decision(decision) => decision,
        Said::Answer(text) => answer::decision(&request.task_id, &request.request_id, &request.ask, &text)?,
    };
    Ok((request.clone(), decision_of(request, decision.into())?))
}

/// What a button means: a decision on a request, or what is still missing for one.
#[derive(Debug, Clone, PartialEq)]
pub enum Meant {
    /// A decision.
    Decision(Box<RequestRecord>, Decision),
    /// The request has another question.
    Next(Box<RequestRecord>, Vec<usize>),
    /// A comment has to be written.
    Comment,
}

/// What a button means, or the reply instead.
pub fn by_button(named: &Named, button: &Button, choice: Choice) -> Result<Meant, String> {
    let request = named.only(&button.request_id)?;
    let says_no = match &choice {
        Choice::Decision(decision) => is_no(decision),
        Choice::Options(_) => false,
        Choice::Comment => true,
    };
    let is_open = request.state == RequestState::Open;
    if is_open && !says_no && !button.is_of(request) {
        return Err(button.objection());
    }
    let boxed = || Box::new(request.clone());
    match choice {
        Choice::Comment if is_open => Ok(Meant::Comment),
        // The reply says who decided before.
        Choice::Comment => Ok(Meant::Decision(boxed(), Decision::Decline)),
        Choice::Options(chosen) if is_open && !answer::options(&request.ask, chosen.len()).is_empty() => {
            let is_valid =
                |(question, number): (usize, &usize)| *number < answer::options(&request.ask, question).len();
            let are_valid = chosen.iter().enumerate().all(is_valid);
            if are_valid { Ok(Meant::Next(boxed(), chosen)) } else { Err(no_such_choice(request)) }
        }
        choice => Ok(Meant::Decision(boxed(), decision_of(request, choice)?)),
    }
}

fn no_such_choice(request: &RequestRecord) -> String {
    let wrong = format!("{} has no such choice.", request.request_id.short());
    answer::instead(&wrong, &request.task_id, &request.request_id, &request.ask)
}

/// The request that a command without a name means.
fn only<'a>(open: &[&'a RequestRecord]) -> Result<&'a RequestRecord, String> {
    match open {
        [] => Err("There is no open request in this conversation.".to_owned()),
        [one] => Ok(one),
        _ => {
            let ids: Vec<&str> = open.iter().map(|request| request.request_id.short()).collect();
            Err(format!("Several requests are open, say which one: {}", ids.join(", ")))
        }
    }
}

/// The requests that an approval without a name can mean: no questions, and preferably those that were shown.
fn agreeable(
    open: &[RequestRecord],
    visibility: impl Fn(&RequestRecord) -> Visibility,
) -> Vec<&RequestRecord> {
    let mut meant: Vec<&RequestRecord> = open.iter().filter(|request| !request.ask.is_question()).collect();
    if meant.is_empty() {
        meant = open.iter().collect();
    }
    let shown: Vec<_> =
        meant.iter().copied().filter(|request| visibility(request) == Visibility::Whole).collect();
    if shown.is_empty() { meant } else { shown }
}

/// The decision that a choice means for this request. Questions and long requests cannot be approved.
fn decision_of(request: &RequestRecord, choice: Choice) -> Result<Decision, String> {
    let (id, task) = (request.request_id.short(), request.task_id.short());
    let instead = |wrong: &str| answer::instead(wrong, &request.task_id, &request.request_id, &request.ask);
    if matches!(&choice, Choice::Decision(decision) if is_yes(decision)) {
        if request.ask.is_question() {
            return Err(instead(&format!("{id} is a question: it needs an answer, not an approval.")));
        }
        if request.ask.needs_reveal {
            return Err(format!(
                "{id} holds a secret that cannot be shown here, and is not approved here. On the machine, \
                 `codex-bridge requests {task} --reveal` shows it and `codex-bridge approve {task} {id}` approves it; \
                 /deny {id} denies it."
            ));
        }
        if !request.fits_a_chat() {
            return Err(format!(
                "{id} is too long to be shown in a chat, and is not approved in one. `codex-bridge requests {task}` \
                 shows all of it, `codex-bridge approve {task} {id}` approves it."
            ));
        }
    }
    match choice {
        Choice::Decision(decision) => Ok(decision),
        Choice::Options(chosen) => {
            answer::chosen(&request.ask, &chosen).ok_or_else(|| no_such_choice(request))
        }
        Choice::Comment => Ok(Decision::Decline),
    }
}

/// A text with a capital letter at its beginning.
pub(super) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Notice;
    use crate::store::conformance::samples;

    #[test]
    fn only_what_was_shown_whole_before_counts() {
        let request = samples::request(1, codex_wire::RequestId::Number(0), RequestState::Open);
        let mut notice = Notice::of_request(&samples::new_task(1), &request);
        let at = |notice: &Notice, shown_at, until| {
            let delivery =
                Delivery { updated_at: shown_at, ..Delivery::new("dlv-1".into(), "a:b", notice.clone(), 0) };
            Visibility::by(&delivery, &request, until)
        };
        assert_eq!(at(&notice, 5, 9), Visibility::Part);
        notice.note_shown(std::slice::from_ref(&request.request_id), &redact::Redactor::default());
        assert_eq!((at(&notice, 5, 5), at(&notice, 5, 4)), (Visibility::Whole, Visibility::After));
        notice.requests_mut().unwrap()[0].digest = "another".to_owned();
        assert_eq!(at(&notice, 5, 9), Visibility::None);
        notice.requests_mut().unwrap().clear();
        assert_eq!(at(&notice, 5, 9), Visibility::None);
    }

    #[test]
    fn a_time_in_seconds_is_any_moment_of_its_second() {
        assert_eq!((written_until(7_000), written_until(7_001)), (7_999, 7_001));
        assert!(bare("plugin:echo:room") == bare("echo:room") && bare("echo:room") != bare("echo:room2"));
    }
}
