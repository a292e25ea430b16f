//! Whether a process comes from a host: what each sign proves, and what it does not.
//!
//! | sign | proves | does not prove |
//! |---|---|---|
//! | the keeper or codex is above it | that it comes from the host | while the keeper lives, its absence proves the contrary: orphans of the host go to the keeper. Once the keeper is dead it proves nothing |
//! | it is in the keeper's session | that it comes from the host: nobody can join a session | `setsid` leaves it |
//! | the mark in its environment | that it comes from the host | `env -i` drops it, and a process can forbid others to read it |
//! | it, or someone above it who was not adopted, is older than the keeper | that it does not come from the host: nobody is older than their ancestors | |
//! | its parent could not have adopted it ([`super::lineage::adopters`]) | that it has not lost a parent there | its parent may have been adopted: so all of them are looked at |
//! | another login session than the host's, by the kernel's audit | that it does not come from the host: only who may administer the audit can change a session that is set | for root nothing, who may; nothing if either has none |
//! | another cgroup | nothing: who may write a delegated subtree moves their own processes about in it, so it is not looked at | |
//!
//! What has asked another service of the user to start it (`systemd-run --user`, cron, ssh to this machine) comes from
//! that service. A process outside of every sandbox can do that, and whatever else the user can.

use std::path::PathBuf;

use rustix::process::geteuid;

use super::lineage::{INIT, in_picture};
use super::record::{Exit, Files, Record, read_json};
use crate::os::process::{self, Process, Stat};

/// How often all processes are looked at before a host counts as gone for good.
const LOOKS: usize = 3;

/// What a process has to do with the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It does not come from any of them.
    Outside,
    /// A host has started it, or somebody below one.
    BelowAHost,
    /// It has lost its parents, and may come from a host that has lost its keeper.
    Unknown,
}

/// By what the processes of one host are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    keeper: Process,
    /// None while it boots: then it has run nothing that could have left something behind.
    codex: Option<Process>,
    dir: PathBuf,
    adopters: Vec<Process>,
    audit_session: Option<u32>,
}

/// A process to be judged: itself first, then everyone above it.
#[derive(Debug, Clone, Copy)]
pub struct Suspect<'a> {
    /// It and everyone above it.
    pub lineage: &'a [Stat],
    /// Its login session.
    pub audit_session: Option<u32>,
}

impl Origin {
    /// Of a host that has been started, in its directory.
    pub fn of(record: &Record, dir: PathBuf) -> Origin {
        let adopters = record.adopters.clone();
        Origin {
            keeper: record.keeper,
            codex: Some(record.codex),
            dir,
            // An older keeper did not say: then it is as with one that we would start now.
            adopters: if adopters.is_empty() { super::lineage::adopters() } else { adopters },
            audit_session: record.audit_session,
        }
    }

    /// Of a host that is being started.
    pub fn booting(keeper: Process, dir: PathBuf) -> Origin {
        Origin { keeper, codex: None, dir, adopters: Vec::new(), audit_session: None }
    }

    /// Whether something may be left of it that nobody above shows: its keeper has gone, and had not cleared up.
    pub fn is_unkept(&self) -> bool {
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

    /// Whether a process may have been left behind by this host, if the host has lost its keeper.
    fn may_have_left(&self, suspect: Suspect<'_>) -> bool {
        let is_of_another_login = !geteuid().is_root()
            && matches!((suspect.audit_session, self.audit_session), (Some(its), Some(own)) if its != own);
        !is_of_another_login && self.may_have_lost_a_parent(suspect.lineage)
    }

    fn may_have_lost_a_parent(&self, lineage: &[Stat]) -> bool {
        let adopts = |parent: Option<&Stat>, number: u32| match parent {
            Some(parent) => self.adopters.contains(&parent.process),
            // A parent outside of our pid namespace has the number 0 and adopts nobody here. One that has gone since the
            // picture was taken leaves us in doubt.
            None => number >= INIT,
        };
        let mut links = lineage.iter().enumerate();
        links.any(|(at, stat)| {
            stat.process.start_ticks >= self.keeper.start_ticks && adopts(lineage.get(at + 1), stat.parent)
        })
    }

    /// Whether anyone of this user may still be left of this host, which has lost its keeper. Looks several times: a
    /// process that hands over to its child just then may be missed by one look.
    pub(crate) fn may_have_left_anyone(&self, kept: &[Origin]) -> bool {
        (0..LOOKS).any(|_| self.may_be_left(&process::all(), kept))
    }

    /// What is below the hosts that are kept, and we ourselves with what we have started, is known.
    fn may_be_left(&self, all: &[Stat], kept: &[Origin]) -> bool {
        let (own_user, own_pid) = (geteuid().as_raw(), std::process::id());
        let is_ours = |pid: u32| process::users(pid).is_none_or(|users| users.contains(&own_user));
        all.iter().filter(|stat| stat.is_running()).any(|stat| {
            let pid = stat.process.pid;
            let lineage = in_picture(all, pid);
            let is_known = lineage.iter().any(|stat| stat.process.pid == own_pid)
                || kept.iter().any(|origin| origin.is_above(&lineage));
            let suspect = Suspect { lineage: &lineage, audit_session: process::audit_session(pid) };
            pid > INIT && !is_known && self.may_have_left(suspect) && is_ours(pid)
        })
    }
}

/// Where a process stands. Its lineage has to have been read before this is called: a keeper that still has its children
/// now had them then.
pub fn standing(suspect: Suspect<'_>, origins: &[Origin]) -> Standing {
    if origins.iter().any(|origin| origin.is_above(suspect.lineage)) {
        return Standing::BelowAHost;
    }
    let may_be_left = |origin: &Origin| origin.may_have_left(suspect) && origin.is_unkept();
    if origins.iter().any(may_be_left) { Standing::Unknown } else { Standing::Outside }
}

#[cfg(test)]
mod tests;
