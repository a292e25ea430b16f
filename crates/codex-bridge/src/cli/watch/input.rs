//! Handles typed lines and Ctrl-C: answers, detach, interrupt.

use codex_bridge_core::bridge::DecisionOutcome;
use codex_session::Decision;

use super::choices::{self, Dialog, TypedAnswer};
use super::{CtrlC, OpenQuestion, Watch, WatchEnd};
use crate::cli::keyboard::Line;
use crate::cli::{decide, output};
use crate::failure::{Code, Failure};
use crate::view::Outcome;

impl Watch<'_> {
    /// Shows the possible answers to the open question, and a prompt.
    pub(super) fn prompt(&mut self) -> Result<(), Failure> {
        let (paint, columns) = (self.terminal.paint, self.terminal.columns());
        let ((lines, prompt), is_secret) = match &self.question {
            OpenQuestion::None => return Ok(()),
            OpenQuestion::Request(dialog) => (dialog.prompt(paint, columns), dialog.is_secret()),
            OpenQuestion::CtrlC(_) => (choices::ctrl_c_choices(paint, columns), false),
        };
        self.screen.lines(&lines).map_err(output::write_failure)?;
        self.screen.prompt(&prompt).map_err(output::write_failure)?;
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.unhide();
            if is_secret {
                keyboard.hide();
            }
            keyboard.question_shown();
        }
        Ok(())
    }

    pub(super) async fn handle_line(&mut self, line: Line) -> Result<Option<WatchEnd>, Failure> {
        match std::mem::replace(&mut self.question, OpenQuestion::None) {
            OpenQuestion::None => Ok(None),
            OpenQuestion::CtrlC(before) => self.handle_ctrl_c_choice(line, before).await,
            OpenQuestion::Request(mut dialog) => {
                let Line::Typed(typed) = line else { return Ok(Some(WatchEnd::Detached)) };
                if dialog.is_secret() {
                    // The typed line break was hidden too.
                    self.screen.lines(&[String::new()]).map_err(output::write_failure)?;
                }
                match dialog.answer(&typed) {
                    TypedAnswer::Detach => return Ok(Some(WatchEnd::Detached)),
                    TypedAnswer::Decide(decision) => return self.decide(&dialog, &decision).await,
                    TypedAnswer::Invalid(hint) => {
                        self.screen.lines(&[format!("  {hint}")]).map_err(output::write_failure)?;
                    }
                    TypedAnswer::Next => {}
                }
                self.question = OpenQuestion::Request(dialog);
                self.prompt()?;
                Ok(None)
            }
        }
    }

    pub(super) async fn decide(
        &mut self,
        dialog: &Dialog,
        decision: &Decision,
    ) -> Result<Option<WatchEnd>, Failure> {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.unhide();
        }
        let decided = self.client.decide(&self.task_id, dialog.request.selector(), decision).await;
        let note = match decided {
            // The log shows this outcome.
            Ok(decided) if decided.outcome == DecisionOutcome::Resolved => None,
            Ok(decided) => Some(decide::outcome_sentence(&decided)),
            // The request is still open, so it is asked again from the beginning.
            Err(failure) if failure.code == Code::BadAnswers => {
                self.screen.lines(&[format!("  {failure}")]).map_err(output::write_failure)?;
                self.question = OpenQuestion::Request(Box::new(Dialog::new(dialog.request.clone())));
                self.prompt()?;
                return Ok(None);
            }
            Err(failure) => Some(failure.to_string()),
        };
        if let Some(note) = note {
            self.screen.lines(&[format!("  {note}")]).map_err(output::write_failure)?;
        }
        self.show_held_events().await
    }

    pub(super) async fn ctrl_c(&mut self) -> Result<Option<WatchEnd>, Failure> {
        if self.interrupting.is_some() {
            return Ok(Some(WatchEnd::Detached));
        }
        let before = match (std::mem::replace(&mut self.question, OpenQuestion::None), self.on_ctrl_c) {
            // A second Ctrl-C interrupts.
            (OpenQuestion::CtrlC(_), _) => {
                self.screen.lines(&[String::new()]).map_err(output::write_failure)?;
                return self.interrupt().await;
            }
            (_, CtrlC::Interrupts) if self.keyboard.is_none() => return self.interrupt().await,
            (_, CtrlC::Detaches) if self.keyboard.is_none() => return Ok(Some(WatchEnd::Detached)),
            (OpenQuestion::Request(dialog), _) => Some(dialog),
            (OpenQuestion::None, _) => None,
        };
        self.question = OpenQuestion::CtrlC(before);
        // The terminal has written `^C` where the cursor was.
        self.screen.end_text().map_err(output::write_failure)?;
        self.screen.lines(&[String::new()]).map_err(output::write_failure)?;
        self.prompt()?;
        Ok(None)
    }

    pub(super) async fn handle_ctrl_c_choice(
        &mut self,
        line: Line,
        before: Option<Box<Dialog>>,
    ) -> Result<Option<WatchEnd>, Failure> {
        let Line::Typed(typed) = line else { return Ok(Some(WatchEnd::Detached)) };
        match typed.trim() {
            "i" | "interrupt" => return self.interrupt().await,
            "d" | "detach" => return Ok(Some(WatchEnd::Detached)),
            "" => {}
            _ => {
                self.question = OpenQuestion::CtrlC(before);
                self.prompt()?;
                return Ok(None);
            }
        }
        match before {
            Some(dialog) => {
                self.question = OpenQuestion::Request(dialog);
                self.prompt()?;
                Ok(None)
            }
            None => self.show_held_events().await,
        }
    }

    pub(super) async fn interrupt(&mut self) -> Result<Option<WatchEnd>, Failure> {
        let (client, task_id) = (self.client, self.task_id.clone());
        self.interrupting = Some(Box::pin(async move { client.interrupt(&task_id).await }));
        self.show_held_events().await
    }

    /// Handles the reply to an interrupt. The end of the turn itself comes with the log.
    pub(super) fn interrupted(
        &mut self,
        outcome: Result<Outcome, Failure>,
    ) -> Result<Option<WatchEnd>, Failure> {
        self.interrupting = None;
        match outcome {
            // The turn ended before the interrupt; the log says how.
            Err(failure) if failure.code == Code::WrongState => Ok(None),
            Ok(_) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}
