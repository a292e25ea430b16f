//! Stories about counts.

use std::collections::HashMap;

use super::samples::{add, delivery, full_task, new_task};
use super::{commit, save_request};
use crate::outbox::DeliveryState;
use crate::request::RequestState;
use crate::store::{Counts, Store, Write};
use crate::task::Status;

/// Every row is counted once.
pub async fn what_is_there_is_counted(store: &impl Store) {
    assert_eq!(store.counts().await.unwrap(), Counts::default(), "there is nothing");
    let mut batch: Vec<_> = [1, 2, 3].map(|number| add(new_task(number))).into();
    batch.push(add(full_task(4)));
    batch.push(save_request(1, 1, RequestState::Open));
    batch.push(save_request(1, 2, RequestState::Open));
    batch.push(save_request(2, 3, RequestState::Decided));
    for (number, state) in DeliveryState::ALL.into_iter().enumerate() {
        let mut delivery = delivery(1, &format!("dlv-{number}"));
        // The oldest delivery of all is a delivered one.
        let age = if state == DeliveryState::Delivered { 100 } else { i64::try_from(number).unwrap() };
        (delivery.state, delivery.created_at) = (state, 1_700_000_000_000 - age);
        batch.push(Write::AddDelivery(Box::new(delivery)));
    }
    commit(store, batch).await;
    let mut expected = Counts {
        tasks: HashMap::from([(Status::Queued, 3), (Status::Paused, 1)]),
        open_requests: 2,
        unsent: 2,
        oldest_unsent_at: Some(1_700_000_000_000 - 1),
    };
    assert_eq!(store.counts().await.unwrap(), expected);
    let mut task = new_task(2);
    task.status = Status::Completed;
    commit(store, vec![Write::SaveTask(Box::new(task)), save_request(1, 1, RequestState::Resolved)]).await;
    expected.tasks.extend([(Status::Queued, 2), (Status::Completed, 1)]);
    expected.open_requests = 1;
    assert_eq!(store.counts().await.unwrap(), expected);
}
