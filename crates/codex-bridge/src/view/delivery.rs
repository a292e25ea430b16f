//! Deliveries as callers are shown them.

use codex_bridge_core::outbox::{self, DeliveryState, Occasion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time;

/// One notification for one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// The delivery's id.
    pub delivery_id: String,
    /// The task, if the notification is about one.
    pub task_id: Option<String>,
    /// The target.
    pub target: String,
    /// What happened: `completed`, `failed`, `approval`, `question` or `paused`.
    #[schemars(with = "String")]
    pub event: Occasion,
    /// `pending`, `attempting`, `delivered`, `dead` (given up) or `withdrawn` (the request was answered first).
    #[schemars(with = "String")]
    pub state: DeliveryState,
    /// The number of attempts.
    pub attempts: u32,
    /// Whether an attempt with an unknown outcome may have reached the target.
    pub in_doubt: bool,
    /// The time of the next attempt, if the delivery is pending.
    pub next_at: Option<String>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// The target's id for the message.
    pub message_id: Option<String>,
    /// When the delivery was created.
    pub created_at: String,
    /// When the delivery last changed.
    pub updated_at: String,
}

impl From<outbox::Delivery> for Delivery {
    fn from(delivery: outbox::Delivery) -> Self {
        let (is_pending, attempts) = (delivery.state == DeliveryState::Pending, delivery.tried());
        Self {
            delivery_id: delivery.id.0,
            task_id: delivery.task_id.map(|id| id.0),
            target: delivery.target,
            event: delivery.notice.occasion(),
            state: delivery.state,
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

/// The result of a test notification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// The target.
    pub target: String,
    /// The target's id for the message, if it has one.
    pub message_id: Option<String>,
}
