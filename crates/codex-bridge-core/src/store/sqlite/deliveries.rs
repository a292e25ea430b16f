//! The outbox as SQL.

use std::sync::LazyLock;

use rusqlite::{Connection, Result, params_from_iter};

use super::apply::{assignments, insert};
use super::fault::BatchError;
use super::query::Conditions;
use super::rows::Record;
use crate::outbox::Delivery;
use crate::store::DeliveryFilter;
use crate::task::TaskId;

static ADD: LazyLock<String> =
    LazyLock::new(|| format!("{} ON CONFLICT (join_key) DO NOTHING", insert("outbox", Delivery::COLUMNS)));
static SAVE: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE outbox SET {} WHERE id = :id", assignments(Delivery::COLUMNS)));

/// Adds a delivery, unless another one has its `join_key`.
pub fn add(connection: &Connection, delivery: &Delivery) -> Result<(), BatchError> {
    delivery.write(connection, &ADD)?;
    Ok(())
}

/// Replaces a delivery.
pub fn save(connection: &Connection, delivery: &Delivery) -> Result<(), BatchError> {
    match delivery.write(connection, &SAVE)? {
        0 => Err(BatchError::refused(format!("there is no delivery {}", delivery.id))),
        _ => Ok(()),
    }
}

/// Deliveries, the newest first.
pub fn find(connection: &Connection, filter: &DeliveryFilter) -> Result<Vec<Delivery>> {
    let mut conditions = Conditions::default();
    conditions.one_of("state", filter.states.iter().map(|state| state.as_str()));
    conditions.one_of("task_id", filter.task_ids.iter().map(TaskId::as_str));
    if let Some(id) = &filter.id {
        conditions.add("id = ?", id.as_str());
    }
    if let Some(target) = &filter.target {
        conditions.add("target = ?", target.as_str());
    }
    if filter.target_gone {
        conditions.terms.push("target_gone".to_owned());
    }
    if let Some(request_id) = &filter.request_id {
        let tells_of = "EXISTS (SELECT 1 FROM json_each(notice, '$.requests') \
                        WHERE json_extract(value, '$.request_id') = ?)";
        conditions.add(tells_of, request_id.as_str());
    }
    if let Some(since) = filter.since {
        // Safe in SQL text, because it is a number.
        conditions.terms.push(format!("updated_at >= {since}"));
    }
    let limit = filter.limit.map_or(-1, i64::from);
    let sql = format!("SELECT * FROM outbox{} ORDER BY ord DESC LIMIT {limit}", conditions.as_sql());
    let mut statement = connection.prepare(&sql)?;
    statement.query_map(params_from_iter(conditions.values), Delivery::read)?.collect()
}

/// For each target, the unfinished delivery that is due first. Of the replies of a task only the oldest counts.
pub fn next(connection: &Connection) -> Result<Vec<Delivery>> {
    let mut statement = connection.prepare_cached(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY target ORDER BY next_at, ord) AS place \
         FROM outbox WHERE state IN ('pending', 'attempting') AND (NOT is_reply OR ord IN \
         (SELECT min(ord) FROM outbox WHERE is_reply AND state IN ('pending', 'attempting') \
         GROUP BY target, task_id))) \
         WHERE place = 1 ORDER BY next_at, ord",
    )?;
    statement.query_map([], Delivery::read)?.collect()
}
