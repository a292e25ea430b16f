//! What a repository gets: by sandbox, by trust, and by the way in which its thread comes to be opened.

use std::fs;
use std::path::PathBuf;

use codex_bridge_core::bridge::NewBranch;
use codex_bridge_core::task::{Status, Task};
use codex_bridge_core::trust::Trust;
use codex_bridge_core::{Bridge, OnHostLoss};
use codex_session::{ApprovalMode, Sandbox};
use codex_wire::host::Stop;
use rustix::process::{Pid, Signal, kill_process};
use scripted_model::{Scenario, ToolCall};

use super::repository::Repository;
use super::{done, new, told_to};
use crate::workbench::{Workbench, asked, at_rest, json};

/// A judgement on one way to open a thread: its name, the traps that were sprung, the words that reached the model.
type Judge = fn(&str, &[&str], &[&str]);

fn nothing(when: &str, sprung: &[&str], words: &[&str]) {
    assert_eq!((sprung, words), (&[][..], &[][..]), "{when}");
}

fn instructions_alone(when: &str, sprung: &[&str], words: &[&str]) {
    assert_eq!((sprung, words), (&[][..], &["REPOSITORY-INSTRUCTIONS"][..]), "{when}");
}

/// Its MCP servers run, once for each time that its thread is loaded. What Codex takes from no repository it takes from this one
/// neither, and its git runs no filters.
fn as_codex_does_it(when: &str, sprung: &[&str], words: &[&str]) {
    let is_loaded_already = when == "continue";
    assert_eq!(sprung.contains(&"mcp"), !is_loaded_already, "{when}: {sprung:?}");
    for trap in sprung {
        assert!(["mcp", "mcp-above", "bash-env"].contains(trap), "{when}: {sprung:?}");
    }
    assert!(words.contains(&"REPOSITORY-INSTRUCTIONS"), "{when}: {words:?}");
    for word in [
        "WROTE-OUTSIDE",
        "REACHED-THE-NETWORK",
        "REPOSITORY-ENV",
        "REPOSITORY-CODEX-ENV",
        "REPOSITORY-PLUGIN",
    ] {
        assert!(!words.contains(&word), "{when}: {words:?}");
    }
}

/// Runs a task in all ways: begun, continued, in a branch, taken up after its host was killed in mid-turn, and on a host that
/// never saw it.
async fn check(sandbox: Sandbox, trust: Trust, judge: Judge) {
    let bench = Workbench::new().await;
    let repository = Repository::new(&bench);
    check_with(bench, repository, sandbox, trust, judge).await;
}

async fn check_with(bench: Workbench, repository: Repository, sandbox: Sandbox, trust: Trust, judge: Judge) {
    let look = "git rev-parse --is-inside-work-tree; grep NoNewPrivs /proc/self/status; env; sleep 0.1";
    let leave = repository.leave();
    let first = Scenario::new().exec(look).then_exec(repository.plant());
    bench.model.script("go", first.then_exec(&leave).then_say("done"));
    bench.model.script("die", Scenario::new().exec(look).then().stall("dying").then_say("done"));
    for prompt in ["more", "leaf", "again", "The process that ran you died"] {
        bench.model.script_containing(prompt, Scenario::new().exec(&leave).then_say("done"));
    }
    let mut config = bench.config();
    config.on_host_loss = OnHostLoss::Resume;
    let bridge = bench.open_with(config).await;
    let after = |when: &'static str| {
        println!("{sandbox:?} {trust:?} {when}");
        let output = bench.model.requests().last().unwrap().last_tool_output().unwrap_or_default();
        assert!(output.contains("everything was tried"), "{when}: {output}");
        judge(when, &repository.sprung(), &Repository::words_told(&bench));
        repository.assert_users_files_unchanged(&bench, when);
        repository.set_again();
    };
    let mut task = new(&bench, sandbox, trust);
    task.settings.cwd.clone_from(&repository.dir);
    let id = bridge.start(task).await.unwrap().task.id.to_string();
    done(&bridge, &id).await;
    after("start");
    bridge.continue_task(&id, "more").await.unwrap();
    done(&bridge, &id).await;
    after("continue");
    let branch = NewBranch { prompt: Some("leaf".into()), ..NewBranch::default() };
    let branch = bridge.fork(&id, branch).await.unwrap().task.id.to_string();
    done(&bridge, &branch).await;
    after("fork");
    killed_in_mid_turn(&bench, &bridge, &id).await;
    after("recovery after kill -9");
    for host in bridge.hosts() {
        host.stop(Stop::Now).await.unwrap();
    }
    bridge.continue_task(&id, "again").await.unwrap();
    done(&bridge, &id).await;
    after("a new host");
    let told = told_to(&bench);
    assert!(told.contains("true\\n"), "git works in commands: {told}");
    assert!(told.contains("NoNewPrivs:\\t1") && !told.contains("NoNewPrivs:\\t0"), "{told}");
    bench.tidy(bridge).await;
}

