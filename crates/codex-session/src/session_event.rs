//! The events of a session for its listeners, readable and redacted.
//!
//! Text that is being written passes through a streaming redactor per item, so that a secret that is split over two
//! pieces is found.

use std::collections::HashMap;

use codex_wire::event::{Delta, DeltaKind, Event};
use codex_wire::item::Item;
use codex_wire::thread::TokenUsage;
use codex_wire::{ThreadId, TurnId};
use redact::Redactor;
use serde::Serialize;

use crate::ask::Ask;
use crate::decision::RequestKey;
use crate::projection::call_id::command_call_id;
use crate::result::TurnOutcome;
use crate::tool_display::{Display, Options, ToolDisplay};
use crate::turn::{Closing, Millis, Notice};

/// Longer input to a running command is cut.
const TYPED_BYTES: usize = 16 * 1024;

/// An event of a session, redacted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum SessionEvent {
    /// The thread is open.
    ThreadOpened {
        /// Which.
        thread_id: ThreadId,
    },
    /// A turn became active.
    TurnStarted {
        /// Which.
        turn_id: TurnId,
    },
    /// Something to show: a tool call, text, a message.
    Shown(Display),
    /// A message that was sent with a client id is now part of the turn.
    Heard {
        /// The item, as Codex names it.
        item_id: Option<String>,
        /// The client id.
        client_id: String,
        /// The text of the message.
        text: String,
    },
    /// A piece of a command's output.
    Output {
        /// The command's call, as in its start and its end.
        call_id: String,
        /// The piece.
        text: String,
    },
    /// Text was typed into a running command. Codex does not ask for this if the command runs in the sandbox.
    Typed {
        /// The command's call, as in its start and its end.
        call_id: String,
        /// The command, if it began in this turn.
        command: Option<String>,
        /// What was typed.
        text: String,
        /// How many bytes are missing at the end of the text; 0 if it is whole.
        cut_bytes: usize,
    },
    /// A request waits for a decision.
    Asked {
        /// The key of the request.
        key: RequestKey,
        /// The request for a person.
        ask: Box<Ask>,
    },
    /// A request is closed.
    RequestClosed {
        /// Which.
        key: RequestKey,
        /// How it was closed.
        closing: Closing,
    },
    /// The token usage.
    Usage(TokenUsage),
    /// The diff of the turn so far.
    Diff {
        /// The diff.
        diff: String,
    },
    /// Codex tries again after an error.
    Retrying {
        /// The error.
        message: String,
    },
    /// A problem.
    Warning {
        /// What.
        message: String,
    },
    /// The listener was too slow and missed this many events.
    Missed {
        /// How many.
        count: u64,
    },
    /// A turn ended; details are in its result.
    TurnEnded {
        /// How.
        outcome: TurnOutcome,
    },
}

/// Turns the notices of one turn into redacted events.
pub struct EventWriter {
    redactor: Redactor,
    display: ToolDisplay,
    streams: HashMap<(String, DeltaKind), redact::Stream>,
}

impl EventWriter {
    /// A writer for the turn with this id. Tools of `own_servers` are shown without a prefix.
    pub fn new(turn_seed: &str, own_servers: Vec<String>, redactor: Redactor) -> Self {
        let options = Options { own_servers, redactor: redactor.clone() };
        Self { redactor, display: ToolDisplay::new(turn_seed, options), streams: HashMap::new() }
    }

    /// Writes the events of a notice.
    pub fn tell(&mut self, notice: Notice, now: Millis, out: &mut Vec<SessionEvent>) {
        match notice {
            Notice::Warning(message) => out.push(SessionEvent::Warning { message: self.redacted(&message) }),
            Notice::Happened(Event::Delta(delta)) => self.tell_delta(delta, out),
            Notice::Happened(event) => self.tell_event(&event, now, out),
        }
    }

    /// Writes the end of the turn, and the ends of what is still open.
    pub fn tell_end(&mut self, outcome: TurnOutcome, now: Millis, out: &mut Vec<SessionEvent>) {
        let shown = self.display.close(now);
        self.show(shown, out);
        self.streams.clear();
        out.push(SessionEvent::TurnEnded { outcome });
    }

