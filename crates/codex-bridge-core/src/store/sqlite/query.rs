//! Reads as SQL. Each function is one statement, and so sees one state of the store.

use codex_session::RequestKey;
use codex_wire::Epoch;
use rusqlite::types::{FromSqlError, FromSqlResult, Value, ValueRef};
use rusqlite::{Connection, Result, Row, params_from_iter};

use super::cell::{Json, Word};
use super::rows::Record;
use crate::event::{Event, Line, Seq};
use crate::request::{RequestName, RequestRecord, StoredAsk, WholeChanges};
use crate::store::{AuditFilter, AuditLine, RequestFilter, TaskFilter};
use crate::task::{Status, Task, TaskId, TimeMs, TurnRecord};
use crate::token::{Quota, Token};

/// The statuses of finished tasks, as a list in SQL.
pub fn finished_statuses() -> String {
    let finished = Status::ALL.into_iter().filter(|status| status.is_finished());
    finished.map(|status| format!("'{}'", status.as_str())).collect::<Vec<_>>().join(", ")
}

/// A task by its id.
pub fn task(connection: &Connection, id: &TaskId) -> Result<Option<Task>> {
    let mut statement = connection.prepare_cached("SELECT * FROM tasks WHERE id = ?1")?;
    statement.query_map([id.as_str()], Task::read)?.next().transpose()
}

/// Tasks, the newest first.
pub fn tasks(connection: &Connection, filter: &TaskFilter) -> Result<Vec<Task>> {
    let mut conditions = Conditions::default();
    conditions.one_of("status", filter.statuses.iter().map(|status| status.as_str()));
    conditions.is("client_request_id", filter.client_request_id.as_deref());
    conditions.is("thread_id", filter.thread_id.as_deref());
    conditions.begins("id", filter.id_prefix.as_deref());
    if let Some(cwd) = &filter.cwd {
        let cwd = cwd.to_string_lossy();
        let below = if cwd.ends_with('/') { cwd.to_string() } else { format!("{cwd}/") };
        // Compared with `instr`, in which no character of a path has a special meaning.
        conditions.add("instr(rtrim(json_extract(settings, '$.cwd'), '/') || '/', ?) = 1", below);
    }
    if let Some(since) = filter.active_since {
        conditions.terms.push(format!("(status NOT IN ({}) OR updated_at >= ?)", finished_statuses()));
        conditions.values.push(Value::Integer(since));
    }
    if let Some(text) = &filter.text {
        let told = "lower(id || char(10) || prompt_summary || char(10) || coalesce(final_text, ''))";
        conditions.add(&format!("instr({told}, ?) > 0"), text.to_ascii_lowercase());
    }
    if let Some(before) = &filter.before {
        conditions.add("ord < (SELECT ord FROM tasks WHERE id = ?)", before.as_str());
    }
    conditions.select(connection, "tasks", "ord DESC", filter.limit, Task::read)
}

/// The turns of a task, the oldest first.
pub fn turns(connection: &Connection, id: &TaskId) -> Result<Vec<TurnRecord>> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM turns WHERE task_id = ?1 ORDER BY number")?;
    statement.query_map([id.as_str()], TurnRecord::read)?.collect()
}

/// Events after `after`, the oldest first.
pub fn events(connection: &Connection, id: &TaskId, after: Seq, limit: u32) -> Result<Vec<Event>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, kind, body FROM events WHERE task_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    statement.query_map((id.as_str(), after, limit), |row| read_event(row, id))?.collect()
}

/// The last events, the oldest first.
pub fn last_events(connection: &Connection, id: &TaskId, limit: u32) -> Result<Vec<Event>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, kind, body FROM events WHERE task_id = ?1 ORDER BY seq DESC LIMIT ?2",
    )?;
    let mut events: Vec<_> =
        statement.query_map((id.as_str(), limit), |row| read_event(row, id))?.collect::<Result<_>>()?;
    events.reverse();
    Ok(events)
}

/// Requests, the oldest first.
pub fn requests(connection: &Connection, filter: &RequestFilter) -> Result<Vec<RequestRecord>> {
    let mut conditions = Conditions::default();
    conditions.one_of("state", filter.states.iter().map(|state| state.as_str()));
    conditions.is("task_id", filter.task_id.as_ref().map(TaskId::as_str));
    conditions.is("request_id", filter.request_id.as_ref().map(RequestName::as_str));
    if let Some(prefix) = &filter.id_prefix {
        conditions.add("length(?) > 0", prefix.as_str());
        conditions.begins("request_id", Some(prefix));
    }
    if let Some(key) = &filter.key {
        conditions.add("epoch = ?", key.epoch.as_str());
        conditions.add("wire_id = ?", serde_json::json!(key.id).to_string());
    }
    conditions.select(connection, "requests", "ord", filter.limit, read_request)
}

/// The last log line with a diff.
pub fn last_diff(connection: &Connection, id: &TaskId) -> Result<Option<Event>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, kind, body FROM events WHERE task_id = ?1 AND kind = 'diff' ORDER BY seq DESC LIMIT 1",
    )?;
    statement.query_map([id.as_str()], |row| read_event(row, id))?.next().transpose()
}

/// Whether the log has a steer with this id.
pub fn was_steered(connection: &Connection, id: &TaskId, client_id: &str) -> Result<bool> {
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM events WHERE task_id = ?1 AND kind = 'steered' \
         AND json_extract(body, '$.client_id') = ?2)",
    )?;
    statement.query_row((id.as_str(), client_id), |row| row.get(0))
}

