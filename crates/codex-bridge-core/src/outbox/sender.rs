//! The way out, as the program brings it: one attempt to hand one notice to one target.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{DeliveryId, Notice};
use crate::request::RequestName;
use crate::task::TimeMs;

/// How far back one looks for something that may have been sent. Its twins are counted over a little more than this.
pub const LOOK_BACK_MS: TimeMs = 24 * 60 * 60 * 1000;

/// Hands notices to targets. Must know nothing of rows, schedules and repetitions: it tries once and says how it went.
pub trait Sender: Send + Sync + 'static {
    /// Whether there is such a target, and what else there is if not.
    fn check(&self, target: &str) -> Result<(), Unknown>;

    /// What a repetition of this does.
    fn repeats(&self, attempt: &Attempt) -> Repeats;

    /// One attempt. Takes a bounded time. Nothing secret may be in what it gives back.
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome>;

    /// For targets where one can look: whether this was received, and what it is called there.
    fn look(&self, _attempt: &Attempt) -> BoxFuture<'_, Result<Seen, String>> {
        std::future::ready(Ok(Seen::No)).boxed()
    }
}

/// There is no such target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown target {target:?}: {why}")]
pub struct Unknown {
    /// What was asked for.
    pub target: String,
    /// What is wrong with it.
    pub why: String,
    /// What there is.
    pub known: Vec<String>,
}

/// What a repetition does at a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Nothing: the receiver knows the key of an attempt; for as long as this, if it forgets.
    Idempotent {
        /// For how long; none is for ever.
        within: Option<Duration>,
    },
    /// One can look whether it arrived.
    LookFirst,
    /// The receiver sees it twice: it is marked.
    MayDouble,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The same for all attempts of one delivery.
    pub key: DeliveryId,
    /// Where to.
    pub target: String,
    /// What.
    pub notice: Notice,
    /// Which attempt it is, from 1.
    pub number: u32,
    /// How many others with the very same words the target got lately: a look must find one more than these.
    pub twins: usize,
    /// Whether the receiver may have it already, and is to be told so.
    pub may_be_duplicate: bool,
}

/// How an attempt went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The target has it.
    Delivered {
        /// What it is called there.
        message_id: Option<String>,
        /// The requests that people can read there now, whole: only these can be approved there.
        shown: Vec<RequestName>,
    },
    /// The target does not have it, or we do not know.
    Failed {
        /// What it means for the next attempt.
        refusal: Refusal,
        /// Whether the target may have it all the same.
        in_doubt: bool,
        /// Why, in a sentence without secrets.
        error: String,
    },
}

/// What a failed attempt means for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Later, when we think so.
    Later,
    /// Not before so long.
    NotBefore(Duration),
    /// Never: this will not be taken.
    Never,
    /// Never again: there is nobody any more.
    Gone,
}

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// It is not there.
    No,
    /// It is there.
    Yes {
        /// What it is called.
        message_id: Option<String>,
        /// The requests that people can read there, whole.
        shown: Vec<RequestName>,
    },
}

impl Outcome {
    /// The target has it, and nobody can approve anything there.
    pub fn delivered(message_id: Option<String>) -> Self {
        Self::Delivered { message_id, shown: Vec::new() }
    }

    /// A failure that certainly kept the notice from its target.
    pub fn failed(refusal: Refusal, error: impl Into<String>) -> Self {
        Self::Failed { refusal, in_doubt: false, error: error.into() }
    }

    /// A failure after which the target may have the notice.
    pub fn in_doubt(error: impl Into<String>) -> Self {
        Self::Failed { refusal: Refusal::Later, in_doubt: true, error: error.into() }
    }
}

/// Reaches nobody: for programs that tell nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Sender for Nobody {
    fn check(&self, target: &str) -> Result<(), Unknown> {
        let why = "no targets are configured".to_owned();
        Err(Unknown { target: target.to_owned(), why, known: Vec::new() })
    }

    fn repeats(&self, _attempt: &Attempt) -> Repeats {
        Repeats::MayDouble
    }

    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome> {
        let error = format!("{} is not configured", attempt.target);
        std::future::ready(Outcome::failed(Refusal::Never, error)).boxed()
    }
}
