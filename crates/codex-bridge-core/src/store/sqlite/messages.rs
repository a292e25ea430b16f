//! The inbox as SQL: messages, conversations, channels.

use std::sync::LazyLock;

use rusqlite::{Connection, Result, Row, named_params, params_from_iter};

use super::apply::{assignments, insert, upsert};
use super::cell::Word;
use super::fault::BatchError;
use super::query::Conditions;
use crate::inbox::{ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId};
use crate::outbox::DeliveryId;
use crate::store::{CONVERSATIONS_OUTLIVE_MS, MessageFilter};
use crate::task::{TaskId, TimeMs};

const MESSAGE: [&str; 24] = [
    "id",
    "channel",
    "external_id",
    "conversation",
    "sender_id",
    "sender_name",
    "party",
    "room",
    "hops",
    "reply_to",
    "position",
    "summary",
    "sealed_text",
    "kind",
    "state",
    "attempts",
    "next_at",
    "task_id",
    "reply_id",
    "error",
    "sent_at",
    "received_at",
    "acknowledged_at",
    "updated_at",
];
const CONVERSATION: [&str; 5] = ["channel", "key", "task_id", "workspace", "updated_at"];
const CHANNEL: [&str; 4] = ["name", "cursor", "is_paused", "updated_at"];

static ADD: LazyLock<String> =
    LazyLock::new(|| format!("{} ON CONFLICT (channel, external_id) DO NOTHING", insert("inbox", &MESSAGE)));
static SAVE: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE inbox SET {} WHERE id = :id", assignments(&MESSAGE)));
static SAVE_CONVERSATION: LazyLock<String> =
    LazyLock::new(|| upsert("conversations", &CONVERSATION, "channel, key"));
static SAVE_CHANNEL: LazyLock<String> = LazyLock::new(|| upsert("channels", &CHANNEL, "name"));

/// Adds a message, unless its channel already brought it.
pub fn add(connection: &Connection, message: &Message) -> Result<(), BatchError> {
    write(connection, &ADD, message)?;
    Ok(())
}

/// Replaces a message.
pub fn save(connection: &Connection, message: &Message) -> Result<(), BatchError> {
    match write(connection, &SAVE, message)? {
        0 => Err(BatchError::refused(format!("there is no message {}", message.id))),
        _ => Ok(()),
    }
}

fn write(connection: &Connection, sql: &str, message: &Message) -> Result<usize, BatchError> {
    Ok(connection.prepare_cached(sql)?.execute(named_params! {
        ":id": message.id,
        ":channel": message.channel,
        ":external_id": message.external_id,
        ":conversation": message.conversation,
        ":sender_id": message.sender_id,
        ":sender_name": message.sender_name,
        ":party": Word(message.party),
        ":room": Word(message.room),
        ":hops": message.hops,
        ":reply_to": message.reply_to,
        ":position": message.position,
        ":summary": message.summary,
        ":sealed_text": message.sealed_text,
        ":kind": Word(message.kind),
        ":state": message.state.as_str(),
        ":attempts": message.attempts,
        ":next_at": message.next_at,
        ":task_id": message.task_id,
        ":reply_id": message.reply_id,
        ":error": message.error,
        ":sent_at": message.sent_at,
        ":received_at": message.received_at,
        ":acknowledged_at": message.acknowledged_at,
        ":updated_at": message.updated_at,
    })?)
}

/// Messages, the newest first.
pub fn find(connection: &Connection, filter: &MessageFilter) -> Result<Vec<Message>> {
    let conditions = conditions(filter);
    let limit = filter.limit.map_or(-1, i64::from);
    let sql = format!("SELECT * FROM inbox{} ORDER BY ord DESC LIMIT {limit}", conditions.as_sql());
    let mut statement = connection.prepare(&sql)?;
    statement.query_map(params_from_iter(conditions.values), read)?.collect()
}

