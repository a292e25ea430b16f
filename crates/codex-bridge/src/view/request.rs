//! A request as callers see it: what is asked, and the answers on offer in the words that are sent back.

use codex_bridge_core::bridge::RequestSelector;
use codex_bridge_core::desk;
use codex_bridge_core::request::{OpenedChanges, RequestRecord, RequestState, StoredAsk};
use codex_bridge_core::trust::Trust;
use codex_session::Ask;
use codex_session::ask::{AskedBy, Kind, Label, Offer};
pub use codex_session::ask::{
    Choice, Detail, FieldKind, ShownChange as Change, ShownChangeKind as ChangeKind, ShownField as Field,
    ShownOption as QuestionOption, ShownQuestion as Question,
};
use codex_wire::escalation::Escalation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time;

/// Something that Codex asks of a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// Whose.
    pub task_id: String,
    /// Its name, unique over all tasks.
    pub request_id: String,
    /// Names what is asked, before anything was redacted: a decision says it again, and counts for nothing else.
    #[serde(default)]
    pub digest: String,
    /// `command`, `file_change`, `permissions`, `question` or `elicitation`.
    pub kind: String,
    /// The question in one line.
    pub title: String,
    /// Whether it asks for more than the sandbox gives: `none`, `asked`, or `unknown`, which counts as if it did. Absent where
    /// that is no question, and for requests of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::words::escalation")]
    pub escalation: Option<Escalation>,
    /// Why Codex wants it.
    pub reason: Option<String>,
    /// The command, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where it would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// How far the task's directory was trusted when this was asked; none if that was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<super::words::TrustWord>")]
    pub trust: Option<Trust>,
    /// The files that would change, with their diffs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
    /// How many bytes the diffs have that `…/requests/{request}/changes` gives; none if those here are not cut, or if
    /// there was no space to keep more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_changes_bytes: Option<usize>,
    /// What is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// The fields of a form, and what each of them takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// All that the decision covers, in order, the fields above included. Redacted; may have several lines.
    pub details: Vec<Detail>,
    /// How many secrets are hidden in all of it.
    pub hidden_secrets: usize,
    /// Whether it holds something that is shown only at the machine itself: from afar it can only be declined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_reveal: bool,
    /// The thread of the sub-agent that asks; none if Codex itself does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent: Option<String>,
    /// What may be decided: `accept`, `acceptForSession`, `acceptAlways`, `answers`, `form`, `decline`, `cancel`.
    pub decisions: Vec<String>,
    /// Codex's own name of what is asked.
    pub method: String,
    /// When it was asked.
    pub created_at: String,
    /// When nobody may answer any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// `open`; `decided` (answered, and on its way to Codex); `resolved` (Codex took the answer); `answered_elsewhere`;
    /// `expired` (nobody answered in time); `orphaned` (its turn or host ended first).
    #[schemars(schema_with = "super::words::request_state")]
    pub state: RequestState,
    /// What was decided, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<String>,
}

/// The changes of a request with their whole diffs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WholeChanges {
    /// Names the request together with all of its changes: a yes to diffs that a list shows in part needs this one.
    pub digest: String,
    /// Each file with its whole diff. One that is longer than what is kept says how many bytes are missing.
    pub changes: Vec<Change>,
}

impl From<OpenedChanges> for WholeChanges {
    fn from(opened: OpenedChanges) -> Self {
        Self { digest: opened.digest, changes: opened.changes }
    }
}

/// A request with nothing hidden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revealed {
    /// Which.
    pub request_id: String,
    /// Names what is asked.
    pub digest: String,
    /// All that is asked.
    pub text: String,
}

impl From<desk::Revealed> for Revealed {
    fn from(desk::Revealed { request_id, digest, text }: desk::Revealed) -> Self {
        Self { request_id: request_id.0, digest, text }
    }
}

impl Request {
    /// Whether there is more to see at the machine itself.
    pub fn hides_anything(&self) -> bool {
        self.hidden_secrets > 0 || self.needs_reveal
    }

    /// What somebody decides on who was shown this.
    pub fn shown(&self) -> RequestSelector<'_> {
        RequestSelector::Shown { request_id: self.request_id.as_str(), digest: &self.digest }
    }
}

/// Changes as one diff that says what is missing.
pub fn diff_of(changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        text.push_str(&change.diff);
        if !change.diff.ends_with('\n') {
            text.push('\n');
        }
        if change.cut_bytes > 0 {
            let missing = change.cut_bytes.to_string();
            text.extend(["# ", &missing, " more bytes of this file's diff were not kept\n"]);
        }
    }
    text
}

impl From<RequestRecord> for Request {
    fn from(record: RequestRecord) -> Self {
        let StoredAsk { ask, trust, whole_changes_bytes } = record.ask;
        let detail = |label: Label| ask.detail(&label).map(str::to_owned);
        Self {
            kind: kind(ask.kind).to_owned(),
            escalation: ask.escalation,
            reason: detail(Label::Reason),
            command: detail(Label::Command),
            cwd: detail(Label::Directory),
            trust,
            whole_changes_bytes,
            hidden_secrets: ask.hidden_secrets,
            needs_reveal: ask.needs_reveal,
            decisions: decisions(&ask),
            title: ask.title,
            changes: Some(ask.changes).filter(|changes| !changes.is_empty()),
            questions: ask.questions,
            fields: ask.fields,
            sub_agent: match ask.asked_by {
                AskedBy::SubAgent { thread_id } => Some(thread_id),
                AskedBy::Thread => None,
            },
            details: ask.details,
            task_id: record.task_id.0,
            request_id: record.request_id.0,
            digest: record.digest,
            method: record.method,
            created_at: time(record.created_at),
            expires_at: record.expires_at.map(time),
            state: record.state,
            decision: record.decision,
            decided_by: record.decided_by,
            decided_at: record.decided_at.map(time),
            closed_at: record.closed_at.map(time),
        }
    }
}

/// The five kinds that callers know.
fn kind(asked: Kind) -> &'static str {
    match asked {
        Kind::FileChange => "file_change",
        Kind::Permissions | Kind::Network => "permissions",
        Kind::Questions => "question",
        Kind::Form | Kind::Page | Kind::McpTool => "elicitation",
        Kind::Command | Kind::CommandInput | Kind::Other => "command",
    }
}

/// The offers in the words of an answer. Granting is a yes, for this turn or for the session.
fn decisions(ask: &Ask) -> Vec<String> {
    let word = |offer: &Offer| match offer {
        Offer::Accept | Offer::GrantForTurn => "accept",
        Offer::AcceptForSession | Offer::GrantForSession => "acceptForSession",
        Offer::AcceptAlways { .. } => "acceptAlways",
        Offer::Answer if ask.kind == Kind::Questions => "answers",
        Offer::Answer => "form",
        Offer::Decline => "decline",
        Offer::Cancel | Offer::Dismiss => "cancel",
    };
    ask.offers.iter().map(|offer| word(offer).to_owned()).collect()
}
