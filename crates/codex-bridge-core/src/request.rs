//! A request: something Codex asks of a person, as stored.

use std::ops::Deref;

use codex_session::ask::{Kind, Offer, ShownChange};
use codex_session::{Ask, Decision, RequestKey};
use codex_wire::escalation::Escalation;
use codex_wire::text_id;
use redact::Redactor;
use serde::{Deserialize, Serialize};

use crate::id;
use crate::task::{ShownStatus, Status, TaskId, TimeMs};
use crate::trust::Trust;

/// How long a request may be, as JSON, to be approved in a chat: a few messages on the platform with the shortest ones.
const CHAT_BYTES: usize = 16 * 1024;

text_id!(
    /// The bridge's id of a request, for people and programs. It is unique across tasks and hosts. Codex's `RequestId`
    /// is unique only within one epoch of a host.
    RequestName
);

impl RequestName {
    /// The prefix of every name.
    pub(crate) const WORD: &str = "req-";

    /// The short form, for people.
    pub fn short(&self) -> &str {
        id::short(&self.0)
    }
}

/// A stored request. What is shown is redacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// The host's epoch and Codex's id.
    pub key: RequestKey,
    /// The task.
    pub task_id: TaskId,
    /// The bridge's id, for people and programs.
    pub request_id: RequestName,
    /// The digest of what Codex asked, before redaction; empty in requests of older versions.
    #[serde(default)]
    pub digest: String,
    /// Codex's method.
    pub method: String,
    /// What people are shown, and what was recorded with it.
    pub ask: StoredAsk,
    /// How far the request has come.
    pub state: RequestState,
    /// The sealed request without redaction. Kept while the request is open, if redaction hid something.
    pub sealed_ask: Option<Vec<u8>>,
    /// The sealed decision, kept until Codex has it. Answers to secret questions are never stored.
    pub sealed_decision: Option<Vec<u8>>,
    /// What was decided.
    pub decision: Option<DecisionWord>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When it was decided.
    pub decided_at: Option<TimeMs>,
    /// When Codex asked.
    pub created_at: TimeMs,
    /// The deadline for a decision.
    pub expires_at: Option<TimeMs>,
    /// When the request ended.
    pub closed_at: Option<TimeMs>,
}

/// What people are shown of a request, and what was recorded with it: one value in the store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredAsk {
    /// What people are shown. Redacted.
    #[serde(flatten)]
    pub ask: Ask,
    /// The directory's trust level when Codex asked; `None` in requests of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// How many bytes the complete diffs have, if the diffs here are cut and the complete ones are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_changes_bytes: Option<usize>,
}

impl StoredAsk {
    /// Reads the stored JSON. A request that this version cannot read can only be declined.
    pub(crate) fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| Self {
            ask: Ask {
                title: "Codex asked something that this version cannot read".to_owned(),
                offers: vec![Offer::Decline],
                needs_reveal: true,
                ..Ask::default()
            },
            ..Self::default()
        })
    }
}

impl Deref for StoredAsk {
    type Target = Ask;

    fn deref(&self) -> &Ask {
        &self.ask
    }
}

/// The complete changes of a request whose diffs are too long for a list. Redacted.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeChanges {
    /// The request.
    pub request_id: RequestName,
    /// The task.
    pub task_id: TaskId,
    /// As in `ask.changes`, with complete diffs. A diff too long even here says how much is missing.
    pub changes: Vec<ShownChange>,
}

/// The changes of a request, as shown to a caller who opens them.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedChanges {
    /// As in `ask.changes`, with complete diffs where those are stored.
    pub changes: Vec<ShownChange>,
    /// The digest to send with an approval: it proves that the caller was given all changes. If diffs are missing even
    /// here, this is the digest of the request itself, which cannot approve them.
    pub digest: String,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// Codex waits for a decision.
    Open,
    /// Decided here; Codex has not confirmed the decision.
    Decided,
    /// Codex confirmed the decision.
    Resolved,
    /// Codex confirmed a decision that another client made.
    AnsweredElsewhere,
    /// Nobody decided before the deadline.
    Expired,
    /// The turn or the host ended before a decision.
    Orphaned,
}

impl RequestState {
    /// The word in JSON and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Decided => "decided",
            Self::Resolved => "resolved",
            Self::AnsweredElsewhere => "answered_elsewhere",
            Self::Expired => "expired",
            Self::Orphaned => "orphaned",
        }
    }
}

/// A decision in one word, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DecisionWord {
    /// Yes, once.
    Accept,
    /// Yes, and the same again in this thread without asking.
    AcceptForSession,
    /// Yes, permanently in every thread.
    AcceptAlways,
    /// Declined; the turn continues.
    Decline,
    /// Declined, and the turn ends.
    Cancel,
    /// Permissions.
    Grant,
    /// Answers to questions.
    Answers,
    /// A filled form.
    Form,
    /// A word of another version.
    #[serde(untagged)]
    Other(String),
}

