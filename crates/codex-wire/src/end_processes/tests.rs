//! Tests of `end_processes`.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::*;
use crate::os::process;

const SHORT: EndLimits =
    EndLimits { after_term: Duration::from_millis(50), after_kill: Duration::from_millis(200) };
const LONG: EndLimits =
    EndLimits { after_term: Duration::from_millis(200), after_kill: Duration::from_secs(20) };

#[test]
fn those_that_cannot_be_ended_come_back() {
    let ghost = Process { pid: 42, start_ticks: 7 };
    let mut signals = Vec::new();
    let left = end_all_by(
        &mut || BTreeSet::from([ghost]),
        &mut |_, signal| {
            signals.push(signal);
            Err(io::ErrorKind::PermissionDenied.into())
        },
        SHORT,
    );
    assert_eq!(left, Err(BTreeSet::from([ghost])));
    assert_eq!(signals[..3], [Signal::TERM, Signal::STOP, Signal::KILL]);
}

#[test]
fn nobody_is_ended_at_once() {
    let began = Instant::now();
    assert_eq!(end_all(&mut BTreeSet::new, LONG), Ok(()));
    assert!(began.elapsed() < Duration::from_millis(150));
}

#[test]
fn a_process_that_ignores_term_and_keeps_making_children_is_ended_with_them() {
    let script = "trap '' TERM HUP; while :; do (trap '' TERM HUP; sleep 60) & sleep 0.02; done";
    let mut child =
        Command::new("sh").args(["-c", script]).stdin(Stdio::null()).process_group(0).spawn().unwrap();
    let root = Process::with_pid(child.id()).unwrap();
    let family = || {
        let mut all = process::descendants(root.pid);
        all.extend(Some(root).filter(|root| root.is_alive()));
        all
    };
    while family().len() < 4 {
        thread::sleep(LOOK_EVERY);
    }
    // Whoever was seen once counts to the end, since a child whose parent was killed is no descendant any more.
    let mut seen = BTreeSet::new();
    let ended = end_all(
        &mut || {
            seen.extend(family());
            seen.iter().copied().filter(|one| one.is_alive()).collect()
        },
        LONG,
    );
    child.wait().unwrap();
    assert_eq!(ended, Ok(()));
    assert!(seen.len() >= 4);
}
