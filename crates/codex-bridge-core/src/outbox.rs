//! Notices to others. Each target of a notice has a row, written in the transaction of the change.
//!
//! The outbox knows no platform and no HTTP. The program brings a [`Sender`], which carries a notice to its target.

pub mod notice;
pub mod schedule;
pub mod sender;
pub mod target;

use codex_wire::text_id;
use serde::{Deserialize, Serialize};

use crate::task::{TaskId, TimeMs};

pub use notice::{Asked, Content, Notice, Occasion};
pub use sender::{Attempt, Outcome, Parts, Repeats, Sender};
pub use target::Subscription;

/// Requests that open within this time are sent in one notice.
const GATHER_MS: TimeMs = 1_000;

text_id!(
    /// Names a delivery. Receivers also use it as the key by which they recognize a repetition.
    DeliveryId
);

/// One notice to one target, and its progress. Texts are redacted; the target contains no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// The delivery's name.
    pub id: DeliveryId,
    /// The task that the notice is about; `None` for a reply without a task.
    pub task_id: Option<TaskId>,
    /// The target.
    pub target: String,
    /// The notice.
    pub notice: Notice,
    /// Until the first attempt, a notice with the same key joins this one.
    pub join_key: Option<String>,
    /// How far the delivery has come.
    pub state: DeliveryState,
    /// How many attempts the target took or refused since the last retry. Waits that the target asked for do not count.
    pub attempts: u32,
    /// How many attempts ended with the daemon since the last retry. Their results are unknown.
    pub broken_off: u32,
    /// Whether an earlier attempt may have reached the target.
    pub in_doubt: bool,
    /// How many messages of a notice that takes several have arrived. They are not sent again.
    pub parts_sent: u32,
    /// Whether the target reported to be gone for good.
    pub target_gone: bool,
    /// While pending: when to try next. While attempting: until when the attempt holds the delivery.
    pub next_at: TimeMs,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// The platform's id of the message.
    pub message_id: Option<String>,
    /// When the delivery was created.
    pub created_at: TimeMs,
    /// The start of the delivery's age, if later than `created_at`: when somebody retried it, plus all time in which it
    /// was due but could not be tried.
    pub taken_up_at: Option<TimeMs>,
    /// When the row last changed.
    pub updated_at: TimeMs,
}

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Waits for its time.
    Pending,
    /// Being sent. After a crash, it may have been sent.
    Attempting,
    /// The target has it.
    Delivered,
    /// Given up. It can be retried.
    Dead,
    /// No longer needed: its requests were decided before it was sent.
    Withdrawn,
}

impl DeliveryState {
    /// All states, in the order of a delivery's life.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Attempting, Self::Delivered, Self::Dead, Self::Withdrawn];
    /// The states of unfinished deliveries.
    pub const UNFINISHED: [Self; 2] = [Self::Pending, Self::Attempting];

    /// The word in JSON and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Attempting => "attempting",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl Delivery {
    /// A new delivery, due now, or soon if other requests may join it.
    pub fn new(id: DeliveryId, target: &str, notice: Notice, now: TimeMs) -> Self {
        let join_key = match &notice.content {
            Content::Asks(asks) => Some(format!("{}/{}/{target}", asks.task.id, notice.occasion().as_str())),
            _ => None,
        };
        Self {
            id,
            task_id: notice.task().map(|task| task.id.clone()),
            target: target.to_owned(),
            notice,
            next_at: if join_key.is_some() { now + GATHER_MS } else { now },
            join_key,
            state: DeliveryState::Pending,
            attempts: 0,
            broken_off: 0,
            in_doubt: false,
            parts_sent: 0,
            target_gone: false,
            last_error: None,
            message_id: None,
            created_at: now,
            taken_up_at: None,
            updated_at: now,
        }
    }

    /// How many attempts there were since the last retry, whatever their results.
    pub fn tried(&self) -> u32 {
        self.attempts.saturating_add(self.broken_off)
    }

    /// The start of the delivery's age.
    pub fn since(&self) -> TimeMs {
        self.taken_up_at.unwrap_or(self.created_at)
    }
}
