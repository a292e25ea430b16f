//! More than the queues hold, and callers that go away.

use codex_bridge_core::event::{Line, NewEvent, Other};
use codex_bridge_core::store::conformance::samples::{add, append, new_task, task_id};
use codex_bridge_core::store::{Store, Write};
use futures_util::future::join_all;
use serde_json::json;

use crate::store_rig::{Rig, assert_sound, first, seqs};

fn bulky(bytes: usize) -> Write {
    let body = json!({"text": "x".repeat(bytes)}).as_object().cloned().unwrap();
    Write::Append {
        task_id: task_id(1),
        events: vec![NewEvent { at: 0, line: Line::Other(Other { kind: "bulk".into(), data: body }) }],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_batches_and_bytes_than_are_queued_all_go_through() {
    let rig = Rig::new();
    let store = rig.open();
    store.commit(vec![add(new_task(1)), add(new_task(2))]).await.unwrap();
    let large = join_all((0..8).map(|_| store.commit(vec![bulky(10 << 20)])));
    let many = join_all((0..3000).map(|number| store.commit(vec![append(2, [number])])));
    let (large, many) = futures_util::future::join(large, many).await;
    assert!(large.iter().chain(&many).all(Result::is_ok));
    assert_eq!(seqs(&store, 1).await, first(8));
    assert_eq!(seqs(&store, 2).await, first(3000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_larger_than_the_whole_queue_goes_through() {
    let rig = Rig::new();
    let store = rig.open();
    store.commit(vec![add(new_task(1))]).await.unwrap();
    store.commit(vec![bulky(40 << 20)]).await.unwrap();
    let read = store.events(&task_id(1), 0, 1).await.unwrap();
    assert_eq!(crate::workbench::json(&read[0])["text"].as_str().map(str::len), Some(40 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_go_away_take_nothing_with_them() {
    let rig = Rig::new();
    let store = rig.open();
    store.commit(vec![add(new_task(1)), append(1, 1..=1000)]).await.unwrap();
    for _ in 0..200 {
        let _ = futures_util::poll!(store.events(&task_id(1), 0, u32::MAX));
        tokio::task::yield_now().await;
    }
    let id = task_id(1);
    let reads = join_all((0..50).map(|_| store.events(&id, 0, u32::MAX))).await;
    assert!(reads.iter().all(|read| read.as_ref().is_ok_and(|events| events.len() == 1000)));
    assert_sound(&store).await;
}
