//! Metrics for Prometheus. Counters start with the daemon. Gauges are read when they are asked for.

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

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The buckets of the histograms: from a second to a working day.
const BUCKETS_S: [f64; 12] =
    [1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0, 28_800.0];
/// The `model` label of tasks that leave the model to Codex.
const DEFAULT_MODEL: &str = "default";

/// The size of each of the two maps of token counts.
const MAX_COUNTED: usize = 10_000;

type Labels = [(&'static str, String); 1];

/// Counts turns, requests and tokens.
#[derive(Debug)]
pub struct Meter {
    task_seconds: Histogram,
    approval_wait_seconds: Histogram,
    tokens: Family<[(&'static str, String); 2], Counter>,
    counted: Mutex<CountedTokens>,
    /// Tokens that were used before this time are not counted.
    started_at: TimeMs,
}

/// The tokens of each task that are already counted. When `recent` is full it becomes `older`, so that the tasks that have
/// not changed for long are forgotten.
#[derive(Debug, Default)]
struct CountedTokens {
    recent: HashMap<TaskId, Tokens>,
    older: HashMap<TaskId, Tokens>,
}

impl CountedTokens {
    /// Sets the count of a task, and returns the count before, if it is known.
    fn replace(&mut self, task_id: &TaskId, now: Tokens) -> Option<Tokens> {
        if self.recent.len() >= MAX_COUNTED && !self.recent.contains_key(task_id) {
            self.older = std::mem::take(&mut self.recent);
        }
        let known = self.older.remove(task_id);
        self.recent.insert(task_id.clone(), now).or(known)
    }
}

impl Meter {
    /// A meter without counts.
    pub fn new() -> Self {
        Self {
            task_seconds: Histogram::new(BUCKETS_S),
            approval_wait_seconds: Histogram::new(BUCKETS_S),
            tokens: Family::default(),
            counted: Mutex::default(),
            started_at: now_ms(),
        }
    }

    /// Sets a task's tokens so far as already counted.
    pub fn set_baseline(&self, task: &Task) {
        self.replace_count(task, tokens(task));
    }

    /// Sets the counted tokens of a task, and returns those before.
    fn replace_count(&self, task: &Task, total: Tokens) -> Tokens {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        // An unknown task may have tokens that are not its own: a fork starts with those of its original.
        let is_older = task.created_at < self.started_at;
        let has_past = is_older || task.used.turns == 0 || task.used.turns > 1;
        counted.replace(&task.id, total).unwrap_or(if has_past { total } else { Tokens::default() })
    }

    /// Counts the tokens that a task has used since the last count.
    pub fn count_tokens(&self, task: &Task) {
        let now = tokens(task);
        let before = self.replace_count(task, now);
        let counts = [
            ("input", now.input, before.input),
            ("cached_input", now.cached_input, before.cached_input),
            ("output", now.output, before.output),
            ("reasoning_output", now.reasoning_output, before.reasoning_output),
        ];
        let model = task.settings.model.as_deref().unwrap_or(DEFAULT_MODEL);
        for (kind, now, before) in counts {
            let labels = [("kind", kind.to_owned()), ("model", model.to_owned())];
            self.tokens.get_or_create(&labels).inc_by(now.saturating_sub(before));
        }
    }

    /// Observes the duration of a task's last turn, from the hand-over of its prompt to its end.
    pub async fn turn_ended(&self, bridge: &Bridge, task_id: &TaskId) {
        let Ok(turns) = bridge.turns(task_id).await else { return };
        let ended = turns.iter().rev().find_map(|turn| Some((turn.created_at, turn.ended_at?)));
        if let Some((began, ended)) = ended {
            self.task_seconds.observe(seconds(ended - began));
        }
    }

    /// Observes how long a request waited.
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

fn tokens(task: &Task) -> Tokens {
    task.usage.map(|usage| usage.total).unwrap_or_default()
}

fn seconds(ms: i64) -> f64 {
    std::time::Duration::from_millis(u64::try_from(ms).unwrap_or_default()).as_secs_f64()
}

/// `GET /metrics`.
pub async fn show(axum::extract::State(app): axum::extract::State<App>) -> Result<Response, Refusal> {
    let mut registry = Registry::with_prefix("codex_bridge");
    register_meter(&app.meter, &mut registry);
    register_counters(app.bridge.counters(), &mut registry);
    register_snapshot(&app.bridge.snapshot().await?, &mut registry);
    register_hosts(&app.bridge, &mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).map_err(Failure::internal)?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

fn register_meter(meter: &Meter, registry: &mut Registry) {
    let help = "Seconds from the hand-over of a prompt to the end of its turn, waits included";
    registry.register("task_seconds", help, meter.task_seconds.clone());
    let help = "Seconds from a request to its decision, or to its end without one";
    registry.register("approval_wait_seconds", help, meter.approval_wait_seconds.clone());
    registry.register(
        "tokens",
        "Tokens used; input includes cached_input, output includes reasoning_output",
        meter.tokens.clone(),
    );
}

fn register_counters(counters: &Counters, registry: &mut Registry) {
    let fired = Family::<Labels, Counter>::default();
    for watchdog in Watchdog::ALL {
        let labels = [("reason", watchdog.as_str().to_owned())];
        fired.get_or_create(&labels).inc_by(counters.fired(watchdog));
    }
    let help = "Limits that stopped a turn, held one back, closed a request or replaced a host";
    registry.register("watchdog_fired", help, fired);
    let lost: Counter = Counter::default();
    lost.inc_by(counters.leases_lost());
    let help = "Deliveries taken over from an attempt that did not return";
    registry.register("lease_lost", help, lost);
}

fn register_snapshot(snapshot: &Snapshot, registry: &mut Registry) {
    let by_state = Family::<Labels, Gauge>::default();
    for status in ShownStatus::ALL {
        let count = snapshot.tasks.get(&status).copied().unwrap_or_default();
        by_state.get_or_create(&[("state", status.as_str().to_owned())]).set(clamped(count));
    }
    registry.register("tasks", "Stored tasks", by_state);
    let help = "Requests that wait for a decision";
    gauge(registry, "approvals_pending", help, clamped(snapshot.open_requests));
    let help = "Deliveries that are not yet sent";
    gauge(registry, "outbox_pending", help, clamped(snapshot.unsent));
    let now = now_ms();
    let age = snapshot.oldest_unsent_at.map_or(0, |at| (now - at).max(0) / 1000);
    gauge(registry, "outbox_oldest_seconds", "Seconds since the oldest unsent delivery was created", age);
    if let Some(at) = snapshot.first_reset_at {
        let help = "Seconds until the first reached account limit resets";
        gauge(registry, "ratelimit_reset_seconds", help, (at - now).max(0) / 1000);
    }
}

fn register_hosts(bridge: &Bridge, registry: &mut Registry) {
    let rss = Family::<Labels, Gauge>::default();
    for host in bridge.hosts().iter().filter(|host| host.is_alive()) {
        if let Some(bytes) = host.rss_bytes() {
            rss.get_or_create(&[("host", host.record().id.clone())]).set(clamped(bytes));
        }
    }
    registry.register("app_server_rss_bytes", "Resident memory of each Codex host", rss);
}

fn clamped(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: i64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}