impl DecisionWord {
    /// The word in JSON and in the store.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Accept => "accept",
            Self::AcceptForSession => "acceptForSession",
            Self::AcceptAlways => "acceptAlways",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
            Self::Grant => "grant",
            Self::Answers => "answers",
            Self::Form => "form",
            Self::Other(word) => word,
        }
    }

    /// The words on a button; `None` for decisions that need more than a tap.
    pub fn label(&self) -> Option<&'static str> {
        Some(match self {
            Self::Accept => "Approve once",
            Self::AcceptForSession => "Approve for this task",
            Self::AcceptAlways => "Approve always",
            Self::Decline => "Decline",
            Self::Cancel => "Decline and stop",
            Self::Grant | Self::Answers | Self::Form | Self::Other(_) => return None,
        })
    }

    /// The words for people, in the past tense.
    pub fn past_tense(&self) -> &str {
        match self {
            Self::Accept => "approved",
            Self::AcceptForSession => "approved for this task",
            Self::AcceptAlways => "approved for good",
            Self::Decline => "declined",
            Self::Cancel => "cancelled",
            Self::Grant => "granted",
            Self::Answers | Self::Form => "answered",
            Self::Other(word) => word,
        }
    }

    /// The decision, if the word says all of it.
    pub fn decision(&self) -> Option<Decision> {
        Some(match self {
            Self::Accept => Decision::Accept,
            Self::AcceptForSession => Decision::AcceptForSession,
            Self::AcceptAlways => Decision::AcceptAlways,
            Self::Decline => Decision::Decline,
            Self::Cancel => Decision::Cancel,
            Self::Grant | Self::Answers | Self::Form | Self::Other(_) => return None,
        })
    }
}

impl From<&Decision> for DecisionWord {
    fn from(decision: &Decision) -> Self {
        match decision {
            Decision::Accept => Self::Accept,
            Decision::AcceptForSession => Self::AcceptForSession,
            Decision::AcceptAlways => Self::AcceptAlways,
            Decision::Decline => Self::Decline,
            Decision::Cancel => Self::Cancel,
            Decision::Grant { .. } => Self::Grant,
            Decision::Answers(_) => Self::Answers,
            Decision::Form(_) => Self::Form,
        }
    }
}

impl From<&str> for DecisionWord {
    fn from(word: &str) -> Self {
        serde_json::from_value(word.into()).unwrap_or_else(|_| Self::Other(word.to_owned()))
    }
}

impl RequestRecord {
    /// Ends the request: erases what was sealed and redacts secrets that were shown for the decision.
    pub(crate) fn close(&mut self, state: RequestState, redactor: &Redactor, now: TimeMs) {
        (self.state, self.closed_at) = (state, Some(now));
        (self.sealed_decision, self.sealed_ask) = (None, None);
        self.ask.ask.redact(redactor);
    }

    /// Whether the whole request, diffs included, can be shown in a chat. A request that is too long for a chat, or
    /// must not be shown there, cannot be approved there.
    pub(crate) fn fits_a_chat(&self) -> bool {
        !self.ask.needs_reveal
            && self.ask.whole_changes_bytes.is_none()
            && serde_json::to_string(&self.ask).is_ok_and(|text| text.len() <= CHAT_BYTES)
    }

    /// Whether the request offers this decision. An escalation can be approved once, but not for the session. Requests
    /// of older versions, which did not record escalations, offer everything.
    pub(crate) fn offers(&self, decision: &Decision) -> bool {
        let lasts = matches!(decision, Decision::AcceptForSession | Decision::AcceptAlways);
        let is_wider = self.ask.escalation.is_some_and(Escalation::counts);
        !lasts || !is_wider || self.ask.kind == Kind::Permissions
    }
}

/// The request behind a button, or behind a platform's substitute for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    /// The request.
    pub request_id: RequestName,
    /// The beginning of the digest of what was shown with the button; empty if none was sent.
    pub digest: String,
}

impl Button {
    /// How many characters of the digest a button carries. Some platforms leave room for few more.
    pub const DIGEST_CHARS: usize = 16;

    /// Reads `REQUEST.DIGEST`, the form in which people see the name, or `REQUEST` alone.
    pub fn named(name: &str) -> Self {
        let (request_id, digest) = name.split_once('.').unwrap_or((name, ""));
        Self { request_id: request_id.into(), digest: digest.to_owned() }
    }
}

impl ShownStatus {
    /// The status of a task with these open requests.
    pub fn of(status: Status, open: &[RequestRecord]) -> Self {
        if open.is_empty() || !matches!(status, Status::Working | Status::Starting) {
            return Self::Stored(status);
        }
        let only_questions = open.iter().all(|request| request.ask.is_question());
        if only_questions { Self::WaitingForUserInput } else { Self::WaitingForApproval }
    }
}
