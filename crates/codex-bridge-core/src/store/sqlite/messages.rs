//! The inbox as SQL: messages, conversations, channels.

use rusqlite::{Connection, Result, params_from_iter};

use super::query::Conditions;
use super::rows::Record;
use crate::inbox::{ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId};
use crate::outbox::DeliveryId;
use crate::store::{CONVERSATIONS_OUTLIVE_MS, MessageFilter};
use crate::task::{TaskId, TimeMs};

/// How many files are deleted between two looks at the clock.
const FILES_AT_ONCE: i64 = 2;

/// Messages, the newest first.
pub fn find(connection: &Connection, filter: &MessageFilter) -> Result<Vec<Message>> {
    conditions(filter).select(connection, "inbox", "ord DESC", filter.limit, Message::read)
}

/// How many messages match.
pub fn count(connection: &Connection, filter: &MessageFilter) -> Result<u64> {
    let conditions = conditions(filter);
    let sql = format!("SELECT count(*) FROM inbox{}", conditions.as_sql());
    let mut statement = connection.prepare_cached(&sql)?;
    let count: i64 = statement.query_row(params_from_iter(conditions.values), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

fn conditions(filter: &MessageFilter) -> Conditions {
    let mut conditions = Conditions::default();
    conditions.one_of("state", filter.states.iter().map(|state| state.as_str()));
    conditions.one_of("external_id", filter.external_ids.iter().map(String::as_str));
    conditions.is("id", filter.id.as_ref().map(MessageId::as_str));
    conditions.is("channel", filter.channel.as_ref().map(ChannelName::as_str));
    conditions.is("conversation", filter.conversation.as_ref().map(ConversationKey::as_str));
    conditions.is("sender_id", filter.sender_id.as_deref());
    conditions.is("task_id", filter.task_id.as_ref().map(TaskId::as_str));
    conditions.is("reply_id", filter.reply_id.as_ref().map(DeliveryId::as_str));
    conditions.since("received_at", filter.since);
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
         OR kind NOT IN ('prompt', 'command')) ORDER BY ord",
    )?;
    statement.query_map([channel], Message::read)?.collect()
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

/// All channels, by name.
pub fn channels(connection: &Connection) -> Result<Vec<ChannelRecord>> {
    let mut statement = connection.prepare_cached("SELECT * FROM channels ORDER BY name")?;
    statement.query_map([], ChannelRecord::read)?.collect()
}

/// Deletes a few messages that were done before a time, a few replies without a task, and a few conversations that
/// outlived their task. False once there are none.
pub fn forget(connection: &Connection, before: TimeMs, stride: i64) -> Result<bool> {
    // Files are large: a few at a time, before their messages.
    let files = connection
        .prepare_cached(
            "DELETE FROM attachments WHERE (message_id, number) IN (SELECT message_id, number FROM attachments \
             JOIN inbox ON inbox.id = message_id \
             WHERE inbox.state IN ('acknowledged', 'dead') AND inbox.updated_at < ?1 LIMIT ?2)",
        )?
        .execute((before, FILES_AT_ONCE))?;
    if files > 0 {
        return Ok(true);
    }
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
