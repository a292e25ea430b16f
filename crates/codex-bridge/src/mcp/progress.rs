//! What Codex does now, in one line each, for clients that want to hear of it.

use redact::plain::plain;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};

use serde_json::Value;

use super::stretch::text;
use crate::cli::render::story::{policy_declined, terminal_input};
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
        let _ = peer.notify_progress(progress.with_message(sentence)).await;
    }

    /// Tells an event, if it is worth it.
    pub async fn tell(&mut self, event: &Event) {
        if let Some(line) = line(event) {
            self.say(line).await;
        }
    }
}

fn line(event: &Event) -> Option<String> {
    let said = |key: &str| text(event, key).unwrap_or_default();
    let line = match event.kind.as_str() {
        "state" => match text(event, "reason") {
            Some(reason) => format!("{}: {reason}", said("status")),
            None => said("status").replace('_', " "),
        },
        "message" => said("text").to_owned(),
        "tool_started" => match text(event, "preview") {
            Some(preview) => format!("{}: {preview}", said("name")),
            None => said("name").to_owned(),
        },
        "tool_completed" if event.body.get("is_error").is_some_and(|it| it == true) => {
            format!("{} failed", said("name"))
        }
        "terminal_input" => terminal_input(&Value::Object(event.body.clone())),
        "request_decided" => policy_declined(&Value::Object(event.body.clone()))?,
        "retrying" | "warning" | "notice" => said("message").to_owned(),
        "request_closed" => format!("answered: {}", said("outcome")),
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
