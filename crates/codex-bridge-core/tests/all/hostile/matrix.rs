//! What a repository gets: by sandbox, by trust, and by the way in which its thread comes to be opened.

use std::fs;
use std::path::PathBuf;

use codex_bridge_core::bridge::NewBranch;
use codex_bridge_core::task::Task;
use codex_bridge_core::trust::Trust;
use codex_bridge_core::{Bridge, OnHostLoss};
use codex_session::Sandbox;
use codex_wire::host::Stop;
use rustix::process::{Pid, Signal, kill_process};
use scripted_model::Scenario;

use super::repository::Repository;
use super::{done, new, told_to};
use crate::workbench::Workbench;

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
    for trap in ["filter", "submodule", "hook", "profile", "mcp-json", "agent"] {
        assert!(!sprung.contains(&trap), "{when}: {sprung:?}");
    }
    assert!(words.contains(&"REPOSITORY-INSTRUCTIONS"), "{when}: {words:?}");
}

/// Runs a task in all ways: begun, continued, in a branch, taken up after its host was killed in mid-turn, and on a host that
/// never saw it.
async fn check(sandbox: Sandbox, trust: Trust, judge: Judge) {
    let bench = Workbench::new().await;
    let repository = Repository::new(&bench);
    let look = "git rev-parse --is-inside-work-tree; grep NoNewPrivs /proc/self/status; sleep 0.1";
    let plant = repository.plant();
    bench.model.script("go", Scenario::new().exec(look).then_exec(plant).then_say("done"));
    bench.model.script("die", Scenario::new().exec(look).then().stall("dying").then_say("done"));
    let mut config = bench.config();
    config.on_host_loss = OnHostLoss::Resume;
    let bridge = bench.open_with(config).await;
    let after = |when: &'static str| {
        println!("{sandbox:?} {trust:?} {when}");
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
