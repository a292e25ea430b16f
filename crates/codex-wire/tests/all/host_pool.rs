//! The pool: hosts taken over, shared, retired and replaced, on the real Codex.

use std::time::Duration;

use codex_wire::host::pool::{Change, Placed, Pool};
use codex_wire::host::retirement::{Limits, Reason};
use codex_wire::host::{Host, Identity, Launch};
use rustix::process::Signal;
use testkit::rig::Home;
use testkit::wait_until;

use crate::host_rig::{LONG, home_with, launch_in};

async fn pool_in(home: &Home, limits: Limits) -> (Pool, Vec<Change>) {
    Pool::attach(&home.dir().join("p"), limits).await.unwrap()
}

async fn placed(pool: &mut Pool, launch: &Launch) -> Host {
    match pool.host_for(launch).await.unwrap() {
        Placed::On(host) => host,
        Placed::Wait => panic!("no host now"),
    }
}

/// Ends all hosts by asking for another version.
async fn retire_all(pool: &mut Pool) {
    pool.maintain("another").await;
    assert_eq!(pool.hosts().count(), 0);
}

#[tokio::test]
async fn a_host_is_shared_until_it_is_full_and_taken_over_by_the_next_pool() {
    let home = home_with("");
    let launch = launch_in(&home, "-");
    let limits = Limits { max_threads: 2, ..Limits::default() };
    let (mut pool, changes) = pool_in(&home, limits).await;
    assert!(changes.is_empty());

    let first = placed(&mut pool, &launch).await;
    pool.thread_opened(first.id(), "t1");
    assert_eq!(placed(&mut pool, &launch).await, first);
    pool.thread_opened(first.id(), "t2");
    let second = placed(&mut pool, &launch).await;
    assert_ne!(second, first);
    pool.thread_closed(first.id(), "t1");
    assert_eq!(placed(&mut pool, &launch).await, first);
    drop(pool);

    let (mut pool, changes) = pool_in(&home, limits).await;
    assert!(changes.is_empty(), "{changes:?}");
    let mut found: Vec<&str> = pool.hosts().map(Host::id).collect();
    let mut expected = [first.id(), second.id()];
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    retire_all(&mut pool).await;
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_home_with_one_refresher_waits_instead_of_getting_a_second_host() {
    let home = home_with("");
    let mut launch = launch_in(&home, "-");
    launch.identity = Identity { exclusive_home: true, ..launch.identity };
    let (mut pool, _) = pool_in(&home, Limits { max_threads: 1, ..Limits::default() }).await;
    let host = placed(&mut pool, &launch).await;
    pool.thread_opened(host.id(), "t1");
    assert_eq!(pool.host_for(&launch).await.unwrap(), Placed::Wait);
    pool.thread_closed(host.id(), "t1");
    assert_eq!(placed(&mut pool, &launch).await, host);
    retire_all(&mut pool).await;
}

#[tokio::test]
async fn a_host_of_another_version_is_retired_when_its_turn_is_over() {
    let home = home_with("");
    let launch = launch_in(&home, "-");
    let (mut pool, _) = pool_in(&home, Limits::default()).await;
    let host = placed(&mut pool, &launch).await;
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
    let (mut pool, _) = pool_in(&home, limits).await;
    let host = placed(&mut pool, &launch).await;
    pool.turn_started(host.id());
    host.record().codex.signal(Signal::STOP).unwrap();
    // Its threads stop one by one; the first look may still find it well.
    let mut changes = Vec::new();
    while changes.is_empty() {
        changes = pool.maintain(&launch.version).await;
    }
    assert!(matches!(changes.as_slice(), [Change::Retiring { reason: Reason::Silent, .. }]), "{changes:?}");
    assert_ne!(placed(&mut pool, &launch).await, host);
    pool.turn_ended(host.id());
    let changes = pool.maintain(&launch.version).await;
    assert!(matches!(changes.as_slice(), [Change::Retired { id }] if id == host.id()), "{changes:?}");
    retire_all(&mut pool).await;
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_dead_host_is_told_cleared_away_and_replaced() {
    let home = home_with("");
    let launch = launch_in(&home, "-");
    let (mut pool, _) = pool_in(&home, Limits::default()).await;
    let host = placed(&mut pool, &launch).await;
    host.record().codex.signal(Signal::KILL).unwrap();
    wait_until(LONG, "the keeper to end", || !host.has_keeper()).await;

    let next = placed(&mut pool, &launch).await;
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
    assert_eq!(pool.hosts().count(), 0);
    assert!(!next.dir().exists());
    home.assert_no_processes().await;
}
