//! Places where the program can be made to die, to prove that it comes back right. Off unless the program arms one.
//!
//! The names are listed in `docs/failpoints.md`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static ARMED: OnceLock<Armed> = OnceLock::new();

struct Armed {
    name: String,
    /// How many hits are let pass.
    skip: u64,
    hits: AtomicU64,
}

/// Arms one point, as `name` or `name:3` for the third hit. Only the first call counts.
pub fn arm(point: &str) {
    let (name, nth) =
        point.rsplit_once(':').map_or((point, 1), |(name, nth)| (name, nth.parse().unwrap_or(1)));
    let armed = Armed { name: name.to_owned(), skip: nth.max(1) - 1, hits: AtomicU64::new(0) };
    // A second arming is ignored: the first one stands.
    ARMED.set(armed).ok();
}

/// Dies here, as by `kill -9`, if this point is armed.
pub(crate) fn hit(name: &str) {
    if let Some(armed) = ARMED.get()
        && armed.name == name
        && armed.hits.fetch_add(1, Ordering::SeqCst) == armed.skip
    {
        // Written here and not by the log, whose thread dies with the program.
        eprintln!("failpoint {name}: the program dies here, as it was told to");
        std::process::abort();
    }
}
