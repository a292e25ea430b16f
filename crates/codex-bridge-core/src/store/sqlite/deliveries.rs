//! The outbox as SQL.

use rusqlite::{Connection, Result};

use super::query::Conditions;
use super::rows::Record;
use crate::outbox::{Delivery, DeliveryId};
use crate::store::DeliveryFilter;
use crate::task::TaskId;

/// Deliveries, the newest first.
pub fn find(connection: &Connection, filter: &DeliveryFilter) -> Result<Vec<Delivery>> {
    let mut conditions = Conditions::default();
    conditions.one_of("state", filter.states.iter().map(|state| state.as_str()));
    conditions.one_of("task_id", filter.task_ids.iter().map(TaskId::as_str));
    conditions.is("id", filter.id.as_ref().map(DeliveryId::as_str));
    conditions.is("target", filter.target.as_deref());
    conditions.since("updated_at", filter.since);
    if filter.target_gone {
        conditions.terms.push("target_gone".to_owned());
    }
    if let Some(request_id) = &filter.request_id {
        let tells_of = "EXISTS (SELECT 1 FROM json_each(notice, '$.requests') \
                        WHERE json_extract(value, '$.request_id') = ?)";
        conditions.add(tells_of, request_id.as_str());
    }
    conditions.select(connection, "outbox", "ord DESC", filter.limit, Delivery::read)
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
