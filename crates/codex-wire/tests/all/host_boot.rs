//! Several programs that start Codex on one fresh home at once, on the real Codex.

use std::process::Stdio;
use std::time::Instant;

use codex_wire::host::boot_lock::BootLock;
use codex_wire::host::{Found, Launch, Stop, find};
use futures_util::future::join_all;
use serde_json::json;
use testkit::rig::Home;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::host_rig::{LONG, home_with, launch_in, launching_program};

/// Starts a Codex on stdio under the lock and waits for its first answer.
async fn boot_on_stdio(home: &Home) -> std::io::Result<Option<String>> {
    let lock = BootLock::acquire(&home.codex_home(), Instant::now() + LONG).await.unwrap();
    let mut codex = home.codex(["app-server"]).stderr(Stdio::null()).spawn()?;
    let params = json!({"clientInfo": {"name": "boot-test", "version": "1"}});
    let question = format!("{}\n", json!({"id": 0, "method": "initialize", "params": params}));
    let mut stdin = codex.stdin.take().unwrap();
    // It may have died already; that there is no answer tells.
    let _ = stdin.write_all(question.as_bytes()).await;
    let answer = BufReader::new(codex.stdout.take().unwrap()).lines().next_line().await;
    drop(lock);
    drop(stdin);
    codex.wait().await?;
    answer
}

// codex 0.166: without the lock seven to nine of ten starts on stdio fail here ("failed to initialize sqlite state
// runtime"), of those on a unix socket none does.
#[tokio::test]
async fn servers_that_boot_on_one_fresh_home_under_the_lock_all_answer() {
    let home = home_with("");
    let boots = (0..8).map(|_| boot_on_stdio(&home));
    for answer in timeout(LONG, join_all(boots)).await.unwrap() {
        let answer = answer.unwrap().unwrap_or_default();
        assert!(answer.contains("\"result\""), "{answer:?}");
    }
    home.assert_no_processes().await;
}

#[tokio::test]
async fn programs_that_boot_on_one_fresh_home_at_once_all_succeed() {
    let home = home_with("");
    let launches: Vec<_> = ["a", "b", "c", "d"].iter().map(|name| launch_in(&home, name)).collect();
    let start = |launch: &Launch| launching_program(launch, &home).stderr(Stdio::piped()).output();
    let outputs = timeout(LONG, join_all(launches.iter().map(start))).await;
    for output in outputs.unwrap() {
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for launch in &launches {
        let Some(Found::Alive(host)) = find(&launch.dir).unwrap() else {
            panic!("{:?} is not alive", launch.dir)
        };
        assert!(host.is_healthy(LONG).await);
        host.stop(Stop::Drain { grace: LONG }).await.unwrap();
    }
    home.assert_no_processes().await;
}
