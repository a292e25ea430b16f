//! Shows a task's log as it comes. While a question is open, what comes is held back.

use std::io;

use redact::plain::plain;

use super::asking::Inquiry;
use super::{Left, Open, Watch, text};
use crate::cli::output;
use crate::cli::render::request::request;
use crate::failure::Failure;
use crate::view::Event;

impl Watch<'_> {
    pub(super) async fn take(&mut self, event: Event) -> Result<Option<Left>, Failure> {
        self.last_seq = event.seq.unwrap_or(self.last_seq);
        if event.kind == "request_closed" && self.asks_for(text(&event, "request_id")) {
            self.close_question(Some("  answered elsewhere"))?;
        }
        if !matches!(self.open, Open::None) {
            // Output as it is written comes again with the end of its command.
            if event.seq.is_some() || text(&event, "live") == "text" {
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
        match event.kind.as_str() {
            "live" => self.live(&event).map_err(output::failed)?,
            "message" => self.message(&event).map_err(output::failed)?,
            "request" => return self.asked(&event).await,
            _ => {
                let lines = self.story.tell(&event);
                self.screen.lines(&lines).map_err(output::failed)?;
            }
        }
        Ok(None)
    }

    /// A piece of a text as it is written.
    pub(super) fn live(&mut self, event: &Event) -> io::Result<()> {
        if text(event, "live") != "text" {
            return Ok(());
        }
        if self.written.is_empty() {
            let lines = self.story.before_message();
            self.screen.lines(&lines)?;
        }
        let piece = text(event, "text");
        self.written.push_str(piece);
        self.screen.text(&plain(piece), self.terminal.columns())
    }

    /// A whole message: what of it was shown while it was written is not shown again.
    pub(super) fn message(&mut self, event: &Event) -> io::Result<()> {
        let message = text(event, "text");
        let written = std::mem::take(&mut self.written);
        let rest = message.trim_end().strip_prefix(written.trim_end()).filter(|_| !written.is_empty());
        let Some(rest) = rest else {
            let lines = self.story.tell(event);
            return self.screen.lines(&lines);
        };
        self.screen.text(&plain(rest), self.terminal.columns())?;
        self.screen.end_text()?;
        self.story.message_was_shown(message);
        Ok(())
    }

    pub(super) async fn asked(&mut self, event: &Event) -> Result<Option<Left>, Failure> {
        let request_id = text(event, "request_id");
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
