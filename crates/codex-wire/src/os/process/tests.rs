//! Tests of `proc`.

use std::process::{Command, Stdio};

use super::*;

const LINE: &str = "4711 (we) ird (name)) S 12 4711 99 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 7 0 123456 9 8 7";

fn running(pid: u32, parent: u32) -> Stat {
    Stat {
        process: Process { pid, start_ticks: 1 },
        parent,
        session: 1,
        state: 'S',
        threads: 1,
        is_exiting: false,
    }
}

#[test]
fn a_name_with_brackets_does_not_shift_the_fields() {
    let stat = parse_stat(LINE).unwrap();
    assert_eq!(stat.process, Process { pid: 4711, start_ticks: 123_456 });
    assert_eq!((stat.parent, stat.session, stat.state, stat.threads), (12, 99, 'S', 7));
    assert!(!stat.is_exiting);
    assert!(parse_stat(&LINE.replace("4194560", "4194564")).unwrap().is_exiting);
}

#[test]
fn a_broken_line_is_no_process() {
    for line in ["", "1", "1 (x)", "1 (x) S 1", "x (x) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 5"] {
        assert_eq!(parse_stat(line), None, "{line:?}");
    }
}

#[test]
fn a_zombie_does_not_run_unless_it_has_other_threads() {
    let mut stat = running(1, 0);
    assert!(stat.is_running());
    stat.state = 'Z';
    assert!(!stat.is_running());
    stat.threads = 2;
    assert!(stat.is_running());
}

#[test]
fn memory_and_uptime_are_read_in_bytes_and_milliseconds() {
    assert_eq!(parse_rss_bytes("Name:\tx\nVmRSS:\t   82588 kB\nThreads:\t1\n"), Some(82_588 * 1024));
    assert_eq!(parse_rss_bytes("Name:\tkernel thread\n"), None);
    assert_eq!(parse_uptime_ms("3141.59 1000.00\n"), Some(3_141_590));
    assert_eq!(parse_uptime_ms("nonsense"), None);
    assert_eq!(parse_users("Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t9\t9\t9\t9\n"), Some(vec![1, 2, 3, 4]));
    assert_eq!(parse_users("Name:\tx\n"), None);
}

#[test]
fn descendants_are_found_at_any_depth_and_loops_do_not_hang() {
    let all = [
        running(1, 0),
        running(2, 1),
        running(3, 2),
        running(4, 3),
        running(5, 1),
        running(8, 9),
        running(9, 8),
    ];
    let pids: Vec<u32> = descendants_in(&all, &BTreeSet::from([2])).iter().map(|one| one.pid).collect();
    assert_eq!(pids, [3, 4]);
    assert_eq!(descendants_in(&all, &BTreeSet::from([8])).len(), 1);
}

#[test]
fn a_process_of_another_start_time_is_not_signalled() {
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let process = Process::with_pid(child.id()).unwrap();
    let stranger = Process { start_ticks: process.start_ticks + 1, ..process };
    assert!(!stranger.is_alive());
    assert!(!stranger.signal(Signal::KILL).unwrap());
    assert!(process.is_alive());
    assert!(process.signal(Signal::KILL).unwrap());
    child.wait().unwrap();
    assert!(!process.is_alive());
    assert!(!process.signal(Signal::KILL).unwrap());
}

#[test]
fn our_own_facts_can_be_read() {
    let me = std::process::id();
    assert!(Process::with_pid(me).is_some());
    assert!(rss_bytes(me).unwrap() > 100_000);
    assert!(all().iter().any(|stat| stat.process.pid == me));
    assert!(uptime_ms().unwrap() > 0);
    assert_eq!(boot_id().unwrap().len(), 36);
    assert_ne!(random_id().unwrap(), random_id().unwrap());
}
