//! Authentication on the TCP port, and what each role may do.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codex_bridge_core::seal::Key;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::http_rig::{Call, Port};
use crate::shell::until;

/// Every form of the page, and the least role that may send it.
const FORMS: [(&str, &str); 7] = [
    ("/tasks", "operator"),
    ("/tasks/x/steer", "operator"),
    ("/tasks/x/interrupt", "operator"),
    ("/tasks/x/continue", "operator"),
    ("/tasks/x/fork", "operator"),
    ("/deliveries/x/retry", "operator"),
    ("/approvals/x/y", "approver"),
];

/// Every route of the API as its description has it: method, path, and the least role that may use it.
fn described() -> Vec<(String, String, &'static str)> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut routes = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let named = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let named: Vec<_> = named.collect();
        for (method, operation) in operations.as_object().unwrap() {
            let says = operation["description"].as_str().unwrap();
            let least = match says {
                "Needs no token." => "nobody",
                "For the owner only, on the socket." => "owner",
                role => {
                    let role = role.strip_prefix("Needs the role ").and_then(|role| role.strip_suffix('.'));
                    LADDER.into_iter().find(|known| role == Some(known)).expect(says)
                }
            };
            assert_eq!(operation.get("security").is_some(), least == "nobody", "{method} {path}");
            routes.push((method.to_uppercase(), named.join("/"), least));
        }
    }
    routes
}

const LADDER: [&str; 5] = ["nobody", "viewer", "operator", "approver", "owner"];

fn rank(role: &str) -> usize {
    LADDER.iter().position(|known| *known == role).unwrap()
}

/// One token of each role.
async fn tokens(port: &Port) -> Vec<(&'static str, String)> {
    let mut tokens = Vec::new();
    for role in &LADDER[1..4] {
        tokens.push((*role, port.token(role, role).await));
    }
    tokens
}

#[tokio::test]
async fn each_route_is_for_its_role_and_those_above() {
    let port = Port::new().await;
    let tokens = tokens(&port).await;
    let routes = described();
    assert!(routes.len() > 40, "{routes:#?}");
    for (method, path, least) in routes {
        let call = || if method == "POST" { port.post(&path, &json!({})) } else { port.call(&method, &path) };
        if least == "nobody" {
            assert_eq!(call().send().await.ok().json(), json!({"ok": true}), "{path}");
            continue;
        }
        assert_eq!(call().send().await.problem(), (401, "unauthorized".into()), "{method} {path} by nobody");
        for (role, token) in &tokens {
            // Some answers never end: their beginning says enough.
            let status = call().token(token).open().await.status().as_u16();
            let is_refused = status == 403;
            assert_eq!(is_refused, rank(role) < rank(least), "{method} {path} by a {role}: {status}");
            assert_ne!(status, 401, "{method} {path} by a {role}");
        }
    }
    port.shell.end().await;
}

fn form(port: &Port, path: &str, fields: impl Into<String>) -> Call {
    let call = port.call("POST", path).header("content-type", "application/x-www-form-urlencoded");
    call.body(fields)
}

#[tokio::test]
async fn each_form_of_the_page_is_for_its_role_and_those_above() {
    let port = Port::new().await;
    let tokens = tokens(&port).await;
    for (path, least) in FORMS {
        let send = || form(&port, path, "prompt=look&text=look&decision=accept");
        assert_eq!(send().send().await.problem(), (401, "unauthorized".into()), "{path} by nobody");
        for (role, token) in &tokens {
            let status = send().token(token).send().await.status;
            assert_eq!(status == 403, rank(role) < rank(least), "{path} by a {role}: {status}");
        }
    }
    port.shell.end().await;
}

#[tokio::test]
async fn what_is_too_large_is_called_so_at_every_door() {
    let port = Port::new().await;
    let token = port.token("phone", "approver").await;
    let large = "x".repeat(4 * 1024 * 1024 + 1);
    // Nobody in particular sends a login: little is taken of it.
    let login = login(&port, &large[..20_000]).send().await;
    assert_eq!(login.problem(), (413, "too_large".into()));
    let page = form(&port, "/tasks", format!("prompt={large}")).token(&token).send().await;
    assert!(page.status == 413 && page.header("content-type").starts_with("text/html"), "{page:?}");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": large}});
    let call = port.post("/mcp", &call).token(&token).header("accept", "application/json, text/event-stream");
    assert_eq!(call.send().await.problem(), (413, "too_large".into()));
    port.shell.end().await;
}

