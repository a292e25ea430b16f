//! Turns the end of a turn into the task's status.

use std::sync::Arc;

use codex_session::{Failure, FailureKind, Session, TurnOutcome, TurnResult};
use tracing::{error, info};

use super::Runner;
use crate::bridge::{GO_ON, QueuedBy, Watchdog, append};
use crate::config::OnHostLoss;
use crate::event::{Diff, Notice, StateChanged, TurnEnded};
use crate::outbox::notice::TurnFacts;
use crate::request::RequestState;
use crate::store::{self, Write};
use crate::task::{Parked, Status, TaskError, TimeMs, TurnProgress};

/// How often a task is resumed after its host died.
const HOST_LOSSES: u32 = 2;
/// How often in a row a task is resumed after Codex withheld the network. A login changes once, not for ever.
const WITHHELD: u32 = 2;

impl Runner<'_> {
    /// Stores the end of the turn, and queues another one if the task continues by itself.
    pub(super) async fn end(&mut self, result: TurnResult) -> Result<(), store::Error> {
        let now = self.inner.now();
        let resume = self.settle(&result, now);
        let inner = Arc::clone(&self.inner);
        let parks_for_login = matches!(self.task.parked, Some(Parked::Login { .. }));
        // Held until the commit, so that only one task carries the notice.
        let _parking = if parks_for_login { Some(inner.parking.lock().await) } else { None };
        let notice = self.share_notice(now).await?;
        self.task.final_text = Some(result.final_text.clone()).filter(|text| !text.is_empty());
        self.task.error = result.error.as_ref().map(task_error);
        self.task.usage = result.usage.as_ref().map(Into::into).or(self.task.usage.take());
        self.task.used.work_ms = self.worked_before_ms + result.work_ms;
        if result.turn_id.is_some() {
            // A turn that ended while the bridge was away was never seen to start.
            (self.turn.turn_id, self.task.turn_id) = (result.turn_id.clone(), result.turn_id.clone());
        }
        self.turn.progress = TurnProgress::Ended;
        self.turn.sealed_prompt = None;
        self.turn.ended_at = Some(now);
        self.turn.outcome = Some(result.outcome);
        (self.turn.final_text, self.turn.error) = (self.task.final_text.clone(), self.task.error.clone());
        (self.task.updated_at, self.task.completed_at) = (now, Some(now));
        let mut batch =
            vec![Write::SaveTurn(Box::new(self.turn.clone())), Write::SaveTask(Box::new(self.task.clone()))];
        // A turn that could not be resumed may have left open requests.
        let mut unanswered = self.inner.unanswered(Some(self.task.id.clone())).await?;
        let orphaned = |request| self.inner.close_request(request, RequestState::Orphaned);
        batch.extend(unanswered.iter_mut().flat_map(orphaned));
        let diff = self.diff.take();
        let facts = TurnFacts {
            prompt: Some(&self.turn.prompt_summary),
            work_ms: Some(result.work_ms),
            diff: diff.as_deref(),
        };
        let deliveries = self.inner.deliveries_for_finished(&self.task, facts, now);
        if let Some(diff) = diff {
            batch.push(append(&self.task.id, now, Diff { diff }));
        }
        let ended = TurnEnded {
            outcome: result.outcome,
            final_text: self.task.final_text.clone(),
            error: self.task.error.clone(),
            outcome_unknown: result.outcome_unknown,
            side_effects: result.side_effects.clone(),
        };
        batch.push(append(&self.task.id, now, ended));
        batch.extend(notice);
        let breach = result.error.as_ref().filter(|error| error.kind == FailureKind::Breach);
        let alarm =
            |error: &Failure| inner.audit("codex-bridge", "alarm", Some(&self.task.id), &error.message);
        batch.extend(breach.map(alarm));
        let goes_on = resume.is_some() || self.task.parked.is_some();
        batch.push(append(&self.task.id, now, StateChanged::of(&self.task, goes_on)));
        // One transaction: a crash between two would leave the task `lost`. So does a prompt that cannot be sealed.
        let another = resume
            .and_then(|prompt| self.inner.another_turn(&mut self.task, &prompt, QueuedBy::Bridge, now).ok());
        let goes_on = another.is_some();
        // A task that continues by itself announces no end.
        batch.extend(another.unwrap_or(deliveries));
        self.write_unwritten().await?;
        self.inner.commit(batch).await?;
        self.tell_end(&result);
        if goes_on {
            self.inner.enqueue_to_resume(&self.task);
        }
        for request in &unanswered {
            self.inner.redact_whole_changes(request).await?;
        }
        Ok(())
    }

    fn tell_end(&mut self, result: &TurnResult) {
        let error = self.task.error.as_ref().map(|error| error.message.as_str());
        info!(status = %self.task.status, work_ms = result.work_ms, error, "the turn ended");
        if result.error.as_ref().is_some_and(|error| error.kind == FailureKind::Breach) {
            error!("the thread left its bounds; `codex-bridge audit` shows details");
        }
        self.telemetry.ended(&self.task, result);
    }

    /// Of all tasks that wait for one login, the first carries the notice. The others point to it.
    async fn share_notice(&mut self, now: TimeMs) -> Result<Option<Write>, store::Error> {
        let home = self.inner.login_home(&self.task);
        let Some(Parked::Login { seen, carries_notice }) = &mut self.task.parked else { return Ok(None) };
        if let Some(carrier) = self.inner.carrier_of_notice(&home, seen).await? {
            self.task.reason = Some(format!("waits for Codex to be logged in, as {carrier} says"));
            return Ok(None);
        }
        *carries_notice = true;
        let message = format!(
            "Codex is not logged in ({}): run `codex login`; every task of this CODEX_HOME waits for it",
            home.display()
        );
        Ok(Some(append(&self.task.id, now, Notice { about: Some("login".to_owned()), message })))
    }

    /// Sets status and reason. Returns the next prompt if the task continues by itself.
    fn settle(&mut self, result: &TurnResult, now: TimeMs) -> Option<String> {
        (self.task.reason, self.task.parked) = (None, None);
        match (result.outcome, result.error.as_ref().map(|error| &error.kind)) {
            _ if self.over_limit.is_some() => self.pause(self.over_limit.clone()),
            (TurnOutcome::Completed, _) => {
                self.task.status = Status::Completed;
                (self.task.used.limit_hits, self.task.used.withheld) = (0, 0);
                self.served();
            }
            (TurnOutcome::Interrupted, Some(FailureKind::Timeout)) => {
                self.inner.counters.fire(Watchdog::Work);
                self.pause(result.error.as_ref().map(|error| error.message.clone()));
            }
            (TurnOutcome::Interrupted, None) if self.host_was_lost => return self.lost(result),
            (TurnOutcome::Interrupted, None) if self.task.status == Status::Interrupting => {
                self.task.status = Status::Cancelled;
                self.task.reason = Some("interrupted on request".to_owned());
            }
            (TurnOutcome::Interrupted, None) => {
                self.task.status = Status::Cancelled;
                self.task.reason = Some("interrupted on Codex's side".to_owned());
            }
            (TurnOutcome::Lost, _) => return self.lost(result),
            (_, Some(FailureKind::UsageLimit { resets_at })) => self.park_until(*resets_at, now),
            (_, Some(FailureKind::Auth)) => self.park_until_login(),
            (_, Some(FailureKind::NetworkWithheld)) if self.task.used.withheld < WITHHELD => {
                return Some(self.withheld());
            }
            _ => self.task.status = Status::Failed,
        }
        None
    }

    fn pause(&mut self, reason: Option<String>) {
        self.task.status = Status::Paused;
        self.task.reason = reason;
    }

    fn lost(&mut self, result: &TurnResult) -> Option<String> {
        self.task.status = Status::Lost;
        let how = result.error.as_ref().map(|error| error.message.clone());
        self.task.reason = how.or_else(|| Some("its host died while the bridge was down".to_owned()));
        self.task.used.host_losses += 1;
        if self.inner.config.on_host_loss == OnHostLoss::Ask {
            return None;
        }
        if self.task.used.host_losses > HOST_LOSSES {
            self.pause(Some(format!("its host died {} times while it worked", self.task.used.host_losses)));
            return None;
        }
        if !self.task.has_turn_left() {
            self.inner.counters.fire(Watchdog::Turns);
            let reason = "its host died, and it has used all its turns; continue it to give it one more";
            self.pause(Some(reason.to_owned()));
            return None;
        }
        let seen = result.side_effects.join("; ");
        let seen = if seen.is_empty() {
            "nothing was seen to change".to_owned()
        } else {
            format!("seen so far: {seen}")
        };
        Some(format!(
            "The process that ran you died in the middle of the previous turn ({seen}). Commands that were running may \
             have been cut off. Look at the state of things before you repeat anything, then finish the task."
        ))
    }

    /// Continues the task at once. The failed turn does not count, because nothing is wrong with the task.
    fn withheld(&mut self) -> String {
        self.task.used.withheld += 1;
        self.task.used.waived.turns += 1;
        self.pause(Some("Codex withheld the network from it while its login changed".to_owned()));
        GO_ON.to_owned()
    }

    fn park_until(&mut self, resets_at: Option<i64>, now: TimeMs) {
        let resets_at = resets_at.map(|seconds| seconds.saturating_mul(1000));
        let limit = self.inner.limit_hit(&self.task, resets_at, now);
        self.task.used.limit_hits = limit.hits;
        self.pause(Some("the account's usage limit is reached".to_owned()));
        self.task.parked = Some(limit.parked());
    }

    fn park_until_login(&mut self) {
        self.pause(Some("Codex is not logged in: run `codex login`".to_owned()));
        self.task.parked = Some(Parked::Login { seen: self.login_seen.clone(), carries_notice: false });
    }

    /// Closes the session. The host keeps running.
    pub(super) async fn leave(&self, session: &Session) {
        session.close().await;
        if let (Some(host), Some(thread_id)) = (&self.task.host, &self.task.thread_id) {
            self.inner.hosts.thread_closed(host, thread_id.as_str());
        }
    }
}

fn task_error(failure: &Failure) -> TaskError {
    let kind = serde_json::to_value(&failure.kind).ok();
    let kind = kind.and_then(|kind| kind["name"].as_str().map(str::to_owned)).unwrap_or_default();
    TaskError { kind, message: failure.to_string() }
}
