//! Pins the names of the tool's parameters and reply fields, because agents rely on them.

use std::collections::BTreeSet;

use scripted_model::Scenario;
use serde_json::{Value, json};

use crate::shell::Shell;

/// The paths of all names in a reply; entries of lists are taken together.
fn names(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}{name}");
                found.insert(path.clone());
                names(value, &format!("{path}."), found);
            }
        }
        Value::Array(entries) => {
            let path = format!("{}[].", path.trim_end_matches('.'));
            for entry in entries {
                names(entry, &path, found);
            }
        }
        _ => {}
    }
}

/// What is told once and for all of a task need not be told again in every reply.
fn golden(replies: &[(&str, Value)]) -> String {
    let mut lines = Vec::new();
    let mut of_tasks = BTreeSet::new();
    for (action, reply) in replies {
        let mut found = BTreeSet::new();
        names(reply, "", &mut found);
        lines.push(format!("{action}:"));
        for name in found {
            match name.split_once("task.").or_else(|| name.split_once("tasks[].")) {
                Some(("", of_task)) => drop(of_tasks.insert(format!("  {of_task}"))),
                // What an event holds depends on its kind.
                _ if name.starts_with("events[].")
                    && !["seq", "kind", "created_at"].contains(&&name[9..]) => {}
                _ => lines.push(format!("  {name}")),
            }
        }
    }
    lines.push("task, of any reply:".to_owned());
    lines.extend(of_tasks);
    lines.join("\n")
}

#[tokio::test]
async fn the_names_in_replies_are_the_known_ones() {
    let shell = Shell::new().await;
    shell.model.script("be brief", Scenario::new().stall("still here").say("brief"));
    let mut replies = Vec::new();
    let prompt = "go [play] exec touch made.txt => delta Once => stall here => say upon a time.";
    let start = shell.told(json!({"action": "start", "prompt": prompt, "notify_target": "local"})).await;
    let id = start["task_id"].as_str().unwrap().to_owned();
    replies.push(("start", start));
    let on_task = |action: &str| json!({"action": action, "task_id": id});
    let wait = shell.told(on_task("wait")).await;
    let request = wait["task"]["pending_requests"][0]["request_id"].clone();
    replies.push(("wait", wait));
    replies.push(("status", shell.told(on_task("status")).await));
    let respond = json!({"action": "respond", "task_id": id, "request_id": request});
    replies.push(("respond", shell.told(respond).await));
    shell.model.wait_for_stall("here").await;
    let steer = json!({"action": "steer", "task_id": id, "instruction": "be brief"});
    replies.push(("steer", shell.told(steer).await));
    // The steer made the model begin anew: the turn runs until it is stopped.
    shell.model.wait_for_stall("still here").await;
    replies.push(("interrupt", shell.told(on_task("interrupt")).await));
    replies.push(("result", shell.told(on_task("result")).await));
    replies.push(("list", shell.told(json!({"action": "list"})).await));
    replies.push(("events", shell.told(on_task("events")).await));
    replies.push(("notify_completed", shell.told(json!({"action": "notify_completed"})).await));
    let more = json!({"action": "continue", "task_id": id, "prompt": "more [play] say More."});
    replies.push(("continue", shell.told(more).await));
    shell.ended(&id).await;
    replies.push(("fork", shell.told(on_task("fork")).await));
    replies.push(("a refusal", shell.tool(json!({"action": "status"})).await));
    insta::assert_snapshot!(golden(&replies));
    shell.end().await;
}

// peer: BR10, T38
#[tokio::test]
async fn the_schema_offers_what_is_safe_and_nothing_more() {
    let shell = Shell::new().await;
    let text = shell.run(&["tool", "--schema"]).await.ok().out;
    let schema: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(schema["name"], "codex_bridge");
    assert!(!text.contains("danger-full-access") && !text.contains("\"never\""), "{text}");
    let parameters = &schema["parameters"]["properties"];
    assert!(parameters["action"].to_string().contains("notify_completed"));
    assert!(parameters["notify_target"].is_object());
    insta::assert_snapshot!(text);
    shell.home.assert_no_processes().await;
}
