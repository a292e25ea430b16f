//! What a list of tasks needs to stay true: one short line whenever a task changes, the same for all who listen. Those of
//! deliveries and hosts are told that there is something new, and look.
//!
//! One observer looks at what changed and says it once; its listeners share the words. They cannot slow it, nor the tasks.

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
use super::stream::{Gone, Outlet, Shape, pipe};
use super::{App, Query, Refusal};
use crate::failure::{Failure, Wrapped};
use crate::{calls, view};

/// Lines that a slow listener may be behind before it is let go.
const BEHIND: usize = 1024;

/// How often somebody looks whether hosts came or went, while anyone listens: they do not say so themselves.
const LOOK_AT_HOSTS: Duration = Duration::from_secs(1);

/// What is told to those who list tasks.
#[derive(Debug, Clone)]
pub struct Digest {
    lines: Sender<Bytes>,
    /// Told when somebody begins to listen.
    joined: Arc<Notify>,
}

impl Digest {
    /// One that nobody has told anything yet.
    pub fn new() -> Self {
        Self { lines: broadcast::channel(BEHIND).0, joined: Arc::default() }
    }

    fn tell(&self, name: &str, told: &serde_json::Value) {
        // Nobody may be listening.
        self.lines.send(Shape::Events.piece(None, name, told)).ok();
    }

    /// Tells that there is something new, and not what.
    fn ring(&self, name: &str) {
        self.tell(name, &json!({ "kind": name }));
    }

    fn listen(&self) -> Receiver<Bytes> {
        let lines = self.lines.subscribe();
        self.joined.notify_one();
        lines
    }

    async fn is_heard(&self) {
        while self.lines.receiver_count() == 0 {
            self.joined.notified().await;
        }
    }
}

/// Watches the hosts for as long as it is polled; nobody pays for that unless somebody listens.
pub async fn observe_hosts(bridge: Bridge, digest: Digest) {
    let mut known = None;
    loop {
        if digest.lines.receiver_count() == 0 {
            // What is new to whoever comes next is not known.
            known = None;
            digest.is_heard().await;
        }
        let hosts = bridge.hosts();
        let alive = hosts.iter().filter(|host| host.is_alive()).map(|host| host.record().epoch.clone());
        // A page may have drawn a host that started and ended between two looks.
        let now = (alive.collect::<HashSet<_>>(), bridge.ended_hosts());
        if known.as_ref() != Some(&now) {
            digest.ring("hosts");
            known = Some(now);
        }
        sleep(LOOK_AT_HOSTS).await;
    }
}

/// Watches all tasks for as long as it is polled.
pub async fn observe(bridge: Bridge, digest: Digest, meter: Arc<Meter>) {
    let news = bridge.news();
    let mut observer = Observer { bridge, digest, meter, known: HashMap::new(), open: 0 };
    observer.begin().await;
    observer.follow(news).await;
}

struct Observer {
    bridge: Bridge,
    digest: Digest,
    meter: Arc<Meter>,
    /// What was told of tasks that are under way.
    known: HashMap<TaskId, (ShownStatus, usize)>,
    open: u64,
}

/// What a bout of news was about.
#[derive(Default)]
struct Changes {
    tasks: HashSet<TaskId>,
    ended_turns: Vec<TaskId>,
    closed_requests: Vec<RequestName>,
    deliveries: bool,
    /// More happened than was heard of.
    are_not_all: bool,
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
    /// Learns what is under way, so that whatever changes is seen to change.
    async fn begin(&mut self) {
        // The newest last: those are remembered longest.
        for view in self.under_way().await.into_iter().rev() {
            self.meter.knows(&view.task);
            self.known.insert(view.task.id.clone(), (view.status(), view.open_requests.len()));
        }
        self.open = open_requests(&self.bridge).await.unwrap_or_default();
    }

    async fn under_way(&self) -> Vec<TaskView> {
        let statuses = Status::ALL.into_iter().filter(|status| !status.is_finished()).collect();
        let listed = self.bridge.list(&TaskFilter { statuses, ..TaskFilter::default() }).await;
        listed.unwrap_or_else(|error| {
            error!(%error, "the tasks that are under way could not be read, for those who list them");
            Vec::new()
        })
    }

