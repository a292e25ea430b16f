//! Stories about the outbox.

use super::samples::{add, delivery, full_task, new_task, request, task_id};
use super::{commit, prune, refused};
use crate::outbox::notice::{Content, Reply};
use crate::outbox::{Delivery, DeliveryState, Notice};
use crate::request::RequestState;
use crate::store::{DeliveryFilter, Error, Store, Write};
use crate::task::{Status, Task};
use codex_wire::RequestId;

fn adds(delivery: &Delivery) -> Write {
    Write::AddDelivery(Box::new(delivery.clone()))
}

async fn found(store: &dyn Store, filter: DeliveryFilter) -> Vec<String> {
    store.deliveries(&filter).await.unwrap().into_iter().map(|delivery| delivery.id.0).collect()
}

async fn next(store: &dyn Store) -> Vec<String> {
    store.next_deliveries().await.unwrap().into_iter().map(|delivery| delivery.id.0).collect()
}

/// Every field is stored; the newest comes first.
pub async fn deliveries_are_found_by_name_task_and_state(store: &impl Store) {
    let mut asks = delivery(1, "c");
    asks.notice = Notice::of_request(&full_task(1), &request(1, RequestId::Number(0), RequestState::Open));
    let (one, two) = (delivery(1, "a"), Delivery { state: DeliveryState::Dead, ..delivery(2, "b") });
    let batch = vec![add(full_task(1)), add(new_task(2)), adds(&one), adds(&two), adds(&asks)];
    commit(store, batch).await;
    let all = store.deliveries(&DeliveryFilter::default()).await.unwrap();
    assert_eq!(all, [asks.clone(), two.clone(), one.clone()]);
    let any = DeliveryFilter::default();
    assert_eq!(found(store, DeliveryFilter { limit: Some(1), ..any.clone() }).await, ["c"]);
    assert_eq!(found(store, DeliveryFilter { id: Some("b".into()), ..any.clone() }).await, ["b"]);
    assert_eq!(
        found(store, DeliveryFilter { states: vec![DeliveryState::Dead], ..any.clone() }).await,
        ["b"]
    );
    let to = |target: &str| DeliveryFilter { target: Some(target.into()), ..DeliveryFilter::default() };
    assert_eq!(found(store, DeliveryFilter { since: Some(i64::MAX), ..any.clone() }).await, [""; 0]);
    assert_eq!(found(store, to("webhook:other")).await, [""; 0]);
    assert_eq!(found(store, DeliveryFilter { target_gone: true, ..to("webhook:ci") }).await, ["c", "b", "a"]);
    let request_id = Some(asks.notice.requests()[0].request_id.clone());
    assert_eq!(found(store, DeliveryFilter { request_id, ..any.clone() }).await, ["c"]);
    let of_one = DeliveryFilter { task_ids: vec![task_id(1), task_id(9)], ..any };
    assert_eq!(found(store, of_one).await, ["c", "a"]);
    let saved =
        Delivery { state: DeliveryState::Delivered, last_error: None, message_id: Some("9".into()), ..one };
    commit(store, vec![Write::SaveDelivery(Box::new(saved.clone()))]).await;
    assert_eq!(store.deliveries(&DeliveryFilter::default()).await.unwrap()[2], saved);
    let unknown = Write::SaveDelivery(Box::new(delivery(1, "d")));
    assert!(matches!(refused(store, vec![unknown]).await, Error::Other(_)));
    assert!(matches!(refused(store, vec![adds(&delivery(9, "e"))]).await, Error::Other(_)), "no such task");
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// Deliveries join until the first attempt clears the key.
pub async fn what_has_the_same_key_joins_until_it_is_tried(store: &impl Store) {
    let keyed = |id| Delivery { join_key: Some("key".into()), ..delivery(1, id) };
    commit(store, vec![add(new_task(1)), adds(&keyed("a")), adds(&keyed("b"))]).await;
    commit(store, vec![adds(&keyed("c"))]).await;
    assert_eq!(found(store, DeliveryFilter::default()).await, ["a"]);
    let tried = Delivery { join_key: None, state: DeliveryState::Attempting, ..keyed("a") };
    commit(store, vec![Write::SaveDelivery(Box::new(tried)), adds(&keyed("d"))]).await;
    assert_eq!(found(store, DeliveryFilter::default()).await, ["d", "a"]);
    // Deliveries without a key join nothing.
    commit(store, vec![adds(&delivery(1, "e")), adds(&delivery(1, "f"))]).await;
    assert_eq!(found(store, DeliveryFilter::default()).await.len(), 4);
}

/// The delivery that is due first, and of several the oldest.
pub async fn of_each_target_one_delivery_is_next(store: &impl Store) {
    let to = |id, target: &str, next_at, state| Delivery {
        target: target.into(),
        next_at,
        state,
        ..delivery(1, id)
    };
    let batch = vec![
        add(new_task(1)),
        adds(&to("a", "x", 50, DeliveryState::Pending)),
        adds(&to("b", "x", 20, DeliveryState::Pending)),
        adds(&to("c", "x", 20, DeliveryState::Pending)),
        adds(&to("d", "x", 10, DeliveryState::Delivered)),
        adds(&to("e", "y", 5, DeliveryState::Attempting)),
        adds(&to("f", "z", 1, DeliveryState::Dead)),
        adds(&to("g", "z", 1, DeliveryState::Withdrawn)),
    ];
    commit(store, batch).await;
    assert_eq!(next(store).await, ["e", "b"]);
}

/// The oldest reply of a task holds back its later replies, but neither a notice nor other tasks' replies.
pub async fn replies_to_a_target_keep_their_order(store: &impl Store) {
    let to = |id, target: &str, next_at, state, notice: &Notice| Delivery {
        target: target.into(),
        next_at,
        state,
        notice: notice.clone(),
        ..delivery(1, id)
    };
    let reply = Notice { at: 1, content: Content::Reply(Reply::new(None, "so")) };
    let notice = Notice { at: 1, content: Content::Test };
    let batch = vec![
        add(new_task(1)),
        adds(&to("out", "x", 1, DeliveryState::Delivered, &reply)),
        adds(&to("head", "x", 90, DeliveryState::Pending, &reply)),
        adds(&to("behind", "x", 10, DeliveryState::Pending, &reply)),
        adds(&to("other", "y", 5, DeliveryState::Pending, &reply)),
        adds(&to("cut off", "z", 70, DeliveryState::Attempting, &reply)),
        adds(&to("waits", "z", 20, DeliveryState::Pending, &reply)),
    ];
    commit(store, batch).await;
    assert_eq!(next(store).await, ["other", "cut off", "head"]);
    commit(store, vec![adds(&to("news", "x", 50, DeliveryState::Pending, &notice))]).await;
    assert_eq!(next(store).await, ["other", "news", "cut off"]);
    let dead = to("head", "x", 90, DeliveryState::Dead, &reply);
    commit(store, vec![Write::SaveDelivery(Box::new(dead))]).await;
    assert_eq!(next(store).await, ["other", "behind", "cut off"]);
    let of_another =
        Delivery { task_id: Some(task_id(2)), ..to("another", "y", 3, DeliveryState::Pending, &reply) };
    let of_none = Delivery { task_id: None, ..to("none", "z", 4, DeliveryState::Pending, &reply) };
    let behind_it = Delivery { task_id: None, ..to("behind it", "z", 2, DeliveryState::Pending, &reply) };
    commit(store, vec![add(new_task(2)), adds(&of_another), adds(&of_none), adds(&behind_it)]).await;
    assert_eq!(next(store).await, ["another", "none", "behind"]);
}

/// A task with an unfinished delivery is kept; finished deliveries are deleted with it.
pub async fn a_task_with_something_to_send_is_not_forgotten(store: &impl Store) {
    let ended = |number| Task { status: Status::Completed, ..new_task(number) };
    let mut batch: Vec<Write> = (1..=4).map(|number| add(ended(number))).collect();
    let states =
        [DeliveryState::Pending, DeliveryState::Attempting, DeliveryState::Delivered, DeliveryState::Dead];
    for (number, (id, state)) in (1..).zip(["a", "b", "c", "d"].into_iter().zip(states)) {
        batch.push(adds(&Delivery { state, ..delivery(number, id) }));
    }
    commit(store, batch).await;
    let pruned = prune(store, i64::MAX, 10).await;
    assert_eq!(pruned, 2);
    assert_eq!(found(store, DeliveryFilter::default()).await, ["b", "a"]);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}
