//! Tests of `origin`.

use super::*;

const KEEPER: Process = Process { pid: 4_000_010, start_ticks: 100 };
const CODEX: Process = Process { pid: 4_000_011, start_ticks: 101 };
const MANAGER: Process = Process { pid: 4_000_002, start_ticks: 2 };

fn stat(pid: u32, start_ticks: u64, parent: u32) -> Stat {
    Stat {
        process: Process { pid, start_ticks },
        parent,
        session: pid,
        state: 'S',
        threads: 1,
        is_exiting: false,
    }
}

/// A host whose keeper does not run, and that is adopted by a service manager.
fn origin() -> Origin {
    Origin {
        keeper: KEEPER,
        codex: Some(CODEX),
        dir: PathBuf::from("/nowhere"),
        adopters: vec![MANAGER],
        audit_session: Some(5),
    }
}

fn check(lineage: &[Stat]) -> Provenance {
    provenance(Suspect { lineage, audit_session: Some(5) }, &[origin()])
}

#[test]
fn an_orphan_that_is_younger_than_a_host_without_keeper_is_not_believed() {
    let manager = stat(MANAGER.pid, 2, 1);
    assert_eq!(check(&[stat(20, 100, 1)]), Provenance::Unknown);
    assert_eq!(check(&[stat(20, 150, MANAGER.pid), manager.clone()]), Provenance::Unknown);
    // Nor is what an orphan has started.
    assert_eq!(check(&[stat(30, 170, 20), stat(20, 150, 1)]), Provenance::Unknown);
    let below = [stat(30, 170, 20), stat(20, 150, MANAGER.pid), manager];
    assert_eq!(check(&below), Provenance::Unknown);
}

#[test]
fn who_is_older_or_has_not_lost_a_parent_is_believed() {
    assert_eq!(check(&[stat(20, 99, 1)]), Provenance::Outside);
    // A new command in a shell that is older, and a new login under a server that is older.
    assert_eq!(check(&[stat(30, 170, 20), stat(20, 99, 1)]), Provenance::Outside);
    let login = [stat(40, 180, 30), stat(30, 170, 20), stat(20, 50, 1)];
    assert_eq!(check(&login), Provenance::Outside);
    // Started from outside of the namespace, as by `docker exec`.
    assert_eq!(check(&[stat(20, 150, 0)]), Provenance::Outside);
    // Somebody else has the number of the one who adopts.
    let other = [stat(20, 150, MANAGER.pid), stat(MANAGER.pid, 90, 1)];
    assert_eq!(check(&other), Provenance::Outside);
}

#[test]
fn another_login_is_believed_unless_root_could_have_made_it_up() {
    let lineage = [stat(20, 150, 1)];
    let login = |audit_session| provenance(Suspect { lineage: &lineage, audit_session }, &[origin()]);
    let expected = if geteuid().is_root() { Provenance::Unknown } else { Provenance::Outside };
    assert_eq!(login(Some(6)), expected);
    assert_eq!(login(None), Provenance::Unknown, "a login that is not told proves nothing");
}

#[test]
fn what_is_below_a_host_or_in_its_session_is_known() {
    assert_eq!(check(&[stat(20, 150, KEEPER.pid), stat(KEEPER.pid, 100, 1)]), Provenance::FromHost);
    assert_eq!(check(&[stat(20, 150, CODEX.pid), stat(CODEX.pid, 101, 1)]), Provenance::FromHost);
    let in_session = Stat { session: KEEPER.pid, ..stat(20, 150, 1) };
    assert_eq!(check(&[in_session]), Provenance::FromHost);
    let booting = Origin::booting(KEEPER, PathBuf::from("/nowhere"));
    let below = [stat(20, 150, KEEPER.pid), stat(KEEPER.pid, 100, 1)];
    let suspect = Suspect { lineage: &below, audit_session: None };
    assert_eq!(provenance(suspect, std::slice::from_ref(&booting)), Provenance::FromHost);
    let orphan = [stat(20, 150, 1)];
    let suspect = Suspect { lineage: &orphan, audit_session: None };
    assert_eq!(provenance(suspect, &[booting]), Provenance::Outside, "it has not run anything yet");
}

#[test]
fn a_host_that_is_kept_or_has_ended_cleanly_leaves_nobody() {
    let orphan = [stat(20, u64::MAX, 1)];
    let suspect = Suspect { lineage: &orphan, audit_session: None };
    let own = Process::with_pid(std::process::id()).unwrap();
    let kept = Origin { keeper: own, ..origin() };
    assert_eq!(provenance(suspect, &[kept]), Provenance::Outside);

    let dir = tempfile::tempdir().unwrap();
    let gone = Origin { dir: dir.path().to_owned(), ..origin() };
    let judged = || provenance(suspect, std::slice::from_ref(&gone));
    assert_eq!(judged(), Provenance::Unknown);
    let exit = |cleared| Exit { code: Some(0), cleared, ..Exit::default() };
    for (cleared, expected) in
        [(Some(false), Provenance::Unknown), (Some(true), Provenance::Outside), (None, Provenance::Outside)]
    {
        super::super::record::write_json(&Files(dir.path()).exit(), &exit(cleared)).unwrap();
        assert_eq!(judged(), expected, "{cleared:?}");
    }
}

#[test]
fn nothing_is_left_when_no_orphan_of_this_user_is_as_young_as_the_host() {
    let own = std::process::id();
    let all = [stat(own, 150, 1), stat(30, 160, own), stat(40, 50, 1), stat(50, 170, 40)];
    assert!(!origin().may_be_left(&all, &[]), "we and what we have started are known");
    // A process that cannot be looked at may be this user's.
    let left = stat(4_000_050, 150, 1);
    assert!(origin().may_be_left(std::slice::from_ref(&left), &[]));
    let other = Origin { keeper: left.process, ..origin() };
    assert!(!origin().may_be_left(&[left], &[other]), "it is known as another host's");
}
