//! What the daemon and the launcher tell their operator: one line per event on stderr, which a daemon in the background has
//! in a file of bounded size (`file`). Spans of turns also go to a collector, if one is configured (`otlp`).
//!
//! Each line passes the redactor (`redacted`). Commands of the command line log nothing: what they tell their user is output
//! (`cli::output`).

pub mod file;
mod otlp;
mod redacted;

use codex_bridge_core::telemetry;
use redact::Redactor;
use serde::{Deserialize, Deserializer, de};
use tracing::warn;
use tracing_subscriber::filter::{EnvFilter, FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

pub use otlp::Exporter;
use redacted::Lines;

/// What is written if nobody says otherwise. The MCP library tells of every session.
const DEFAULT_FILTER: &str = "info,rmcp=warn";
/// Takes precedence over the configured filter.
const VARIABLE: &str = "RUST_LOG";

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

/// Begins to log, for the rest of the process. What comes back sends the spans that are left when the program ends.
pub fn start(settings: &Settings, redactor: &Redactor) -> Option<Exporter> {
    let from_variable = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let parsed = from_variable.map(|text| EnvFilter::try_new(&text).map_err(|error| (text, error)));
    let (filter, wrong) = match parsed {
        Some(Ok(filter)) => (filter, None),
        Some(Err(wrong)) => (settings.filter(), Some(wrong)),
        None => (settings.filter(), None),
    };
    let stderr = Lines::new(settings.format, redactor.clone(), std::io::stderr);
    let (spans, exporter) = settings.otlp.as_ref().map(|to| otlp::open(to, redactor.clone())).unzip();
    let subscriber =
        Registry::default().with(written(settings.format, filter, stderr)).with(spans.map(telemetry_only));
    // A second start, which only tests could make, changes nothing.
    subscriber.try_init().ok();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    if let Some((text, error)) = wrong {
        warn!(%error, "{VARIABLE}={text} is not a filter; the configured one holds");
    }
    exporter
}

impl Settings {
    fn filter(&self) -> EnvFilter {
        EnvFilter::new(self.filter.as_deref().unwrap_or(DEFAULT_FILTER))
    }
}

/// The layer that writes lines. Spans that are only for the collector are not its business.
fn written<W>(format: Format, filter: EnvFilter, lines: Lines<W>) -> Box<dyn Layer<Registry> + Send + Sync>
where
    Lines<W>: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let is_logged = filter_fn(|about| about.target() != telemetry::TARGET);
    // Without a hint every event would be looked at, whatever its level.
    let filter = filter.and(is_logged.with_max_level_hint(LevelFilter::TRACE));
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
