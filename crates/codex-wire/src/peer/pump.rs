//! The two tasks of a connection: one reads and routes, one writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{
    CallError, Closed, Delivery, EARLY_NOTIFICATIONS, INBOUND_BYTES, InboxSender, IncomingRequest,
    Notification, OVERLOAD_PAUSE, OVERLOAD_TRIES, OVERLOADED, Pending, ReplyTo, Shared,
};
use crate::answer::{Answer, RpcError};
use crate::call::ThreadOpened;
use crate::envelope::{Envelope, Kind};
use crate::event::Event;
use crate::id::{RequestId, ThreadId, TurnId};
use crate::item::SUB_AGENT_CALL;
use crate::request::ServerRequest;
use crate::transport::{Error as TransportError, Incoming, Outgoing};

/// A server that reads nothing for this long counts as dead.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// How long messages from before [`Peer::close`] may take to be written.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);
/// How long a server that reads no more is still read from.
const LAST_MESSAGES_LIMIT: Duration = Duration::from_millis(250);

/// Writes what is queued, in order, until the connection ends.
pub(super) async fn write(shared: Arc<Shared>, mut sink: Outgoing, mut queue: mpsc::Receiver<Bytes>) {
    loop {
        let line = tokio::select! {
            biased;
            _ = shared.wait_closed() => break,
            line = queue.recv() => line,
        };
        let Some(line) = line else { break };
        let sent = tokio::select! {
            biased;
            sent = tokio::time::timeout(WRITE_LIMIT, sink.send(line)) => sent,
            () = flush_time_is_over(&shared) => break,
        };
        match sent {
            Ok(Ok(())) => {}
            // A sink that has failed must not be used again, not even to be closed.
            Ok(Err(error)) => return shared.close(Closed::Transport(error)),
            Err(_) => {
                let error = TransportError::Write("the server no longer reads its input".to_owned());
                shared.close(Closed::Transport(error));
            }
        }
    }
    queue.close();
    let flush = async {
        while let Ok(line) = queue.try_recv() {
            sink.feed(line).await?;
        }
        // A server on stdio exits at the end of its input.
        sink.close().await
    };
    if let Ok(Err(error)) = tokio::time::timeout(FLUSH_LIMIT, flush).await {
        debug!(%error, "the last lines of a connection were not written");
    }
}

async fn flush_time_is_over(shared: &Shared) {
    shared.wait_closed().await;
    tokio::time::sleep(FLUSH_LIMIT).await;
}

/// Reads and routes messages until the connection ends, then reports the end.
pub(super) async fn read(shared: Arc<Shared>, mut incoming: Incoming) {
    loop {
        let message = tokio::select! {
            biased;
            _ = shared.wait_closed() => break,
            message = incoming.next() => message,
        };
        match message {
            Some(Ok(line)) => tokio::select! {
                biased;
                () = receive_line(&shared, line) => {}
                // A full inbox must not delay the end for the others.
                _ = shared.wait_closed() => break,
            },
            Some(Err(error)) => shared.close(Closed::Transport(error)),
            None => shared.close(Closed::ByServer),
        }
    }
    if matches!(shared.reason(), Closed::Transport(TransportError::Write(_))) {
        read_last_messages(&shared, &mut incoming).await;
    }
    report_end(&shared).await;
}

/// Reads the messages that a server sent before it closed its input.
async fn read_last_messages(shared: &Arc<Shared>, incoming: &mut Incoming) {
    let last_messages = async {
        while let Some(Ok(line)) = incoming.next().await {
            receive_line(shared, line).await;
        }
    };
    // After this time without a message nothing more is expected.
    tokio::time::timeout(LAST_MESSAGES_LIMIT, last_messages).await.ok();
}

