//! What is to be told to others, durably: one row per target, written with the change that it tells of.
//!
//! Knows no platform and no HTTP: how a notice reaches its target is a [`Sender`]'s business, which the program brings.

pub mod notice;
pub mod schedule;
pub mod sender;
pub mod target;

use codex_wire::text_id;
use serde::{Deserialize, Serialize};

use crate::task::{TaskId, TimeMs};

pub use notice::{Asked, Content, Notice, Occasion};
pub use sender::{Attempt, Outcome, Repeats, Sender};
pub use target::Subscription;

/// Requests that are opened within this time are told together.
const GATHER_MS: TimeMs = 1_000;

text_id!(
    /// Names a delivery, for people and as the key by which a receiver knows a repetition.
    DeliveryId
);

/// One notice for one target, and what became of it. Its texts are redacted, its target holds no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Its name.
    pub id: DeliveryId,
    /// Whose task it tells of; none if it answers somebody who has none.
    pub task_id: Option<TaskId>,
    /// Where it goes.
    pub target: String,
    /// What is told.
    pub notice: Notice,
    /// As long as nothing was tried, what has the same key is told with this one.
    pub join_key: Option<String>,
    /// How far it is.
    pub state: State,
    /// How often the target refused it or took it, since it was last taken up; waits that it asked for do not count.
    pub attempts: u32,
    /// How often an attempt ended with whoever made it, since it was last taken up: nobody knows what came of those.
    pub broken_off: u32,
    /// Whether an earlier attempt may have reached the target.
    pub in_doubt: bool,
    /// Whether the target said that it is gone for good.
    pub target_gone: bool,
    /// Pending: when it is tried next. Attempting: until when the attempt holds it.
    pub next_at: TimeMs,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// What the target calls the message.
    pub message_id: Option<String>,
    /// When it was written.
    pub created_at: TimeMs,
    /// From when its age counts, if not from when it was written: when somebody last took it up again, and later by all
    /// the time for which it was due and nobody could try it.
    pub taken_up_at: Option<TimeMs>,
    /// When it last changed.
    pub updated_at: TimeMs,
}

/// How far a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for its time.
    Pending,
    /// It is being sent; after a crash, it may have been.
    Attempting,
    /// The target has it.
    Delivered,
    /// It was given up; somebody may take it up again.
    Dead,
    /// There is nothing left to tell: what it asked was answered first.
    Withdrawn,
}

impl State {
    /// All of them, in the order of a delivery's life.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Attempting, Self::Delivered, Self::Dead, Self::Withdrawn];
    /// Those in which something is still to be done.
    pub const UNFINISHED: [Self; 2] = [Self::Pending, Self::Attempting];

    /// As it is written everywhere.
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
    /// A new one, to be sent now, or soon if others may join it.
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
            state: State::Pending,
            attempts: 0,
            broken_off: 0,
            in_doubt: false,
            target_gone: false,
            last_error: None,
            message_id: None,
            created_at: now,
            taken_up_at: None,
            updated_at: now,
        }
    }

    /// How often it was tried, whatever came of it, since it was last taken up.
    pub fn tried(&self) -> u32 {
        self.attempts.saturating_add(self.broken_off)
    }

    /// From when its age counts.
    pub fn since(&self) -> TimeMs {
        self.taken_up_at.unwrap_or(self.created_at)
    }
}
