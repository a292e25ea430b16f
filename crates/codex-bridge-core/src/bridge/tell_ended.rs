//! Telling whoever asks of tasks that ended: each end once. What goes to other targets is the outbox's work; here it is
//! only told how far it is.

use std::collections::HashMap;

use super::{Bridge, Error, Inner, TaskView};
use crate::outbox::{Content, Delivery, Occasion, State, Subscription};
use crate::store::{self, DeliveryFilter, TaskFilter, Write};
use crate::task::{Notification, Status, Task, TaskId, TimeMs};

/// How much of an answer is told.
const SUMMARY_CHARS: usize = 700;

/// What is told about one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The task that ended.
    pub task: Task,
    /// What is told, as plain text.
    pub message: String,
    /// What came of it.
    pub outcome: TellingOutcome,
}

/// What came of telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TellingOutcome {
    /// Nobody wanted to know.
    NoTarget,
    /// It was told, to all.
    Sent {
        /// When.
        at: TimeMs,
    },
    /// It would have been told.
    Rehearsed,
    /// It is not told to all yet.
    Pending {
        /// Why the last attempt failed, if there was one.
        error: Option<String>,
    },
    /// A target could not be reached, and is not tried any more.
    Failed {
        /// Why.
        error: String,
    },
}

/// Whether it is done or only shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// Done, and remembered as done.
    Real,
    /// Shown only.
    Rehearsal,
}

impl Bridge {
    /// Tells of tasks that ended and were not told of, the oldest end first, at most so many. Each is told once; one
    /// that the outbox is still sending is told of until that is over.
    pub async fn tell_ended(&self, limit: usize, telling: Telling, by: &str) -> Result<Vec<Told>, Error> {
        let by = by.to_owned();
        self.to_its_end(|bridge| async move { bridge.tell_untold(limit, telling, &by).await }).await
    }

    async fn tell_untold(&self, limit: usize, telling: Telling, by: &str) -> Result<Vec<Told>, Error> {
        let inner = &self.inner;
        let _changing = inner.changing.lock().await;
        let statuses = vec![Status::Completed, Status::Failed, Status::Cancelled, Status::Lost];
        let mut ended = inner.store.tasks(&TaskFilter { statuses, ..TaskFilter::default() }).await?;
        ended.retain(|task| matches!(task.notification.status.as_str(), "" | "pending"));
        ended.sort_by_key(|task| (task.completed_at, task.updated_at));
        ended.truncate(limit);
        let mut all = Vec::new();
        for task in ended {
            all.push(self.tell(task, telling, by).await?);
        }
        Ok(all)
    }

    async fn tell(&self, mut task: Task, telling: Telling, by: &str) -> Result<Told, Error> {
        let message = message(&task);
        let outcome = match (task.notify_target.as_deref(), telling) {
            (None, _) => TellingOutcome::NoTarget,
            (Some(_), Telling::Rehearsal) => TellingOutcome::Rehearsed,
            (Some(_), Telling::Real) if !is_wanted(&task) => TellingOutcome::NoTarget,
            (Some(_), Telling::Real) => {
                let sent = self.inner.deliveries_of(std::slice::from_ref(&task)).await?;
                let sent = sent.get(&task.id).map(Vec::as_slice).unwrap_or_default();
                standing(&task, sent).unwrap_or(TellingOutcome::Sent { at: self.inner.now() })
            }
        };
        if telling == Telling::Real {
            task.notification = notification(&outcome);
            let told = self.inner.audit(by, "notify completed", Some(&task.id), "");
            self.inner.commit(vec![Write::SaveTask(Box::new(task.clone())), told]).await?;
        }
        Ok(Told { task, message, outcome })
    }
}

