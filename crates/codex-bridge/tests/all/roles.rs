//! Who was lent a role can do no more than that, whichever route they take; and who has a token no more than its quota.

use serde_json::{Value, json};

use crate::http_rig::{Answer, Port};
use crate::shell::Shell;

/// How a program says that it lends a role out.
const LENT: &str = "x-codex-bridge-lent";

/// Every route of the API with who may use it, as the document tells it.
fn routes() -> Vec<(String, String, String)> {
    let document: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, told)| {
            let who = told["description"].as_str().unwrap_or_default().to_owned();
            (method.to_uppercase(), path.clone(), who)
        })
    });
    operations.collect()
}

async fn as_lent(port: &Port, role: &str, (method, path): (&str, &str), body: &Value) -> Answer {
    port.local(method, path, body).header(LENT, role).send().await
}

#[tokio::test]
async fn a_lent_role_limits_every_route() {
    let port = Port::new().await;
    port.shell.run(&["ps"]).await.ok();
    let nothing = json!({});
    let mut refused = 0;
    for (method, path, who) in routes() {
        let path = path.replace("{id}", "codex-none").replace("{request}", "-").replace("{name}", "phone");
        let is_owners = who.starts_with("The owner's");
        for role in ["viewer", "operator", "approver", "no such role"] {
            let too_little = match role {
                "operator" => is_owners || who.contains("role approver"),
                "approver" => is_owners,
                _ => is_owners || who.contains("role approver") || who.contains("role operator"),
            };
            if too_little {
                let answer = as_lent(&port, role, (&method, &path), &nothing).await;
                assert_eq!(answer.problem(), (403, "forbidden".into()), "{method} {path} as {role}");
                refused += 1;
            }
        }
    }
    assert!(refused > 70, "{refused}");
    // Nothing of it was done.
    port.local("GET", "/v1/about", &nothing).send().await.ok();
    assert_eq!(port.local("GET", "/v1/tokens", &nothing).send().await.ok().json(), json!([]));
    port.shell.end().await;
}

#[tokio::test]
async fn who_was_lent_a_role_is_an_agent_whatever_they_say() {
    let port = Port::new().await;
    port.configure("[profiles.mine]\napproval_policy = \"never\"\n", "");
    port.shell.run(&["ps"]).await.ok();
    let work = json!({"prompt": "go", "cwd": port.shell.home.workspace(), "door": "cli", "profile": "mine"});
    for role in ["operator", "approver"] {
        let answer = as_lent(&port, role, ("POST", "/v1/tasks"), &work).await;
        assert_eq!(answer.problem(), (422, "profile_refused".into()), "{role}");
    }
    port.shell.end().await;
}

#[tokio::test]
async fn an_agent_approves_only_if_whoever_set_it_up_asked_for_that() {
    let shell = Shell::new().await;
    let (id, request) = shell.start_asking("go [play] exec touch made.txt => say Done.").await;
    let respond = json!({
        "action": "respond", "task_id": id, "request_id": request["request_id"], "decision": "accept",
    });
    let by_tool = shell.run(&["tool", &respond.to_string()]).await.json();
    assert_eq!((&by_tool["success"], &by_tool["code"]), (&json!(false), &json!("forbidden")), "{by_tool:#}");
    assert!(by_tool["hint"].as_str().unwrap().contains("--role approver"), "{by_tool:#}");
    let mut mcp = shell.mcp(json!({"elicitation": {}})).await;
    let refused = mcp.tool("codex_bridge", respond.clone()).await;
    assert_eq!(refused["structuredContent"]["code"], "forbidden", "{refused:#}");
    mcp.end().await;
    assert!(!shell.home.workspace().join("made.txt").exists());

    let mut mcp = shell.mcp_with(&["--role", "approver"], json!({})).await;
    let taken = mcp.tool("codex_bridge", respond).await;
    assert_eq!(taken["structuredContent"]["response"]["decided_by"], "agent", "{taken:#}");
    mcp.end().await;
    let task = shell.run(&["--json", "wait", &id, "--timeout", "30"]).await.ok().json();
    assert_eq!(task["status"], "completed");
    shell.end().await;
}
