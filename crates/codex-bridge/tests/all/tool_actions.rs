//! The actions of the tool, on the real Codex.

use serde_json::{Value, json};

use crate::shell::Shell;

// peer: BR1
#[tokio::test]
async fn a_started_task_works_with_the_safe_defaults_and_names_its_thread_and_turn() {
    let shell = Shell::new().await;
    let prompt = "go [play] delta Once upon => stall here => say a time.";
    let reply = shell
        .told(json!({"action": " START ", "prompt": prompt, "sandbox": "", "approval_policy": ""}))
        .await;
    let task = &reply["task"];
    assert_eq!(task["status"], "working", "{reply:#}");
    assert_eq!(reply["protocol"]["mailbox"], false);
    assert!(reply["protocol"]["transport"].as_str().unwrap().contains("app-server"));
    assert_eq!((&task["sandbox"], &task["approval_policy"]), (&json!("read-only"), &json!("untrusted")));
    assert_eq!(task["cwd"], shell.home.workspace().to_str().unwrap());
    assert!(task["codex_thread_id"].is_string() && task["codex_turn_id"].is_string(), "{reply:#}");
    assert_eq!((&task["task_id"], &task["hermes_task_id"]), (&reply["task_id"], &reply["task_id"]));
    shell.model.wait_for_stall("here").await;
    shell.model.release("here");
    let ended = shell.ended(reply["task_id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "completed");
    shell.end().await;
}

// peer: BR2
#[tokio::test]
async fn whoever_wants_to_be_told_is_remembered_as_not_told_yet() {
    let shell = Shell::new().await;
    let call = json!({"action": "start", "prompt": "hello [play] say Hello.", "notify_target": " local "});
    let task = shell.told(call).await["task"].clone();
    assert_eq!((&task["notify_target"], &task["notification_status"]), (&json!("local"), &json!("pending")));
    assert_eq!((&task["notified_at"], &task["notification_error"]), (&Value::Null, &Value::Null));
    shell.ended(task["task_id"].as_str().unwrap()).await;
    shell.end().await;
}

// peer: BR3, T1, T37
#[tokio::test]
async fn a_declined_command_does_not_run_and_the_task_goes_on() {
    let shell = Shell::new().await;
    let prompt = "go [play] exec touch made.txt => delta Very => stall here => say well.";
    let (id, request_id) = shell.begin_asking(prompt).await;
    let status = shell.told(json!({"action": "status", "task_id": id})).await["task"].clone();
    assert_eq!(status["status"], "waiting_for_approval");
    let pending = &status["pending_requests"][0];
    assert_eq!(pending["method"], "item/commandExecution/requestApproval");
    assert_eq!(pending["status"], "pending");
    assert!(pending["payload"]["command"].as_str().unwrap().contains("touch made.txt"));

    // The decision's default is the safe one, and the request goes by its older name too.
    let reply = shell.told(json!({"action": "respond", "task_id": id, "instruction": request_id})).await;
    assert_eq!(
        (&reply["response"]["decision"], &reply["response"]["outcome"]),
        (&json!("decline"), &json!("resolved"))
    );
    assert_eq!(reply["task"]["pending_requests"], json!([]));
    shell.model.wait_for_stall("here").await;
    assert_eq!(shell.told(json!({"action": "status", "task_id": id})).await["task"]["status"], "working");
    shell.model.release("here");
    shell.ended(&id).await;
    assert!(!shell.home.workspace().join("made.txt").exists());
    shell.end().await;
}

// peer: BR4, T37
#[tokio::test]
async fn a_question_is_answered_by_its_id_and_the_answer_reaches_the_model() {
    let shell = Shell::new().await;
    let (id, request_id) = shell.begin_asking("go [play] ask Shall it be? => say So be it.").await;
    let status = shell.told(json!({"action": "status", "task_id": id})).await["task"].clone();
    assert_eq!(status["status"], "waiting_for_user_input");
    assert_eq!(status["pending_requests"][0]["method"], "item/tool/requestUserInput");
    let question =
        status["pending_requests"][0]["payload"]["questions"][0]["id"].as_str().unwrap().to_owned();
    let answers = json!({question: {"answers": ["yes"]}});
    let call = json!({"action": "respond", "task_id": id, "request_id": request_id, "answers": answers});
    assert_eq!(shell.refused(call.clone()).await.0, "digest_missing");
    assert_eq!(shell.told(shell.seen(call).await).await["response"]["decision"], "answers");
    assert_eq!(shell.ended(&id).await["final_text"], "So be it.");
    let said_yes = |request: &scripted_model::ReceivedRequest| format!("{request:?}").contains("yes");
    assert!(shell.model.requests().last().is_some_and(|request| said_yes(request)));
    shell.end().await;
}

// peer: BR5
#[tokio::test]
async fn what_is_added_to_a_running_turn_reaches_that_turn() {
    let shell = Shell::new().await;
    let id = shell.begin("go [play] delta Once upon => stall here => exec true => say a time.").await;
    shell.model.wait_for_stall("here").await;
    let reply =
        shell.told(json!({"action": "steer", "task_id": id, "instruction": "and mention the weather"})).await;
    assert_eq!(reply["result"]["outcome"], "accepted");
    assert_eq!(reply["result"]["turn_id"], reply["task"]["codex_turn_id"]);
    shell.model.release("here");
    let ended = shell.told(json!({"action": "wait", "task_id": id})).await["task"].clone();
    assert_eq!(ended["codex_turn_id"], reply["task"]["codex_turn_id"], "no turn of its own");
    let heard = shell.model.wait_for(|request| format!("{request:?}").contains("mention the weather")).await;
    drop(heard);
    shell.tool(json!({"action": "interrupt", "task_id": id})).await;
    shell.end().await;
}

// peer: BR6, T17
#[tokio::test]
async fn an_interrupt_ends_the_task_as_cancelled_once_codex_has_confirmed_it() {
    let shell = Shell::new().await;
    let id = shell.begin("go [play] delta Once upon => stall here => say a time.").await;
    shell.model.wait_for_stall("here").await;
    let reply = shell.told(json!({"action": "interrupt", "task_id": id})).await;
    assert_eq!(
        (&reply["task"]["status"], &reply["result"]["outcome"]),
        (&json!("cancelled"), &json!("interrupted"))
    );
    assert_eq!(reply["task"]["active_connection"], false);
    let events = shell.told(json!({"action": "events", "task_id": id, "limit": 100})).await["events"].clone();
    let ended = events.as_array().unwrap().iter().find(|event| event["kind"] == "turn_ended");
    assert_eq!(ended.unwrap()["outcome"], "interrupted", "{events:#}");

    // A task that has completed stays completed.
    let done = shell.begin("hello [play] say Hello.").await;
    shell.ended(&done).await;
    let (code, _) = shell.refused(json!({"action": "cancel", "task_id": done})).await;
    assert_eq!(code, "wrong_state");
    assert_eq!(shell.told(json!({"action": "status", "task_id": done})).await["task"]["status"], "completed");
    shell.end().await;
}

// peer: BR7, T13
#[tokio::test]
async fn the_end_of_a_task_is_told_once() {
    let shell = Shell::new().await;
    let call = |prompt: &str| json!({"action": "start", "prompt": prompt, "notify_target": "local"});
    let first = shell.told(call("one [play] say One.")).await["task_id"].clone();
    shell.ended(first.as_str().unwrap()).await;
    let second = shell.told(call("two [play] say Two.")).await["task_id"].clone();
    shell.ended(second.as_str().unwrap()).await;

    let told = shell.told(json!({"action": "notify_completed"})).await;
    assert_eq!((&told["processed"], &told["dry_run"]), (&json!(2), &json!(false)));
    let order: Vec<&Value> =
        told["notifications"].as_array().unwrap().iter().map(|it| &it["task_id"]).collect();
    assert_eq!(order, [&first, &second], "the oldest first");
    assert_eq!(
        (&told["notifications"][0]["sent"], &told["notifications"][0]["target"]),
        (&json!(true), &json!("local"))
    );
    assert!(told["notifications"][0]["message"].as_str().unwrap().contains("One."), "{told:#}");

    // Whatever happens to the task meanwhile, it is not told again.
    shell.told(json!({"action": "status", "task_id": first})).await;
    let audit =
        || async { shell.run(&["--json", "audit"]).await.ok().out.matches("notify completed").count() };
    assert_eq!(audit().await, 2, "who had each told is on the record");
    assert_eq!(shell.told(json!({"action": "notify_completed"})).await["processed"], 0);
    assert_eq!(audit().await, 2, "nothing was told");
    let task = shell.told(json!({"action": "status", "task_id": first})).await["task"].clone();
    assert_eq!(task["notification_status"], "sent");
    assert!(task["notified_at"].is_f64());

    // A new turn has a new end.
    shell.told(json!({"action": "continue", "task_id": first, "prompt": "more [play] say More."})).await;
    shell.ended(first.as_str().unwrap()).await;
    assert_eq!(shell.told(json!({"action": "notify_completed"})).await["processed"], 1);
    shell.end().await;
}

// peer: BR8
#[tokio::test]
async fn the_end_of_a_task_that_nobody_wanted_to_know_of_is_marked_and_not_sent() {
    let shell = Shell::new().await;
    let id = shell.begin("hello [play] say Hello.").await;
    shell.ended(&id).await;
    let told = shell.told(json!({"action": "notify_completed"})).await["notifications"][0].clone();
    assert_eq!((&told["notification_status"], &told["sent"]), (&json!("no_target"), &json!(false)));
    let task = shell.told(json!({"action": "status", "task_id": id})).await["task"].clone();
    assert_eq!((&task["notification_status"], &task["notified_at"]), (&json!("no_target"), &Value::Null));
    assert_eq!(shell.told(json!({"action": "notify_completed"})).await["processed"], 0);
    shell.end().await;
}

// peer: BR9
#[tokio::test]
async fn a_rehearsal_tells_nobody_and_marks_nothing() {
    let shell = Shell::new().await;
    let call = json!({"action": "start", "prompt": "hello [play] say Hello.", "notify_target": "local"});
    let id = shell.told(call).await["task_id"].as_str().unwrap().to_owned();
    shell.ended(&id).await;
    let rehearsal = json!({"action": "notify_completed", "dry_run": true});
    for _ in 0..2 {
        let told = shell.told(rehearsal.clone()).await;
        assert_eq!((&told["processed"], &told["dry_run"]), (&json!(1), &json!(true)));
        let notice = &told["notifications"][0];
        assert_eq!((&notice["notification_status"], &notice["sent"]), (&json!("dry_run"), &json!(false)));
    }
    let task = shell.told(json!({"action": "status", "task_id": id})).await["task"].clone();
    assert_eq!((&task["notification_status"], &task["notified_at"]), (&json!("pending"), &Value::Null));
    shell.end().await;
}

// peer: T14
#[tokio::test]
async fn a_target_that_cannot_be_reached_yet_stays_pending() {
    let shell = Shell::new().await;
    // Nobody listens there.
    shell.configure("[channels.down]\ntype = \"webhook\"\nurl = \"http://127.0.0.1:1/in\"\n");
    let call =
        json!({"action": "start", "prompt": "hello [play] say Hello.", "notify_target": "webhook:down"});
    let id = shell.told(call).await["task_id"].as_str().unwrap().to_owned();
    shell.ended(&id).await;
    let notice = shell.told(json!({"action": "notify_completed"})).await["notifications"][0].clone();
    assert_eq!((&notice["notification_status"], &notice["sent"]), (&json!("pending"), &json!(false)));
    shell.deliveries(|all| all.len() == 1 && all[0]["attempts"] == 1).await;
    let notice = shell.told(json!({"action": "notify_completed"})).await["notifications"][0].clone();
    assert_eq!(notice["notification_status"], "pending", "it is told of until it is over");
    assert!(notice["error"].as_str().unwrap().contains("refuses connections"), "{notice:#}");
    shell.end().await;
}

#[tokio::test]
async fn a_task_goes_on_with_what_it_knows_and_can_be_branched() {
    let shell = Shell::new().await;
    let id = shell.begin("the word is heron [play] say Noted.").await;
    shell.ended(&id).await;
    let result = shell.told(json!({"action": "result", "task_id": id})).await;
    assert_eq!((&result["status"], &result["final_text"]), (&json!("completed"), &json!("Noted.")));

    let reply =
        shell.told(json!({"action": "continue", "task_id": id, "prompt": "again [play] say Twice."})).await;
    let thread = reply["task"]["codex_thread_id"].clone();
    assert_eq!(shell.ended(&id).await["final_text"], "Twice.");

    let branch = shell.told(json!({"action": "fork", "task_id": id})).await["task"].clone();
    assert_ne!(branch["task_id"], id.as_str());
    assert_ne!(branch["codex_thread_id"], thread);
    assert_eq!(branch["status"], "paused");
    let go = json!({"action": "continue", "task_id": branch["task_id"], "prompt": "which word? [play] say That one."});
    shell.told(go).await;
    assert_eq!(shell.ended(branch["task_id"].as_str().unwrap()).await["final_text"], "That one.");
    let last = format!("{:?}", shell.model.requests().last().unwrap());
    assert!(last.contains("the word is heron"), "the branch knows what was said before it");
    shell.end().await;
}

#[tokio::test]
async fn the_same_client_request_id_gives_the_same_task() {
    let shell = Shell::new().await;
    let call = json!({"action": "start", "prompt": "hello [play] say Hello.", "client_request_id": "mine-1"});
    let (one, two) = tokio::join!(shell.told(call.clone()), shell.told(call.clone()));
    assert_eq!(one["task_id"], two["task_id"]);
    shell.ended(one["task_id"].as_str().unwrap()).await;
    assert_eq!(shell.told(call).await["task_id"], one["task_id"]);
    assert_eq!(shell.told(json!({"action": "list"})).await["tasks"].as_array().unwrap().len(), 1);
    shell.end().await;
}

#[tokio::test]
async fn a_list_has_the_newest_first_and_keeps_to_its_limit() {
    let shell = Shell::new().await;
    let mut ids = Vec::new();
    for number in 0..3 {
        let id = shell.begin(&format!("{number} [play] say {number}.")).await;
        shell.ended(&id).await;
        ids.insert(0, id);
    }
    let listed = |reply: Value| -> Vec<String> {
        let tasks = reply["tasks"].as_array().unwrap().clone();
        tasks.iter().map(|task| task["task_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(shell.told(json!({"action": "list"})).await), ids);
    assert_eq!(listed(shell.told(json!({"action": "list", "limit": 2})).await), ids[..2]);
    shell.end().await;
}

#[tokio::test]
async fn events_are_read_by_number_without_gaps() {
    let shell = Shell::new().await;
    let id = shell.begin("hello [play] say Hello.").await;
    shell.ended(&id).await;
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let reply = shell.told(json!({"action": "events", "task_id": id, "after": after, "limit": 3})).await;
        let page = reply["events"].as_array().unwrap().clone();
        after = reply["next_after"].as_i64().unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.iter().map(|event| event["seq"].as_i64().unwrap()));
    }
    assert_eq!(seen, (1..=i64::try_from(seen.len()).unwrap()).collect::<Vec<_>>());
    assert!(seen.len() >= 6, "{seen:?}");
    shell.end().await;
}

#[tokio::test]
async fn a_call_comes_from_stdin_too() {
    let shell = Shell::new().await;
    let said = shell.run_with_input(&["tool", "-"], "{\"action\": \"list\"}").await.ok();
    assert_eq!(said.json(), json!({"success": true, "tasks": []}));
    shell.end().await;
}
