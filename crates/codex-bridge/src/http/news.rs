//! The feed for lists of tasks: one short line for each change of a task, the same for all listeners. For deliveries and
//! hosts the line says only that something changed; the listener reads the list again.
//!
//! One observer formats each line once, and all listeners share it. A slow listener delays neither the observer nor the
//! tasks.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use codex_bridge_core::event::Line;
use codex_bridge_core::request::RequestName;
use codex_bridge_core::store::{self, TaskFilter};
use codex_bridge_core::task::{ShownStatus, Status, TaskId};
use codex_bridge_core::{Bridge, News, TaskView};
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio::time::sleep;
use tracing::{error, info};

use super::metrics::Meter;
use super::stream::{self, Format, Gone};
use super::{App, Query, Refusal};
use crate::failure::{ErrorBody, Failure};
use crate::{calls, view};

/// How many lines a listener may be behind before it is dropped.
const MAX_LAG: usize = 1024;

/// How often the hosts are compared while anybody listens. Hosts do not announce their start and end.
const POLL_HOSTS_EVERY: Duration = Duration::from_secs(1);

/// The feed for lists of tasks.
#[derive(Debug, Clone)]
pub struct TaskFeed {
    lines: Sender<Bytes>,
    /// Notified when a listener joins.
    joined: Arc<Notify>,
}

impl TaskFeed {
    /// A feed without listeners.
    pub fn new() -> Self {
        Self { lines: broadcast::channel(MAX_LAG).0, joined: Arc::default() }
    }

    fn publish(&self, name: &str, data: &serde_json::Value) {
        // An error means that nobody listens.
        self.lines.send(Format::Events.chunk(None, name, data)).ok();
    }

    /// Publishes that something changed, but not what.
    fn publish_kind(&self, name: &str) {
        self.publish(name, &json!({ "kind": name }));
    }

    fn listen(&self) -> Receiver<Bytes> {
        let lines = self.lines.subscribe();
        self.joined.notify_one();
        lines
    }

    async fn has_listener(&self) {
        while self.lines.receiver_count() == 0 {
            self.joined.notified().await;
        }
    }
}

/// Watches the hosts while anybody listens. Never returns.
pub async fn observe_hosts(bridge: Bridge, feed: TaskFeed) {
    let mut known = None;
    loop {
        if feed.lines.receiver_count() == 0 {
            // The next listener must be told, whatever it has already seen.
            known = None;
            feed.has_listener().await;
        }
        let hosts = bridge.hosts();
        let alive = hosts.iter().filter(|host| host.is_alive()).map(|host| host.record().epoch.clone());
        // With the count of ended hosts: a page may show a host that started and ended between two polls.
        let now = (alive.collect::<HashSet<_>>(), bridge.ended_hosts());
        if known.as_ref() != Some(&now) {
            feed.publish_kind("hosts");
            known = Some(now);
        }
        sleep(POLL_HOSTS_EVERY).await;
    }
}

/// Watches all tasks until the bridge closes.
pub async fn observe(bridge: Bridge, feed: TaskFeed, meter: Arc<Meter>) {
    let news = bridge.news();
    let mut observer = Observer { bridge, feed, meter, known: HashMap::new(), open_requests: 0 };
    observer.load().await;
    observer.follow(news).await;
}

struct Observer {
    bridge: Bridge,
    feed: TaskFeed,
    meter: Arc<Meter>,
    /// The last published status, and number of open requests, of each unfinished task.
    known: HashMap<TaskId, (ShownStatus, usize)>,
    open_requests: u64,
}

#[derive(Default)]
struct Changes {
    tasks: HashSet<TaskId>,
    ended_turns: Vec<TaskId>,
    closed_requests: Vec<RequestName>,
    deliveries: bool,
    /// Some news was missed.
    is_incomplete: bool,
}

impl Changes {
    fn add(&mut self, news: News) {
        match news {
            News::Task(task_id) => drop(self.tasks.insert(task_id)),
            News::Event(event) => match (&event.line, &event.task_id) {
                (Line::TurnEnded(_), Some(task_id)) => self.ended_turns.push(task_id.clone()),
                (Line::RequestClosed(closed), _) => self.closed_requests.push(closed.request_id.clone()),
                _ => {}
            },
            News::Deliveries => self.deliveries = true,
            News::Live { .. } => {}
        }
    }
}

impl Observer {
    /// Loads the unfinished tasks, so that their changes are noticed.
    async fn load(&mut self) {
        // The newest last, because the meter forgets the oldest.
        for view in self.unfinished().await.into_iter().rev() {
            self.meter.set_baseline(&view.task);
            self.known.insert(view.task.id.clone(), (view.status(), view.open_requests.len()));
        }
        self.open_requests = open_requests(&self.bridge).await.unwrap_or_default();
    }

