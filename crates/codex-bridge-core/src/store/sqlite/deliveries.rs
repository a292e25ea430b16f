//! The outbox as SQL.

use std::sync::LazyLock;

use rusqlite::{Connection, Result, Row, named_params, params_from_iter};

use super::apply::{assignments, insert};
use super::cell::{Json, Word};
use super::fault::BatchError;
use super::query::Conditions;
use crate::outbox::Delivery;
use crate::store::DeliveryFilter;
use crate::task::TaskId;

const COLUMNS: [&str; 16] = [
    "id",
    "task_id",
    "target",
    "notice",
    "join_key",
    "state",
    "attempts",
    "broken_off",
    "in_doubt",
    "target_gone",
    "next_at",
    "last_error",
    "message_id",
    "created_at",
    "taken_up_at",
    "updated_at",
];

static ADD: LazyLock<String> =
    LazyLock::new(|| format!("{} ON CONFLICT (join_key) DO NOTHING", insert("outbox", &COLUMNS)));
static SAVE: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE outbox SET {} WHERE id = :id", assignments(&COLUMNS)));

/// Adds a delivery, unless another one has its `join_key`.
pub fn add(connection: &Connection, delivery: &Delivery) -> Result<(), BatchError> {
    write(connection, &ADD, delivery)?;
    Ok(())
}

/// Replaces a delivery.
pub fn save(connection: &Connection, delivery: &Delivery) -> Result<(), BatchError> {
    match write(connection, &SAVE, delivery)? {
        0 => Err(BatchError::refused(format!("there is no delivery {}", delivery.id))),
        _ => Ok(()),
    }
}

fn write(connection: &Connection, sql: &str, delivery: &Delivery) -> Result<usize, BatchError> {
    Ok(connection.prepare_cached(sql)?.execute(named_params! {
        ":id": delivery.id,
        ":task_id": delivery.task_id,
        ":target": delivery.target,
        ":notice": Json(&delivery.notice),
        ":join_key": delivery.join_key,
        ":state": delivery.state.as_str(),
        ":attempts": delivery.attempts,
        ":broken_off": delivery.broken_off,
        ":in_doubt": delivery.in_doubt,
        ":target_gone": delivery.target_gone,
        ":next_at": delivery.next_at,
        ":last_error": delivery.last_error,
        ":message_id": delivery.message_id,
        ":created_at": delivery.created_at,
        ":taken_up_at": delivery.taken_up_at,
        ":updated_at": delivery.updated_at,
    })?)
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
    statement.query_map(params_from_iter(conditions.values), read)?.collect()
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
    statement.query_map([], read)?.collect()
}

fn read(row: &Row<'_>) -> Result<Delivery> {
    Ok(Delivery {
        id: row.get("id")?,
        task_id: row.get("task_id")?,
        target: row.get("target")?,
        notice: row.get::<_, Json<_>>("notice")?.0,
        join_key: row.get("join_key")?,
        state: row.get::<_, Word<_>>("state")?.0,
        attempts: row.get("attempts")?,
        broken_off: row.get("broken_off")?,
        in_doubt: row.get("in_doubt")?,
        target_gone: row.get("target_gone")?,
        next_at: row.get("next_at")?,
        last_error: row.get("last_error")?,
        message_id: row.get("message_id")?,
        created_at: row.get("created_at")?,
        taken_up_at: row.get("taken_up_at")?,
        updated_at: row.get("updated_at")?,
    })
}
