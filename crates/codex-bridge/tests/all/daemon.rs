//! The daemon: started on the way, one per state directory, gone without taking its hosts along.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use scripted_model::Scenario;
use serde_json::{Value, json};

use crate::shell::{PATIENCE, Shell, until};

#[tokio::test]
async fn a_daemon_that_was_started_on_the_way_shares_nothing_with_its_caller() {
    let shell = Shell::new().await;
    // The shell waits for every holder of the pipe behind `$(…)` and of descriptor 9.
    let program = env!("CARGO_BIN_EXE_codex-bridge");
    let script = format!("exec 9>&1; out=$({program} --json ps 2>&1); echo \"got $out\"");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).env_clear().envs(shell.env()).current_dir(shell.home.workspace());
    let began = Instant::now();
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "got []\n");
    assert!(began.elapsed() < PATIENCE);

    let pid = shell.daemon().unwrap();
    let proc = |name: &str| format!("/proc/{pid}/{name}");
    assert_eq!(fs::read_link(proc("cwd")).unwrap().to_str(), Some("/"));
    let stat = codex_wire::os::process::stat(pid).unwrap();
    assert_eq!(stat.session, pid, "a session of its own");
    let leads_to = |fd: &str| fs::read_link(proc(&format!("fd/{fd}"))).unwrap();
    assert_eq!(leads_to("0").to_str(), Some("/dev/null"));
    for fd in ["1", "2"] {
        assert_eq!(leads_to(fd), shell.home.dir().join("st/daemon.log"), "{fd}");
    }
    let mode = |name: &str| fs::metadata(shell.home.dir().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("st"), 0o700);
    for name in ["st/daemon.sock", "st/daemon.log", "st/daemon.lock", "st/tasks.db", "st/seal.key"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    shell.end().await;
}

#[tokio::test]
async fn a_log_that_has_grown_too_long_is_put_aside_and_the_doctor_says_where() {
    let shell = Shell::new().await;
    let log = shell.home.dir().join("st/daemon.log");
    fs::File::create(&log).unwrap().set_len(10 * 1024 * 1024 + 1).unwrap();
    shell.run(&["ps"]).await.ok();
    assert!(fs::read_to_string(&log).unwrap().contains("listens on"));
    assert!(fs::metadata(shell.home.dir().join("st/daemon.log.1")).unwrap().len() > 10 * 1024 * 1024);
    let found = shell.run(&["doctor"]).await.out;
    let line = found.lines().find(|line| line.contains("log  ")).unwrap_or_else(|| panic!("{found}"));
    assert!(line.contains(log.to_str().unwrap()) && line.contains("daemon.log.1"), "{line}");
    shell.end().await;
}

#[tokio::test]
async fn a_log_that_grows_while_the_daemon_runs_is_put_aside_at_the_next_line() {
    let shell = Shell::new().await;
    shell.run(&["ps"]).await.ok();
    let log = shell.home.dir().join("st/daemon.log");
    fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(10 * 1024 * 1024 + 1).unwrap();
    shell.run(&["stop"]).await.ok();
    let size = |name: &str| fs::metadata(shell.home.dir().join(name)).unwrap().len();
    assert!(size("st/daemon.log.1") > 10 * 1024 * 1024);
    assert!(size("st/daemon.log") < 1024 * 1024);
    shell.end().await;
}

