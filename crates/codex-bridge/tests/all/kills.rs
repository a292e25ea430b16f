//! The daemon dies at every point where dying could hurt, and at random ones; the next command finds everything right:
//! nothing lost, no prompt sent twice, no answer given twice, nothing stuck.

use std::time::Instant;

use scripted_model::Scenario;
use serde_json::Value;

use crate::dying::{Moments, OF_STEERS, OF_TASKS, on_the_way_of_a_message, rounds};
use crate::shell::{PATIENCE, Said, Shell};

/// What the task is asked, and how its one command shows how often it ran.
const PROMPT: &str = "append a line";
const COMMAND: &str = "echo ran >> count.txt";

async fn shell() -> Shell {
    let shell = Shell::new().await;
    shell.model.script(PROMPT, Scenario::new().exec(COMMAND).then_say("appended"));
    shell
}

/// Hands over the work; the same request again gives the same task.
async fn hand_over(shell: &Shell, failpoint: Option<&str>) -> Said {
    let args = ["--json", "run", "-d", "-s", "workspace-write", "--client-request-id", "the-one", PROMPT];
    match failpoint {
        Some(point) => shell.run_dying_at(&args, point).await,
        None => shell.run(&args).await,
    }
}

/// Goes on, as a person would, until the task is at rest; commands that meet a dying daemon are simply given again.
async fn see_it_through(shell: &Shell) -> Value {
    let began = Instant::now();
    loop {
        assert!(
            began.elapsed() < PATIENCE,
            "the task is stuck: {}",
            shell.run(&["--json", "ps", "--all"]).await.out
        );
        let handed = hand_over(shell, None).await;
        if handed.code != 0 {
            continue;
        }
        let id = handed.json()["task_id"].as_str().unwrap().to_owned();
        let waited = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await;
        match waited.code {
            // A command that starts the daemon as it is killed says so, and has no task to show.
            0 | 1 | 130 if !waited.out.is_empty() => return waited.json(),
            3 => try_to_approve(shell, &id).await,
            _ => {}
        }
    }
}

/// Approves what is open, unless the daemon dies meanwhile.
async fn try_to_approve(shell: &Shell, id: &str) {
    let open = shell.run(&["--json", "requests", id]).await;
    if open.code == 0
        && let Some(request_id) = open.json()[0]["request_id"].as_str()
    {
        shell.run(&["--json", "approve", id, request_id]).await;
    }
}

async fn check(shell: Shell, task: &Value, what: &str) {
    assert_eq!(task["status"], "completed", "{what}: {task}");
    assert_eq!(task["final_text"], "appended", "{what}: {task}");
    let count = std::fs::read_to_string(shell.home.workspace().join("count.txt")).unwrap_or_default();
    assert_eq!(count, "ran\n", "{what}: the command ran {} times", count.lines().count());
    let first_requests =
        shell.model.requests().iter().filter(|request| request.tool_outputs().is_empty()).count();
    assert_eq!(first_requests, 1, "{what}: the prompt was sent {first_requests} times");
    let tasks = shell.run(&["--json", "ps", "--all"]).await.ok().json();
    assert_eq!(tasks.as_array().map(Vec::len), Some(1), "{what}: {tasks}");
    let open = shell.run(&["--json", "requests"]).await.ok().json();
    assert_eq!(open.as_array().map(Vec::len), Some(0), "{what}: {open}");
    shell.end().await;
}

// peer: T25, T29
#[tokio::test]
async fn whatever_the_daemon_was_doing_when_it_died_the_next_command_finds_it_right() {
    for point in OF_TASKS {
        let shell = shell().await;
        let log = shell.home.dir().join("st/daemon.log");
        // The first daemon is armed; it may die during this very command, or later.
        hand_over(&shell, Some(point)).await;
        let task = see_it_through(&shell).await;
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains(&format!("failpoint {point}: ")), "it did not die at {point}:\n{log}");
        check(shell, &task, point).await;
    }
}

#[test]
fn every_failpoint_is_documented_and_tried_and_no_other() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let documented = std::fs::read_to_string(root.join("docs/failpoints.md")).unwrap();
    let rows = documented.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut documented: Vec<String> = rows.map(str::to_owned).collect();
    let mut armed = Vec::new();
    collect(&root.join("crates/codex-bridge-core/src"), &mut armed);
    collect(&root.join("crates/codex-bridge/src"), &mut armed);
    let tried = [&OF_TASKS[..], &OF_STEERS, &on_the_way_of_a_message()].concat();
    let mut tried: Vec<String> = tried.into_iter().map(str::to_owned).collect();
    for list in [&mut documented, &mut armed, &mut tried] {
        list.sort();
        list.dedup();
    }
    assert_eq!(documented, armed);
    assert_eq!(tried, armed, "tests have the daemon die at every one");
}

/// The names of all points in the source below a folder.
fn collect(folder: &std::path::Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, names);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let hits = text.split("failpoint::hit(\"").skip(1).filter_map(|rest| rest.split('"').next());
            names.extend(hits.map(str::to_owned));
        }
    }
}

#[tokio::test]
async fn a_daemon_killed_at_any_moment_loses_and_repeats_nothing() {
    let mut moments = Moments::seeded(0x9e37_79b9);
    // A task takes about a second from its start over its question to its end; kills fall everywhere in it.
    let mut moment = || moments.within_ms(900);
    for round in 0..rounds() {
        let shell = shell().await;
        hand_over(&shell, None).await.ok();
        // Somebody sees the task through and answers what it asks, whatever happens to the daemon.
        let kills = [moment(), moment(), moment()];
        let killer = async {
            for after in kills {
                tokio::time::sleep(after).await;
                shell.kill_daemon_for_good().await;
            }
        };
        let (task, ()) = tokio::join!(see_it_through(&shell), killer);
        check(shell, &task, &format!("round {round}, killed after {kills:?}")).await;
    }
}
