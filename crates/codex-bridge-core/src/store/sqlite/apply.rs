//! Applies one batch as SQL. The caller begins and ends the transaction.

use std::fmt;
use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, ToSql};

use super::attachments;
use super::cell::{Json, Word};
use super::fault::BatchError;
use super::rows::Record;
use crate::event::{NewEvent, Seq};
use crate::inbox::{ChannelRecord, Conversation, Message};
use crate::outbox::Delivery;
use crate::request::{DecisionWord, RequestRecord, WholeChanges};
use crate::store::{AuditLine, Error, Write};
use crate::task::{Task, TaskId, TurnRecord};
use crate::token::Token;

const HAND_OVER: &str = "INSERT INTO handed_over (task_id, token, bytes) VALUES (?1, ?2, ?3) \
    ON CONFLICT (task_id, token) DO UPDATE SET bytes = bytes + excluded.bytes";

static ADD_TASK: LazyLock<String> = LazyLock::new(|| insert("tasks", Task::COLUMNS));
static SAVE_TASK: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE tasks SET {} WHERE id = :id", assignments(Task::COLUMNS)));
static SAVE_TURN: LazyLock<String> =
    LazyLock::new(|| upsert("turns", TurnRecord::COLUMNS, "task_id, number"));
static SAVE_WHOLE_CHANGES: LazyLock<String> =
    LazyLock::new(|| upsert("whole_changes", WholeChanges::COLUMNS, "request_id"));
static ADD_AUDIT_LINE: LazyLock<String> = LazyLock::new(|| insert("audit", AuditLine::COLUMNS));
static ADD_DELIVERY: LazyLock<String> =
    LazyLock::new(|| format!("{} ON CONFLICT (join_key) DO NOTHING", insert("outbox", Delivery::COLUMNS)));
static SAVE_DELIVERY: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE outbox SET {} WHERE id = :id", assignments(Delivery::COLUMNS)));
static ADD_MESSAGE: LazyLock<String> = LazyLock::new(|| {
    format!("{} ON CONFLICT (channel, external_id) DO NOTHING", insert("inbox", Message::COLUMNS))
});
static SAVE_MESSAGE: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE inbox SET {} WHERE id = :id", assignments(Message::COLUMNS)));
static SAVE_CONVERSATION: LazyLock<String> =
    LazyLock::new(|| upsert("conversations", Conversation::COLUMNS, "channel, key"));
static SAVE_CHANNEL: LazyLock<String> = LazyLock::new(|| upsert("channels", ChannelRecord::COLUMNS, "name"));

/// An INSERT of all columns, with parameters by name.
fn insert(table: &str, columns: &[&str]) -> String {
    format!("INSERT INTO {table} ({}) VALUES (:{})", columns.join(", "), columns.join(", :"))
}

/// An INSERT that replaces a row with the same key.
fn upsert(table: &str, columns: &[&str], key: &str) -> String {
    format!("{} ON CONFLICT ({key}) DO UPDATE SET {}", insert(table, columns), assignments(columns))
}

/// Sets each column to the parameter of its name.
fn assignments(columns: &[&str]) -> String {
    columns.iter().map(|column| format!("{column} = :{column}")).collect::<Vec<_>>().join(", ")
}

