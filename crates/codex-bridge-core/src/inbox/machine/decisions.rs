//! Decisions in a chat: which request is meant, and whether a yes counts. It counts only for what was shown whole, at the very
//! place where it is said, before it was said. A no needs none of this. Pure.

use codex_session::Decision;

use super::Facts;
use crate::decision::{DecisionOutcome, DecisionReport, is_no, is_yes};
use crate::inbox::{Message, answer};
use crate::outbox::{self, Asked, Delivery};
use crate::request::{Button, RequestName, RequestRecord, RequestState};
use crate::task::TimeMs;
use crate::token::Role;

/// The answer to whoever may write, and may not decide.
pub const MAY_NOT: &str = "You may not decide on what Codex asks.";

/// What came of a decision in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Codex took it.
    Taken {
        /// In words.
        text: String,
    },
    /// It does not count: too late, or somebody was first.
    TooLate {
        /// In words.
        text: String,
    },
    /// Who said it may not, or there is no such request here, or that is no answer to it.
    Forbidden {
        /// In words.
        text: String,
    },
    /// Whoever said it may not even write, and is told nothing.
    Unheard,
}

impl Verdict {
    /// In words; none for somebody who is told nothing.
    pub fn text(&self) -> &str {
        match self {
            Self::Taken { text } | Self::TooLate { text } | Self::Forbidden { text } => text,
            Self::Unheard => "",
        }
    }

    /// What came of a decision on this request.
    pub(crate) fn of(request: &RequestRecord, report: &DecisionReport) -> Self {
        let id = &request.request_id;
        let by = report.decided_by.as_deref().unwrap_or("somebody");
        let what = report.decision.as_deref().unwrap_or("answered");
        match report.outcome {
            DecisionOutcome::Resolved => Self::Taken { text: format!("{id}: {what}; Codex has taken it.") },
            DecisionOutcome::Sent => {
                Self::Taken { text: format!("{id}: {what}; it is on its way to Codex.") }
            }
            DecisionOutcome::AlreadyResolved => {
                Self::TooLate { text: format!("{id} was already answered: {what}, by {by}.") }
            }
            DecisionOutcome::Expired => {
                Self::TooLate { text: format!("{id} has expired: nobody answered in time.") }
            }
            DecisionOutcome::Orphaned => {
                Self::TooLate { text: format!("{id} is no longer open: what asked has ended.") }
            }
        }
    }
}

/// What somebody chose.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// This.
    Decision(Decision),
    /// The option with this number, counted from 0, of the only question of a request.
    Option(usize),
}

impl From<Decision> for Choice {
    fn from(decision: Decision) -> Self {
        Self::Decision(decision)
    }
}

impl Button {
    /// What is said of one that stands below something else.
    fn objection(&self) -> String {
        let id = &self.request_id;
        format!("{id} is not approved: this does not belong to what {id} asks now. /deny {id} denies it.")
    }

    /// Whether it stands below what this request asks.
    fn is_of(&self, request: &RequestRecord) -> bool {
        self.digest.len() >= Self::DIGEST_CHARS && request.digest.starts_with(&self.digest)
    }
}

/// What people at a place had seen of a request when one of them wrote something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// Nothing.
    None,
    /// Not all of it, or without knowing whether they did.
    Part,
    /// Nothing yet: it was shown after they had written.
    After,
    /// All of it.
    Whole,
}

impl Sight {
    /// What these deliveries had shown of a request where a message was written, when it was.
    pub fn of(told: &[Delivery], request: &RequestRecord, message: &Message) -> Self {
        let is_shown = |one: &&Delivery| {
            one.state == outbox::State::Delivered && bare(&one.target) == bare(&message.reply_to)
        };
        let sights =
            told.iter().filter(is_shown).map(|one| Self::by(one, request, written_until(message.sent_at)));
        sights.max().unwrap_or(Self::None)
    }

    /// What a notice that was delivered had shown of a request until then.
    fn by(delivery: &Delivery, request: &RequestRecord, until: TimeMs) -> Self {
        // Under the same name something else may have been asked.
        let is_it = |asked: &&Asked| asked.request_id == request.request_id && asked.digest == request.digest;
        match delivery.notice.requests().iter().find(is_it) {
            // What was delivered changes no more.
            Some(asked) if asked.was_shown && delivery.updated_at <= until => Self::Whole,
            Some(asked) if asked.was_shown => Self::After,
            Some(_) => Self::Part,
            None => Self::None,
        }
    }