    async fn unfinished(&self) -> Vec<TaskView> {
        let statuses = Status::ALL.into_iter().filter(|status| !status.is_finished()).collect();
        let listed = self.bridge.list(&TaskFilter { statuses, ..TaskFilter::default() }).await;
        listed.unwrap_or_else(|error| {
            error!(%error, "the unfinished tasks could not be read for the feed");
            Vec::new()
        })
    }

    async fn follow(&mut self, mut news: Receiver<News>) {
        loop {
            let mut changes = Changes::default();
            match news.recv().await {
                Ok(news) => changes.add(news),
                Err(RecvError::Lagged(missed)) => {
                    info!(missed, "the task feed missed news; all unfinished tasks are read again");
                    changes.is_incomplete = true;
                }
                Err(RecvError::Closed) => return,
            }
            // News that is already there joins the batch.
            loop {
                match news.try_recv() {
                    Ok(news) => changes.add(news),
                    Err(TryRecvError::Lagged(_)) => changes.is_incomplete = true,
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            self.publish(changes).await;
        }
    }

    async fn publish(&mut self, mut changes: Changes) {
        let mut may_have_requests = changes.is_incomplete;
        if changes.is_incomplete {
            self.feed.publish_kind("missed");
            // Any of these tasks may have changed.
            changes.tasks.extend(self.known.keys().cloned());
            changes.tasks.extend(self.unfinished().await.into_iter().map(|view| view.task.id));
        }
        for task_id in &changes.tasks {
            // A task that has been forgotten is not published.
            let Ok(view) = self.bridge.show(task_id.as_str()).await else {
                self.known.remove(task_id);
                continue;
            };
            self.meter.count_tokens(&view.task);
            let now = (view.status(), view.open_requests.len());
            let before = self.known.insert(task_id.clone(), now);
            may_have_requests |= before.map_or(0, |(_, open)| open) != now.1;
            if view.task.status.is_finished() {
                self.known.remove(task_id);
            }
            if before != Some(now) {
                let line = view::TaskNews::from(view);
                self.feed.publish("task", &serde_json::to_value(line).unwrap_or_default());
            }
        }
        if changes.deliveries {
            self.feed.publish_kind("deliveries");
        }
        if may_have_requests && let Ok(open) = open_requests(&self.bridge).await {
            self.set_open_requests(open);
        }
        for task_id in &changes.ended_turns {
            self.meter.turn_ended(&self.bridge, task_id).await;
        }
        for request_id in changes.closed_requests {
            self.meter.request_closed(&self.bridge, request_id).await;
        }
    }

    fn set_open_requests(&mut self, open: u64) {
        if std::mem::replace(&mut self.open_requests, open) != open {
            self.feed.publish("open_requests", &total(open));
        }
    }
}

async fn open_requests(bridge: &Bridge) -> Result<u64, store::Error> {
    Ok(bridge.store().counts().await?.open_requests)
}

fn total(open: u64) -> serde_json::Value {
    json!({ "kind": "open_requests", "total": open })
}

/// `GET /v1/events`. Always server-sent events.
pub async fn listen(State(app): State<App>, Query(which): Query<calls::News>) -> Result<Response, Refusal> {
    let (first, lines) = join(&app).await?;
    let (writer, response) = stream::open(Format::Events, None);
    tokio::spawn(forward(app, writer, lines, first, which.limit));
    Ok(response)
}

/// Joins the feed: the present number of open requests, and the lines from now on. Both are server-sent events.
pub async fn join(app: &App) -> Result<(Bytes, Receiver<Bytes>), Failure> {
    // Joined before the count is read: a change in between is sent twice rather than never.
    let lines = app.task_feed.listen();
    let open = open_requests(&app.bridge).await?;
    Ok((Format::Events.chunk(None, "open_requests", &total(open)), lines))
}

async fn forward(
    app: App,
    writer: stream::Writer,
    mut lines: Receiver<Bytes>,
    first: Bytes,
    limit: Option<NonZeroU32>,
) {
    let (mut line, mut left) = (first, limit.map(NonZeroU32::get));
    loop {
        match writer.send(None, line).await {
            Ok(()) => left = left.map(|left| left - 1),
            Err(Gone::Closed) => return,
            Err(Gone::Stalled) => return writer.drop_reader(),
        }
        if left == Some(0) {
            return;
        }
        line = tokio::select! {
            line = lines.recv() => match line {
                Ok(line) => line,
                Err(RecvError::Lagged(_)) => return writer.drop_reader(),
                Err(RecvError::Closed) => return,
            },
            () = writer.closed() => return,
            () = app.shutting_down() => {
                let failure = ErrorBody { error: Failure::stopping() };
                // An error means that the reader has closed the connection.
                writer.send(None, Format::Events.chunk(None, "failure", &failure)).await.ok();
                return;
            }
        };
    }
}