    fn tell_delta(&mut self, delta: Delta, out: &mut Vec<SessionEvent>) {
        let Delta { item_id, kind, text } = delta;
        let redactor = &self.redactor;
        let stream = self.streams.entry((item_id.clone(), kind)).or_insert_with(|| redactor.stream());
        let text = stream.push(&text);
        if !text.is_empty() {
            out.push(piece(&item_id, kind, text));
        }
    }

    fn tell_event(&mut self, event: &Event, now: Millis, out: &mut Vec<SessionEvent>) {
        if let Event::ItemCompleted(item) = event {
            self.finish_streams(item.id().unwrap_or_default(), out);
        }
        let shown = self.display.observe(event, now);
        self.show(shown, out);
        match event {
            Event::TurnStarted(turn) => out.push(SessionEvent::TurnStarted { turn_id: turn.id.clone() }),
            Event::ItemCompleted(Item::UserMessage(said)) => {
                let (item_id, text) = (said.id.clone(), self.redacted(&said.text()));
                out.extend(said.client_id.clone().map(|client_id| SessionEvent::Heard {
                    item_id,
                    client_id,
                    text,
                }));
            }
            Event::TerminalInput { item_id, text } => out.extend(self.typed(item_id, text)),
            Event::TokenUsage(usage) => out.push(SessionEvent::Usage(usage.clone())),
            Event::DiffUpdated(diff) => out.push(SessionEvent::Diff { diff: self.redacted(diff) }),
            Event::Warning(message) => out.push(SessionEvent::Warning { message: self.redacted(message) }),
            Event::Error { error, will_retry: true } => {
                let details = error.additional_details.as_deref().map(|details| format!(" ({details})"));
                let message = format!("{}{}", error.message, details.unwrap_or_default());
                out.push(SessionEvent::Retrying { message: self.redacted(&message) });
            }
            _ => {}
        }
    }

    /// The event for text that was typed into a running command; `None` if the output was only read.
    fn typed(&self, item_id: &str, text: &str) -> Option<SessionEvent> {
        if text.is_empty() {
            return None;
        }
        let call_id = command_call_id(item_id);
        let command = self.display.announced(&call_id).map(|command| self.redacted(command));
        // Redacted before it is cut: half a secret would not be recognised.
        let mut text = self.redacted(text);
        let whole = text.len();
        text.truncate(text.floor_char_boundary(TYPED_BYTES));
        Some(SessionEvent::Typed { call_id, command, cut_bytes: whole - text.len(), text })
    }

    fn finish_streams(&mut self, item_id: &str, out: &mut Vec<SessionEvent>) {
        for kind in [DeltaKind::Message, DeltaKind::Reasoning, DeltaKind::Output] {
            let Some(mut stream) = self.streams.remove(&(item_id.to_owned(), kind)) else { continue };
            let rest = stream.finish();
            if !rest.is_empty() {
                out.push(piece(item_id, kind, rest));
            }
        }
    }

    fn show(&self, shown: Vec<Display>, out: &mut Vec<SessionEvent>) {
        out.extend(shown.into_iter().map(|display| SessionEvent::Shown(self.redacted_display(display))));
    }

    fn redacted_display(&self, display: Display) -> Display {
        match display {
            Display::ToolStarted(mut started) => {
                started.preview = started.preview.map(|preview| self.redacted(&preview));
                self.redactor.redact_json(&mut started.args);
                Display::ToolStarted(started)
            }
            Display::ToolCompleted(mut completed) => {
                completed.result = self.redacted(&completed.result);
                Display::ToolCompleted(completed)
            }
            Display::Message { item_id, text, phase } => {
                Display::Message { item_id, text: self.redacted(&text), phase }
            }
            Display::Thought { item_id, text } => Display::Thought { item_id, text: self.redacted(&text) },
            // Pieces are already redacted by their stream.
            piece @ (Display::Text { .. } | Display::Reasoning { .. }) => piece,
        }
    }

    fn redacted(&self, text: &str) -> String {
        self.redactor.redact(text).into_owned()
    }
}

fn piece(item_id: &str, kind: DeltaKind, text: String) -> SessionEvent {
    match kind {
        DeltaKind::Message => SessionEvent::Shown(Display::Text { delta: text }),
        DeltaKind::Reasoning => SessionEvent::Shown(Display::Reasoning { delta: text }),
        DeltaKind::Output => SessionEvent::Output { call_id: command_call_id(item_id), text },
    }
}
