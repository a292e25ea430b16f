//! How far directories are trusted: the owner's verb, what it writes, what follows for tasks, and where people see it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use codex_bridge_core::id::short;
use rustix::process::{Pid, test_kill_process};
use scripted_model::{Scenario, ToolCall};
use serde_json::{Value, json};

use crate::http_rig::Port;
use crate::shell::{Said, Shell, until};
use crate::tmux::Tmux;

fn config_file(shell: &Shell) -> PathBuf {
    shell.home.dir().join("config.toml")
}

fn config(shell: &Shell) -> String {
    fs::read_to_string(config_file(shell)).unwrap()
}

/// The workspace by its real path.
fn workspace(shell: &Shell) -> String {
    shell.home.workspace().canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// Gives the workspace an MCP server, which writes down its process and goes on.
fn add_mcp_server(shell: &Shell) -> PathBuf {
    let started = shell.home.dir().join("mcp-server.pid");
    let server = testkit::bin("scripted-model");
    let run = format!("echo $$ > {}; exec {} mcp-server", started.display(), server.display());
    let dir = shell.home.workspace().join(".codex");
    fs::create_dir(&dir).unwrap();
    let text = format!("[mcp_servers.evil]\ncommand = \"sh\"\nargs = [\"-c\", {run:?}]\n");
    fs::write(dir.join("config.toml"), text).unwrap();
    started
}

/// The process that was written down.
async fn process(file: &Path) -> Pid {
    until("the MCP server of the directory", || {
        fs::read_to_string(file).ok()?.trim().parse().ok().and_then(Pid::from_raw)
    })
    .await
}

async fn ended(shell: &Shell, id: &str) -> Value {
    let task = shell.run(&["--json", "wait", id, "--timeout", "120"]).await.ok().json();
    assert_eq!(task["status"], "completed", "{task:#}");
    task
}

#[tokio::test]
async fn a_level_is_set_and_taken_back_and_a_task_that_exists_follows_at_once() {
    let shell = Shell::new().await;
    let dir = workspace(&shell);
    let started = add_mcp_server(&shell);
    let before = format!("# mine\n{}\n[env] # few\npass = [\"X\"] # this one\n", config(&shell));
    fs::write(config_file(&shell), &before).unwrap();
    fs::set_permissions(config_file(&shell), fs::Permissions::from_mode(0o640)).unwrap();
    let id = shell.start("hello [play] say Hello.").await;
    assert_eq!(ended(&shell, &id).await["trust"], "instructions");
    assert!(!started.exists(), "nothing of the directory runs");

    let set = shell.run(&["--json", "trust", ".", "trusted", "--yes"]).await.ok().json();
    assert_eq!((&set["now"]["dir"], &set["now"]["trust"]), (&json!(dir), &json!("trusted")), "{set:#}");
    assert_eq!((&set["before"], &set["unchanged_tasks"]), (&Value::Null, &json!([])), "{set:#}");
    assert_eq!(config(&shell), format!("{before}\n[trust]\n\"{dir}\" = \"trusted\"\n"));
    assert_eq!(fs::metadata(config_file(&shell)).unwrap().permissions().mode() & 0o777, 0o640);
    shell.run(&["continue", &id, "more [play] say More."]).await.ok();
    assert_eq!(ended(&shell, &id).await["trust"], "trusted");
    let pid = process(&started).await;
    assert!(test_kill_process(pid).is_ok(), "it lives as long as the thread is loaded");

    let removed = shell.run(&["trust", "--remove", &dir]).await.ok().out;
    assert!(
        removed.contains("  instructions: ") && removed.contains("; the level was trusted\n"),
        "{removed}"
    );
    assert_eq!(config(&shell), format!("{before}\n[trust]\n"));
    until("the end of the MCP server", || test_kill_process(pid).is_err().then_some(())).await;
    fs::remove_file(&started).unwrap();
    shell.run(&["continue", &id, "again [play] say Again."]).await.ok();
    assert_eq!(ended(&shell, &id).await["trust"], "instructions");
    assert!(!started.exists(), "and does not come back");

    let audit = shell.run(&["--json", "audit"]).await.ok().json();
    let lines = audit.as_array().unwrap().iter().filter(|line| line["action"] == "trust");
    let details: Vec<&str> = lines.map(|line| line["detail"].as_str().unwrap()).collect();
    let expected =
        [format!("{dir}: trusted, before: the default"), format!("{dir}: the default, before: trusted")];
    assert_eq!(details, expected, "{audit:#}");
    shell.end().await;
}

#[tokio::test]
async fn what_a_trusted_directory_started_ends_with_the_turn_in_which_trust_was_taken_back() {
    let shell = Shell::new().await;
    let started = add_mcp_server(&shell);
    shell.run(&["trust", ".", "trusted", "--yes"]).await.ok();
    let (id, request) = shell.start_asking("go [play] exec touch made.txt => say Made.").await;
    assert_eq!(request["trust"], "trusted");
    let pid = process(&started).await;
    let removed = shell.run(&["trust", "--remove", "."]).await.ok().out;
    let told = format!("note: the former level applies to 1 task until the turn ends: {}\n", short(&id));
    assert!(removed.contains(&told), "{removed}");
    assert!(test_kill_process(pid).is_ok(), "the turn that runs is left alone");
    shell.approve(&id).await.ok();
    ended(&shell, &id).await;
    until("the end of the MCP server", || test_kill_process(pid).is_err().then_some(())).await;
    shell.end().await;
}

/// A command that runs on when its turn has ended, and writes into `sub` later.
fn late_writer(shell: &Shell) -> PathBuf {
    let sub = shell.home.workspace().join("sub");
    fs::create_dir(&sub).unwrap();
    let command = "touch began; sleep 6; mkdir -p sub/.codex; echo late > sub/.codex/config.toml; touch late";
    let call = ToolCall::function("exec_command", json!({"cmd": command, "yield_time_ms": 250}));
    shell.model.script("leave it", Scenario::new().call(call).then_say("left"));
    sub
}

#[tokio::test]
async fn what_a_finished_task_left_running_does_not_write_in_a_directory_that_becomes_trusted() {
    let shell = Shell::new().await;
    let sub = late_writer(&shell);
    let (id, _) = shell.start_asking("leave it").await;
    shell.approve(&id).await.ok();
    ended(&shell, &id).await;
    let began = shell.home.workspace().join("began");
    until("the command", || began.exists().then_some(())).await;
    shell.run(&["trust", "sub", "trusted", "--yes"]).await.ok();
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(!sub.join(".codex").exists(), "what was left running has written there");
    assert!(!shell.home.workspace().join("late").exists(), "it was left running");
    shell.end().await;
}

#[tokio::test]
async fn a_directory_in_which_a_running_task_can_write_cannot_become_trusted() {
    let shell = Shell::new().await;
    fs::create_dir(shell.home.workspace().join("sub")).unwrap();
    let (id, _) = shell.start_asking("go [play] exec touch sub/x => say Made.").await;
    let before = config(&shell);
    let refused = shell.run(&["trust", "sub", "trusted", "--yes"]).await;
    assert!(
        refused.code != 0
            && refused.err.contains(&format!("while these tasks can write in it: {}", short(&id))),
        "{}",
        refused.err
    );
    assert_eq!(config(&shell), before);
    shell.run(&["trust", "sub", "instructions"]).await.ok();
    shell.run(&["decline", &id]).await.ok();
    ended(&shell, &id).await;
    shell.run(&["trust", "sub", "trusted", "--yes"]).await.ok();
    shell.end().await;
}

#[tokio::test]
async fn what_holds_is_shown_with_the_reason_and_all_of_it_is_listed() {
    let shell = Shell::new().await;
    let dir = workspace(&shell);
    fs::create_dir(shell.home.workspace().join("sub")).unwrap();
    symlink("sub", shell.home.workspace().join("link")).unwrap();
    let said = shell.run(&["trust", "."]).await.ok().out;
    let expected = "  instructions: its AGENTS.md is read, nothing else of it configures Codex\n  \
        the default for a person at the terminal; for agents and remote callers it is hostile\n";
    assert_eq!(said, format!("{dir}\n{expected}"));
    let none = shell.run(&["trust", "--list"]).await.ok().out;
    assert!(none.starts_with("everywhere: instructions for a person at the terminal"), "{none}");

    let set = shell.run(&["trust", "link", "hostile"]).await.ok().out;
    assert!(
        set.starts_with(&format!("{dir}/sub\n  hostile: nothing of the directory configures Codex\n")),
        "{set}"
    );
    assert!(
        set.contains(&format!("note: {dir}/link is a link to {dir}/sub; the level applies to the latter")),
        "{set}"
    );
    shell.run(&["trust", &dir, "instructions"]).await.ok();
    let of_sub = shell.run(&["--json", "trust", "sub/../sub"]).await.ok().json();
    assert_eq!((&of_sub["trust"], &of_sub["decided_by"]), (&json!("hostile"), &json!(format!("{dir}/sub"))));
    assert_eq!(of_sub["warnings"], json!([]), "no link is in the way");
    let list = shell.run(&["--json", "trust", "--list"]).await.ok().json();
    let listed = |index: usize, key: &str| list["directories"][index][key].clone();
    assert_eq!((listed(0, "dir"), listed(0, "trust")), (json!(dir), json!("instructions")), "{list:#}");
    assert_eq!((listed(1, "trust"), listed(1, "problem")), (json!("hostile"), Value::Null), "{list:#}");
    // What an agent hands over goes by it, too.
    let start = json!({"action": "start", "prompt": "go [play] say Done.", "cwd": dir}).to_string();
    let id = shell.run(&["tool", &start]).await.ok().json()["task_id"].as_str().unwrap().to_owned();
    assert_eq!(ended(&shell, &id).await["trust"], "instructions");

    // One that is gone is told, and can be forgotten.
    fs::remove_dir(shell.home.workspace().join("sub")).unwrap();
    let list = shell.run(&["trust", "--list"]).await.ok().out;
    assert!(list.contains("/sub  hostile       (the directory does not exist)\n"), "{list}");
    shell.run(&["trust", "--remove", "sub"]).await.ok();
    let again = shell.run(&["--json", "trust", "--remove", "sub"]).await;
    assert_eq!((again.code, &again.failure()["code"]), (2, &json!("unknown_directory")));
    shell.end().await;
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_in_one_sentence_and_changes_nothing() {
    let shell = Shell::new().await;
    let before = config(&shell);
    let home = shell.home.user_home().canonicalize().unwrap();
    let (home, state) = (home.to_str().unwrap(), shell.home.dir().join("st"));
    fs::write(shell.home.workspace().join("file"), "").unwrap();
    symlink("nowhere", shell.home.workspace().join("dangling")).unwrap();
    let refused = [
        (vec![".", "trusted"], "not_confirmed", "there is no terminal to ask on"),
        (vec!["none", "hostile"], "bad_directory", "/none does not exist"),
        (vec!["dangling", "hostile"], "bad_directory", "is a link to something that does not exist"),
        (vec!["file", "hostile"], "bad_directory", "/file is a file"),
        (
            vec![home, "trusted", "--yes"],
            "bad_directory",
            "cannot be trusted: it holds the whole home directory",
        ),
        (
            vec!["/", "trusted", "--yes"],
            "bad_directory",
            "/ cannot be trusted: it holds the whole home directory",
        ),
        (vec![state.to_str().unwrap(), "hostile"], "bad_directory", "keeps its own files"),
        (vec![".", "full"], "usage", "use hostile, instructions or trusted"),
    ];
    for (words, code, why) in refused {
        let said = shell.run(&[&["--json", "trust"], &words[..]].concat()).await;
        let failure = said.failure();
        assert_eq!((said.code, &failure["code"]), (2, &json!(code)), "{words:?}: {failure}");
        assert!(failure["message"].as_str().unwrap().contains(why), "{words:?}: {failure}");
    }
    let unconfirmed = shell.run(&["trust", ".", "trusted"]).await;
    assert!(
        unconfirmed.err.contains("trusted --yes` skips the question; its .codex/ then takes effect"),
        "{}",
        unconfirmed.err
    );
    assert_eq!(config(&shell), before);
    // The home as a whole may have its instructions read, and whoever says so is told what that covers.
    let wide = shell.run(&["trust", home, "instructions"]).await.ok().out;
    assert!(
        wide.contains("is not an ordinary project directory: it holds the whole home directory"),
        "{wide}"
    );

    // What is wrong in the file is said, and the file stays as it is.
    let wrong = format!("{}\"work\" = \"trusted\"\n", config(&shell));
    fs::write(config_file(&shell), &wrong).unwrap();
    let said = shell.run(&["--json", "trust", ".", "hostile"]).await;
    let line = wrong.lines().count();
    let told = said.failure()["message"].as_str().unwrap().to_owned();
    assert!(
        told.contains(&format!("line {line}, \"work\": a directory in [trust] must be an absolute path")),
        "{told}"
    );
    assert_eq!(config(&shell), wrong);
    shell.end().await;
    assert!(!told.contains('\n'), "{told}");
}

#[tokio::test]
async fn a_mistake_in_the_file_stops_the_daemon_with_its_line_and_a_missing_directory_does_not() {
    let shell = Shell::new().await;
    let before = config(&shell);
    let with = |lines: &str| fs::write(config_file(&shell), format!("{before}\n[trust]\n{lines}")).unwrap();
    let line = before.lines().count() + 3;
    for (entry, why) in [
        (
            "\"work\" = \"hostile\"\n",
            "a directory in [trust] must be an absolute path, such as /home/me/work",
        ),
        ("\"/srv\" = \"full\"\n", "unknown trust level \"full\": use hostile, instructions or trusted"),
    ] {
        with(entry);
        let failure = shell.run(&["--json", "ps"]).await.failure();
        let told = failure["message"].as_str().unwrap();
        assert!(told.contains(&format!("config.toml, line {line}, ")) && told.ends_with(why), "{told}");
    }
    with("\"/no/such/place\" = \"trusted\"\n");
    shell.run(&["ps"]).await.ok();
    let told = findings(&shell.run(&["--json", "doctor"]).await.ok());
    assert_eq!(
        (&told[1]["verdict"], &told[1]["message"]),
        (&json!("warning"), &json!("/no/such/place (trusted): the directory does not exist"))
    );
    assert_eq!(told[1]["fix"], "`codex-bridge trust --remove /no/such/place` removes the level");
    shell.end().await;
}

/// What the doctor says about trust.
fn findings(said: &Said) -> Vec<Value> {
    let all = said.json();
    all.as_array().unwrap().iter().filter(|finding| finding["name"] == "trust").cloned().collect()
}

#[tokio::test]
async fn the_doctor_lists_levels_and_names_the_default_and_what_was_edited_since() {
    let shell = Shell::new().await;
    let dir = workspace(&shell);
    let default = findings(&shell.run(&["--json", "doctor"]).await.ok());
    assert_eq!((default.len(), &default[0]["verdict"]), (1, &json!("ok")));
    assert!(default[0]["message"].as_str().unwrap().starts_with("everywhere: instructions for a person"));
    shell.run(&["trust", ".", "hostile"]).await.ok();
    let told = findings(&shell.run(&["--json", "doctor"]).await.ok());
    let expected = format!("{dir}  hostile: nothing of the directory configures Codex");
    assert_eq!((told.len(), &told[1]["message"]), (2, &json!(expected)), "{told:?}");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(config_file(&shell), config(&shell).replace("hostile", "instructions")).unwrap();
    let told = findings(&shell.run(&["--json", "doctor"]).await.ok());
    assert_eq!(
        told[1]["message"],
        format!("{dir} (instructions): every user of the machine can write in the directory")
    );
    assert!(told[2]["message"].as_str().unwrap().contains("when it was started"), "{told:?}");
    shell.end().await;
}

#[tokio::test]
async fn only_the_owner_decides_and_neither_agents_nor_tokens_nor_commands_of_codex_do() {
    let port = Port::new().await;
    let profile = "[profiles.open]\nsandbox = \"danger-full-access\"\napproval_policy = \"never\"\n";
    port.configure("", profile);
    let shell = &port.shell;
    let (before, dir) = (config(shell), workspace(shell));
    let trust = json!({"dir": dir, "level": "trusted"});
    shell.run(&["ps"]).await.ok();
    for role in ["operator", "approver"] {
        let lent = port.local("POST", "/v1/trust", &trust).header("x-codex-bridge-lent", role).send().await;
        assert_eq!(lent.problem(), (403, "forbidden".into()), "{role}");
    }
    let token = port.token("phone", "approver").await;
    for path in ["/v1/trust", "/v1/trust/remove"] {
        let remote = port.post(path, &trust).token(&token).send().await;
        assert_eq!(remote.problem(), (403, "forbidden".into()), "{path}");
    }
    let remote = port.get("/v1/trust").token(&token).send().await;
    assert_eq!(remote.problem().0, 403, "nor do they see which directories there are");
    let program = env!("CARGO_BIN_EXE_codex-bridge");
    let state = shell.home.dir().join("st");
    let call = format!("{program} --json --state-dir {} trust . trusted --yes 2>&1", state.display());
    let prompt = format!("go [play] exec {call} => say Tried.");
    let id = shell.run(&["--json", "run", "-d", "--profile", "open", &prompt]).await.ok().json();
    ended(shell, id["task_id"].as_str().unwrap()).await;
    let told: String = shell.model.requests().iter().map(|request| request.body.to_string()).collect();
    assert!(told.contains("peer_refused"), "{told}");
    assert_eq!(config(shell), before);
    let list = shell.run(&["--json", "trust", "--list"]).await.ok().json();
    assert_eq!(list["directories"], json!([]));
    port.shell.end().await;
}

#[tokio::test]
async fn a_person_is_told_what_trusting_means_and_asked_for_a_yes() {
    let shell = Shell::new().await;
    let dir = workspace(&shell);
    // The daemon is there when the question comes, so that no key comes too early.
    shell.run(&["ps"]).await.ok();
    let tmux = Tmux::new(&shell, 100, 40);
    tmux.line("codex-bridge trust . trusted");
    let screen = tmux.see("Type yes to trust it:").await;
    for words in [
        format!("If you trust {dir} and everything below it:"),
        "every task starts the MCP servers in its .codex/, outside the sandbox and as your user".into(),
        "commands that its .codex/ rules allow run without approval".into(),
    ] {
        assert!(screen.contains(&words), "{words}\n{screen}");
    }
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    tmux.line("no");
    tmux.see("error: nothing was changed").await;
    assert!(!config(&shell).contains("[trust]"));
    tmux.line("clear; codex-bridge trust . trusted");
    until("another question", || tmux.screen().starts_with("If you trust").then_some(())).await;
    tmux.see("Type yes to trust it:").await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    tmux.line("yes");
    tmux.see("written to ").await;
    assert!(config(&shell).ends_with(&format!("[trust]\n\"{dir}\" = \"trusted\"\n")), "{}", config(&shell));
    // Nothing is asked when less is trusted.
    tmux.line("clear; codex-bridge trust . hostile");
    tmux.see("the level was trusted").await;
    drop(tmux);
    shell.end().await;
}

#[tokio::test]
async fn show_the_card_and_the_page_say_what_holds_and_a_turn_keeps_its_level() {
    let port = Port::new().await;
    let shell = &port.shell;
    let line = "hostile: nothing of the directory configures Codex";
    shell.run(&["trust", ".", "hostile"]).await.ok();
    let (id, request) = shell.start_asking("go [play] exec touch made.txt => say Made.").await;
    assert_eq!(request["trust"], "hostile", "{request:#}");
    let shown = shell.run(&["show", &id]).await.ok().out;
    assert!(shown.contains(&format!("\n  trust   {line}\n")), "{shown}");
    assert!(shown.contains(&format!("\n  Repository  {line}\n")), "{shown}");
    let nothing = json!({});
    for path in [format!("/tasks/{id}"), "/approvals".to_owned()] {
        let page = port.local("GET", &path, &nothing).send().await.ok().body;
        assert!(
            page.contains(&format!("<dt>Repository</dt><dd class=\"text\">{line}</dd>")),
            "{path}: {page}"
        );
    }
    let page = port.local("GET", &format!("/tasks/{id}"), &nothing).send().await.ok().body;
    assert!(page.contains(&format!("<dt>Repository</dt><dd>{line}</dd>")), "{page}");
    assert!(page.contains(">repository: hostile</span>"), "{page}");

    // The turn runs on as it was opened; whoever changes the level is told so.
    let changed = shell.run(&["--json", "trust", ".", "instructions"]).await.ok().json();
    assert_eq!(changed["unchanged_tasks"], json!([id]), "{changed:#}");
    let open = shell.run(&["--json", "requests", &id]).await.ok().json();
    assert_eq!(open[0]["trust"], "hostile", "{open:#}");
    let task = shell.run(&["--json", "show", &id]).await.ok().json();
    assert_eq!(task["trust"], "instructions", "that is what the next turn gets: {task:#}");
    shell.approve(&id).await.ok();
    ended(shell, &id).await;
    port.shell.end().await;
}

#[tokio::test]
async fn who_runs_in_the_home_directory_gets_read_only_and_is_told_why() {
    let port = Port::new().await;
    let shell = &port.shell;
    let home = shell.home.user_home().canonicalize().unwrap();
    let home = home.to_str().unwrap();
    let run = ["run", "-C", home, "-s", "workspace-write", "go [play] say Done."];
    let said = shell.run(&run).await.ok();
    let why =
        format!("read-only, because tasks may not write in {home}: it holds the whole home directory {home}");
    assert!(said.err.starts_with(&format!("note: {why}")) && said.err.contains("-C DIR"), "{}", said.err);
    assert!(said.out.starts_with("Done.\n"), "{}", said.out);
    let begun = shell.run(&[&["--json"], &run[..1], &["-d"], &run[1..]].concat()).await.ok();
    assert_eq!(begun.err, "");
    assert!(begun.json()["narrowed"].as_str().unwrap().starts_with(&why), "{}", begun.out);
    let id = begun.json()["task_id"].as_str().unwrap().to_owned();
    let task = ended(shell, &id).await;
    assert!(task["narrowed"].as_str().unwrap().starts_with(&why), "{task:#}");
    assert_eq!(task["sandbox"], "read-only");
    let shown = shell.run(&["show", &id]).await.ok().out;
    let line = shown.lines().position(|line| line == "  sandbox read-only, asks: untrusted").unwrap();
    assert!(shown.lines().nth(line + 1).unwrap().starts_with("          read-only, because"), "{shown}");
    let page = port.local("GET", &format!("/tasks/{id}"), &json!({})).send().await.ok().body;
    assert!(page.contains(&format!("id=\"narrowed\">{why}")), "{page}");
    // Elsewhere nobody is told anything.
    let said = shell.run(&["run", "-s", "workspace-write", "go [play] say Done."]).await.ok();
    assert_eq!(said.err, "");
    port.shell.end().await;
}
