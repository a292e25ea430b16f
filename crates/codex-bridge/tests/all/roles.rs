//! A delegated role limits its caller on every route, and a token is limited by its quota.

use serde_json::{Value, json};

use crate::http_rig::{Answer, Port};
use crate::mcp_rig::MODERN;
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
        let is_owners = who.starts_with("For the owner only");
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
        "action": "respond", "task_id": id, "request_id": request["request_id"], "digest": request["digest"],
        "decision": "accept",
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
    let task = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await.ok().json();
    assert_eq!(task["status"], "completed");
    shell.end().await;
}

/// A call by each door that hands something over, with a prompt: to a task at rest, and to one that runs.
async fn handed_over(
    port: &Port,
    token: &str,
    rest: &str,
    running: &str,
    prompt: &str,
) -> Vec<(u16, String)> {
    let calls = [
        ("/v1/tasks".to_owned(), port.work(prompt)),
        (format!("/v1/tasks/{rest}/turns"), json!({"prompt": prompt})),
        (format!("/v1/tasks/{rest}/fork"), json!({"prompt": prompt})),
        (format!("/v1/tasks/{running}/steer"), json!({"text": prompt})),
    ];
    let mut told = Vec::new();
    for (path, body) in calls {
        let answer = port.post(&path, &body).token(token).send().await;
        told.push(if answer.status == 200 { (200, String::new()) } else { answer.problem() });
    }
    let cwd = port.shell.home.workspace();
    let start = json!({"action": "start", "prompt": prompt, "cwd": cwd});
    let by_tool = port.post("/v1/tool", &json!({"call": start})).token(token).send().await.ok().json();
    told.push((200, by_tool["code"].as_str().unwrap_or_default().to_owned()));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "codex", "arguments": {"prompt": prompt, "cwd": cwd},
        "_meta": {"io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}},
    }});
    let by_mcp =
        port.post("/mcp", &call).token(token).header("accept", "application/json, text/event-stream");
    let by_mcp = by_mcp.header("mcp-protocol-version", MODERN).header("mcp-method", "tools/call");
    let answer = by_mcp.header("mcp-name", "codex").send().await;
    let code = ["quota_open_tasks", "quota_bytes", "prompt_too_long"]
        .into_iter()
        .find(|code| answer.body.contains(&format!("\"code\":\"{code}\"")));
    told.push((answer.status, code.unwrap_or(&answer.body).to_owned()));
    told
}

#[tokio::test]
async fn every_door_keeps_to_the_quota_of_a_token_and_to_the_length_of_prompts() {
    let port = Port::new().await;
    let workspace = port.shell.home.workspace();
    port.configure(&format!("prompt_limit_bytes = 2000\nroots = [\"{}\"]\n", workspace.display()), "");
    let made = ["--json", "token", "create", "ci", "--role", "operator", "--max-open-tasks", "1"];
    let made = port.shell.run(&[&made[..], &["--max-bytes", "4000"]].concat()).await.ok().json();
    let token = made["token"].as_str().unwrap();
    let rest = port.start(token, "root [play] say Root.").await;
    port.wait(token, &rest).await;
    let running = port.start(token, "go [play] exec touch made.txt => say Done.").await;
    port.wait(token, &running).await;

    let full = handed_over(&port, token, &rest, &running, "more").await;
    let refused = |code: &str| (429, code.to_owned());
    assert_eq!(full[..3], [(); 3].map(|()| refused("quota_open_tasks")), "{full:?}");
    assert_eq!(
        (full[4].1.as_str(), full[5].1.as_str()),
        ("quota_open_tasks", "quota_open_tasks"),
        "{full:?}"
    );
    let raise =
        port.shell.run(&["--json", "token", "quota", "ci", "--max-open-tasks", "5"]).await.ok().json();
    assert_eq!((&raise["open_tasks"], &raise["max_open_tasks"]), (&json!(1), &json!(5)), "{raise:#}");

    let much = "x".repeat(1999);
    let full = handed_over(&port, token, &rest, &running, &much).await;
    assert_eq!(full[..4], [(); 4].map(|()| refused("quota_bytes")), "{full:?}");
    assert_eq!((full[4].1.as_str(), full[5].1.as_str()), ("quota_bytes", "quota_bytes"), "{full:?}");

    let long = handed_over(&port, token, &rest, &running, &format!("{much}xy")).await;
    assert_eq!(long[..4], [(); 4].map(|()| (413, "prompt_too_long".to_owned())), "{long:?}");
    assert_eq!((long[4].1.as_str(), long[5].1.as_str()), ("prompt_too_long", "prompt_too_long"), "{long:?}");
    let told = port.post("/v1/tasks", &port.work(&format!("{much}xy"))).token(token).send().await.json();
    assert!(told["detail"].as_str().unwrap().contains("2001 bytes, and may have 2000"), "{told:#}");
    let by_owner = port.shell.run(&["--json", "run", "-d", &format!("{much}xy")]).await;
    assert_eq!(by_owner.failure()["code"], "prompt_too_long", "{}", by_owner.err);
    let listed = port.shell.run(&["token", "list"]).await.ok().out;
    assert!(listed.contains("1 of 5 open tasks") && listed.contains("of 4000 bytes"), "{listed}");
    // The owner has no quota.
    port.shell.run(&["--json", "run", "-d", "root [play] say Root."]).await.ok();
    port.shell.end().await;
}
