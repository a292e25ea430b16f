//! What Codex does now, in one line each, for clients that want to hear of it.

use redact::plain::plain;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};

use codex_bridge_core::event::Line;

use crate::transcript::{Note, Part, part};
use crate::view::Event;

/// A line is not longer than this: clients show it beside a spinner.
const LINE_CHARS: usize = 300;

/// Tells one call's progress; nothing if the client gave no token.
pub struct Progress {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    told: u32,
}

impl Progress {
    pub fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self { to: token.map(|token| (peer, token)), told: 0 }
    }

    /// Tells a sentence.
    pub async fn say(&mut self, sentence: impl Into<String>) {
        let Some((peer, token)) = &self.to else { return };
        self.told += 1;
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(self.told));
        // A client that has gone hears nothing; its task goes on.
        peer.notify_progress(progress.with_message(sentence)).await.ok();
    }

    /// Tells an event, if it is worth it.
    pub async fn tell(&mut self, event: &Event) {
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
    match line.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
