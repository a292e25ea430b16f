//! The store: a trait for callers. Only its implementations know SQL.
//!
//! Rules for every implementation: a batch is one transaction, and durable when [`Store::commit`] returns. Events get
//! their numbers within the transaction, without gaps. A reader never sees half a batch.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod sqlite;

use std::collections::HashMap;
use std::path::PathBuf;

use codex_session::RequestKey;
use futures_util::future::BoxFuture;

use crate::event::{Event, NewEvent, Seq};
use crate::inbox::{
    self, AttachmentRecord, ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId,
};
use crate::outbox::{Delivery, DeliveryId, DeliveryState};
use crate::request::{RequestName, RequestRecord, RequestState, WholeChanges};
use crate::task::{Status, Task, TaskId, TimeMs, TurnRecord};
use crate::token::{Token, Used};

/// How many lines of the audit log are kept.
pub const AUDIT_LINES: u32 = 100_000;
/// How long a conversation is kept after its task was deleted, so that a later message can say so.
pub const CONVERSATIONS_OUTLIVE_MS: TimeMs = 90 * 24 * 60 * 60 * 1000;

/// What a store answers, later.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// Stores tasks and everything about them.
pub trait Store: Send + Sync + 'static {
    /// Applies a batch as one transaction: all or nothing, and durable when this returns.
    ///
    /// Batches of a caller that awaits each one are applied in that order. If the future is dropped, the batch may
    /// still be applied. Returns the appended events with their numbers, in the order of the batch.
    fn commit(&self, batch: Vec<Write>) -> StoreFuture<'_, Vec<Event>>;

    /// Deletes old data. Returns how many tasks were deleted. Works in many short transactions, so that writers are not
    /// held up. If it is interrupted, the store stays sound, and the next call continues.
    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64>;

    /// Whether new work could be stored now, found out by writing; the error says why not. Costs a sync.
    fn check_writable(&self) -> StoreFuture<'_, ()>;

    /// A task by its complete id.
    fn task<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Task>>;

    /// A task with its open requests, the oldest first. The most frequent read.
    fn task_with_open<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<WithOpen>> {
        Box::pin(async move {
            let Some(task) = self.task(id).await? else { return Ok(None) };
            let open = self.requests(&RequestFilter::open_of(id.clone())).await?;
            Ok(Some((task, open)))
        })
    }

    /// Tasks, the newest first.
    fn tasks<'a>(&'a self, filter: &'a TaskFilter) -> StoreFuture<'a, Vec<Task>>;

    /// The turns of a task, the oldest first.
    fn turns<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Vec<TurnRecord>>;

    /// Events of a task after `after`, the oldest first, at most `limit`.
    fn events<'a>(&'a self, id: &'a TaskId, after: Seq, limit: u32) -> StoreFuture<'a, Vec<Event>>;

    /// The last events of a task, the oldest first, at most `limit`.
    fn last_events<'a>(&'a self, id: &'a TaskId, limit: u32) -> StoreFuture<'a, Vec<Event>>;

    /// The last log line with a diff.
    fn last_diff<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Event>>;

    /// Whether the log has a steer with this id.
    fn was_steered<'a>(&'a self, id: &'a TaskId, client_id: &'a str) -> StoreFuture<'a, bool>;

    /// Requests, the oldest first.
    fn requests<'a>(&'a self, filter: &'a RequestFilter) -> StoreFuture<'a, Vec<RequestRecord>>;

    /// The complete changes of a request, if they were stored.
    fn whole_changes<'a>(&'a self, request_id: &'a RequestName) -> StoreFuture<'a, Option<WholeChanges>>;

    /// Numbers of rows, without reading the rows.
    fn counts(&self) -> StoreFuture<'_, Counts>;

    /// Deliveries, the newest first.
    fn deliveries<'a>(&'a self, filter: &'a DeliveryFilter) -> StoreFuture<'a, Vec<Delivery>>;

    /// For each target, the unfinished delivery that is due first. Replies keep their order.
    fn next_deliveries(&self) -> StoreFuture<'_, Vec<Delivery>>;

    /// Messages, the newest first.
    fn messages<'a>(&'a self, filter: &'a MessageFilter) -> StoreFuture<'a, Vec<Message>>;

    /// How many messages match, without reading them. Ignores the filter's limit.
    fn message_count<'a>(&'a self, filter: &'a MessageFilter) -> StoreFuture<'a, u64>;

    /// For each conversation of a channel, the next unfinished message, and all that need not wait; the oldest first.
    fn next_messages<'a>(&'a self, channel: &'a ChannelName) -> StoreFuture<'a, Vec<Message>>;

    /// The files of a message, by number, without their content.
    fn attachments<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Vec<AttachmentRecord>>;

    /// The sealed content of one file of a message.
    fn attachment_content<'a>(&'a self, id: &'a MessageId, number: u32) -> StoreFuture<'a, Option<Vec<u8>>>;

    /// The conversations of a channel, the last changed first; only the one with this key if `key` is given.
    fn conversations<'a>(
        &'a self,
        channel: &'a ChannelName,
        key: Option<&'a ConversationKey>,
    ) -> StoreFuture<'a, Vec<Conversation>>;

    /// All channels, by name.
    fn channels(&self) -> StoreFuture<'_, Vec<ChannelRecord>>;

    /// All tokens, by name.
    fn tokens(&self) -> StoreFuture<'_, Vec<Token>>;

    /// What a token has used of its quota.
    fn used_by<'a>(&'a self, token: &'a str) -> StoreFuture<'a, Used>;

    /// Lines of the audit log, the oldest first.
    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> StoreFuture<'a, Vec<AuditLine>>;

    /// Looks for damage. Returns a list of findings; empty means sound.
    fn check(&self) -> StoreFuture<'_, Vec<String>>;

    /// Writes a copy to a new file while the store stays in use.
    fn backup<'a>(&'a self, file: &'a std::path::Path) -> StoreFuture<'a, ()>;
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Adds a task. Refused with [`Error::Duplicate`] if its `client_request_id` exists.
    AddTask(Box<Task>),
    /// Replaces a task. Only its owner may do so.
    SaveTask(Box<Task>),
    /// Adds or replaces a turn.
    SaveTurn(Box<TurnRecord>),
    /// Adds or replaces a request.
    SaveRequest(Box<RequestRecord>),
    /// Adds or replaces the complete changes of a request.
    SaveWholeChanges(Box<WholeChanges>),
    /// Appends lines to a task's log.
    Append {
        /// The task.
        task_id: TaskId,
        /// The lines, in order.
        events: Vec<NewEvent>,
    },
    /// Adds a delivery, unless another one has its `join_key`.
    AddDelivery(Box<Delivery>),
    /// Replaces a delivery. Only its owner may do so.
    SaveDelivery(Box<Delivery>),
    /// Adds a message, unless its channel already brought it.
    AddMessage(Box<Message>),
    /// Replaces a message. Only its owner may do so. A message without a text loses its files too.
    SaveMessage(Box<Message>),
    /// Adds or replaces a file of a message. Does nothing if the message is not stored.
    SaveAttachment(Box<AttachmentRecord>),
    /// Adds or replaces a conversation.
    SaveConversation(Box<Conversation>),
    /// Adds or replaces a channel.
    SaveChannel(Box<ChannelRecord>),
    /// Adds or replaces a token. Refused if another token has its hash.
    SaveToken(Box<Token>),
    /// Adds to the bytes that a token has handed over to a task.
    HandOver {
        /// The task.
        task_id: TaskId,
        /// The token's name.
        token: String,
        /// How many bytes count against the quota.
        bytes: u64,
    },
    /// Appends a line to the audit log: who did what.
    Audit(AuditLine),
}

