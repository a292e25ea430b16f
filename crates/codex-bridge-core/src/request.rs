//! Something that Codex asks of a person, as it is remembered.

use std::ops::Deref;

use codex_session::ask::{Kind, Offer, ShownChange};
use codex_session::{Ask, Decision, RequestKey};
use codex_wire::escalation::Escalation;
use codex_wire::text_id;
use redact::Redactor;
use serde::{Deserialize, Serialize};

use crate::task::{ShownStatus, Status, TaskId, TimeMs};
use crate::trust::Trust;

/// The most that a request says, as JSON, for people to agree to it in a chat: a few messages of the tightest one.
const CHAT_BYTES: usize = 16 * 1024;

text_id!(
    /// Our own name of a request, for people and programs: unique over all tasks and hosts. Codex's `RequestId` is
    /// unique within one start of a host only.
    RequestName
);

/// A request as it is remembered. What is shown is redacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Names it: the start of the host, and the id there.
    pub key: RequestKey,
    /// Whose.
    pub task_id: TaskId,
    /// The name that people and programs use.
    pub request_id: RequestName,
    /// Names what Codex asked, before anything was redacted; empty for what was recorded before there were digests.
    #[serde(default)]
    pub digest: String,
    /// Codex's method.
    pub method: String,
    /// What is shown, and what was noted with it.
    pub ask: StoredAsk,
    /// Where it stands.
    pub state: RequestState,
    /// What is asked with nothing hidden, sealed, as long as it can be answered; none if nothing is hidden.
    pub sealed_ask: Option<Vec<u8>>,
    /// What was decided, sealed while it must still be acted on; answers to secret questions are never kept.
    pub sealed_decision: Option<Vec<u8>>,
    /// What was decided, for people.
    pub decision: Option<String>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<TimeMs>,
    /// When it was asked.
    pub created_at: TimeMs,
    /// When nobody may answer any more.
    pub expires_at: Option<TimeMs>,
    /// When it ended.
    pub closed_at: Option<TimeMs>,
}

/// What is shown of a request, and what was noted when it was asked: one value in the store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredAsk {
    /// What is shown. Redacted.
    #[serde(flatten)]
    pub ask: Ask,
    /// How far the directory was trusted then; none for what was recorded before that was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// How many bytes the whole diffs have, if those here are cut and the whole ones were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_changes_bytes: Option<usize>,
}

impl StoredAsk {
    /// Reads what the store has. What cannot be read can only be declined.
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

/// The changes of a request whose diffs are too long for a list. Redacted.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeChanges {
    /// Which request.
    pub request_id: RequestName,
    /// Whose it is.
    pub task_id: TaskId,
    /// As in `ask.changes`, with diffs that are whole, or say how much is missing.
    pub changes: Vec<ShownChange>,
}

/// The changes of a request as whoever opens them sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedChanges {
    /// As in `ask.changes`, with whole diffs where these were kept.
    pub changes: Vec<ShownChange>,
    /// Names what is shown: whoever sends it with a yes has been given all of the changes. If diffs are missing even here it is
    /// that of the request, with which nobody can agree to them.
    pub digest: String,
}

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// Waits for an answer.
    Open,
    /// Answered here; Codex has not taken it yet.
    Decided,
    /// Codex took the answer.
    Resolved,
    /// Codex took somebody else's answer.
    AnsweredElsewhere,
    /// Nobody answered in time.
    Expired,
    /// The turn or the host ended first.
    Orphaned,
}

impl RequestState {
    /// As it is written everywhere.
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

impl RequestRecord {
    /// Ends it. Nobody decides on it any more: what was sealed goes, and secrets that had to be shown are hidden.
    pub(crate) fn close(&mut self, state: RequestState, redactor: &Redactor, now: TimeMs) {
        (self.state, self.closed_at) = (state, Some(now));
        (self.sealed_decision, self.sealed_ask) = (None, None);
        self.ask.ask.redact(redactor);
    }

    /// Whether all of it, diffs included, can be shown in a chat. What is longer nobody reads there, so nobody agrees to it
    /// there either; nor to what may not be shown there.
    pub(crate) fn fits_a_chat(&self) -> bool {
        !self.ask.needs_reveal
            && self.ask.whole_changes_bytes.is_none()
            && serde_json::to_string(&self.ask).is_ok_and(|text| text.len() <= CHAT_BYTES)
    }

    /// Whether this decision is no more than is on offer: an escalation is accepted once, and not for the session. Requests
    /// from before that was told offer everything.
    pub(crate) fn offers(&self, decision: &Decision) -> bool {
        let lasts = matches!(decision, Decision::AcceptForSession | Decision::AcceptAlways);
        let is_wider = self.ask.escalation.is_some_and(Escalation::counts);
        !lasts || !is_wider || self.ask.kind == Kind::Permissions
    }
}

/// What a button, or what a platform has in its place, is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    /// The request.
    pub request_id: RequestName,
    /// How the digest of what was shown with it begins; empty where none was told.
    pub digest: String,
}

impl Button {
    /// How much of a digest a button has: some platforms leave room for little more.
    pub const DIGEST_CHARS: usize = 16;

    /// Reads `REQUEST.DIGEST`, which is how a request is named where people can see the name; or `REQUEST` alone.
    pub fn named(name: &str) -> Self {
        let (request_id, digest) = name.split_once('.').unwrap_or((name, ""));
        Self { request_id: request_id.into(), digest: digest.to_owned() }
    }
}

impl ShownStatus {
    /// Where a task stands that has these open requests: a turn with open requests waits for them.
    pub fn of(status: Status, open: &[RequestRecord]) -> Self {
        if open.is_empty() || !matches!(status, Status::Working | Status::Starting) {
            return Self::Stored(status);
        }
        let only_questions = open.iter().all(|request| request.ask.is_question());
        if only_questions { Self::WaitingForUserInput } else { Self::WaitingForApproval }
    }
}
