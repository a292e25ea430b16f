//! A request as callers are shown it, with the decisions that it takes.

use codex_bridge_core::bridge::RequestSelector;
use codex_bridge_core::desk;
use codex_bridge_core::request::{DecisionWord, OpenedChanges, RequestRecord, RequestState, StoredAsk};
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

/// A request of Codex that a person decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// The task.
    pub task_id: String,
    /// The request's id, unique over all tasks.
    pub request_id: String,
    /// The digest of the request without redaction. A decision repeats it, and counts only for that content.
    #[serde(default)]
    pub digest: String,
    /// `command`, `file_change`, `permissions`, `question` or `elicitation`.
    #[schemars(with = "String")]
    pub kind: RequestKind,
    /// The request in one line.
    pub title: String,
    /// Whether the request asks for more than the sandbox allows: `none`, `asked`, or `unknown`, which is treated like
    /// `asked`. Absent if the request cannot ask for that, and for requests of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::words::escalation")]
    pub escalation: Option<Escalation>,
    /// Codex's reason.
    pub reason: Option<String>,
    /// The command, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The directory that the command would run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The trust level of the task's directory when the turn began; none if it was not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<super::words::TrustWord>")]
    pub trust: Option<Trust>,
    /// The files that would change, with their diffs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
    /// The bytes of the whole diffs, which `…/requests/{request}/changes` gives. None if the diffs here are not cut, or if
    /// there was no space to store the whole diffs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_changes_bytes: Option<usize>,
    /// The questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// The fields of a form, with their valid values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Everything that the decision covers, including the fields above. Redacted; may have several lines.
    pub details: Vec<Detail>,
    /// The number of hidden secrets.
    pub hidden_secrets: usize,
    /// Whether the request contains something that is shown only on the machine itself. Remotely it can only be declined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_reveal: bool,
    /// The thread of the sub-agent that asks; none if the task's own thread asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent: Option<String>,
    /// The decisions that the request takes: `accept`, `acceptForSession`, `acceptAlways`, `answers`, `form`, `decline`, `cancel`.
    #[schemars(with = "Vec<String>")]
    pub decisions: Vec<DecisionWord>,
    /// The method of Codex's request.
    pub method: String,
    /// When Codex asked.
    pub created_at: String,
    /// When the request expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// `open`; `decided` (answered, and on its way to Codex); `resolved` (Codex took the answer); `answered_elsewhere`;
    /// `expired` (nobody answered in time); `orphaned` (its turn or host ended first).
    #[schemars(schema_with = "super::words::request_state")]
    pub state: RequestState,
    /// The decision in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub decision: Option<DecisionWord>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The time of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    /// When the request was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<String>,
}

/// What a request is about, as one of the five words that callers know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// Files would change.
    FileChange,
    /// Codex wants permissions.
    Permissions,
    /// Codex asks questions.
    Question,
    /// An MCP server asks something.
    Elicitation,
    /// A command would run; also every kind that this version does not know.
    #[serde(other)]
    Command,
}

/// The changes of a request with their whole diffs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WholeChanges {
    /// The digest of the request with its whole changes. If a list shows the diffs in part, an approval needs this digest.
    pub digest: String,
    /// Each file with its whole diff. If a diff was too long to be stored, `cut_bytes` says how much is missing.
    pub changes: Vec<Change>,
}

impl From<OpenedChanges> for WholeChanges {
    fn from(opened: OpenedChanges) -> Self {
        Self { digest: opened.digest, changes: opened.changes }
    }
}

/// A request without redaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revealed {
    /// The request.
    pub request_id: String,
    /// The digest of what is shown.
    pub digest: String,
    /// The whole request.
    pub text: String,
}

impl From<desk::Revealed> for Revealed {
    fn from(desk::Revealed { request_id, digest, text }: desk::Revealed) -> Self {
        Self { request_id: request_id.0, digest, text }
    }
}

impl Request {
    /// Whether the request without redaction shows more.
    pub fn hides_anything(&self) -> bool {
        self.hidden_secrets > 0 || self.needs_reveal
    }

    /// Whether the request takes this decision.
    pub fn offers(&self, decision: &DecisionWord) -> bool {
        self.decisions.contains(decision)
    }

    /// How answers are written at the command line: the keys of the questions, or those of a form.
    pub fn answer_example(&self) -> String {
        let keys: Vec<String> =
            self.questions.iter().map(|question| format!("{}=ANSWER", question.id)).collect();
        match keys.as_slice() {
            [] if self.fields.is_empty() => "KEY=ANSWER".to_owned(),
            [] => "FIELD=VALUE".to_owned(),
            keys => keys.join(" "),
        }
    }

    /// Selects this request for a decision by somebody who was shown it.
    pub fn selector(&self) -> RequestSelector<'_> {
        RequestSelector::Shown { request_id: self.request_id.as_str(), digest: &self.digest }
    }
}

/// All changes as one diff, with notes where a diff is cut.
pub fn diff_of(changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        text.push_str(&change.diff);
        if !change.diff.ends_with('\n') {
            text.push('\n');
        }
        if change.cut_bytes > 0 {
            let missing = change.cut_bytes.to_string();
            text.extend(["# ", &missing, " more bytes of this file's diff were not stored\n"]);
        }
    }
    text
}

impl From<RequestRecord> for Request {
    fn from(record: RequestRecord) -> Self {
        let StoredAsk { ask, trust, whole_changes_bytes } = record.ask;
        let detail = |label: Label| ask.detail(&label).map(str::to_owned);
        Self {
            kind: kind(ask.kind),
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

fn kind(kind: Kind) -> RequestKind {
    match kind {
        Kind::FileChange => RequestKind::FileChange,
        Kind::Permissions | Kind::Network => RequestKind::Permissions,
        Kind::Questions => RequestKind::Question,
        Kind::Form | Kind::Page | Kind::McpTool => RequestKind::Elicitation,
        Kind::Command | Kind::CommandInput | Kind::Other => RequestKind::Command,
    }
}

/// The decisions that a request takes. A grant is `accept` for this turn, or `acceptForSession`.
fn decisions(ask: &Ask) -> Vec<DecisionWord> {
    let word = |offer: &Offer| match offer {
        Offer::Accept | Offer::GrantForTurn => DecisionWord::Accept,
        Offer::AcceptForSession | Offer::GrantForSession => DecisionWord::AcceptForSession,
        Offer::AcceptAlways { .. } => DecisionWord::AcceptAlways,
        Offer::Answer if ask.kind == Kind::Questions => DecisionWord::Answers,
        Offer::Answer => DecisionWord::Form,
        Offer::Decline => DecisionWord::Decline,
        Offer::Cancel | Offer::Dismiss => DecisionWord::Cancel,
    };
    ask.offers.iter().map(word).collect()
}