#[tokio::test]
async fn a_revoked_token_is_let_go_wherever_it_still_listens() {
    let port = Port::new().await;
    let (token, other) = (port.token("phone", "operator").await, port.token("laptop", "viewer").await);
    let id = port.start(&token, "go [play] delta Once => and stall here => and say upon a time.").await;
    port.shell.model.wait_for_stall("here").await;
    let mut news = port.get("/v1/events").token(&token).events().await;
    let mut kept = port.get("/v1/events").token(&other).events().await;
    let mut log = port.get(&format!("/v1/tasks/{id}/events")).token(&token).events().await;
    log.until("the turn", |event| event.name == "turn_started").await;
    news.next().await.expect("the beginning");
    let waiting = port.get(&format!("/v1/tasks/{id}/wait?timeout_s=300")).token(&token).send();
    // The wait is sent first, and much sooner than a command line can be started.
    let revoke = port.shell.run(&["token", "revoke", "phone"]);
    let (waited, revoked) = tokio::join!(waiting, revoke);
    revoked.ok();
    assert_eq!(waited.problem(), (401, "unauthorized".into()));
    while log.next().await.is_some() {}
    while news.next().await.is_some() {}
    // The task goes on, and so does whoever else listens.
    port.shell.model.release("here");
    kept.until("the end", |event| event.data["status"] == "completed").await;
    port.shell.end().await;
}

/// A message to a session of the MCP server.
fn in_session(port: &Port, method: &str, session: &str, token: &str) -> Call {
    let call = match method {
        "POST" => port.post("/mcp", &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})),
        _ => port.call(method, "/mcp"),
    };
    let accept = if method == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
    let call = call.token(token).header("accept", accept).header("mcp-protocol-version", "2025-06-18");
    call.header("mcp-session-id", session)
}

#[tokio::test]
async fn a_session_of_the_mcp_server_is_its_owners_alone() {
    let port = Port::new().await;
    let (owner, other) = (port.token("boss", "approver").await, port.token("guest", "viewer").await);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let hello =
        port.post("/mcp", &hello).token(&owner).header("accept", "application/json, text/event-stream");
    let session = hello.send().await.ok().header("mcp-session-id").to_owned();
    assert!(!session.is_empty());
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(in_session(&port, "POST", &session, &owner).body(ready).send().await.status, 202);
    for method in ["POST", "GET", "DELETE"] {
        let refused = in_session(&port, method, &session, &other).send().await;
        assert_eq!(refused.problem(), (404, "unknown_session".into()), "{method}");
    }
    let answer =
        json!({"jsonrpc": "2.0", "id": 0, "result": {"action": "accept", "content": {}}}).to_string();
    let refused = in_session(&port, "POST", &session, &other).body(answer).send().await;
    assert_eq!(refused.problem(), (404, "unknown_session".into()));
    let tools = in_session(&port, "POST", &session, &owner).send().await.ok();
    assert!(tools.body.contains("inputSchema"), "{tools:?}");
    // What is open of it ends with the token, and a later token of the same name does not get it.
    let mut listening = in_session(&port, "GET", &session, &owner).open().await.into_body();
    port.shell.run(&["token", "revoke", "boss"]).await.ok();
    let over = async { while listening.frame().await.is_some_and(|frame| frame.is_ok()) {} };
    tokio::time::timeout(crate::shell::PATIENCE, over).await.expect("the stream ends");
    let namesake = port.token("boss", "approver").await;
    assert_eq!(in_session(&port, "POST", &session, &namesake).send().await.status, 404);
    port.shell.end().await;
}

