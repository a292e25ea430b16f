//! The strong set-up: the daemon under one user, hosts under another. A broken sandbox reaches neither store nor approvals.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use scripted_model::{Scenario, ToolCall};
use serde_json::Value;

use crate::two_users_rig::{As, TwoUsers, can_run};

#[tokio::test]
async fn a_command_that_was_approved_runs_as_the_hosts_user() {
    if !can_run() {
        return;
    }
    let users = TwoUsers::new().await;
    let id = users.start_asking("go [play] exec id -un > who.txt => say Done.").await;
    assert!(!users.workspace().join("who.txt").exists());
    users.approve(&id).await;
    let task = users.ended(&id).await;
    assert_eq!(task["status"], "completed", "{task:#}");
    let file = users.workspace().join("who.txt");
    assert_eq!(fs::read_to_string(&file).unwrap_or_else(|_| users.printed()), "cbtest-hosts\n");
    assert_eq!(fs::metadata(&file).unwrap().uid(), As::Hosts.uid());
    let hosts = users.hosts().await;
    let of_codex = hosts[0].record().codex;
    assert_eq!(codex_wire::os::process::users(of_codex.pid).unwrap()[0], As::Hosts.uid());
    // The daemon comes to it by a handle alone: nobody can look into its folder.
    let socket = hosts[0].record().socket.canonicalize().unwrap();
    assert_eq!(fs::metadata(socket.parent().unwrap()).unwrap().mode() & 0o077, 0);

    let findings = users.verb(&["doctor"]).await.ok().json();
    let said =
        |name: &str| findings.as_array().unwrap().iter().find(|finding| finding["name"] == name).unwrap();
    let both = said("users")["message"].as_str().unwrap();
    assert!(both.starts_with("hosts run as cbtest-hosts and the daemon as cbtest-daemon"), "{both}");
    assert_eq!((&said("hosts")["message"], &said("closed")["verdict"]), (&"1 running".into(), &"ok".into()));
    users.end().await;
}

#[tokio::test]
async fn what_breaks_out_of_the_sandbox_reaches_neither_store_nor_approvals() {
    if !can_run() {
        return;
    }
    let users = TwoUsers::new().await;
    let id = users.start_asking("go [play] exec touch made.txt => say Done.").await;
    let state = users.path("d");
    let bridge = format!(
        "CODEX_BRIDGE_STATE_DIR={} CODEX_BRIDGE_CONFIG=/dev/null {} --json --no-autostart",
        state.display(),
        users.program().display()
    );
    let socket = users.daemon_socket();
    let connect = format!(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'",
        socket.display()
    );
    for script in [
        format!("cat {}/tasks.db", state.display()),
        format!("cat {}/seal.key", state.display()),
        format!("cat {}", users.path("etc/config.toml").display()),
        format!("ls {}", state.display()),
        connect,
        format!("{bridge} approve {id}"),
        format!("{bridge} token create mine --role approver"),
        format!("kill -9 {}", users.daemon_pid()),
        format!("cat /proc/{}/environ", users.daemon_pid()),
        format!("head -c 1 /proc/{}/mem", users.daemon_pid()),
    ] {
        let said = users.broken_out(&script).await;
        assert_ne!(said.code, 0, "{script}\n{}{}", said.out, said.err);
        let told = format!("{}{}", said.out, said.err);
        let is_denied =
            ["ermission denied", "not permitted", "no_permission", "Errno 13", "daemon_not_running"];
        assert!(is_denied.iter().any(|word| told.contains(word)), "{script}\n{told}");
    }
    // For whoever may, they are all there.
    let readable = format!("cat {0}/seal.key && cat {0}/tasks.db > /dev/null && ls {0}", state.display());
    users.run(As::Daemon, Path::new("/bin/sh"), &["-c", &readable]).await.ok();

    let open = users.verb(&["requests", &id]).await.ok().json();
    assert_eq!(open.as_array().map(Vec::len), Some(1), "{open}");
    assert_eq!(users.verb(&["token", "list"]).await.ok().json().as_array().map(Vec::len), Some(0));
    assert!(!users.workspace().join("made.txt").exists());
    // Even where the daemon's directories are open, the socket knows the user.
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let said = users.broken_out(&format!("{bridge} approve {id}")).await;
    assert!(said.err.contains("peer_refused") && said.err.contains("another user"), "{}", said.err);
    users.end().await;
}