async fn killed_in_mid_turn(bench: &Workbench, bridge: &Bridge, id: &str) -> Task {
    bridge.continue_task(id, "die").await.unwrap();
    bench.model.wait_for_stall("dying").await;
    for host in bridge.hosts() {
        let codex = Pid::from_raw(host.record().codex.pid.cast_signed()).unwrap();
        kill_process(codex, Signal::KILL).unwrap();
    }
    done(bridge, id).await
}

#[tokio::test]
async fn a_hostile_repository_gets_nothing_read_only() {
    check(Sandbox::ReadOnly, Trust::Hostile, nothing).await;
}

#[tokio::test]
async fn a_hostile_repository_gets_nothing_workspace_write() {
    check(Sandbox::WorkspaceWrite, Trust::Hostile, nothing).await;
}

#[tokio::test]
async fn a_repository_that_nobody_decided_about_gets_nothing_and_is_not_taken_for_trusted() {
    let bench = Workbench::new().await;
    let repository = Repository::undecided(&bench);
    check_with(bench, repository, Sandbox::WorkspaceWrite, Trust::Hostile, nothing).await;
}

#[tokio::test]
async fn what_a_command_planted_configures_no_later_task() {
    let bench = Workbench::new().await;
    let repository = Repository::undecided(&bench);
    bench.model.script("go", Scenario::new().exec(repository.plant()).then_say("done"));
    let bridge = bench.open().await;
    for dir in [repository.dir.clone(), repository.planted()] {
        let mut task = new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile);
        task.settings.cwd = dir;
        let id = bridge.start(task).await.unwrap().task.id.to_string();
        done(&bridge, &id).await;
        assert!(repository.planted().join(".codex/config.toml").exists(), "a command can plant it");
        nothing("planted", &repository.sprung(), &Repository::words_told(&bench));
        repository.assert_users_files_unchanged(&bench, "planted");
    }
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_command_that_rules_allow_is_not_asked_about_and_stays_in_its_sandbox() {
    for sandbox in [Sandbox::ReadOnly, Sandbox::WorkspaceWrite] {
        let bench = Workbench::new().await;
        let repository = Repository::new(&bench);
        bench.model.script("go", Scenario::new().exec(repository.leave()).then_say("done"));
        let bridge = bench.open().await;
        let mut task = new(&bench, sandbox, Trust::Hostile);
        task.settings.cwd.clone_from(&repository.dir);
        task.settings.approval_policy = ApprovalMode::Untrusted;
        let id = bridge.start(task).await.unwrap().task.id.to_string();
        // The rule of the user is in effect: a task that asks is not at rest.
        assert_eq!(at_rest(&bridge, &id).await.task.status, Status::Completed);
        let output = bench.model.requests().last().unwrap().last_tool_output().unwrap();
        assert!(output.contains("everything was tried") && output.contains("NoNewPrivs:\t1"), "{output}");
        nothing("by a rule", &repository.sprung(), &Repository::words_told(&bench));
        bench.tidy(bridge).await;
    }
}

#[tokio::test]
async fn what_is_typed_into_an_accepted_shell_stays_in_its_sandbox_and_is_in_the_log() {
    let bench = Workbench::new().await;
    let repository = Repository::new(&bench);
    bench.model.script("go", Scenario::new().call(ToolCall::exec_in_terminal("bash -i")).then_say("it runs"));
    let bridge = bench.open().await;
    let mut task = new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile);
    task.settings.cwd.clone_from(&repository.dir);
    task.settings.approval_policy = ApprovalMode::Untrusted;
    let id = bridge.start(task).await.unwrap().task.id.to_string();
    asked(&bridge, &id).await;
    done(&bridge, &id).await;
    let told = bench.model.requests().last().unwrap().last_tool_output().unwrap();
    let session = told.split("session ID ").nth(1).unwrap();
    let session: String = session.chars().take_while(char::is_ascii_digit).collect();
    let session = session.parse().unwrap();
    let typed = format!("{}\n", repository.leave());
    let scenario = Scenario::new().call(ToolCall::write_stdin(session, &typed));
    bench.model.script("type", scenario.then_call(ToolCall::write_last(session, "exit\n")).then_say("done"));
    bridge.continue_task(&id, "type").await.unwrap();
    // Codex asks for none of it.
    let task = at_rest(&bridge, &id).await.task;
    assert_eq!(task.status, Status::Completed);
    let outputs = format!("{:?}", bench.model.requests().last().unwrap().tool_outputs());
    assert!(outputs.contains("everything was tried"), "{outputs}");
    // An interactive shell reads the profile of its user, in the sandbox.
    let sprung: Vec<&str> = repository.sprung().into_iter().filter(|trap| *trap != "profile").collect();
    nothing("typed", &sprung, &Repository::words_told(&bench));
    let events = bridge.events(&task.id, 0, 1000).await.unwrap();
    let lines: Vec<_> = events.iter().filter(|event| event.line.kind() == "terminal_input").collect();
    assert_eq!(json(lines[0])["text"], typed.as_str(), "{lines:?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn instructions_count_where_they_are_trusted_and_nothing_else_does_read_only() {
    check(Sandbox::ReadOnly, Trust::Instructions, instructions_alone).await;
}