#[tokio::test]
async fn an_operator_hands_over_work_that_only_an_approver_can_approve() {
    let port = Port::new().await;
    let (agent, person) = (port.token("agent", "operator").await, port.token("phone", "approver").await);
    let id = port.start(&agent, "go [play] exec touch made.txt => say Done.").await;
    let task = port.wait(&agent, &id).await;
    assert_eq!(task["status"], "waiting_for_approval", "{task:#}");
    let request = task["pending_requests"][0]["request_id"].as_str().unwrap();
    let decision = format!("/v1/tasks/{id}/requests/{request}/decision");
    let digest = &task["pending_requests"][0]["digest"];
    let accept = json!({"decision": "accept", "digest": digest});
    let refused = port.post(&decision, &accept).token(&agent).send().await;
    assert_eq!(refused.problem(), (403, "forbidden".into()));
    let by_tool = json!({"call": {"action": "respond", "task_id": id, "request_id": request, "digest": task["pending_requests"][0]["digest"], "decision": "accept"}});
    let refused = port.post("/v1/tool", &by_tool).token(&agent).send().await.ok().json();
    assert_eq!((&refused["success"], &refused["code"]), (&json!(false), &json!("forbidden")));
    assert!(!port.shell.home.workspace().join("made.txt").exists());

    // Whoever answers for others says what these were shown.
    let nameless = format!("/v1/tasks/{id}/requests/-/decision");
    for (path, body, status, code) in [
        (&decision, json!({"decision": "accept"}), 400, "digest_missing"),
        (&decision, json!({"decision": "decline"}), 400, "digest_missing"),
        (&nameless, accept.clone(), 400, "digest_missing"),
        (&decision, json!({"decision": "accept", "digest": "0123456789abcdef"}), 409, "digest_mismatch"),
    ] {
        let refused = port.post(path, &body).token(&person).send().await;
        assert_eq!(refused.problem(), (status, code.into()), "{path} {body}");
    }
    let taken = port.post(&decision, &accept).token(&person).send().await.ok().json();
    assert_eq!((&taken["outcome"], &taken["decided_by"]), (&json!("resolved"), &json!("token phone")));
    let no = json!({"decision": "decline", "digest": digest});
    let late = port.post(&decision, &no).token(&person).send().await;
    assert_eq!(late.problem(), (409, "already_resolved".into()));
    assert!(late.json()["detail"].as_str().unwrap().ends_with("approved, by token phone"), "{late:?}");
    let shown =
        port.get(&format!("/v1/tasks/{id}/requests/{request}")).token(&agent).send().await.ok().json();
    assert_eq!(
        (&shown["state"], &shown["decided_by"]),
        (&json!("resolved"), &json!("token phone")),
        "{shown:#}"
    );
    assert_eq!(port.wait(&agent, &id).await["status"], "completed");
    assert!(port.shell.home.workspace().join("made.txt").exists());
    port.shell.end().await;
}

#[tokio::test]
async fn bad_tokens_are_counted_and_good_ones_still_let_in() {
    let port = Port::new().await;
    let good = port.token("phone", "viewer").await;
    let bad = |number: usize| port.get("/v1/tasks").token(&format!("cbt_{number}")).send();
    for number in 0..10 {
        assert_eq!(bad(number).await.problem(), (401, "unauthorized".into()), "{number}");
    }
    let refused = bad(10).await;
    assert_eq!(refused.problem(), (429, "too_many_tries".into()));
    assert_eq!(refused.header("retry-after"), "60");
    port.get("/v1/tasks").token(&good).send().await.ok();
    // Nor can the login be used for more.
    let login = port.call("POST", "/login").header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(login.body("token=cbt_nothing").send().await.status, 429);
    port.shell.end().await;
}

