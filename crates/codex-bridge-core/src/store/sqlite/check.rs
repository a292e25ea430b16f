//! Looks for damage: SQLite's own checks, and rules between our rows.

use rusqlite::{Connection, ErrorCode, Result};

use super::{deliveries, query};
use crate::store::{DeliveryFilter, RequestFilter};
use crate::task::TaskId;

/// The limit for findings.
const AT_MOST: usize = 100;

/// Each rule: the sentence for a finding, and a query for the names of the offending rows.
const RULES: [(&str, &str); 13] = [
    (
        "the log of task {} has gaps",
        "SELECT logs.task_id FROM logs LEFT JOIN \
         (SELECT task_id, count(*) AS count, min(seq) AS low, max(seq) AS high FROM events GROUP BY task_id) AS found \
         ON found.task_id = logs.task_id \
         WHERE coalesce(count, 0) <> last_seq - first_seq + 1 \
         OR (count > 0 AND (low <> first_seq OR high <> last_seq))",
    ),
    ("task {} has no log", "SELECT id FROM tasks WHERE id NOT IN (SELECT task_id FROM logs)"),
    (
        "there is a log of task {}, which is not there",
        "SELECT task_id FROM logs WHERE task_id NOT IN (SELECT id FROM tasks)",
    ),
    (
        "there are events of task {}, which is not there",
        "SELECT DISTINCT task_id FROM events WHERE task_id NOT IN (SELECT task_id FROM logs)",
    ),
    ("an event of task {} is not JSON", "SELECT DISTINCT task_id FROM events WHERE NOT json_valid(body)"),
    (
        "there are turns of task {}, which is not there",
        "SELECT DISTINCT task_id FROM turns WHERE task_id NOT IN (SELECT id FROM tasks)",
    ),
    (
        "what was handed over to task {} is counted, and it is not there",
        "SELECT DISTINCT task_id FROM handed_over WHERE task_id NOT IN (SELECT id FROM tasks)",
    ),
    (
        "request {} belongs to a task that is not there",
        "SELECT request_id FROM requests WHERE task_id NOT IN (SELECT id FROM tasks)",
    ),
    (
        "the changes of request {} belong to a task that is not there",
        "SELECT request_id FROM whole_changes WHERE task_id NOT IN (SELECT id FROM tasks)",
    ),
    (
        "the changes of request {} are not JSON",
        "SELECT request_id FROM whole_changes WHERE NOT json_valid(changes)",
    ),
    (
        "delivery {} belongs to a task that is not there",
        "SELECT id FROM outbox WHERE task_id NOT IN (SELECT id FROM tasks)",
    ),
    (
        "message {} belongs to a task that is not there",
        "SELECT id FROM inbox WHERE task_id NOT IN (SELECT id FROM tasks)",
    ),
    (
        "there are files of message {}, which is not there",
        "SELECT DISTINCT message_id FROM attachments WHERE message_id NOT IN (SELECT id FROM inbox)",
    ),
];

/// All findings; empty means sound.
pub fn findings(connection: &Connection) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    match look(connection, &mut findings) {
        Err(error) if is_damage(&error) => findings.push(error.to_string()),
        outcome => outcome?,
    }
    findings.truncate(AT_MOST);
    Ok(findings)
}

fn look(connection: &Connection, findings: &mut Vec<String>) -> Result<()> {
    // One transaction, so that all queries see the same state.
    let transaction = connection.unchecked_transaction()?;
    let lines = names(&transaction, &format!("PRAGMA integrity_check({AT_MOST})"))?;
    findings.extend(lines.into_iter().filter(|line| line != "ok"));
    for (sentence, query) in RULES {
        findings.extend(names(&transaction, query)?.iter().map(|name| sentence.replace("{}", name)));
    }
    for id in names(&transaction, "SELECT id FROM tasks ORDER BY ord")? {
        match read(&transaction, &TaskId(id.clone())) {
            Err(error) if is_damage(&error) => findings.push(format!("task {id} cannot be read: {error}")),
            outcome => outcome?,
        }
    }
    Ok(())
}

fn names(connection: &Connection, query: &str) -> Result<Vec<String>> {
    connection.prepare_cached(query)?.query_map([], |row| row.get(0))?.collect()
}

/// Reads everything of a task except its events.
fn read(connection: &Connection, id: &TaskId) -> Result<()> {
    query::task(connection, id)?;
    query::turns(connection, id)?;
    query::requests(connection, &RequestFilter { task_id: Some(id.clone()), ..RequestFilter::default() })?;
    deliveries::find(
        connection,
        &DeliveryFilter { task_ids: vec![id.clone()], ..DeliveryFilter::default() },
    )?;
    Ok(())
}

/// Whether the error means damage. Others, such as a full disk, say nothing about the data.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..) => true,
        // SQLite reports damage when a statement runs, or already when it is prepared.
        error => {
            let code = error.sqlite_error_code();
            code.is_some_and(|code| matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        }
    }
}
