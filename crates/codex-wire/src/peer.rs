//! One connection: calls and their replies, requests and notifications, in one ordered stream.
//!
//! The wire is not JSON-RPC 2.0 (no `jsonrpc` member) and both sides call each other, so no library fits. The peer
//! knows ids, deadlines and routes, not what a message means for a turn.
//!
//! Rules that hold here:
//! - A message reaches the inbox of its thread in the order in which it came, replies of [`Peer::post`] included.
//! - Every queue is bounded in messages; the notifications in all inboxes share a budget in bytes. A full inbox blocks
//!   the reader, so the owner of an inbox must never wait for a call on the same connection: it posts.
//! - The end of the connection fails every pending call at once, with the reason.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::answer::{Answer, RpcError};
use crate::call::{Call, ThreadOpened};
use crate::event::Event;
use crate::id::{RequestId, ThreadId, TurnId};
use crate::request::ServerRequest;
use crate::transport::{Error as TransportError, Transport};

mod pump;

/// Most calls in flight. codex 0.166 leaves calls unanswered when hundreds are in flight, and refuses from 256 on.
const CALLS_IN_FLIGHT: usize = 64;
/// Most messages that wait to be written.
const OUTGOING_MESSAGES: usize = 256;
/// Most messages that wait in one inbox.
pub const INBOX_MESSAGES: usize = 1024;
/// Most bytes that wait in all inboxes of a connection together.
const INBOUND_BYTES: usize = 128 * 1024 * 1024;
/// Codex's error code for an overloaded server.
const OVERLOADED: i64 = -32001;
/// Tries of a call that meets an overloaded server.
const OVERLOAD_TRIES: u32 = 6;
/// The first pause between these tries; it doubles.
const OVERLOAD_PAUSE: Duration = Duration::from_millis(50);
/// Most notifications that are kept for threads that are being opened.
const EARLY_NOTIFICATIONS: usize = 64;

/// A connection to an app-server. Cheap to clone. The connection ends when [`Peer::close`] is called or the server
/// closes it.
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
}

/// A message in an inbox.
#[derive(Debug)]
pub enum Delivery {
    /// A notification for this thread, for the thread of one of its sub-agents, or for no particular thread.
    Notification(Notification),
    /// A request of this thread or of one of its sub-agents.
    Request(Box<IncomingRequest>),
    /// The reply to a posted call.
    Reply {
        /// The token that was passed to [`Peer::post`].
        token: u64,
        /// The reply, or the error.
        result: Result<Box<RawValue>, CallError>,
    },
    /// The connection ended. Nothing follows. An inbox of several threads gets this once.
    Closed(Closed),
}

/// A notification, parsed no further than its envelope.
#[derive(Debug, Clone)]
pub struct Notification {
    /// The method.
    pub method: Box<str>,
    /// The thread, if the notification names one.
    pub thread_id: Option<ThreadId>,
    /// The turn, if the notification names one.
    pub turn_id: Option<TurnId>,
    line: Bytes,
    /// Its share of the byte budget of all inboxes. Copies for several threads share it, as they share the line.
    _budget: Option<Arc<OwnedSemaphorePermit>>,
}