/// How many messages match.
pub fn count(connection: &Connection, filter: &MessageFilter) -> Result<u64> {
    let conditions = conditions(filter);
    let sql = format!("SELECT count(*) FROM inbox{}", conditions.as_sql());
    let count: i64 =
        connection.prepare(&sql)?.query_row(params_from_iter(conditions.values), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

fn conditions(filter: &MessageFilter) -> Conditions {
    let mut conditions = Conditions::default();
    conditions.one_of("state", filter.states.iter().map(|state| state.as_str()));
    conditions.one_of("external_id", filter.external_ids.iter().map(String::as_str));
    let texts = [
        ("id", filter.id.as_ref().map(MessageId::as_str)),
        ("channel", filter.channel.as_ref().map(ChannelName::as_str)),
        ("conversation", filter.conversation.as_ref().map(ConversationKey::as_str)),
        ("sender_id", filter.sender_id.as_deref()),
        ("task_id", filter.task_id.as_ref().map(TaskId::as_str)),
        ("reply_id", filter.reply_id.as_ref().map(DeliveryId::as_str)),
    ];
    for (column, wanted) in texts {
        if let Some(wanted) = wanted {
            conditions.add(&format!("{column} = ?"), wanted);
        }
    }
    if let Some(since) = filter.since {
        // Safe in SQL text, because it is a number.
        conditions.terms.push(format!("received_at >= {since}"));
    }
    if filter.unacknowledged {
        conditions.terms.push("acknowledged_at IS NULL".to_owned());
    }
    if filter.done_with {
        let done_with = "state IN ('answered', 'acknowledged', 'dead') AND NOT EXISTS (SELECT 1 FROM outbox \
                         WHERE outbox.id = inbox.reply_id AND outbox.state IN ('pending', 'attempting'))";
        conditions.terms.push(done_with.to_owned());
    }
    conditions
}

/// For each conversation, the next unfinished message; and every message that need not wait. The oldest first.
pub fn next(connection: &Connection, channel: &ChannelName) -> Result<Vec<Message>> {
    let mut statement = connection.prepare_cached(
        "SELECT * FROM inbox WHERE channel = ?1 AND state IN ('received', 'running') AND (ord IN \
         (SELECT min(ord) FROM inbox WHERE channel = ?1 AND state IN ('received', 'running') \
         AND kind IN ('prompt', 'command') GROUP BY conversation) \
         OR kind IN ('urgent_command', 'steer')) ORDER BY ord",
    )?;
    statement.query_map([channel], read)?.collect()
}

fn read(row: &Row<'_>) -> Result<Message> {
    Ok(Message {
        id: row.get("id")?,
        channel: row.get("channel")?,
        external_id: row.get("external_id")?,
        conversation: row.get("conversation")?,
        sender_id: row.get("sender_id")?,
        sender_name: row.get("sender_name")?,
        party: row.get::<_, Word<_>>("party")?.0,
        room: row.get::<_, Word<_>>("room")?.0,
        hops: row.get("hops")?,
        reply_to: row.get("reply_to")?,
        position: row.get("position")?,
        summary: row.get("summary")?,
        sealed_text: row.get("sealed_text")?,
        kind: row.get::<_, Word<_>>("kind")?.0,
        state: row.get::<_, Word<_>>("state")?.0,
        attempts: row.get("attempts")?,
        next_at: row.get("next_at")?,
        task_id: row.get("task_id")?,
        reply_id: row.get("reply_id")?,
        error: row.get("error")?,
        sent_at: row.get("sent_at")?,
        received_at: row.get("received_at")?,
        acknowledged_at: row.get("acknowledged_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Adds or replaces a conversation.
pub fn save_conversation(connection: &Connection, conversation: &Conversation) -> Result<(), BatchError> {
    connection.prepare_cached(&SAVE_CONVERSATION)?.execute(named_params! {
        ":channel": conversation.channel,
        ":key": conversation.key,
        ":task_id": conversation.task_id,
        ":workspace": conversation.workspace,
        ":updated_at": conversation.updated_at,
    })?;
    Ok(())
}

/// The conversations of a channel, the last changed first; only the one with this key if `key` is given.
pub fn conversations(
    connection: &Connection,
    channel: &ChannelName,
    key: Option<&ConversationKey>,
) -> Result<Vec<Conversation>> {
    let mut statement = connection.prepare_cached(
        "SELECT * FROM conversations WHERE channel = ?1 AND (?2 IS NULL OR key = ?2) ORDER BY updated_at DESC, key",
    )?;
    statement.query_map((channel, key), read_conversation)?.collect()
}

fn read_conversation(row: &Row<'_>) -> Result<Conversation> {
    Ok(Conversation {
        channel: row.get("channel")?,
        key: row.get("key")?,
        task_id: row.get("task_id")?,
        workspace: row.get("workspace")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Adds or replaces a channel.
pub fn save_channel(connection: &Connection, channel: &ChannelRecord) -> Result<(), BatchError> {
    connection.prepare_cached(&SAVE_CHANNEL)?.execute(named_params! {
        ":name": channel.name,
        ":cursor": channel.cursor,
        ":is_paused": channel.is_paused,
        ":updated_at": channel.updated_at,
    })?;
    Ok(())
}

/// All channels, by name.
pub fn channels(connection: &Connection) -> Result<Vec<ChannelRecord>> {
    let mut statement = connection.prepare_cached("SELECT * FROM channels ORDER BY name")?;
    let read = |row: &Row<'_>| {
        Ok(ChannelRecord {
            name: row.get("name")?,
            cursor: row.get("cursor")?,
            is_paused: row.get("is_paused")?,
            updated_at: row.get("updated_at")?,
        })
    };
    statement.query_map([], read)?.collect()
}

/// Deletes a few messages that were done before a time, a few replies without a task, and a few conversations that
/// outlived their task. False once there are none.
pub fn forget(connection: &Connection, before: TimeMs, stride: i64) -> Result<bool> {
    let messages = connection
        .prepare_cached(
            "DELETE FROM inbox WHERE ord IN (SELECT ord FROM inbox \
             WHERE state IN ('acknowledged', 'dead') AND updated_at < ?1 LIMIT ?2)",
        )?
        .execute((before, stride))?;
    let replies = connection
        .prepare_cached(
            "DELETE FROM outbox WHERE ord IN (SELECT ord FROM outbox WHERE task_id IS NULL \
             AND state NOT IN ('pending', 'attempting') AND updated_at < ?1 LIMIT ?2)",
        )?
        .execute((before, stride))?;
    Ok(messages + replies > 0 || forget_conversations(connection, before, stride)?)
}

/// Deletes a few conversations that outlived their task long ago. Returns whether there were any.
fn forget_conversations(connection: &Connection, before: TimeMs, stride: i64) -> Result<bool> {
    // The list names all states, so that SQLite uses the index by state.
    let forgotten = connection
        .prepare_cached(
            "DELETE FROM conversations WHERE (channel, key) IN (SELECT channel, key FROM conversations \
             WHERE task_id IS NULL AND updated_at < ?1 AND NOT EXISTS (SELECT 1 FROM inbox \
             WHERE inbox.channel = conversations.channel AND inbox.conversation = conversations.key \
             AND inbox.state IN ('received', 'running', 'answered', 'acknowledged', 'dead')) LIMIT ?2)",
        )?
        .execute((before.saturating_sub(CONVERSATIONS_OUTLIVE_MS), stride))?;
    Ok(forgotten > 0)
}