/// Fails every pending call, then reports the end to every inbox, all at the same time.
async fn report_end(shared: &Shared) {
    let reason = shared.reason();
    let (pending, threads) = {
        let mut state = shared.state();
        state.parents.clear();
        (std::mem::take(&mut state.pending), std::mem::take(&mut state.threads))
    };
    let mut pending: Vec<_> = pending.into_iter().collect();
    pending.sort_unstable_by_key(|(id, _)| *id);
    let mut last_deliveries: Vec<(InboxSender, Vec<Delivery>)> = Vec::new();
    for (_, call) in pending {
        let result = Err(CallError::Closed(reason.clone()));
        match call.reply_to {
            ReplyTo::Caller(caller) => drop(caller.send(result)),
            ReplyTo::Inbox { inbox, token } => {
                last_deliveries_of(&mut last_deliveries, inbox).push(Delivery::Reply { token, result });
            }
        }
    }
    for inbox in threads.into_values() {
        last_deliveries_of(&mut last_deliveries, inbox);
    }
    let sends = last_deliveries.into_iter().map(|(inbox, mut last)| {
        last.push(Delivery::Closed(reason.clone()));
        async move {
            for delivery in last {
                // The owner of the inbox may be gone.
                inbox.send(delivery).await.ok();
            }
        }
    });
    join_all(sends).await;
}

/// The last deliveries of one inbox. An inbox may belong to several threads.
fn last_deliveries_of(
    last_deliveries: &mut Vec<(InboxSender, Vec<Delivery>)>,
    inbox: InboxSender,
) -> &mut Vec<Delivery> {
    let at = last_deliveries.iter().position(|(known, _)| known.same_channel(&inbox)).unwrap_or_else(|| {
        last_deliveries.push((inbox, Vec::new()));
        last_deliveries.len() - 1
    });
    &mut last_deliveries[at].1
}

async fn receive_line(shared: &Arc<Shared>, line: Bytes) {
    let Ok(envelope) = Envelope::parse(&line) else { return skip_stray(shared, &line) };
    let thread = envelope.route.thread_id.as_deref().map(ThreadId::from);
    match (envelope.kind(), envelope.method, envelope.id) {
        (Some(Kind::Notification), Some(method), _) => {
            let note = Notification {
                method: Box::from(&*method),
                thread_id: thread,
                turn_id: envelope.route.turn_id.as_deref().map(TurnId::from),
                line: line.clone(),
                _budget: take_budget(shared, line.len()).await,
            };
            deliver_notification(shared, note).await;
        }
        (Some(Kind::Request), Some(method), Some(id)) => {
            let request = ServerRequest::parse(&method, params_of(&line));
            deliver_request(shared, thread, IncomingRequest { id, request }).await;
        }
        (Some(Kind::Reply), _, Some(RequestId::Number(id))) => {
            let result = match (envelope.error, envelope.result) {
                (Some(error), _) => Err(error),
                (None, Some(result)) => Ok(result.to_owned()),
                (None, None) => return skip_stray(shared, &line),
            };
            deliver_reply(shared, id, result).await;
        }
        _ => skip_stray(shared, &line),
    }
}

fn params_of(line: &[u8]) -> Value {
    #[derive(serde::Deserialize)]
    struct WithParams {
        #[serde(default)]
        params: Value,
    }
    serde_json::from_slice::<WithParams>(line).map(|line| line.params).unwrap_or_default()
}

/// Counts a line that is no message. The connection goes on.
fn skip_stray(shared: &Shared, line: &[u8]) {
    let count = shared.stray_lines.fetch_add(1, Ordering::Relaxed) + 1;
    // A host that writes nothing else must not fill the log.
    if count.is_power_of_two() {
        let bytes = line.len();
        warn!(bytes, count, "a line from Codex is not a message of the protocol; it is skipped");
    }
}

async fn take_budget(shared: &Shared, bytes: usize) -> Option<Arc<OwnedSemaphorePermit>> {
    let bytes = u32::try_from(bytes.min(INBOUND_BYTES)).unwrap_or(u32::MAX);
    Arc::clone(&shared.budget).acquire_many_owned(bytes).await.ok().map(Arc::new)
}

async fn deliver_notification(shared: &Shared, note: Notification) {
    if &*note.method == "thread/started" || tells_of_sub_agents(&note) {
        remember_parents(shared, &note);
    }
    match &note.thread_id {
        Some(thread) => match route_of(shared, thread) {
            Some(inbox) => drop(inbox.send(Delivery::Notification(note)).await),
            None => keep_early(shared, note),
        },
        None => tell_all_threads(shared, &note),
    }
}

/// Keeps a notification that may belong to a thread that is being opened. When there are too many, the first ones stay.
fn keep_early(shared: &Shared, note: Notification) {
    let mut state = shared.state();
    if !state.is_opening() {
        // No thread is being opened: what was kept belongs to an opening that was refused.
        state.early.clear();
    } else if state.early.len() < EARLY_NOTIFICATIONS {
        state.early.push(note);
    } else {
        warn!(method = note.method, "a notification is dropped: too many came before their thread was open");
    }
}

