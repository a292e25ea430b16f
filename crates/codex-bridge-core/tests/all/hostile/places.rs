//! The directory of a task, the user's own files, and hosts that do not keep the rules.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use codex_bridge_core::place::{Place, ProtectedDirs};
use codex_bridge_core::task::Status;
use codex_bridge_core::trust::Trust;
use codex_session::Sandbox;
use scripted_model::{Scenario, ToolCall};
use testkit::rig::codex_path;

use super::{done, new};
use crate::workbench::{Workbench, at_rest};

#[tokio::test]
async fn a_directory_that_was_swapped_for_a_link_is_refused_with_what_happened() {
    let bench = Workbench::new().await;
    let dir = bench.home.workspace().canonicalize().unwrap();
    let bridge = bench.open().await;
    let mut task = new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile);
    task.settings.place = Some(Place::of(&dir).unwrap());
    let id = bridge.start(task).await.unwrap().task.id.to_string();
    done(&bridge, &id).await;
    fs::rename(&dir, dir.with_file_name("away")).unwrap();
    symlink("/etc", &dir).unwrap();
    bridge.continue_task(&id, "more").await.unwrap();
    let task = at_rest(&bridge, &id).await.task;
    let error = task.error.unwrap();
    assert_eq!((task.status, error.kind.as_str()), (Status::Failed, "breach"));
    assert!(error.message.contains("has become a link to /etc"), "{}", error.message);
    assert_eq!(bench.model.requests().len(), 1, "nothing was sent");
    let audit = bridge.audit_log(None, None, 10).await.unwrap();
    assert!(audit.iter().any(|line| line.action == "alarm"), "{audit:?}");
    fs::remove_file(&dir).unwrap();
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn no_task_writes_where_its_own_rules_are_kept() {
    let bench = Workbench::new().await;
    let dir = bench.home.workspace().canonicalize().unwrap();
    let mut config = bench.config();
    config.protected = ProtectedDirs { ours: vec![dir.join("state")], ..ProtectedDirs::default() };
    let bridge = bench.open_with(config).await;
    let writing = bridge.start(new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile)).await.unwrap();
    let refused = at_rest(&bridge, writing.task.id.as_str()).await.task;
    assert_eq!(refused.status, Status::Failed);
    assert!(refused.error.unwrap().message.contains("no task may write in"));
    let mut elsewhere = new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile);
    elsewhere.settings.cwd = bench.home.temp().canonicalize().unwrap();
    elsewhere.settings.writable_roots = vec![dir.clone()];
    let opened = bridge.start(elsewhere).await.unwrap();
    let refused = at_rest(&bridge, opened.task.id.as_str()).await.task.error.unwrap().message;
    assert!(refused.contains("no task may write in") && refused.contains("writable_roots"), "{refused}");
    let reading = bridge.start(new(&bench, Sandbox::ReadOnly, Trust::Hostile)).await.unwrap();
    done(&bridge, reading.task.id.as_str()).await;
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn an_entry_for_the_directory_in_the_users_file_stops_the_turn_and_is_an_alarm() {
    let bench = Workbench::new().await;
    let dir = bench.home.workspace().canonicalize().unwrap();
    bench.model.script(
        "go",
        Scenario::new().exec("true").then().stall("between").exec("touch later").then_say("done"),
    );
    let bridge = bench.open().await;
    let task = new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile);
    let id = bridge.start(task).await.unwrap().task.id.to_string();
    bench.model.wait_for_stall("between").await;
    let config = fs::read_to_string(bench.home.codex_home().join("config.toml")).unwrap();
    bench
        .home
        .write_config(&format!("{config}\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n", dir.display()));
    bench.model.release("between");
    let task = at_rest(&bridge, &id).await.task;
    let error = task.error.unwrap();
    assert_eq!((task.status, error.kind.as_str()), (Status::Failed, "breach"), "{error:?}");
    assert!(error.message.contains(&format!("got an entry for {}", dir.display())), "{}", error.message);
    let audit = bridge.audit_log(None, None, 10).await.unwrap();
    assert!(audit.iter().any(|line| line.action == "alarm"), "{audit:?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_host_whose_commands_can_read_what_is_denied_serves_nobody() {
    let bench = Workbench::new().await;
    // A codex that drops the permission profile from its command line.
    let script = bench.home.dir().join("codex-without-denials");
    let real = codex_path();
    let text = format!(
        "#!/bin/bash\nargs=()\nfor arg in \"$@\"; do args+=(\"${{arg//=\\\"deny\\\"/=\\\"read\\\"}}\"); done\nexec {} \"${{args[@]}}\"\n",
        real.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = bench.config();
    config.codex = script;
    let bridge = bench.open_with(config).await;
    let id = bridge.start(new(&bench, Sandbox::ReadOnly, Trust::Hostile)).await.unwrap().task.id.to_string();
    let task = at_rest(&bridge, &id).await.task;
    let error = task.error.unwrap();
    assert_eq!((task.status, error.kind.as_str()), (Status::Failed, "breach"), "{error:?}");
    assert!(error.message.contains("which is denied to them"), "{}", error.message);
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn directories_of_ours_that_are_not_there_yet_keep_no_command_from_running() {
    let bench = Workbench::new().await;
    let missing = bench.home.user_home().join("not/there/yet");
    let look = format!(
        "sleep 0.1; mkdir -p {0} && echo MADE; cat {0}/secret; test -e $TMPDIR/service || echo no service; echo it runs",
        missing.display()
    );
    // A command that may write everywhere: Codex could put something into the place of what is denied.
    let service = bench.home.dir().join("service");
    let let_out = format!("sleep 0.1; test -e {} || echo nor let out", service.display());
    let let_out = ToolCall::exec_escalated(let_out.as_str(), "why not");
    for (prompt, sandbox) in [("go", Sandbox::ReadOnly), ("on", Sandbox::WorkspaceWrite)] {
        let scenario = Scenario::new().exec(&look).then_call(let_out.clone());
        bench.model.script(prompt, scenario.then_say("done"));
        let mut config = bench.config();
        config.denied = vec![
            missing.clone(),
            missing.with_file_name("nor this"),
            "/run/no/such/service".into(),
            service.clone(),
        ];
        let bridge = bench.open_with(config).await;
        let mut task = new(&bench, sandbox, Trust::Hostile);
        task.prompt = prompt.to_owned();
        let id = bridge.start(task).await.unwrap().task.id.to_string();
        done(&bridge, &id).await;
        let output = format!("{:?}", bench.model.requests().last().unwrap().tool_outputs());
        assert!(output.contains("it runs") && !output.contains("MADE"), "{output}");
        assert!(output.contains("no service"), "none is made in its place: {output}");
        assert!(output.contains("nor let out"), "{output}");
        assert_eq!(bridge.stop_hosts().await, Vec::<String>::new());
    }
    bench.home.assert_no_processes().await;
}

#[tokio::test]
async fn a_service_that_starts_costs_no_turn_and_is_denied_to_the_next_one() {
    let bench = Workbench::new().await;
    let service = bench.home.dir().canonicalize().unwrap().join("service");
    let look = format!("sleep 0.1; cat {} && echo REACHED", service.display());
    bench.model.script("go", Scenario::new().stall("before").exec("true").then_say("done"));
    bench.model.script("more", Scenario::new().exec(&look).then_say("done"));
    let mut config = bench.config();
    config.denied = vec![service.clone()];
    let bridge = bench.open_with(config.clone()).await;
    let id =
        bridge.start(new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile)).await.unwrap().task.id.to_string();
    bench.model.wait_for_stall("before").await;
    let host = bridge.hosts()[0].epoch().clone();
    bridge.abandon().await;
    fs::write(&service, "listens").unwrap();
    let bridge = bench.open_with(config).await;
    bench.model.release("before");
    done(&bridge, &id).await;
    bridge.continue_task(&id, "more").await.unwrap();
    done(&bridge, &id).await;
    let hosts: Vec<_> = bridge.hosts().iter().map(|host| host.epoch().clone()).collect();
    assert_eq!(hosts, [host], "the same host served both turns");
    let output = bench.model.requests().last().unwrap().last_tool_output().unwrap();
    assert!(output.contains("Permission denied") && !output.contains("REACHED"), "{output}");
    bench.tidy(bridge).await;
}
