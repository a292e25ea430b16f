//! Records that are stored as rows: for each record one list of its columns, by which it is written and read.

use rusqlite::{Connection, Result, Row, ToSql};

use super::cell::{Json, Word};
use crate::inbox::{ChannelRecord, Conversation, Message};
use crate::outbox::Delivery;
use crate::request::WholeChanges;
use crate::store::AuditLine;
use crate::task::{Task, TurnRecord};

/// A record whose fields are the columns of its table.
pub trait Record: Sized {
    /// The columns.
    const COLUMNS: &'static [&'static str];

    /// Executes a statement whose parameters are named like the columns. Returns how many rows changed.
    fn write(&self, connection: &Connection, sql: &str) -> Result<usize>;

    /// Reads a row.
    fn read(row: &Row<'_>) -> Result<Self>;
}

/// Implements [`Record`]. `plain` columns hold what SQL knows, and our ids; `word` columns an enum's word, or an id of
/// Codex; `json` columns anything else.
macro_rules! record {
    ($record:ident { $($column:ident: $kind:ident),* $(,)? }) => {
        impl Record for $record {
            const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),*];

            fn write(&self, connection: &Connection, sql: &str) -> Result<usize> {
                let values: &[(&str, &dyn ToSql)] =
                    &[$((concat!(":", stringify!($column)), &value!($kind, self.$column))),*];
                connection.prepare_cached(sql)?.execute(values)
            }

            fn read(row: &Row<'_>) -> Result<Self> {
                Ok(Self { $($column: cell!($kind, row, stringify!($column))),* })
            }
        }
    };
}

macro_rules! value {
    (plain, $value:expr) => {
        $value
    };
    (word, $value:expr) => {
        Word(&$value)
    };
    (word_or_null, $value:expr) => {
        $value.as_ref().map(Word)
    };
    (json, $value:expr) => {
        Json(&$value)
    };
    (json_or_null, $value:expr) => {
        $value.as_ref().map(Json)
    };
}

macro_rules! cell {
    (plain, $row:expr, $column:expr) => {
        $row.get($column)?
    };
    (word, $row:expr, $column:expr) => {
        $row.get::<_, Word<_>>($column)?.0
    };
    (word_or_null, $row:expr, $column:expr) => {
        $row.get::<_, Option<Word<_>>>($column)?.map(|Word(word)| word)
    };
    (json, $row:expr, $column:expr) => {
        $row.get::<_, Json<_>>($column)?.0
    };
    (json_or_null, $row:expr, $column:expr) => {
        $row.get::<_, Option<Json<_>>>($column)?.map(|Json(value)| value)
    };
}

record!(Task {
    id: plain,
    client_request_id: plain,
    status: word,
    reason: plain,
    prompt_summary: plain,
    settings: json,
    parked: json_or_null,
    limits: json,
    used: json,
    thread_id: word_or_null,
    turn_id: word_or_null,
    epoch: word_or_null,
    host: plain,
    final_text: plain,
    error: json_or_null,
    usage: json_or_null,
    notify_target: plain,
    asks_in: plain,
    token: plain,
    notification: json,
    created_at: plain,
    updated_at: plain,
    completed_at: plain,
});

record!(TurnRecord {
    task_id: plain,
    number: plain,
    client_id: plain,
    client_request_id: plain,
    name_mark: plain,
    prompt_mark: plain,
    before: json_or_null,
    progress: word,
    sealed_prompt: plain,
    prompt_summary: plain,
    images_of: plain,
    turn_id: word_or_null,
    outcome: word_or_null,
    final_text: plain,
    error: json_or_null,
    created_at: plain,
    ended_at: plain,
});

record!(Delivery {
    id: plain,
    task_id: plain,
    target: plain,
    notice: json,
    join_key: plain,
    state: word,
    attempts: plain,
    broken_off: plain,
    in_doubt: plain,
    parts_sent: plain,
    target_gone: plain,
    next_at: plain,
    last_error: plain,
    message_id: plain,
    created_at: plain,
    taken_up_at: plain,
    updated_at: plain,
});

record!(Message {
    id: plain,
    channel: plain,
    external_id: plain,
    conversation: plain,
    sender_id: plain,
    sender_name: plain,
    party: word,
    room: word,
    hops: plain,
    reply_to: plain,
    position: plain,
    summary: plain,
    sealed_text: plain,
    kind: word,
    about: json_or_null,
    edits: plain,
    attached: word,
    state: word,
    attempts: plain,
    next_at: plain,
    task_id: plain,
    reply_id: plain,
    error: plain,
    sent_at: plain,
    received_at: plain,
    acknowledged_at: plain,
    updated_at: plain,
});

record!(AuditLine { at: plain, actor: plain, action: plain, task_id: plain, detail: plain });

record!(WholeChanges { request_id: plain, task_id: plain, changes: json });

record!(Conversation {
    channel: plain,
    key: plain,
    task_id: plain,
    workspace: plain,
    model: plain,
    effort: plain,
    updated_at: plain,
});

record!(ChannelRecord {
    name: plain,
    cursor: plain,
    memory: plain,
    allowed: json,
    is_paused: plain,
    updated_at: plain,
});