#[tokio::test]
async fn a_profile_without_a_sandbox_does_not_reach_the_daemon_either() {
    if !can_run() {
        return;
    }
    let users = TwoUsers::new().await;
    let waiting = users.start_asking("wait [play] exec touch made.txt => say Done.").await;
    let words = format!(
        "cat {}; {} --json --no-autostart --state-dir {} --config /dev/null approve {waiting}",
        users.path("d/seal.key").display(),
        users.program().display(),
        users.path("d").display()
    );
    let prompt = format!("go [play] exec {words} => say Tried.");
    // One task at a time works in a directory.
    let cwd = users.path("ws2");
    let run = ["run", "-d", "--profile", "open", "-C", cwd.to_str().unwrap(), &prompt];
    let id = users.verb(&run).await.ok().json()["task_id"].as_str().unwrap().to_owned();
    users.ended(&id).await;
    let printed = users.printed();
    assert!(printed.contains("Permission denied"), "{printed}");
    assert!(printed.contains("no_permission") || printed.contains("daemon_not_running"), "{printed}");
    assert!(!users.workspace().join("made.txt").exists());
    users.end().await;
}

#[tokio::test]
async fn a_sandboxed_command_sees_neither_the_launcher_nor_the_home_of_codex() {
    if !can_run() {
        return;
    }
    let users = TwoUsers::new().await;
    // A tmux would run programs for whoever can connect to it.
    let tmux = [As::Hosts, As::Daemon].map(|who| format!("h/tmp/tmux-{}", who.uid()));
    for dir in &tmux {
        users.write(&format!("{dir}/default"), "", As::Hosts);
    }
    let looks = [
        format!("ls {}/default", users.path(&tmux[0]).display()),
        format!("ls {}/default", users.path(&tmux[1]).display()),
        format!("ls {}/launcher.sock", users.path("run").display()),
        format!("cat {}", users.path("h/codex/config.toml").display()),
        format!("cat {}", users.path("etc/hosts.toml").display()),
        format!("ls {}/hosts", users.path("h/state").display()),
    ];
    for look in &looks {
        users.broken_out(look).await.ok();
    }
    let tried: Vec<String> = looks.iter().map(|look| format!("{look} > /dev/null || echo no")).collect();
    let id = users.start_asking(&format!("go [play] exec {} => say Tried.", tried.join("; "))).await;
    users.approve(&id).await;
    users.ended(&id).await;
    let printed = users.printed();
    assert_eq!(printed.matches("no\\n").count(), looks.len(), "{printed}");
    users.end().await;
}

#[tokio::test]
async fn an_escalated_command_is_told_apart_from_a_plain_one() {
    if !can_run() {
        return;
    }
    let users = TwoUsers::new().await;
    for (play, escalation) in [("escalate", "asked"), ("exec", "none")] {
        let id = users.start_asking(&format!("go [play] {play} touch made.txt => say Done.")).await;
        let open = users.verb(&["requests", &id]).await.ok().json();
        assert_eq!(open[0]["escalation"], escalation, "{open:#}");
        users.approve(&id).await;
        assert_eq!(users.ended(&id).await["status"], "completed");
    }
    users.end().await;
}

#[tokio::test]
async fn a_patch_in_a_directory_that_is_closed_to_the_daemon_counts_as_an_escalation() {
    if !can_run() {
        return;
    }
    let users = TwoUsers::new().await;
    for (dir, mode, escalation) in [("ws/open", 0o770, "none"), ("ws/closed", 0o700, "unknown")] {
        users.make_dir(dir, As::Hosts, mode);
        let file = users.path(dir).join("new.txt");
        let patch = ToolCall::add_file(file.to_str().unwrap(), "new\n");
        users.model.script(dir, Scenario::new().call(patch).then_say("Done."));
        let id = users.start_asking(dir).await;
        let open = users.verb(&["requests", &id]).await.ok().json();
        assert_eq!(open[0]["escalation"], escalation, "{open:#}");
        users.verb(&["decline", &id]).await.ok();
        users.ended(&id).await;
    }
    users.end().await;
}

#[tokio::test]
async fn an_entry_for_the_directory_in_the_file_of_the_hosts_user_stops_the_turn() {
    if !can_run() {
        return;
    }
    let users = TwoUsers::new().await;
    let id = users.start_asking("go [play] exec true => say Done.").await;
    let config = fs::read_to_string(users.path("h/codex/config.toml")).unwrap();
    let dir = users.workspace().display().to_string();
    let entry = format!("{config}\n[projects.\"{dir}\"]\ntrust_level = \"trusted\"\n");
    users.write("h/codex/config.toml", &entry, As::Hosts);
    users.approve(&id).await;
    let failed = until_status(&users, &id, "failed").await;
    assert_eq!(failed["error"]["kind"], "breach", "{failed:#}");
    assert!(failed.to_string().contains(&format!("got an entry for {dir}")), "{failed:#}");
    users.end().await;
}

