//! What Codex writes on stderr: read at any speed, kept small, without secrets. On the real Codex.

use std::fs;
use std::path::Path;

use codex_wire::host::{Host, Launch, Stop};
use futures_util::FutureExt;
use serde_json::json;
use testkit::wait_until;

use crate::host_rig::{Client, LONG, home_with, launch_in};

/// What a process has read so far.
fn bytes_read(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

fn traced(launch: Launch) -> Launch {
    let mut launch = launch;
    launch.env.set.insert("RUST_LOG".to_owned(), "trace".to_owned());
    launch
}

fn logs(dir: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let logs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("stderr.log"));
    logs.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().unwrap().len()))
        .collect()
}

// codex 0.166 writes every frame that it cannot understand three times over when it traces.
#[tokio::test]
async fn a_host_that_writes_100_mb_to_stderr_goes_on_and_its_log_stays_small() {
    let home = home_with("");
    let host = Host::launch(&traced(launch_in(&home, "h"))).await.unwrap();
    let mut client = Client::connect(&host).await;
    let filler = "so much to say ".repeat(70_000);
    let target = 100 << 20;
    while bytes_read(host.record().keeper.pid) < target {
        client.send_text(json!({"nonsense": filler}).to_string()).await;
        client.call("thread/list", json!({})).await;
    }
    client.start_thread(&home).await;
    let logs = logs(host.dir());
    assert!(
        !logs.is_empty() && logs.len() <= 2 && logs.iter().all(|(_, bytes)| *bytes <= 1 << 20),
        "{logs:?}"
    );
    host.stop(Stop::Now).await.unwrap();
    assert!(
        host.stderr_tail(1000).await.iter().any(|line| line.contains("received shutdown signal")),
        "the newest lines are kept"
    );
    home.assert_no_processes().await;
}

#[tokio::test]
async fn secrets_in_stderr_do_not_reach_the_log() {
    let home = home_with("");
    let host = Host::launch(&traced(launch_in(&home, "h"))).await.unwrap();
    let mut client = Client::connect(&host).await;
    let secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD";
    client.send_text(json!({"nonsense": format!("marked {secret} marked")}).to_string()).await;
    let tail = || host.stderr_tail(10_000).now_or_never().unwrap();
    let told = || tail().iter().any(|line| line.contains("marked "));
    wait_until(LONG, "codex to complain about nonsense", told).await;
    host.stop(Stop::Now).await.unwrap();
    let text = host.stderr_tail(usize::MAX).await.join("\n");
    assert!(
        !text.contains("abcdefghijklmnop"),
        "{}",
        text.lines().filter(|line| line.contains("abcdef")).collect::<String>()
    );
}
