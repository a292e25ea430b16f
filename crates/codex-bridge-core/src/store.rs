//! Where everything is remembered. Callers know this trait; nobody but an implementation knows SQL.
//!
//! The rules of every implementation: a batch is one transaction and durable when [`Store::commit`] returns; events
//! get their numbers inside it, without gaps; a reader never sees half a batch.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(any(test, feature = "conformance"))]
pub mod memory;
pub mod sqlite;

use std::collections::HashMap;
use std::path::PathBuf;

use codex_session::RequestKey;
use futures_util::future::BoxFuture;

use crate::event::{Event, NewEvent, Seq};
use crate::inbox::{self, ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId};
use crate::outbox::{Delivery, DeliveryId, State};
use crate::request::{RequestName, RequestRecord, RequestState, WholeChanges};
use crate::task::{Status, Task, TaskId, TimeMs, TurnRecord};
use crate::token::{Token, Used};

/// At least so many lines of the audit log are kept, whatever else is forgotten.
pub const AUDIT_LINES: u32 = 100_000;
/// So long a conversation is known beyond what was said in it: whoever comes back hears that it was forgotten.
pub const CONVERSATIONS_OUTLIVE_MS: TimeMs = 90 * 24 * 60 * 60 * 1000;

/// Where everything is remembered.
pub trait Store: Send + Sync + 'static {
    /// Applies a batch as one transaction. All or nothing, and durable when it returns.
    ///
    /// Batches of one caller that awaits each are applied in its order. If the future is dropped, the batch may still be
    /// applied. Gives the appended events with their numbers, in the order of the batch.
    fn commit(&self, batch: Vec<Write>) -> BoxFuture<'_, Result<Vec<Event>, Error>>;

    /// Forgets what is old; says how many tasks. It is done in many short transactions, so that those who write meanwhile
    /// are not held up. One that breaks off leaves the store sound, and the next goes on from there.
    fn prune(&self, prune: Prune) -> BoxFuture<'_, Result<u64, Error>>;

    /// Whether new work could be recorded now, found out by writing something; if not, why. It costs a sync.
    fn check_writable(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// A task by its whole id.
    fn task<'a>(&'a self, id: &'a TaskId) -> BoxFuture<'a, Result<Option<Task>, Error>>;

    /// The same with its open requests, the oldest first. What everybody looks at most; in one read where that is cheaper.
    fn task_with_open<'a>(&'a self, id: &'a TaskId) -> BoxFuture<'a, Result<Option<WithOpen>, Error>> {
        Box::pin(async move {
            let Some(task) = self.task(id).await? else { return Ok(None) };
            let open = self.requests(&RequestFilter::open_of(id.clone())).await?;
            Ok(Some((task, open)))
        })
    }

    /// Tasks, the newest first.
    fn tasks<'a>(&'a self, filter: &'a TaskFilter) -> BoxFuture<'a, Result<Vec<Task>, Error>>;

    /// The turns of a task, the oldest first.
    fn turns<'a>(&'a self, id: &'a TaskId) -> BoxFuture<'a, Result<Vec<TurnRecord>, Error>>;

    /// Events of a task after a number, the oldest first, at most `limit`.
    fn events<'a>(
        &'a self,
        id: &'a TaskId,
        after: Seq,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<Event>, Error>>;

    /// The last events of a task, the oldest first, at most `limit`.
    fn last_events<'a>(&'a self, id: &'a TaskId, limit: u32) -> BoxFuture<'a, Result<Vec<Event>, Error>>;

    /// The last line of a task's log that tells what a turn changed.
    fn last_diff<'a>(&'a self, id: &'a TaskId) -> BoxFuture<'a, Result<Option<Event>, Error>>;

    /// Whether words that were sent under this name are a part of a turn of the task.
    fn was_steered<'a>(&'a self, id: &'a TaskId, client_id: &'a str) -> BoxFuture<'a, Result<bool, Error>>;

    /// Requests, the oldest first.
    fn requests<'a>(&'a self, filter: &'a RequestFilter) -> BoxFuture<'a, Result<Vec<RequestRecord>, Error>>;

    /// The changes of a request whose own diffs are cut, if they were kept.
    fn whole_changes<'a>(
        &'a self,
        request_id: &'a RequestName,
    ) -> BoxFuture<'a, Result<Option<WholeChanges>, Error>>;

    /// How many there are of what, without reading any of it.
    fn counts(&self) -> BoxFuture<'_, Result<Counts, Error>>;

    /// Deliveries, the newest first.
    fn deliveries<'a>(&'a self, filter: &'a DeliveryFilter) -> BoxFuture<'a, Result<Vec<Delivery>, Error>>;

    /// Of each target, the unfinished delivery whose time comes first. Of the replies to it only the oldest counts:
    /// they keep their order.
    fn next_deliveries(&self) -> BoxFuture<'_, Result<Vec<Delivery>, Error>>;

    /// Messages that came in, the newest first.
    fn messages<'a>(&'a self, filter: &'a MessageFilter) -> BoxFuture<'a, Result<Vec<Message>, Error>>;

    /// How many messages there are, without reading any. A limit does not count.
    fn message_count<'a>(&'a self, filter: &'a MessageFilter) -> BoxFuture<'a, Result<u64, Error>>;

    /// Of each conversation of a channel the open message whose turn it is, and every open message that need not wait,
    /// the oldest first.
    fn next_messages<'a>(&'a self, channel: &'a ChannelName) -> BoxFuture<'a, Result<Vec<Message>, Error>>;

    /// Conversations of a channel, the one that changed last first; only the one of this name if there is one.
    fn conversations<'a>(
        &'a self,
        channel: &'a ChannelName,
        key: Option<&'a ConversationKey>,
    ) -> BoxFuture<'a, Result<Vec<Conversation>, Error>>;

    /// What is remembered of channels, by name.
    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRecord>, Error>>;

    /// All tokens, by name.
    fn tokens(&self) -> BoxFuture<'_, Result<Vec<Token>, Error>>;

    /// What a token has used of its quota.
    fn used_by<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Used, Error>>;

    /// Lines of the audit log, the oldest first.
    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> BoxFuture<'a, Result<Vec<AuditLine>, Error>>;

    /// Looks for damage; each entry is a finding, none means sound.
    fn check(&self) -> BoxFuture<'_, Result<Vec<String>, Error>>;

    /// Writes a copy to a new file while everything goes on.
    fn backup<'a>(&'a self, file: &'a std::path::Path) -> BoxFuture<'a, Result<(), Error>>;
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A new task. Refused with [`Error::Duplicate`] if its `client_request_id` is taken.
    AddTask(Box<Task>),
    /// All of a task's fields, as its one owner knows them.
    SaveTask(Box<Task>),
    /// A turn, new or changed.
    SaveTurn(Box<TurnRecord>),
    /// A request, new or changed.
    SaveRequest(Box<RequestRecord>),
    /// The changes of a request whose own diffs are cut, new or changed.
    SaveWholeChanges(Box<WholeChanges>),
    /// Lines for a task's log.
    Append {
        /// Whose.
        task_id: TaskId,
        /// The lines, in order.
        events: Vec<NewEvent>,
    },
    /// A new delivery. If one has its `join_key` already, that one will do, and nothing is added.
    AddDelivery(Box<Delivery>),
    /// All of a delivery's fields, as its one owner knows them.
    SaveDelivery(Box<Delivery>),
    /// A new message. If its channel has brought it before, nothing is added.
    AddMessage(Box<Message>),
    /// All of a message's fields, as its one owner knows them.
    SaveMessage(Box<Message>),
    /// A conversation, new or changed.
    SaveConversation(Box<Conversation>),
    /// What is remembered of a channel, new or changed.
    SaveChannel(Box<ChannelRecord>),
    /// A token, new or changed. Refused if another one has its hash.
    SaveToken(Box<Token>),
    /// That so much was handed over to a task by a token, on top of what it has handed over to it before.
    HandOver {
        /// To which task.
        task_id: TaskId,
        /// By which token, by its name.
        token: String,
        /// How much counts against its quota.
        bytes: u64,
    },
    /// A line for the audit log: who decided or commanded what.
    Audit {
        /// When.
        at: TimeMs,
        /// Who.
        actor: String,
        /// What.
        action: String,
        /// On which task.
        task_id: Option<TaskId>,
        /// The details, redacted.
        detail: String,
    },
}