#[tokio::test]
async fn without_autostart_a_command_says_that_none_runs() {
    let shell = Shell::new().await;
    let said = shell.run(&["--json", "--no-autostart", "ps"]).await;
    assert_eq!((said.code, &said.failure()["code"]), (1, &json!("daemon_not_running")));
    assert!(said.failure()["hint"].as_str().unwrap().contains("codex-bridge serve"));
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn many_first_commands_at_once_get_one_daemon() {
    let shell = Shell::new().await;
    let ps = || async { shell.run(&["--json", "ps"]).await.ok() };
    let all = tokio::join!(ps(), ps(), ps(), ps(), ps(), ps());
    assert_eq!(all.5.json(), json!([]));
    let listening = shell.log_with("listens on").await;
    assert_eq!(listening.matches("listens on").count(), 1, "{listening}");
    shell.end().await;
}

#[tokio::test]
async fn a_command_that_meets_a_dying_daemon_starts_the_next_one_soon() {
    let shell = Shell::new().await;
    let state_dir = shell.home.dir().join("st");
    fs::create_dir_all(&state_dir).unwrap();
    fs::set_permissions(&state_dir, fs::Permissions::from_mode(0o700)).unwrap();
    // As one that does not listen any more, and is not gone yet.
    let dying = fs::File::create(state_dir.join("daemon.lock")).unwrap();
    dying.lock().unwrap();
    let began = Instant::now();
    let dies = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(dying);
    };
    let (said, ()) = tokio::join!(shell.run(&["--json", "ps"]), dies);
    assert_eq!(said.ok().json(), json!([]));
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    shell.end().await;
}

#[tokio::test]
async fn a_second_daemon_says_who_holds_the_state_directory() {
    let shell = Shell::new().await;
    shell.run(&["ps"]).await.ok();
    let said = shell.run(&["--json", "serve"]).await;
    assert_eq!((said.code, &said.failure()["code"]), (1, &json!("daemon_held")));
    let message = said.failure()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("pid {}", shell.daemon().unwrap())), "{message}");
    shell.end().await;
}

// peer: T25
#[tokio::test]
async fn a_stop_leaves_the_hosts_and_the_next_daemon_goes_on_with_them() {
    let shell = Shell::new().await;
    let id = shell.start("go [play] delta Once => stall here => say upon a time.").await;
    shell.model.wait_for_stall("here").await;
    let before = shell.run(&["--json", "show", &id]).await.ok().json();
    let stopped = shell.run(&["--json", "stop"]).await.ok().json();
    assert_eq!(stopped["hosts_left"], 1);
    shell.model.release("here");
    let after = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await.ok().json();
    assert_eq!(after["status"], "completed");
    assert_eq!((&after["host"], &after["turn_id"]), (&before["host"], &before["turn_id"]), "the same turn");
    assert_eq!(shell.model.requests().len(), 1, "the prompt was sent once");
    shell.end().await;
}

#[tokio::test]
async fn a_stop_of_the_hosts_too_leaves_no_process_and_no_task_that_seems_to_work() {
    let shell = Shell::new().await;
    let id = shell.start("go [play] delta Once => stall here => say upon a time.").await;
    shell.model.wait_for_stall("here").await;
    let stopped = shell.run(&["--json", "stop", "--hosts"]).await.ok().json();
    assert_eq!((&stopped["hosts_left"], &stopped["failed"]), (&json!(0), &json!([])));
    shell.home.assert_no_processes().await;
    let task = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await.json();
    assert_eq!(task["status"], "lost", "{task:#}");
    shell.end().await;
}

