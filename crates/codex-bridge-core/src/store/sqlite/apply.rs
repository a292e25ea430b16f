//! Applies one batch as SQL. The caller begins and ends the transaction.

use std::sync::LazyLock;

use codex_wire::{Epoch, ThreadId, TurnId};
use rusqlite::{Connection, OptionalExtension, named_params};

use super::cell::{Json, Word};
use super::deliveries;
use super::fault::BatchError;
use super::messages;
use crate::event::{NewEvent, Seq};
use crate::request::{RequestRecord, WholeChanges};
use crate::store::{Error, Write};
use crate::task::{Task, TaskId, TimeMs, TurnRecord};
use crate::token::Token;

const TASK: [&str; 23] = [
    "id",
    "client_request_id",
    "status",
    "reason",
    "prompt_summary",
    "settings",
    "parked",
    "limits",
    "used",
    "thread_id",
    "turn_id",
    "epoch",
    "host",
    "final_text",
    "error",
    "usage",
    "notify_target",
    "asks_in",
    "token",
    "notification",
    "created_at",
    "updated_at",
    "completed_at",
];
const TURN: [&str; 16] = [
    "task_id",
    "number",
    "client_id",
    "client_request_id",
    "name_mark",
    "prompt_mark",
    "before",
    "progress",
    "sealed_prompt",
    "prompt_summary",
    "turn_id",
    "outcome",
    "final_text",
    "error",
    "created_at",
    "ended_at",
];
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

static ADD_TASK: LazyLock<String> = LazyLock::new(|| insert("tasks", &TASK));
static SAVE_TASK: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE tasks SET {} WHERE id = :id", assignments(&TASK)));
static SAVE_TURN: LazyLock<String> = LazyLock::new(|| upsert("turns", &TURN, "task_id, number"));
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
            Write::SaveTurn(turn) => save_turn(connection, turn)?,
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
    write_task(connection, &ADD_TASK, task)?;
    connection.prepare_cached("INSERT INTO logs (task_id) VALUES (?1)")?.execute([task.id.as_str()])?;
    Ok(())
}

fn save_task(connection: &Connection, task: &Task) -> Result<(), BatchError> {
    match write_task(connection, &SAVE_TASK, task)? {
        0 => Err(unknown(&task.id)),
        _ => Ok(()),
    }
}

fn write_task(connection: &Connection, sql: &str, task: &Task) -> Result<usize, BatchError> {
    Ok(connection.prepare_cached(sql)?.execute(named_params! {
        ":id": task.id.as_str(),
        ":client_request_id": task.client_request_id,
        ":status": task.status.as_str(),
        ":reason": task.reason,
        ":prompt_summary": task.prompt_summary,
        ":settings": Json(&task.settings),
        ":parked": task.parked.as_ref().map(Json),
        ":limits": Json(task.limits),
        ":used": Json(task.used),
        ":thread_id": task.thread_id.as_ref().map(ThreadId::as_str),
        ":turn_id": task.turn_id.as_ref().map(TurnId::as_str),
        ":epoch": task.epoch.as_ref().map(Epoch::as_str),
        ":host": task.host,
        ":final_text": task.final_text,
        ":error": task.error.as_ref().map(Json),
        ":usage": task.usage.as_ref().map(Json),
        ":notify_target": task.notify_target,
        ":asks_in": task.asks_in,
        ":token": task.token,
        ":notification": Json(&task.notification),
        ":created_at": task.created_at,
        ":updated_at": task.updated_at,
        ":completed_at": task.completed_at,
    })?)
}

fn save_turn(connection: &Connection, turn: &TurnRecord) -> Result<(), BatchError> {
    connection.prepare_cached(&SAVE_TURN)?.execute(named_params! {
        ":task_id": turn.task_id.as_str(),
        ":number": turn.number,
        ":client_id": turn.client_id,
        ":client_request_id": turn.client_request_id,
        ":name_mark": turn.name_mark,
        ":prompt_mark": turn.prompt_mark,
        ":before": turn.before.as_ref().map(Json),
        ":progress": Word(turn.progress),
        ":sealed_prompt": turn.sealed_prompt,
        ":prompt_summary": turn.prompt_summary,
        ":turn_id": turn.turn_id.as_ref().map(TurnId::as_str),
        ":outcome": turn.outcome.map(Word),
        ":final_text": turn.final_text,
        ":error": turn.error.as_ref().map(Json),
        ":created_at": turn.created_at,
        ":ended_at": turn.ended_at,
    })?;
    Ok(())
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
