//! Waiting for a condition of the outside world, with a deadline and a sentence for when it never comes.

use std::time::{Duration, Instant};

const POLL_EVERY: Duration = Duration::from_millis(5);

/// Polls `condition` until it holds; fails the test, naming `what`, when `limit` has passed.
pub async fn wait_until(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < limit, "waited {:.1} s in vain for: {what}", limit.as_secs_f64());
        tokio::time::sleep(POLL_EVERY).await;
    }
}
