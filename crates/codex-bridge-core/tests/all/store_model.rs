//! Whatever is written in whatever order, SQLite and the store in memory cannot be told apart.

use codex_bridge_core::request::RequestState;
use codex_bridge_core::store::conformance::samples::{
    add, append, full_task, new_task, request, task_id, turn,
};
use codex_bridge_core::store::{Error, Prune, RequestFilter, Store, TaskFilter, Write};
use codex_bridge_core::task::{Status, Task};
use codex_wire::RequestId;
use proptest::prelude::*;

use crate::memory_store::Memory;
use crate::store_rig::{Rig, assert_sound};

const TASKS: u32 = 4;

fn any_task() -> impl Strategy<Value = Task> {
    let status = proptest::sample::select(Status::ALL.to_vec());
    let client = proptest::option::weighted(0.3, 0..3_u32);
    (0..TASKS, status, client, any::<bool>(), 0..10_i64).prop_map(|(number, status, client, is_full, at)| {
        Task {
            status,
            client_request_id: client.map(|client| format!("client-{client}")),
            updated_at: at,
            completed_at: is_full.then_some(at / 2),
            ..if is_full { full_task(number) } else { new_task(number) }
        }
    })
}

fn any_write() -> impl Strategy<Value = Write> {
    let state =
        proptest::sample::select(vec![RequestState::Open, RequestState::Decided, RequestState::Resolved]);
    prop_oneof![
        3 => any_task().prop_map(add),
        3 => any_task().prop_map(|task| Write::SaveTask(Box::new(task))),
        2 => (0..TASKS, 0..3_u32).prop_map(|(task, number)| Write::SaveTurn(Box::new(turn(task, number)))),
        2 => (0..TASKS, 0..6_i64, state)
            .prop_map(|(task, id, state)| Write::SaveRequest(Box::new(request(task, RequestId::Number(id), state)))),
        5 => (0..TASKS, 0..5_u32).prop_map(|(task, count)| append(task, 0..count)),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Write>),
    Prune(Prune),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => proptest::collection::vec(any_write(), 0..5).prop_map(Step::Commit),
        1 => (0..10_i64, 0..6_u32)
            .prop_map(|(ended_before, events_per_task)| Step::Prune(Prune { ended_before, events_per_task })),
    ]
}

/// The words of an error are a store's own; the kind is not.
fn kind(error: Error) -> Error {
    match error {
        Error::Other(_) => Error::Other(String::new()),
        error => error,
    }
}

async fn compare(steps: Vec<Step>) {
    let rig = Rig::new();
    let (sqlite, memory) = (rig.open(), Memory::default());
    for step in steps {
        match step {
            Step::Commit(batch) => {
                let (real, model) = (sqlite.commit(batch.clone()).await, memory.commit(batch.clone()).await);
                assert_eq!(real.map_err(kind), model.map_err(kind), "{batch:?}");
            }
            Step::Prune(prune) => {
                assert_eq!(sqlite.prune(prune).await, memory.prune(prune).await, "{prune:?}");
            }
        }
    }
    for status in Status::ALL {
        let filter = TaskFilter { statuses: vec![status], ..TaskFilter::default() };
        assert_eq!(sqlite.tasks(&filter).await, memory.tasks(&filter).await);
    }
    let all = TaskFilter::default();
    assert_eq!(sqlite.tasks(&all).await, memory.tasks(&all).await);
    let all = RequestFilter::default();
    assert_eq!(sqlite.requests(&all).await, memory.requests(&all).await);
    for task in 0..TASKS {
        let id = task_id(task);
        let before = TaskFilter { before: Some(id.clone()), limit: Some(2), ..TaskFilter::default() };
        assert_eq!(sqlite.tasks(&before).await, memory.tasks(&before).await);
        assert_eq!(sqlite.turns(&id).await, memory.turns(&id).await);
        assert_eq!(sqlite.events(&id, 2, 3).await, memory.events(&id, 2, 3).await);
        assert_eq!(sqlite.last_events(&id, 100).await, memory.last_events(&id, 100).await);
    }
    assert_sound(&sqlite).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_does_what_the_model_does(steps in proptest::collection::vec(any_step(), 1..40)) {
        tokio::runtime::Runtime::new().unwrap().block_on(compare(steps));
    }
}
