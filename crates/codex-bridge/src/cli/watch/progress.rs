//! The status line: what the task does, for how long, and what it has used. Pure: told what happens and what time it is.

use codex_bridge_core::bridge::LiveKind;
use codex_bridge_core::event::Line;
use codex_bridge_core::task::Status;
use redact::plain::plain;

use crate::amount::{clock, tokens};
use crate::cli::render::paint::Paint;
use crate::cli::render::task::time_ms;
use crate::cli::render::width::{columns, cut};
use crate::view::{Aside, Event, Live, Told};

/// The pictures of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// What the status line tells.
#[derive(Debug)]
pub struct Progress {
    status: Status,
    doing: String,
    began_ms: i64,
    tokens: Option<u64>,
    frame: usize,
}

impl Progress {
    /// A task whose turn was asked for at this time.
    pub fn new(began_ms: i64) -> Self {
        Self { status: Status::Queued, doing: String::new(), began_ms, tokens: None, frame: 0 }
    }

    /// Something happened.
    pub fn observe(&mut self, event: &Event) {
        match &event.told {
            Told::Line(Line::State(state)) => {
                self.status = state.status;
                self.doing.clear();
                if self.status == Status::Queued {
                    // A new turn has a clock of its own.
                    self.began_ms = event.at.as_deref().map_or(self.began_ms, time_ms);
                }
            }
            Told::Line(Line::ToolStarted(_)) => "running".clone_into(&mut self.doing),
            Told::Aside(Aside::Live(live)) => self.observe_live(live),
            _ => self.doing.clear(),
        }
    }

    fn observe_live(&mut self, live: &Live) {
        match live.live {
            LiveKind::Text => {}
            LiveKind::Reasoning => "thinking".clone_into(&mut self.doing),
            LiveKind::Output => {
                let last = live.text.lines().rev().find(|line| !line.trim().is_empty());
                if let Some(last) = last {
                    self.doing = plain(last).into_owned();
                }
            }
        }
    }

    /// Tokens were counted.
    pub fn set_tokens(&mut self, tokens: u64) {
        self.tokens = Some(tokens);
    }

    /// How long the turn has taken.
    pub fn took_ms(&self, now_ms: i64) -> u64 {
        u64::try_from(now_ms - self.began_ms).unwrap_or(0)
    }

    /// The line, one step further.
    pub fn draw(&mut self, now_ms: i64, paint: Paint, room: usize) -> String {
        self.frame = (self.frame + 1) % SPINNER.len();
        let mut said = format!("{} {}", self.status, clock(self.took_ms(now_ms)));
        if let Some(count) = self.tokens.filter(|count| *count > 0) {
            said = format!("{said} · {} tokens", tokens(count));
        }
        let said = cut(&said, room.saturating_sub(3));
        let rest = room.saturating_sub(columns(&said) + 6);
        let doing = if self.doing.is_empty() || rest < 8 {
            String::new()
        } else {
            format!(" · {}", cut(&self.doing, rest))
        };
        format!("{} {}{}", paint.busy(SPINNER[self.frame]), said, paint.faint(&doing))
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
        for room in 20..90 {
            let line = progress.draw(10_000_000, Paint::Plain, room);
            assert!(columns(&line) < room, "{room}: {line}");
        }
    }
}
