//! Where everything is remembered. Callers know this trait; nobody but an implementation knows SQL.
//!
//! The rules of every implementation: a batch is one transaction and durable when [`Store::commit`] returns; events
//! get their numbers inside it, without gaps; a reader never sees half a batch.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(any(test, feature = "conformance"))]
pub mod memory;
pub mod sqlite;

use futures_util::future::BoxFuture;

use crate::event::{Event, NewEvent, Seq};
use crate::request::{RequestRecord, RequestState};
use crate::task::{Status, Task, TaskId, TimeMs, TurnRecord};

/// Where everything is remembered.
pub trait Store: Send + Sync + 'static {
    /// Applies a batch as one transaction. All or nothing, and durable when it returns.
    ///
    /// Batches of one caller that awaits each are applied in its order. If the future is dropped, the batch may still be
    /// applied.
    fn commit(&self, batch: Vec<Write>) -> BoxFuture<'_, Result<Committed, Error>>;

    /// A task by its whole id.
    fn task<'a>(&'a self, id: &'a TaskId) -> BoxFuture<'a, Result<Option<Task>, Error>>;

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

    /// Requests, the oldest first.
    fn requests<'a>(&'a self, filter: &'a RequestFilter) -> BoxFuture<'a, Result<Vec<RequestRecord>, Error>>;

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
    /// Lines for a task's log.
    Append {
        /// Whose.
        task_id: TaskId,
        /// The lines, in order.
        events: Vec<NewEvent>,
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
    /// Forgets tasks at rest that ended before a time, and old events beyond a count per task. A task that goes on by
    /// itself, or has a request open or decided, is kept.
    ///
    /// Stands alone in its batch: it is done in many short transactions, so that those who write meanwhile are not held
    /// up. One that breaks off leaves the store sound, and the next goes on from there.
    Prune {
        /// Tasks at rest since before this are forgotten.
        ended_before: TimeMs,
        /// At most so many events of a task are kept; the newest.
        events_per_task: u32,
    },
}

/// What a commit gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Committed {
    /// The appended events with their numbers, in the order of the batch.
    pub events: Vec<Event>,
    /// How many tasks were forgotten.
    pub pruned_tasks: u64,
}

/// Which tasks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskFilter {
    /// Only those of these states; empty is all. The two waiting states are not stored and match nothing.
    pub statuses: Vec<Status>,
    /// Only the one that this request started.
    pub client_request_id: Option<String>,
    /// Only those whose id begins so.
    pub id_prefix: Option<String>,
    /// Only those created before this one, for the next page. Nothing comes before one that is not there.
    pub before: Option<TaskId>,
    /// At most so many; none is all.
    pub limit: Option<u32>,
}

/// Which requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestFilter {
    /// Only of this task.
    pub task_id: Option<TaskId>,
    /// Only by this name.
    pub request_id: Option<String>,
    /// Only in these states; empty is all.
    pub states: Vec<RequestState>,
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
