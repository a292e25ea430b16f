//! Ids at the doors: people see short ids, programs whole ones, and every door accepts a unique prefix.

use std::process::Command;

use codex_bridge_core::id::short;
use serde_json::{Value, json};

use crate::http_rig::Port;
use crate::shell::until;

const ASKS: &str = "go [play] exec touch made.txt => say Made.";

/// Whether a text has an id in full.
fn has_whole_id(text: &str) -> bool {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '-');
    { words }.any(|word| (word.starts_with("codex-") || word.starts_with("req-")) && word.len() >= 36)
}

#[tokio::test]
async fn people_read_short_ids_programs_whole_ones_and_the_terminal_takes_both() {
    let port = Port::new().await;
    let shell = &port.shell;
    let printed = shell.run(&["run", "-d", "-s", "workspace-write", ASKS]).await.ok().out;
    let id = printed.trim_end();
    assert_eq!((id.len(), short(id).len()), ("codex-".len() + 32, "codex-".len() + 12), "scripts use it");
    let waited = shell.run(&["wait", short(id), "--timeout", "120"]).await;
    assert_eq!(waited.code, 3, "{}{}", waited.out, waited.err);
    let request = shell.run(&["--json", "requests", id]).await.ok().json()[0].clone();
    let name = request["request_id"].as_str().unwrap();
    assert_eq!((request["task_id"].as_str(), name.len()), (Some(id), "req-".len() + 32));
    let mut read = format!("{}{}", waited.out, waited.err);
    for args in [&["ps"][..], &["show", id], &["requests"], &["requests", id], &["audit"]] {
        read += &shell.run(args).await.ok().out;
    }
    for failing in [&["approve", id][..], &["result", id], &["continue", id, "more"], &["release", id]] {
        let said = shell.run(failing).await;
        assert_ne!(said.code, 0, "{failing:?}");
        read += &said.err;
    }
    assert!(read.contains(&format!("codex-bridge approve {} {}\n", short(id), short(name))), "{read}");
    assert!(!has_whole_id(&read), "{read}");
    for path in ["/tasks".to_owned(), format!("/tasks/{}", short(id)), "/approvals".to_owned()] {
        let page = port.local("GET", &path, &Value::Null).send().await.ok().body;
        assert!(
            page.contains(&format!("{}<", short(id))) || page.contains(&format!("{} ·", short(id))),
            "{page}"
        );
        assert!(page.contains(id), "links and forms have the whole id");
    }
    let card = format!("/approvals/{}/{}", short(id), short(name));
    let page = port.local("GET", &card, &Value::Null).send().await.ok().body;
    assert!(page.contains(&format!("action=\"/approvals/{id}/{name}\"")), "{page}");

    for odd in ["req-", "req-%", "%", "REQ-0", &name.to_uppercase(), &format!("{name}0")] {
        for verb in ["approve", "decline"] {
            let said = shell.run(&["--json", verb, id, odd]).await;
            assert_eq!(
                (said.code, &said.failure()["code"]),
                (2, &json!("unknown_request")),
                "{verb} {odd:?}"
            );
        }
    }
    assert_ne!(shell.run(&["decline", id, ""]).await.code, 0, "nothing is named");
    let said = shell.run(&["approve", short(id), short(name)]).await.ok().out;
    assert_eq!(said, format!("{} approved\n", short(name)));
    let ended = shell.run(&["wait", id, "--timeout", "120"]).await.ok().out;
    assert!(ended.ends_with(&format!(" · {}\n", short(id))), "{ended}");
    assert!(shell.home.workspace().join("made.txt").exists());
    port.shell.end().await;
}

#[tokio::test]
async fn a_beginning_of_several_requests_is_refused_at_every_door() {
    let port = Port::new().await;
    let token = port.token("person", "approver").await;
    let (id, request) = port.shell.start_asking(ASKS).await;
    let (name, digest) = (request["request_id"].as_str().unwrap(), &request["digest"]);
    // Another request of the task, whose name begins alike.
    let last = if name.ends_with('0') { '1' } else { '0' };
    let twin = format!("{}{last}", &name[..name.len() - 1]);
    let copy = format!(
        "INSERT INTO requests (request_id, epoch, wire_id, task_id, method, ask, state, digest, created_at) \
         SELECT '{twin}', epoch, '\"twin\"', task_id, method, ask, state, digest, created_at FROM requests"
    );
    let store = port.shell.home.dir().join("st/tasks.db");
    let copied =
        Command::new("sqlite3").arg("-cmd").arg(".timeout 5000").arg(&store).arg(copy).output().unwrap();
    assert!(copied.status.success(), "{copied:?}");

    let path = |name: &str| format!("/v1/tasks/{}/requests/{name}", short(&id));
    let ambiguous = (409, "ambiguous_id".to_owned());
    let yes = json!({ "decision": "accept", "digest": digest });
    let no = json!({ "decision": "decline", "digest": digest });
    assert_eq!(port.get(&path(short(name))).token(&token).send().await.problem(), ambiguous);
    for decision in [&yes, &no] {
        let decide =
            |name: &str| port.post(&format!("{}/decision", path(name)), decision).token(&token).send();
        assert_eq!(decide(short(name)).await.problem(), ambiguous);
        for odd in ["req-", "req-%25", "%25", "%20", "REQ-0"] {
            assert_eq!(decide(odd).await.problem(), (404, "unknown_request".to_owned()), "{odd}");
        }
    }
    for verb in ["approve", "decline"] {
        let said = port.shell.run(&["--json", verb, &id, short(name)]).await;
        assert_eq!((said.code, &said.failure()["code"]), (2, &json!("ambiguous_id")));
    }
    let call = json!({"action": "respond", "task_id": id, "request_id": short(name), "digest": digest});
    let said = port.shell.run(&["tool", "--role", "approver", &call.to_string()]).await;
    assert_eq!(said.json()["code"], "ambiguous_id", "{}", said.out);
    let card = port.local("GET", &format!("/approvals/{id}/{}", short(name)), &Value::Null).send().await;
    assert_eq!(card.status, 409, "{card:?}");
    let open = port.shell.run(&["--json", "requests", &id]).await.ok().json();
    assert_eq!(open.as_array().unwrap().len(), 2, "nothing was decided");

    let decided = port.post(&format!("{}/decision", path(name)), &yes).token(&token).send().await.ok().json();
    assert_eq!((&decided["request_id"], &decided["outcome"]), (&json!(name), &json!("resolved")));
    let made = port.shell.home.workspace().join("made.txt");
    until("the file", || made.exists().then_some(())).await;
    port.shell.end().await;
}
