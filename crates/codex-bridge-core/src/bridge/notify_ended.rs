//! Reports tasks that have ended, each end once. The outbox sends to remote targets; this only reports its progress.

use std::collections::HashMap;

use super::{Bridge, Error, Inner, TaskView};
use crate::outbox::{Content, Delivery, DeliveryState, Occasion, Subscription};
use crate::store::{self, DeliveryFilter, TaskFilter, Write};
use crate::task::{Notification, NotificationStatus, Status, Task, TaskId, TimeMs};

/// How much of an answer is reported.
const SUMMARY_CHARS: usize = 700;

/// The report about one task.
#[derive(Debug, Clone, PartialEq)]
pub struct EndNotice {
    /// The task that ended.
    pub task: Task,
    /// The report as plain text.
    pub message: String,
    /// What became of the notification.
    pub outcome: NotifyOutcome,
}

/// What became of a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifyOutcome {
    /// The task has no target that wants it.
    NoTarget,
    /// The notification was sent to all targets.
    Sent {
        /// When it was sent.
        at: TimeMs,
    },
    /// A dry run: nothing was sent.
    DryRun,
    /// The outbox is still sending.
    Pending {
        /// The error of the last attempt, if there was one.
        error: Option<String>,
    },
    /// A target could not be reached and is given up.
    Failed {
        /// The last error.
        error: String,
    },
}

/// Whether to send notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotifyMode {
    /// Send, and record that they were sent.
    Send,
    /// Only show what would be sent.
    DryRun,
}

impl Bridge {
    /// Reports tasks that have ended and were not reported before, at most `limit`, the oldest end first. A task that
    /// the outbox is still sending is reported again until the outbox is done.
    pub async fn notify_ended(
        &self,
        limit: usize,
        mode: NotifyMode,
        by: &str,
    ) -> Result<Vec<EndNotice>, Error> {
        let by = by.to_owned();
        self.to_completion(|bridge| async move {
            let inner = &bridge.inner;
            let _changing = inner.changing.lock().await;
            let statuses = vec![Status::Completed, Status::Failed, Status::Cancelled, Status::Lost];
            let mut ended = inner.store.tasks(&TaskFilter { statuses, ..TaskFilter::default() }).await?;
            ended.retain(|task| {
                matches!(task.notification.status, NotificationStatus::None | NotificationStatus::Pending)
            });
            ended.sort_by_key(|task| (task.completed_at, task.updated_at));
            let mut all = Vec::new();
            for task in ended.into_iter().take(limit) {
                all.push(bridge.notify(task, mode, &by).await?);
            }
            Ok(all)
        })
        .await
    }

    async fn notify(&self, mut task: Task, mode: NotifyMode, by: &str) -> Result<EndNotice, Error> {
        let message = message(&task);
        let outcome = match (task.notify_target.as_deref(), mode) {
            (None, _) => NotifyOutcome::NoTarget,
            (Some(_), NotifyMode::DryRun) => NotifyOutcome::DryRun,
            (Some(_), NotifyMode::Send) if !is_wanted(&task) => NotifyOutcome::NoTarget,
            (Some(_), NotifyMode::Send) => {
                let sent = self.inner.deliveries_of(std::slice::from_ref(&task)).await?;
                let sent = sent.get(&task.id).map(Vec::as_slice).unwrap_or_default();
                delivery_progress(&task, sent).unwrap_or(NotifyOutcome::Sent { at: self.inner.now() })
            }
        };
        if mode == NotifyMode::Send {
            task.notification = notification(&outcome);
            let told = self.inner.audit(by, "notify completed", Some(&task.id), "");
            self.inner.commit(vec![Write::SaveTask(Box::new(task.clone())), told]).await?;
        }
        Ok(EndNotice { task, message, outcome })
    }
}

impl Inner {
    /// Fills in the notification status of ended tasks, as far as the outbox has come.
    pub(super) async fn show_notifications(&self, views: &mut [TaskView]) -> Result<(), store::Error> {
        let ended: Vec<Task> = views
            .iter()
            .filter(|view| {
                view.task.status.is_finished() && view.task.notification.status == NotificationStatus::Pending
            })
            .map(|view| view.task.clone())
            .collect();
        let sent = self.deliveries_of(&ended).await?;
        for view in views {
            let deliveries = sent.get(&view.task.id).map(Vec::as_slice).unwrap_or_default();
            if let Some(outcome) = delivery_progress(&view.task, deliveries) {
                view.task.notification = notification(&outcome);
            }
        }
        Ok(())
    }

    /// The deliveries about the ends of these tasks.
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
            // A delivery about this end was created with it; an older one is about an earlier turn.
            let Some(task_id) = delivery.task_id.clone() else { continue };
            let is_of_end = ends.get(&task_id) == Some(&Some(delivery.created_at));
            if is_of_end && matches!(delivery.notice.content, Content::Finished(_)) {
                found.entry(task_id).or_default().push(delivery);
            }
        }
        Ok(found)
    }
}

/// Whether a target wants to hear of this end.
fn is_wanted(task: &Task) -> bool {
    let end = Occasion::of_finished(task);
    end.is_none_or(|end| Subscription::of(task).iter().any(|one| one.wants(end)))
}

/// How far the outbox has come with a task's end; `None` if it has nothing to send.
fn delivery_progress(task: &Task, deliveries: &[Delivery]) -> Option<NotifyOutcome> {
    let unfinished = |delivery: &&Delivery| DeliveryState::UNFINISHED.contains(&delivery.state);
    if let Some(pending) = deliveries.iter().find(unfinished) {
        return Some(NotifyOutcome::Pending { error: pending.last_error.clone() });
    }
    let dead = deliveries.iter().find(|delivery| delivery.state == DeliveryState::Dead);
    if let Some(dead) = dead {
        let why = dead.last_error.as_deref().unwrap_or("it was given up");
        return Some(NotifyOutcome::Failed { error: format!("{}: {why}", dead.target) });
    }
    let is_local = Subscription::of(task).iter().any(Subscription::is_local);
    let last = deliveries.iter().map(|delivery| delivery.updated_at).max()?;
    if is_local { None } else { Some(NotifyOutcome::Sent { at: last }) }
}

fn notification(outcome: &NotifyOutcome) -> Notification {
    let (status, sent_at, error) = match outcome {
        NotifyOutcome::NoTarget => (NotificationStatus::NoTarget, None, None),
        NotifyOutcome::Sent { at } => (NotificationStatus::Sent, Some(*at), None),
        NotifyOutcome::DryRun => (NotificationStatus::Pending, None, None),
        NotifyOutcome::Pending { error } => (NotificationStatus::Pending, None, error.clone()),
        NotifyOutcome::Failed { error } => (NotificationStatus::Failed, None, Some(error.clone())),
    };
    Notification { status, sent_at, error }
}

/// Plain text: no channel expands anything in it.
fn message(task: &Task) -> String {
    let failed = task.error.as_ref().map(|error| error.message.as_str());
    let summary = task.final_text.as_deref().or(failed).or(task.reason.as_deref()).unwrap_or_default();
    let mut lines = vec![format!("Codex task {} ended as {}.", task.id.short(), task.status)];
    lines.push(format!("Prompt: {}", task.prompt_summary));
    if !summary.is_empty() {
        lines.push(format!("Summary: {}", summary.chars().take(SUMMARY_CHARS).collect::<String>()));
    }
    lines.join("\n")
}