#[tokio::test]
async fn tools_are_those_of_the_hosts_user_and_skills_are_neither_users() {
    if !can_run() {
        return;
    }
    let mut users = TwoUsers::new().await;
    users.kill_launcher();
    for dir in ["h/.local", "h/.local/bin", "h/codex/skills", "h/codex/skills/theirs"] {
        users.make_dir(dir, As::Hosts, 0o755);
    }
    for dir in ["d/.local", "d/.local/bin", "d/.agents", "d/.agents/skills", "d/.agents/skills/ours"] {
        users.make_dir(dir, As::Daemon, 0o755);
    }
    for (dir, owner) in [("h/codex/skills/theirs", As::Hosts), ("d/.agents/skills/ours", As::Daemon)] {
        users.write(&format!("{dir}/SKILL.md"), "---\ndescription: xyzzy\n---\n", owner);
    }
    users.start_launcher().await;
    // The daemon that knows the new PATH.
    users.kill_daemon();
    users.start_daemon().await;
    let id = users.start_asking("go [play] exec echo $PATH => say Done.").await;
    users.approve(&id).await;
    users.ended(&id).await;
    let printed = users.printed();
    assert!(printed.contains(users.path("h/.local/bin").to_str().unwrap()), "{printed}");
    assert!(!printed.contains(users.path("d/.local/bin").to_str().unwrap()), "{printed}");
    let asked = format!("{:?}", users.model.requests());
    assert!(asked.contains("echo $PATH") && !asked.contains("xyzzy"), "{asked}");
    users.end().await;
}

#[tokio::test]
async fn a_daemon_that_was_killed_takes_up_the_turn_and_its_open_approval() {
    if !can_run() {
        return;
    }
    let mut users = TwoUsers::new().await;
    let id = users.start_asking("go [play] exec echo once >> made.txt => say Done.").await;
    let before = users.hosts().await;
    users.kill_daemon();
    users.start_daemon().await;
    let asked = users.verb(&["wait", &id, "--timeout", "120"]).await;
    assert_eq!(asked.code, 3, "{}{}", asked.out, asked.err);
    users.approve(&id).await;
    let task = users.ended(&id).await;
    assert_eq!(task["status"], "completed", "{task:#}");
    assert_eq!(fs::read_to_string(users.workspace().join("made.txt")).unwrap(), "once\n");
    assert_eq!(users.hosts().await, before, "the host is the same");
    users.end().await;
}

#[tokio::test]
async fn a_launcher_that_was_killed_costs_no_turn_and_the_next_one_finds_the_hosts() {
    if !can_run() {
        return;
    }
    let mut users = TwoUsers::new().await;
    let id = users.start_asking("go [play] exec echo once >> made.txt => say Done.").await;
    let before = users.hosts().await;
    users.kill_launcher();
    assert!(before[0].is_alive() && before[0].has_keeper());
    // The connection to codex is the daemon's own: the turn goes on while no launcher runs.
    users.approve(&id).await;
    let task = users.ended(&id).await;
    assert_eq!(task["status"], "completed", "{task:#}");
    let next = users.start("more [play] say Hello.").await;
    users.start_launcher().await;
    assert_eq!(users.hosts().await, before);
    let task = users.ended(&next).await;
    assert_eq!(task["status"], "completed", "{task:#}");
    assert_eq!(users.hosts().await, before, "the new task is on the same host");
    users.end().await;
}

#[tokio::test]
async fn a_launcher_that_hangs_keeps_nobody_from_deciding() {
    if !can_run() {
        return;
    }
    let users = TwoUsers::new().await;
    let id = users.start_asking("go [play] exec touch made.txt => say Done.").await;
    users.signal_launcher(rustix::process::Signal::STOP);
    // These wait for the launcher, each for as long as it may take.
    for name in ["ws2/a", "ws2/b", "ws2/c", "ws2/d"] {
        users.make_dir(name, As::Hosts, 0o770);
        let cwd = users.path(name);
        users.verb(&["run", "-d", "-C", cwd.to_str().unwrap(), "more [play] say Hello."]).await.ok();
    }
    let began = std::time::Instant::now();
    users.approve(&id).await;
    // Whoever waits for the launcher gives up after ten seconds.
    assert!(began.elapsed() < std::time::Duration::from_secs(8), "it took {:?}", began.elapsed());
    let task = users.ended(&id).await;
    assert_eq!(task["status"], "completed", "{task:#}");
    users.signal_launcher(rustix::process::Signal::CONT);
    users.end().await;
}

