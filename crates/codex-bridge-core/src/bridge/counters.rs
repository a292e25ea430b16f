//! Numbers for monitoring: the present state, and counters since the bridge was opened.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Bridge, Error};
use crate::store::TaskFilter;
use crate::task::{ShownStatus, Status, TimeMs};

/// The present state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Tasks by shown status. A status without tasks is left out.
    pub tasks: HashMap<ShownStatus, u64>,
    /// Open requests.
    pub open_requests: u64,
    /// Deliveries that are still to be sent.
    pub unsent: u64,
    /// When the oldest unsent delivery was created.
    pub oldest_unsent_at: Option<TimeMs>,
    /// The earliest known end of a usage limit that holds now.
    pub first_reset_at: Option<TimeMs>,
}

/// What stops work automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watchdog {
    /// A task's limit on work time.
    Work,
    /// A task's limit on tokens.
    Tokens,
    /// A task's limit on turns.
    Turns,
    /// The deadline for a decision.
    Answer,
    /// A host's limit on resources or on silence.
    Host,
}

impl Watchdog {
    /// All watchdogs.
    pub const ALL: [Self; 5] = [Self::Work, Self::Tokens, Self::Turns, Self::Answer, Self::Host];

    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Tokens => "tokens",
            Self::Turns => "turns",
            Self::Answer => "answer",
            Self::Host => "host",
        }
    }
}

/// Counters since the bridge was opened.
#[derive(Debug, Default)]
pub struct Counters {
    fired: [AtomicU64; Watchdog::ALL.len()],
    leases_lost: AtomicU64,
}

impl Counters {
    /// How often a watchdog has stopped something.
    pub fn fired(&self, watchdog: Watchdog) -> u64 {
        self.fired[watchdog as usize].load(Ordering::Relaxed)
    }

    /// How many deliveries were retried because their attempt never ended.
    pub fn leases_lost(&self) -> u64 {
        self.leases_lost.load(Ordering::Relaxed)
    }

    pub(crate) fn fire(&self, watchdog: Watchdog) {
        self.fired[watchdog as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lose_lease(&self) {
        self.leases_lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bridge {
    /// The present state. Reads only running tasks, however many are stored.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        let counts = self.inner.store.counts().await?;
        // The store does not know which of them wait for people.
        let at_work = vec![Status::Starting, Status::Working];
        let others = counts.tasks.into_iter().filter(|(status, _)| !at_work.contains(status));
        let mut tasks: HashMap<ShownStatus, u64> =
            others.map(|(status, count)| (ShownStatus::Stored(status), count)).collect();
        for view in self.list(&TaskFilter { statuses: at_work, ..TaskFilter::default() }).await? {
            *tasks.entry(view.status()).or_default() += 1;
        }
        Ok(Snapshot {
            tasks,
            open_requests: counts.open_requests,
            unsent: counts.unsent,
            oldest_unsent_at: counts.oldest_unsent_at,
            first_reset_at: self.inner.accounts().first_reset(self.inner.now()),
        })
    }

    /// Counters since the bridge was opened.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }
}
