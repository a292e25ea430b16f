//! The life of a host whom nobody harms, on the real Codex.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use codex_wire::host::holder::{Holder, holder_of};
use codex_wire::host::{Error, Found, Host, Launch, Stop, find, find_all};
use codex_wire::os::process::{self, Process};
use futures_util::FutureExt;
use rustix::process::Signal;
use scripted_model::{Scenario, ScriptedModel};
use serde_json::json;
use testkit::rig::Home;
use testkit::wait_until;
use tokio::net::UnixListener;

use crate::host_rig::{
    Client, LONG, STUBBORN_MCP, environment_of, home_with, host_in, launch_in, start_children,
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_launched_host_answers_and_is_all_that_its_record_says() {
    let home = home_with("");
    let host = host_in(&home).await;
    let (record, our_pid) = (host.record(), std::process::id());

    assert!(host.is_alive() && host.has_keeper());
    assert!(host.is_healthy(LONG).await);
    Client::connect(&host).await;

    let codex = process::stat(record.codex.pid).unwrap();
    assert_eq!(
        (codex.process, codex.parent, codex.session),
        (record.codex, record.keeper.pid, record.keeper.pid)
    );
    assert_ne!(process::stat(our_pid).unwrap().session, record.keeper.pid);
    assert_eq!(record.boot_id, process::boot_id().unwrap());
    assert_eq!(
        host.epoch().0,
        format!("{}:{}:{}", record.boot_id, record.codex.pid, record.codex.start_ticks)
    );
    assert_eq!(record.codex_home, home.codex_home());
    assert!(host.rss_bytes().unwrap() > 10 << 20);
    assert!(host.age() < LONG);
    assert_eq!(host.exit().await, None);
    assert_eq!(mode(host.dir()), 0o700);
    assert_eq!(mode(&host.dir().join("host.json")), 0o600);
    assert_eq!(find(host.dir()).unwrap(), Some(Found::Alive(host.clone())));

    host.stop(Stop::Drain { grace: LONG }).await.unwrap();
    assert!(!host.is_alive() && !host.has_keeper());
    assert_eq!(host.exit().await.unwrap().code, Some(0));
    assert!(matches!(find(host.dir()).unwrap(), Some(Found::Dead { exit: Some(_), .. })));
    assert!(matches!(host.connect_stream().await, Err(Error::Gone { .. })));
    assert!(!host.is_healthy(LONG).await);
    home.assert_no_processes().await;
    let keeper = record.keeper;
    let forgotten = || process::stat(keeper.pid).is_none_or(|stat| stat.process != keeper);
    wait_until(LONG, "the keeper to be no zombie of ours", forgotten).await;
    host.stop(Stop::Now).await.unwrap();
}

// peer: C13, C14, C16, C17, C18, T10
#[tokio::test]
async fn codex_sees_home_its_own_home_and_the_providers_key_but_no_other_secret() {
    let home = Home::with_config("model_providers.mine.env_key = \"MINE_KEY\"\nanalytics.enabled = false\n");
    let mut launch = launch_in(&home, "h");
    for name in ["MINE_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "TELEGRAM_BOT_TOKEN", "GATEWAY_RELAY_SECRET"] {
        launch.parent_env.insert(name.to_owned(), "s3cret".to_owned());
    }
    launch.parent_env.insert("CODEX_HOME".to_owned(), "/somewhere/else".to_owned());
    let host = Host::launch(&launch).await.unwrap();
    for pid in [host.record().codex.pid, host.record().keeper.pid] {
        let env = environment_of(pid);
        assert_eq!(env["HOME"], home.user_home().to_string_lossy());
        assert_eq!(env["CODEX_HOME"], home.codex_home().to_string_lossy());
        assert_eq!(env["CODEX_BRIDGE_HOST"], host.id());
        assert_eq!((env["MINE_KEY"].as_str(), env["OPENAI_API_KEY"].as_str()), ("s3cret", "s3cret"));
        let secrets: Vec<_> = env.iter().filter(|(_, value)| *value == "s3cret").collect();
        assert_eq!(secrets.len(), 2, "{secrets:?}");
    }
    let files = fs::read_dir(host.dir()).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|path| path.is_file()) {
        assert!(!fs::read_to_string(&file).unwrap().contains("s3cret"), "{}", file.display());
    }
    host.stop(Stop::Now).await.unwrap();
}

#[tokio::test]
async fn a_socket_path_that_does_not_fit_is_refused_with_its_length() {
    let home = home_with("");
    let launch = launch_in(&home, &"x".repeat(120));
    let error = Host::launch(&launch).await.unwrap_err();
    assert!(matches!(error, Error::SocketPathTooLong { .. }));
    assert!(error.to_string().contains("the system allows 107"), "{error}");
    assert!(!launch.dir.exists());
}

