//! Projects the finished items of one turn to chat messages and a result.
//!
//! Pure: no clock, no IO. The same items give the same messages and ids, so that a replayed history matches the live
//! one. `tool_display` shows the calls that still run. Nothing is redacted here, except before a text is cut.

pub(crate) mod call_id;
pub(crate) mod cut;
mod message;
pub(crate) mod tool;

use std::collections::HashSet;

use codex_wire::item::{AgentMessage, Item, Phase, Reasoning, UserMessage};
use redact::Redactor;
use serde::Serialize;

use call_id::CallIds;
pub use message::{FunctionCall, Message, ToolCall};
use tool::Tool;

/// Collects the items of one turn.
#[derive(Debug)]
pub struct Projector {
    redactor: Redactor,
    echoes: Vec<Echo>,
    started_ids: CallIds,
    completed_ids: CallIds,
    /// Completed items by type and id: Codex sends some twice, and a read-back after a reconnect repeats them.
    seen: HashSet<(String, String)>,
    /// The reasoning since the last message.
    reasoning: Vec<String>,
    /// Running tool calls: call id, and the effect that they may have.
    open: Vec<(String, String)>,
    has_final_answer: bool,
    projection: Projection,
}

/// The projection of the items of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Projection {
    /// The messages, in the order in which their items completed.
    pub messages: Vec<Message>,
    /// How many tool calls completed.
    pub tool_iterations: u32,
    /// The answer: the last message of phase `final_answer`, or else the last agent message.
    pub final_text: Option<String>,
    /// Whether the thread's history was compacted during the turn.
    pub compacted: bool,
    /// Items that are no chat messages, in order.
    pub opaque: Vec<Opaque>,
    /// The side effects of the turn that were seen, for a turn whose outcome is unknown. One line each:
    /// `ran: touch x (exit 0)`, `changed: a.txt (add)`, `called: mcp.server.tool`, `may have run: make`.
    ///
    /// Neither redacted nor cut: redact them before showing.
    pub side_effects: Vec<String>,
}

/// An item that is no chat message: a plan, a web search, an item type of a later Codex.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Opaque {
    /// The item's type on the wire; empty if it had none.
    pub type_name: String,
    /// The item.
    pub item: Item,
}

/// A message that was sent to Codex. Codex repeats it as a user message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Echo {
    /// The `clientUserMessageId` of the message.
    pub client_id: Option<String>,
    /// Its text parts, joined by line breaks.
    pub text: String,
}

impl Projector {
    /// A projector for one turn. Items without an id get one that is made from `turn_seed`, the turn's id.
    pub fn new(turn_seed: impl Into<String>) -> Self {
        let turn_seed = turn_seed.into();
        Self {
            redactor: Redactor::default(),
            echoes: Vec::new(),
            started_ids: CallIds::new(turn_seed.clone()),
            completed_ids: CallIds::new(turn_seed),
            seen: HashSet::new(),
            reasoning: Vec::new(),
            open: Vec::new(),
            has_final_answer: false,
            projection: Projection::default(),
        }
    }

    /// Sets the turn's id, once it is known. Ids of earlier items stay unchanged.
    pub fn name_turn(&mut self, turn_id: &str) {
        self.started_ids.name_turn(turn_id);
        self.completed_ids.name_turn(turn_id);
    }

    /// Notes a compaction that has no item.
    pub fn note_compaction(&mut self) {
        self.projection.compacted = true;
    }

    /// The final text so far.
    pub fn final_text(&self) -> Option<&str> {
        self.projection.final_text.as_deref()
    }

    /// Sets the redactor for texts that have to be cut. Other texts stay unchanged.
    #[must_use]
    pub fn with_redactor(self, redactor: Redactor) -> Self {
        Self { redactor, ..self }
    }

    /// Registers a prompt or a steer, so that its echo gives no second user message.
    pub fn submitted(&mut self, echo: Echo) {
        self.echoes.push(echo);
    }

