//! The pool: hosts taken over, shared, retired and replaced, on the real Codex.

use std::time::Duration;

use codex_wire::host::boot_lock::FILE_NAME;
use codex_wire::host::pool::{Change, Placed, Pool};
use codex_wire::host::record::{Files, write_json};
use codex_wire::host::retirement::{Limits, Reason};
use codex_wire::host::{Host, Identity, Launch};
use codex_wire::os::process::{self, Process};
use rustix::process::Signal;
use serde_json::json;
use testkit::rig::Home;
use testkit::wait_until;

use crate::host_rig::{LONG, STUBBORN_MCP, home_with, launch_in, start_children};

async fn pool_in(home: &Home, limits: Limits) -> (Pool, Vec<Change>) {
    Pool::attach(&home.dir().join("p"), limits).await.unwrap()
}

async fn placed(pool: &Pool, launch: &Launch) -> Host {
    match pool.host_for(launch).await.unwrap() {
        Placed::On(host) => host,
        Placed::Wait => panic!("no host now"),
    }
}

/// Ends all hosts by asking for another version.
async fn retire_all(pool: &Pool) {
    pool.maintain("another").await;
    assert_eq!(pool.hosts().len(), 0);
}

#[tokio::test]
async fn a_host_is_shared_until_it_is_full_and_taken_over_by_the_next_pool() {
    let home = home_with("");
    let launch = launch_in(&home, "-");
    let limits = Limits { max_threads: 2, ..Limits::default() };
    let (pool, changes) = pool_in(&home, limits).await;
    assert!(changes.is_empty());

    let first = placed(&pool, &launch).await;
    pool.thread_opened(first.id(), "t1");
    assert_eq!(placed(&pool, &launch).await, first);
    pool.thread_opened(first.id(), "t2");
    let second = placed(&pool, &launch).await;
    assert_ne!(second, first);
    pool.thread_closed(first.id(), "t1");
    assert_eq!(placed(&pool, &launch).await, first);
    drop(pool);

    let (pool, changes) = pool_in(&home, limits).await;
    assert!(changes.is_empty(), "{changes:?}");
    let hosts = pool.hosts();
    let mut found: Vec<&str> = hosts.iter().map(Host::id).collect();
    let mut expected = [first.id(), second.id()];
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    retire_all(&pool).await;
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_home_with_one_refresher_waits_instead_of_getting_a_second_host() {
    let home = home_with("");
    let mut launch = launch_in(&home, "-");
    launch.identity = Identity { exclusive_home: true, ..launch.identity };
    let (pool, _) = pool_in(&home, Limits { max_threads: 1, ..Limits::default() }).await;
    let host = placed(&pool, &launch).await;
    pool.thread_opened(host.id(), "t1");
    assert_eq!(pool.host_for(&launch).await.unwrap(), Placed::Wait);
    pool.thread_closed(host.id(), "t1");
    assert_eq!(placed(&pool, &launch).await, host);
    retire_all(&pool).await;
}

#[tokio::test]
async fn a_host_of_another_version_is_retired_when_its_turn_is_over() {
    let home = home_with("");
    let launch = launch_in(&home, "-");
    let (pool, _) = pool_in(&home, Limits::default()).await;
    let host = placed(&pool, &launch).await;
    assert!(pool.maintain(&launch.version).await.is_empty());

    pool.turn_started(host.id());
    let changes = pool.maintain("9.9.9").await;
    assert!(matches!(changes.as_slice(), [Change::Retiring { id, .. }] if id == host.id()), "{changes:?}");
    assert!(pool.maintain("9.9.9").await.is_empty());
    assert!(host.is_alive());

    pool.turn_ended(host.id());
    let changes = pool.maintain("9.9.9").await;
    assert!(matches!(changes.as_slice(), [Change::Retired { id }] if id == host.id()), "{changes:?}");
    assert!(!host.is_alive() && !host.dir().exists());
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_host_that_takes_no_connections_is_replaced() {
    let home = home_with("");
    let launch = launch_in(&home, "-");
    let limits = Limits { answer_within: Duration::from_millis(500), ..Limits::default() };
    let (pool, _) = pool_in(&home, limits).await;
    let host = placed(&pool, &launch).await;
    pool.turn_started(host.id());
    host.record().codex.signal(Signal::STOP).unwrap();
    // Its threads stop one by one; the first look may still find it well.
    let mut changes = Vec::new();
    while changes.is_empty() {
        changes = pool.maintain(&launch.version).await;
    }
    assert!(matches!(changes.as_slice(), [Change::Retiring { reason: Reason::Silent, .. }]), "{changes:?}");
    assert_ne!(placed(&pool, &launch).await, host);
    pool.turn_ended(host.id());
    let changes = pool.maintain(&launch.version).await;
    assert!(matches!(changes.as_slice(), [Change::Retired { id }] if id == host.id()), "{changes:?}");
    retire_all(&pool).await;
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_dead_host_is_told_cleared_away_and_replaced() {
    let home = home_with("");
    let launch = launch_in(&home, "-");
    let (pool, _) = pool_in(&home, Limits::default()).await;
    let host = placed(&pool, &launch).await;
    host.record().codex.signal(Signal::KILL).unwrap();
    wait_until(LONG, "the keeper to end", || !host.has_keeper()).await;

    let next = placed(&pool, &launch).await;
    assert_ne!(next.id(), host.id());
    let changes = pool.maintain(&launch.version).await;
    assert!(
        matches!(changes.as_slice(), [Change::Died { record, exit: Some(exit) }] if record.id == host.id() && exit.signal == Some(9)),
        "{changes:?}"
    );
    assert!(!host.dir().exists());

    next.record().codex.signal(Signal::KILL).unwrap();
    wait_until(LONG, "the keeper to end", || !next.has_keeper()).await;
    let (pool, changes) = pool_in(&home, Limits::default()).await;
    assert!(
        matches!(changes.as_slice(), [Change::Died { record, .. }] if record.id == next.id()),
        "{changes:?}"
    );
    assert_eq!(pool.hosts().len(), 0);
    assert!(!next.dir().exists());
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_host_whose_keeper_was_killed_is_ended_at_once_with_all_that_is_below_it() {
    let home = home_with(STUBBORN_MCP);
    let launch = launch_in(&home, "-");
    let (pool, _) = pool_in(&home, Limits::default()).await;
    let host = placed(&pool, &launch).await;
    let children = start_children(&host, &home).await;
    let epoch = host.epoch().clone();
    assert_eq!(pool.find(&epoch).await, Some(host.clone()));
    host.record().keeper.signal(Signal::KILL).unwrap();

    // Nobody has to ask for it.
    wait_until(LONG, "the end of codex", || !host.is_alive()).await;
    wait_until(LONG, "the end of all below it", || children.alive() == [false, false]).await;
    assert_eq!(pool.find(&epoch).await, None);
    assert_ne!(placed(&pool, &launch).await, host);
    let changes = pool.maintain(&launch.version).await;
    let [Change::Died { record, exit: Some(exit) }] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!((record.id.as_str(), exit.cleared), (host.id(), Some(false)));
    assert!(exit.to_string().contains("its keeper was killed"), "{exit}");
    retire_all(&pool).await;
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_host_whose_keeper_was_killed_while_nobody_looked_is_not_taken_over() {
    let home = home_with("");
    let launch = launch_in(&home, "-");
    let (pool, _) = pool_in(&home, Limits::default()).await;
    let host = placed(&pool, &launch).await;
    drop(pool);
    host.record().keeper.signal(Signal::KILL).unwrap();
    wait_until(LONG, "the keeper to be gone", || !host.has_keeper()).await;
    assert!(host.is_alive());

    let (pool, changes) = pool_in(&home, Limits::default()).await;
    assert!(
        matches!(changes.as_slice(), [Change::Died { record, .. }] if record.id == host.id()),
        "{changes:?}"
    );
    assert!(!host.is_alive());
    assert!(pool.hosts().is_empty());
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_host_of_which_something_may_be_left_is_remembered_until_nothing_can_be() {
    let home = home_with("");
    // What a host could have left: without parents, without a mark.
    let orphan =
        std::process::Command::new("sh").args(["-c", "sleep 60 >/dev/null 2>&1 & echo $!"]).output().unwrap();
    let orphan: u32 = String::from_utf8(orphan.stdout).unwrap().trim().parse().unwrap();
    let orphan = Process::with_pid(orphan).unwrap();
    for (start_ticks, may_be_left) in [(orphan.start_ticks, true), (u64::MAX, false)] {
        let dir = home.dir().join("p/h");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let record = json!({
            "id": "killed", "epoch": "e", "boot_id": process::boot_id().unwrap(), "socket": dir.join("s"),
            "keeper": Process { pid: 4_190_001, start_ticks },
            "codex": Process { pid: 4_190_002, start_ticks },
        });
        write_json(&Files(&dir).record(), &record).unwrap();
        // Each pool after the other remembers it.
        for _ in 0..2 {
            let (pool, changes) = pool_in(&home, Limits::default()).await;
            let died = changes.iter().filter(|change| matches!(change, Change::Died { .. })).count();
            assert_eq!((pool.origins().len(), died == 1), (usize::from(may_be_left), true), "{changes:?}");
            pool.maintain("any").await;
            assert_eq!((pool.origins().len(), dir.exists()), (usize::from(may_be_left), may_be_left));
            if !may_be_left {
                break;
            }
        }
    }
    orphan.signal(Signal::KILL).unwrap();
}

/// Somebody else starts Codex on the home, and does not come to an end.
fn hold_boot_lock(home: &Home) -> std::fs::File {
    let file = std::fs::File::create(home.codex_home().join(FILE_NAME)).unwrap();
    file.lock().unwrap();
    file
}

#[tokio::test]
async fn one_boot_serves_all_who_wait_for_it_and_keeps_nobody_from_looking() {
    let home = home_with("");
    let launch = launch_in(&home, "-");
    let (pool, _) = pool_in(&home, Limits::default()).await;
    let held = hold_boot_lock(&home);
    let place = |pool: Pool, launch: Launch| tokio::spawn(async move { placed(&pool, &launch).await });
    let (first, second) = (place(pool.clone(), launch.clone()), place(pool.clone(), launch.clone()));
    let given_up = place(pool.clone(), launch.clone());
    tokio::task::yield_now().await;
    // Whoever stops waiting does not take the boot along.
    given_up.abort();
    assert!(pool.hosts().is_empty() && pool.origins().is_empty());
    assert!(pool.maintain(&launch.version).await.is_empty());

    drop(held);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!(first, second);
    assert_eq!(pool.hosts(), [first]);
    assert_eq!(pool.origins().len(), 1);
    retire_all(&pool).await;
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_boot_that_is_given_up_ends_at_once_and_leaves_nothing() {
    let home = home_with("");
    // One waits for the lock, the other for a codex that never answers.
    let held = hold_boot_lock(&home);
    let mut silent = launch_in(&home, "-");
    silent.codex = silent_codex(&home);
    silent.identity.codex_home = Some(home.dir().join("other"));
    let (pool, _) = pool_in(&home, Limits::default()).await;
    let boot = |launch: Launch| {
        let pool = pool.clone();
        tokio::spawn(async move { pool.host_for(&launch).await })
    };
    let (waiting, silent) = (boot(launch_in(&home, "-")), boot(silent));
    wait_until(LONG, "a keeper", || pool.origins().len() == 1).await;
    tokio::time::timeout(LONG / 2, pool.give_up_boots()).await.unwrap();
    for boot in [waiting, silent] {
        let error = boot.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the start of codex was cancelled");
    }
    assert!(pool.origins().is_empty());
    drop(held);
    home.assert_no_processes().await;
}

/// A program that takes the arguments of codex and does nothing.
fn silent_codex(home: &Home) -> std::path::PathBuf {
    let path = home.dir().join("silent");
    std::fs::write(&path, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    path
}
