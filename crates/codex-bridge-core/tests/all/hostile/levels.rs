//! Which level of trust holds for which turn, also for tasks of earlier versions.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{SystemTime, UNIX_EPOCH};

use codex_bridge_core::place::Place;
use codex_bridge_core::trust::Trust;
use codex_session::{ApprovalMode, Decision, Sandbox};
use scripted_model::Scenario;

use super::repository::Repository;
use super::{done, new, told_to};
use crate::workbench::{Workbench, asked, decide, eventually, json};

#[tokio::test]
async fn a_turn_keeps_its_level_through_a_restart_and_the_next_one_gets_that_of_now() {
    let bench = Workbench::new().await;
    let dir = bench.home.workspace().canonicalize().unwrap();
    bench.model.script("go", Scenario::new().exec("touch made.txt").then_say("made"));
    let config = bench.config();
    config.trusted_roots.replace([(dir.clone(), Trust::Trusted)].into());
    let bridge = bench.open_with(config).await;
    let mut task = new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile);
    task.settings.approval_policy = ApprovalMode::Untrusted;
    let id = bridge.start(task).await.unwrap().task.id.to_string();
    asked(&bridge, &id).await;
    bridge.abandon().await;

    let bridge = bench.open().await;
    let view = asked(&bridge, &id).await;
    assert_eq!((view.trust, view.open_requests[0].ask.trust), (Trust::Hostile, Some(Trust::Trusted)));
    decide(&bridge, &id, Decision::Accept, "ada").await.unwrap();
    assert_eq!(done(&bridge, &id).await.settings.trust_of_turn, Some(Trust::Trusted));
    assert!(dir.join("made.txt").exists());
    bridge.continue_task(&id, "more").await.unwrap();
    assert_eq!(done(&bridge, &id).await.settings.trust_of_turn, Some(Trust::Hostile));
    bench.tidy(bridge).await;
}

/// The store of the first version, with its task made to belong to this thread and this directory. All else is as that
/// version wrote it.
fn put_first_version(bench: &Workbench, thread_id: &str, cwd: &str) {
    let database = bench.home.dir().join("state/tasks.db");
    for file in fs::read_dir(database.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        if file.file_name().to_str().unwrap().starts_with("tasks.db") {
            fs::remove_file(file.path()).unwrap();
        }
    }
    fs::write(&database, include_bytes!("../../data/v1/bridge.sqlite3")).unwrap();
    let old = rusqlite::Connection::open(&database).unwrap();
    let settings: String = old
        .query_row("SELECT settings FROM tasks WHERE id = 'codex-000000000001'", [], |row| row.get(0))
        .unwrap();
    assert!(!settings.contains("trust") && !settings.contains("place"), "{settings}");
    let settings = settings
        .replace("/srv/with space/ünï", cwd)
        .replace("\"/home/someone/.codex\"", "null")
        .replace("\"gpt-x\"", "null");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    old.execute(
        "UPDATE tasks SET settings = ?1, thread_id = ?2, parked = NULL, limits = '{}', updated_at = ?3, completed_at = ?3 \
         WHERE id = 'codex-000000000001'",
        (&settings, thread_id, i64::try_from(now.as_millis()).unwrap()),
    )
    .unwrap();
    old.execute_batch(
        "UPDATE turns SET progress = 'ended'; DELETE FROM tasks WHERE id = 'codex-000000000002';",
    )
    .unwrap();
}

