//! Bodies and replies of the routes: formats, filters, pages, failures.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_rig::{Answer, Port};
use crate::shell::PATIENCE;

#[tokio::test]
async fn every_failure_is_told_as_problem_json() {
    let port = Port::new().await;
    let token = port.token("agent", "operator").await;
    let get = |path: &str| port.get(path).token(&token).send();
    let problem = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(get("/v1/tasks/none").await.problem(), problem(404, "unknown_task"));
    assert_eq!(get("/v1/nothing").await.problem(), problem(404, "unknown_route"));
    assert_eq!(get("/v1/tasks?limit=many").await.problem(), problem(400, "bad_call"));
    assert_eq!(get("/v1/tasks?status=odd").await.problem(), problem(422, "unknown_status"));
    let wrong_method = port.call("DELETE", "/v1/tasks").token(&token).send().await;
    assert_eq!(wrong_method.problem(), problem(405, "wrong_method"));
    assert_eq!(wrong_method.header("allow"), "GET,HEAD,POST");
    let start = |body: String| port.call("POST", "/v1/tasks").token(&token).body(body);
    let json = |body: &str| start(body.to_owned()).header("content-type", "application/json");
    assert_eq!(start("{}".into()).send().await.problem(), problem(415, "wrong_media_type"));
    assert_eq!(json("{").send().await.problem(), problem(400, "bad_call"));
    assert_eq!(json("[\"x\"]").send().await.problem(), problem(400, "bad_call"));
    assert_eq!(json("{}").send().await.problem(), problem(422, "empty_prompt"));
    assert_eq!(json("{\"prompt\":\"x\",\"wish\":1}").send().await.problem(), problem(400, "bad_call"));
    let large = format!("{{\"prompt\":\"{}\"}}", "x".repeat(4 * 1024 * 1024));
    assert_eq!(json(&large).send().await.problem(), problem(413, "too_large"));
    assert_eq!(
        json("{\"prompt\":\" \",\"limits\":{\"turns\":2.0}}").send().await.problem().1,
        "empty_prompt",
        "2.0 is 2"
    );
    // By the socket they look the same, and the command line tells them as ever.
    let local = port.local("GET", "/v1/tasks/none", &Value::Null).send().await;
    assert_eq!(local.problem(), problem(404, "unknown_task"));
    let said = port.shell.run(&["--json", "show", "none"]).await;
    assert_eq!((said.code, &said.failure()["code"]), (2, &json!("unknown_task")));
    port.shell.end().await;
}

#[tokio::test]
async fn odd_requests_are_told_so_as_problem_json_wherever_they_go() {
    let port = Port::new().await;
    let token = port.token("agent", "operator").await;
    let ask = |method: &str, path: &str| port.call(method, path).token(&token);
    let json = "application/json";
    let mcp = |accept: &str, media_type: &str, body: &str| {
        ask("POST", "/mcp").header("accept", accept).header("content-type", media_type).body(body)
    };
    let both = "application/json, text/event-stream";
    let odd = [
        (ask("GET", "/v1/events?limit=0"), 400, "bad_call"),
        (ask("GET", "/v1/deliveries?limit=0"), 400, "bad_limit"),
        (ask("GET", "/v1/deliveries?limit=1001"), 400, "bad_limit"),
        (ask("GET", "/v1/deliveries?all=maybe"), 400, "bad_call"),
        (ask("GET", "/v1/tasks/%ff"), 400, "bad_call"),
        (ask("GET", "/assets/none.js"), 404, "unknown_route"),
        (ask("GET", "/assets/%ff"), 400, "bad_call"),
        (ask("POST", "/assets/none.js"), 405, "wrong_method"),
        (ask("GET", "/hooks/none"), 405, "wrong_method"),
        (ask("POST", "/hooks/none"), 404, "unknown_channel"),
        (ask("PUT", "/login"), 405, "wrong_method"),
        (ask("GET", "/logout"), 405, "wrong_method"),
        (ask("POST", "/login"), 400, "bad_call"),
        (ask("PUT", "/mcp"), 405, "wrong_method"),
        (ask("GET", "/mcp"), 406, "not_acceptable"),
        (mcp("text/html", json, "{}"), 406, "not_acceptable"),
        (mcp(both, "text/plain", "{}"), 415, "wrong_media_type"),
        (mcp(both, json, "{"), 415, "wrong_media_type"),
        (mcp(both, json, "[]"), 415, "wrong_media_type"),
    ];
    for (number, (call, status, code)) in odd.into_iter().enumerate() {
        assert_eq!(call.send().await.problem(), (status, code.to_owned()), "{number}");
    }
    let get = |path: &str| port.local("GET", path, &Value::Null).send();
    for (path, code) in [
        ("/v1/audit?limit=x", "bad_call"),
        ("/v1/audit?since=soon", "bad_call"),
        ("/v1/audit?limit=0", "bad_limit"),
        ("/v1/inbox?limit=1001", "bad_limit"),
    ] {
        assert_eq!(get(path).await.problem(), (400, code.into()), "{path}");
    }
    port.shell.end().await;
}