    /// Why a yes does not count, and what to do; none if it does.
    fn objection(self, request: &RequestRecord) -> Option<String> {
        let (id, task) = (&request.request_id, &request.task_id);
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

/// The last moment at which something may have been written: Telegram tells whole seconds.
fn written_until(sent_at: TimeMs) -> TimeMs {
    if sent_at % 1_000 == 0 { sent_at + 999 } else { sent_at }
}

/// A target without the word that a plugin's place can be named with.
pub fn bare(target: &str) -> &str {
    target.strip_prefix("plugin:").unwrap_or(target)
}

/// What a command decides.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// This.
    Decision(Decision),
    /// An answer to a question, as it was written.
    Answer(String),
}

/// The request that a message decides on, and how; or what its sender hears instead.
pub fn in_words(
    message: &Message,
    id: Option<&str>,
    said: Said,
    facts: &Facts,
) -> Result<(RequestRecord, Decision), String> {
    if facts.rules.role(&message.sender_id, message.party) != Some(Role::Approver) {
        return Err(MAY_NOT.to_owned());
    }
    let is_agreed = matches!(&said, Said::Decision(decision) if is_yes(decision));
    let sight =
        |request: &RequestRecord| facts.sights.get(&request.request_id).copied().unwrap_or(Sight::None);
    let request = match id.map(Button::named) {
        Some(named) => {
            let request = found(facts.named.as_ref(), &named.request_id)?;
            let is_it = named.digest.is_empty() || named.is_of(request);
            if is_it { request } else { return Err(named.objection()) }
        }
        None if is_agreed => only(&agreeable(&facts.requests, sight))?,
        None => only(&facts.requests.iter().collect::<Vec<_>>())?,
    };
    let is_open = request.state == RequestState::Open;
    if is_agreed
        && is_open
        && !request.ask.is_question()
        && let Some(objection) = sight(request).objection(request)
    {
        return Err(objection);
    }
    let decision = match said {
        Said::Decision(decision) => decision,
        Said::Answer(text) => answer::decision(&request.task_id, &request.request_id, &request.ask, &text)?,
    };
    Ok((request.clone(), decision_of(request, decision.into())?))
}

/// The decision that a tap on a button is; or what whoever tapped hears instead.
pub fn by_button(
    request: Option<&RequestRecord>,
    button: &Button,
    choice: Choice,
) -> Result<(RequestRecord, Decision), String> {
    let request = found(request, &button.request_id)?;
    let says_no = matches!(&choice, Choice::Decision(decision) if is_no(decision));
    if request.state == RequestState::Open && !says_no && !button.is_of(request) {
        return Err(button.objection());
    }
    Ok((request.clone(), decision_of(request, choice)?))
}

fn found<'a>(request: Option<&'a RequestRecord>, id: &RequestName) -> Result<&'a RequestRecord, String> {
    request.ok_or_else(|| format!("There is no request {id} in this conversation."))
}

/// The request that words without a name can mean.
fn only<'a>(open: &[&'a RequestRecord]) -> Result<&'a RequestRecord, String> {
    match open {
        [] => Err("Nothing is asked here.".to_owned()),
        [one] => Ok(one),
        _ => {
            let ids: Vec<&str> = open.iter().map(|request| request.request_id.as_str()).collect();
            Err(format!("Several requests are open, say which one: {}", ids.join(", ")))
        }
    }
}

/// Those that a yes can mean: never a question, and of the others first what was shown.
fn agreeable(open: &[RequestRecord], sight: impl Fn(&RequestRecord) -> Sight) -> Vec<&RequestRecord> {
    let mut meant: Vec<&RequestRecord> = open.iter().filter(|request| !request.ask.is_question()).collect();
    if meant.is_empty() {
        meant = open.iter().collect();
    }
    let shown: Vec<_> = meant.iter().copied().filter(|request| sight(request) == Sight::Whole).collect();
    if shown.is_empty() { meant } else { shown }
}

/// What a choice means for this request. A question takes no yes, since nobody would have answered it; nor does what was
/// not shown.
fn decision_of(request: &RequestRecord, choice: Choice) -> Result<Decision, String> {
    let (id, task) = (&request.request_id, &request.task_id);
    let instead = |wrong: &str| answer::instead(wrong, task, id, &request.ask);
    if matches!(&choice, Choice::Decision(decision) if is_yes(decision)) {
        if request.ask.is_question() {
            return Err(instead(&format!("{id} is a question, which takes no yes.")));
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
        Choice::Option(number) => {
            answer::option(&request.ask, number).ok_or_else(|| instead(&format!("{id} has no such choice.")))
        }
    }
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
            Sight::by(&delivery, &request, until)
        };
        assert_eq!(at(&notice, 5, 9), Sight::Part);
        notice.note_shown(std::slice::from_ref(&request.request_id), &redact::Redactor::default());
        assert_eq!((at(&notice, 5, 5), at(&notice, 5, 4)), (Sight::Whole, Sight::After));
        notice.requests_mut().unwrap()[0].digest = "another".to_owned();
        assert_eq!(at(&notice, 5, 9), Sight::None);
        notice.requests_mut().unwrap().clear();
        assert_eq!(at(&notice, 5, 9), Sight::None);
    }

    #[test]
    fn a_time_in_seconds_is_any_moment_of_its_second() {
        assert_eq!((written_until(7_000), written_until(7_001)), (7_999, 7_001));
        assert!(bare("plugin:echo:room") == bare("echo:room") && bare("echo:room") != bare("echo:room2"));
    }
}
