//! Deliveries as callers are shown them.

use codex_bridge_core::outbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time;

/// One notice for one target, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// Its name.
    pub delivery_id: String,
    /// Which task it tells of, if of one.
    pub task_id: Option<String>,
    /// Where it goes.
    pub target: String,
    /// What it tells: `completed`, `failed`, `approval`, `question` or `paused`.
    pub event: String,
    /// `pending`, `attempting`, `delivered`, `dead` or `withdrawn` (answered before it was told).
    pub state: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Whether an attempt of which we do not know how it ended may have reached the target.
    pub in_doubt: bool,
    /// When it is tried next; pending ones only.
    pub next_at: Option<String>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// What the target calls the message.
    pub message_id: Option<String>,
    /// When it was written.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
}

impl From<outbox::Delivery> for Delivery {
    fn from(delivery: outbox::Delivery) -> Self {
        let (is_pending, attempts) = (delivery.state == outbox::DeliveryState::Pending, delivery.tried());
        Self {
            delivery_id: delivery.id.0,
            task_id: delivery.task_id.map(|id| id.0),
            target: delivery.target,
            event: delivery.notice.occasion().as_str().to_owned(),
            state: delivery.state.as_str().to_owned(),
            attempts,
            in_doubt: delivery.in_doubt,
            next_at: is_pending.then(|| time(delivery.next_at)),
            last_error: delivery.last_error,
            message_id: delivery.message_id,
            created_at: time(delivery.created_at),
            updated_at: time(delivery.updated_at),
        }
    }
}

/// What came of trying a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// Which.
    pub target: String,
    /// What it calls the message, if it calls it anything.
    pub message_id: Option<String>,
}
