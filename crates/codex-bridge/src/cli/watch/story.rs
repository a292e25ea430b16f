//! Shows a task's log as it comes. While a question is open, what comes is held back.

use std::io;

use codex_bridge_core::bridge::LiveKind;
use codex_bridge_core::event::{Line, Message};
use codex_bridge_core::id::short;
use redact::plain::plain;

use super::choices::Inquiry;
use super::{Left, Open, Watch};
use crate::cli::render::request::request;
use crate::cli::render::width::wrap;
use crate::failure::Failure;
use crate::output;
use crate::view::{Aside, Event, Live, Told};

impl Watch<'_> {
    pub(super) async fn take(&mut self, event: Event) -> Result<Option<Left>, Failure> {
        self.last_seq = event.seq.unwrap_or(self.last_seq);
        if matches!(event.line(), Some(Line::RequestClosed(closed)) if self.asks_for(closed.request_id.as_str()))
        {
            self.close_question(Some("  answered elsewhere"))?;
        }
        if !matches!(self.open, Open::None) {
            // Output as it is written comes again with the end of its command.
            if event.seq.is_some() || event.live().is_some_and(|live| live.live == LiveKind::Text) {
                self.held.push_back(event);
            }
            return Ok(None);
        }
        self.show(event).await
    }

    pub(super) fn asks_for(&self, request_id: &str) -> bool {
        match &self.open {
            Open::Request(inquiry) | Open::Leaving(Some(inquiry)) => inquiry.request.request_id == request_id,
            Open::None | Open::Leaving(None) => false,
        }
    }

    /// Takes the open question away; what it said stays.
    pub(super) fn close_question(&mut self, why: Option<&str>) -> Result<(), Failure> {
        if matches!(std::mem::replace(&mut self.open, Open::None), Open::None) {
            return Ok(());
        }
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.unhide();
        }
        let line = why.map(|why| self.terminal.paint.faint(why)).unwrap_or_default();
        self.screen.lines(&[line]).map_err(output::failed)
    }

    pub(super) async fn show_held(&mut self) -> Result<Option<Left>, Failure> {
        while matches!(self.open, Open::None) {
            let Some(event) = self.held.pop_front() else { break };
            if let Some(left) = self.show(event).await? {
                return Ok(Some(left));
            }
        }
        Ok(None)
    }

    pub(super) async fn show(&mut self, event: Event) -> Result<Option<Left>, Failure> {
        self.progress.observe(&event);
        self.story.set_room(self.terminal.columns());
        match &event.told {
            Told::Aside(Aside::Live(live)) => self.live(live).map_err(output::failed)?,
            Told::Line(Line::Message(message)) => self.message(&event, message).map_err(output::failed)?,
            Told::Line(Line::Request(request)) => {
                return self.asked(&event, request.request_id.as_str()).await;
            }
            _ => {
                let lines = self.story.tell(&event);
                self.screen.lines(&lines).map_err(output::failed)?;
            }
        }
        Ok(None)
    }

    /// A piece of a text as it is written, or all that there is of it.
    pub(super) fn live(&mut self, live: &Live) -> io::Result<()> {
        if live.live != LiveKind::Text {
            return Ok(());
        }
        let mut piece = live.text.as_str();
        if live.so_far {
            match piece.strip_prefix(self.written.as_str()) {
                Some(rest) => piece = rest,
                // Pieces were missed in a way that leaves a hole: it begins anew.
                None => self.forget_text()?,
            }
        }
        if self.written.is_empty() && !piece.is_empty() {
            let lines = self.story.before_message();
            self.screen.lines(&lines)?;
            self.tell_left_out(live)?;
        }
        self.written.push_str(piece);
        self.screen.text(&plain(piece), self.terminal.columns())
    }

    fn forget_text(&mut self) -> io::Result<()> {
        self.written.clear();
        self.screen.end_text()
    }

    fn tell_left_out(&mut self, live: &Live) -> io::Result<()> {
        self.is_beginning_left_out = live.left_out_bytes.is_some();
        let Some(bytes) = live.left_out_bytes else { return Ok(()) };
        let said = format!(
            "… {} kB of this message come before; `codex-bridge logs {}` will have all of it",
            bytes.div_ceil(1000),
            short(&self.task_id)
        );
        let lines: Vec<String> =
            wrap(&said, self.terminal.columns()).iter().map(|line| self.terminal.paint.faint(line)).collect();
        self.screen.lines(&lines)
    }

    /// A whole message: what of it was shown while it was written is not shown again.
    fn message(&mut self, event: &Event, message: &Message) -> io::Result<()> {
        let message = message.text.as_str();
        let written = std::mem::take(&mut self.written);
        let is_beginning_left_out = std::mem::take(&mut self.is_beginning_left_out);
        // Pieces come plain.
        let shown = plain(message);
        let Some(rest) = unwritten(&shown, &written, is_beginning_left_out) else {
            let lines = self.story.tell(event);
            return self.screen.lines(&lines);
        };
        self.screen.text(rest, self.terminal.columns())?;
        self.screen.end_text()?;
        self.story.message_was_shown(message);
        Ok(())
    }

    async fn asked(&mut self, event: &Event, request_id: &str) -> Result<Option<Left>, Failure> {
        if self.interrupting.is_some() {
            // What is being stopped need not be answered.
            return Ok(None);
        }
        let open = self.client.show(&self.task_id).await?.pending_requests;
        let Some(asked) = open.into_iter().find(|request| request.request_id == request_id) else {
            // Somebody has answered: it is history.
            let lines = self.story.tell(event);
            self.screen.lines(&lines).map_err(output::failed)?;
            return Ok(None);
        };
        let mut lines = self.story.before_question();
        lines.extend(request(&asked, self.terminal.paint, self.terminal.columns()));
        self.screen.lines(&lines).map_err(output::failed)?;
        if self.keyboard.is_none() {
            return Ok(Some(Left::NeedsAnswer));
        }
        self.open = Open::Request(Box::new(Inquiry::new(asked)));
        self.prompt()?;
        Ok(None)
    }
}

/// What of a message was not shown while it was written; none if what was shown is something else.
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
