//! The result of a turn.

use codex_wire::item::Item;
use codex_wire::thread::TokenUsage;
use codex_wire::{ThreadId, TurnId};
use redact::Redactor;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::projection::{Message, Opaque};

/// The result of one turn. Texts are redacted.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TurnResult {
    /// How it ended.
    pub outcome: TurnOutcome,
    /// The final answer: the `final_answer` message, or else the last agent message.
    pub final_text: String,
    /// The turn as chat messages.
    pub projected_messages: Vec<Message>,
    /// Items that have no counterpart among chat messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_items: Vec<Opaque>,
    /// How many tool calls completed.
    pub tool_iterations: u32,
    /// Whether it was stopped before its end, on request or by a limit.
    pub interrupted: bool,
    /// Whether the thread's history was summarised on the way.
    pub compacted: bool,
    /// Why it failed.
    pub error: Option<Failure>,
    /// The turn's id, if Codex reported it.
    pub turn_id: Option<TurnId>,
    /// The thread, if it was opened.
    pub thread_id: Option<ThreadId>,
    /// Tokens, as last reported.
    pub usage: Option<TokenUsage>,
    /// Milliseconds in which Codex could work, not counting waits for people.
    pub work_ms: u64,
    /// Whether the session should be replaced; the next turn does so automatically.
    pub should_retire: bool,
    /// Whether the turn may still run, or may have had effects that were not seen.
    pub outcome_unknown: bool,
    /// What was seen to happen in a turn whose outcome is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub side_effects: Vec<String>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// Done.
    Completed,
    /// Stopped.
    Interrupted,
    /// It failed.
    #[default]
    Failed,
    /// Its host has ended.
    Lost,
}

impl TurnResult {
    /// A turn that never began.
    pub(crate) fn not_begun(outcome: TurnOutcome, error: Option<Failure>) -> Self {
        let should_retire = error.as_ref().is_some_and(Failure::retires_session);
        Self {
            outcome,
            interrupted: outcome == TurnOutcome::Interrupted,
            error,
            should_retire,
            ..Self::default()
        }
    }

    /// Hides secrets in every text.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        self.final_text = redactor.redact(&self.final_text).into_owned();
        self.projected_messages.iter_mut().for_each(|message| message.redact(redactor));
        for other in &mut self.other_items {
            other.item = redacted_item(&other.item, redactor);
        }
        for effect in &mut self.side_effects {
            *effect = redactor.redact(effect).into_owned();
        }
        if let Some(error) = &mut self.error {
            error.redact(redactor);
        }
    }
}

fn redacted_item(item: &Item, redactor: &Redactor) -> Item {
    let Ok(mut value) = serde_json::to_value(item) else { return item.clone() };
    redactor.redact_json(&mut value);
    Item::from_value(value)
}
