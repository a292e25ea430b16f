//! A request as callers see it: what is asked, and the answers on offer in the words that are sent back.

use codex_bridge_core::bridge::Which;
use codex_bridge_core::request::{OpenedChanges, RequestRecord, RequestState};
use codex_bridge_core::trust::Trust;
use codex_wire::escalation::Escalation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Field, time};

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
    pub whole_changes_bytes: Option<u64>,
    /// What is asked: `[{id, text, options[{label, description}], is_free, is_secret}]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<Value>,
    /// The fields of a form, and what each of them takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// All that the decision covers, in order, the fields above included. Redacted; may have several lines.
    pub details: Vec<Detail>,
    /// How many secrets are hidden in all of it.
    pub hidden_secrets: u64,
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

/// What would happen to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The file.
    pub path: String,
    /// `add`, `update`, `delete` or `other`.
    pub kind: String,
    /// Where it would move to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// The unified diff, redacted.
    pub diff: String,
    /// How many lines the whole diff adds; none if that was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_lines: Option<u64>,
    /// How many lines the whole diff takes away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_lines: Option<u64>,
    /// How many bytes are missing at its end; 0 if it is whole.
    pub cut_bytes: u64,
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
        Self { digest: opened.digest, changes: Change::of(&opened.changes) }
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

impl Request {
    /// Whether there is more to see at the machine itself.
    pub fn hides_anything(&self) -> bool {
        self.hidden_secrets > 0 || self.needs_reveal
    }

    /// What somebody decides on who was shown this.
    pub fn shown(&self) -> Which<'_> {
        Which::Shown { request_id: &self.request_id, digest: &self.digest }
    }
}

impl Change {
    /// The changes as a request has them.
    pub fn of(changes: &Value) -> Vec<Self> {
        Vec::deserialize(changes).unwrap_or_default()
    }

    /// The diff without the two lines that name the file, where they say no more than `path` and `moved_to` do.
    pub fn without_header(&self) -> &str {
        let after = self.moved_to.as_deref().unwrap_or(&self.path);
        let behind = behind_header(&self.diff, "--- ", &self.path);
        behind.and_then(|diff| behind_header(diff, "+++ ", after)).unwrap_or(&self.diff)
    }
}

/// What follows a line of a header that names no other file than this.
fn behind_header<'a>(diff: &'a str, sign: &str, path: &str) -> Option<&'a str> {
    let (line, behind) = diff.split_once('\n')?;
    let named = line.strip_prefix(sign)?;
    (named == path || named == "/dev/null").then_some(behind)
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

/// One fact that a decision covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// What it is: `Command`, `Directory` …
    pub label: String,
    /// The fact.
    pub text: String,
}

impl From<RequestRecord> for Request {
    fn from(record: RequestRecord) -> Self {
        let ask = &record.ask;
        let details: Vec<Detail> = serde_json::from_value(ask["details"].clone()).unwrap_or_default();
        let detail = |label: &str| details.iter().find(|it| it.label == label).map(|it| it.text.clone());
        let asked = ask["kind"].as_str().unwrap_or_default();
        let has_questions = ask["questions"].as_array().is_some_and(|questions| !questions.is_empty());
        Self {
            kind: kind(asked).to_owned(),
            title: ask["title"].as_str().unwrap_or_default().to_owned(),
            escalation: Escalation::deserialize(&ask["escalation"]).ok(),
            reason: detail("Reason"),
            command: detail("Command"),
            cwd: detail("Directory"),
            trust: record.trust(),
            changes: serde_json::from_value(ask["changes"].clone()).ok(),
            whole_changes_bytes: record.whole_changes_bytes(),
            questions: has_questions.then(|| ask["questions"].clone()),
            fields: Vec::deserialize(&ask["fields"]).unwrap_or_default(),
            hidden_secrets: ask["hidden_secrets"].as_u64().unwrap_or_default(),
            needs_reveal: record.needs_reveal(),
            sub_agent: ask["asked_by"]["sub_agent"]["thread_id"].as_str().map(str::to_owned),
            decisions: decisions(asked, &ask["offers"]),
            details,
            task_id: record.task_id.0,
            request_id: record.request_id,
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
fn kind(asked: &str) -> &'static str {
    match asked {
        "file_change" => "file_change",
        "permissions" | "network" => "permissions",
        "questions" => "question",
        "form" | "page" | "mcp_tool" => "elicitation",
        _ => "command",
    }
}

/// The offers in the words of an answer. Granting is a yes, for this turn or for the session.
fn decisions(asked: &str, offers: &Value) -> Vec<String> {
    let answer = if asked == "questions" { "answers" } else { "form" };
    let word = |offer: &Value| {
        let name = offer.as_str().or_else(|| offer.as_object()?.keys().next().map(String::as_str))?;
        Some(match name {
            "accept" | "grant_for_turn" => "accept",
            "accept_for_session" | "grant_for_session" => "acceptForSession",
            "accept_always" => "acceptAlways",
            "answer" => answer,
            "decline" => "decline",
            "cancel" | "dismiss" => "cancel",
            _ => return None,
        })
    };
    offers.as_array().into_iter().flatten().filter_map(word).map(str::to_owned).collect()
}