#[tokio::test]
async fn a_stop_of_the_hosts_too_comes_to_its_end_when_its_caller_hangs_up() {
    let shell = Shell::new().await;
    shell.model.script("long", Scenario::new().delta("a").stall("there"));
    shell.run(&["run", "-d", "long"]).await.ok();
    shell.model.wait_for_stall("there").await;
    let stop = "POST /v1/stop HTTP/1.1\r\nhost: daemon\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{\"hosts\":true}";
    let mut caller = UnixStream::connect(shell.home.dir().join("st/daemon.sock")).unwrap();
    caller.write_all(stop.as_bytes()).unwrap();
    // Who leaves before anything was begun has asked for nothing.
    let ended = || {
        let hosts = fs::read_dir(shell.home.dir().join("st/hosts")).into_iter().flatten().flatten();
        let mut left = hosts.map(|host| host.path().join("exit.json").exists()).peekable();
        (left.peek().is_none() || left.any(|has_ended| has_ended)).then_some(())
    };
    until("the host to end", ended).await;
    drop(caller);
    shell.until_dead_at("a stop").await;
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn tasks_whose_hosts_were_stopped_too_are_resumed_once_by_the_next_daemon() {
    const TASKS: usize = 3;
    const RESUMED: &str = "The process that ran you died";
    let shell = Shell::new().await;
    let config = shell.home.dir().join("config.toml");
    let told = fs::read_to_string(&config).unwrap() + "on_host_loss = \"resume\"\n";
    fs::write(&config, told).unwrap();
    shell.model.script_containing(RESUMED, Scenario::new().say("went on"));
    let mut ids = Vec::new();
    for number in 0..TASKS {
        // Read-only: they share their directory.
        let prompt = format!("go {number} [play] delta Once => stall here{number} => say upon a time.");
        let said = shell.run(&["--json", "run", "-d", &prompt]).await.ok();
        ids.push(said.json()["task_id"].as_str().unwrap().to_owned());
        shell.model.wait_for_stall(&format!("here{number}")).await;
    }
    let stopped = shell.run(&["--json", "stop", "--hosts"]).await.ok().json();
    assert_eq!((&stopped["hosts_left"], &stopped["failed"]), (&json!(0), &json!([])));
    shell.home.assert_no_processes().await;
    let resumed = || {
        let requests = shell.model.requests();
        requests.iter().filter(|it| it.prompt().is_some_and(|prompt| prompt.contains(RESUMED))).count()
    };
    assert_eq!(resumed(), 0, "nothing is resumed by a daemon that stops");
    for id in &ids {
        let task = shell.run(&["--json", "wait", id, "--timeout", "120"]).await.ok().json();
        assert_eq!(
            (&task["status"], &task["final_text"]),
            (&json!("completed"), &json!("went on")),
            "{task:#}"
        );
        assert_eq!(
            (&task["used"]["turns"], &task["used"]["host_losses"]),
            (&json!(2), &json!(1)),
            "{task:#}"
        );
    }
    assert_eq!((resumed(), shell.model.requests().len()), (TASKS, 2 * TASKS));
    shell.end().await;
}

#[tokio::test]
async fn a_daemon_in_the_foreground_tells_systemd_and_ends_on_sigterm() {
    let shell = Shell::new().await;
    let notify = shell.home.dir().join("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = shell.command(&["serve"]);
    command.env("NOTIFY_SOCKET", &notify).stderr(Stdio::piped());
    let mut daemon = command.spawn().unwrap();
    let heard = || {
        let mut line = [0; 64];
        let length = manager.recv(&mut line).unwrap();
        String::from_utf8_lossy(&line[..length]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    shell.run(&["--no-autostart", "ps"]).await.ok();
    kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
    assert_eq!(heard(), "STOPPING=1");
    let status = until("the daemon's end", || daemon.try_wait().unwrap()).await;
    assert!(status.success(), "{status}");
    assert!(!shell.home.dir().join("st/daemon.sock").exists());
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn those_who_wait_are_told_when_the_daemon_stops() {
    let shell = Shell::new().await;
    let id = shell.start("go [play] delta Once => stall here => say upon a time.").await;
    shell.model.wait_for_stall("here").await;
    let stop = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        shell.run(&["stop"]).await.ok()
    };
    let (waited, stopped) = tokio::join!(async { shell.run(&["--json", "wait", &id]).await }, stop);
    drop(stopped);
    // It is told, or it has found the next daemon by itself.
    assert!(waited.code != 0, "{}", waited.out);
    shell.model.release("here");
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    shell.end().await;
}

#[tokio::test]
async fn a_wrong_configuration_is_told_by_the_command_that_needed_the_daemon() {
    let shell = Shell::new().await;
    let config = shell.home.dir().join("config.toml");
    let right = fs::read_to_string(&config).unwrap();
    for (wrong, words) in [
        ("max_running = 0\n", "at least 1"),
        ("max_runing = 3\n", "unknown field"),
        ("max_running = \"many\"\n", "invalid type"),
        ("roots = [\"work\"]\n", "absolute path"),
        ("[profiles.x]\nsandbox = \"open\"\n", "unknown variant"),
    ] {
        fs::write(&config, format!("{right}{wrong}")).unwrap();
        let said = shell.run(&["--json", "ps"]).await;
        let failure = said.failure();
        assert_eq!((said.code, &failure["code"]), (2, &json!("config")), "{failure}");
        let message = failure["message"].as_str().unwrap();
        assert!(
            message.contains(words) && message.contains("config.toml") && !message.contains('\n'),
            "{message}"
        );
    }
    fs::remove_file(&config).unwrap();
    assert_eq!(
        shell.run(&["--json", "ps"]).await.failure()["code"],
        "config",
        "a file that was named must be there"
    );
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn a_codex_that_is_missing_or_too_old_has_its_own_sentence() {
    let shell = Shell::new().await;
    let config = shell.home.dir().join("config.toml");
    fs::write(&config, "codex_bin = \"/no/such/codex\"\n").unwrap();
    let missing = shell.run(&["--json", "run", "-d", "hello"]).await.failure();
    assert_eq!(missing["code"], "codex_missing");
    assert!(missing["message"].as_str().unwrap().contains("npm i -g @openai/codex"));

    let old = shell.home.dir().join("codex-old");
    fs::write(&old, "#!/bin/sh\necho codex-cli 0.40.0\n").unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&config, format!("codex_bin = {old:?}\n")).unwrap();
    let too_old = shell.run(&["--json", "run", "-d", "hello"]).await.failure();
    assert_eq!(too_old["code"], "codex_too_old");
    assert!(too_old["message"].as_str().unwrap().contains("0.40.0"), "{too_old}");
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn a_state_directory_whose_name_is_too_long_for_sockets_works_all_the_same() {
    let shell = Shell::new().await;
    let long = shell.home.dir().join("x".repeat(120));
    let there = ["--state-dir", long.to_str().unwrap()];
    let runtime = shell.home.dir().join("run");
    fs::create_dir(&runtime).unwrap();
    let run = |words: &[&str]| {
        let mut command = shell.command(&[&there[..], words].concat());
        command.env("XDG_RUNTIME_DIR", &runtime);
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let output = run(&["--json", "run", "-d", "hello [play] say Hello."]).await.unwrap();
    let started: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let waited = run(&["wait", started["task_id"].as_str().unwrap(), "--timeout", "120"]).await.unwrap();
    assert!(waited.status.success(), "{waited:?}");
    assert!(long.join("tasks.db").exists() && !long.join("daemon.sock").exists());
    let stopped = run(&["stop", "--hosts"]).await.unwrap();
    assert!(stopped.status.success(), "{stopped:?}");
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn a_caller_with_another_codex_home_is_warned() {
    let shell = Shell::new().await;
    let said = shell.run(&["ps"]).await.ok();
    assert!(!said.err.contains("CODEX_HOME"), "{}", said.err);
    let mut command = shell.command(&["ps"]);
    command.env("CODEX_HOME", "/somewhere/else");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let home = shell.home.codex_home();
    assert!(
        err.contains("warning") && err.contains(home.to_str().unwrap()) && err.contains("/somewhere/else"),
        "{err}"
    );
    shell.end().await;
}

// peer: T24
#[tokio::test]
async fn the_thread_of_a_released_task_can_be_opened_by_codex_itself_and_continued_later() {
    let shell = Shell::new().await;
    let id = shell.start("hello [play] say Hello.").await;
    let task = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await.ok().json();
    shell.run(&["release", &id]).await.ok();
    let thread = task["thread_id"].as_str().unwrap().to_owned();
    let resume = shell
        .home
        .codex(["exec", "resume", &thread, "again [play] say Again.", "--skip-git-repo-check"])
        .output();
    let output = tokio::time::timeout(PATIENCE, resume).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("Again."), "{output:?}");
    shell.run(&["continue", &id, "-d", "third [play] say Third."]).await.ok();
    let task = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await.ok().json();
    assert_eq!(task["final_text"], "Third.");
    shell.end().await;
}
