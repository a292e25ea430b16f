//! Progress notifications: one line for each thing that Codex does.

use redact::plain::plain;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};

use codex_bridge_core::event::Line;

use crate::transcript::{Note, Part, part};
use crate::view::Event;

/// The limit for a line. Clients show it beside a spinner.
const MAX_CHARS: usize = 300;

/// Sends the progress of one call. Sends nothing if the client gave no progress token.
pub struct Progress {
    receiver: Option<(Peer<RoleServer>, ProgressToken)>,
    sent: u32,
}

impl Progress {
    pub fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self { receiver: token.map(|token| (peer, token)), sent: 0 }
    }

    /// Sends a sentence.
    pub async fn say(&mut self, sentence: impl Into<String>) {
        let Some((peer, token)) = &self.receiver else { return };
        self.sent += 1;
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(self.sent));
        // An error means that the client has gone. The task continues.
        peer.notify_progress(progress.with_message(sentence)).await.ok();
    }

    /// Sends an event, if it has a line.
    pub async fn event(&mut self, event: &Event) {
        if let Some(line) = line(event) {
            self.say(line).await;
        }
    }
}

fn line(event: &Event) -> Option<String> {
    let line = match (event.line()?, part(event.line()?)?) {
        (_, Part::State { status, reason: Some(reason) }) => format!("{status}: {reason}"),
        (_, Part::State { status, reason: None }) => status.to_string(),
        (_, Part::Message(text)) => text.to_owned(),
        (Line::ToolStarted(call), _) => match &call.preview {
            Some(preview) => format!("{}: {preview}", call.name),
            None => call.name.clone(),
        },
        (_, Part::CallEnded(call)) if call.is_error => format!("{} failed", call.name),
        (_, Part::Answered { outcome, .. }) => format!("answered: {outcome}"),
        (_, Part::Note(Note::Warning | Note::Declined | Note::TerminalInput, text)) => text,
        _ => return None,
    };
    Some(cut(&plain(&line))).filter(|line| !line.is_empty())
}

fn cut(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
