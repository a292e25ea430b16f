//! The API against its own description: schemathesis makes up calls, good and bad, and looks at what comes back.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::http_rig::Port;

/// Where `cargo xtask prove` installs it.
fn schemathesis() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/schemathesis/bin/schemathesis")
}

/// One run: with made-up names of tasks, or with those of real ones.
async fn run(port: &Port, token: &str, config: &str, examples: u32) {
    let file = port.shell.home.dir().join("schemathesis.toml");
    let accepted = "[checks]\npositive_data_acceptance.expected-statuses = [\"2xx\", \"401\", \"403\", \"404\", \"409\", \"422\"]\n";
    std::fs::write(&file, format!("{config}{accepted}")).unwrap();
    let mut command = Command::new(schemathesis());
    command.arg("--config-file").arg(&file).arg("run");
    command.arg(format!("http://localhost:{}/v1/openapi.json", port.number));
    command.args(["--checks", "all", "--seed", "1", "--suppress-health-check", "all", "--no-color"]);
    // Its bad tokens are soon answered 429, as they should be; `http_doors` tries every route without a token.
    command.args(["--exclude-checks", "ignored_auth"]);
    // A stream that never ends would never be done.
    command.args(["--exclude-path", "/v1/events", "--request-timeout", "60"]);
    command.args(["--max-examples", &examples.to_string()]);
    command.args(["-H", &format!("Authorization: Bearer {token}")]).current_dir(port.shell.home.dir());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes and comes from PyPI: `cargo xtask prove` runs it"]
async fn schemathesis_finds_nothing_wrong() {
    let port = Port::new().await;
    let token = port.token("fuzz", "approver").await;
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