#[tokio::test]
async fn the_same_key_starts_one_task() {
    let port = Port::new().await;
    let token = port.token("agent", "operator").await;
    let body = port.work("go [play] say Done.");
    let start =
        |key: &str, body: &Value| port.post("/v1/tasks", body).token(&token).header("idempotency-key", key);
    let first = start("k1", &body).send().await.ok().json();
    let again = start("k1", &body).send().await.ok().json();
    assert_eq!(first["task_id"], again["task_id"]);
    let mut named = body.clone();
    named["client_request_id"] = "k1".into();
    let same = port.post("/v1/tasks", &named).token(&token).send().await.ok().json();
    assert_eq!(first["task_id"], same["task_id"], "client_request_id is the same thing");
    assert_eq!(start("k1", &named).send().await.ok().json()["task_id"], first["task_id"]);
    assert_eq!(start("k2", &named).send().await.problem(), (422, "key_mismatch".into()));
    let other = start("k3", &body).send().await.ok().json();
    assert_ne!(first["task_id"], other["task_id"]);
    let second = port.token("second", "operator").await;
    let of_second = port.post("/v1/tasks", &named).token(&second).send().await.ok().json();
    assert_ne!(first["task_id"], of_second["task_id"], "another caller's key is another one");
    assert_eq!(start(&"k".repeat(256), &body).send().await.problem(), (400, "bad_call".into()));
    port.shell.end().await;
}

#[tokio::test]
async fn the_same_key_gives_one_turn_and_one_branch_also_after_a_restart() {
    let port = Port::new().await;
    let token = port.token("agent", "operator").await;
    let id = port.start(&token, "go [play] say Done.").await;
    port.wait(&token, &id).await;
    let send = async |path: &str, key: &str, body: Value| {
        let call = port.post(&format!("/v1/tasks/{id}/{path}"), &body).token(&token);
        call.header("idempotency-key", key).send().await
    };
    let on = |words: &str| json!({ "prompt": format!("on [play] say {words}.") });
    assert_eq!(send("turns", "k1", on("One")).await.ok().json()["task_id"], id.as_str());
    send("turns", "k1", on("One")).await.ok();
    port.wait(&token, &id).await;
    let branch = send("fork", "k1", on("Two")).await.ok().json()["task_id"].clone();
    port.shell.run(&["stop"]).await.ok();
    port.shell.run(&["ps"]).await.ok();
    send("turns", "k1", on("One")).await.ok();
    assert_eq!(send("turns", "k1", on("Three")).await.problem(), (422, "key_reused".into()));
    let both = json!({ "prompt": "x", "client_request_id": "k2" });
    assert_eq!(send("turns", "k1", both).await.problem(), (422, "key_mismatch".into()));
    assert_eq!(send("fork", "k1", on("Two")).await.ok().json()["task_id"], branch);
    assert_eq!(send("fork", "k1", json!({})).await.problem(), (422, "key_reused".into()));
    let turns = async |id: &str| {
        let read = port.get(&format!("/v1/tasks/{id}/turns")).token(&token).send().await.ok().json();
        read.as_array().unwrap().len()
    };
    assert_eq!((turns(&id).await, turns(branch.as_str().unwrap()).await), (2, 1));
    port.shell.end().await;
}

#[tokio::test]
async fn the_same_key_for_other_work_is_refused() {
    let port = Port::new().await;
    let token = port.token("agent", "operator").await;
    let start = |body: &Value| port.post("/v1/tasks", body).token(&token).header("idempotency-key", "k1");
    let body = port.work("go [play] say Done.");
    start(&body).send().await.ok();
    let other_work = start(&port.work("go on [play] say Done.")).send().await;
    assert_eq!(other_work.problem(), (422, "key_reused".into()));
    assert!(!other_work.json()["hint"].as_str().unwrap().is_empty());
    let mut other_settings = body.clone();
    other_settings["sandbox"] = "read-only".into();
    assert_eq!(start(&other_settings).send().await.problem(), (422, "key_reused".into()));
    start(&body).send().await.ok();

    // The other doors say the same.
    let run = |prompt: &'static str| ["--json", "run", "--detach", "--client-request-id", "mine", prompt];
    port.shell.run(&run("one [play] say One.")).await.ok();
    let said = port.shell.run(&run("two [play] say Two.")).await;
    assert_eq!((said.code, &said.failure()["code"]), (2, &json!("key_reused")));
    let call = json!({"action": "start", "prompt": "three", "client_request_id": "mine"}).to_string();
    let refused = port.shell.run(&["tool", &call]).await.json();
    assert_eq!((&refused["success"], &refused["code"]), (&json!(false), &json!("key_reused")));
    port.shell.end().await;
}

