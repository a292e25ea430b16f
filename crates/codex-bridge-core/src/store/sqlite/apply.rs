//! Applies one batch as SQL. The caller begins and ends the transaction.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, named_params};

use super::cell::{Json, Word};
use super::deliveries;
use super::fault::BatchError;
use super::messages;
use super::rows::Record;
use crate::event::{NewEvent, Seq};
use crate::request::{RequestRecord, WholeChanges};
use crate::store::{Error, Write};
use crate::task::{Task, TaskId, TimeMs, TurnRecord};
use crate::token::Token;

const REQUEST: [&str; 16] = [
    "request_id",
    "digest",
    "epoch",
    "wire_id",
    "task_id",
    "method",
    "ask",
    "state",
    "sealed_ask",
    "sealed_decision",
    "decision",
    "decided_by",
    "decided_at",
    "created_at",
    "expires_at",
    "closed_at",
];

const TOKEN: [&str; 8] =
    ["name", "role", "max_open_tasks", "max_bytes", "hash", "created_at", "last_used_at", "revoked_at"];

const HAND_OVER: &str = "INSERT INTO handed_over (task_id, token, bytes) VALUES (?1, ?2, ?3) \
    ON CONFLICT (task_id, token) DO UPDATE SET bytes = bytes + excluded.bytes";

static ADD_TASK: LazyLock<String> = LazyLock::new(|| insert("tasks", Task::COLUMNS));
static SAVE_TASK: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE tasks SET {} WHERE id = :id", assignments(Task::COLUMNS)));
static SAVE_TURN: LazyLock<String> =
    LazyLock::new(|| upsert("turns", TurnRecord::COLUMNS, "task_id, number"));
static SAVE_REQUEST: LazyLock<String> = LazyLock::new(|| upsert("requests", &REQUEST, "request_id"));

static SAVE_TOKEN: LazyLock<String> = LazyLock::new(|| upsert("tokens", &TOKEN, "name"));

/// An INSERT of all columns, with parameters by name.
pub fn insert(table: &str, columns: &[&str]) -> String {
    format!("INSERT INTO {table} ({}) VALUES (:{})", columns.join(", "), columns.join(", :"))
}

/// An INSERT that replaces a row with the same key.
pub fn upsert(table: &str, columns: &[&str], key: &str) -> String {
    format!("{} ON CONFLICT ({key}) DO UPDATE SET {}", insert(table, columns), assignments(columns))
}

/// Sets each column to the parameter of its name.
pub fn assignments(columns: &[&str]) -> String {
    columns.iter().map(|column| format!("{column} = :{column}")).collect::<Vec<_>>().join(", ")
}

/// Applies a batch. `bodies` are the JSON bodies of its events, in order. Returns the first number of each `Append`.
pub fn batch(connection: &Connection, writes: &[Write], bodies: &[String]) -> Result<Vec<Seq>, BatchError> {
    let mut bodies = bodies;
    let mut firsts = Vec::new();
    for write in writes {
        match write {
            Write::AddTask(task) => add_task(connection, task)?,
            Write::SaveTask(task) => save_task(connection, task)?,
            Write::SaveTurn(turn) => drop(turn.write(connection, &SAVE_TURN)?),
            Write::SaveRequest(request) => save_request(connection, request)?,
            Write::SaveWholeChanges(whole) => add_whole_changes(connection, whole)?,
            Write::Append { task_id, events } => {
                let (own, rest) = bodies.split_at(events.len());
                firsts.push(append(connection, task_id, events, own)?);
                bodies = rest;
            }
            Write::AddDelivery(delivery) => deliveries::add(connection, delivery)?,
            Write::SaveDelivery(delivery) => deliveries::save(connection, delivery)?,
            Write::AddMessage(message) => messages::add(connection, message)?,
            Write::SaveMessage(message) => messages::save(connection, message)?,
            Write::SaveConversation(conversation) => messages::save_conversation(connection, conversation)?,
            Write::SaveChannel(channel) => messages::save_channel(connection, channel)?,
            Write::SaveToken(token) => save_token(connection, token)?,
            Write::HandOver { task_id, token, bytes } => hand_over(connection, task_id, token, *bytes)?,
            Write::Audit { at, actor, action, task_id, detail } => {
                audit(connection, *at, actor, action, task_id.as_ref(), detail)?;
            }
        }
    }
    Ok(firsts)
}