    /// Processes an item that began. It gives no message, but counts as a possible side effect.
    pub fn start(&mut self, item: &Item) {
        if item.id().is_some_and(|id| self.seen.contains(&(item.type_name().to_owned(), id.to_owned()))) {
            return;
        }
        let Some(effect) = tool::open_effect(item) else { return };
        let Some(call_id) = self.started_ids.call_id(item) else { return };
        if self.open.iter().all(|(open, _)| *open != call_id) {
            self.open.push((call_id, effect));
        }
    }

    /// Processes a completed item. A repeated item adds nothing. Returns whether it was a new tool call.
    pub fn complete(&mut self, item: &Item) -> bool {
        let tools_before = self.projection.tool_iterations;
        if self.is_new(item) {
            self.project(item);
        }
        self.projection.tool_iterations > tools_before
    }

    /// The final projection.
    pub fn finish(self) -> Projection {
        let mut projection = self.projection;
        projection.side_effects.extend(self.open.into_iter().map(|(_, effect)| effect));
        projection
    }

    fn is_new(&mut self, item: &Item) -> bool {
        item.id().is_none_or(|id| self.seen.insert((item.type_name().to_owned(), id.to_owned())))
    }

    fn project(&mut self, item: &Item) {
        match item {
            Item::AgentMessage(message) => self.agent_message(message),
            Item::Reasoning(reasoning) => self.stash(reasoning),
            Item::UserMessage(message) => self.user_message(item, message),
            Item::ContextCompaction(_) => self.projection.compacted = true,
            Item::CommandExecution(_)
            | Item::FileChange(_)
            | Item::McpToolCall(_)
            | Item::DynamicToolCall(_) => self.tool(item),
            Item::WebSearch(_) | Item::Plan(_) | Item::Other(_) => self.keep(item),
        }
    }

    fn agent_message(&mut self, message: &AgentMessage) {
        if message.text.trim().is_empty() {
            return;
        }
        let reasoning = self.take_reasoning();
        self.projection.messages.push(Message::assistant(message.text.clone(), reasoning));
        let is_final_answer = message.phase == Some(Phase::FinalAnswer);
        if self.has_final_answer && !is_final_answer {
            return;
        }
        // Also between two final answers the last one counts: codex 0.166 leaves the cut-off message of a
        // disconnected stream in the turn, completed, before the one of the retry.
        self.has_final_answer = is_final_answer;
        self.projection.final_text = Some(message.text.clone());
    }

    fn stash(&mut self, reasoning: &Reasoning) {
        self.reasoning.extend(reasoning.summary.iter().chain(&reasoning.content).cloned());
    }

    fn take_reasoning(&mut self) -> Option<String> {
        let parts = std::mem::take(&mut self.reasoning);
        (!parts.is_empty()).then(|| parts.join("\n"))
    }

    fn user_message(&mut self, item: &Item, message: &UserMessage) {
        let text = message.text();
        let is_echo = |echo: &Echo| match (&echo.client_id, &message.client_id) {
            (Some(sent), Some(shown)) => sent == shown,
            _ => echo.text.trim() == text.trim(),
        };
        if let Some(position) = self.echoes.iter().position(is_echo) {
            self.echoes.remove(position);
        } else if text.is_empty() {
            self.keep(item);
        } else {
            self.projection.messages.push(Message::User { content: text });
        }
    }

    fn tool(&mut self, item: &Item) {
        let (Some(tool), Some(call_id)) = (Tool::of(item), self.completed_ids.call_id(item)) else { return };
        let reasoning = self.take_reasoning();
        let call = ToolCall::new(call_id.clone(), tool.name(), tool::json_text(&tool.args()));
        let content = tool.outcome(&self.redactor).result;
        self.open.retain(|(open, _)| *open != call_id);
        self.projection.side_effects.extend(tool::effects(item));
        self.projection.messages.push(Message::tool_call(call, reasoning));
        self.projection.messages.push(Message::Tool { tool_call_id: call_id, content });
        self.projection.tool_iterations = self.projection.tool_iterations.saturating_add(1);
    }

    fn keep(&mut self, item: &Item) {
        self.projection.opaque.push(Opaque { type_name: item.type_name().to_owned(), item: item.clone() });
    }
}

#[cfg(test)]
mod tests;
