//! The inbox as SQL: messages, conversations, channels.

use std::sync::LazyLock;

use rusqlite::{Connection, Result, params_from_iter};

use super::apply::{assignments, insert, upsert};
use super::fault::BatchError;
use super::query::Conditions;
use super::rows::Record;
use crate::inbox::{ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId};
use crate::outbox::DeliveryId;
use crate::store::{CONVERSATIONS_OUTLIVE_MS, MessageFilter};
use crate::task::{TaskId, TimeMs};

static ADD: LazyLock<String> = LazyLock::new(|| {
    format!("{} ON CONFLICT (channel, external_id) DO NOTHING", insert("inbox", Message::COLUMNS))
});
static SAVE: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE inbox SET {} WHERE id = :id", assignments(Message::COLUMNS)));
static SAVE_CONVERSATION: LazyLock<String> =
    LazyLock::new(|| upsert("conversations", Conversation::COLUMNS, "channel, key"));
static SAVE_CHANNEL: LazyLock<String> = LazyLock::new(|| upsert("channels", ChannelRecord::COLUMNS, "name"));

/// Adds a message, unless its channel already brought it.
pub fn add(connection: &Connection, message: &Message) -> Result<(), BatchError> {
    message.write(connection, &ADD)?;
    Ok(())
}

/// Replaces a message.
pub fn save(connection: &Connection, message: &Message) -> Result<(), BatchError> {
    match message.write(connection, &SAVE)? {
        0 => Err(BatchError::refused(format!("there is no message {}", message.id))),
        _ => Ok(()),
    }
}

/// Messages, the newest first.
pub fn find(connection: &Connection, filter: &MessageFilter) -> Result<Vec<Message>> {
    let conditions = conditions(filter);
    let limit = filter.limit.map_or(-1, i64::from);
    let sql = format!("SELECT * FROM inbox{} ORDER BY ord DESC LIMIT {limit}", conditions.as_sql());
    let mut statement = connection.prepare(&sql)?;
    statement.query_map(params_from_iter(conditions.values), Message::read)?.collect()
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
    statement.query_map([channel], Message::read)?.collect()
}

/// Adds or replaces a conversation.
pub fn save_conversation(connection: &Connection, conversation: &Conversation) -> Result<(), BatchError> {
    conversation.write(connection, &SAVE_CONVERSATION)?;
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
    statement.query_map((channel, key), Conversation::read)?.collect()
}

/// Adds or replaces a channel.
pub fn save_channel(connection: &Connection, channel: &ChannelRecord) -> Result<(), BatchError> {
    channel.write(connection, &SAVE_CHANNEL)?;
    Ok(())
}

/// All channels, by name.
pub fn channels(connection: &Connection) -> Result<Vec<ChannelRecord>> {
    let mut statement = connection.prepare_cached("SELECT * FROM channels ORDER BY name")?;
    statement.query_map([], ChannelRecord::read)?.collect()
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
