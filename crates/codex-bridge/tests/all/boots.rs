//! While a host boots, or is kept from booting, all other callers are answered.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use codex_wire::host::boot_lock;
use serde_json::json;

use crate::shell::{Said, Shell, until};

/// A command that had to wait for the boot would take 30 s.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Somebody else starts Codex on a home, and does not come to an end.
fn hold_boot_lock(home: &std::path::Path) -> File {
    fs::create_dir_all(home).unwrap();
    let file = File::create(home.join(boot_lock::FILE_NAME)).unwrap();
    file.lock().unwrap();
    file
}

async fn at_once(shell: &Shell, args: &[&str]) -> Said {
    let began = Instant::now();
    let said = shell.run(args).await;
    assert!(began.elapsed() < AT_ONCE, "{args:?} took {:?}: {}{}", began.elapsed(), said.out, said.err);
    said
}

#[tokio::test]
async fn while_the_boot_lock_is_held_by_somebody_else_everyone_is_answered() {
    let shell = Shell::new().await;
    let other = shell.home.dir().join("other-home");
    let held = hold_boot_lock(&other);
    let config = shell.home.dir().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("other_homes = [{:?}]\n{text}", other.display().to_string())).unwrap();
    let asking = shell.begin_asking("go [play] exec touch made.txt => say Done.").await;
    let waiting = shell.begin_asking("go [play] exec touch made2.txt => say Done.").await;
    let home = other.display().to_string();
    let booting = shell.run(&["--json", "run", "-d", "--codex-home", &home, "boot"]).await.ok();
    let booting = booting.json()["task_id"].as_str().unwrap().to_owned();
    until_starting(&shell, &booting).await;

    let listed = at_once(&shell, &["--json", "ps"]).await.ok().json();
    assert_eq!(listed.as_array().map(Vec::len), Some(3), "{listed}");
    at_once(&shell, &["--json", "decline", &asking.0]).await.ok();
    at_once(&shell, &["--json", "wait", &asking.0, "--timeout", "9"]).await.ok();
    at_once(&shell, &["--json", "interrupt", &waiting.0]).await.ok();
    at_once(&shell, &["--json", "interrupt", &booting]).await.ok();
    assert!(!shell.home.workspace().join("made.txt").exists());

    // Nor does the end of everything wait for it.
    let again = shell.run(&["--json", "run", "-d", "--codex-home", &home, "boot again"]).await.ok();
    until_starting(&shell, again.json()["task_id"].as_str().unwrap()).await;
    at_once(&shell, &["stop", "--hosts"]).await.ok();
    drop(held);
    shell.home.assert_no_processes().await;
}

async fn until_starting(shell: &Shell, id: &str) {
    loop {
        let task = at_once(shell, &["--json", "show", id]).await.ok().json();
        if task["status"] == "starting" {
            return;
        }
        assert_eq!(task["status"], "queued", "{task:#}");
    }
}

#[tokio::test]
async fn one_host_is_booted_for_all_who_wait_for_it() {
    let shell = Shell::new().await;
    let held = hold_boot_lock(&shell.home.codex_home());
    let mut ids = Vec::new();
    for number in 0..3 {
        let said = shell.run(&["--json", "run", "-d", &format!("hello {number}")]).await.ok();
        ids.push(said.json()["task_id"].as_str().unwrap().to_owned());
    }
    for id in &ids {
        until_starting(&shell, id).await;
    }
    drop(held);
    for id in &ids {
        shell.run(&["wait", id, "--timeout", "120"]).await.ok();
    }
    let hosts = || fs::read_dir(shell.home.dir().join("st/hosts")).unwrap().count();
    until("one host", || (hosts() == 1).then_some(())).await;
    shell.end().await;
}

#[tokio::test]
async fn a_command_in_the_sandbox_cannot_hold_the_boot_lock() {
    let shell = Shell::new().await;
    let lock = shell.home.codex_home().join(boot_lock::FILE_NAME);
    let prompt = format!("go [play] exec flock -n {} echo held => say Tried.", lock.display());
    let start = json!({
        "action": "start", "prompt": prompt, "sandbox": "workspace-write", "approval_policy": "on-request",
    });
    let id = shell.told(start).await["task_id"].as_str().unwrap().to_owned();
    shell.ended(&id).await;
    let requests = shell.model.requests();
    let last = requests.iter().rev().find(|request| request.prompt().as_deref() == Some(&prompt)).unwrap();
    let printed: Vec<String> = last.tool_outputs().iter().map(|(_, output)| output.to_string()).collect();
    assert!(printed.concat().contains("Permission denied"), "{printed:?}");
    shell.end().await;
}