#[tokio::test]
async fn other_names_and_other_pages_are_refused() {
    let port = Port::new().await;
    port.configure("", "allowed_hosts = [\"bridge.example.org\"]\n");
    let token = port.token("phone", "operator").await;
    let tasks = || port.get("/v1/tasks").token(&token);
    // A name that was made to lead to this address, as DNS rebinding does.
    for host in ["evil.example", &format!("evil.example:{}", port.number), "localhost", "localhost:1"] {
        assert_eq!(tasks().header("host", host).send().await.problem(), (421, "bad_host".into()), "{host}");
    }
    for host in [format!("127.0.0.1:{}", port.number), "bridge.example.org".into()] {
        tasks().header("host", &host).send().await.ok();
    }
    for origin in ["http://evil.example", "null", "https://localhost"] {
        assert_eq!(
            tasks().header("origin", origin).send().await.problem(),
            (403, "bad_origin".into()),
            "{origin}"
        );
    }
    tasks().header("origin", &format!("http://localhost:{}", port.number)).send().await.ok();
    // Not even what needs no token.
    assert_eq!(port.get("/healthz").header("host", "evil.example").send().await.status, 421);
    port.shell.end().await;
}

fn login(port: &Port, token: &str) -> Call {
    let call = port.call("POST", "/login").header("content-type", "application/x-www-form-urlencoded");
    call.body(format!("token={token}"))
}

