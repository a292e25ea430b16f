//! Ordinary turns from a script, on stdio.

use serde_json::{Value, json};
use testkit::ScriptedServer;
use testkit::script::{self, Script, Step, item};

use crate::client::Client;

async fn methods_until_completed(client: &mut Client) -> Vec<String> {
    let mut methods = Vec::new();
    loop {
        let message = client.next().await.unwrap();
        methods.push(message["method"].as_str().unwrap_or("answer").to_owned());
        if message["method"] == "turn/completed" {
            return methods;
        }
    }
}

#[tokio::test]
async fn a_server_without_rules_plays_a_whole_turn() {
    let server = ScriptedServer::new(Script::new());
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    assert_eq!(thread, script::thread_id(1));
    let turn = client.turn(&thread, "hello").await;
    assert_eq!(turn["result"]["turn"]["id"], script::turn_id(1));
    let user = client.next_of("item/completed").await;
    assert_eq!(user["params"]["item"]["clientId"], "mine-1");
    assert_eq!(user["params"]["item"]["content"][0]["text"], "hello");
    let end = client.next_of("turn/completed").await;
    assert_eq!(end["params"]["turn"]["items"][0]["text"], "done");
    assert!(end["emittedAtMs"].is_u64());
    assert_eq!(client.finish().await, (Some(0), String::new()));
}

#[tokio::test]
async fn steps_are_played_in_order_and_the_record_shows_what_came() {
    let server = ScriptedServer::new(Script::new().on(
        "turn/start",
        [
            script::reply_turn(),
            script::started(),
            script::message("hi"),
            script::token_usage(10, 20),
            script::completed(),
        ],
    ));
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    client.next_of("thread/started").await;
    client.turn(&thread, "go").await;
    let expected =
        ["turn/started", "item/started", "item/completed", "thread/tokenUsage/updated", "turn/completed"];
    assert_eq!(methods_until_completed(&mut client).await, expected);
    client.finish().await;
    let received = server.received();
    let methods: Vec<&str> = received.iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(methods, ["initialize", "initialized", "thread/start", "turn/start"]);
    assert_eq!(server.calls("turn/start")[0]["params"]["threadId"], thread);
}

#[tokio::test]
async fn a_question_waits_for_an_answer_of_the_same_type() {
    for (id, wrong) in [(json!(0), json!("0")), (json!(7), json!("7")), (json!("s-1"), json!(1))] {
        let server = ScriptedServer::new(Script::new().on(
            "turn/start",
            [
                script::reply_turn(),
                script::started(),
                script::command_approval(id.clone(), "touch x"),
                script::completed(),
            ],
        ));
        let mut client = Client::of(&server).await;
        let thread = client.thread().await;
        client.turn(&thread, "go").await;
        let started = client.next_of("item/started").await;
        let asked = client.next_of("item/commandExecution/requestApproval").await;
        assert_eq!(asked["id"], id);
        assert_eq!(asked["params"]["itemId"], started["params"]["item"]["id"]);
        assert_eq!(asked["params"]["cwd"], "/ws");
        client.send(&json!({ "id": wrong, "result": { "decision": "accept" } })).await;
        assert!(client.is_silent().await, "an answer with another type of id must not count");
        client.send(&json!({ "id": id, "result": { "decision": "accept" } })).await;
        assert_eq!(client.next_of("serverRequest/resolved").await["params"]["requestId"], id);
        client.next_of("turn/completed").await;
        client.finish().await;
        let ids: Vec<Value> = server.answers().iter().map(|answer| answer["id"].clone()).collect();
        assert_eq!(ids, [wrong, id.clone()]);
        assert_eq!(server.wait_for_answer(id).await["result"]["decision"], "accept");
    }
}

#[tokio::test]
async fn events_of_children_and_of_earlier_turns_keep_their_own_ids() {
    let child = "child-1";
    let server = ScriptedServer::new(Script::new().on(
        "turn/start",
        [
            script::reply_turn(),
            script::child_started(child),
            script::message("from the child").in_thread(child).in_turn("child-turn"),
            script::completed().in_thread(child).in_turn("child-turn"),
            script::completed().in_turn("stale"),
            script::started(),
            script::message("mine").of_item("m-1"),
            script::completed(),
            script::completed(),
        ],
    ));
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    client.next_of("thread/started").await;
    client.turn(&thread, "go").await;
    let born = client.next_of("thread/started").await;
    assert_eq!(born["params"]["thread"]["id"], child);
    assert_eq!(born["params"]["thread"]["parentThreadId"], thread);
    let foreign = client.next_of("item/completed").await;
    assert_eq!(
        (&foreign["params"]["threadId"], &foreign["params"]["turnId"]),
        (&json!(child), &json!("child-turn"))
    );
    assert_eq!(client.next_of("turn/completed").await["params"]["turn"]["id"], "child-turn");
    assert_eq!(client.next_of("turn/completed").await["params"]["turn"]["id"], "stale");
    assert_eq!(client.next_of("item/completed").await["params"]["item"]["id"], "m-1");
    for _ in 0..2 {
        let end = client.next_of("turn/completed").await;
        assert_eq!(end["params"]["turn"]["id"], script::turn_id(1));
        assert_eq!(end["params"]["turn"]["items"][0]["text"], "mine");
    }
    client.finish().await;
}