/// What to delete: tasks that finished before a time; messages that were done before it; conversations without either,
/// [`CONVERSATIONS_OUTLIVE_MS`] later; events beyond a number per task; and all but the newest [`AUDIT_LINES`] of the
/// audit log. A parked task, and one with an open or decided request, is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prune {
    /// Tasks that finished before this time are deleted.
    pub ended_before: TimeMs,
    /// How many events of a task are kept; the newest ones.
    pub events_per_task: u32,
}

/// Numbers of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks by stored status. A status without tasks is left out.
    pub tasks: HashMap<Status, u64>,
    /// Open requests.
    pub open_requests: u64,
    /// Deliveries that are still to be sent.
    pub unsent: u64,
    /// When the oldest unsent delivery was created.
    pub oldest_unsent_at: Option<TimeMs>,
}

/// Selects tasks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskFilter {
    /// Only with one of these statuses; empty means all.
    pub statuses: Vec<Status>,
    /// Only the task that this request started.
    pub client_request_id: Option<String>,
    /// Only tasks of this Codex thread.
    pub thread_id: Option<String>,
    /// Only tasks whose id begins with this.
    pub id_prefix: Option<String>,
    /// Only tasks in this directory or below it.
    pub cwd: Option<PathBuf>,
    /// Only tasks that are unfinished or changed since this time.
    pub active_since: Option<TimeMs>,
    /// Only tasks with this text in their id, prompt summary or answer. Ignores the case of ASCII letters.
    pub text: Option<String>,
    /// Only tasks created before this one, for the next page. Matches nothing if this task does not exist.
    pub before: Option<TaskId>,
    /// At most this many; `None` means all.
    pub limit: Option<u32>,
}

/// A task with its open requests.
pub type WithOpen = (Task, Vec<RequestRecord>);