#[tokio::test]
async fn a_task_of_the_first_version_goes_on_within_the_bounds_of_this_one() {
    let bench = Workbench::new().await;
    let repository = Repository::new(&bench);
    let bridge = bench.open().await;
    let mut first = new(&bench, Sandbox::ReadOnly, Trust::Hostile);
    first.settings.cwd.clone_from(&repository.dir);
    let first = bridge.start(first).await.unwrap();
    let thread_id = done(&bridge, first.task.id.as_str()).await.thread_id.unwrap();
    assert_eq!(bridge.stop_hosts().await, Vec::<String>::new());
    drop(bridge);
    // The database is let go of when the bridge has ended.
    drop(bench.store().await);

    put_first_version(&bench, thread_id.as_str(), repository.dir.to_str().unwrap());
    let secret = bench.home.dir().join("state/secret");
    fs::write(&secret, "OUR-SECRET").unwrap();
    let look =
        format!("sleep 0.1; cat {}; grep NoNewPrivs /proc/self/status; touch made.txt", secret.display());
    bench.model.script("look", Scenario::new().exec(&look).then_say("done"));
    let mut bounds = bench.config();
    bounds.denied = vec![bench.home.dir().join("state")];
    let bridge = bench.open_with(bounds).await;
    let id = "codex-000000000001";
    let old = bridge.show(id).await.unwrap();
    assert_eq!((old.trust, old.task.settings.place), (Trust::Hostile, None), "{old:?}");
    bridge.continue_task(id, "look").await.unwrap();
    let task = done(&bridge, id).await;
    assert_eq!(task.thread_id, Some(thread_id), "it goes on with what it knows");
    assert_eq!((repository.sprung(), Repository::words_told(&bench)), (Vec::new(), Vec::new()));
    repository.assert_users_files_unchanged(&bench, "an old task");
    let told = told_to(&bench);
    assert!(told.contains("NoNewPrivs:\\t1") && !told.contains("NoNewPrivs:\\t0"), "{told}");
    assert!(told.contains("Permission denied") && !told.contains("OUR-SECRET"), "{told}");
    assert!(repository.dir.join("made.txt").exists(), "it may write where it could");
    assert_eq!(task.settings.place, Some(Place::of(&repository.dir).unwrap()), "and is pinned from now on");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn instructions_that_do_not_count_are_told_in_the_log_and_to_nobody_else() {
    let bench = Workbench::new().await;
    let dir = bench.home.workspace().canonicalize().unwrap();
    let secret = bench.home.dir().join("secret");
    fs::write(&secret, "OUR-SECRET").unwrap();
    symlink(&secret, dir.join("AGENTS.md")).unwrap();
    let bridge = bench.open().await;
    let id = bridge.start(new(&bench, Sandbox::ReadOnly, Trust::Instructions)).await.unwrap().task.id;
    done(&bridge, id.as_str()).await;
    let events = bridge.events(&id, 0, 100).await.unwrap();
    let warning = events.iter().find(|event| event.line.kind() == "warning").unwrap();
    let message = json(warning)["message"].as_str().unwrap().to_owned();
    assert_eq!(message, format!("{} does not count: it is a link", dir.join("AGENTS.md").display()));
    assert!(!told_to(&bench).contains("OUR-SECRET"));
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn instructions_that_are_a_link_to_a_secret_are_not_read_in_a_hostile_directory() {
    for name in ["AGENTS.md", "AGENTS.override.md"] {
        let bench = Workbench::new().await;
        let secret = bench.home.dir().join("secret");
        fs::write(&secret, "OUR-SECRET").unwrap();
        symlink(&secret, bench.home.workspace().join(name)).unwrap();
        let bridge = bench.open().await;
        let task = new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile);
        let id = bridge.start(task).await.unwrap().task.id.to_string();
        done(&bridge, &id).await;
        assert!(!told_to(&bench).contains("OUR-SECRET"), "{name}");
        bench.tidy(bridge).await;
    }
}

#[tokio::test]
async fn below_a_trusted_directory_only_its_own_configuration_counts() {
    let bench = Workbench::new().await;
    let repository = Repository::new(&bench);
    let config = bench.config();
    // The repository is trusted; a command in it may write the configuration of a part of it.
    let root = repository.dir.parent().unwrap().to_owned();
    config.trusted_roots.replace([(root, Trust::Trusted)].into());
    let bridge = bench.open_with(config).await;
    let mut task = new(&bench, Sandbox::ReadOnly, Trust::Hostile);
    task.settings.cwd.clone_from(&repository.dir);
    let id = bridge.start(task).await.unwrap().task.id.to_string();
    done(&bridge, &id).await;
    assert_eq!(repository.sprung(), ["mcp-above"], "what the root says, and not what the part says");
    repository.assert_users_files_unchanged(&bench, "below a trusted directory");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_task_above_a_trusted_directory_plants_nothing_in_it() {
    let bench = Workbench::new().await;
    let dir = bench.home.workspace().canonicalize().unwrap();
    let trusted = dir.join("part/trusted");
    fs::create_dir_all(&trusted).unwrap();
    let config = bench.config();
    config.trusted_roots.replace([(trusted.clone(), Trust::Trusted)].into());
    let plant = "sleep 0.1; mkdir part/trusted/.codex && echo PLANTED; mv part away && mkdir -p part/trusted/.codex && \
                 echo REPLACED; touch part/trusted/file && echo WRITTEN; touch here && echo it can write";
    bench.model.script("go", Scenario::new().exec(plant).then_say("done"));
    let bridge = bench.open_with(config).await;
    let id =
        bridge.start(new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile)).await.unwrap().task.id.to_string();
    done(&bridge, &id).await;
    let output = bench.model.requests().last().unwrap().last_tool_output().unwrap();
    assert!(output.contains("it can write"), "{output}");
    for word in ["PLANTED", "REPLACED", "WRITTEN"] {
        assert!(!output.contains(word), "{output}");
    }
    assert!(!trusted.join(".codex").exists());
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn the_users_mcp_servers_find_no_code_in_a_hostile_repository() {
    for (trust, expected) in [(Trust::Hostile, "/"), (Trust::Instructions, "/"), (Trust::Trusted, "")] {
        let bench = Workbench::new().await;
        let dir = bench.home.workspace().canonicalize().unwrap();
        let expected = if expected.is_empty() { dir.display().to_string() } else { expected.to_owned() };
        let trace = bench.home.dir().join("where");
        let config = fs::read_to_string(bench.home.codex_home().join("config.toml")).unwrap();
        bench.home.write_config(&format!(
            "{config}\n[mcp_servers.search]\ncommand = \"sh\"\nargs = [\"-c\", \"pwd > {}\"]\n",
            trace.display()
        ));
        let bridge = bench.open().await;
        let id = bridge.start(new(&bench, Sandbox::ReadOnly, trust)).await.unwrap().task.id.to_string();
        done(&bridge, &id).await;
        let started_in =
            eventually(async || fs::read_to_string(&trace).unwrap_or_default(), |text| !text.is_empty())
                .await;
        assert_eq!(started_in.trim(), expected, "{trust}");
        bench.tidy(bridge).await;
    }
}
