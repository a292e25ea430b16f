//! The wall clock, passed in: the machine's, or one that a test moves.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::task::TimeMs;

/// Tells the time. Waiting is left to tokio, whose time a test can pause.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> TimeMs + Send + Sync>);

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Self(Arc::new(|| {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
        }))
    }

    /// A clock that a test moves.
    pub fn from_fn(now: impl Fn() -> TimeMs + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Milliseconds since 1970.
    pub fn now(&self) -> TimeMs {
        (self.0)()
    }

    /// The time left until `at`; zero if `at` has passed.
    pub(crate) fn until(&self, at: TimeMs) -> Duration {
        Duration::from_millis(u64::try_from(at.saturating_sub(self.now())).unwrap_or_default())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}
