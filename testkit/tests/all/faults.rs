//! What the real one does not do on demand.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::script::{self, Script};
use testkit::{ScriptedServer, wait_until};

use crate::client::Client;

const BIG: usize = 20 * 1024 * 1024;

#[tokio::test]
async fn a_line_of_20_mb_arrives_whole() {
    let server =
        ScriptedServer::new(Script::new().on("turn/start", [script::big_line(BIG), script::reply_turn()]));
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    client.next_of("thread/started").await;
    client.post("turn/start", json!({ "threadId": thread })).await;
    let line = client.next_text().await.unwrap();
    assert_eq!(line.len(), BIG);
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["method"], "test/bigLine");
    assert!(client.next().await.unwrap().get("result").is_some());
    client.finish().await;
}

#[tokio::test]
async fn garbage_is_written_as_it_is() {
    let garbage = [
        script::raw_line("not json"),
        script::raw_line("[1,2]"),
        script::raw_line([0xff, 0xfe]),
        script::raw("{\"method\":"),
        script::raw_line("\"x\"}"),
        script::default_steps(),
    ];
    let server = ScriptedServer::new(Script::new().on("initialize", garbage));
    let mut client = Client::spawn(&mut server.command());
    client.post("initialize", json!({ "clientInfo": { "name": "t", "version": "1" } })).await;
    assert_eq!(client.next_text().await.unwrap(), "not json");
    assert_eq!(client.next_text().await.unwrap(), "[1,2]");
    assert_eq!(client.next_text().await.unwrap(), "\u{fffd}\u{fffd}");
    assert_eq!(client.next_text().await.unwrap(), "{\"method\":\"x\"}");
    assert_eq!(client.next().await.unwrap()["result"]["platformOs"], "linux");
    client.finish().await;
}

#[tokio::test]
async fn half_a_line_is_followed_by_silence() {
    let server = ScriptedServer::new(
        Script::new().on("turn/start", [script::half_line("{\"method\":\"$thread"), script::hang()]),
    );
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    client.next_of("thread/started").await;
    client.post("turn/start", json!({ "threadId": thread })).await;
    server.wait_for_method("turn/start").await;
    assert!(client.is_silent().await);
    assert_eq!(client.finish().await.0, Some(0));
}

#[tokio::test]
async fn the_process_ends_in_mid_turn_with_its_last_words_on_stderr() {
    let last_words = [
        script::reply_turn(),
        script::started(),
        script::stderr("it was all too much for $thread"),
        script::half_line("{\"unfin"),
        script::exit(42),
    ];
    let server = ScriptedServer::new(Script::new().on("turn/start", last_words));
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    client.turn(&thread, "go").await;
    client.next_of("turn/started").await;
    assert_eq!(client.next_text().await.unwrap(), "{\"unfin");
    assert_eq!(client.next_text().await, None);
    let (code, said) = client.finish().await;
    assert_eq!(code, Some(42));
    assert_eq!(said, format!("it was all too much for {thread}\n"));
}

#[tokio::test]
async fn a_flood_brings_thousands_of_events_in_a_second() {
    let count = 50_000;
    let flood = script::flood(count, [script::delta("piece $n").of_item("i-$n")]);
    let server = ScriptedServer::new(
        Script::new().on("turn/start", [script::reply_turn(), script::started(), flood, script::completed()]),
    );
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    client.turn(&thread, "go").await;
    client.next_of("turn/started").await;
    let began = Instant::now();
    for n in 0..count {
        let delta = client.next().await.unwrap();
        assert_eq!(delta["params"]["delta"], format!("piece {n}"));
        assert_eq!(delta["params"]["itemId"], format!("i-{n}"));
    }
    let took = began.elapsed();
    client.next_of("turn/completed").await;
    assert!(took < Duration::from_secs(25), "{count} events took {took:?}");
    client.finish().await;
}

#[tokio::test]
async fn stdout_can_close_while_the_process_lives() {
    let server =
        ScriptedServer::new(Script::new().on("turn/start", [script::reply_turn(), script::close_stdout()]));
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    client.turn(&thread, "go").await;
    while let Some(message) = client.next().await {
        assert_eq!(message["method"], "thread/started");
    }
    client.post("thread/read", json!({ "threadId": thread })).await;
    server.wait_for_method("thread/read").await;
    assert_eq!(client.finish().await.0, Some(0));
}

#[tokio::test]
async fn a_server_can_fail_at_its_start() {
    let script = Script::new().at_open([script::stderr("no sqlite"), script::exit(1)]);
    let server = ScriptedServer::new(script);
    let mut client = Client::spawn(&mut server.command());
    assert_eq!(client.next_text().await, None);
    assert_eq!(client.finish().await, (Some(1), "no sqlite\n".into()));
}

#[tokio::test]
async fn only_a_kill_ends_a_stubborn_server() {
    let server = ScriptedServer::new(Script::new().stubborn());
    let mut command = server.command();
    let mut child = command.spawn().unwrap();
    drop(child.stdin.take());
    let limit = Duration::from_secs(10);
    wait_until(limit, "the server's start", || !server.starts().is_empty()).await;
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    // the handler is in place when the end of input was noticed
    wait_until(limit, "the end of input", || {
        server.entries().contains(&testkit::log::Entry::Closed { connection: 1 })
    })
    .await;
    kill_process(pid, Signal::TERM).unwrap();
    wait_until(limit, "the signal", || server.entries().contains(&testkit::log::Entry::Terminated)).await;
    assert_eq!(child.try_wait().unwrap(), None);
    child.kill().await.unwrap();
}

#[tokio::test]
async fn what_is_no_json_object_is_recorded_and_costs_nothing_else() {
    let server = ScriptedServer::new(Script::new());
    let mut client = Client::of(&server).await;
    client.send_text("garbage".into()).await;
    client.send_text("[]".into()).await;
    client.thread().await;
    client.finish().await;
    let malformed = |entry| match entry {
        testkit::log::Entry::Malformed { text, .. } => Some(text),
        _ => None,
    };
    let malformed: Vec<String> = server.entries().into_iter().filter_map(malformed).collect();
    assert_eq!(malformed, ["garbage", "[]"]);
}
