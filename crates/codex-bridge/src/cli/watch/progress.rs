//! The status line: the task's status, elapsed time, tokens and current activity. Pure: events and the time are inputs.

use codex_bridge_core::bridge::LiveKind;
use codex_bridge_core::event::Line;
use codex_bridge_core::task::Status;
use redact::plain::plain;

use crate::amount::{clock, tokens};
use crate::cli::render::paint::Paint;
use crate::cli::render::task::time_ms;
use crate::cli::render::width::{columns, cut};
use crate::view::{Event, EventContent, Live, Unlogged};

/// The frames of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// The content of the status line.
#[derive(Debug)]
pub struct Progress {
    status: Status,
    activity: String,
    began_ms: i64,
    tokens: Option<u64>,
    frame: usize,
}

impl Progress {
    /// The status line of a turn that was requested at this time.
    pub fn new(began_ms: i64) -> Self {
        Self { status: Status::Queued, activity: String::new(), began_ms, tokens: None, frame: 0 }
    }

    /// Updates the status line from an event.
    pub fn observe(&mut self, event: &Event) {
        match &event.content {
            EventContent::Line(Line::State(state)) => {
                self.status = state.status;
                self.activity.clear();
                if self.status == Status::Queued {
                    // A new turn starts a new clock.
                    self.began_ms = event.at.as_deref().map_or(self.began_ms, time_ms);
                }
            }
            EventContent::Line(Line::ToolStarted(_)) => "running".clone_into(&mut self.activity),
            EventContent::Unlogged(Unlogged::Live(live)) => self.observe_live(live),
            _ => self.activity.clear(),
        }
    }

    fn observe_live(&mut self, live: &Live) {
        match live.live {
            LiveKind::Text => {}
            LiveKind::Reasoning => "thinking".clone_into(&mut self.activity),
            LiveKind::Output => {
                let last = live.text.lines().rev().find(|line| !line.trim().is_empty());
                if let Some(last) = last {
                    self.activity = plain(last).into_owned();
                }
            }
        }
    }

    /// Sets the token count.
    pub fn set_tokens(&mut self, tokens: u64) {
        self.tokens = Some(tokens);
    }

    /// How long the turn has taken.
    pub fn took_ms(&self, now_ms: i64) -> u64 {
        u64::try_from(now_ms - self.began_ms).unwrap_or(0)
    }

    /// The status line with the next frame of the spinner.
    pub fn draw(&mut self, now_ms: i64, paint: Paint, width: usize) -> String {
        self.frame = (self.frame + 1) % SPINNER.len();
        let mut summary = format!("{} {}", self.status, clock(self.took_ms(now_ms)));
        if let Some(count) = self.tokens.filter(|count| *count > 0) {
            summary = format!("{summary} · {} tokens", tokens(count));
        }
        let summary = cut(&summary, width.saturating_sub(3));
        let remaining = width.saturating_sub(columns(&summary) + 6);
        let activity = if self.activity.is_empty() || remaining < 8 {
            String::new()
        } else {
            format!(" · {}", cut(&self.activity, remaining))
        };
        format!("{} {}{}", paint.busy(SPINNER[self.frame]), summary, paint.faint(&activity))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Progress;
    use crate::cli::render::paint::Paint;
    use crate::cli::render::width::columns;

    fn after(events: &[Value]) -> Progress {
        let mut progress = Progress::new(0);
        for event in events {
            progress.observe(&serde_json::from_value(event.clone()).unwrap());
        }
        progress
    }

    #[test]
    fn the_line_says_what_is_done_for_how_long_and_at_what_cost() {
        let mut progress = after(&[
            json!({"kind": "state", "status": "queued", "at": "1970-01-01T00:00:10Z"}),
            json!({"kind": "state", "status": "working", "at": "1970-01-01T00:00:11Z"}),
            json!({"kind": "tool_started", "name": "exec_command"}),
            json!({"kind": "live", "live": "output", "text": "one\n\u{1b}[31mtwo\n\n"}),
        ]);
        progress.set_tokens(1234);
        assert_eq!(progress.draw(75_000, Paint::Plain, 80), "⠙ working 1:05 · 1.2k tokens · two");
        assert_eq!(progress.took_ms(75_000), 65_000);
    }

    #[test]
    fn the_line_fits_any_window() {
        let mut progress = after(&[
            json!({"kind": "state", "status": "interrupting"}),
            json!({"kind": "live", "live": "output", "text": "a long line of output that goes on and on"}),
        ]);
        progress.set_tokens(123_456);
        for width in 20..90 {
            let line = progress.draw(10_000_000, Paint::Plain, width);
            assert!(columns(&line) < width, "{width}: {line}");
        }
    }
}
