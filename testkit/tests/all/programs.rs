//! Where the program is found and how it takes the place of codex.

use std::fs;
use std::process::Stdio;

use codex_binary::Search;
use serde_json::json;
use testkit::ScriptedServer;
use testkit::script::Script;

use crate::client::Client;

#[test]
fn it_passes_for_a_codex() {
    let server = ScriptedServer::new(Script::new());
    let search = Search { explicit: Some(server.program()), ..Search::default() };
    let found = codex_binary::find(&search).unwrap();
    assert_eq!(found.version.to_string(), "0.166.0");
    let older = ScriptedServer::new(Script::new().version("0.1.2"));
    let output = std::process::Command::new(older.program()).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "codex-cli 0.1.2\n");
}

#[tokio::test]
async fn it_takes_the_arguments_of_codex_and_records_how_it_was_started() {
    let server = ScriptedServer::new(Script::new());
    let mut command = server.command();
    command.args(["-c", "model=\"x\"", "--listen", "stdio://"]).env_clear().env("HOME", "/nowhere");
    let mut client = Client::spawn(command.current_dir("/"));
    client.initialize().await;
    client.finish().await;
    let start = server.starts().remove(0);
    assert_eq!(start.args, ["app-server", "-c", "model=\"x\"", "--listen", "stdio://"]);
    assert_eq!(start.cwd.to_str(), Some("/"));
    assert_eq!(json!(start.env), json!({ "HOME": "/nowhere" }));
}

#[tokio::test]
async fn a_copy_of_the_program_finds_its_script_by_codex_home_or_by_variables() {
    let server = ScriptedServer::new(Script::new());
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("codex");
    std::os::unix::fs::symlink(testkit::bin("scripted-app-server"), &copy).unwrap();
    let home = elsewhere.path().join("home");
    fs::create_dir(&home).unwrap();
    server.attach_to_home(&home);
    for variables in [vec![("CODEX_HOME", home)], server.env().to_vec()] {
        let mut command = tokio::process::Command::new(&copy);
        command.env_clear().envs(variables).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = Client::spawn(&mut command);
        client.initialize().await;
        assert_eq!(client.finish().await, (Some(0), String::new()));
    }
    assert_eq!(server.starts().len(), 2);
    assert_eq!(server.calls("initialize").len(), 2);
}

#[test]
fn without_a_script_it_says_so() {
    let output =
        std::process::Command::new(testkit::bin("scripted-app-server")).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no script"));
}
