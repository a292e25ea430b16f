//! The API against its OpenAPI document: schemathesis generates valid and invalid calls and checks the replies.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::http_rig::Port;

/// Each call comes from another address, as the proxy in front says: otherwise its many bad tokens would soon be
/// answered 429, as they should be, and nobody could see whether each route asks for a token.
const HOOKS: &str = r#"
import itertools, requests

callers = itertools.count(1)
send = requests.adapters.HTTPAdapter.send

def send_as_another(self, request, **kwargs):
    number = next(callers)
    request.headers["X-Forwarded-For"] = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return send(self, request, **kwargs)

requests.adapters.HTTPAdapter.send = send_as_another
"#;

/// What is not wrong with a call whose form is good. 422 among it: the form of a call cannot say which directories
/// there are, which profiles the operator has, or that a prompt of spaces is none, and that is what it is answered for.
const CHECKS: &str = "[checks]\npositive_data_acceptance.expected-statuses = [\"2xx\", \"401\", \"403\", \"404\", \"409\", \"422\"]\n";

/// A stream that goes on for ever would never be done.
const STREAMS: &str = "[[operations]]\ninclude-path = \"/v1/events\"\nparameters = { \"query.limit\" = 1 }\n";

/// Where `cargo xtask prove` installs it.
fn schemathesis() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/schemathesis/bin/schemathesis")
}

/// One run: with made-up names of tasks, or with those of real ones.
async fn run(port: &Port, token: &str, config: &str, examples: u32) {
    let dir = port.shell.home.dir();
    let (file, hooks) = (dir.join("schemathesis.toml"), dir.join("hooks.py"));
    std::fs::write(&file, format!("{config}{CHECKS}{STREAMS}")).unwrap();
    std::fs::write(&hooks, HOOKS).unwrap();
    let mut command = Command::new(schemathesis());
    command.arg("--config-file").arg(&file).arg("run");
    command.arg(format!("http://localhost:{}/v1/openapi.json", port.number));
    command.args(["--checks", "all", "--seed", "1", "--suppress-health-check", "all", "--no-color"]);
    command.args(["--request-timeout", "60", "--max-examples", &examples.to_string()]);
    command.args(["-H", &format!("Authorization: Bearer {token}")]);
    command.env("SCHEMATHESIS_HOOKS", &hooks).current_dir(dir);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes and comes from PyPI: `cargo xtask prove` runs it"]
async fn schemathesis_finds_nothing_wrong() {
    let port = Port::new().await;
    let workspace = port.shell.home.workspace();
    port.configure(&format!("roots = [\"{}\"]\n", workspace.display()), "behind_proxy = true\n");
    let token = port.token("fuzz", "approver").await;
    // What it starts need not end before the next is started.
    let many = ["token", "quota", "fuzz", "--max-open-tasks", "100000", "--max-bytes", "1099511627776"];
    port.shell.run(&many).await.ok();
    run(&port, &token, "", 100).await;
    let asking = port.start(&token, "go [play] exec touch made.txt => say Done.").await;
    let request = port.wait(&token, &asking).await["pending_requests"][0]["request_id"].clone();
    let parameters =
        |id: &str| format!("[parameters]\n\"path.id\" = \"{id}\"\n\"path.request\" = {request}\n");
    run(&port, &token, &parameters(&asking), 20).await;
    let ended = port.start(&token, "go [play] say Done.").await;
    port.wait(&token, &ended).await;
    run(&port, &token, &parameters(&ended), 20).await;
    // After all that it is in its senses.
    port.post("/v1/tasks", &port.work("go [play] say Still here.")).token(&token).send().await.ok();
    port.get("/readyz").send().await.ok();
    assert_eq!(port.local("POST", "/v1/store/check", &json!({})).send().await.ok().json()["sound"], true);
    port.shell.end().await;
}
