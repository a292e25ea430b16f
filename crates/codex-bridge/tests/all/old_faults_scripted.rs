//! What earlier task tools got wrong, played by an app-server that does what the real one does not do on demand.
//! Each test fails with the fault that its promise names.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::ScriptedServer;
use testkit::script::{self, Script, Step};

use crate::shell::{PATIENCE, Shell};

const SECRET: &str = "sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789";

/// The built program on an app-server that plays this.
async fn on(script: Script) -> (Shell, ScriptedServer) {
    let shell = Shell::new().await;
    let server = ScriptedServer::new(script);
    server.attach_to_home(&shell.home.codex_home());
    fs::write(
        shell.home.dir().join("config.toml"),
        format!("codex_bin = \"{}\"\n", server.program().display()),
    )
    .unwrap();
    (shell, server)
}

/// The same, with every turn played like this after the reply that names it.
async fn playing(steps: impl IntoIterator<Item = Step>) -> (Shell, ScriptedServer) {
    let turn = [script::reply_turn(), script::started()].into_iter().chain(steps);
    on(Script::new().on("turn/start", turn)).await
}

async fn status(shell: &Shell, id: &str) -> Value {
    shell.told(json!({"action": "status", "task_id": id})).await["task"].clone()
}

async fn kinds(shell: &Shell, id: &str) -> Vec<String> {
    let events = shell.told(json!({"action": "events", "task_id": id, "limit": 100})).await["events"].clone();
    events.as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

/// Waits for a line of this kind in a task's log.
async fn logged(shell: &Shell, id: &str, kind: &str) {
    let began = Instant::now();
    while !kinds(shell, id).await.iter().any(|line| line == kind) {
        assert!(began.elapsed() < PATIENCE, "no {kind} in {:?}", kinds(shell, id).await);
    }
}

// peer: T1
#[tokio::test]
async fn an_answer_reaches_codex_under_the_very_id_that_it_asked_with() {
    for request in [json!(0), json!("0"), json!("s-1")] {
        let (shell, server) = playing([
            script::fresh_item([script::command_request(request.clone(), "make").asked()]),
            script::message("made"),
            script::completed(),
        ])
        .await;
        let (id, request_id) = shell.begin_asking("go").await;
        let call =
            json!({"action": "respond", "task_id": id, "request_id": request_id, "decision": "accept"});
        let call = shell.seen(call).await;
        assert_eq!(shell.told(call).await["response"]["outcome"], "resolved");
        assert_eq!(server.answers(), [json!({"id": request, "result": {"decision": "accept"}})]);
        assert_eq!(shell.ended(&id).await["status"], "completed");
        shell.end().await;
    }
}

// peer: T3, T4
#[tokio::test]
async fn what_no_person_can_answer_is_put_before_none() {
    let (shell, server) = playing([
        script::current_time(0),
        script::await_answer(0),
        script::token_refresh(1),
        script::await_answer(1),
        script::attestation(2),
        script::await_answer(2),
        script::tool_call(3, "dice", json!({})),
        script::await_answer(3),
        script::unknown_request(4),
        script::await_answer(4),
        script::message("went on"),
        script::completed(),
    ])
    .await;
    let id = shell.begin("go").await;
    assert_eq!(shell.ended(&id).await["final_text"], "went on");
    assert!(!kinds(&shell, &id).await.iter().any(|kind| kind == "request"), "somebody was asked");
    let answers = server.answers();
    assert!(answers[0]["result"]["currentTimeAt"].is_u64(), "{answers:?}");
    assert_eq!(answers[3]["result"]["success"], false, "no such tool is offered: {answers:?}");
    for refused in [1, 2, 4] {
        assert_eq!(answers[refused]["error"]["code"], -32601, "{answers:?}");
    }
    shell.end().await;
}

// peer: T4
#[tokio::test]
async fn a_person_who_does_not_answer_in_time_has_said_no() {
    let (shell, server) = playing([
        script::fresh_item([script::command_request(0, "make").asked()]),
        script::message("went on"),
        script::completed(),
    ])
    .await;
    let config = shell.home.dir().join("config.toml");
    fs::write(&config, format!("answer_limit_s = 2\n{}", fs::read_to_string(&config).unwrap())).unwrap();
    let (id, request_id) = shell.begin_asking("go").await;
    let answer = server.wait_for_answer(0).await;
    assert_eq!(answer["result"]["decision"], "decline");
    // Until Codex has said that it took the answer, the request is open and `wait` has nothing to wait for.
    logged(&shell, &id, "request_closed").await;
    assert_eq!(shell.ended(&id).await["final_text"], "went on");
    let late = json!({"action": "respond", "task_id": id, "request_id": request_id, "decision": "accept"});
    assert_eq!(shell.refused(late).await.0, "expired");
    shell.end().await;
}

// peer: T5
#[tokio::test]
async fn a_codex_that_dies_in_mid_turn_leaves_its_task_lost_with_its_last_words_and_no_secret() {
    let (shell, _server) = playing([
        script::message("so far"),
        script::stderr(&format!("panicked: bad key {SECRET}")),
        script::exit(3),
    ])
    .await;
    let id = shell.begin("go").await;
    let task = shell.ended(&id).await;
    assert_eq!((&task["status"], &task["active_connection"]), (&json!("lost"), &json!(false)), "{task:#}");
    let message = task["error"]["message"].as_str().unwrap();
    for words in ["ended unexpectedly", "code 3", "panicked: bad key"] {
        assert!(message.contains(words), "{words:?} is not in {message:?}");
    }
    assert!(!task.to_string().contains(SECRET), "{task:#}");
    shell.end().await;
}

// peer: T6
#[tokio::test]
async fn what_is_no_message_costs_itself_alone() {
    let odd = ["[]", "1", "null", "{}", "garbage", r#"{"method":"turn/completed","params":7}"#];
    let mut steps: Vec<Step> = odd.into_iter().map(script::raw_line).collect();
    steps.push(script::raw_line(b"\xff\xfe"));
    steps
        .push(script::notify("item/completed", json!({"threadId": "$thread", "turnId": "$turn", "item": 5})));
    steps.extend([script::message("still here"), script::completed()]);
    let (shell, _server) = playing(steps).await;
    let id = shell.begin("go").await;
    let task = shell.ended(&id).await;
    assert_eq!(
        (&task["status"], &task["final_text"]),
        (&json!("completed"), &json!("still here")),
        "{task:#}"
    );
    shell.end().await;
}

// peer: T7
#[tokio::test]
async fn a_turn_that_is_quicker_than_the_reply_to_its_start_stays_as_it_ended() {
    let (shell, _server) = on(Script::new().on(
        "turn/start",
        [script::started(), script::message("quick"), script::completed(), script::reply_turn()],
    ))
    .await;
    let id = shell.begin("go").await;
    assert_eq!(shell.ended(&id).await["status"], "completed");
    let states = states(&shell, &id).await;
    assert_eq!(states.last().map(String::as_str), Some("completed"), "{states:?}");
    assert_eq!(states.iter().filter(|state| *state == "completed").count(), 1, "{states:?}");
    shell.end().await;
}

/// The states of a task as its log tells them.
async fn states(shell: &Shell, id: &str) -> Vec<String> {
    let events = shell.told(json!({"action": "events", "task_id": id, "limit": 100})).await["events"].clone();
    let states = events.as_array().unwrap().iter().filter(|event| event["kind"] == "state");
    states.map(|event| event["status"].as_str().unwrap().to_owned()).collect()
}

// peer: T7
#[tokio::test]
async fn a_request_that_is_quicker_than_the_reply_to_its_turns_start_is_seen() {
    let (shell, _server) = on(Script::new().on(
        "turn/start",
        [
            script::started(),
            script::fresh_item([script::command_request(0, "make")]),
            script::reply_turn(),
            script::await_answer(0),
            script::resolved(0),
            script::completed(),
        ],
    ))
    .await;
    let (id, request_id) = shell.begin_asking("go").await;
    assert_eq!(status(&shell, &id).await["status"], "waiting_for_approval");
    shell.told(json!({"action": "respond", "task_id": id, "request_id": request_id})).await;
    assert_eq!(shell.ended(&id).await["status"], "completed");
    shell.end().await;
}

// peer: T8
#[tokio::test]
async fn the_end_of_a_sub_agent_is_not_the_end_of_the_task() {
    let (shell, server) = playing([
        script::child_started("child-1"),
        script::started().in_thread("child-1").in_turn("child-turn"),
        script::message("the child's words").in_thread("child-1").in_turn("child-turn"),
        script::completed_without_message().in_thread("child-1").in_turn("child-turn"),
        // Seen in the log: so the end of the child has been seen too.
        script::message_in_phase("the child is done", "commentary"),
        script::await_release("parent"),
        script::message("the parent's words"),
        script::completed(),
    ])
    .await;
    let id = shell.begin("go").await;
    logged(&shell, &id, "message").await;
    let task = status(&shell, &id).await;
    assert_eq!((&task["status"], &task["active_connection"]), (&json!("working"), &json!(true)));
    server.release("parent");
    let task = shell.ended(&id).await;
    assert_eq!((&task["status"], &task["final_text"]), (&json!("completed"), &json!("the parent's words")));
    shell.end().await;
}

// peer: T16
#[tokio::test]
async fn a_steer_that_another_turn_took_or_none_could_is_no_success() {
    let answers = [
        (script::reply(json!({"turnId": "another"})), "steer_unconfirmed", "Codex added it to another turn"),
        (
            script::reply_error(-32600, "expected active turn"),
            "not_steered",
            "another turn has started since",
        ),
        (script::reply_error(-32600, "cannot steer a review"), "not_steered", "turn cannot be steered"),
        (script::reply_error(-32600, "the moon is full"), "not_steered", "the moon is full"),
    ];
    for (answer, expected, why) in answers {
        let turn =
            [script::reply_turn(), script::started(), script::await_release("end"), script::completed()];
        let (shell, server) = on(Script::new().on("turn/start", turn).on("turn/steer", [answer])).await;
        let id = shell.begin("go").await;
        let call = json!({"action": "steer", "task_id": id, "instruction": "quickly"});
        let (code, error) = shell.refused(call).await;
        assert_eq!(code, expected);
        assert!(error.contains(why), "{error}");
        server.release("end");
        shell.ended(&id).await;
        shell.end().await;
    }
}

#[tokio::test]
async fn a_steer_that_may_have_arrived_is_told_apart_from_one_that_did_not() {
    let turn = [script::reply_turn(), script::started()];
    let (shell, _server) =
        on(Script::new().on("turn/start", turn).on("turn/steer", [script::completed()])).await;
    let id = shell.begin("go").await;
    let call = json!({"action": "steer", "task_id": id, "instruction": "quickly"});
    let (code, error) = shell.refused(call).await;
    assert_eq!(code, "steer_unconfirmed");
    assert!(error.contains("which may have been added: the turn ended before Codex answered"), "{error}");
    shell.ended(&id).await;
    shell.end().await;
}

// peer: T17
#[tokio::test]
async fn a_turn_that_completes_before_its_interrupt_keeps_its_answer() {
    let turn = [
        script::reply_turn(),
        script::started(),
        script::await_method("turn/interrupt"),
        script::message("done already"),
        script::completed(),
    ];
    let refusal = script::reply_error(-32600, "no active turn to interrupt");
    let (shell, _server) = on(Script::new().on("turn/start", turn).on("turn/interrupt", [refusal])).await;
    let id = shell.begin("go").await;
    let reply = shell.told(json!({"action": "interrupt", "task_id": id})).await;
    let task = &reply["task"];
    assert_eq!((&task["status"], &task["final_text"]), (&json!("completed"), &json!("done already")));
    assert_ne!(reply["result"]["outcome"], "interrupted", "{reply:#}");
    shell.end().await;
}

// peer: T18
#[tokio::test]
async fn a_task_waits_until_its_last_request_is_answered() {
    let ask = |id: u64, command: &str| script::fresh_item([script::command_request(id, command)]);
    let (shell, server) = playing([
        ask(0, "make"),
        ask(1, "make install"),
        script::await_answer(0),
        script::resolved(0),
        script::await_answer(1),
        script::resolved(1),
        script::await_release("end"),
        script::completed(),
    ])
    .await;
    let id = shell.begin("go").await;
    let open = async || status(&shell, &id).await["pending_requests"].as_array().unwrap().clone();
    let began = Instant::now();
    while open().await.len() < 2 {
        assert!(began.elapsed() < PATIENCE, "{:?}", open().await);
    }
    let answer = async |request: &Value| {
        let call = json!({"action": "respond", "task_id": id, "request_id": request["request_id"]});
        shell.told(call).await["task"]["status"].clone()
    };
    let requests = open().await;
    assert_eq!(answer(&requests[0]).await, "waiting_for_approval");
    assert_eq!(open().await, requests[1..]);
    assert_eq!(answer(&requests[1]).await, "working");
    server.release("end");
    shell.ended(&id).await;
    shell.end().await;
}

// peer: T19
#[tokio::test]
async fn a_task_that_could_not_be_started_has_failed_with_a_reason_and_is_told_of() {
    let refusal = script::reply_error(-32600, "no room for another thread");
    let (shell, _server) = on(Script::new().on("thread/start", [refusal])).await;
    let call = json!({"action": "start", "prompt": "go", "notify_target": "local"});
    let id = shell.told(call).await["task_id"].as_str().unwrap().to_owned();
    let task = shell.ended(&id).await;
    assert_eq!((&task["status"], &task["active_connection"]), (&json!("failed"), &json!(false)), "{task:#}");
    assert!(task["error_summary"].as_str().unwrap().contains("no room for another thread"), "{task:#}");
    let told = shell.told(json!({"action": "notify_completed"})).await;
    assert_eq!((&told["processed"], &told["notifications"][0]["status"]), (&json!(1), &json!("failed")));
    shell.end().await;
}

// peer: T20
#[tokio::test]
async fn an_error_on_the_way_is_no_end_and_an_end_stays() {
    let (shell, server) = playing([
        script::error_final("the stream broke", json!("other")),
        script::status_system_error(),
        script::message_in_phase("hm", "commentary"),
        script::await_release("fail"),
        script::failed("it cannot be done", json!("other")),
        script::status_active(),
        script::started(),
        script::message("and yet"),
        script::error_final("again", json!("other")),
    ])
    .await;
    let id = shell.begin("go").await;
    logged(&shell, &id, "message").await;
    let task = status(&shell, &id).await;
    assert_eq!((&task["status"], &task["completed_at"]), (&json!("working"), &Value::Null), "{task:#}");
    server.release("fail");
    let task = shell.ended(&id).await;
    assert_eq!((&task["status"], &task["active_connection"]), (&json!("failed"), &json!(false)));
    assert!(task["error_summary"].as_str().unwrap().contains("it cannot be done"), "{task:#}");
    // What came after the end is on its way, or here.
    shell.run(&["stop"]).await.ok();
    let later = status(&shell, &id).await;
    assert_eq!((&later["status"], &later["completed_at"]), (&json!("failed"), &task["completed_at"]));
    shell.end().await;
}

// peer: T26, T33
#[tokio::test]
async fn a_flood_of_deltas_is_neither_stored_nor_shown_one_by_one() {
    let (shell, _server) = playing([
        script::flood(5000, [script::delta("word ")]),
        script::message("all of it"),
        script::completed(),
    ])
    .await;
    let id = shell.begin("go").await;
    shell.ended(&id).await;
    let log = kinds(&shell, &id).await;
    assert!(log.len() < 15, "{log:?}");
    let task = status(&shell, &id).await;
    let recent = task["recent_events"].as_array().unwrap();
    let shown: Vec<&str> = recent.iter().map(|event| event["source_event_type"].as_str().unwrap()).collect();
    assert_eq!(shown, log, "the whole story is in sight");
    let held: u64 = ["tasks.db", "tasks.db-wal"]
        .iter()
        .filter_map(|name| fs::metadata(shell.home.dir().join("st").join(name)).ok())
        .map(|file| file.len())
        .sum();
    assert!(held < 2_000_000, "{held} bytes");
    shell.end().await;
}