/// The complete changes of a request.
pub fn whole_changes(connection: &Connection, request_id: &RequestName) -> Result<Option<WholeChanges>> {
    let mut statement = connection.prepare_cached("SELECT * FROM whole_changes WHERE request_id = ?1")?;
    statement.query_map([request_id], WholeChanges::read)?.next().transpose()
}

/// All tokens, by name.
pub fn tokens(connection: &Connection) -> Result<Vec<Token>> {
    let mut statement = connection.prepare_cached("SELECT * FROM tokens ORDER BY name")?;
    statement.query_map([], read_token)?.collect()
}

/// Lines of the audit log: the newest that match, the oldest first.
pub fn audit(connection: &Connection, filter: &AuditFilter) -> Result<Vec<AuditLine>> {
    let mut conditions = Conditions::default();
    conditions.begins("task_id", filter.task_id_prefix.as_deref());
    conditions.since("at", filter.since);
    let mut lines = conditions.select(connection, "audit", "ord DESC", filter.limit, AuditLine::read)?;
    lines.reverse();
    Ok(lines)
}

/// The conditions of a filter, joined by AND.
#[derive(Default)]
pub struct Conditions {
    /// The terms.
    pub terms: Vec<String>,
    /// The values for the question marks of the terms, in order.
    pub values: Vec<Value>,
}

impl Conditions {
    /// Adds a term with one question mark.
    pub fn add(&mut self, term: &str, value: impl Into<String>) {
        self.terms.push(term.to_owned());
        self.values.push(Value::Text(value.into()));
    }

    /// Adds `column = value`, if there is a value.
    pub fn is(&mut self, column: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(&format!("{column} = ?"), value);
        }
    }

    /// Adds `column >= time`, if there is a time.
    pub fn since(&mut self, column: &str, time: Option<TimeMs>) {
        if let Some(time) = time {
            self.terms.push(format!("{column} >= ?"));
            self.values.push(Value::Integer(time));
        }
    }

    /// Uses a range instead of LIKE: a range uses the index, and no character of the prefix has a special meaning.
    fn begins(&mut self, column: &str, prefix: Option<&str>) {
        if let Some(prefix) = prefix {
            self.add(&format!("{column} >= ?"), prefix);
            self.add(&format!("{column} < ?"), format!("{prefix}{}", char::MAX));
        }
    }

    /// Adds `column IN (…)`. An empty list adds no condition.
    pub fn one_of<'a>(&mut self, column: &str, words: impl Iterator<Item = &'a str>) {
        let before = self.values.len();
        self.values.extend(words.map(|word| Value::Text(word.to_owned())));
        let count = self.values.len() - before;
        if count > 0 {
            self.terms.push(format!("{column} IN ({})", vec!["?"; count].join(", ")));
        }
    }

    /// Reads the rows that match, at most `limit`.
    pub fn select<T>(
        self,
        connection: &Connection,
        table: &str,
        order: &str,
        limit: Option<u32>,
        read: fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let limit = limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
        let sql = format!("SELECT * FROM {table}{} ORDER BY {order}{limit}", self.as_sql());
        connection.prepare_cached(&sql)?.query_map(params_from_iter(self.values), read)?.collect()
    }

    /// The WHERE clause, or nothing.
    pub fn as_sql(&self) -> String {
        if self.terms.is_empty() { String::new() } else { format!(" WHERE {}", self.terms.join(" AND ")) }
    }
}

fn read_request(row: &Row<'_>) -> Result<RequestRecord> {
    Ok(RequestRecord {
        key: RequestKey { epoch: Epoch(row.get("epoch")?), id: json(row, "wire_id")? },
        task_id: row.get("task_id")?,
        request_id: row.get("request_id")?,
        digest: row.get("digest")?,
        method: row.get("method")?,
        ask: StoredAsk::read(row.get_ref("ask")?.as_str()?),
        state: row.get::<_, Word<_>>("state")?.0,
        sealed_ask: row.get("sealed_ask")?,
        sealed_decision: row.get("sealed_decision")?,
        decision: row.get::<_, Option<Word<_>>>("decision")?.map(|word| word.0),
        decided_by: row.get("decided_by")?,
        decided_at: row.get("decided_at")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        closed_at: row.get("closed_at")?,
    })
}

fn read_token(row: &Row<'_>) -> Result<Token> {
    let bytes: i64 = row.get("max_bytes")?;
    let quota =
        Quota { open_tasks: row.get("max_open_tasks")?, bytes: u64::try_from(bytes).unwrap_or_default() };
    Ok(Token {
        quota,
        name: row.get("name")?,
        role: row.get::<_, Word<_>>("role")?.0,
        hash: row.get("hash")?,
        created_at: row.get("created_at")?,
        last_used_at: row.get("last_used_at")?,
        revoked_at: row.get("revoked_at")?,
    })
}

/// Read by position, because events are read by the thousand.
fn read_event(row: &Row<'_>, task_id: &TaskId) -> Result<Event> {
    Ok(Event {
        task_id: Some(task_id.clone()),
        seq: row.get(0)?,
        at: row.get(1)?,
        line: line(row.get_ref(2)?, row.get_ref(3)?)?,
    })
}

fn line(kind: ValueRef<'_>, data: ValueRef<'_>) -> FromSqlResult<Line> {
    Line::read(kind.as_str()?, data.as_str()?).map_err(FromSqlError::other)
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T> {
    row.get::<_, Json<T>>(column).map(|Json(value)| value)
}