/// A request from the server, with the id that the answer must carry.
#[derive(Debug)]
pub struct IncomingRequest {
    /// The id, as it came.
    pub id: RequestId,
    /// The request.
    pub request: ServerRequest,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The server refused.
    #[error("{0}")]
    Refused(#[from] RpcError),
    /// No reply in time. The call may have taken effect.
    #[error("{method} timed out after {} ms", .after.as_millis())]
    TimedOut {
        /// The call.
        method: &'static str,
        /// Its limit.
        after: Duration,
    },
    /// The connection ended before the reply. The call may have taken effect.
    #[error("connection lost: {0}")]
    Closed(#[from] Closed),
    /// The reply does not have the shape that the method promises.
    #[error("unreadable reply to {method}: {message}")]
    Unreadable {
        /// The call.
        method: &'static str,
        /// What is wrong with it.
        message: String,
    },
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The server closed it, or died.
    #[error("the server closed the connection")]
    ByServer,
    /// We closed it.
    #[error("closed by this side")]
    ByUs,
    /// The transport broke.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// The receiving end of a thread's messages.
pub type Inbox = mpsc::Receiver<Delivery>;
/// The sending end of an inbox, which is handed to the peer.
pub type InboxSender = mpsc::Sender<Delivery>;

/// A bounded inbox.
pub fn inbox() -> (InboxSender, Inbox) {
    mpsc::channel(INBOX_MESSAGES)
}

struct Shared {
    next_id: AtomicI64,
    state: Mutex<State>,
    outgoing: mpsc::Sender<Bytes>,
    in_flight: Arc<Semaphore>,
    budget: Arc<Semaphore>,
    closed: watch::Sender<Option<Closed>>,
    stray_lines: AtomicU64,
}

#[derive(Default)]
struct State {
    pending: HashMap<i64, Pending>,
    threads: HashMap<ThreadId, InboxSender>,
    /// Maps threads of sub-agents to the thread that started them.
    parents: HashMap<ThreadId, ThreadId>,
    /// Notifications for threads without an inbox that came while a thread is being opened. They may belong to that
    /// thread.
    early: Vec<Notification>,
}

/// A call that waits for its reply.
struct Pending {
    method: &'static str,
    /// Kept for another try.
    params: Box<RawValue>,
    reply_to: ReplyTo,
    /// The inbox for the thread that the reply opens, if it opens one.
    opens: Option<InboxSender>,
    deadline: Instant,
    limit: Duration,
    tries: u32,
    _slot: OwnedSemaphorePermit,
    timer: AbortOnDrop,
}

/// A call as it stands on the wire.
#[derive(Serialize)]
struct CallLine<'a> {
    id: i64,
    method: &'static str,
    params: &'a RawValue,
}

enum ReplyTo {
    Caller(oneshot::Sender<Result<Box<RawValue>, CallError>>),
    Inbox { inbox: InboxSender, token: u64 },
}

struct AbortOnDrop(Option<tokio::task::AbortHandle>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

impl Peer {
    /// Starts a connection: two tasks read and write the transport from now on.
    pub fn new(transport: Transport) -> Self {
        let (outgoing, queue) = mpsc::channel(OUTGOING_MESSAGES);
        let (closed, _) = watch::channel(None);
        let shared = Arc::new(Shared {
            next_id: AtomicI64::new(1),
            state: Mutex::default(),
            outgoing,
            in_flight: Arc::new(Semaphore::new(CALLS_IN_FLIGHT)),
            budget: Arc::new(Semaphore::new(INBOUND_BYTES)),
            closed,
            stray_lines: AtomicU64::new(0),
        });
        tokio::spawn(pump::write(Arc::clone(&shared), transport.outgoing, queue));
        tokio::spawn(pump::read(Arc::clone(&shared), transport.incoming));
        Self { shared }
    }

    /// Calls and waits for the reply. The owner of an inbox uses [`Peer::post`] instead.
    pub async fn call<C: Call>(&self, call: &C, limit: Duration) -> Result<C::Reply, CallError> {
        self.call_and_wait(call, limit, None).await
    }

    /// Calls `thread/start`, `thread/resume` or `thread/fork`. All later messages for the thread go to `inbox`, without
    /// a gap.
    pub async fn open_thread(
        &self,
        call: &impl Call<Reply = ThreadOpened>,
        limit: Duration,
        inbox: InboxSender,
    ) -> Result<ThreadOpened, CallError> {
        self.call_and_wait(call, limit, Some(inbox)).await
    }

    async fn call_and_wait<C: Call>(
        &self,
        call: &C,
        limit: Duration,
        opens: Option<InboxSender>,
    ) -> Result<C::Reply, CallError> {
        let (reply_to, reply) = oneshot::channel();
        self.send_call(call, limit, ReplyTo::Caller(reply_to), opens).await?;
        read_reply::<C>(&reply.await.unwrap_or(Err(CallError::Closed(Closed::ByUs)))?)
    }

    /// Calls without waiting. The reply comes to `inbox` as [`Delivery::Reply`], in order with the other messages.
    pub async fn post<C: Call>(
        &self,
        call: &C,
        limit: Duration,
        inbox: InboxSender,
        token: u64,
    ) -> Result<(), CallError> {
        self.send_call(call, limit, ReplyTo::Inbox { inbox, token }, None).await
    }

    /// Answers a request of the server.
    pub async fn respond(&self, id: &RequestId, answer: Answer) -> Result<(), Closed> {
        self.shared.respond(id, answer).await
    }

    /// Sends a notification without parameters, such as `initialized`.
    pub async fn notify(&self, method: &str) -> Result<(), Closed> {
        self.shared.write(Bytes::from(json!({ "method": method }).to_string())).await
    }

    /// Sends messages for `thread` to `inbox` from now on. Call it before `thread/resume` on a live host: requests that
    /// the host repeats may come before the reply.
    pub fn route(&self, thread: ThreadId, inbox: InboxSender) {
        let mut state = self.shared.state();
        match self.closed() {
            // The other inboxes have got this already. A full inbox loses it: its owner has other messages to read.
            Some(reason) => drop(inbox.try_send(Delivery::Closed(reason))),
            None => drop(state.threads.insert(thread, inbox)),
        }
    }

    /// Ends the connection. Every pending call fails at once, and a server on stdio exits.
    pub fn close(&self) {
        self.shared.close(Closed::ByUs);
    }

    /// Why the connection ended, if it has.
    pub fn closed(&self) -> Option<Closed> {
        self.shared.closed.borrow().clone()
    }

    /// Waits for the end of the connection.
    pub async fn wait_closed(&self) -> Closed {
        self.shared.wait_closed().await
    }

    /// How many lines were no messages.
    pub fn stray_lines(&self) -> u64 {
        self.shared.stray_lines.load(Ordering::Relaxed)
    }

    async fn send_call<C: Call>(
        &self,
        call: &C,
        limit: Duration,
        reply_to: ReplyTo,
        opens: Option<InboxSender>,
    ) -> Result<(), CallError> {
        let deadline = Instant::now() + limit;
        let timed_out = CallError::TimedOut { method: C::METHOD, after: limit };
        let slot = tokio::time::timeout_at(deadline, Arc::clone(&self.shared.in_flight).acquire_owned());
        let slot = slot.await.map_err(|_| timed_out)?.map_err(|_| CallError::Closed(Closed::ByUs))?;
        let params = serde_json::value::to_raw_value(call)
            .map_err(|error| CallError::Unreadable { method: C::METHOD, message: error.to_string() })?;
        let pending = Pending {
            method: C::METHOD,
            params,
            reply_to,
            opens,
            deadline,
            limit,
            tries: 1,
            _slot: slot,
            timer: AbortOnDrop(None),
        };
        self.shared.register_and_send(pending).await
    }
}

/// Reads the result of a call.
pub fn read_reply<C: Call>(result: &RawValue) -> Result<C::Reply, CallError> {
    serde_json::from_str(result.get())
        .map_err(|error| CallError::Unreadable { method: C::METHOD, message: error.to_string() })
}

impl Notification {
    /// Parses the event.
    pub fn event(&self) -> Event {
        Event::parse(&self.method, &self.line)
    }

    /// The line as it came.
    pub fn raw(&self) -> &[u8] {
        &self.line
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a line. Waits while the queue is full and the connection lasts.
    async fn write(&self, line: Bytes) -> Result<(), Closed> {
        tokio::select! {
            biased;
            reason = self.wait_closed() => Err(reason),
            sent = self.outgoing.send(line) => sent.map_err(|_| self.reason()),
        }
    }

    async fn wait_closed(&self) -> Closed {
        let mut closed = self.closed.subscribe();
        match closed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or(Closed::ByUs),
            Err(_) => Closed::ByUs,
        }
    }

    async fn respond(&self, id: &RequestId, answer: Answer) -> Result<(), Closed> {
        let reply = match answer.into_reply() {
            Ok(result) => json!({ "id": id, "result": result }),
            Err(error) => json!({ "id": id, "error": error }),
        };
        self.write(Bytes::from(reply.to_string())).await
    }

    async fn register_and_send(self: &Arc<Self>, pending: Pending) -> Result<(), CallError> {
        let (deadline, timed_out) = (pending.deadline, pending.timed_out());
        let (id, line) = {
            let mut state = self.state();
            if let Some(reason) = self.closed.borrow().clone() {
                return Err(CallError::Closed(reason));
            }
            self.register(&mut state, pending)
        };
        let error = match tokio::time::timeout_at(deadline, self.write(line)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(closed)) => CallError::Closed(closed),
            Err(_) => timed_out,
        };
        // Only the task that removes the call from the list reports its outcome.
        self.state().pending.remove(&id).map_or(Ok(()), |_| Err(error))
    }

    /// Puts a call on the list under a new id; the line is still to be written.
    fn register(self: &Arc<Self>, state: &mut State, mut pending: Pending) -> (i64, Bytes) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = CallLine { id, method: pending.method, params: &pending.params };
        // Serialising text, a number and valid JSON cannot fail.
        let line = Bytes::from(serde_json::to_vec(&line).unwrap_or_default());
        pending.timer = self.start_timer(id, pending.deadline);
        state.pending.insert(id, pending);
        (id, line)
    }

    fn start_timer(self: &Arc<Self>, id: i64, deadline: Instant) -> AbortOnDrop {
        let shared = Arc::clone(self);
        let timer = tokio::spawn(async move {
            tokio::time::sleep_until(deadline).await;
            let pending = shared.state().pending.remove(&id);
            if let Some(pending) = pending {
                pending.time_out().await;
            }
        });
        AbortOnDrop(Some(timer.abort_handle()))
    }

    /// Ends the connection for `reason`, unless it has ended.
    fn close(&self, reason: Closed) {
        self.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            if first {
                *closed = Some(reason);
            }
            first
        });
    }

    fn reason(&self) -> Closed {
        self.closed.borrow().clone().unwrap_or(Closed::ByServer)
    }
}

