//! Who is above a process, and who would be if its parent died.
//!
//! Knows the kernel's rules of adoption, and nothing of hosts. An orphan goes to the nearest living ancestor
//! that has asked for orphans (`PR_SET_CHILD_SUBREAPER`), else to the first process of the pid namespace. So only those
//! who were above a process when it was started can ever adopt it or what it leaves.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::process::Signal;

use crate::os::process::{self, Process, Stat};

/// More generations than this are not a family but a mistake.
const MAX_GENERATIONS: usize = 64;
/// How often a family that changes while it is looked at is looked at again.
const LOOKS: usize = 3;
/// The first process, which adopts whom nobody else does.
pub(crate) const INIT: u32 = 1;

/// An orphan that lives for as long as we hold its input, so that it ends with us.
const ORPHAN: &str = "exec 3<&0; cat <&3 >/dev/null 2>&1 & echo $!";

/// A process and everyone above it, the first process of the namespace excepted. None if it has gone, has no end, or did
/// not stay the same for two looks in a row: who is in doubt is nobody's child.
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
        // Nobody is younger than their child: the number has gone to somebody else since.
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

/// The lineage of a process in a picture of all processes; empty if it is not in it.
pub(crate) fn in_picture(all: &[Stat], pid: u32) -> Vec<Stat> {
    let mut lineage: Vec<Stat> = Vec::new();
    let mut next = pid;
    while next > INIT && lineage.len() < MAX_GENERATIONS {
        let Some(stat) = all.iter().find(|stat| stat.process.pid == next) else { break };
        next = stat.parent;
        lineage.push(stat.clone());
    }
    lineage
}

/// Who would adopt the orphans of this process, now and after the death of the one who does now. The kernel does not tell
/// who has asked for orphans, so an orphan is made, once in the life of this process, and looked at. Where that cannot be
/// done, everyone above us may be one. Blocks for some milliseconds at its first call.
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
    // When this is back the shell has ended, and its child has been adopted.
    let said = shell.wait_with_output().ok()?;
    let orphan = process::stat(String::from_utf8(said.stdout).ok()?.trim().parse().ok()?)?;
    // It ends by itself when its input does.
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
        assert!(is_same(&in_picture(&process::all(), std::process::id()), &own));
        assert!(of(u32::MAX / 2).is_none() && in_picture(&[], 7).is_empty());
    }

    #[test]
    fn an_orphan_of_ours_is_adopted_by_one_of_those_who_were_named() {
        let adopters = adopters();
        let adopter = adopter_of_an_orphan().unwrap();
        assert!(adopters.iter().any(|one| one.pid == adopter), "{adopter}: {adopters:?}");
        assert_ne!(adopter, std::process::id(), "we have not asked for orphans");
    }
}