/// Applies a batch. `bodies` are the JSON bodies of its events, in order. Returns the first number of each `Append`.
pub fn batch(connection: &Connection, writes: &[Write], bodies: &[String]) -> Result<Vec<Seq>, BatchError> {
    let mut bodies = bodies;
    let mut firsts = Vec::new();
    for write in writes {
        match write {
            Write::AddTask(task) => add_task(connection, task)?,
            Write::SaveTask(task) => {
                replace(connection, &**task, &SAVE_TASK, format_args!("task {}", task.id))?;
            }
            Write::SaveTurn(turn) => drop(turn.write(connection, &SAVE_TURN)?),
            Write::SaveRequest(request) => save_request(connection, request)?,
            Write::SaveWholeChanges(whole) => drop(whole.write(connection, &SAVE_WHOLE_CHANGES)?),
            Write::Append { task_id, events } => {
                let (own, rest) = bodies.split_at(events.len());
                firsts.push(append(connection, task_id, events, own)?);
                bodies = rest;
            }
            Write::AddDelivery(delivery) => drop(delivery.write(connection, &ADD_DELIVERY)?),
            Write::SaveDelivery(delivery) => {
                replace(connection, &**delivery, &SAVE_DELIVERY, format_args!("delivery {}", delivery.id))?;
            }
            Write::AddMessage(message) => drop(message.write(connection, &ADD_MESSAGE)?),
            Write::SaveMessage(message) => {
                replace(connection, &**message, &SAVE_MESSAGE, format_args!("message {}", message.id))?;
                if message.sealed_text.is_none() && !message.attached.is_nothing() {
                    attachments::delete(connection, &message.id)?;
                }
            }
            Write::SaveAttachment(one) => attachments::save(connection, one)?,
            Write::SaveConversation(conversation) => {
                conversation.write(connection, &SAVE_CONVERSATION)?;
            }
            Write::SaveChannel(channel) => drop(channel.write(connection, &SAVE_CHANNEL)?),
            Write::SaveToken(token) => save_token(connection, token)?,
            Write::HandOver { task_id, token, bytes } => hand_over(connection, task_id, token, *bytes)?,
            Write::Audit(line) => drop(line.write(connection, &ADD_AUDIT_LINE)?),
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

/// Replaces the row of a record, which must exist.
fn replace(
    connection: &Connection,
    record: &impl Record,
    update: &str,
    name: fmt::Arguments<'_>,
) -> Result<(), BatchError> {
    match record.write(connection, update)? {
        0 => Err(BatchError::refused(format!("there is no {name}"))),
        _ => Ok(()),
    }
}

/// Adds a row, or replaces the row with the same key.
fn save_row(
    connection: &Connection,
    table: &str,
    key: &str,
    row: &[(&str, &dyn ToSql)],
) -> rusqlite::Result<()> {
    let (columns, values): (Vec<&str>, Vec<&dyn ToSql>) = row.iter().copied().unzip();
    connection.prepare_cached(&upsert(table, &columns, key))?.execute(&*values)?;
    Ok(())
}

fn save_request(connection: &Connection, request: &RequestRecord) -> rusqlite::Result<()> {
    save_row(
        connection,
        "requests",
        "request_id",
        &[
            ("request_id", &request.request_id),
            ("digest", &request.digest),
            ("epoch", &request.key.epoch.as_str()),
            ("wire_id", &Json(&request.key.id)),
            ("task_id", &request.task_id),
            ("method", &request.method),
            ("ask", &Json(&request.ask)),
            ("state", &request.state.as_str()),
            ("sealed_ask", &request.sealed_ask),
            ("sealed_decision", &request.sealed_decision),
            ("decision", &request.decision.as_ref().map(DecisionWord::as_str)),
            ("decided_by", &request.decided_by),
            ("decided_at", &request.decided_at),
            ("created_at", &request.created_at),
            ("expires_at", &request.expires_at),
            ("closed_at", &request.closed_at),
        ],
    )
}

fn save_token(connection: &Connection, token: &Token) -> Result<(), BatchError> {
    save_row(
        connection,
        "tokens",
        "name",
        &[
            ("name", &token.name),
            ("role", &Word(token.role)),
            ("max_open_tasks", &token.quota.open_tasks),
            ("max_bytes", &whole(token.quota.bytes)?),
            ("hash", &token.hash),
            ("created_at", &token.created_at),
            ("last_used_at", &token.last_used_at),
            ("revoked_at", &token.revoked_at),
        ],
    )?;
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
    let first = last.ok_or_else(|| BatchError::refused(format!("there is no task {task_id}")))? - count + 1;
    let mut insert = connection
        .prepare_cached("INSERT INTO events (task_id, seq, at, kind, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (seq, (event, body)) in (first..).zip(events.iter().zip(bodies)) {
        insert.execute((task_id.as_str(), seq, event.at, event.line.kind(), body))?;
    }
    Ok(first)
}
