//! What a list of tasks needs to stay true: one short line whenever a task changes, the same for all who listen.
//!
//! One observer looks at what changed and says it once; its listeners share the words. They cannot slow it, nor the tasks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use codex_bridge_core::store::TaskFilter;
use codex_bridge_core::task::{Status, TaskId};
use codex_bridge_core::{Bridge, News};
use serde_json::json;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{self, Receiver, Sender};

use super::metrics::Meter;
use super::stream::{Gone, Outlet, Shape, pipe};
use super::{App, Refusal};
use crate::view;

/// Lines that a slow listener may be behind before it is let go.
const BEHIND: usize = 1024;

/// What is told to those who list tasks.
#[derive(Debug, Clone)]
pub struct Digest(Sender<Bytes>);

impl Digest {
    /// One that nobody has told anything yet.
    pub fn new() -> Self {
        Self(broadcast::channel(BEHIND).0)
    }

    fn tell(&self, name: &str, told: &serde_json::Value) {
        // Nobody may be listening.
        let _ = self.0.send(Shape::Events.piece(None, name, told));
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
    known: HashMap<TaskId, (Status, usize)>,
    open: usize,
}

/// What a bout of news was about.
#[derive(Default)]
struct Changes {
    tasks: HashSet<TaskId>,
    ended_turns: Vec<TaskId>,
    closed_requests: Vec<String>,
}

impl Changes {
    fn add(&mut self, news: News) {
        match news {
            News::Task(task_id) => drop(self.tasks.insert(task_id)),
            News::Event(event) => match (event.kind.as_str(), &event.task_id) {
                ("turn_ended", Some(task_id)) => self.ended_turns.push(task_id.clone()),
                ("request_closed", _) => {
                    let name = event.body.get("request_id").and_then(|name| name.as_str());
                    self.closed_requests.extend(name.map(str::to_owned));
                }
                _ => {}
            },
            News::Live { .. } => {}
        }
    }
}

impl Observer {
    async fn begin(&mut self) {
        // What was used before is not counted again.
        for view in self.bridge.list(&TaskFilter::default()).await.unwrap_or_default() {
            self.meter.knows(&view.task);
        }
        self.open = self.bridge.open_requests(None).await.map_or(0, |open| open.len());
    }

    async fn follow(&mut self, mut news: Receiver<News>) {
        loop {
            let mut changes = Changes::default();
            match news.recv().await {
                Ok(one) => changes.add(one),
                Err(RecvError::Lagged(_)) => self.digest.tell("missed", &json!({ "kind": "missed" })),
                Err(RecvError::Closed) => return,
            }
            // All that has come meanwhile is looked at once.
            loop {
                match news.try_recv() {
                    Ok(one) => changes.add(one),
                    Err(TryRecvError::Lagged(_)) => self.digest.tell("missed", &json!({ "kind": "missed" })),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            self.look(changes).await;
        }
    }

    async fn look(&mut self, changes: Changes) {
        let mut is_asked = false;
        for task_id in &changes.tasks {
            // One that was forgotten meanwhile is no news.
            let Ok(view) = self.bridge.show(task_id.as_str()).await else { continue };
            self.meter.used(&view.task);
            let now = (view.task.status, view.open_requests.len());
            let before = self.known.insert(task_id.clone(), now);
            is_asked |= before.map_or(0, |(_, open)| open) != now.1;
            if view.task.status.is_at_rest() {
                self.known.remove(task_id);
            }
            if before != Some(now) {
                let told = view::TaskNews::from(view);
                self.digest.tell("task", &serde_json::to_value(told).unwrap_or_default());
            }
        }
        if is_asked && let Ok(open) = self.bridge.open_requests(None).await {
            self.count(open.len());
        }
        for task_id in &changes.ended_turns {
            self.meter.turn_ended(&self.bridge, task_id).await;
        }
        for request_id in changes.closed_requests {
            self.meter.request_closed(&self.bridge, request_id).await;
        }
    }

    fn count(&mut self, open: usize) {
        if std::mem::replace(&mut self.open, open) != open {
            self.digest.tell("open_requests", &total(open));
        }
    }
}

fn total(open: usize) -> serde_json::Value {
    json!({ "kind": "open_requests", "total": open })
}

/// `GET /v1/events`: always server-sent events.
pub async fn listen(State(app): State<App>) -> Result<Response, Refusal> {
    // Joined first: what changes between the two is told twice rather than never.
    let lines = app.digest.0.subscribe();
    let open = app.bridge.open_requests(None).await?.len();
    let (outlet, response) = pipe(Shape::Events, None);
    tokio::spawn(tell(app, outlet, lines, Shape::Events.piece(None, "open_requests", &total(open))));
    Ok(response)
}

async fn tell(app: App, outlet: Outlet, mut lines: Receiver<Bytes>, first: Bytes) {
    let mut next = Some(first);
    loop {
        if let Some(line) = next.take() {
            match outlet.put(None, line).await {
                Ok(()) => {}
                Err(Gone::Left) => return,
                Err(Gone::Stalled) => return outlet.drop_reader(),
            }
        }
        next = tokio::select! {
            line = lines.recv() => match line {
                Ok(line) => Some(line),
                Err(RecvError::Lagged(_)) => return outlet.drop_reader(),
                Err(RecvError::Closed) => return,
            },
            () = outlet.left() => return,
            () = app.ended() => return,
        };
    }
}
