//! Numbers for those who watch the bridge: what stands now, and what has happened since it was opened.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Bridge, Error};
use crate::store::TaskFilter;
use crate::task::{ShownStatus, Status, TimeMs};

/// What stands now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Tasks by their state as people see it; states without any are left out.
    pub tasks: HashMap<ShownStatus, u64>,
    /// What waits for people.
    pub open_requests: u64,
    /// What is still to be delivered.
    pub unsent: u64,
    /// When the oldest of that was written.
    pub oldest_unsent_at: Option<TimeMs>,
    /// When the first of the accounts' limits that hold ends, of those whose end is known.
    pub first_reset_at: Option<TimeMs>,
}

/// What stops something by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watchdog {
    /// A task's limit on work.
    Work,
    /// A task's limit on tokens.
    Tokens,
    /// A task's limit on turns.
    Turns,
    /// The time for an answer.
    Answer,
    /// What a host may use, or how long it may be silent.
    Host,
}

impl Watchdog {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Work, Self::Tokens, Self::Turns, Self::Answer, Self::Host];

    /// As it is written everywhere.
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

/// What has happened since the bridge was opened.
#[derive(Debug, Default)]
pub struct Tally {
    fired: [AtomicU64; Watchdog::ALL.len()],
    leases_lost: AtomicU64,
}

impl Tally {
    /// How often a watchdog has stopped something.
    pub fn fired(&self, watchdog: Watchdog) -> u64 {
        self.fired[watchdog as usize].load(Ordering::Relaxed)
    }

    /// How many deliveries were taken over from an attempt that did not come back.
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
    /// What stands now. Of tasks only those at work are read, however many are remembered.
    pub async fn standing(&self) -> Result<Standing, Error> {
        let counts = self.inner.store.counts().await?;
        // Whether these wait for people is not stored.
        let at_work = vec![Status::Starting, Status::Working];
        let others = counts.tasks.into_iter().filter(|(status, _)| !at_work.contains(status));
        let mut tasks: HashMap<ShownStatus, u64> =
            others.map(|(status, count)| (ShownStatus::Stored(status), count)).collect();
        for view in self.list(&TaskFilter { statuses: at_work, ..TaskFilter::default() }).await? {
            *tasks.entry(view.status()).or_default() += 1;
        }
        Ok(Standing {
            tasks,
            open_requests: counts.open_requests,
            unsent: counts.unsent,
            oldest_unsent_at: counts.oldest_unsent_at,
            first_reset_at: self.inner.accounts().first_reset(self.inner.now()),
        })
    }

    /// What has happened since it was opened.
    pub fn tally(&self) -> &Tally {
        &self.inner.tally
    }
}