#[tokio::test]
async fn a_launcher_that_hands_out_sockets_that_do_not_close_keeps_nobody_from_deciding() {
    if !can_run() {
        return;
    }
    let mut users = TwoUsers::new().await;
    let id = users.start_asking("go [play] exec touch made.txt => say Done.").await;
    users.kill_launcher();
    let socket = users.launcher_socket();
    let args = ["-c", include_str!("hostile_launcher.py"), socket.to_str().unwrap()];
    let mut hostile = users.command(As::Hosts, Path::new("/usr/bin/python3"), &args);
    let mut hostile = hostile.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut listens = String::new();
    BufReader::new(hostile.stdout.take().unwrap()).read_line(&mut listens).unwrap();
    assert_eq!(listens, "listens\n");
    for name in ["ws2/a", "ws2/b", "ws2/c", "ws2/d"] {
        users.make_dir(name, As::Hosts, 0o770);
        let cwd = users.path(name);
        users.verb(&["run", "-d", "-C", cwd.to_str().unwrap(), "more [play] say Hello."]).await.ok();
    }
    let began = std::time::Instant::now();
    users.approve(&id).await;
    assert!(began.elapsed() < std::time::Duration::from_secs(8), "it took {:?}", began.elapsed());
    hostile.kill().unwrap();
    hostile.wait().unwrap();
    users.start_launcher().await;
    users.end().await;
}

#[tokio::test]
async fn a_host_that_was_killed_is_told_with_how_it_ended() {
    if !can_run() {
        return;
    }
    let users = TwoUsers::new().await;
    let id = users.start_asking("go [play] exec touch made.txt => say Done.").await;
    let host = users.hosts().await.remove(0);
    host.record().codex.signal(rustix::process::Signal::KILL).unwrap();
    let lost = until_status(&users, &id, "lost").await;
    assert!(lost.to_string().contains("signal 9"), "{lost:#}");
    users.end().await;
}

#[tokio::test]
async fn only_the_daemons_user_and_root_get_anything_from_the_launcher() {
    if !can_run() {
        return;
    }
    let users = TwoUsers::new().await;
    // As if everybody could come to the socket: the caller's user is what counts.
    fs::set_permissions(users.path("run"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(users.launcher_socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let ask = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({:?})\ns.sendall(b'{{\"call\":\"about\"}}\\n')\nprint(s.recv(65536))",
        users.launcher_socket().to_str().unwrap()
    );
    for (who, is_served) in [(As::Daemon, true), (As::Nobody, false), (As::Hosts, false)] {
        let said = users.run(who, Path::new("/usr/bin/python3"), &["-c", &ask]).await;
        assert_eq!(said.out.contains("hosts_dir"), is_served, "{}{}", said.out, said.err);
        if !is_served {
            assert!(
                said.out.trim() == "b''"
                    || said.err.contains("BrokenPipe")
                    || said.err.contains("ConnectionReset"),
                "{}{}",
                said.out,
                said.err
            );
        }
    }
    assert_eq!(users.hosts().await.len(), 0, "root is answered");
    users.end().await;
}

#[tokio::test]
async fn a_daemon_does_not_take_its_own_user_or_a_stranger_for_the_launcher() {
    if !can_run() {
        return;
    }
    let mut users = TwoUsers::new().await;
    users.kill_daemon();
    // Somebody else may write where the socket is.
    fs::set_permissions(users.path("run"), fs::Permissions::from_mode(0o777)).unwrap();
    let mut daemon = users.service(As::Daemon);
    let refused = tokio::task::spawn_blocking(move || daemon.arg("--json").output().unwrap()).await.unwrap();
    let refused = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.contains("must belong to the launcher's user, and no one else may write there"),
        "{refused}"
    );
    fs::set_permissions(users.path("run"), fs::Permissions::from_mode(0o750)).unwrap();
    for who in [As::Hosts, As::Root] {
        let args = ["--json", "launcher", "--listen", "/nowhere/s", "--for", "cbtest-hosts"];
        let refused = users.run(who, &users.program(), &args).await.failure();
        assert!(refused["message"].as_str().unwrap().contains("hosts need their own user"), "{refused}");
    }
    users.start_daemon().await;
    users.end().await;
}

async fn until_status(users: &TwoUsers, id: &str, status: &str) -> Value {
    let began = std::time::Instant::now();
    loop {
        let task = users.verb(&["show", id]).await.ok().json();
        if task["status"] == status {
            return task;
        }
        assert!(began.elapsed() < crate::shell::PATIENCE, "{task:#}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
