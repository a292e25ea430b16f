//! The accounts behind the homes: limits that were met, and who of a home may go on when. Pure: time enters as a number.
//!
//! A limit is an account's, not a task's. While it holds, nothing of its home begins; where nobody knows its end, one
//! task at a time tries. Whoever goes on does so a moment after the one before.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::task::{Parked, TaskId, TimeMs};

/// Tasks of one home do not all go on at once.
const STAGGER_MS: TimeMs = 2_000;
/// A limit without a known end is worth a probe after so long; then twice as long, and so on.
const FIRST_PROBE_MS: TimeMs = 5 * 60 * 1000;
/// Nobody waits longer than this for a probe.
const LONGEST_PROBE_MS: TimeMs = 60 * 60 * 1000;
/// A probe that neither got through nor failed in so long keeps nobody else from trying.
const PROBE_LIMIT_MS: TimeMs = 10 * 60 * 1000;
/// An end that was over so long ago when it was told is none.
const STALE_MS: TimeMs = 60 * 1000;

/// All accounts of which something is known, by their homes.
#[derive(Debug, Default)]
pub(crate) struct Accounts(HashMap<PathBuf, Account>);

#[derive(Debug, Default)]
struct Account {
    /// The limit that was met last, until a turn gets through.
    limit: Option<Limit>,
    /// Who tries whether it still holds.
    probe: Option<Probe>,
    /// When a task of this home last went on.
    resumed_at: Option<TimeMs>,
}

/// A limit that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    /// When it ends, or is worth a probe.
    pub(crate) resume_at: TimeMs,
    /// Whether the account told that time.
    pub(crate) is_known: bool,
    /// How often in a row it was met.
    pub(crate) hits: u32,
    /// When.
    pub(crate) met_at: TimeMs,
}

#[derive(Debug)]
struct Probe {
    task_id: TaskId,
    /// From then on somebody else may try.
    until: TimeMs,
}

/// Whether a task may go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Now; it counts as gone on.
    Now,
    /// Not before then, and only if nothing else happens until then.
    At(TimeMs),
}

impl Limit {
    /// As tasks remember it.
    pub(crate) fn parked(&self) -> Parked {
        Parked::UsageLimit { resume_at: self.resume_at, is_known: self.is_known }
    }

    fn holds(&self, now: TimeMs) -> bool {
        !self.is_known || now < self.resume_at
    }
}

impl Accounts {
    /// A task met the limit, which ends at `resets_at` if that was told. Gives what all tasks of the home wait for.
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
            // One of many that were under way when it was met first.
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

    /// A turn that began at `began_at` was served. Says whether a limit is lifted by it.
    pub(crate) fn served(&mut self, home: &Path, began_at: TimeMs) -> bool {
        let Some(account) = self.0.get_mut(home) else { return false };
        if account.limit.is_none_or(|limit| began_at < limit.met_at) {
            return false;
        }
        (account.limit, account.probe) = (None, None);
        true
    }

    /// A task's turn is over, however. Says whether it was a probe.
    pub(crate) fn ended(&mut self, home: &Path, task_id: &TaskId) -> bool {
        self.0.get_mut(home).is_some_and(|account| account.ended(task_id))
    }

    /// What a task of this home has to wait for, if it is to wait.
    pub(crate) fn limit(&self, home: &Path, task_id: &TaskId, now: TimeMs) -> Option<Limit> {
        let account = self.0.get(home)?;
        let is_probe = account.probe.as_ref().is_some_and(|probe| probe.task_id == *task_id);
        account.limit.filter(|limit| limit.holds(now) && !is_probe)
    }

    /// When the first limit that holds ends, of those whose end is known.
    pub(crate) fn first_reset(&self, now: TimeMs) -> Option<TimeMs> {
        let limits = self.0.values().filter_map(|account| account.limit);
        limits.filter(|limit| limit.is_known && limit.holds(now)).map(|limit| limit.resume_at).min()
    }

    /// A person wants this task to go on, limit or not: it is the probe, unless another one is.
    pub(crate) fn try_now(&mut self, home: &Path, task_id: &TaskId, now: TimeMs) {
        if let Some(account) = self.0.get_mut(home)
            && account.free_to_probe_at(now).is_none()
        {
            account.probe(task_id, now);
        }
    }

    /// Whether this task may go on now. If so, it counts as gone on, and is the probe if one is needed.
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
        // A clock that was set back holds nobody up.
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

    /// Takes a limit over from what a task remembers; of several the one that was met last.
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

    /// Until when somebody else tries; none if nobody does.
    fn free_to_probe_at(&self, now: TimeMs) -> Option<TimeMs> {
        self.probe.as_ref().map(|probe| probe.until).filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests;
