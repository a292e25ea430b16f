//! Spans of turns and tool calls for a collector, named by OpenTelemetry's conventions for generative AI. Those
//! conventions are in development, so the names may change.
//!
//! Spans carry names, ids, counts and times; never a prompt, an argument or an output. Without a configured collector
//! nobody subscribes to [`TARGET`], and a span costs nothing.

use std::collections::HashMap;

use codex_session::{TurnOutcome, TurnResult};
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::event::Line;
use crate::task::{Task, TurnRecord};

/// The target of these spans. The log leaves it out.
pub const TARGET: &str = "codex_bridge::telemetry";
/// How many calls of a turn have a span at once. Further calls have none.
const OPEN_CALLS: usize = 256;

/// The span of a turn and the spans of its open calls. Dropping it ends them all.
pub(crate) struct TurnSpan {
    calls: HashMap<String, Span>,
    turn: Span,
    /// Input and output tokens when the span began. Codex counts per thread, the span per turn.
    tokens_before: (u64, u64),
}

impl TurnSpan {
    pub(crate) fn begin(task: &Task, turn: &TurnRecord) -> Self {
        let span = info_span!(
            target: TARGET,
            "invoke_agent",
            otel.name = "invoke_agent codex",
            otel.kind = "client",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.provider.name = "openai",
            gen_ai.agent.name = "codex",
            gen_ai.request.model = task.settings.model.as_deref(),
            gen_ai.conversation.id = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            error.r#type = Empty,
            codex_bridge.task = task.id.as_str(),
            codex_bridge.turn = turn.number,
            codex_bridge.host = Empty,
            codex_bridge.outcome = Empty,
        );
        let tokens_before = task.usage.as_ref().map(|usage| (usage.total.input, usage.total.output));
        Self { calls: HashMap::new(), turn: span, tokens_before: tokens_before.unwrap_or_default() }
    }

    pub(crate) fn thread_opened(&self, task: &Task) {
        if let Some(thread_id) = &task.thread_id {
            self.turn.record("gen_ai.conversation.id", thread_id.as_str());
        }
        if let Some(host) = &task.host {
            self.turn.record("codex_bridge.host", host);
        }
    }

    /// Opens or closes the span of a call, by a line of the task's log.
    pub(crate) fn line(&mut self, line: &Line) {
        match line {
            Line::ToolStarted(call) if self.calls.len() < OPEN_CALLS => {
                let span = info_span!(
                    target: TARGET,
                    parent: &self.turn,
                    "execute_tool",
                    otel.name = format!("execute_tool {}", call.name),
                    gen_ai.operation.name = "execute_tool",
                    gen_ai.tool.name = call.name,
                    gen_ai.tool.call.id = call.call_id,
                    error.r#type = Empty,
                );
                self.calls.insert(call.call_id.clone(), span);
            }
            Line::ToolCompleted(call) => {
                let span = self.calls.remove(&call.call_id);
                if let Some(span) = span.filter(|_| call.is_error) {
                    span.record("error.type", "tool_error");
                }
            }
            _ => {}
        }
    }

    pub(crate) fn ended(&mut self, task: &Task, result: &TurnResult) {
        let (input, output) = self.tokens_before;
        if let Some(usage) = &task.usage {
            self.turn.record("gen_ai.usage.input_tokens", usage.total.input.saturating_sub(input));
            self.turn.record("gen_ai.usage.output_tokens", usage.total.output.saturating_sub(output));
        }
        self.turn.record("codex_bridge.outcome", outcome(result.outcome));
        if result.outcome != TurnOutcome::Completed {
            let kind = task.error.as_ref().map(|error| error.kind.as_str()).filter(|kind| !kind.is_empty());
            self.turn.record("error.type", kind.unwrap_or(outcome(result.outcome)));
        }
        self.calls.clear();
        self.turn = Span::none();
    }
}

fn outcome(outcome: TurnOutcome) -> &'static str {
    match outcome {
        TurnOutcome::Completed => "completed",
        TurnOutcome::Interrupted => "interrupted",
        TurnOutcome::Failed => "failed",
        TurnOutcome::Lost => "lost",
    }
}
