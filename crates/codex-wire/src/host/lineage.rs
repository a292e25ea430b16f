//! The ancestors of a process, and the process that would adopt it if its parent died.
//!
//! Knows the kernel's rules of adoption, and nothing of hosts. An orphan goes to the nearest living ancestor that is a
//! subreaper (`PR_SET_CHILD_SUBREAPER`), else to the first process of the pid namespace. So only ancestors that a
//! process had at its start can ever adopt it or its children.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::process::Signal;

use crate::os::process::{self, Process, Stat};

/// A longer lineage is taken for a misreading.
const MAX_GENERATIONS: usize = 64;
/// How often a lineage that changes while it is read is read again.
const LOOKS: usize = 3;
/// The first process, which adopts all other orphans.
pub(crate) const INIT: u32 = 1;

/// Makes an orphan that lives until its input is closed, so that it ends with us.
const ORPHAN: &str = "exec 3<&0; cat <&3 >/dev/null 2>&1 & echo $!";

/// A process and its ancestors, without the first process of the namespace. `None` if the process has ended, if the
/// lineage is endless, or if it was not the same in two readings in a row.
pub fn of(pid: u32) -> Option<Vec<Stat>> {
    let mut seen = climb(pid)?;
    for _ in 0..LOOKS {
        let again = climb(pid)?;
        if is_same(&seen, &again) {
            return Some(again);
        }
        seen = again;
    }
    None
}

fn climb(pid: u32) -> Option<Vec<Stat>> {
    let mut lineage = vec![process::stat(pid)?];
    while let Some(child) = lineage.last()
        && child.parent > INIT
    {
        let parent = process::stat(child.parent)?;
        // A parent is never younger than its child: the pid was reused meanwhile.
        if parent.process.start_ticks > child.process.start_ticks || lineage.len() >= MAX_GENERATIONS {
            return None;
        }
        lineage.push(parent);
    }
    Some(lineage)
}

fn is_same(one: &[Stat], other: &[Stat]) -> bool {
    let links = |lineage: &[Stat]| -> Vec<(Process, u32)> {
        lineage.iter().map(|stat| (stat.process, stat.parent)).collect()
    };
    links(one) == links(other)
}

/// The lineage of a process in a snapshot of all processes; empty if it is not in the snapshot.
pub(crate) fn in_snapshot(all: &[Stat], pid: u32) -> Vec<Stat> {
    let mut lineage: Vec<Stat> = Vec::new();
    let mut next = pid;
    while next > INIT && lineage.len() < MAX_GENERATIONS {
        let Some(stat) = all.iter().find(|stat| stat.process.pid == next) else { break };
        next = stat.parent;
        lineage.push(stat.clone());
    }
    lineage
}

/// The ancestors that may adopt the orphans of this process, now or after the current adopter has died. The kernel does
/// not tell which processes are subreapers, so an orphan is made once per process and its new parent is read. If that
/// fails, every ancestor counts. The first call blocks for some milliseconds.
pub fn adopters() -> Vec<Process> {
    static ADOPTERS: OnceLock<Vec<Process>> = OnceLock::new();
    ADOPTERS.get_or_init(find_adopters).clone()
}

fn find_adopters() -> Vec<Process> {
    let own = std::process::id();
    let nearest = if own == INIT { Some(INIT) } else { adopter_of_an_orphan() };
    let above = match nearest {
        Some(INIT) => Vec::new(),
        Some(nearest) => of(nearest).unwrap_or_default(),
        None => of(own).unwrap_or_default(),
    };
    let first = Process::with_pid(INIT);
    above.into_iter().map(|stat| stat.process).chain(first).collect()
}

fn adopter_of_an_orphan() -> Option<u32> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", ORPHAN]).current_dir("/");
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut shell = shell.spawn().ok()?;
    let input = shell.stdin.take();
    // By now the shell has ended, and its child has been adopted.
    let said = shell.wait_with_output().ok()?;
    let orphan = process::stat(String::from_utf8(said.stdout).ok()?.trim().parse().ok()?)?;
    // Without the signal it ends when its input is closed.
    orphan.process.signal(Signal::KILL).ok();
    drop(input);
    Some(orphan.parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lineage_goes_up_to_the_first_process_and_is_the_same_in_a_picture() {
        let own = of(std::process::id()).unwrap();
        assert_eq!(own[0].process.pid, std::process::id());
        assert_eq!(own[1].process.pid, std::os::unix::process::parent_id());
        assert!(own.last().unwrap().parent <= INIT);
        assert!(is_same(&in_snapshot(&process::all(), std::process::id()), &own));
        assert!(of(u32::MAX / 2).is_none() && in_snapshot(&[], 7).is_empty());
    }

    #[test]
    fn an_orphan_of_ours_is_adopted_by_one_of_those_who_were_named() {
        let adopters = adopters();
        let adopter = adopter_of_an_orphan().unwrap();
        assert!(adopters.iter().any(|one| one.pid == adopter), "{adopter}: {adopters:?}");
        assert_ne!(adopter, std::process::id(), "we have not asked for orphans");
    }
}
