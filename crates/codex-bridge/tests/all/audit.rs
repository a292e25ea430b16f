//! The audit log: a person can read later who decided and ordered what.

use codex_bridge_core::id::short;
use serde_json::json;

use crate::shell::Shell;

#[tokio::test]
async fn who_decided_what_can_be_read_afterwards() {
    let shell = Shell::new().await;
    let (id, request) = shell.start_asking("go [play] exec touch made.txt => say Very well.").await;
    let before = shell.run(&["--json", "audit", &id]).await.ok().json();
    assert!(!before.to_string().contains("decide"), "{before:#}");
    shell.run(&["decline", &id]).await.ok();
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();

    let all = shell.run(&["--json", "audit", &id[..12], "--since", "1h"]).await.ok().json();
    let decided = all.as_array().unwrap().last().unwrap();
    assert_eq!(decided["action"], "decide decline", "{all:#}");
    assert_eq!((&decided["by"], &decided["task_id"]), (&json!("local user"), &json!(id)));
    let detail = decided["detail"].as_str().unwrap();
    assert!(detail.contains(request["request_id"].as_str().unwrap()), "{detail}");
    assert!(decided["at"].as_str().unwrap().ends_with('Z'), "{decided}");

    let last = shell.run(&["--json", "audit", "-n", "1"]).await.ok().json();
    assert_eq!(last, json!([decided]), "the newest");
    let later = shell.run(&["--json", "audit", "--since", "2999-01-01T00:00:00Z"]).await.ok().json();
    assert_eq!(later, json!([]));
    let words = shell.run(&["audit"]).await.ok().out;
    let line = words.lines().last().unwrap();
    assert!(
        line.contains("local user") && line.contains("decide decline") && line.contains(short(&id)),
        "{words}"
    );

    shell.run(&["gc"]).await.ok();
    let copy = shell.home.dir().join("copy.sqlite3");
    shell.run(&["store", "backup", copy.to_str().unwrap()]).await.ok();
    let last = shell.run(&["--json", "audit", "-n", "2"]).await.ok().json();
    let actions = [&last[0]["action"], &last[1]["action"]];
    assert_eq!(actions, [&json!("forget old tasks"), &json!("back up store")], "{last:#}");

    let wrong = shell.run(&["--json", "audit", "--since", "yesterday"]).await;
    assert_eq!((wrong.code, &wrong.failure()["code"]), (2, &json!("usage")));
    shell.end().await;
}