#[tokio::test]
async fn a_rule_can_wait_for_the_test_and_for_another_call() {
    let server = ScriptedServer::new(Script::new().on(
        "turn/start",
        [
            script::reply_turn(),
            script::started(),
            script::await_method("turn/steer"),
            script::message("steered"),
            script::await_release("end"),
            script::completed(),
        ],
    ));
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    let turn = client.turn(&thread, "go").await["result"]["turn"]["id"].clone();
    client.next_of("turn/started").await;
    assert!(client.is_silent().await);
    let steer = json!({ "threadId": thread, "expectedTurnId": turn, "input": [] });
    assert_eq!(client.call("turn/steer", steer).await["result"]["turnId"], turn);
    assert_eq!(client.next_of("item/completed").await["params"]["item"]["text"], "steered");
    assert!(client.is_silent().await);
    server.release("end");
    client.next_of("turn/completed").await;
    client.finish().await;
}

#[tokio::test]
async fn an_interrupt_is_refused_until_the_turn_has_started() {
    let begin = [script::reply_turn(), script::await_release("start"), script::started(), script::hang()];
    let server = ScriptedServer::new(Script::new().on("turn/start", begin));
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    let turn = client.turn(&thread, "go").await["result"]["turn"]["id"].clone();
    let interrupt = json!({ "threadId": thread, "turnId": turn });
    let refused = client.call("turn/interrupt", interrupt.clone()).await;
    assert_eq!(refused["error"]["message"], "no active turn to interrupt");
    server.release("start");
    client.next_of("turn/started").await;
    assert_eq!(client.call("turn/interrupt", interrupt).await["result"], json!({}));
    assert_eq!(client.next_of("turn/completed").await["params"]["turn"]["status"], "interrupted");
    client.finish().await;
}

#[tokio::test]
async fn the_nth_call_has_a_rule_of_its_own() {
    let script = Script::new()
        .on_nth("turn/start", 2, [script::overloaded()])
        .on("turn/start", [script::reply(json!({ "round": "$n", "index": "$index" }))]);
    let server = ScriptedServer::new(script);
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    assert_eq!(client.turn(&thread, "1").await["result"], json!({ "round": "0", "index": 0 }));
    assert_eq!(client.turn(&thread, "2").await["error"]["code"], -32001);
    assert_eq!(client.turn(&thread, "3").await["result"]["index"], 2);
    client.finish().await;
}

#[tokio::test]
async fn settings_of_a_thread_are_echoed_and_can_be_lied_about() {
    let lie = script::reply_thread().with("/sandbox", json!({ "type": "dangerFullAccess" }));
    let server = ScriptedServer::new(Script::new().on_nth("thread/start", 2, [lie]));
    let mut client = Client::of(&server).await;
    let wanted =
        json!({ "cwd": "/ws", "sandbox": "workspace-write", "approvalPolicy": "untrusted", "model": "m" });
    let honest = client.call("thread/start", wanted.clone()).await["result"].clone();
    assert_eq!(honest["sandbox"]["type"], "workspaceWrite");
    assert_eq!((&honest["approvalPolicy"], &honest["model"]), (&json!("untrusted"), &json!("m")));
    let thread = honest["thread"]["id"].clone();
    let resumed = client.call("thread/resume", json!({ "threadId": thread })).await["result"].clone();
    assert_eq!(resumed["approvalPolicy"], "untrusted");
    let lied = client.call("thread/start", wanted).await["result"].clone();
    assert_eq!(lied["sandbox"]["type"], "dangerFullAccess");
    assert_eq!(lied["approvalPolicy"], "untrusted");
    client.finish().await;
}

#[tokio::test]
async fn the_handshake_is_required_once() {
    let server = ScriptedServer::new(Script::new());
    let mut client = Client::spawn(&mut server.command());
    let early = client.call("thread/start", json!({})).await;
    assert_eq!(early["error"], json!({ "code": -32600, "message": "Not initialized" }));
    let agent = client.initialize().await["userAgent"].clone();
    assert!(agent.as_str().unwrap().starts_with("tiny/0.166.0 ("), "{agent}");
    let again = client.call("initialize", json!({ "clientInfo": { "name": "x", "version": "1" } })).await;
    assert_eq!(again["error"]["message"], "Already initialized");
    let unknown = client.call("no/such", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32600);
    client.finish().await;
}

#[test]
fn a_script_survives_its_way_through_a_file() {
    let steps = [
        script::reply_turn(),
        item::file_change([item::added("a", "x"), item::updated("b", "y"), item::deleted("c", "z")])
            .lifecycle(),
        script::raw([0xff, 0x00]),
        script::flood(3, [script::delta("$n")]),
        Step::Pause { millis: 1 },
        script::hang(),
    ];
    let script = Script::new().version("0.99.0").stubborn().on("turn/start", steps);
    let text = serde_json::to_string(&script).unwrap();
    assert_eq!(serde_json::from_str::<Script>(&text).unwrap(), script);
    assert!(serde_json::from_str::<Script>(r#"{"rulez":[]}"#).is_err());
}