/// Selects requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestFilter {
    /// Only of this task.
    pub task_id: Option<TaskId>,
    /// Only with this name.
    pub request_id: Option<RequestName>,
    /// Only with a name that begins like this. An empty text matches no request: a missing name must not mean any request.
    pub id_prefix: Option<String>,
    /// Only with this key of Codex's.
    pub key: Option<RequestKey>,
    /// Only in one of these states; empty means all.
    pub states: Vec<RequestState>,
    /// The maximum number of rows; `None` means no limit.
    pub limit: Option<u32>,
}

impl RequestFilter {
    /// The open requests of a task.
    pub fn open_of(task_id: TaskId) -> Self {
        Self { task_id: Some(task_id), states: vec![RequestState::Open], ..Self::default() }
    }
}

/// A line of the audit log: who did what. It outlives its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// When.
    pub at: TimeMs,
    /// Who.
    pub actor: String,
    /// What.
    pub action: String,
    /// The task.
    pub task_id: Option<TaskId>,
    /// The details, redacted.
    pub detail: String,
}

/// Selects lines of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only about tasks whose id begins with this.
    pub task_id_prefix: Option<String>,
    /// Only from this time on.
    pub since: Option<TimeMs>,
    /// At most this many, the newest ones; `None` means all.
    pub limit: Option<u32>,
}

/// Selects deliveries.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeliveryFilter {
    /// Only the delivery with this id.
    pub id: Option<DeliveryId>,
    /// Only about these tasks; empty means all.
    pub task_ids: Vec<TaskId>,
    /// Only in one of these states; empty means all.
    pub states: Vec<DeliveryState>,
    /// Only to this target.
    pub target: Option<String>,
    /// Only deliveries that found their target gone for good.
    pub target_gone: bool,
    /// Only deliveries that contain this request.
    pub request_id: Option<RequestName>,
    /// Only deliveries that changed since this time.
    pub since: Option<TimeMs>,
    /// At most this many; `None` means all.
    pub limit: Option<u32>,
}

impl DeliveryFilter {
    /// The deliveries to a target in this state.
    pub(crate) fn to(target: &str, state: DeliveryState) -> Self {
        Self { target: Some(target.to_owned()), states: vec![state], ..Self::default() }
    }
}

/// Selects messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageFilter {
    /// Only the message with this id.
    pub id: Option<MessageId>,
    /// Only of this channel.
    pub channel: Option<ChannelName>,
    /// Only with one of these ids of the source; empty means all.
    pub external_ids: Vec<String>,
    /// Only of this conversation.
    pub conversation: Option<ConversationKey>,
    /// Only from this sender.
    pub sender_id: Option<String>,
    /// Only messages that this task works or worked on.
    pub task_id: Option<TaskId>,
    /// Only messages that this delivery answers.
    pub reply_id: Option<DeliveryId>,
    /// Only in one of these states; empty means all.
    pub states: Vec<inbox::MessageState>,
    /// Only messages that came in since this time.
    pub since: Option<TimeMs>,
    /// Only messages that the source does not know to be done.
    pub unacknowledged: bool,
    /// Only messages that need nothing more: answered or given up, and without an unfinished reply.
    pub done_with: bool,
    /// At most this many, the newest ones; `None` means all.
    pub limit: Option<u32>,
}

impl MessageFilter {
    /// The messages of a channel in this state.
    pub(crate) fn of(channel: &ChannelName, state: inbox::MessageState) -> Self {
        Self { channel: Some(channel.clone()), states: vec![state], ..Self::default() }
    }
}

impl Error {
    /// Whether the store as a whole has failed, and not only this call.
    pub fn affects_whole_store(&self) -> bool {
        !matches!(self, Self::Duplicate(_) | Self::Other(_))
    }
}

/// Why the store did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The `client_request_id` belongs to this task.
    #[error("this client_request_id already started task {0}")]
    Duplicate(TaskId),
    /// The disk is full. New tasks, batches of only events, and large batches are refused until there is space. Other
    /// changes to existing work succeed as long as the reserved space lasts.
    #[error("the disk is full: free some space in {place}, nothing that was acknowledged is lost")]
    DiskFull {
        /// The file.
        place: String,
    },
    /// The file cannot be written.
    #[error("{place} cannot be written: check that the file system is not mounted read-only and who owns it")]
    ReadOnly {
        /// The file.
        place: String,
    },
    /// Another program holds the file.
    #[error("{place} is locked by another program: stop that program first")]
    Locked {
        /// The file.
        place: String,
    },
    /// The file is damaged.
    #[error("{place} is damaged ({detail}): stop codex-bridge and restore a backup")]
    Corrupt {
        /// The file.
        place: String,
        /// What was found.
        detail: String,
    },
    /// The file was written by a later version.
    #[error(
        "{place} was written by a later version (schema {found}, this program knows {known}): update codex-bridge"
    )]
    TooNew {
        /// The file.
        place: String,
        /// The schema version of the file.
        found: i64,
        /// The latest schema version that this program knows.
        known: i64,
    },
    /// Anything else.
    #[error("store: {0}")]
    Other(String),
}