/// Whether a completed item may have started sub-agents. Most items have not and are long, so only these are parsed.
fn tells_of_sub_agents(note: &Notification) -> bool {
    &*note.method == "item/completed"
        && std::str::from_utf8(note.raw()).is_ok_and(|line| line.contains(SUB_AGENT_CALL))
}

/// Remembers which thread started a sub-agent: requests of the sub-agent go to the inbox of that thread. A host also
/// reports threads of other clients, which are skipped.
fn remember_parents(shared: &Shared, note: &Notification) {
    let families: Vec<(ThreadId, ThreadId)> = match (note.event(), &note.thread_id) {
        (Event::ThreadStarted(thread), _) => {
            thread.any_id().zip(thread.parent_thread_id.map(ThreadId)).into_iter().collect()
        }
        (Event::ItemCompleted(item), Some(parent)) => {
            item.started_agents().into_iter().map(|child| (child, parent.clone())).collect()
        }
        _ => return,
    };
    let mut state = shared.state();
    for (child, parent) in families {
        if child != parent && state.inbox_of(&parent).is_some() {
            state.parents.insert(child, parent);
        }
    }
}

/// Delivers a notification without a thread (rate limits, warnings) to every inbox. A full inbox misses it.
fn tell_all_threads(shared: &Shared, note: &Notification) {
    let inboxes: Vec<_> = shared.state().threads.values().cloned().collect();
    for inbox in inboxes {
        if let Err(mpsc::error::TrySendError::Full(_)) = inbox.try_send(Delivery::Notification(note.clone()))
        {
            warn!(method = note.method, "a thread misses a notification: its inbox is full");
        }
    }
}

fn route_of(shared: &Shared, thread: &ThreadId) -> Option<InboxSender> {
    shared.state().inbox_of(thread).cloned()
}

async fn deliver_request(shared: &Shared, thread: Option<ThreadId>, request: IncomingRequest) {
    let inbox = thread.and_then(|thread| route_of(shared, &thread));
    let unclaimed = match inbox {
        Some(inbox) => match inbox.send(Delivery::Request(Box::new(request))).await {
            Err(mpsc::error::SendError(Delivery::Request(request))) => *request,
            Ok(()) | Err(_) => return,
        },
        None => request,
    };
    // Without an answer the turn would hang for ever.
    let answer = Answer::fail_closed(&unclaimed.request);
    warn!(id = ?unclaimed.id, "a request of Codex is declined: it belongs to no thread of this connection");
    if let Err(error) = shared.respond(&unclaimed.id, answer).await {
        warn!(%error, "the refusal could not be sent");
    }
}

async fn deliver_reply(shared: &Arc<Shared>, id: i64, result: Result<Box<RawValue>, RpcError>) {
    // A late reply to a call that timed out is dropped.
    let Some(mut pending) = shared.state().pending.remove(&id) else { return };
    match result {
        Err(error) if error.code == OVERLOADED && may_try_again(&pending) => try_again(shared, pending),
        Err(error) => pending.finish(Err(CallError::Refused(error))).await,
        Ok(result) => {
            if let Some(inbox) = pending.opens.take()
                && let Ok(opened) = serde_json::from_str::<ThreadOpened>(result.get())
                && let Some(thread) = opened.id()
            {
                let early = shared.state().opened(&thread, &inbox);
                for note in early {
                    // The owner of the inbox may be gone.
                    inbox.send(Delivery::Notification(note)).await.ok();
                }
            }
            pending.finish(Ok(result)).await;
        }
    }
}

fn may_try_again(pending: &Pending) -> bool {
    pending.tries < OVERLOAD_TRIES && Instant::now() + longest_pause(pending.tries) < pending.deadline
}

fn longest_pause(tries: u32) -> Duration {
    OVERLOAD_PAUSE * 2_u32.pow(tries)
}

/// Repeats a call after a pause. The call is listed again at once, so that its deadline and the end of the connection
/// still apply.
fn try_again(shared: &Arc<Shared>, mut pending: Pending) {
    let pause = longest_pause(pending.tries).mul_f64(rand::random_range(0.5..1.0));
    pending.tries += 1;
    let (_, line) = shared.register(&mut shared.state(), pending);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => drop(shared.write(line).await),
            _ = shared.wait_closed() => {}
        }
    });
}
