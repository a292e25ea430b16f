//! How many there are of what, as SQL: counted on the indexes, in one statement and so at one moment.

use rusqlite::{Connection, Result};

use super::cell::Word;
use crate::store::Counts;

const COUNTS: &str = "SELECT 'task', count(*), NULL, status FROM tasks GROUP BY status
    UNION ALL SELECT 'request', count(*), NULL, NULL FROM requests WHERE state = 'open'
    UNION ALL SELECT 'delivery', count(*), min(created_at), NULL FROM outbox
        WHERE state IN ('pending', 'attempting')";

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