async fn cookie_of(port: &Port, token: &str) -> String {
    let answer = login(port, token).send().await;
    assert_eq!((answer.status, answer.header("location")), (303, "/"), "{answer:?}");
    let cookie = answer.header("set-cookie");
    for part in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Max-Age=2592000"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(token), "the token itself is not in it");
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_cookie_stands_for_its_token_until_that_is_revoked() {
    let port = Port::new().await;
    let token = port.token("phone", "operator").await;
    let cookie = cookie_of(&port, &token).await;
    let own = format!("http://localhost:{}", port.number);
    let list = || port.get("/v1/tasks").header("cookie", &cookie);
    list().send().await.ok();
    // A page of another site can make a browser send the cookie, but not hide where it is from.
    let change = || port.post("/v1/tasks/none/interrupt", &json!({})).header("cookie", &cookie);
    assert_eq!(change().send().await.problem(), (403, "bad_origin".into()));
    assert_eq!(change().header("origin", "http://evil.example").send().await.problem().0, 403);
    assert_eq!(change().header("sec-fetch-site", "cross-site").send().await.problem().0, 403);
    // Nor does the cookie change anything alone: the tab shows what only its log-in was told.
    assert_eq!(change().header("origin", &own).send().await.problem(), (403, "tab_locked".into()));
    let entered = login(&port, &token).header("accept", "application/json").send().await.ok();
    let secret = entered.json()["tab"].as_str().unwrap().to_owned();
    let change = || change().header("x-codex-bridge-tab", &secret);
    assert_eq!(change().send().await.problem(), (403, "bad_origin".into()));
    assert_eq!(change().header("origin", &own).send().await.problem().1, "unknown_task");
    assert_eq!(change().header("sec-fetch-site", "same-origin").send().await.problem().1, "unknown_task");
    let alone = port.post("/v1/tasks/none/interrupt", &json!({})).header("x-codex-bridge-tab", &secret);
    assert_eq!(alone.header("origin", &own).send().await.problem(), (401, "unauthorized".into()));
    // The daemon restarts, the cookie stays.
    port.shell.run(&["stop"]).await.ok();
    port.shell.run(&["ps"]).await.ok();
    list().send().await.ok();
    // A changed one is none.
    let forged = format!("{}AAAA", &cookie[..cookie.len() - 4]);
    assert_eq!(port.get("/v1/tasks").header("cookie", &forged).send().await.problem().0, 401);
    // Who opens a page without one is led to the login; who logs out loses it.
    let page = port.get("/tasks").header("accept", "text/html").send().await;
    assert_eq!((page.status, page.header("location")), (303, "/login"));
    let out = port.call("POST", "/logout").header("cookie", &cookie).header("origin", &own).send().await;
    assert!(out.header("set-cookie").contains("Max-Age=0"), "{out:?}");
    // Revoked, the token and all its cookies are worth nothing, and a new one of its name does not revive them.
    port.shell.run(&["token", "revoke", "phone"]).await.ok();
    assert_eq!(list().send().await.problem(), (401, "unauthorized".into()));
    assert_eq!(port.get("/v1/tasks").token(&token).send().await.problem(), (401, "unauthorized".into()));
    assert_eq!(login(&port, &token).send().await.status, 401);
    port.token("phone", "operator").await;
    assert_eq!(list().send().await.problem(), (401, "unauthorized".into()));
    port.shell.end().await;
}

/// What Codex runs may read every file here, the key and the hashes of tokens among them.
#[tokio::test]
async fn a_cookie_cannot_be_made_from_what_lies_in_files() {
    let port = Port::new().await;
    let token = port.token("phone", "approver").await;
    let key = Key::load_or_create(&port.shell.home.dir().join("st/seal.key")).unwrap();
    let expires_at = jiff::Timestamp::now().as_millisecond() + 60_000;
    let hash = Sha256::digest(token.as_bytes()).to_vec();
    let send = async |note: Value| {
        let sealed = key.seal(note.to_string().as_bytes(), "session cookie").unwrap();
        let cookie = format!("codex_bridge_session={}", URL_SAFE_NO_PAD.encode(sealed));
        port.get("/v1/tasks").header("cookie", &cookie).send().await
    };
    let hash_text = URL_SAFE_NO_PAD.encode(&hash);
    for forged in [
        json!({ "token": "phone", "hash": hash, "expires_at": expires_at }),
        json!({ "secret": hash_text, "expires_at": expires_at }),
        json!({ "secret": format!("cbt_{hash_text}"), "token": "phone", "expires_at": expires_at }),
        json!({ "secret": "", "expires_at": expires_at }),
        json!({ "secret": token, "expires_at": 1 }),
    ] {
        assert_eq!(send(forged.clone()).await.problem(), (401, "unauthorized".into()), "{forged}");
    }
    // It was not the seal that was wrong.
    send(json!({ "secret": token, "expires_at": expires_at })).await.ok();
    port.shell.end().await;
}

#[tokio::test]
async fn tokens_are_shown_once_and_lie_nowhere_in_clear() {
    let port = Port::new().await;
    let token = port.token("phone", "viewer").await;
    assert!(token.starts_with("cbt_") && token.len() == 47, "{token}");
    port.get("/v1/tasks").token(&token).send().await.ok();
    let list = || async { port.shell.run(&["--json", "token", "list"]).await.ok().json() };
    let listed = list().await;
    assert_eq!((&listed[0]["name"], &listed[0]["role"]), (&json!("phone"), &json!("viewer")));
    let again = port.shell.run(&["--json", "token", "create", "phone", "--role", "viewer"]).await;
    assert_eq!((again.code, &again.failure()["code"]), (2, &json!("token_exists")));
    let bad = port.shell.run(&["--json", "token", "create", "a b", "--role", "viewer"]).await;
    assert_eq!((bad.code, &bad.failure()["code"]), (2, &json!("bad_name")));
    let none = port.shell.run(&["--json", "token", "revoke", "nobody"]).await;
    assert_eq!((none.code, &none.failure()["code"]), (2, &json!("unknown_token")));
    let role = port.shell.run(&["token", "create", "x", "--role", "root"]).await;
    assert!(role.code == 2 && role.err.contains("viewer, operator or approver"), "{}", role.err);
    let state = port.shell.home.dir().join("st");
    let holds_token = |path: &std::path::Path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(token.len()).any(|window| window == token.as_bytes())
    };
    let files = until("the database", || {
        let files: Vec<_> = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.iter().any(|file| file.ends_with("tasks.db")).then_some(files)
    });
    for file in files.await {
        assert!(!holds_token(&file), "{}", file.display());
    }
    port.shell.end().await;
}

