//! A receiver of webhooks: takes what comes.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Answer, Day, Platform, Received};

/// Opens one.
pub async fn open() -> Platform {
    Platform::open(Box::new(|_| Answer::json(200, json!({})))).await
}

/// It asks for time.
pub fn busy(seconds: u64) -> Day {
    Day::Refuses(Answer::status(429).header("retry-after", seconds.to_string()))
}

/// It is gone for good.
pub fn gone() -> Day {
    Day::Refuses(Answer::status(410))
}

/// How many different messages these are, for a receiver that knows ids.
pub fn different(received: &[Received]) -> usize {
    received.iter().map(|one| &one.headers["webhook-id"]).collect::<BTreeSet<_>>().len()
}
