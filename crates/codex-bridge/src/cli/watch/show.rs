//! Shows events as they arrive. While a question is open, events are held back.

use std::io;

use codex_bridge_core::bridge::LiveKind;
use codex_bridge_core::event::{Line, Message};
use codex_bridge_core::id::short;
use redact::plain::plain;

use super::choices::Dialog;
use super::{OpenQuestion, Watch, WatchEnd};
use crate::cli::render::request::request;
use crate::cli::render::width::wrap;
use crate::failure::Failure;
use crate::output;
use crate::view::{Event, EventContent, Live, Unlogged};

impl Watch<'_> {
    /// Shows an event, or holds it back.
    pub(super) async fn take(&mut self, event: Event) -> Result<Option<WatchEnd>, Failure> {
        self.last_seq = event.seq.unwrap_or(self.last_seq);
        if matches!(event.line(), Some(Line::RequestClosed(closed)) if self.asks_for(closed.request_id.as_str()))
        {
            self.close_question(Some("  answered elsewhere"))?;
        }
        if !matches!(self.question, OpenQuestion::None) {
            // Live output need not be held: the end of the command brings all of it again.
            if event.seq.is_some() || event.live().is_some_and(|live| live.live == LiveKind::Text) {
                self.held_events.push_back(event);
            }
            return Ok(None);
        }
        self.show(event).await
    }

    pub(super) fn asks_for(&self, request_id: &str) -> bool {
        match &self.question {
            OpenQuestion::Request(dialog) | OpenQuestion::CtrlC(Some(dialog)) => {
                dialog.request.request_id == request_id
            }
            OpenQuestion::None | OpenQuestion::CtrlC(None) => false,
        }
    }

    /// Closes the open question. Its lines stay on the screen.
    pub(super) fn close_question(&mut self, note: Option<&str>) -> Result<(), Failure> {
        if matches!(std::mem::replace(&mut self.question, OpenQuestion::None), OpenQuestion::None) {
            return Ok(());
        }
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.unhide();
        }
        let line = note.map(|note| self.terminal.paint.faint(note)).unwrap_or_default();
        self.screen.lines(&[line]).map_err(output::write_failure)
    }

    pub(super) async fn show_held_events(&mut self) -> Result<Option<WatchEnd>, Failure> {
        while matches!(self.question, OpenQuestion::None) {
            let Some(event) = self.held_events.pop_front() else { break };
            if let Some(end) = self.show(event).await? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    pub(super) async fn show(&mut self, event: Event) -> Result<Option<WatchEnd>, Failure> {
        self.progress.observe(&event);
        self.log.set_width(self.terminal.columns());
        match &event.content {
            EventContent::Unlogged(Unlogged::Live(live)) => self.live(live).map_err(output::write_failure)?,
            EventContent::Line(Line::Message(message)) => {
                self.message(&event, message).map_err(output::write_failure)?;
            }
            EventContent::Line(Line::Request(request)) => {
                return self.show_request(&event, request.request_id.as_str()).await;
            }
            _ => {
                let lines = self.log.render(&event);
                self.screen.lines(&lines).map_err(output::write_failure)?;
            }
        }
        Ok(None)
    }

    /// Shows a piece of a text as it is written, or the whole text so far.
    pub(super) fn live(&mut self, live: &Live) -> io::Result<()> {
        if live.live != LiveKind::Text {
            return Ok(());
        }
        let mut piece = live.text.as_str();
        if live.so_far {
            match piece.strip_prefix(self.written.as_str()) {
                Some(rest) => piece = rest,
                // Pieces were missed, so the text is shown again from its beginning.
                None => self.discard_text()?,
            }
        }
        if self.written.is_empty() && !piece.is_empty() {
            let lines = self.log.before_message();
            self.screen.lines(&lines)?;
            self.note_left_out(live)?;
        }
        self.written.push_str(piece);
        self.screen.text(&plain(piece), self.terminal.columns())
    }

    fn discard_text(&mut self) -> io::Result<()> {
        self.written.clear();
        self.screen.end_text()
    }

    fn note_left_out(&mut self, live: &Live) -> io::Result<()> {
        self.is_beginning_left_out = live.left_out_bytes.is_some();
        let Some(bytes) = live.left_out_bytes else { return Ok(()) };
        let note = format!(
            "… the first {} kB of this message are not shown; `codex-bridge logs {}` will show all of it",
            bytes.div_ceil(1000),
            short(&self.task_id)
        );
        let lines: Vec<String> =
            wrap(&note, self.terminal.columns()).iter().map(|line| self.terminal.paint.faint(line)).collect();
        self.screen.lines(&lines)
    }

    /// Shows a complete message, except for the part that was shown while it was written.
    fn message(&mut self, event: &Event, message: &Message) -> io::Result<()> {
        let message = message.text.as_str();
        let written = std::mem::take(&mut self.written);
        let is_beginning_left_out = std::mem::take(&mut self.is_beginning_left_out);
        // Pieces were shown as plain text.
        let text = plain(message);
        let Some(rest) = unwritten(&text, &written, is_beginning_left_out) else {
            let lines = self.log.render(event);
            return self.screen.lines(&lines);
        };
        self.screen.text(rest, self.terminal.columns())?;
        self.screen.end_text()?;
        self.log.message_was_shown(message);
        Ok(())
    }

    /// Asks for the decision of a request, if it is still open.
    async fn show_request(&mut self, event: &Event, request_id: &str) -> Result<Option<WatchEnd>, Failure> {
        if self.interrupting.is_some() {
            // The turn is being stopped, so its request needs no answer.
            return Ok(None);
        }
        let open = self.client.show(&self.task_id).await?.pending_requests;
        let Some(asked) = open.into_iter().find(|request| request.request_id == request_id) else {
            // The request was answered elsewhere, so it is only a log line.
            let lines = self.log.render(event);
            self.screen.lines(&lines).map_err(output::write_failure)?;
            return Ok(None);
        };
        let mut lines = self.log.before_question();
        lines.extend(request(&asked, self.terminal.paint, self.terminal.columns()));
        self.screen.lines(&lines).map_err(output::write_failure)?;
        if self.keyboard.is_none() {
            return Ok(Some(WatchEnd::NeedsAnswer));
        }
        self.question = OpenQuestion::Request(Box::new(Dialog::new(asked)));
        self.prompt()?;
        Ok(None)
    }
}

/// The rest of a message of which `written` was shown. None if `written` is not a part of the message.
fn unwritten<'m>(message: &'m str, written: &str, is_beginning_left_out: bool) -> Option<&'m str> {
    let (message, written) = (message.trim_end(), written.trim_end());
    if written.is_empty() {
        None
    } else if is_beginning_left_out {
        message.rfind(written).map(|at| &message[at + written.len()..])
    } else {
        message.strip_prefix(written)
    }
}

#[cfg(test)]
mod tests {
    use super::unwritten;

    #[test]
    fn what_was_shown_of_a_message_is_not_shown_again() {
        assert_eq!(unwritten("Once upon a time.\n", "Once upon ", false), Some(" a time."));
        assert_eq!(unwritten("Once upon a time.", "Once upon a time.\n", false), Some(""));
        assert_eq!(unwritten("Once upon a time.", "", false), None);
        assert_eq!(unwritten("Once upon a time.", "upon a", false), None);
        assert_eq!(unwritten("Once upon a time.", "upon a", true), Some(" time."));
        assert_eq!(unwritten("Something else.", "upon a", true), None);
    }
}
