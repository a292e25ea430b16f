//! `codex-bridge store`: check and backup.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::shell::Shell;

#[tokio::test]
async fn a_sound_store_is_said_to_be_sound_and_can_be_copied_while_a_task_runs() {
    let shell = Shell::new().await;
    let id = shell.start("go [play] delta Once => stall here => say upon a time.").await;
    shell.model.wait_for_stall("here").await;
    let check = shell.run(&["--json", "store", "check"]).await.ok().json();
    assert_eq!(check, serde_json::json!({"sound": true, "findings": []}));

    let copy = shell.home.dir().join("copy.db");
    shell.run(&["store", "backup", copy.to_str().unwrap()]).await.ok();
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let again = shell.run(&["--json", "store", "backup", copy.to_str().unwrap()]).await;
    assert_eq!(again.code, 1, "a file that is there is not written over");
    shell.model.release("here");
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    shell.run(&["stop", "--hosts"]).await.ok();

    // The copy is a store of its own, which knows the task.
    let state_dir = shell.home.dir().join("st2");
    fs::create_dir(&state_dir).unwrap();
    fs::rename(&copy, state_dir.join("tasks.db")).unwrap();
    fs::copy(shell.home.dir().join("st/seal.key"), state_dir.join("seal.key")).unwrap();
    let there = ["--state-dir", state_dir.to_str().unwrap()];
    let task = shell.run(&[&there[..], &["--json", "show", &id]].concat()).await.ok().json();
    assert_eq!(task["task_id"], id.as_str());
    shell.run(&[&there[..], &["stop", "--hosts"]].concat()).await.ok();
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn a_damaged_store_stops_the_daemon_with_a_sentence() {
    let shell = Shell::new().await;
    fs::write(
        shell.home.dir().join("st/tasks.db"),
        "this is no database, and long enough to be told from one",
    )
    .unwrap();
    let said = shell.run(&["--json", "ps"]).await;
    assert_eq!((said.code, said.failure()["code"].as_str().unwrap()), (1, "store_corrupt"), "{}", said.err);
    assert!(said.failure()["hint"].is_string());
    // What the hint names works without a daemon, and so does the doctor.
    let check = shell.run(&["--json", "store", "check"]).await;
    assert_eq!((check.code, &check.json()["sound"]), (1, &serde_json::json!(false)), "{}", check.err);
    assert!(check.json()["findings"][0].as_str().unwrap().contains("not a database"), "{}", check.out);
    let doctor = shell.run(&["doctor"]).await;
    assert!(doctor.code == 1 && doctor.out.contains("PROBLEM store"), "{}", doctor.out);
    shell.home.assert_no_processes().await;
}

// peer: T26
#[tokio::test]
async fn old_tasks_are_forgotten_on_request() {
    let shell = Shell::new().await;
    let id = shell.start("hello [play] say Hello.").await;
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    assert_eq!(shell.run(&["--json", "gc"]).await.ok().json()["tasks"], 0, "thirty days have not passed");
    shell.run(&["stop"]).await.ok();
    let config = shell.home.dir().join("config.toml");
    fs::write(&config, format!("{}keep_days = 0\n", fs::read_to_string(&config).unwrap())).unwrap();
    assert_eq!(shell.run(&["--json", "gc"]).await.ok().json()["tasks"], 1);
    assert_eq!(shell.run(&["--json", "show", &id]).await.failure()["code"], "unknown_task");
    shell.end().await;
}