#[tokio::test]
async fn a_codex_that_does_not_start_is_explained_and_leaves_nothing() {
    let home = home_with("");
    let missing = Launch { codex: home.dir().join("nothing"), ..launch_in(&home, "a") };
    let error = Host::launch(&missing).await.unwrap_err().to_string();
    assert!(error.contains("codex did not start: cannot start") && error.contains("No such file"), "{error}");

    let refused = Launch { config: vec!["no equals sign".to_owned()], ..launch_in(&home, "b") };
    let error = Host::launch(&refused).await.unwrap_err().to_string();
    assert!(
        error.contains("codex exited with code") && error.contains("the end of its stderr:\n"),
        "{error}"
    );

    let mut no_keeper = launch_in(&home, "c");
    no_keeper.keeper.program = home.dir().join("nothing");
    assert!(Host::launch(&no_keeper).await.unwrap_err().to_string().contains("cannot start"));
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_codex_that_never_answers_is_given_up_and_ended() {
    let home = home_with("");
    let script = home.dir().join("silent");
    fs::write(&script, "#!/bin/sh\necho 'I will not listen' >&2\ntrap '' TERM\nwhile :; do sleep 1; done\n")
        .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let launch = Launch { codex: script, ready_timeout: Duration::from_secs(1), ..launch_in(&home, "h") };
    let error = Host::launch(&launch).await.unwrap_err();
    assert!(matches!(error, Error::NotReady { .. }), "{error}");
    assert!(error.to_string().contains("I will not listen"), "{error}");
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_directory_with_a_living_host_is_not_used_twice_but_that_of_a_dead_one_is() {
    let home = home_with("");
    let host = host_in(&home).await;
    let again = launch_in(&home, "h");
    assert!(matches!(Host::launch(&again).await, Err(Error::Occupied { id, .. }) if id == host.id()));
    host.stop(Stop::Now).await.unwrap();
    let next = Host::launch(&again).await.unwrap();
    assert_ne!(next.epoch(), host.epoch());
    assert_eq!(next.exit().await, None);
    next.stop(Stop::Now).await.unwrap();
}

#[tokio::test]
async fn paths_may_be_relative_to_where_we_are() {
    let home = home_with("");
    let mut launch = launch_in(&home, "h");
    let up = "../".repeat(std::env::current_dir().unwrap().components().count() - 1);
    let relative = |path: &Path| Path::new(&up).join(path.strip_prefix("/").unwrap());
    launch.codex = relative(&launch.codex);
    launch.keeper.program = relative(&launch.keeper.program);
    launch.identity.codex_home = launch.identity.codex_home.as_deref().map(relative);
    // The way up is long; the socket's path must not be.
    launch.dir = home.dir().join("ws/../h");
    let host = Host::launch(&launch).await.unwrap();
    assert!(host.record().codex_executable.is_absolute());
    assert!(home.codex_home().join("installation_id").exists());
    host.stop(Stop::Now).await.unwrap();
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_directory_that_is_open_to_others_is_refused_and_left_as_it_is() {
    let home = home_with("");
    let launch = launch_in(&home, "h");
    fs::create_dir(&launch.dir).unwrap();
    fs::set_permissions(&launch.dir, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(Host::launch(&launch).await, Err(Error::DirNotPrivate { .. })));
    assert_eq!(mode(&launch.dir), 0o755);
}

#[tokio::test]
async fn whoever_else_listens_on_the_socket_is_not_taken_for_codex() {
    let home = home_with("");
    let host = host_in(&home).await;
    let socket = &host.record().socket;
    fs::remove_file(socket).unwrap();
    let _impostor = UnixListener::bind(socket).unwrap();
    let error = host.connect_stream().await.unwrap_err();
    let ours = i32::try_from(std::process::id()).unwrap();
    assert!(matches!(error, Error::WrongPeer { found: Some(found), .. } if found == ours), "{error}");
    host.stop(Stop::Now).await.unwrap();
}

/// A host that says when it drains, with a turn on it that waits for `gate`.
async fn host_with_turn(home: &Home, model: &ScriptedModel) -> Host {
    model.script("wait", Scenario::new().stall("gate").say("done"));
    let mut launch = launch_in(home, "h");
    launch.env.set.insert("RUST_LOG".to_owned(), "info".to_owned());
    let host = Host::launch(&launch).await.unwrap();
    let mut client = Client::connect(&host).await;
    let thread = client.start_thread(home).await;
    let input = json!([{"type": "text", "text": "wait", "text_elements": []}]);
    client.call("turn/start", json!({"threadId": thread, "input": input})).await;
    model.wait_for_stall("gate").await;
    host
}

fn says(host: &Host, text: &str) -> bool {
    host.stderr_tail(usize::MAX).now_or_never().unwrap().iter().any(|line| line.contains(text))
}

#[tokio::test]
async fn a_drain_lets_the_running_turn_finish() {
    let model = ScriptedModel::start().await.unwrap();
    let home = Home::new(&model.base_url());
    let host = host_with_turn(&home, &model).await;
    let draining = async {
        wait_until(LONG, "codex to drain", || says(&host, "entering graceful restart drain")).await;
        assert!(host.is_alive(), "codex waits for the turn");
        model.release("gate");
    };
    let (stopped, ()) = tokio::join!(host.stop(Stop::Drain { grace: LONG }), draining);
    stopped.unwrap();
    assert_eq!(host.exit().await.unwrap().code, Some(0));
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_second_drain_does_not_hurry_the_first() {
    let model = ScriptedModel::start().await.unwrap();
    let home = Home::new(&model.base_url());
    let host = host_with_turn(&home, &model).await;
    let until_drained = host.stop(Stop::Drain { grace: LONG });
    let second = async {
        wait_until(LONG, "codex to drain", || says(&host, "entering graceful restart drain")).await;
        let again = host.stop(Stop::Drain { grace: LONG });
        let release = async {
            // As long as a hurried end would take, and a little more.
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(host.is_alive(), "the turn was interrupted");
            model.release("gate");
        };
        tokio::join!(again, release).0
    };
    let (first, second) = tokio::join!(until_drained, second);
    first.unwrap();
    second.unwrap();
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_drain_that_takes_too_long_becomes_a_stop() {
    let model = ScriptedModel::start().await.unwrap();
    let home = Home::new(&model.base_url());
    let host = host_with_turn(&home, &model).await;
    host.stop(Stop::Drain { grace: Duration::from_millis(300) }).await.unwrap();
    assert!(says(&host, "entering graceful restart drain"));
    assert!(!host.is_alive());
    assert_eq!(host.exit().await.unwrap().code, Some(0), "the second signal is enough");
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_customary_sigterm_to_the_keeper_ends_the_whole_host() {
    let home = home_with(STUBBORN_MCP);
    let host = host_in(&home).await;
    let children = start_children(&host, &home).await;
    assert!(host.record().keeper.signal(Signal::TERM).unwrap());
    wait_until(LONG, "the keeper to end", || !host.has_keeper()).await;
    assert_eq!(children.alive(), [false, false]);
    assert_eq!(host.exit().await.unwrap().orphaned, Vec::<u32>::new());
    home.assert_no_processes().await;
}

// peer: T31
#[tokio::test]
async fn an_mcp_server_that_ignores_the_end_of_its_input_is_gone_after_a_stop() {
    let home = home_with(STUBBORN_MCP);
    let host = host_in(&home).await;
    let children = start_children(&host, &home).await;
    assert_eq!(children.alive(), [true, true]);
    host.stop(Stop::Drain { grace: LONG }).await.unwrap();
    assert_eq!(children.alive(), [false, false]);
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_codex_that_hangs_is_not_healthy_and_can_still_be_stopped() {
    let home = home_with("");
    let host = host_in(&home).await;
    let codex: Process = host.record().codex;
    // Its threads stop one by one: the first connection, or a SIGTERM, may still get through.
    let hang = async || {
        codex.signal(Signal::STOP).unwrap();
        let hangs = async { while host.is_healthy(Duration::from_millis(200)).await {} };
        tokio::time::timeout(LONG, hangs).await.unwrap();
    };
    hang().await;
    codex.signal(Signal::CONT).unwrap();
    assert!(host.is_healthy(LONG).await);
    hang().await;
    host.stop(Stop::Now).await.unwrap();
    assert_eq!(host.exit().await.unwrap().signal, Some(9));
    home.assert_no_processes().await;
}

#[tokio::test]
async fn the_holder_of_a_thread_is_named() {
    let home = home_with("");
    let host = host_in(&home).await;
    let thread = Client::connect(&host).await.start_thread(&home).await;
    let Holder { pid, command } = holder_of(&thread).unwrap();
    assert_eq!(pid, host.record().codex.pid);
    assert!(command.contains("codex app-server"), "{command}");
    host.stop(Stop::Now).await.unwrap();
    assert_eq!(holder_of(&thread), None);
}

#[tokio::test]
async fn all_hosts_below_a_root_are_found_whatever_else_lies_there() {
    let home = home_with("");
    let (first, second) = (launch_in(&home, "hosts/a"), launch_in(&home, "hosts/b"));
    let (first, second) = (Host::launch(&first).await.unwrap(), Host::launch(&second).await.unwrap());
    let root = home.dir().join("hosts");
    fs::create_dir(root.join("empty")).unwrap();
    fs::create_dir(root.join("broken")).unwrap();
    fs::write(root.join("broken/host.json"), "{half").unwrap();
    fs::write(root.join("file"), "").unwrap();
    second.stop(Stop::Now).await.unwrap();
    let found = find_all(&root);
    let found: Vec<_> =
        found.iter().map(|(dir, found)| (dir.file_name().unwrap().to_str().unwrap(), found)).collect();
    assert!(matches!(
        found.as_slice(),
        [("a", Ok(Found::Alive(alive))), ("b", Ok(Found::Dead { .. })), ("broken", Err(Error::Io { .. }))] if *alive == first
    ));
    first.stop(Stop::Now).await.unwrap();
}