impl State {
    /// The inbox of a thread, or of the nearest parent thread that has one.
    fn inbox_of(&self, thread: &ThreadId) -> Option<&InboxSender> {
        let mut thread = thread;
        // A chain that is longer than the map has a loop.
        for _ in 0..=self.parents.len() {
            if let Some(inbox) = self.threads.get(thread) {
                return Some(inbox);
            }
            thread = self.parents.get(thread)?;
        }
        None
    }

    /// Whether a thread is being opened.
    fn is_opening(&self) -> bool {
        self.pending.values().any(|call| call.opens.is_some())
    }

    /// Gives a thread its inbox. Returns the notifications that came before.
    fn opened(&mut self, thread: &ThreadId, inbox: &InboxSender) -> Vec<Notification> {
        self.threads.insert(thread.clone(), inbox.clone());
        let is_of_it = |note: &mut Notification| note.thread_id.as_ref() == Some(thread);
        let early = self.early.extract_if(.., is_of_it).collect();
        if !self.is_opening() {
            self.early.clear();
        }
        early
    }
}

impl Pending {
    fn timed_out(&self) -> CallError {
        CallError::TimedOut { method: self.method, after: self.limit }
    }

    async fn time_out(mut self) {
        // This runs on the timer's own task, which must not abort itself before the caller has its error.
        self.timer.0 = None;
        let error = self.timed_out();
        self.finish(Err(error)).await;
    }

    /// Sends the outcome to the caller, which may have stopped waiting.
    async fn finish(self, result: Result<Box<RawValue>, CallError>) {
        match self.reply_to {
            ReplyTo::Caller(caller) => drop(caller.send(result)),
            ReplyTo::Inbox { inbox, token } => drop(inbox.send(Delivery::Reply { token, result }).await),
        }
    }
}