impl Inner {
    /// Shows in each task how far the telling of its end is.
    pub(super) async fn show_telling(&self, views: &mut [TaskView]) -> Result<(), store::Error> {
        let ended: Vec<Task> = views
            .iter()
            .filter(|view| view.task.status.is_at_rest() && view.task.notification.status == "pending")
            .map(|view| view.task.clone())
            .collect();
        let sent = self.deliveries_of(&ended).await?;
        for view in views {
            let deliveries = sent.get(&view.task.id).map(Vec::as_slice).unwrap_or_default();
            if let Some(outcome) = standing(&view.task, deliveries) {
                view.task.notification = notification(&outcome);
            }
        }
        Ok(())
    }

    /// What was, or is to be, sent of the ends of these tasks.
    async fn deliveries_of(&self, tasks: &[Task]) -> Result<HashMap<TaskId, Vec<Delivery>>, store::Error> {
        let mut found: HashMap<TaskId, Vec<Delivery>> = HashMap::new();
        let of_others = tasks.iter().filter(|task| Subscription::of(task).iter().any(|one| !one.is_local()));
        let ends: HashMap<&TaskId, Option<TimeMs>> =
            of_others.map(|task| (&task.id, task.completed_at)).collect();
        if ends.is_empty() {
            return Ok(found);
        }
        let task_ids = ends.keys().map(|id| (*id).clone()).collect();
        let filter = DeliveryFilter { task_ids, ..DeliveryFilter::default() };
        for delivery in self.store.deliveries(&filter).await? {
            // Written with the end itself; what is older is of an earlier turn.
            let Some(task_id) = delivery.task_id.clone() else { continue };
            let is_of_end = ends.get(&task_id) == Some(&Some(delivery.created_at));
            if is_of_end && matches!(delivery.notice.content, Content::Rest(_)) {
                found.entry(task_id).or_default().push(delivery);
            }
        }
        Ok(found)
    }
}

/// Whether anyone wanted to hear of an end like this.
fn is_wanted(task: &Task) -> bool {
    let end = Occasion::of_rest(task);
    end.is_none_or(|end| Subscription::of(task).iter().any(|one| one.wants(end)))
}

/// What the outbox has to say of a task's end; none if that is nothing.
fn standing(task: &Task, deliveries: &[Delivery]) -> Option<TellingOutcome> {
    let unfinished = |delivery: &&Delivery| State::UNFINISHED.contains(&delivery.state);
    if let Some(pending) = deliveries.iter().find(unfinished) {
        return Some(TellingOutcome::Pending { error: pending.last_error.clone() });
    }
    let dead = deliveries.iter().find(|delivery| delivery.state == State::Dead);
    if let Some(dead) = dead {
        let why = dead.last_error.as_deref().unwrap_or("it was given up");
        return Some(TellingOutcome::Failed { error: format!("{}: {why}", dead.target) });
    }
    let waits_to_be_asked = Subscription::of(task).iter().any(Subscription::is_local);
    let last = deliveries.iter().map(|delivery| delivery.updated_at).max()?;
    if waits_to_be_asked { None } else { Some(TellingOutcome::Sent { at: last }) }
}

fn notification(outcome: &TellingOutcome) -> Notification {
    let (status, sent_at, error) = match outcome {
        TellingOutcome::NoTarget => ("no_target", None, None),
        TellingOutcome::Sent { at } => ("sent", Some(*at), None),
        TellingOutcome::Rehearsed => ("pending", None, None),
        TellingOutcome::Pending { error } => ("pending", None, error.clone()),
        TellingOutcome::Failed { error } => ("failed", None, Some(error.clone())),
    };
    Notification { status: status.to_owned(), sent_at, error }
}

/// Plain text: nothing in it is expanded by anyone.
fn message(task: &Task) -> String {
    let failed = task.error.as_ref().map(|error| error.message.as_str());
    let summary = task.final_text.as_deref().or(failed).or(task.reason.as_deref()).unwrap_or_default();
    let mut lines = vec![format!("Codex task {} ended as {}.", task.id, task.status)];
    lines.push(format!("Prompt: {}", task.prompt_summary));
    if !summary.is_empty() {
        lines.push(format!("Summary: {}", summary.chars().take(SUMMARY_CHARS).collect::<String>()));
    }
    lines.join("\n")
}