/// What is forgotten: tasks at rest that ended before a time, messages that are over since before it, conversations
/// without either [`CONVERSATIONS_OUTLIVE_MS`] later, old events beyond a count per task, and all but the newest
/// [`AUDIT_LINES`] of the audit log. A task that goes on by itself, or has a request open or decided, is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prune {
    /// Tasks at rest since before this are forgotten.
    pub ended_before: TimeMs,
    /// At most so many events of a task are kept; the newest.
    pub events_per_task: u32,
}

/// How many there are of what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks by their stored state; states without any are left out.
    pub tasks: HashMap<Status, u64>,
    /// Requests that are open.
    pub open_requests: u64,
    /// Deliveries that are still to be made.
    pub unsent: u64,
    /// When the oldest of them was written.
    pub oldest_unsent_at: Option<TimeMs>,
}

/// Which tasks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskFilter {
    /// Only those of these states; empty is all.
    pub statuses: Vec<Status>,
    /// Only the one that this request started.
    pub client_request_id: Option<String>,
    /// Only those of this Codex thread.
    pub thread_id: Option<String>,
    /// Only those whose id begins so.
    pub id_prefix: Option<String>,
    /// Only those that work in this directory or below it.
    pub cwd: Option<PathBuf>,
    /// Only those that are under way or have changed since.
    pub active_since: Option<TimeMs>,
    /// Only those with this text in their id, the beginning of their prompt or their answer; the case of ASCII letters
    /// does not matter.
    pub text: Option<String>,
    /// Only those created before this one, for the next page. Nothing comes before one that is not there.
    pub before: Option<TaskId>,
    /// At most so many; none is all.
    pub limit: Option<u32>,
}

