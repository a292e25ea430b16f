//! Counts rows on the indexes, in one statement and so in one state of the store.

use rusqlite::{Connection, Result};

use std::sync::LazyLock;

use super::cell::Word;
use super::query::finished_statuses;
use crate::store::Counts;
use crate::token::Used;

const COUNTS: &str = "SELECT 'task', count(*), NULL, status FROM tasks GROUP BY status
    UNION ALL SELECT 'request', count(*), NULL, NULL FROM requests WHERE state = 'open'
    UNION ALL SELECT 'delivery', count(*), min(created_at), NULL FROM outbox
        WHERE state IN ('pending', 'attempting')";

/// What a token has used: its unfinished and parked tasks, and the bytes that it has handed over.
static USED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT (SELECT count(*) FROM tasks WHERE token = ?1 AND (status NOT IN ({}) OR parked IS NOT NULL)), \
         (SELECT coalesce(sum(bytes), 0) FROM handed_over WHERE token = ?1)",
        finished_statuses()
    )
});

/// What a token has used of its quota.
pub fn used(connection: &Connection, token: &str) -> Result<Used> {
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    connection
        .prepare_cached(&USED)?
        .query_row([token], |row| Ok(Used { open_tasks: count(row.get(0)?), bytes: count(row.get(1)?) }))
}

/// All counts.
pub fn counts(connection: &Connection) -> Result<Counts> {
    let mut statement = connection.prepare_cached(COUNTS)?;
    let (mut rows, mut counts) = (statement.query([])?, Counts::default());
    while let Some(row) = rows.next()? {
        let count = u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default();
        match row.get_ref(0)?.as_str()? {
            "task" => drop(counts.tasks.insert(row.get::<_, Word<_>>(3)?.0, count)),
            "request" => counts.open_requests = count,
            _ => (counts.unsent, counts.oldest_unsent_at) = (count, row.get(2)?),
        }
    }
    Ok(counts)
}
