//! What a person types while they watch: answers to questions, and the ways to leave.

use codex_session::Decision;

use super::choices::{self, Inquiry, Step};
use super::{Left, Open, Unattended, Watch};
use crate::cli::keyboard::Line;
use crate::cli::{decide, output};
use crate::failure::{Code, Failure};
use crate::view::Outcome;

impl Watch<'_> {
    /// Shows what can be answered to the open question.
    pub(super) fn prompt(&mut self) -> Result<(), Failure> {
        let (paint, columns) = (self.terminal.paint, self.terminal.columns());
        let ((lines, prompt), is_secret) = match &self.open {
            Open::None => return Ok(()),
            Open::Request(inquiry) => (inquiry.prompt(paint, columns), inquiry.is_secret()),
            Open::Leaving(_) => (choices::leaving(paint, columns), false),
        };
        self.screen.lines(&lines).map_err(output::failed)?;
        self.screen.prompt(&prompt).map_err(output::failed)?;
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.unhide();
            if is_secret {
                keyboard.hide();
            }
            keyboard.question_shown();
        }
        Ok(())
    }

    pub(super) async fn typed(&mut self, line: Line) -> Result<Option<Left>, Failure> {
        match std::mem::replace(&mut self.open, Open::None) {
            Open::None => Ok(None),
            Open::Leaving(before) => self.leave_or_stay(line, before).await,
            Open::Request(mut inquiry) => {
                let Line::Typed(typed) = line else { return Ok(Some(Left::Detached)) };
                if inquiry.is_secret() {
                    // The line's end was not seen either.
                    self.screen.lines(&[String::new()]).map_err(output::failed)?;
                }
                match inquiry.answer(&typed) {
                    Step::Detach => return Ok(Some(Left::Detached)),
                    Step::Decide(decision) => return self.decide(&inquiry, &decision).await,
                    Step::Again(how) => self.screen.lines(&[format!("  {how}")]).map_err(output::failed)?,
                    Step::Next => {}
                }
                self.open = Open::Request(inquiry);
                self.prompt()?;
                Ok(None)
            }
        }
    }

    pub(super) async fn decide(
        &mut self,
        inquiry: &Inquiry,
        decision: &Decision,
    ) -> Result<Option<Left>, Failure> {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.unhide();
        }
        let decided = self.client.decide(&self.task_id, inquiry.request.shown(), decision).await;
        let said = match decided {
            // The log tells it.
            Ok(decided) if decided.outcome == "resolved" => None,
            Ok(decided) => Some(decide::told(&decided)),
            Err(failure) => Some(failure.to_string()),
        };
        if let Some(said) = said {
            self.screen.lines(&[format!("  {said}")]).map_err(output::failed)?;
        }
        self.show_held().await
    }

    pub(super) async fn ctrl_c(&mut self) -> Result<Option<Left>, Failure> {
        if self.interrupting.is_some() {
            return Ok(Some(Left::Detached));
        }
        let before = match (std::mem::replace(&mut self.open, Open::None), self.unattended) {
            // Asked twice: it is meant.
            (Open::Leaving(_), _) => {
                self.screen.lines(&[String::new()]).map_err(output::failed)?;
                return self.interrupt().await;
            }
            (_, Unattended::Interrupts) if self.keyboard.is_none() => return self.interrupt().await,
            (_, Unattended::Leaves) if self.keyboard.is_none() => return Ok(Some(Left::Detached)),
            (Open::Request(inquiry), _) => Some(inquiry),
            (Open::None, _) => None,
        };
        self.open = Open::Leaving(before);
        // The terminal has written `^C` where the cursor was.
        self.screen.end_text().map_err(output::failed)?;
        self.screen.lines(&[String::new()]).map_err(output::failed)?;
        self.prompt()?;
        Ok(None)
    }

    pub(super) async fn leave_or_stay(
        &mut self,
        line: Line,
        before: Option<Box<Inquiry>>,
    ) -> Result<Option<Left>, Failure> {
        let Line::Typed(typed) = line else { return Ok(Some(Left::Detached)) };
        match typed.trim() {
            "i" | "interrupt" => return self.interrupt().await,
            "d" | "detach" => return Ok(Some(Left::Detached)),
            "" => {}
            _ => {
                self.open = Open::Leaving(before);
                self.prompt()?;
                return Ok(None);
            }
        }
        match before {
            Some(inquiry) => {
                self.open = Open::Request(inquiry);
                self.prompt()?;
                Ok(None)
            }
            None => self.show_held().await,
        }
    }

    pub(super) async fn interrupt(&mut self) -> Result<Option<Left>, Failure> {
        let (client, task_id) = (self.client, self.task_id.clone());
        self.interrupting = Some(Box::pin(async move { client.interrupt(&task_id).await }));
        self.show_held().await
    }

    /// The interrupt was answered; the end itself comes with the log.
    pub(super) fn interrupted(&mut self, outcome: Result<Outcome, Failure>) -> Result<Option<Left>, Failure> {
        self.interrupting = None;
        match outcome {
            // It ended by itself in between: the log says how.
            Err(failure) if failure.code == Code::WrongState => Ok(None),
            Ok(_) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}