#[tokio::test]
async fn beyond_this_machine_there_must_be_a_proxy() {
    let port = Port::new().await;
    for address in ["0.0.0.0:0", "[::]:0"] {
        let said = port.shell.run(&["--json", "serve", "--listen", address]).await;
        assert_eq!(
            (said.code, &said.failure()["code"]),
            (2, &json!("listen_beyond_loopback")),
            "{}",
            said.err
        );
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = port.shell.run(&["--json", "serve", "--listen", &address]).await;
    assert_eq!(said.failure()["code"], "listen", "{}", said.err);
    port.shell.home.assert_no_processes().await;
}

/// The code of a remote start's refusal.
async fn refused(port: &Port, token: &str, more: Value) -> String {
    let mut body = json!({"prompt": "look"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    port.post("/v1/tasks", &body).token(token).send().await.problem().1
}

#[tokio::test]
async fn remote_work_is_done_in_the_roots_alone() {
    let port = Port::new().await;
    let workspace = port.shell.home.workspace();
    std::os::unix::fs::symlink("/etc", workspace.join("out")).unwrap();
    let token = port.token("agent", "operator").await;
    let code = |more: Value| refused(&port, &token, more);
    let within = |name: &str| workspace.join(name).to_string_lossy().into_owned();
    assert_eq!(code(json!({})).await, "bad_cwd");
    assert_eq!(code(json!({"caller_cwd": workspace})).await, "bad_cwd", "the directory must be named");
    assert_eq!(code(json!({"cwd": "src"})).await, "bad_cwd");
    assert_eq!(code(json!({"cwd": within("none")})).await, "bad_cwd");
    assert_eq!(code(json!({"cwd": "/etc"})).await, "cwd_outside_roots");
    assert_eq!(
        code(json!({"cwd": "/no/such/place"})).await,
        "cwd_outside_roots",
        "and nothing is told of it"
    );
    assert_eq!(code(json!({"cwd": within("../..")})).await, "cwd_outside_roots");
    assert_eq!(code(json!({"cwd": within("out")})).await, "cwd_outside_roots", "a link out of it");
    // Whoever comes by the port is remote, whatever they say.
    assert_eq!(code(json!({"cwd": "/etc", "door": "cli"})).await, "cwd_outside_roots");
    let by_tool = json!({"call": {"action": "start", "prompt": "look"}, "caller_cwd": workspace});
    let reply = port.post("/v1/tool", &by_tool).token(&token).send().await.ok().json();
    assert_eq!(reply["code"], "bad_cwd", "{reply:#}");
    // Without roots there is nowhere to work.
    port.shell.run(&["stop"]).await.ok();
    port.configure("", "");
    port.shell.run(&["ps"]).await.ok();
    assert_eq!(code(json!({"cwd": workspace})).await, "no_roots");
    port.shell.end().await;
}

#[tokio::test]
async fn an_operator_goes_on_only_with_tasks_that_it_could_have_begun() {
    let port = Port::new().await;
    let workspace = port.shell.home.workspace();
    let open = "[profiles.open]\nsandbox = \"danger-full-access\"\napproval_policy = \"never\"\n";
    port.configure(&format!("roots = [\"{}\"]\n", workspace.display()), open);
    let id = port
        .shell
        .run(&["--json", "run", "-d", "--profile", "open", "look [play] say Seen."])
        .await
        .ok()
        .json()["task_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let agent = port.token("agent", "operator").await;
    port.wait(&agent, &id).await;
    let turn = json!({"prompt": "escape [play] exec touch escaped => say Out."});
    for (path, body) in
        [("turns", turn.clone()), ("steer", json!({"text": "escape"})), ("fork", turn.clone())]
    {
        let refused =
            port.post(&format!("/v1/tasks/{id}/{path}"), &body).token(&agent).send().await.problem();
        assert_eq!(refused, (403, "beyond_reach".to_owned()), "{path}");
    }
    for action in ["continue", "steer", "fork"] {
        let call = json!({"action": action, "task_id": id, "prompt": "escape", "instruction": "escape"});
        let reply = port.post("/v1/tool", &json!({ "call": call })).token(&agent).send().await.ok().json();
        assert_eq!(reply["code"], "beyond_reach", "{action}: {reply:#}");
    }
    // Whoever may say yes to anything may go on with anything.
    let boss = port.token("boss", "approver").await;
    port.post(&format!("/v1/tasks/{id}/turns"), &turn).token(&boss).send().await.ok();
    assert_eq!(port.wait(&boss, &id).await["status"], "completed");
    assert!(workspace.join("escaped").exists());
    port.shell.end().await;
}
