//! Points at which a test can kill the program, to prove that it recovers. None is armed unless the program arms one.
//!
//! The names are listed in `docs/failpoints.md`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static ARMED: OnceLock<Armed> = OnceLock::new();

struct Armed {
    name: String,
    /// How many hits pass before the program dies.
    skip: u64,
    hits: AtomicU64,
}

/// Arms one point: `name`, or `name:3` for the third hit. Only the first call has an effect.
pub fn arm(point: &str) {
    let (name, nth) =
        point.rsplit_once(':').map_or((point, 1), |(name, nth)| (name, nth.parse().unwrap_or(1)));
    let armed = Armed { name: name.to_owned(), skip: nth.max(1) - 1, hits: AtomicU64::new(0) };
    ARMED.set(armed).ok();
}

/// Aborts the program, as `kill -9` would, if this point is armed.
pub(crate) fn hit(name: &str) {
    if let Some(armed) = ARMED.get()
        && armed.name == name
        && armed.hits.fetch_add(1, Ordering::SeqCst) == armed.skip
    {
        // Not by the log, whose thread dies with the program.
        eprintln!("failpoint {name}: aborting the program");
        std::process::abort();
    }
}
