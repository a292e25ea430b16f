//! What the daemon and the launcher tell their operator: one line per event on stderr, which a daemon in the background has
//! in a file of bounded size (`file`). Spans of turns also go to a collector, if one is configured (`otlp`).
//!
//! Each line passes the redactor (`redacted`) and is written by a thread of its own (`queue`): whoever logs never waits.
//! Commands of the command line log nothing: what they tell their user is output (`cli::output`).

pub mod file;
mod otlp;
mod queue;
mod redacted;

use std::time::Duration;

use codex_bridge_core::telemetry;
use redact::Redactor;
use serde::{Deserialize, Deserializer, de};
use tracing::{Level, warn};
use tracing_subscriber::filter::{EnvFilter, FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use otlp::Exporter;
use queue::Queue;
use redacted::Lines;

/// What is written if nobody says otherwise.
const DEFAULT_FILTER: &str = "info";
/// The MCP library. It tells of each call with its arguments, prompts among them: below a warning only if a filter names it.
const MCP: &str = "rmcp";
/// Takes precedence over the configured filter.
const VARIABLE: &str = "RUST_LOG";
/// How long the last lines may take when the program ends.
const LAST_LINES: Duration = Duration::from_secs(2);
/// How long whoever panics waits for the line about it, which may be the last.
const LINE_OF_A_PANIC: Duration = Duration::from_millis(200);

/// `[log]` in the operator's file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Which events are written, in the syntax of `RUST_LOG`: `"debug"`, `"info,codex_wire=debug"`.
    #[serde(deserialize_with = "filter")]
    filter: Option<String>,
    /// How they are written.
    format: Format,
    /// The collector that gets the spans of turns: the base address of its OTLP over HTTP.
    #[serde(deserialize_with = "address")]
    otlp: Option<String>,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The log of the process. Dropping it writes the lines and sends the spans that are left, for which it waits a moment.
pub struct Log {
    lines: Queue,
    exporter: Option<Exporter>,
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(exporter) = self.exporter.take() {
            exporter.finish();
        }
        self.lines.flush(LAST_LINES);
    }
}

/// Begins to log, for the rest of the process. What comes back is dropped when the program ends.
#[must_use]
pub fn start(settings: &Settings, redactor: &Redactor) -> Log {
    let from_variable = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let configured = settings.filter.as_deref().unwrap_or(DEFAULT_FILTER);
    let wrong = from_variable.as_ref().and_then(|text| EnvFilter::try_new(text).err());
    let filter = from_variable.as_deref().filter(|_| wrong.is_none()).unwrap_or(configured);
    let queue = Queue::open(settings.format, std::io::stderr());
    let lines = Lines::new(settings.format, redactor.clone(), {
        let queue = queue.clone();
        move || queue.clone()
    });
    let (spans, exporter) = settings.otlp.as_ref().map(|to| otlp::open(to, redactor.clone())).unzip();
    let subscriber =
        Registry::default().with(written(settings.format, filter, lines)).with(spans.map(telemetry_only));
    // A second start, which only tests could make, changes nothing.
    subscriber.try_init().ok();
    let of_panics = queue.clone();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("{panic}");
        of_panics.flush(LINE_OF_A_PANIC);
    }));
    if let Some(error) = wrong {
        let text = from_variable.unwrap_or_default();
        warn!(%error, "{VARIABLE}={text} is not a filter; the configured one holds");
    }
    Log { lines: queue, exporter }
}

impl Settings {
    /// The same without a collector, for a process that has no turns.
    pub fn without_spans(&self) -> Self {
        Self { otlp: None, ..self.clone() }
    }
}

/// The layer that writes lines. Spans that are only for the collector are not its business.
fn written<W>(format: Format, filter: &str, lines: Lines<W>) -> Box<dyn Layer<Registry> + Send + Sync>
where
    Lines<W>: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let is_mcp_named = filter.split(',').any(|one| one.starts_with(MCP));
    let is_logged = filter_fn(move |about| match about.target() {
        telemetry::TARGET => false,
        target if target.split("::").next() == Some(MCP) => is_mcp_named || *about.level() <= Level::WARN,
        _ => true,
    });
    // Without a hint every event would be looked at, whatever its level.
    let filter = EnvFilter::new(filter).and(is_logged.with_max_level_hint(LevelFilter::TRACE));
    // A stderr that nobody reads any more is no reason to panic, which telling of it there would be.
    let layer = fmt::layer().with_ansi(false).log_internal_errors(false).with_writer(lines);
    match format {
        Format::Text => layer.with_filter(filter).boxed(),
        Format::Json => layer.json().with_filter(filter).boxed(),
    }
}

fn telemetry_only<S>(layer: otlp::Spans) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let is_told = filter_fn(|about| about.target() == telemetry::TARGET);
    layer.with_filter(is_told.with_max_level_hint(LevelFilter::INFO))
}

fn filter<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(value)?;
    match EnvFilter::try_new(&text) {
        Ok(_) => Ok(Some(text)),
        Err(error) => Err(de::Error::custom(format!("{text:?} is not a filter: {error}"))),
    }
}

fn address<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(value)?;
    if text.starts_with("http://") || text.starts_with("https://") {
        return Ok(Some(text));
    }
    Err(de::Error::custom(format!("{text:?} is not an address; it begins with http:// or https://")))
}

#[cfg(test)]
mod tests;
