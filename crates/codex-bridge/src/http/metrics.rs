//! Numbers for Prometheus. What is counted is counted since the daemon started; what stands now is looked up when asked.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use codex_bridge_core::Bridge;
use codex_bridge_core::outbox::State;
use codex_bridge_core::store::{DeliveryFilter, RequestFilter, TaskFilter};
use codex_bridge_core::task::{Parked, Status, Task, TaskId, Tokens};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{App, Refusal};
use crate::failure::Failure;

/// As OpenMetrics names it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// From a moment to a working day.
const SECONDS: [f64; 12] =
    [1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0, 28_800.0];
/// The label of tasks that leave the model to Codex.
const ANY_MODEL: &str = "default";

type Labels = [(&'static str, String); 1];

/// Counts what happens.
#[derive(Debug)]
pub struct Meter {
    task_seconds: Histogram,
    approval_wait_seconds: Histogram,
    tokens: Family<[(&'static str, String); 2], Counter>,
    /// What each task had used when it was last looked at.
    seen: Mutex<HashMap<TaskId, Tokens>>,
}

impl Meter {
    /// One that has counted nothing.
    pub fn new() -> Self {
        Self {
            task_seconds: Histogram::new(SECONDS),
            approval_wait_seconds: Histogram::new(SECONDS),
            tokens: Family::default(),
            seen: Mutex::default(),
        }
    }

    /// What a task used before is not counted.
    pub fn knows(&self, task: &Task) {
        if let Some(usage) = &task.usage {
            self.note(task, usage.total);
        }
    }

    fn note(&self, task: &Task, total: Tokens) -> Tokens {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(task.id.clone(), total).unwrap_or_default()
    }

    /// Counts what a task has used since it was last looked at.
    pub fn used(&self, task: &Task) {
        let Some(usage) = &task.usage else { return };
        let (now, before) = (usage.total, self.note(task, usage.total));
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
    pub async fn request_closed(&self, bridge: &Bridge, request_id: String) {
        let filter = RequestFilter { request_id: Some(request_id), ..RequestFilter::default() };
        let Ok(requests) = bridge.store().requests(&filter).await else { return };
        for request in requests {
            if let Some(closed_at) = request.decided_at.or(request.closed_at) {
                self.approval_wait_seconds.observe(seconds(closed_at - request.created_at));
            }
        }
    }
}

fn seconds(ms: i64) -> f64 {
    std::time::Duration::from_millis(u64::try_from(ms).unwrap_or_default()).as_secs_f64()
}

/// `GET /metrics`.
pub async fn show(axum::extract::State(app): axum::extract::State<App>) -> Result<Response, Refusal> {
    let mut registry = Registry::with_prefix("codex_bridge");
    counted(&app.meter, &mut registry);
    standing(&app, &mut registry).await?;
    outbox(&app, &mut registry).await?;
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

async fn standing(app: &App, registry: &mut Registry) -> Result<(), Refusal> {
    let tasks = app.bridge.list(&TaskFilter::default()).await?;
    let by_state = Family::<Labels, Gauge>::default();
    for status in Status::ALL {
        by_state.get_or_create(&[("state", status.to_string())]).set(0);
    }
    for view in &tasks {
        by_state.get_or_create(&[("state", view.task.status.to_string())]).inc();
    }
    registry.register("tasks", "Tasks that are remembered", by_state);
    let pending: usize = tasks.iter().map(|view| view.open_requests.len()).sum();
    gauge(registry, "approvals_pending", "Requests that wait for an answer", pending);
    let hosts = app.bridge.hosts().await;
    let rss = Family::<Labels, Gauge>::default();
    for host in hosts.iter().filter(|host| host.is_alive()) {
        if let Some(bytes) = host.rss_bytes() {
            let labels = [("host", host.record().id.clone())];
            rss.get_or_create(&labels).set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }
    registry.register("app_server_rss_bytes", "Resident memory of each Codex host", rss);
    let known_reset = |task: &Task| match task.parked {
        Some(Parked::UsageLimit { resume_at, is_known: true }) => Some(resume_at),
        _ => None,
    };
    if let Some(at) = tasks.iter().filter_map(|view| known_reset(&view.task)).min() {
        let left = (at - jiff::Timestamp::now().as_millisecond()).max(0) / 1000;
        let help = "Seconds until the first account limit that stopped a task is renewed";
        gauge(registry, "ratelimit_reset_seconds", help, usize::try_from(left).unwrap_or_default());
    }
    Ok(())
}

async fn outbox(app: &App, registry: &mut Registry) -> Result<(), Refusal> {
    let states = vec![State::Pending, State::Attempting];
    let filter = DeliveryFilter { states, ..DeliveryFilter::default() };
    let pending = app.bridge.store().deliveries(&filter).await?;
    gauge(registry, "outbox_pending", "Messages that are still to be delivered", pending.len());
    let oldest = pending.iter().map(|delivery| delivery.created_at).min();
    let age = oldest.map_or(0, |at| (jiff::Timestamp::now().as_millisecond() - at).max(0) / 1000);
    let help = "Seconds since the oldest of them was written";
    gauge(registry, "outbox_oldest_seconds", help, usize::try_from(age).unwrap_or_default());
    Ok(())
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: usize) {
    let gauge: Gauge = Gauge::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    registry.register(name, help, gauge);
}
