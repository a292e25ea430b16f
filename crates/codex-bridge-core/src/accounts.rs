//! Usage limits of accounts, and which parked task may resume when. Pure: time enters as a number.
//!
//! A usage limit belongs to the account behind a CODEX_HOME, not to a task. While the limit holds, no turn of that home
//! begins. If nobody knows when the limit ends, one task at a time probes. Tasks of one home resume one after the
//! other, with a pause between them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::task::{Parked, TaskId, TimeMs};

/// The pause between two tasks of one home that resume.
const STAGGER_MS: TimeMs = 2_000;
/// The wait before the first probe of a limit without a known end. Each further wait doubles.
const FIRST_PROBE_MS: TimeMs = 5 * 60 * 1000;
/// The longest wait before a probe.
const LONGEST_PROBE_MS: TimeMs = 60 * 60 * 1000;
/// A probe without a result after this time no longer keeps other tasks from probing.
const PROBE_LIMIT_MS: TimeMs = 10 * 60 * 1000;
/// A reset time that lies further in the past than this is ignored.
const STALE_MS: TimeMs = 60 * 1000;

/// All accounts about which something is known, by CODEX_HOME.
#[derive(Debug, Default)]
pub(crate) struct Accounts(HashMap<PathBuf, Account>);

#[derive(Debug, Default)]
struct Account {
    /// The last limit that was hit. A turn that gets through clears it.
    limit: Option<Limit>,
    /// The task that probes whether the limit still holds.
    probe: Option<Probe>,
    /// When a task of this home last resumed.
    resumed_at: Option<TimeMs>,
}

/// A limit that was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    /// When the limit ends or, if unknown, when to probe.
    pub(crate) resume_at: TimeMs,
    /// Whether the account reported that time.
    pub(crate) is_known: bool,
    /// How often in a row the limit was hit.
    pub(crate) hits: u32,
    /// When the limit was hit last.
    pub(crate) met_at: TimeMs,
}

#[derive(Debug)]
struct Probe {
    task_id: TaskId,
    /// After this time another task may probe.
    until: TimeMs,
}

/// When a task may resume.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Now. The task counts as resumed.
    Now,
    /// Not before this time; ask again then.
    At(TimeMs),
}

impl Limit {
    /// The form in which tasks store the limit.
    pub(crate) fn parked(&self) -> Parked {
        Parked::UsageLimit { resume_at: self.resume_at, is_known: self.is_known }
    }

    fn holds(&self, now: TimeMs) -> bool {
        !self.is_known || now < self.resume_at
    }
}

impl Accounts {
    /// A task hit the limit, which ends at `resets_at` if Codex reported that. Returns the limit for the home.
    pub(crate) fn met(
        &mut self,
        home: &Path,
        task_id: &TaskId,
        resets_at: Option<TimeMs>,
        now: TimeMs,
    ) -> Limit {
        let account = self.0.entry(home.to_owned()).or_default();
        let resets_at = resets_at.filter(|at| at.saturating_add(STALE_MS) > now);
        let was_probe = account.ended(task_id);
        let holding = account.limit.filter(|limit| limit.holds(now) && !was_probe);
        let limit = match (holding, resets_at) {
            // One of several turns that were running when the limit was first hit.
            (Some(known), None) => known,
            (holding, resets_at) => {
                let hits = match holding {
                    Some(holding) => holding.hits,
                    None => account.limit.map_or(0, |limit| limit.hits).saturating_add(1),
                };
                let pause = FIRST_PROBE_MS.saturating_mul(1 << (hits - 1).min(8)).min(LONGEST_PROBE_MS);
                let resume_at = resets_at.unwrap_or(now.saturating_add(pause));
                Limit { resume_at, is_known: resets_at.is_some(), hits, met_at: now }
            }
        };
        account.limit = Some(limit);
        limit
    }

    /// A turn that began at `began_at` was served. Returns whether that lifts a limit.
    pub(crate) fn served(&mut self, home: &Path, began_at: TimeMs) -> bool {
        let Some(account) = self.0.get_mut(home) else { return false };
        if account.limit.is_none_or(|limit| began_at < limit.met_at) {
            return false;
        }
        (account.limit, account.probe) = (None, None);
        true
    }

    /// A task's turn has ended in any way. Returns whether it was the probe.
    pub(crate) fn ended(&mut self, home: &Path, task_id: &TaskId) -> bool {
        self.0.get_mut(home).is_some_and(|account| account.ended(task_id))
    }

    /// The limit that holds back this task, if any.
    pub(crate) fn limit(&self, home: &Path, task_id: &TaskId, now: TimeMs) -> Option<Limit> {
        let account = self.0.get(home)?;
        let is_probe = account.probe.as_ref().is_some_and(|probe| probe.task_id == *task_id);
        account.limit.filter(|limit| limit.holds(now) && !is_probe)
    }

    /// The earliest known end of a limit that holds now.
    pub(crate) fn first_reset(&self, now: TimeMs) -> Option<TimeMs> {
        let limits = self.0.values().filter_map(|account| account.limit);
        limits.filter(|limit| limit.is_known && limit.holds(now)).map(|limit| limit.resume_at).min()
    }

    /// A person continues this task in spite of the limit: the task becomes the probe, unless another task is.
    pub(crate) fn try_now(&mut self, home: &Path, task_id: &TaskId, now: TimeMs) {
        if let Some(account) = self.0.get_mut(home)
            && account.free_to_probe_at(now).is_none()
        {
            account.probe(task_id, now);
        }
    }

    /// Whether this task may resume now. If so, it counts as resumed, and becomes the probe if one is needed.
    pub(crate) fn may_resume(&mut self, home: &Path, task_id: &TaskId, now: TimeMs) -> Pace {
        let account = self.0.entry(home.to_owned()).or_default();
        let limit = account.limit.filter(|limit| limit.holds(now));
        if let Some(limit) = limit {
            if limit.is_known || now < limit.resume_at {
                return Pace::At(limit.resume_at);
            }
            if let Some(until) = account.free_to_probe_at(now) {
                return Pace::At(until);
            }
        }
        // A clock that was set back delays nobody.
        let last = account.resumed_at.filter(|last| (0..STAGGER_MS).contains(&now.saturating_sub(*last)));
        if let Some(last) = last {
            return Pace::At(last + STAGGER_MS);
        }
        account.resumed_at = Some(now);
        if limit.is_some() {
            account.probe(task_id, now);
        }
        Pace::Now
    }

    /// Restores a limit from a stored task. Of several, the one that was hit last wins.
    pub(crate) fn remember(&mut self, home: &Path, limit: Limit) {
        let known = &mut self.0.entry(home.to_owned()).or_default().limit;
        if known.is_none_or(|known| known.met_at < limit.met_at) {
            *known = Some(limit);
        }
    }
}

impl Account {
    fn ended(&mut self, task_id: &TaskId) -> bool {
        let was_probe = self.probe.as_ref().is_some_and(|probe| probe.task_id == *task_id);
        if was_probe {
            self.probe = None;
        }
        was_probe
    }

    fn probe(&mut self, task_id: &TaskId, now: TimeMs) {
        let until = now.saturating_add(PROBE_LIMIT_MS);
        self.probe = Some(Probe { task_id: task_id.clone(), until });
    }

    /// Until when another task probes; `None` if no task does.
    fn free_to_probe_at(&self, now: TimeMs) -> Option<TimeMs> {
        self.probe.as_ref().map(|probe| probe.until).filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests;
