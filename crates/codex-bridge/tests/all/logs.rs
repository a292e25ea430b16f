//! The daemon's log and the spans of turns, for operators.

use std::fs;
use std::io::Write;

use serde_json::Value;
use testkit::platform::webhook;

use crate::shell::{Shell, until};

const TOKEN: &str = "ghp_0123456789abcdef0123456789abcdef0123";

fn configure(shell: &Shell, log: &str) {
    let settings = format!("accept_commands = true\n[log]\n{log}\n");
    let file = fs::OpenOptions::new().append(true).open(shell.home.dir().join("config.toml"));
    file.unwrap().write_all(settings.as_bytes()).unwrap();
}

#[tokio::test]
async fn the_log_is_json_if_wanted_and_says_which_task_turn_and_host() {
    let shell = Shell::new().await;
    configure(&shell, "format = \"json\"\nfilter = \"debug\"");
    let id = shell.start(&format!("say {TOKEN} [play] exec echo {TOKEN} => say Done with {TOKEN}.")).await;
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    let log = shell.log_with("the turn ended").await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let said = |message: &str| {
        let found = lines.iter().find(|line| line["fields"]["message"] == message);
        found.unwrap_or_else(|| panic!("{message:?} is not in {log}"))
    };
    let ended = said("the turn ended");
    assert_eq!((&ended["span"]["name"], &ended["level"]), (&"turn".into(), &"INFO".into()), "{ended}");
    assert_eq!((&ended["span"]["task"], &ended["span"]["turn"]), (&id.as_str().into(), &1.into()), "{ended}");
    assert!(ended["span"]["host"].is_string() && ended["fields"]["status"] == "completed", "{ended}");
    let answered = &said("a request was answered")["fields"];
    assert!(answered["caller"].is_string() && answered["route"].is_string(), "{answered}");
    assert!(answered["status"].is_number(), "{answered}");
    assert!(!log.contains(TOKEN), "{log}");
    shell.end().await;
}

#[tokio::test]
async fn a_collector_is_told_of_turns_and_their_tool_calls_but_not_of_what_was_said() {
    let (shell, collector) = (Shell::new().await, webhook::open().await);
    configure(&shell, &format!("otlp = \"{}\"", collector.base()));
    let id = shell.start("whisper [play] exec echo rustling => say Murmured.").await;
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    let spans = || -> Option<Vec<Value>> {
        let received = collector.received();
        let bodies = received.iter().map(|one| &one.body["resourceSpans"][0]["scopeSpans"][0]["spans"]);
        let spans: Vec<Value> = bodies.filter_map(Value::as_array).flatten().cloned().collect();
        spans.iter().any(|span| span["name"] == "invoke_agent codex").then_some(spans)
    };
    let spans = until("the span of the turn", spans).await;
    let attribute = |span: &Value, key: &str| {
        let all = span["attributes"].as_array().unwrap();
        all.iter().find(|one| one["key"] == key).map(|one| one["value"].clone()).unwrap_or_default()
    };
    let turn = spans.iter().find(|span| span["name"] == "invoke_agent codex").unwrap();
    let tool = spans.iter().find(|span| span["parentSpanId"] == turn["spanId"]).expect("a tool call");
    assert_eq!(attribute(turn, "codex_bridge.task")["stringValue"], id.as_str());
    assert_eq!(attribute(turn, "gen_ai.provider.name")["stringValue"], "openai");
    assert!(attribute(turn, "gen_ai.conversation.id")["stringValue"].is_string(), "{turn:#}");
    assert!(attribute(turn, "gen_ai.usage.input_tokens")["intValue"].is_string(), "{turn:#}");
    assert_eq!(attribute(tool, "gen_ai.operation.name")["stringValue"], "execute_tool");
    let nanos = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
    assert!(nanos(turn, "startTimeUnixNano") <= nanos(tool, "startTimeUnixNano"), "{spans:#?}");
    assert!(nanos(tool, "endTimeUnixNano") <= nanos(turn, "endTimeUnixNano"), "{spans:#?}");
    assert!(collector.received().iter().all(|one| one.path == "/v1/traces"));
    let told = format!("{spans:?}");
    for word in ["whisper", "rustling", "Murmured"] {
        assert!(!told.contains(word), "{told}");
    }
    shell.end().await;
}
