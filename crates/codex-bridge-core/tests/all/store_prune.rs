//! Forgetting a lot holds nobody up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use codex_bridge_core::store::conformance::samples::{add, append, new_task};
use codex_bridge_core::store::{Prune, Store, TaskFilter};
use codex_bridge_core::task::{Status, Task};
use futures_util::future::join;

use crate::store_rig::{Rig, assert_sound, seqs};

const EVENTS: u32 = 40_000;

#[tokio::test(flavor = "multi_thread")]
async fn those_who_write_during_a_huge_prune_are_not_held_up() {
    let rig = Rig::new();
    let store = rig.open();
    let over = Task { status: Status::Completed, ..new_task(1) };
    let working = |number| Task { status: Status::Working, ..new_task(number) };
    store.commit(vec![add(over), add(working(2)), add(working(3))]).await.unwrap();
    for round in 0..20 {
        let numbers = || round..round + EVENTS / 20;
        store.commit(vec![append(1, numbers()), append(2, numbers())]).await.unwrap();
    }
    let done = AtomicBool::new(false);
    let prune = async {
        let begun = Instant::now();
        let pruned = store.prune(Prune { ended_before: i64::MAX, events_per_task: 10 }).await.unwrap();
        done.store(true, Ordering::Relaxed);
        assert_eq!(pruned, 1);
        begun.elapsed()
    };
    let write = async {
        let mut waits = Vec::new();
        while !done.load(Ordering::Relaxed) {
            let begun = Instant::now();
            store.commit(vec![append(3, [1])]).await.unwrap();
            waits.push(begun.elapsed());
        }
        waits
    };
    let (took, waits) = join(prune, write).await;
    let longest = waits.iter().max().unwrap();
    assert!(waits.len() >= 4, "only {} batches were written in {took:?}", waits.len());
    assert!(*longest < took / 2 + Duration::from_millis(100), "{longest:?} of {took:?}");
    assert_eq!(store.tasks(&TaskFilter::default()).await.unwrap().len(), 2);
    assert_eq!(seqs(&store, 2).await, (i64::from(EVENTS) - 9..=EVENTS.into()).collect::<Vec<_>>());
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_prune_gives_space_back_to_the_disk() {
    let rig = Rig::new();
    let store = rig.open();
    let over = Task { status: Status::Completed, ..new_task(1) };
    store.commit(vec![add(over), add(new_task(2)), append(2, 1..=100), append(1, 1..=EVENTS)]).await.unwrap();
    store.commit(vec![append(2, 1..=100)]).await.unwrap();
    let size = || std::fs::metadata(rig.file()).unwrap().len();
    let before = size();
    store.prune(Prune { ended_before: i64::MAX, events_per_task: 1000 }).await.unwrap();
    assert!(size() < before / 2, "{before} before, {} after", size());
    assert_eq!(seqs(&store, 2).await, (1..=200).collect::<Vec<_>>());
    assert_sound(&store).await;
}

/// The next one goes on where it was.
#[tokio::test]
async fn a_prune_that_is_broken_off_leaves_a_sound_store() {
    let rig = Rig::new();
    let store = rig.open();
    let over = Task { status: Status::Completed, ..new_task(1) };
    store.commit(vec![add(over), append(1, 1..=EVENTS)]).await.unwrap();
    let prune = Prune { ended_before: i64::MAX, events_per_task: 10 };
    let mut broken_off = store.prune(prune);
    assert!(futures_util::poll!(&mut broken_off).is_pending());
    drop(broken_off);
    drop(store);
    let store = rig.open();
    assert_sound(&store).await;
    assert_eq!(store.prune(prune).await.unwrap(), 1);
    assert_sound(&store).await;
}
