//! Sends spans of turns to a collector: OTLP over HTTP, encoded as JSON.
//!
//! Never delays a turn: a separate thread sends the spans from a bounded queue. Spans that do not fit, or that the collector
//! does not accept, are dropped, and their number is logged. Written by hand, since the format is small and stable: the
//! OpenTelemetry SDK is 20 more crates, and would still need an HTTP client and a place for the redactor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redact::Redactor;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Subscriber, info, warn};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

const QUEUE_SPANS: usize = 2048;
const BATCH_SPANS: usize = 256;
/// How long a span waits for others of the same POST.
const BATCH_DELAY: Duration = Duration::from_secs(2);
const POST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the program waits for the last spans when it exits.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

enum Message {
    Span(Value),
    /// Sends all queued spans, then confirms.
    Flush(SyncSender<()>),
}

/// Starts the export to a collector, by its base address. Returns the layer that collects spans, and the handle that
/// flushes them.
pub fn open(address: &str, redactor: Redactor) -> (Spans, Exporter) {
    let (queue, messages) = sync_channel(QUEUE_SPANS);
    let dropped = Arc::<AtomicU64>::default();
    let sender = Sender {
        url: format!("{}/v1/traces", address.trim_end_matches('/')),
        agent: agent(),
        dropped: Arc::clone(&dropped),
        is_answering: true,
    };
    let spawned = std::thread::Builder::new().name("otlp".to_owned()).spawn(move || sender.run(&messages));
    if let Err(error) = spawned {
        warn!(%error, "spans are not exported: their thread cannot be started");
    }
    (Spans { queue: queue.clone(), dropped, redactor }, Exporter(queue))
}

fn agent() -> Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = Agent::config_builder().tls_config(tls).timeout_global(Some(POST_TIMEOUT)).max_redirects(0);
    config.user_agent(concat!("codex-bridge/", env!("CARGO_PKG_VERSION"))).build().into()
}

/// Flushes the queued spans at the end.
pub struct Exporter(SyncSender<Message>);

impl Exporter {
    /// Waits until the spans are sent, with a timeout.
    pub fn finish(self) {
        let (done, sent) = sync_channel(1);
        if self.0.try_send(Message::Flush(done)).is_ok() {
            sent.recv_timeout(FLUSH_TIMEOUT).ok();
        }
    }
}

/// Collects spans, and queues each span that has ended.
pub struct Spans {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
    redactor: Redactor,
}

struct OpenSpan {
    trace_id: u128,
    span_id: u64,
    parent_id: Option<u64>,
    started: u128,
    fields: Fields,
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let parent = span.parent().and_then(|parent| {
            parent.extensions().get::<OpenSpan>().map(|open| (open.trace_id, open.span_id))
        });
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(OpenSpan {
            // An id of zeros means no id.
            trace_id: parent.map_or_else(|| rand::random::<u128>().max(1), |(id, _)| id),
            span_id: rand::random::<u64>().max(1),
            parent_id: parent.map(|(_, id)| id),
            started: now_ns(),
            fields,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else { return };
        let message = Message::Span(open.into_otlp(span.name(), &self.redactor));
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.queue.try_send(message) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl OpenSpan {
    /// The span in OTLP. Fields with the special names of `tracing-opentelemetry` become name and kind instead of attributes.
    fn into_otlp(self, name: &str, redactor: &Redactor) -> Value {
        let mut fields = Value::Object(self.fields.0);
        redactor.redact_json(&mut fields);
        let Value::Object(mut fields) = fields else { return Value::Null };
        let name = fields.remove("otel.name").unwrap_or_else(|| name.into());
        let kind = if fields.remove("otel.kind").is_some_and(|kind| kind == "client") { 3 } else { 1 };
        let status = if fields.contains_key("error.type") { json!({"code": 2}) } else { json!({}) };
        json!({
            "traceId": format!("{:032x}", self.trace_id),
            "spanId": format!("{:016x}", self.span_id),
            "parentSpanId": self.parent_id.map(|id| format!("{id:016x}")).unwrap_or_default(),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": self.started.to_string(),
            "endTimeUnixNano": now_ns().max(self.started).to_string(),
            "attributes": fields.into_iter().map(attribute).collect::<Vec<_>>(),
            "status": status,
        })
    }
}

fn attribute((key, value): (String, Value)) -> Value {
    let value = match value {
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Bool(is) => json!({"boolValue": is}),
        text => json!({"stringValue": text}),
    };
    json!({"key": key, "value": value})
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Posts spans, on a thread that may wait for the collector.
struct Sender {
    url: String,
    agent: Agent,
    dropped: Arc<AtomicU64>,
    /// Whether the collector accepted the last batch. Only changes are logged.
    is_answering: bool,
}

impl Sender {
    fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(first) = messages.recv() {
            let (spans, flushed) = collect_batch(first, messages);
            if !spans.is_empty() {
                self.post(&spans);
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                warn!(dropped, "spans were dropped: the collector is too slow or does not answer");
            }
            if let Some(flushed) = flushed {
                flushed.send(()).ok();
            }
        }
    }

    fn post(&mut self, spans: &[Value]) {
        let body = json!({"resourceSpans": [{
            "resource": {"attributes": [
                attribute(("service.name".to_owned(), "codex-bridge".into())),
                attribute(("service.version".to_owned(), env!("CARGO_PKG_VERSION").into())),
            ]},
            "scopeSpans": [{"scope": {"name": "codex-bridge"}, "spans": spans}],
        }]});
        let request = self.agent.post(&self.url).header("content-type", "application/json");
        let outcome = request.send(body.to_string());
        if let Err(error) = &outcome {
            self.dropped.fetch_add(spans.len() as u64, Ordering::Relaxed);
            if self.is_answering {
                warn!(%error, "the collector does not accept spans");
            }
        } else if !self.is_answering {
            info!("the collector accepts spans again");
        }
        self.is_answering = outcome.is_ok();
    }
}

/// Collects a batch: the spans of the next moment.
fn collect_batch(first: Message, messages: &Receiver<Message>) -> (Vec<Value>, Option<SyncSender<()>>) {
    let (mut spans, mut next) = (Vec::new(), Ok(first));
    let until = Instant::now() + BATCH_DELAY;
    loop {
        match next {
            Ok(Message::Span(span)) => spans.push(span),
            Ok(Message::Flush(done)) => return (spans, Some(done)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return (spans, None),
        }
        if spans.len() == BATCH_SPANS {
            return (spans, None);
        }
        next = messages.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}
