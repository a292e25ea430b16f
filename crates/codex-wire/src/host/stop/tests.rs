//! Tests of `stop`.

use super::*;
use crate::host::placement::Identity;
use crate::host::record::epoch_of;

const KEEPER: Process = Process { pid: 4_000_001, start_ticks: 100 };
const CODEX: Process = Process { pid: 4_000_002, start_ticks: 101 };

fn record() -> Record {
    Record {
        id: "no-such-host".into(),
        epoch: epoch_of("boot", CODEX),
        keeper: KEEPER,
        codex: CODEX,
        boot_id: "boot".into(),
        socket: "/nowhere/s".into(),
        codex_version: String::new(),
        codex_executable: "/nowhere/codex".into(),
        codex_home: "/nowhere".into(),
        identity: Identity::default(),
        started_at_ms: 0,
        started_uptime_ms: 0,
        adopters: Vec::new(),
        audit_session: None,
    }
}

fn running(process: Process, session: u32) -> Stat {
    Stat { process, parent: 1, session, state: 'S', threads: 1, is_exiting: false }
}

fn pids(all: &[Stat]) -> Vec<u32> {
    members(all, &record()).into_iter().collect()
}

#[test]
fn the_session_of_a_dead_keeper_still_names_its_members() {
    let child = running(Process { pid: 4_000_003, start_ticks: 102 }, KEEPER.pid);
    let older = running(Process { pid: 4_000_004, start_ticks: 99 }, KEEPER.pid);
    let other = running(Process { pid: 4_000_005, start_ticks: 102 }, 1);
    assert_eq!(pids(&[child, older, other]), [4_000_003]);
}

#[test]
fn a_stranger_with_the_keepers_number_and_its_session_are_left_alone() {
    let stranger = running(Process { start_ticks: 500, ..KEEPER }, KEEPER.pid);
    let its_child = running(Process { pid: 4_000_003, start_ticks: 501 }, KEEPER.pid);
    assert_eq!(pids(&[stranger, its_child]), Vec::<u32>::new());
    let another_codex = running(Process { start_ticks: 500, ..CODEX }, 1);
    assert_eq!(pids(&[another_codex]), Vec::<u32>::new());
}

#[test]
fn a_record_of_an_earlier_run_of_the_machine_names_nobody() {
    sweep(&record()).unwrap();
}

// peer: L1
#[test]
fn whoever_survives_the_kill_is_named_as_orphaned_with_its_pid() {
    let error = Error::Orphaned { id: "h1".into(), pids: vec![17, 18] };
    assert_eq!(
        error.to_string(),
        "host h1 left processes that could not be ended (orphaned): process 17, process 18; end them by hand"
    );
}
