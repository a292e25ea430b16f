//! Something that Codex asks of a person, as it is remembered.

use codex_session::{Decision, RequestKey};
use codex_wire::escalation::Escalation;
use redact::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::task::{TaskId, TimeMs};
use crate::trust::Trust;

/// The most that a request says, as JSON, for people to agree to it in a chat: a few messages of the tightest one.
const CHAT_BYTES: usize = 16 * 1024;

/// A request as it is remembered. What is shown is redacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Names it: the start of the host, and the id there.
    pub key: RequestKey,
    /// Whose.
    pub task_id: TaskId,
    /// The name that people and programs use: unique over all tasks and hosts.
    pub request_id: String,
    /// Names what Codex asked, before anything was redacted; empty for what was recorded before there were digests.
    #[serde(default)]
    pub digest: String,
    /// Codex's method.
    pub method: String,
    /// What is shown.
    pub ask: Value,
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

/// The changes of a request whose diffs are too long for a list. Redacted.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeChanges {
    /// Which request.
    pub request_id: String,
    /// Whose it is.
    pub task_id: TaskId,
    /// As in `ask.changes`, with diffs that are whole, or say how much is missing.
    pub changes: Value,
}

/// The changes of a request as whoever opens them sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedChanges {
    /// As in `ask.changes`, with whole diffs where these were kept.
    pub changes: Value,
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
        redactor.redact_json(&mut self.ask);
    }

    /// How many bytes its whole diffs have, if those in it are cut and the whole ones were kept.
    pub fn whole_changes_bytes(&self) -> Option<u64> {
        self.ask["whole_changes_bytes"].as_u64()
    }

    /// Whether a list shows only the beginning of its diffs.
    pub fn is_cut(&self) -> bool {
        has_cut(&self.ask["changes"])
    }

    /// Whether all of it, diffs included, can be shown in a chat. What is longer nobody reads there, so nobody agrees to it
    /// there either; nor to what may not be shown there.
    pub(crate) fn fits_a_chat(&self) -> bool {
        !self.needs_reveal()
            && self.whole_changes_bytes().is_none()
            && self.ask.to_string().len() <= CHAT_BYTES
    }

    /// Whether it holds something that is shown only at the machine itself, and can only be declined by who has not seen it.
    pub fn needs_reveal(&self) -> bool {
        self.ask["needs_reveal"] == Value::Bool(true)
    }

    /// How far the directory was trusted under which this was asked; none for what was recorded before that was kept.
    pub fn trust(&self) -> Option<Trust> {
        self.ask["trust"].as_str()?.parse().ok()
    }

    /// Whether this decision is no more than is on offer: an escalation is accepted once, and not for the session. Requests
    /// from before that was told offer everything.
    pub(crate) fn offers(&self, decision: &Decision) -> bool {
        let lasts = matches!(decision, Decision::AcceptForSession | Decision::AcceptAlways);
        let is_wider = serde_json::from_value::<Escalation>(self.ask["escalation"].clone())
            .is_ok_and(Escalation::counts);
        !lasts || !is_wider || self.ask["kind"] == "permissions"
    }

    /// Whether a person is asked for words rather than for a yes.
    pub fn is_question(&self) -> bool {
        is_question(&self.ask)
    }

    /// Whether the answer is a secret, which lives in memory only: after a crash it is asked again.
    pub fn has_secret_question(&self) -> bool {
        asks_for_secret(&self.ask)
    }
}

/// Whether a diff of these changes is not whole.
pub(crate) fn has_cut(changes: &Value) -> bool {
    let is_cut = |change: &Value| change["cut_bytes"].as_u64().is_some_and(|bytes| bytes > 0);
    changes.as_array().is_some_and(|changes| changes.iter().any(is_cut))
}

/// Whether this asks a person for a secret, at least among others.
pub(crate) fn asks_for_secret(ask: &Value) -> bool {
    let questions = ask["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    questions.iter().any(|question| question["is_secret"] == Value::Bool(true))
}

/// Whether this asks a person for words rather than for a yes.
pub(crate) fn is_question(ask: &Value) -> bool {
    matches!(ask["kind"].as_str(), Some("questions" | "form"))
}
