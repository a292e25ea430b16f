//! The same condition has the same code, status and sentence at every door: CLI, HTTP, page, tool and MCP.

use serde_json::{Value, json};

use crate::http_rig::{Answer, Port};
use crate::mcp_rig::Mcp;
use crate::shell::Said;

/// What every door says of a condition: its code, its HTTP status and its exit code.
struct Condition {
    code: &'static str,
    status: u16,
    exit: i32,
}

/// One door's answer: its name, the code and the sentence. The page shows no code, but its whole text.
type Told = (&'static str, String, String);

fn told(door: &'static str, code: &Value, sentence: &Value) -> Told {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{door}: {value}")).to_owned();
    (door, text(code), text(sentence))
}

impl Condition {
    fn cli(&self, said: &Said) -> Told {
        assert_eq!(said.code, self.exit, "{}{}", said.out, said.err);
        let failure = said.failure();
        told("cli", &failure["code"], &failure["message"])
    }

    fn http(&self, answer: &Answer) -> Told {
        assert_eq!(answer.problem().0, self.status);
        let problem = answer.json();
        told("http", &problem["code"], &problem["detail"])
    }

    fn page(&self, answer: &Answer) -> Told {
        assert_eq!(answer.status, self.status, "{}", answer.body);
        let text = answer.body.replace("&#34;", "\"").replace("&#39;", "'");
        ("page", self.code.to_owned(), text)
    }

    /// Checks that all doors say the same as the first one.
    fn agree(&self, all: &[Told]) {
        let (first, _, sentence) = &all[0];
        for (door, code, said) in all {
            assert_eq!(code, self.code, "{door}: {said}");
            let is_same = if *door == "page" { said.contains(sentence) } else { said == sentence };
            assert!(is_same, "{first}: {sentence}\n{door}: {said}");
        }
    }
}

/// All doors of one daemon, used by an approver. The CLI is the owner's.
struct Doors {
    port: Port,
    token: String,
    mcp: Mcp,
}

impl Doors {
    async fn new() -> Self {
        let port = Port::new().await;
        let token = port.token("anna", "approver").await;
        let mcp = port.shell.mcp_with(&["--role", "approver"], json!({})).await;
        Self { port, token, mcp }
    }

    async fn cli(&self, args: &[&str]) -> Said {
        self.port.shell.run(&[&["--json"], args].concat()).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.port.post(path, body).token(&self.token).send().await
    }

    async fn get(&self, path: &str) -> Answer {
        self.port.get(path).token(&self.token).send().await
    }

    async fn form(&self, path: &str, fields: &str) -> Answer {
        let form = self.port.call("POST", path).header("content-type", "application/x-www-form-urlencoded");
        form.body(fields).token(&self.token).send().await
    }

    async fn tool(&mut self, call: &Value) -> [Told; 2] {
        let reply = self.post("/v1/tool", &json!({ "call": call })).await.ok().json();
        let by_mcp = self.mcp.tool("codex_bridge", call.clone()).await["structuredContent"].clone();
        [("tool", &reply), ("mcp", &by_mcp)].map(|(door, reply)| told(door, &reply["code"], &reply["error"]))
    }

    async fn end(self) {
        self.mcp.end().await;
        self.port.shell.end().await;
    }
}

#[tokio::test]
async fn a_decision_that_is_unknown_or_too_late_is_refused_alike() {
    let mut doors = Doors::new().await;
    let id = doors.port.start(&doors.token, "go [play] exec touch made.txt => say Done.").await;
    let asked = doors.port.wait(&doors.token, &id).await["pending_requests"][0].clone();
    let (request, digest) = (asked["request_id"].as_str().unwrap(), asked["digest"].as_str().unwrap());
    let (route, page) =
        (format!("/v1/tasks/{id}/requests/{request}/decision"), format!("/approvals/{id}/{request}"));
    let call = |decision: &str| {
        json!({
            "action": "respond", "task_id": id, "request_id": request, "digest": digest, "decision": decision,
        })
    };
    let decide = |decision: &str| json!({ "decision": decision, "digest": digest });

    let unknown = Condition { code: "unknown_decision", status: 422, exit: 2 };
    let mut all = vec![unknown.http(&doors.post(&route, &decide("yes")).await)];
    all.push(unknown.page(&doors.form(&page, &format!("decision=yes&digest={digest}")).await));
    all.extend(doors.tool(&call("yes")).await);
    unknown.agree(&all);

    let taken = doors.post(&route, &decide("accept")).await.ok().json();
    assert_eq!(taken["outcome"], "resolved");
    let late = Condition { code: "already_resolved", status: 409, exit: 1 };
    let mut all = vec![late.http(&doors.post(&route, &decide("decline")).await)];
    assert!(all[0].2.ends_with("was already answered: approved, by token anna"), "{}", all[0].2);
    all.push(late.page(&doors.form(&page, &format!("decision=decline&digest={digest}")).await));
    all.push(late.cli(&doors.cli(&["decline", &id, request]).await));
    all.extend(doors.tool(&call("decline")).await);
    late.agree(&all);

    doors.port.wait(&doors.token, &id).await;
    let ended = Condition { code: "wrong_state", status: 409, exit: 1 };
    let steer = json!({ "action": "steer", "task_id": id, "instruction": "more" });
    let mut all =
        vec![ended.http(&doors.post(&format!("/v1/tasks/{id}/steer"), &json!({"text": "more"})).await)];
    all.push(ended.page(&doors.form(&format!("/tasks/{id}/steer"), "text=more").await));
    all.push(ended.cli(&doors.cli(&["steer", &id, "more"]).await));
    all.extend(doors.tool(&steer).await);
    ended.agree(&all);

    // An empty text is a missing one, also for a turn.
    let empty = Condition { code: "empty_prompt", status: 422, exit: 2 };
    let turns = format!("/v1/tasks/{id}/turns");
    let mut all = vec![empty.http(&doors.post(&turns, &json!({})).await)];
    all.push(empty.http(&doors.post(&turns, &json!({"prompt": " "})).await));
    all.push(empty.page(&doors.form(&format!("/tasks/{id}/continue"), "text=+").await));
    all.push(empty.cli(&doors.cli(&["continue", &id, " "]).await));
    all.extend(doors.tool(&json!({"action": "continue", "task_id": id})).await);
    empty.agree(&all);
    doors.end().await;
}

#[tokio::test]
async fn work_and_lists_that_make_no_sense_are_refused_alike() {
    let mut doors = Doors::new().await;
    let cwd = doors.port.shell.home.workspace();
    let cwd = cwd.to_str().unwrap();

    let empty = Condition { code: "empty_prompt", status: 422, exit: 2 };
    let mut all = vec![empty.http(&doors.post("/v1/tasks", &json!({ "cwd": cwd })).await)];
    all.push(empty.http(&doors.post("/v1/tasks", &json!({ "cwd": cwd, "prompt": "" })).await));
    all.push(empty.page(&doors.form("/tasks", &format!("prompt=&cwd={cwd}")).await));
    all.push(empty.cli(&doors.cli(&["run", " "]).await));
    all.extend(doors.tool(&json!({ "action": "start", "cwd": cwd })).await);
    let drop_in = doors.mcp.tool("codex", json!({})).await["structuredContent"].clone();
    all.push(told("codex", &drop_in["code"], &drop_in["error"]));
    empty.agree(&all);

    let target = Condition { code: "unknown_target", status: 422, exit: 2 };
    let body = json!({ "prompt": "go", "cwd": cwd, "notify_target": "pigeon:post" });
    let mut all = vec![target.http(&doors.post("/v1/tasks", &body).await)];
    all.push(
        target.page(&doors.form("/tasks", &format!("prompt=go&cwd={cwd}&notify_target=pigeon:post")).await),
    );
    all.push(target.cli(&doors.cli(&["run", "-d", "--notify", "pigeon:post", "go"]).await));
    let call = json!({ "action": "start", "prompt": "go", "cwd": cwd, "notify_target": "pigeon:post" });
    all.extend(doors.tool(&call).await);
    target.agree(&all);

    let limit = Condition { code: "bad_limit", status: 400, exit: 2 };
    for number in ["0", "-1"] {
        let mut all = vec![limit.http(&doors.get(&format!("/v1/tasks?limit={number}")).await)];
        all.push(limit.cli(&doors.cli(&["ps", &format!("--limit={number}")]).await));
        all.extend(doors.tool(&json!({ "action": "list", "limit": number.parse::<i64>().unwrap() })).await);
        limit.agree(&all);
    }

    let status = Condition { code: "unknown_status", status: 422, exit: 2 };
    let mut all = vec![status.http(&doors.get("/v1/tasks?status=odd").await)];
    all.push(status.page(&doors.get("/tasks?state=odd").await));
    all.push(status.cli(&doors.cli(&["ps", "--status", "odd"]).await));
    status.agree(&all);
    for shown in ["needs%20approval", "stopping", "waiting_for_user_input"] {
        doors.get(&format!("/v1/tasks?status={shown}")).await.ok();
        doors.get(&format!("/tasks?state={shown}")).await.ok();
    }
    doors.end().await;
}
