use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tracing::{error_span, info, info_span, warn};

use super::*;

const TOKEN: &str = "ghp_0123456789abcdef0123456789abcdef0123";

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is written of what happens.
fn logged(format: Format, filter: &str, happens: impl FnOnce()) -> String {
    let written = Written::default();
    let redactor = Redactor::knowing(["correct \"horse\""]);
    let open = {
        let written = written.clone();
        move || written.clone()
    };
    let lines = Lines::new(format, redactor, open);
    let subscriber = Registry::default().with(super::line_layer(format, filter, lines));
    tracing::subscriber::with_default(subscriber, happens);
    let bytes = written.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_secret_in_a_message_a_field_or_a_span_is_not_written() {
    for format in [Format::Text, Format::Json] {
        let text = logged(format, "info", || {
            let _span = error_span!("turn", task = "t-1", note = TOKEN).entered();
            info!(
                header = format!("Authorization: Bearer {TOKEN}"),
                known = "correct \"horse\"",
                "said {TOKEN}"
            );
            warn!(password = "hunter2-and-more", "a field by its name");
        });
        assert!(text.contains("[redacted:") && text.contains("t-1"), "{text}");
        for secret in [TOKEN, "horse", "hunter2"] {
            assert!(!text.contains(secret), "{format:?}: {text}");
        }
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}

#[test]
fn an_event_is_one_line_whatever_it_contains() {
    let text = logged(Format::Text, "info", || info!("first\n2026-01-01 ERROR forged \u{1b}[31m\u{202e}"));
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    let text = logged(Format::Json, "info", || info!(task = "t-1", turn = 2, "first\nsecond"));
    let line: Value = serde_json::from_str(text.trim_end()).unwrap();
    assert_eq!(line["fields"], json!({"message": "first\nsecond", "task": "t-1", "turn": 2}));
    assert_eq!(line["level"], "INFO");
}

#[test]
fn the_filter_says_what_is_written_and_the_context_stays() {
    let happens = || {
        let _turn = error_span!("turn", task = "t-1").entered();
        info!("not this");
        warn!("but this");
    };
    let text = logged(Format::Text, "warn", happens);
    assert!(
        text.contains("but this") && text.contains("task=\"t-1\"") && !text.contains("not this"),
        "{text}"
    );
}

#[test]
fn the_mcp_library_tells_of_calls_only_if_it_is_named() {
    let happens = || {
        tracing::debug!(target: "rmcp::service", "a prompt");
        warn!(target: "rmcp::service", "a warning");
        tracing::debug!("ours");
    };
    let text = logged(Format::Text, "debug", happens);
    assert!(text.contains("a warning") && text.contains("ours") && !text.contains("a prompt"), "{text}");
    assert!(!logged(Format::Text, "error", happens).contains("a warning"));
    assert!(logged(Format::Text, "info,rmcp=debug", happens).contains("a prompt"));
}

#[test]
fn what_nobody_wants_costs_nothing() {
    let lines = Lines::new(Format::Text, Redactor::default(), io::sink);
    let written = super::line_layer(Format::Text, "info", lines);
    let hint = tracing::Subscriber::max_level_hint(&Registry::default().with(written));
    assert_eq!(hint, Some(LevelFilter::INFO));
}

#[test]
fn spans_for_the_collector_are_not_in_the_log() {
    let text = logged(Format::Text, "trace", || {
        let _span = info_span!(target: telemetry::TARGET, "invoke_agent").entered();
        info!("inside");
    });
    assert!(text.contains("inside") && !text.contains("invoke_agent"), "{text}");
}

/// A collector that takes one POST: its path and its body.
fn collector() -> (String, std::thread::JoinHandle<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let taken = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
        (head.lines().next().unwrap().to_owned(), serde_json::from_slice(&body).unwrap())
    });
    (address, taken)
}

fn attributes(span: &Value) -> Value {
    let pairs = span["attributes"].as_array().unwrap().iter();
    pairs.map(|pair| (pair["key"].as_str().unwrap().to_owned(), pair["value"].clone())).collect()
}

#[test]
fn a_collector_gets_spans_with_their_parents_and_without_secrets() {
    let (address, taken) = collector();
    let (spans, exporter) = otlp::open(&address, Redactor::default());
    let subscriber = Registry::default().with(telemetry_only(spans));
    tracing::subscriber::with_default(subscriber, || {
        let turn = info_span!(
            target: telemetry::TARGET, "invoke_agent", otel.name = "invoke_agent codex", otel.kind = "client",
            gen_ai.operation.name = "invoke_agent", gen_ai.usage.input_tokens = tracing::field::Empty
        );
        let tool = info_span!(target: telemetry::TARGET, parent: &turn, "execute_tool", note = TOKEN, error.r#type = "x");
        drop(tool);
        turn.record("gen_ai.usage.input_tokens", 42);
        drop(turn);
        info!("not a span");
        drop(info_span!("another target"));
    });
    exporter.finish();
    let (request, body) = taken.join().unwrap();
    assert!(request.starts_with("POST /v1/traces "), "{request}");
    let of = &body["resourceSpans"][0];
    assert_eq!(attributes(&of["resource"])["service.name"], json!({"stringValue": "codex-bridge"}));
    let [tool, turn] = of["scopeSpans"][0]["spans"].as_array().unwrap().as_slice() else {
        panic!("{body:#}")
    };
    assert_eq!((&turn["name"], &turn["kind"]), (&json!("invoke_agent codex"), &json!(3)));
    assert_eq!(turn["parentSpanId"], "");
    assert_eq!((&tool["parentSpanId"], &tool["traceId"]), (&turn["spanId"], &turn["traceId"]));
    assert_eq!(turn["traceId"].as_str().unwrap().len(), 32);
    assert_eq!(attributes(turn)["gen_ai.usage.input_tokens"], json!({"intValue": "42"}));
    assert_eq!(attributes(tool)["note"], json!({"stringValue": "[redacted:github-token]"}));
    assert_eq!(tool["status"], json!({"code": 2}));
}

#[test]
fn a_collector_that_is_not_there_holds_nobody_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (spans, exporter) = otlp::open(&address, Redactor::default());
    let began = std::time::Instant::now();
    tracing::subscriber::with_default(Registry::default().with(telemetry_only(spans)), || {
        for _ in 0..10_000 {
            drop(info_span!(target: telemetry::TARGET, "invoke_agent"));
        }
    });
    exporter.finish();
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "{:?}", began.elapsed());
}
