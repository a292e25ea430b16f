//! The same server on a unix socket, where clients come and go.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::json;
use testkit::script::{self, Script};
use testkit::{ScriptedServer, wait_until};

use crate::client::Client;

#[tokio::test]
async fn a_turn_is_played_over_websocket() {
    let server = ScriptedServer::new(Script::new());
    let mut listening = server.listen().await;
    assert_eq!(listening.socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut client = Client::connect(&listening.socket).await;
    client.initialize().await;
    let thread = client.thread().await;
    client.turn(&thread, "hello").await;
    assert_eq!(client.next_of("turn/completed").await["params"]["turn"]["items"][0]["text"], "done");
    listening.child.kill().await.unwrap();
}

#[tokio::test]
async fn a_big_message_and_garbage_come_in_frames_of_their_own() {
    let script = Script::new()
        .on("turn/start", [script::raw_line("garbage"), script::big_line(20 << 20), script::reply_turn()]);
    let server = ScriptedServer::new(script);
    let mut listening = server.listen().await;
    let mut client = Client::connect(&listening.socket).await;
    client.initialize().await;
    client.post("turn/start", json!({ "threadId": "t" })).await;
    assert_eq!(client.next_text().await.unwrap(), "garbage");
    assert_eq!(client.next_text().await.unwrap().len(), 20 << 20);
    assert!(client.next().await.unwrap().get("result").is_some());
    listening.child.kill().await.unwrap();
}

#[tokio::test]
async fn half_a_message_is_followed_by_silence_and_a_drop_ends_the_connection() {
    let script = Script::new()
        .on("turn/start", [script::half_line("{\"me")])
        .on("thread/read", [script::close_stdout()]);
    let server = ScriptedServer::new(script);
    let mut listening = server.listen().await;
    let mut client = Client::connect(&listening.socket).await;
    client.initialize().await;
    client.post("turn/start", json!({ "threadId": "t" })).await;
    server.wait_for_method("turn/start").await;
    assert!(client.is_silent().await);
    client.post("thread/read", json!({ "threadId": "t" })).await;
    assert_eq!(client.next_text().await, None);
    assert_eq!(listening.child.try_wait().unwrap(), None);
    listening.child.kill().await.unwrap();
}

#[tokio::test]
async fn a_turn_goes_on_without_its_client_and_the_next_one_gets_the_open_question_again() {
    let ask = || script::command_request(0, "touch x").of_item("call-1");
    let script = Script::new()
        .on(
            "turn/start",
            [
                script::reply_turn(),
                script::started(),
                ask(),
                script::await_answer(0),
                script::resolved(0),
                script::completed(),
            ],
        )
        .on("thread/resume", [script::reply_resume(), ask()]);
    let server = ScriptedServer::new(script);
    let mut listening = server.listen().await;
    let mut first = Client::connect(&listening.socket).await;
    first.initialize().await;
    let thread = first.thread().await;
    first.turn(&thread, "go").await;
    first.next_of("item/commandExecution/requestApproval").await;
    drop(first);
    let mut second = Client::connect(&listening.socket).await;
    second.initialize().await;
    second.call("thread/resume", json!({ "threadId": thread })).await;
    let asked = second.next_of("item/commandExecution/requestApproval").await;
    assert_eq!((&asked["id"], &asked["params"]["itemId"]), (&json!(0), &json!("call-1")));
    second.send(&json!({ "id": 0, "result": { "decision": "accept" } })).await;
    second.next_of("serverRequest/resolved").await;
    let end = second.next_of("turn/completed").await;
    assert_eq!(end["params"]["turn"]["id"], script::turn_id(1));
    listening.child.kill().await.unwrap();
}

#[tokio::test]
async fn events_of_a_thread_go_to_the_clients_that_opened_it() {
    let server = ScriptedServer::new(Script::new());
    let mut listening = server.listen().await;
    let mut one = Client::connect(&listening.socket).await;
    let mut other = Client::connect(&listening.socket).await;
    one.initialize().await;
    other.initialize().await;
    let thread = one.thread().await;
    one.turn(&thread, "go").await;
    one.next_of("turn/completed").await;
    for method in ["thread/started", "thread/status/changed", "thread/status/changed"] {
        assert_eq!(other.next().await.unwrap()["method"], method);
    }
    assert!(other.is_silent().await);
    listening.child.kill().await.unwrap();
}

#[tokio::test]
async fn a_second_server_on_the_same_socket_is_refused() {
    let server = ScriptedServer::new(Script::new());
    let mut listening = server.listen().await;
    let address = format!("unix://{}", listening.socket.display());
    let second = server.command().args(["--listen", &address]).output().await.unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use"));
    listening.child.kill().await.unwrap();
}

#[tokio::test]
async fn a_turn_that_ended_with_nobody_there_can_be_read_back() {
    let steps = [
        script::reply_turn(),
        script::started(),
        script::await_disconnect(),
        script::message("at last"),
        script::completed(),
    ];
    let server = ScriptedServer::new(Script::new().on("turn/start", steps));
    let mut listening = server.listen().await;
    let mut first = Client::connect(&listening.socket).await;
    first.initialize().await;
    let thread = first.thread().await;
    first.turn(&thread, "go").await;
    first.next_of("turn/started").await;
    drop(first);
    let gone = testkit::log::Entry::Closed { connection: 1 };
    wait_until(Duration::from_secs(20), "the end of the first connection", || {
        server.entries().contains(&gone)
    })
    .await;
    let mut second = Client::connect(&listening.socket).await;
    second.initialize().await;
    let resumed =
        second.call("thread/resume", json!({ "threadId": thread })).await["result"]["thread"].clone();
    assert_eq!(resumed["turns"][0]["status"], "completed");
    assert_eq!(resumed["turns"][0]["items"][0]["text"], "at last");
    assert_eq!(resumed["status"]["type"], "idle");
    listening.child.kill().await.unwrap();
}