#[tokio::test]
async fn a_daemon_that_cannot_write_says_that_it_is_not_ready() {
    let port = Port::new().await;
    port.shell.run(&["ps"]).await.ok();
    port.get("/readyz").send().await.ok();
    // It still reads, from files that it has open.
    let (here, away) = (port.shell.home.dir().join("st"), port.shell.home.dir().join("away"));
    fs::rename(&here, &away).unwrap();
    let told = readiness(&port, 503).await;
    assert_eq!(told.problem(), (503, "store".into()));
    assert!(told.json()["detail"].as_str().unwrap().contains("tasks.db"), "{told:?}");
    port.get("/healthz").send().await.ok();
    fs::rename(&away, &here).unwrap();
    readiness(&port, 200).await;
    port.shell.end().await;
}

/// The answer once it is this one. What was found out counts for a moment.
async fn readiness(port: &Port, status: u16) -> Answer {
    let look = async {
        loop {
            let told = port.get("/readyz").send().await;
            if told.status == status {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("never {status}"))
}

#[tokio::test]
async fn tasks_are_found_and_leafed_through() {
    let port = Port::new().await;
    let token = port.token("agent", "operator").await;
    let below = port.shell.home.workspace().join("below");
    std::fs::create_dir(&below).unwrap();
    let mut ids = Vec::new();
    for number in 1..=4 {
        let mut body = port.work(&format!("number {number} [play] say Answer {number}."));
        if number == 4 {
            body["cwd"] = below.to_string_lossy().into();
        }
        let id = port.post("/v1/tasks", &body).token(&token).send().await.ok().json()["task_id"].clone();
        port.wait(&token, id.as_str().unwrap()).await;
        ids.push(id);
    }
    let list = |query: String| {
        let call = port.get(&format!("/v1/tasks{query}")).token(&token);
        async {
            let answer = call.send().await.ok();
            let tasks =
                answer.json().as_array().unwrap().iter().map(|task| task["task_id"].clone()).collect();
            (tasks, answer.header("link").to_owned())
        }
    };
    let of = |numbers: &[usize]| numbers.iter().map(|number| ids[number - 1].clone()).collect::<Vec<_>>();
    assert_eq!(list(String::new()).await, (of(&[4, 3, 2, 1]), String::new()));
    assert_eq!(list("?status=completed&limit=4".into()).await.0, of(&[4, 3, 2, 1]));
    assert_eq!(list("?status=waiting_for_approval".into()).await, (of(&[]), String::new()));
    assert_eq!(list("?q=ANSWER+3".into()).await.0, of(&[3]));
    assert_eq!(list(format!("?cwd={}", below.display())).await.0, of(&[4]));
    // The header leads from page to page until there is none.
    let (first, link) = list("?limit=3&q=number".into()).await;
    assert_eq!(first, of(&[4, 3, 2]));
    let next = link.strip_prefix("</v1/tasks").and_then(|link| link.strip_suffix(">; rel=\"next\""));
    let (second, link) = list(next.unwrap_or_else(|| panic!("{link}")).to_owned()).await;
    assert_eq!((second, link), (of(&[1]), String::new()));
    port.shell.end().await;
}

#[tokio::test]
async fn a_task_tells_its_turns_its_result_and_its_diff() {
    let port = Port::new().await;
    let token = port.token("agent", "approver").await;
    let id = port.start(&token, "go [play] write new.txt first line => say Written.").await;
    let get = |path: &str| {
        let call = port.get(&format!("/v1/tasks/{id}/{path}")).token(&token);
        async { call.send().await }
    };
    let mut task = port.wait(&token, &id).await;
    if task["status"] == "waiting_for_approval" {
        assert_eq!(get("result").await.problem(), (409, "wrong_state".into()));
        port.decide(&token, &id, "accept").await.ok();
        task = port.wait(&token, &id).await;
    }
    assert_eq!(task["status"], "completed", "{task:#}");
    let result = get("result").await.ok().json();
    assert_eq!((&result["final_text"], &result["status"]), (&json!("Written."), &json!("completed")));
    let diff = get("diff").await.ok().json();
    let text = diff["diff"].as_str().unwrap_or_else(|| panic!("{diff:#}"));
    assert!(text.contains("+first line") && text.contains("new.txt"), "{text}");
    let raw =
        port.get(&format!("/v1/tasks/{id}/diff")).token(&token).header("accept", "text/x-diff").send().await;
    assert_eq!((raw.header("content-type"), raw.body.as_str()), ("text/x-diff; charset=utf-8", text));
    let more = json!({"prompt": "more [play] say Nothing changed."});
    port.post(&format!("/v1/tasks/{id}/turns"), &more).token(&token).send().await.ok();
    port.wait(&token, &id).await;
    let turns = get("turns").await.ok().json();
    let numbers: Vec<&Value> = turns.as_array().unwrap().iter().map(|turn| &turn["number"]).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(turns[1]["progress"], "ended");
    assert_eq!(get("diff").await.ok().json()["diff"], text, "the last turn changed nothing");
    port.shell.end().await;
}

#[tokio::test]
async fn the_numbers_are_those_of_what_happened() {
    let port = Port::new().await;
    let token = port.token("agent", "approver").await;
    let id = port.start(&token, "go [play] exec touch made.txt => say Done.").await;
    port.wait(&token, &id).await;
    let numbers = || async {
        let answer = port.get("/metrics").token(&token).send().await.ok();
        assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
        answer.body
    };
    let waiting = numbers().await;
    for line in ["codex_bridge_tasks{state=\"waiting_for_approval\"} 1", "codex_bridge_approvals_pending 1"] {
        assert!(waiting.contains(line), "{line} in\n{waiting}");
    }
    assert!(waiting.contains("codex_bridge_app_server_rss_bytes{host="), "{waiting}");
    port.decide(&token, &id, "accept").await.ok();
    assert_eq!(port.wait(&token, &id).await["status"], "completed");
    let wanted = [
        "codex_bridge_tasks{state=\"completed\"} 1",
        "codex_bridge_approvals_pending 0",
        "codex_bridge_outbox_pending 0",
        "codex_bridge_task_seconds_count 1",
        "codex_bridge_approval_wait_seconds_count 1",
        "codex_bridge_tokens_total{kind=\"input\",model=\"default\"}",
        "codex_bridge_lease_lost_total 0",
        "codex_bridge_watchdog_fired_total{reason=\"tokens\"} 0",
        "codex_bridge_watchdog_fired_total{reason=\"host\"} 0",
    ];
    // Counting follows what it counts.
    let began = std::time::Instant::now();
    loop {
        let ended = numbers().await;
        if wanted.iter().all(|line| ended.contains(line)) {
            break;
        }
        assert!(began.elapsed() < crate::shell::PATIENCE, "{wanted:#?} in\n{ended}");
    }
    port.shell.end().await;
}

#[tokio::test]
async fn a_limit_that_stops_a_turn_and_an_answer_that_does_not_come_are_counted() {
    let port = Port::new().await;
    let workspace = port.shell.home.workspace();
    port.configure(&format!("roots = [\"{}\"]\nanswer_limit_s = 1\n", workspace.display()), "");
    let token = port.token("agent", "operator").await;
    let id = port.start(&token, "go [play] exec touch made.txt => say Done.").await;
    let mut greedy = port.work("go [play] exec true => say Done.");
    greedy["limits"] = json!({"tokens": 1});
    greedy["sandbox"] = json!("read-only");
    port.post("/v1/tasks", &greedy).token(&token).send().await.ok();
    let wanted = [
        "codex_bridge_watchdog_fired_total{reason=\"answer\"}",
        "codex_bridge_watchdog_fired_total{reason=\"tokens\"} 1",
        "codex_bridge_tasks{state=\"completed\"} 1",
        "codex_bridge_tasks{state=\"paused\"} 1",
    ];
    let began = std::time::Instant::now();
    loop {
        let numbers = port.get("/metrics").token(&token).send().await.ok().body;
        let is_none = numbers.contains("watchdog_fired_total{reason=\"answer\"} 0");
        if !is_none && wanted.iter().all(|line| numbers.contains(line)) {
            break;
        }
        assert!(began.elapsed() < crate::shell::PATIENCE, "{id}: {wanted:#?} in\n{numbers}");
    }
    port.shell.end().await;
}

#[tokio::test]
async fn the_same_key_finds_its_task_though_its_directory_is_gone() {
    let port = Port::new().await;
    let token = port.token("agent", "operator").await;
    let tree = port.shell.home.workspace().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let body = json!({"prompt": "look [play] say Seen.", "cwd": tree});
    let call = |body: &Value| port.post("/v1/tasks", body).token(&token).header("idempotency-key", "mine");
    let first = call(&body).send().await.ok().json();
    let id = first["task_id"].as_str().unwrap();
    port.wait(&token, id).await;
    std::fs::remove_dir(&tree).unwrap();
    let again = call(&body).send().await.ok().json();
    assert_eq!((&again["task_id"], &again["final_text"]), (&first["task_id"], &json!("Seen.")));
    let other = json!({"prompt": "other", "cwd": tree});
    assert_eq!(call(&other).send().await.problem().1, "bad_cwd");
    port.shell.end().await;
}
