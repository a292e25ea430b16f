//! Telling whoever wanted to know that a task has ended. So far only `local` can be told: whoever asks reads it here.

use super::{Bridge, Error, now_ms};
use crate::store::{TaskFilter, Write};
use crate::task::{Notification, Status, Task, TimeMs};

/// The target that needs no delivery: whoever asks is told.
const LOCAL: &str = "local";
/// How much of an answer is told.
const SUMMARY_CHARS: usize = 700;

/// What is told about one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The task that ended.
    pub task: Task,
    /// What is told, as plain text.
    pub message: String,
    /// What came of it.
    pub delivery: Delivery,
}

/// What came of telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Nobody wanted to know.
    NoTarget,
    /// It was told.
    Sent {
        /// When.
        at: TimeMs,
    },
    /// It would have been told.
    Rehearsed,
    /// There is no way to this target yet. It stays pending.
    Undeliverable {
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
    /// Tells of tasks that ended and were not told of, the oldest end first, at most so many. Each is told once.
    pub async fn tell_ended(&self, limit: usize, telling: Telling) -> Result<Vec<Notice>, Error> {
        let inner = &self.inner;
        let _changing = inner.changing.lock().await;
        let statuses = vec![Status::Completed, Status::Failed, Status::Cancelled, Status::Lost];
        let mut ended = inner.store.tasks(&TaskFilter { statuses, ..TaskFilter::default() }).await?;
        ended.retain(|task| matches!(task.notification.status.as_str(), "" | "pending" | "failed"));
        ended.sort_by_key(|task| (task.completed_at, task.updated_at));
        ended.truncate(limit);
        let mut notices = Vec::new();
        for task in ended {
            notices.push(self.tell(task, telling).await?);
        }
        Ok(notices)
    }

    async fn tell(&self, mut task: Task, telling: Telling) -> Result<Notice, Error> {
        let message = message(&task);
        let delivery = match (task.notify_target.as_deref(), telling) {
            (None, _) => Delivery::NoTarget,
            (Some(_), Telling::Rehearsal) => Delivery::Rehearsed,
            (Some(LOCAL), Telling::Real) => Delivery::Sent { at: now_ms() },
            (Some(target), Telling::Real) => {
                Delivery::Undeliverable { error: format!("there is no way to reach {target:?} yet") }
            }
        };
        if telling == Telling::Real {
            task.notification = notification(&delivery);
            self.inner.commit(vec![Write::SaveTask(Box::new(task.clone()))]).await?;
        }
        Ok(Notice { task, message, delivery })
    }
}

fn notification(delivery: &Delivery) -> Notification {
    let (status, sent_at, error) = match delivery {
        Delivery::NoTarget => ("no_target", None, None),
        Delivery::Sent { at } => ("sent", Some(*at), None),
        Delivery::Rehearsed => ("pending", None, None),
        Delivery::Undeliverable { error } => ("pending", None, Some(error.clone())),
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