fn add_task(connection: &Connection, task: &Task) -> Result<(), BatchError> {
    if let Some(client_request_id) = &task.client_request_id {
        let mut taken = connection.prepare_cached("SELECT id FROM tasks WHERE client_request_id = ?1")?;
        if let Some(id) = taken.query_row([client_request_id], |row| row.get(0)).optional()? {
            return Err(BatchError::Refused(Error::Duplicate(id)));
        }
    }
    task.write(connection, &ADD_TASK)?;
    connection.prepare_cached("INSERT INTO logs (task_id) VALUES (?1)")?.execute([task.id.as_str()])?;
    Ok(())
}

fn save_task(connection: &Connection, task: &Task) -> Result<(), BatchError> {
    match task.write(connection, &SAVE_TASK)? {
        0 => Err(unknown(&task.id)),
        _ => Ok(()),
    }
}

fn save_request(connection: &Connection, request: &RequestRecord) -> Result<(), BatchError> {
    connection.prepare_cached(&SAVE_REQUEST)?.execute(named_params! {
        ":request_id": request.request_id,
        ":digest": request.digest,
        ":epoch": request.key.epoch.as_str(),
        ":wire_id": Json(&request.key.id),
        ":task_id": request.task_id.as_str(),
        ":method": request.method,
        ":ask": Json(&request.ask),
        ":state": request.state.as_str(),
        ":sealed_ask": request.sealed_ask,
        ":sealed_decision": request.sealed_decision,
        ":decision": request.decision,
        ":decided_by": request.decided_by,
        ":decided_at": request.decided_at,
        ":created_at": request.created_at,
        ":expires_at": request.expires_at,
        ":closed_at": request.closed_at,
    })?;
    Ok(())
}

fn add_whole_changes(connection: &Connection, whole: &WholeChanges) -> Result<(), BatchError> {
    connection
        .prepare_cached(
            "INSERT INTO whole_changes (request_id, task_id, changes) VALUES (?1, ?2, ?3) \
             ON CONFLICT (request_id) DO UPDATE SET changes = excluded.changes",
        )?
        .execute((&whole.request_id, &whole.task_id, Json(&whole.changes)))?;
    Ok(())
}

fn save_token(connection: &Connection, token: &Token) -> Result<(), BatchError> {
    connection.prepare_cached(&SAVE_TOKEN)?.execute(named_params! {
        ":name": token.name,
        ":role": Word(token.role),
        ":max_open_tasks": token.quota.open_tasks,
        ":max_bytes": whole(token.quota.bytes)?,
        ":hash": token.hash,
        ":created_at": token.created_at,
        ":last_used_at": token.last_used_at,
        ":revoked_at": token.revoked_at,
    })?;
    Ok(())
}

fn hand_over(connection: &Connection, task_id: &TaskId, token: &str, bytes: u64) -> Result<(), BatchError> {
    connection.prepare_cached(HAND_OVER)?.execute((task_id.as_str(), token, whole(bytes)?))?;
    Ok(())
}

fn whole(bytes: u64) -> Result<i64, BatchError> {
    i64::try_from(bytes).map_err(|_| BatchError::refused("too many bytes"))
}

/// Appends events. Their numbers come from the task's row in `logs`, within the transaction.
fn append(
    connection: &Connection,
    task_id: &TaskId,
    events: &[NewEvent],
    bodies: &[String],
) -> Result<Seq, BatchError> {
    let count = Seq::try_from(events.len()).map_err(|_| BatchError::refused("too many events"))?;
    let last: Option<Seq> = connection
        .prepare_cached("UPDATE logs SET last_seq = last_seq + ?2 WHERE task_id = ?1 RETURNING last_seq")?
        .query_row((task_id.as_str(), count), |row| row.get(0))
        .optional()?;
    let first = last.ok_or_else(|| unknown(task_id))? - count + 1;
    let mut insert = connection
        .prepare_cached("INSERT INTO events (task_id, seq, at, kind, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (seq, (event, body)) in (first..).zip(events.iter().zip(bodies)) {
        insert.execute((task_id.as_str(), seq, event.at, event.line.kind(), body))?;
    }
    Ok(first)
}

fn audit(
    connection: &Connection,
    at: TimeMs,
    actor: &str,
    action: &str,
    task_id: Option<&TaskId>,
    detail: &str,
) -> Result<(), BatchError> {
    connection
        .prepare_cached("INSERT INTO audit (at, actor, action, task_id, detail) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute((at, actor, action, task_id, detail))?;
    Ok(())
}

fn unknown(task_id: &TaskId) -> BatchError {
    BatchError::refused(format!("there is no task {task_id}"))
}
