//! Whether a process comes from a host: what each sign proves, and what it does not prove.
//!
//! | sign | proves | does not prove |
//! |---|---|---|
//! | the keeper or codex is an ancestor | it comes from the host | if neither is an ancestor: it does not come from the
//! host while the keeper lives, since the keeper adopts the host's orphans. Nothing once the keeper is dead |
//! | it is in the keeper's session | it comes from the host: no process can join a session | a process can leave the
//! session by `setsid` |
//! | the mark in its environment | it comes from the host | `env -i` drops the mark, and a process can make its
//! environment unreadable |
//! | it, or an ancestor that was not adopted, is older than the keeper | it does not come from the host: no process is
//! older than its ancestors | |
//! | its parent is not an adopter ([`super::lineage::adopters`]) | it was not orphaned | its parent may have been
//! orphaned: so the whole lineage is checked |
//! | another login session than the host's, by the kernel's audit | it does not come from the host: changing a session
//! that is set takes the privilege to administer the audit | nothing for root, who has that privilege, and nothing if
//! one of the two has no login session |
//! | another cgroup | nothing: the owner of a delegated subtree can move processes within it, so the cgroup is not
//! checked | |
//!
//! A process that another service of the user starts on request (`systemd-run --user`, cron, ssh to this machine) comes
//! from that service. A process outside of every sandbox can make such a request, like anything else that the user can
//! do.

use std::path::PathBuf;

use rustix::process::geteuid;

use super::lineage::{INIT, in_snapshot};
use super::record::{Exit, Files, Record, read_json};
use crate::os::process::{self, Process, Stat};

/// How often all processes are read before a host counts as fully ended.
const LOOKS: usize = 3;

/// Whether a process comes from a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// It comes from no host.
    Outside,
    /// A host, or a descendant of a host, has started it.
    FromHost,
    /// It is an orphan, and may come from a host that has lost its keeper.
    Unknown,
}

/// How to recognise the processes of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    keeper: Process,
    /// `None` while the host boots: it has run no commands yet, so it has no orphans.
    codex: Option<Process>,
    dir: PathBuf,
    adopters: Vec<Process>,
    audit_session: Option<u32>,
}

/// A process to be checked.
#[derive(Debug, Clone, Copy)]
pub struct Suspect<'a> {
    /// The process itself, then its ancestors.
    pub lineage: &'a [Stat],
    /// Its login session.
    pub audit_session: Option<u32>,
}

impl Origin {
    /// For a host that runs or ran.
    pub fn of(record: &Record, dir: PathBuf) -> Origin {
        let adopters = record.adopters.clone();
        Origin {
            keeper: record.keeper,
            codex: Some(record.codex),
            dir,
            // Keepers of older versions did not record the adopters. Those of this process are the best guess.
            adopters: if adopters.is_empty() { super::lineage::adopters() } else { adopters },
            audit_session: record.audit_session,
        }
    }

    /// For a booting host.
    pub fn booting(keeper: Process, dir: PathBuf) -> Origin {
        Origin { keeper, codex: None, dir, adopters: Vec::new(), audit_session: None }
    }

    /// Whether orphans of the host may be left: its keeper was killed before it had ended all processes.
    pub fn may_have_leftovers(&self) -> bool {
        self.codex.is_some() && !self.keeper.keeps_its_children() && !self.ended_cleanly()
    }

    fn ended_cleanly(&self) -> bool {
        let exit: Option<Exit> = read_json(&Files(&self.dir).exit()).ok().flatten();
        exit.is_some_and(|exit| exit.is_clean())
    }

    fn is_above(&self, lineage: &[Stat]) -> bool {
        let named = |process: Process| process == self.keeper || Some(process) == self.codex;
        let in_session = |stat: &Stat| {
            stat.session == self.keeper.pid && stat.process.start_ticks >= self.keeper.start_ticks
        };
        lineage.iter().any(|stat| named(stat.process) || in_session(stat))
    }

    /// Whether a process may be an orphan of this host, if the host has lost its keeper.
    fn may_have_left(&self, suspect: Suspect<'_>) -> bool {
        let is_of_another_login = !geteuid().is_root()
            && matches!((suspect.audit_session, self.audit_session), (Some(its), Some(own)) if its != own);
        !is_of_another_login && self.may_have_lost_a_parent(suspect.lineage)
    }

    fn may_have_lost_a_parent(&self, lineage: &[Stat]) -> bool {
        let adopts = |parent: Option<&Stat>, number: u32| match parent {
            Some(parent) => self.adopters.contains(&parent.process),
            // A parent outside of our pid namespace has the pid 0 and adopts no process here. A parent that ended since
            // the snapshot may have been an adopter.
            None => number >= INIT,
        };
        let mut links = lineage.iter().enumerate();
        links.any(|(at, stat)| {
            stat.process.start_ticks >= self.keeper.start_ticks && adopts(lineage.get(at + 1), stat.parent)
        })
    }

    /// Whether processes of our user may be orphans of this host, which has lost its keeper. Reads the processes
    /// several times: one reading may miss a process that starts a child and exits.
    pub(crate) fn may_have_left_anyone(&self, kept: &[Origin]) -> bool {
        (0..LOOKS).any(|_| self.may_be_left(&process::all(), kept))
    }

    /// Descendants of `kept` hosts and of our own process are not suspects.
    fn may_be_left(&self, all: &[Stat], kept: &[Origin]) -> bool {
        let (own_user, own_pid) = (geteuid().as_raw(), std::process::id());
        let is_ours = |pid: u32| process::users(pid).is_none_or(|users| users.contains(&own_user));
        all.iter().filter(|stat| stat.is_running()).any(|stat| {
            let pid = stat.process.pid;
            let lineage = in_snapshot(all, pid);
            let is_known = lineage.iter().any(|stat| stat.process.pid == own_pid)
                || kept.iter().any(|origin| origin.is_above(&lineage));
            let suspect = Suspect { lineage: &lineage, audit_session: process::audit_session(pid) };
            pid > INIT && !is_known && self.may_have_left(suspect) && is_ours(pid)
        })
    }
}

/// Whether a process comes from a host. Read the lineage before calling this: if the keeper still has its children now,
/// it had them when the lineage was read.
pub fn provenance(suspect: Suspect<'_>, origins: &[Origin]) -> Provenance {
    if origins.iter().any(|origin| origin.is_above(suspect.lineage)) {
        return Provenance::FromHost;
    }
    let may_be_left = |origin: &Origin| origin.may_have_left(suspect) && origin.may_have_leftovers();
    if origins.iter().any(may_be_left) { Provenance::Unknown } else { Provenance::Outside }
}

#[cfg(test)]
mod tests;