#[tokio::test]
async fn instructions_count_where_they_are_trusted_and_nothing_else_does_workspace_write() {
    check(Sandbox::WorkspaceWrite, Trust::Instructions, instructions_alone).await;
}

#[tokio::test]
async fn a_trusted_repository_is_configured_by_its_own_files_read_only() {
    check(Sandbox::ReadOnly, Trust::Trusted, as_codex_does_it).await;
}

#[tokio::test]
async fn a_trusted_repository_is_configured_by_its_own_files_workspace_write() {
    check(Sandbox::WorkspaceWrite, Trust::Trusted, as_codex_does_it).await;
}

#[tokio::test]
async fn trust_that_is_taken_back_ends_with_the_next_turn() {
    let bench = Workbench::new().await;
    let repository = Repository::new(&bench);
    let config = bench.config();
    let roots = config.trusted_roots.clone();
    roots.replace([(repository.dir.clone(), Trust::Trusted)].into());
    let bridge = bench.open_with(config).await;
    let mut task = new(&bench, Sandbox::ReadOnly, Trust::Hostile);
    task.settings.cwd.clone_from(&repository.dir);
    let id = bridge.start(task).await.unwrap().task.id.to_string();
    done(&bridge, &id).await;
    assert!(repository.sprung().contains(&"mcp"), "its MCP server runs");

    roots.replace([].into());
    repository.set_again();
    bridge.continue_task(&id, "more").await.unwrap();
    done(&bridge, &id).await;
    assert_eq!(repository.sprung(), &[] as &[&str], "the thread was loaded as trusted, and is no longer");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn the_users_own_skills_go_on_working_beside_a_hostile_repository() {
    let bench = Workbench::new().await;
    let repository = Repository::new(&bench);
    let skill = |dir: PathBuf, name: &str| {
        fs::create_dir_all(dir.join(name)).unwrap();
        let text = format!("---\nname: {name}\ndescription: USERS-{name}\n---\nBODY-OF-{name}\n");
        fs::write(dir.join(name).join("SKILL.md"), text).unwrap();
    };
    skill(bench.home.codex_home().join("skills"), "deploy");
    skill(bench.home.user_home().join(".agents/skills"), "review");
    let mut config = bench.config();
    config.skills.dirs = vec![bench.home.user_home().join(".agents/skills")];
    config.skills.copies = Some(bench.home.dir().join("data/skills"));
    // As a model would: it reads the files that it was told of.
    let read = format!(
        "sleep 0.1; cat {}/*/SKILL.md {}/review/SKILL.md",
        bench.home.dir().join("data/skills").display(),
        config.skills.dirs[0].display()
    );
    bench.model.script("go", Scenario::new().exec(read).then_say("done"));
    let bridge = bench.open_with(config).await;
    let mut task = new(&bench, Sandbox::ReadOnly, Trust::Hostile);
    task.settings.cwd.clone_from(&repository.dir);
    let id = bridge.start(task).await.unwrap().task.id.to_string();
    done(&bridge, &id).await;
    let told = told_to(&bench);
    let copy = fs::read_dir(bench.home.dir().join("data/skills")).unwrap().next().unwrap().unwrap().path();
    for word in ["USERS-deploy", "USERS-review", &copy.join("SKILL.md").display().to_string()] {
        assert!(told.contains(word), "{word} is not told: {told}");
    }
    let output = bench.model.requests().last().unwrap().last_tool_output().unwrap();
    assert!(output.contains("BODY-OF-deploy") && output.contains("BODY-OF-review"), "{output}");
    nothing("beside the user's skills", &repository.sprung(), &Repository::words_told(&bench));
    bench.tidy(bridge).await;
}
