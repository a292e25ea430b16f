//! The interface through which the program sends one notice to one target.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{DeliveryId, Notice};
use crate::request::RequestName;
use crate::task::TimeMs;

/// How far back to look for a message that may have been sent. Notices with the same text are counted over a slightly longer time.
pub const LOOK_BACK_MS: TimeMs = 24 * 60 * 60 * 1000;

/// Sends notices to targets. Knows nothing of rows, schedules and retries: tries once and reports the outcome.
pub trait Sender: Send + Sync + 'static {
    /// Checks that a target exists. The error lists the targets that do.
    fn check(&self, target: &str) -> Result<(), Unknown>;

    /// What happens at the target if this attempt is repeated.
    fn repeats(&self, attempt: &Attempt) -> Repeats;

    /// Makes one attempt, in bounded time. The outcome must not contain a secret.
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome>;

    /// For targets that can be searched: whether the notice arrived, and its id there.
    fn look(&self, _attempt: &Attempt) -> BoxFuture<'_, Result<Seen, String>> {
        std::future::ready(Ok(Seen::No)).boxed()
    }
}

/// The target does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown target {target:?}: {why}")]
pub struct Unknown {
    /// The target.
    pub target: String,
    /// What is wrong.
    pub why: String,
    /// The targets that exist.
    pub known: Vec<String>,
}

/// What a repeated attempt does at a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Nothing: the receiver recognizes the key.
    Idempotent {
        /// How long the receiver remembers the key; `None` means for ever.
        within: Option<Duration>,
    },
    /// It is possible to look whether the first attempt arrived.
    LookFirst,
    /// The receiver gets it twice, so it is marked.
    MayDouble,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The key, the same for all attempts of one delivery.
    pub key: DeliveryId,
    /// The target.
    pub target: String,
    /// The notice.
    pub notice: Notice,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// How many other notices with the same words the target got lately. A look must find one more than these.
    pub twins: usize,
    /// Whether the notice must be marked as a possible duplicate.
    pub may_be_duplicate: bool,
    /// How many of its messages have arrived, if the notice takes several.
    pub parts: Parts,
}

/// How many messages of a notice have arrived. They are not sent again. Of the others, only the first may have arrived.
#[derive(Clone)]
pub struct Parts {
    sent: u32,
    log: Arc<dyn PartLog>,
}

/// Stores how many messages of a notice have arrived.
pub trait PartLog: Send + Sync {
    /// Returns once this is durable.
    fn sent(&self, parts: u32) -> BoxFuture<'_, Result<(), String>>;
}

impl Parts {
    /// This many messages have arrived; the log is told of more.
    pub fn new(sent: u32, log: Arc<dyn PartLog>) -> Self {
        Self { sent, log }
    }

    /// How many messages arrived in earlier attempts.
    pub fn sent(&self) -> usize {
        self.sent as usize
    }

    /// Notes that this many messages have arrived. Returns once that is durable.
    pub async fn note(&self, sent: usize) -> Result<(), String> {
        self.log.sent(u32::try_from(sent).unwrap_or(u32::MAX)).await
    }
}

/// A notice of which nothing has arrived, and which is not tried again.
impl Default for Parts {
    fn default() -> Self {
        Self::new(0, Arc::new(()))
    }
}

impl PartLog for () {
    fn sent(&self, _parts: u32) -> BoxFuture<'_, Result<(), String>> {
        std::future::ready(Ok(())).boxed()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl PartialEq for Parts {
    fn eq(&self, other: &Self) -> bool {
        self.sent == other.sent
    }
}

impl Attempt {
    /// The first attempt.
    pub fn first(key: DeliveryId, target: &str, notice: Notice) -> Self {
        Self {
            key,
            target: target.to_owned(),
            notice,
            number: 1,
            twins: 0,
            may_be_duplicate: false,
            parts: Parts::default(),
        }
    }
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The target has the notice.
    Delivered {
        /// The platform's id of the message.
        message_id: Option<String>,
        /// The requests that people can now read there in full. Only these can be approved there.
        shown: Vec<RequestName>,
    },
    /// The target does not have the notice, or that is unknown.
    Failed {
        /// When to retry.
        refusal: Refusal,
        /// Whether the target may have the notice nevertheless.
        in_doubt: bool,
        /// The reason, in a sentence without secrets.
        error: String,
    },
}

/// When to retry after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Later, by our own schedule.
    Later,
    /// Not before this time has passed.
    NotBefore(Duration),
    /// Never: the target will not accept this notice.
    Never,
    /// Never: the target is gone for good.
    Gone,
}

/// The result of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The notice did not arrive.
    No,
    /// The notice arrived.
    Yes {
        /// The platform's id of the message.
        message_id: Option<String>,
        /// The requests that people can read there in full.
        shown: Vec<RequestName>,
    },
}

impl Outcome {
    /// The target has the notice, but nothing can be approved there.
    pub fn delivered(message_id: Option<String>) -> Self {
        Self::Delivered { message_id, shown: Vec::new() }
    }

    /// The notice certainly did not arrive.
    pub fn failed(refusal: Refusal, error: impl Into<String>) -> Self {
        Self::Failed { refusal, in_doubt: false, error: error.into() }
    }

    /// The notice may have arrived.
    pub fn in_doubt(error: impl Into<String>) -> Self {
        Self::Failed { refusal: Refusal::Later, in_doubt: true, error: error.into() }
    }
}