    async fn follow(&mut self, mut news: Receiver<News>) {
        loop {
            let mut changes = Changes::default();
            match news.recv().await {
                Ok(one) => changes.add(one),
                Err(RecvError::Lagged(missed)) => {
                    info!(missed, "news came faster than lists are told; they are read anew");
                    changes.are_not_all = true;
                }
                Err(RecvError::Closed) => return,
            }
            // All that has come meanwhile is looked at once.
            loop {
                match news.try_recv() {
                    Ok(one) => changes.add(one),
                    Err(TryRecvError::Lagged(_)) => changes.are_not_all = true,
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            self.look(changes).await;
        }
    }

    async fn look(&mut self, mut changes: Changes) {
        let mut is_asked = changes.are_not_all;
        if changes.are_not_all {
            self.digest.ring("missed");
            // It may have been about any of these.
            changes.tasks.extend(self.known.keys().cloned());
            changes.tasks.extend(self.under_way().await.into_iter().map(|view| view.task.id));
        }
        for task_id in &changes.tasks {
            // One that was forgotten meanwhile is no news.
            let Ok(view) = self.bridge.show(task_id.as_str()).await else {
                self.known.remove(task_id);
                continue;
            };
            self.meter.used(&view.task);
            let now = (view.status(), view.open_requests.len());
            let before = self.known.insert(task_id.clone(), now);
            is_asked |= before.map_or(0, |(_, open)| open) != now.1;
            if view.task.status.is_finished() {
                self.known.remove(task_id);
            }
            if before != Some(now) {
                let told = view::TaskNews::from(view);
                self.digest.tell("task", &serde_json::to_value(told).unwrap_or_default());
            }
        }
        if changes.deliveries {
            self.digest.ring("deliveries");
        }
        if is_asked && let Ok(open) = open_requests(&self.bridge).await {
            self.count(open);
        }
        for task_id in &changes.ended_turns {
            self.meter.turn_ended(&self.bridge, task_id).await;
        }
        for request_id in changes.closed_requests {
            self.meter.request_closed(&self.bridge, request_id).await;
        }
    }

    fn count(&mut self, open: u64) {
        if std::mem::replace(&mut self.open, open) != open {
            self.digest.tell("open_requests", &total(open));
        }
    }
}

async fn open_requests(bridge: &Bridge) -> Result<u64, store::Error> {
    Ok(bridge.store().counts().await?.open_requests)
}

fn total(open: u64) -> serde_json::Value {
    json!({ "kind": "open_requests", "total": open })
}

/// `GET /v1/events`: always server-sent events.
pub async fn listen(State(app): State<App>, Query(which): Query<calls::News>) -> Result<Response, Refusal> {
    let (first, lines) = join(&app).await?;
    let (outlet, response) = pipe(Shape::Events, None);
    tokio::spawn(tell(app, outlet, lines, first, which.limit));
    Ok(response)
}

/// How many requests are open, and what is told from now on; as server-sent events.
pub async fn join(app: &App) -> Result<(Bytes, Receiver<Bytes>), Failure> {
    // Joined first: what changes between the two is told twice rather than never.
    let lines = app.digest.listen();
    let open = open_requests(&app.bridge).await?;
    Ok((Shape::Events.piece(None, "open_requests", &total(open)), lines))
}

async fn tell(app: App, outlet: Outlet, mut lines: Receiver<Bytes>, first: Bytes, limit: Option<NonZeroU32>) {
    let (mut line, mut left) = (first, limit.map(NonZeroU32::get));
    loop {
        match outlet.put(None, line).await {
            Ok(()) => left = left.map(|left| left - 1),
            Err(Gone::Left) => return,
            Err(Gone::Stalled) => return outlet.drop_reader(),
        }
        if left == Some(0) {
            return;
        }
        line = tokio::select! {
            line = lines.recv() => match line {
                Ok(line) => line,
                Err(RecvError::Lagged(_)) => return outlet.drop_reader(),
                Err(RecvError::Closed) => return,
            },
            () = outlet.left() => return,
            () = app.ended() => {
                let why = Wrapped { error: Failure::stopping() };
                // Whoever has gone needs no reason.
                outlet.put(None, Shape::Events.piece(None, "failure", &why)).await.ok();
                return;
            }
        };
    }
}