/// A task with its open requests.
pub type WithOpen = (Task, Vec<RequestRecord>);

/// Which requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestFilter {
    /// Only of this task.
    pub task_id: Option<TaskId>,
    /// Only by this name.
    pub request_id: Option<RequestName>,
    /// Only the one that Codex names so.
    pub key: Option<RequestKey>,
    /// Only in these states; empty is all.
    pub states: Vec<RequestState>,
}

impl RequestFilter {
    /// What waits for an answer in a task.
    pub fn open_of(task_id: TaskId) -> Self {
        Self { task_id: Some(task_id), states: vec![RequestState::Open], ..Self::default() }
    }
}

/// A line of the audit log: who decided or commanded what. It stays when its task is forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// When.
    pub at: TimeMs,
    /// Who.
    pub actor: String,
    /// What.
    pub action: String,
    /// On which task.
    pub task_id: Option<TaskId>,
    /// The details, redacted.
    pub detail: String,
}

/// Which lines of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only on tasks whose id begins so.
    pub task_id_prefix: Option<String>,
    /// Only from this time on.
    pub since: Option<TimeMs>,
    /// At most so many, the newest; none is all.
    pub limit: Option<u32>,
}

/// Which deliveries.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeliveryFilter {
    /// Only the one of this name.
    pub id: Option<DeliveryId>,
    /// Only of these tasks; empty is all.
    pub task_ids: Vec<TaskId>,
    /// Only in these states; empty is all.
    pub states: Vec<State>,
    /// Only to this target.
    pub target: Option<String>,
    /// Only those to which the target said that it is gone for good.
    pub target_gone: bool,
    /// Only those that tell of this request.
    pub request_id: Option<RequestName>,
    /// Only those that changed since.
    pub since: Option<TimeMs>,
    /// At most so many; none is all.
    pub limit: Option<u32>,
}

/// Which messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageFilter {
    /// Only the one of this name.
    pub id: Option<MessageId>,
    /// Only of this channel.
    pub channel: Option<ChannelName>,
    /// Only those that their source calls so; empty is all.
    pub external_ids: Vec<String>,
    /// Only of this conversation.
    pub conversation: Option<ConversationKey>,
    /// Only by this sender.
    pub sender_id: Option<String>,
    /// Only those that this task works on, or worked on.
    pub task_id: Option<TaskId>,
    /// Only those that this delivery answers.
    pub reply_id: Option<DeliveryId>,
    /// Only in these states; empty is all.
    pub states: Vec<inbox::State>,
    /// Only those that came in since.
    pub since: Option<TimeMs>,
    /// Only those of which the source was not told that they are done with.
    pub unacknowledged: bool,
    /// Only those that nothing more is done for: answered or given up, and the reply, if there is one, out or given up.
    pub done_with: bool,
    /// At most so many, the newest; none is all.
    pub limit: Option<u32>,
}

impl Error {
    /// Whether it is about the store as a whole, and not about what was asked of it.
    pub fn is_of_all(&self) -> bool {
        match self {
            Self::DiskFull { .. }
            | Self::ReadOnly { .. }
            | Self::Locked { .. }
            | Self::Corrupt { .. }
            | Self::TooNew { .. } => true,
            Self::Duplicate(_) | Self::Other(_) => false,
        }
    }
}

/// Why the store did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The `client_request_id` belongs to this task already.
    #[error("that request has already started task {0}")]
    Duplicate(TaskId),
    /// No space is left. New tasks, batches of nothing but events and large ones are refused until there is some; changes of
    /// what has begun still go through for as long as the space set aside for them lasts.
    #[error("the disk is full: free some space in {place}, nothing that was acknowledged is lost")]
    DiskFull {
        /// Where.
        place: String,
    },
    /// It cannot be written.
    #[error("{place} cannot be written: check that the file system is not mounted read-only and who owns it")]
    ReadOnly {
        /// Where.
        place: String,
    },
    /// Somebody else holds it.
    #[error("{place} is locked by another program")]
    Locked {
        /// Where.
        place: String,
    },
    /// It is damaged.
    #[error("{place} is damaged ({detail}): stop codex-bridge and restore a backup")]
    Corrupt {
        /// Where.
        place: String,
        /// What was found.
        detail: String,
    },
    /// It was written by a later version.
    #[error(
        "{place} was written by a later version (schema {found}, this program knows {known}): update codex-bridge"
    )]
    TooNew {
        /// Where.
        place: String,
        /// What was found.
        found: i64,
        /// What is known.
        known: i64,
    },
    /// Anything else.
    #[error("store: {0}")]
    Other(String),
}
