//! Numbers for Prometheus. What is counted is counted since the daemon started; what stands now is looked up when asked.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use codex_bridge_core::Bridge;
use codex_bridge_core::bridge::{Counters, Snapshot, Watchdog};
use codex_bridge_core::request::RequestName;
use codex_bridge_core::store::RequestFilter;
use codex_bridge_core::task::{ShownStatus, Task, TaskId, TimeMs, Tokens};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{App, Refusal};
use crate::amount::now_ms;
use crate::failure::Failure;

/// As OpenMetrics names it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// From a moment to a working day.
const SECONDS: [f64; 12] =
    [1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0, 28_800.0];
/// The label of tasks that leave the model to Codex.
const ANY_MODEL: &str = "default";

/// At most twice as many tasks are remembered with what they had used.
const SEEN: usize = 10_000;

type Labels = [(&'static str, String); 1];

/// Counts what happens.
#[derive(Debug)]
pub struct Meter {
    task_seconds: Histogram,
    approval_wait_seconds: Histogram,
    tokens: Family<[(&'static str, String); 2], Counter>,
    seen: Mutex<Seen>,
    /// What was used before is not counted.
    began_at: TimeMs,
}

/// What tasks had used when they were last looked at. Only those that were looked at lately are remembered.
#[derive(Debug, Default)]
struct Seen {
    lately: HashMap<TaskId, Tokens>,
    before: HashMap<TaskId, Tokens>,
}

impl Seen {
    /// Remembers what a task has used by now; gives what it had used before, if that is known.
    fn put(&mut self, task_id: &TaskId, now: Tokens) -> Option<Tokens> {
        if self.lately.len() >= SEEN && !self.lately.contains_key(task_id) {
            self.before = std::mem::take(&mut self.lately);
        }
        let known = self.before.remove(task_id);
        self.lately.insert(task_id.clone(), now).or(known)
    }
}

impl Meter {
    /// One that has counted nothing.
    pub fn new() -> Self {
        Self {
            task_seconds: Histogram::new(SECONDS),
            approval_wait_seconds: Histogram::new(SECONDS),
            tokens: Family::default(),
            seen: Mutex::default(),
            began_at: now_ms(),
        }
    }

    /// What a task used before is not counted.
    pub fn knows(&self, task: &Task) {
        self.note(task, used(task));
    }

    fn note(&self, task: &Task, total: Tokens) -> Tokens {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // One that comes with a past was not at work yet: a branch has what its trunk had used, which counts once.
        let is_older = task.created_at < self.began_at;
        let has_past = is_older || task.used.turns == 0 || task.used.turns > 1;
        seen.put(&task.id, total).unwrap_or(if has_past { total } else { Tokens::default() })
    }

    /// Counts what a task has used since it was last looked at.
    pub fn used(&self, task: &Task) {
        let now = used(task);
        let before = self.note(task, now);
        let counts = [
            ("input", now.input, before.input),
            ("cached_input", now.cached_input, before.cached_input),
            ("output", now.output, before.output),
            ("reasoning_output", now.reasoning_output, before.reasoning_output),
        ];
        let model = task.settings.model.as_deref().unwrap_or(ANY_MODEL);
        for (kind, now, before) in counts {
            let labels = [("kind", kind.to_owned()), ("model", model.to_owned())];
            self.tokens.get_or_create(&labels).inc_by(now.saturating_sub(before));
        }
    }

    /// Counts the last turn of a task, from the hand-over of its prompt to its end.
    pub async fn turn_ended(&self, bridge: &Bridge, task_id: &TaskId) {
        let Ok(turns) = bridge.turns(task_id).await else { return };
        let ended = turns.iter().rev().find_map(|turn| Some((turn.created_at, turn.ended_at?)));
        if let Some((began, ended)) = ended {
            self.task_seconds.observe(seconds(ended - began));
        }
    }

    /// Counts how long a request waited.
    pub async fn request_closed(&self, bridge: &Bridge, request_id: RequestName) {
        let filter = RequestFilter { request_id: Some(request_id), ..RequestFilter::default() };
        let Ok(requests) = bridge.store().requests(&filter).await else { return };
        for request in requests {
            if let Some(closed_at) = request.decided_at.or(request.closed_at) {
                self.approval_wait_seconds.observe(seconds(closed_at - request.created_at));
            }
        }
    }
}

fn used(task: &Task) -> Tokens {
    task.usage.map(|usage| usage.total).unwrap_or_default()
}

fn seconds(ms: i64) -> f64 {
    std::time::Duration::from_millis(u64::try_from(ms).unwrap_or_default()).as_secs_f64()
}

/// `GET /metrics`.
pub async fn show(axum::extract::State(app): axum::extract::State<App>) -> Result<Response, Refusal> {
    let mut registry = Registry::with_prefix("codex_bridge");
    counted(&app.meter, &mut registry);
    tallied(app.bridge.counters(), &mut registry);
    standing(&app.bridge.snapshot().await?, &mut registry);
    hosts(&app.bridge, &mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).map_err(Failure::internal)?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

fn counted(meter: &Meter, registry: &mut Registry) {
    let help = "Seconds from the hand-over of a prompt to the end of its turn, waits included";
    registry.register("task_seconds", help, meter.task_seconds.clone());
    let help = "Seconds from a request to its answer, or to its end without one";
    registry.register("approval_wait_seconds", help, meter.approval_wait_seconds.clone());
    registry.register(
        "tokens",
        "Tokens used; input includes cached_input, output includes reasoning_output",
        meter.tokens.clone(),
    );
}

fn tallied(counters: &Counters, registry: &mut Registry) {
    let fired = Family::<Labels, Counter>::default();
    for watchdog in Watchdog::ALL {
        let labels = [("reason", watchdog.as_str().to_owned())];
        fired.get_or_create(&labels).inc_by(counters.fired(watchdog));
    }
    let help = "Limits that stopped a turn, held one back, closed a request or replaced a host";
    registry.register("watchdog_fired", help, fired);
    let lost: Counter = Counter::default();
    lost.inc_by(counters.leases_lost());
    let help = "Deliveries that were taken over from an attempt that did not come back";
    registry.register("lease_lost", help, lost);
}

fn standing(standing: &Snapshot, registry: &mut Registry) {
    let by_state = Family::<Labels, Gauge>::default();
    for status in ShownStatus::ALL {
        let count = standing.tasks.get(&status).copied().unwrap_or_default();
        by_state.get_or_create(&[("state", status.as_str().to_owned())]).set(whole(count));
    }
    registry.register("tasks", "Tasks that are remembered", by_state);
    let help = "Requests that wait for an answer";
    gauge(registry, "approvals_pending", help, whole(standing.open_requests));
    let help = "Messages that are still to be delivered";
    gauge(registry, "outbox_pending", help, whole(standing.unsent));
    let now = now_ms();
    let age = standing.oldest_unsent_at.map_or(0, |at| (now - at).max(0) / 1000);
    gauge(registry, "outbox_oldest_seconds", "Seconds since the oldest of them was written", age);
    if let Some(at) = standing.first_reset_at {
        let help = "Seconds until the first account limit that was met is renewed";
        gauge(registry, "ratelimit_reset_seconds", help, (at - now).max(0) / 1000);
    }
}

fn hosts(bridge: &Bridge, registry: &mut Registry) {
    let rss = Family::<Labels, Gauge>::default();
    for host in bridge.hosts().iter().filter(|host| host.is_alive()) {
        if let Some(bytes) = host.rss_bytes() {
            rss.get_or_create(&[("host", host.record().id.clone())]).set(whole(bytes));
        }
    }
    registry.register("app_server_rss_bytes", "Resident memory of each Codex host", rss);
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: i64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}
