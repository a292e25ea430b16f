//! A process that a host started kills the host's keeper: the remaining processes are refused, and ended.

use std::fs;
use std::path::PathBuf;

use scripted_model::Scenario;
use serde_json::Value;

use crate::shell::{Shell, program, until};

/// What a command of a task leaves behind: in a session of its own, without parents, without the mark.
struct Left {
    workspace: PathBuf,
}

impl Left {
    /// Waits for a command line in `<name>.do`, runs it, and puts what it said into `<name>.said`, for each name in turn.
    fn script(names: &[&str]) -> String {
        let step = |name: &&str| {
            format!(
                "while [ ! -e {name}.do ]; do sleep 0.02; done; sh {name}.do > {name}.part 2>&1; mv {name}.part {name}.said; "
            )
        };
        names.iter().map(step).collect()
    }

    /// Has it run these lines, and gives back what they printed.
    async fn runs(&self, name: &str, lines: &str) -> String {
        let at = |kind: &str| self.workspace.join(format!("{name}.{kind}"));
        fs::write(at("new"), lines).unwrap();
        fs::rename(at("new"), at("do")).unwrap();
        until(&format!("what {name} says"), || fs::read_to_string(at("said")).ok()).await
    }
}

/// A task that runs, outside of the sandbox, and what one of its commands has left behind.
async fn task_with_an_orphan(shell: &Shell, names: &[&str]) -> (String, Left) {
    let config = shell.home.dir().join("config.toml");
    let profile = "[profiles.open]\nsandbox = \"danger-full-access\"\napproval_policy = \"never\"\n";
    fs::write(&config, format!("{}{profile}", fs::read_to_string(&config).unwrap())).unwrap();
    let left = Left { workspace: shell.home.workspace() };
    let script = format!("echo $$ > orphan.pid; {}", Left::script(names));
    fs::write(left.workspace.join("orphan.sh"), script).unwrap();
    let leave = "setsid -f env -i /bin/sh orphan.sh < /dev/null > /dev/null 2>&1";
    shell.model.script("go", Scenario::new().exec(leave).then().stall("for good").say("Done."));
    let said = shell.run(&["--json", "run", "-d", "--profile", "open", "go"]).await.ok();
    let id = said.json()["task_id"].as_str().unwrap().to_owned();
    shell.model.wait_for_stall("for good").await;
    until("the orphan", || fs::read_to_string(left.workspace.join("orphan.pid")).ok()).await;
    (id, left)
}

/// A line that makes a token for whoever runs it.
fn token_line(shell: &Shell, name: &str) -> String {
    let state_dir = shell.home.dir().join("st");
    format!(
        "{} --json --no-autostart --state-dir {} token create {name} --role approver",
        program().display(),
        state_dir.display()
    )
}

/// What is recorded of the one host.
fn host(shell: &Shell) -> Value {
    let hosts = fs::read_dir(shell.home.dir().join("st/hosts")).unwrap();
    let records = hosts.filter_map(|dir| fs::read(dir.unwrap().path().join("host.json")).ok());
    let mut records: Vec<Value> = records.map(|text| serde_json::from_slice(&text).unwrap()).collect();
    assert_eq!(records.len(), 1, "{records:#?}");
    records.remove(0)
}

async fn assert_no_token(shell: &Shell) {
    let tokens = shell.run(&["--json", "token", "list"]).await.ok();
    assert_eq!(tokens.json().as_array().map(Vec::len), Some(0), "{}", tokens.out);
}

/// Nobody finds what it left behind in the end, so the test ends it.
fn end_orphan(left: &Left) {
    let pid = fs::read_to_string(left.workspace.join("orphan.pid")).unwrap();
    std::process::Command::new("kill")
        .args(["-9", pid.trim()])
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
}

#[tokio::test]
async fn what_is_left_of_a_host_whose_keeper_was_killed_makes_no_token() {
    let shell = Shell::new().await;
    let (id, left) = task_with_an_orphan(&shell, &["at_once", "later"]).await;
    let host = host(&shell);
    let token = token_line(&shell, "mine");
    let said = left.runs("at_once", &format!("kill -9 {}; {token}", host["keeper"]["pid"])).await;
    assert!(said.contains("peer_refused"), "{said}");

    // The host is ended with its tasks, and what could not be found is still not believed.
    let waited = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await;
    assert_eq!(waited.json()["status"], "lost", "{}", waited.out);
    // Whichever is noticed first: why the host was ended, or that another one stands in its place.
    let why = ["its keeper was killed", "the host was replaced by a new one"];
    assert!(why.iter().any(|why| waited.out.contains(why)), "{}", waited.out);
    let codex = format!("/proc/{}", host["codex"]["pid"]);
    until("the end of codex", || (!fs::exists(&codex).unwrap()).then_some(())).await;
    let said = left.runs("later", &token).await;
    assert!(said.contains("peer_refused"), "{said}");
    assert_no_token(&shell).await;
    let doctor = shell.run(&["--json", "doctor"]).await;
    assert!(doctor.out.contains("1 lost their keeper"), "{}", doctor.out);
    end_orphan(&left);
    shell.end().await;
}

#[tokio::test]
async fn nor_when_the_daemon_was_dead_as_the_keeper_was_killed() {
    for victims in [&["keeper"][..], &["keeper", "codex"]] {
        let shell = Shell::new().await;
        let (id, left) = task_with_an_orphan(&shell, &["kill", "later"]).await;
        let host = host(&shell);
        shell.kill_daemon_for_good().await;
        let pids: Vec<String> = victims.iter().map(|who| host[who]["pid"].to_string()).collect();
        left.runs("kill", &format!("kill -9 {}", pids.join(" "))).await;

        let waited = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await;
        assert_eq!(waited.json()["status"], "lost", "{victims:?}: {}{}", waited.out, waited.err);
        let said = left.runs("later", &token_line(&shell, "mine")).await;
        assert!(said.contains("peer_refused"), "{victims:?}: {said}");
        assert_no_token(&shell).await;
        end_orphan(&left);
        shell.end().await;
    }
}
