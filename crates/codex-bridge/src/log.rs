//! The log of the daemon and the launcher: one line per event on stderr. For a background daemon, stderr is a file of bounded
//! size (`file`). Spans of turns also go to a collector, if one is configured (`otlp`).
//!
//! Each line is redacted (`redacted`) and written by a separate thread (`queue`), so that logging never blocks. Commands of
//! the command line log nothing; they print output (`cli::output`).

pub mod file;
mod otlp;
mod queue;
mod redacted;

use std::path::PathBuf;
use std::time::Duration;

use codex_bridge_core::telemetry;
use redact::Redactor;
use serde::{Deserialize, Deserializer, de};
use tracing::{Level, warn};
use tracing_subscriber::filter::{FilterExt, LevelFilter, ParseError, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use otlp::Exporter;
use queue::Queue;
use redacted::Lines;

const DEFAULT_FILTER: &str = "info";
/// The MCP library. It logs each call with its arguments, prompts included, so levels below a warning need a filter that
/// names it.
const MCP: &str = "rmcp";
/// The variable that takes precedence over the configured filter.
const VARIABLE: &str = "RUST_LOG";
/// How long the program waits for the last lines when it exits.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a panicking thread waits for its line, which may be the last.
const PANIC_FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// `[log]` in the operator's file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The events to log, in the syntax of `RUST_LOG`: `"debug"`, `"info,codex_wire=debug"`.
    #[serde(deserialize_with = "filter")]
    filter: Option<String>,
    /// The format of lines.
    format: Format,
    /// The collector for spans of turns: the base address of its OTLP over HTTP.
    #[serde(deserialize_with = "address")]
    otlp: Option<String>,
}

/// The format of lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The log of the process. Dropping it writes the remaining lines and sends the remaining spans, with a timeout.
pub struct Log {
    lines: Queue,
    exporter: Option<Exporter>,
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(exporter) = self.exporter.take() {
            exporter.finish();
        }
        self.lines.flush(FLUSH_TIMEOUT);
    }
}

/// Starts logging for the rest of the process. `file` is the file that stderr is, if it is ours. The caller drops the result
/// when the program exits.
#[must_use]
pub fn start(settings: &Settings, redactor: &Redactor, file: Option<PathBuf>) -> Log {
    let from_variable = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let configured = settings.filter.as_deref().unwrap_or(DEFAULT_FILTER);
    let filter_error = from_variable.as_ref().and_then(|text| targets(text).err());
    let filter = from_variable.as_deref().filter(|_| filter_error.is_none()).unwrap_or(configured);
    let queue = Queue::open(settings.format, file::Stderr { log: file });
    let lines = Lines::new(settings.format, redactor.clone(), {
        let queue = queue.clone();
        move || queue.clone()
    });
    let (spans, exporter) = settings.otlp.as_ref().map(|to| otlp::open(to, redactor.clone())).unzip();
    let subscriber =
        Registry::default().with(line_layer(settings.format, filter, lines)).with(spans.map(telemetry_only));
    // A second start, which only happens in tests, changes nothing.
    subscriber.try_init().ok();
    let panic_queue = queue.clone();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("{panic}");
        panic_queue.flush(PANIC_FLUSH_TIMEOUT);
    }));
    if let Some(error) = filter_error {
        let text = from_variable.unwrap_or_default();
        warn!(%error, "{VARIABLE}={text} is not a filter; the configured filter is used");
    }
    Log { lines: queue, exporter }
}

impl Settings {
    /// The same without a collector, for a process that has no turns.
    pub fn without_spans(&self) -> Self {
        Self { otlp: None, ..self.clone() }
    }
}

/// A filter: a level for all, and levels for parts of the program. Where no level is for all, errors are logged. (An
/// `EnvFilter` could also choose by the fields of a line, for four more crates.)
fn targets(filter: &str) -> Result<Targets, ParseError> {
    let targets: Targets = filter.parse()?;
    let default = targets.default_level().unwrap_or(LevelFilter::ERROR);
    Ok(targets.with_default(default))
}

/// The layer that writes lines. It ignores spans for the collector.
fn line_layer<W>(format: Format, filter: &str, lines: Lines<W>) -> Box<dyn Layer<Registry> + Send + Sync>
where
    Lines<W>: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let is_mcp_named = filter.split(',').any(|directive| directive.starts_with(MCP));
    let is_logged = filter_fn(move |metadata| match metadata.target() {
        telemetry::TARGET => false,
        target if target.split("::").next() == Some(MCP) => is_mcp_named || *metadata.level() <= Level::WARN,
        _ => true,
    });
    // Without a level hint every event would be formatted, whatever its level.
    let filter = targets(filter).unwrap_or_default().and(is_logged.with_max_level_hint(LevelFilter::TRACE));
    // Reporting a closed stderr on stderr would panic.
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
    let is_telemetry = filter_fn(|metadata| metadata.target() == telemetry::TARGET);
    layer.with_filter(is_telemetry.with_max_level_hint(LevelFilter::INFO))
}

fn filter<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(value)?;
    match targets(&text) {
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
