//! What people read when stdout is no terminal: plain lines, no colours, and an exit code.

use std::io::Read;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::shell::{Shell, until};

#[tokio::test]
async fn run_tells_a_task_in_plain_lines() {
    let shell = Shell::new().await;
    let said = shell
        .run(&["run", "-a", "on-request", "go [play] note I will look. => exec ls => say There is nothing."])
        .await;
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines[..3], ["I will look.", "", "$ ls"], "{}", said.out);
    assert!(said.out.contains("\nThere is nothing.\n"), "{}", said.out);
    assert!(lines.last().unwrap().starts_with("✓ completed · "), "{}", said.out);
    assert!(!said.out.contains(['\u{1b}', '\r']), "{:?}", said.out);
    shell.end().await;
}

#[tokio::test]
async fn run_without_a_terminal_cannot_ask_and_says_who_can() {
    let shell = Shell::new().await;
    let said =
        shell.run(&["run", "-s", "workspace-write", "go [play] exec touch made.txt => say Made."]).await;
    assert_eq!(said.code, 3, "{}{}", said.out, said.err);
    assert!(
        said.out.contains("? Let Codex run a command?") && said.out.contains("touch made.txt"),
        "{}",
        said.out
    );
    assert!(
        said.err.contains("waits for an answer") && said.err.contains("codex-bridge approve codex-"),
        "{}",
        said.err
    );

    let asked = shell.run(&["requests"]).await.ok();
    let answer = asked.out.lines().find_map(|line| line.trim().strip_prefix("codex-bridge ")).unwrap();
    let words: Vec<&str> = answer.split(' ').collect();
    let approved = shell.run(&words).await.ok();
    assert!(approved.out.ends_with(" approved\n"), "{}", approved.out);
    let id = words[1];
    let waited = shell.run(&["wait", id, "--timeout", "120"]).await.ok();
    assert!(waited.out.starts_with("✓ completed"), "{}", waited.out);
    assert_eq!(shell.run(&["result", id]).await.ok().out, "Made.\n");

    let logged = shell.run(&["logs", id]).await.ok().out;
    for line in ["? Let Codex run a command?", "$ touch made.txt", "Made."] {
        assert!(logged.lines().any(|it| it == line), "{line} is missing in\n{logged}");
    }
    let shown = shell.run(&["show", &id[..12]]).await.ok().out;
    assert!(shown.starts_with(&format!("{id}  completed\n")), "{shown}");
    let listed = shell.run(&["ps"]).await.ok().out;
    assert!(listed.lines().nth(1).unwrap().starts_with(&format!("{id}  completed  ")), "{listed}");
    shell.end().await;
}

#[tokio::test]
async fn a_changed_file_is_summed_up() {
    let shell = Shell::new().await;
    let id = shell.start("go [play] write note.txt hello => say Noted.").await;
    shell.run(&["wait", &id]).await;
    shell.approve(&id).await.ok();
    shell.run(&["wait", &id]).await.ok();
    let logged = shell.run(&["logs", &id]).await.ok().out;
    // Codex names the file from the root of the repository that it finds, if there is one above.
    assert!(logged.contains("1 file changed\n") && logged.contains("note.txt  +1 -0 (new)\n"), "{logged}");
    shell.end().await;
}

#[tokio::test]
async fn ctrl_c_without_a_terminal_stops_what_was_started_and_leaves_what_was_attached() {
    let shell = Shell::new().await;
    let interrupted = async |args: &[&str], sign: &str| {
        let mut child = shell.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        shell.model.wait_for_stall(sign).await;
        // It says its first words once it watches.
        let mut words = [0; 8];
        child.stdout.as_mut().unwrap().read_exact(&mut words).unwrap();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        tokio::task::spawn_blocking(move || child.wait_with_output().unwrap().status.code()).await.unwrap()
    };
    let prompt = "go [play] note I begin. => exec ls => stall one => say Done.";
    assert_eq!(interrupted(&["run", "-a", "on-request", prompt], "one").await, Some(130));
    let tasks = shell.run(&["--json", "ps"]).await.ok().json();
    assert_eq!(tasks[0]["status"], "cancelled", "{tasks:#}");

    let prompt = "go [play] note I begin. => exec ls => stall two => say Done.";
    let id = shell.run(&["run", "-d", "-a", "on-request", prompt]).await.ok().out.trim().to_owned();
    assert_eq!(interrupted(&["attach", &id], "two").await, Some(130));
    assert_eq!(shell.run(&["--json", "show", &id]).await.ok().json()["status"], "working");
    shell.model.release("two");
    shell.run(&["wait", &id]).await.ok();
    shell.end().await;
}

#[tokio::test]
async fn a_task_goes_on_and_is_watched_on_when_the_daemon_dies() {
    let shell = Shell::new().await;
    let mut command = shell.command(&[
        "run",
        "-a",
        "on-request",
        "go [play] note I begin. => exec ls => stall here => say Done.",
    ]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    shell.model.wait_for_stall("here").await;
    let mut words = [0; 8];
    child.stdout.as_mut().unwrap().read_exact(&mut words).unwrap();
    let killed = shell.daemon();
    shell.kill_daemon();
    until("a new daemon", || shell.daemon().filter(|pid| Some(*pid) != killed)).await;
    shell.model.release("here");
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("Done.") && told.contains("✓ completed"), "{told}");
    assert_eq!(told.matches("$ ls").count(), 1, "nothing is told twice\n{told}");
    shell.end().await;
}

#[tokio::test]
async fn a_reader_who_leaves_is_no_error() {
    let shell = Shell::new().await;
    let id = shell.start("go [play] flood 400 => say End.").await;
    shell.run(&["wait", &id]).await.ok();
    let mut command = shell.command(&["events", &id]);
    let piped = tokio::task::spawn_blocking(move || {
        let mut child = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        child.wait_with_output().unwrap()
    });
    let output = piped.await.unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    shell.end().await;
}

#[test]
fn completions_and_the_manual_are_made_from_the_commands() {
    let print = |args: &[&str]| {
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_codex-bridge")).args(args).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    for shell in ["bash", "zsh", "fish"] {
        assert!(print(&["completions", shell]).contains("approve"), "{shell}");
    }
    assert!(print(&["man"]).contains(".SH SUBCOMMANDS"));
    let dir = tempfile::tempdir().unwrap();
    print(&["man", "--dir", dir.path().to_str().unwrap()]);
    assert!(dir.path().join("codex-bridge-run.1").exists());
    assert!(!dir.path().join("codex-bridge-host.1").exists(), "what is hidden has no page");
}
