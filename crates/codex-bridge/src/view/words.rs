//! The schemas of types from other crates, which know nothing of schemas. Tests compare the schemas with the types.

use std::borrow::Cow;

use codex_bridge_core::request::RequestState;
use codex_bridge_core::task::{ShownStatus, Status, TurnProgress};
use codex_bridge_core::token::Role;
use codex_bridge_core::trust::Trust;
use codex_session::{ApprovalMode, Sandbox, TurnOutcome};
use codex_wire::escalation::Escalation;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

fn one_of(words: &[impl Serialize]) -> Schema {
    json_schema!({ "type": "string", "enum": words })
}

pub fn status(_: &mut SchemaGenerator) -> Schema {
    one_of(&ShownStatus::ALL)
}

pub fn role(_: &mut SchemaGenerator) -> Schema {
    one_of(&Role::ALL)
}

pub fn sandbox(_: &mut SchemaGenerator) -> Schema {
    one_of(&[Sandbox::ReadOnly, Sandbox::WorkspaceWrite, Sandbox::DangerFullAccess])
}

pub fn approval_policy(_: &mut SchemaGenerator) -> Schema {
    one_of(&[ApprovalMode::Untrusted, ApprovalMode::OnRequest, ApprovalMode::Never])
}

pub fn trust(_: &mut SchemaGenerator) -> Schema {
    one_of(&Trust::ALL)
}

/// The schema of a trust level.
pub struct TrustWord;

impl JsonSchema for TrustWord {
    fn schema_name() -> Cow<'static, str> {
        "TrustWord".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        trust(generator)
    }
}

pub fn escalation(_: &mut SchemaGenerator) -> Schema {
    one_of(&Escalation::ALL)
}

pub fn request_state(_: &mut SchemaGenerator) -> Schema {
    one_of(&[
        RequestState::Open,
        RequestState::Decided,
        RequestState::Resolved,
        RequestState::AnsweredElsewhere,
        RequestState::Expired,
        RequestState::Orphaned,
    ])
}

pub fn turn_progress(_: &mut SchemaGenerator) -> Schema {
    one_of(&[TurnProgress::Recorded, TurnProgress::Sending, TurnProgress::Accepted, TurnProgress::Ended])
}

pub fn turn_outcome(_: &mut SchemaGenerator) -> Schema {
    one_of(&[TurnOutcome::Completed, TurnOutcome::Interrupted, TurnOutcome::Failed, TurnOutcome::Lost])
}

/// Why a task's last turn did not succeed.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct TaskError {
    /// The kind of error, in one word.
    kind: String,
    /// The error in a sentence.
    message: String,
}

/// How much a task may use before it is paused. None is no limit.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct TaskLimits {
    /// The total number of turns.
    turns: Option<u32>,
    /// The total milliseconds of work, without the time spent waiting for people.
    work_ms: Option<u64>,
    /// The tokens of the whole thread.
    tokens: Option<u64>,
}

/// What a task has used.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct TaskUsed {
    /// Turns that were started.
    turns: u32,
    /// Milliseconds of work.
    work_ms: u64,
    /// How often the task was resumed after its host died.
    host_losses: u32,
    /// How often in a row the account's usage limit stopped the task.
    limit_hits: u32,
    /// How often in a row Codex denied the task the network.
    withheld: u32,
    /// The use that no longer counts, because the task was continued beyond its limits.
    waived: Waived,
}

/// The state of a task before a turn was queued.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct Before {
    /// The status.
    #[schemars(schema_with = "status")]
    status: Status,
    /// Why the task was paused, lost or cancelled.
    reason: Option<String>,
    /// Whether the daemon resumes the turn before by itself, without a caller's request.
    resumes: bool,
}

/// What was used before a task was continued beyond its limits.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct Waived {
    /// Turns.
    turns: u32,
    /// Milliseconds of work.
    work_ms: u64,
    /// Tokens.
    tokens: u64,
}

#[cfg(test)]
mod tests {
    use codex_bridge_core::task::{self, Limits, Used};
    use serde_json::Value;

    use super::*;

    #[track_caller]
    fn check<T: JsonSchema>(real: &impl Serialize) {
        let schema = schemars::schema_for!(T).to_value();
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&schema["properties"]), names(&serde_json::to_value(real).unwrap()));
    }

    #[test]
    fn what_stands_for_another_type_has_its_fields() {
        check::<TaskError>(&task::TaskError { kind: String::new(), message: String::new() });
        check::<TaskLimits>(&Limits::default());
        check::<Before>(&task::Before { status: Status::Lost, reason: None, resumes: true });
        check::<TaskUsed>(&Used::default());
        check::<Waived>(&Used::default().waived);
    }

    #[test]
    fn the_docs_list_every_status_with_its_words() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
        let docs = std::fs::read_to_string(file).unwrap();
        for status in ShownStatus::ALL {
            let row = format!("| {status} | `{}` |", status.as_str());
            assert!(docs.contains(&row), "docs/cli.md has no row {row}");
        }
    }
}
