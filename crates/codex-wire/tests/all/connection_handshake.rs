//! The handshake, with servers of all kinds.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codex_wire::connection::{Connection, Error, Handshake};
use codex_wire::peer::CallError;
use codex_wire::transport::stdio::{self, Spawn};
use codex_wire::{Epoch, contract};
use futures_util::FutureExt;
use serde_json::json;
use testkit::ScriptedServer;
use testkit::rig::codex_path;
use testkit::script::{self, Script};

use crate::peer_rig::LONG;

/// Shakes hands with a scripted server, then ends it. The server's process must follow the end of the transport.
async fn shake(script: Script, handshake: Handshake) -> (Result<Connection, Error>, ScriptedServer) {
    let server = ScriptedServer::new(script);
    let (transport, child) = stdio::spawn(&Spawn::new(server.program(), BTreeMap::new())).unwrap();
    let opened = Connection::open(transport, handshake).await;
    if let Ok(connection) = &opened {
        connection.peer.close();
    }
    assert!(child.wait(LONG).await.is_some(), "the transport was not closed");
    server.assert_no_processes().await;
    (opened, server)
}

fn plain() -> Handshake {
    Handshake::new(Epoch::from("epoch-1"))
}

// peer: T35
#[tokio::test]
async fn initialize_is_sent_exactly_once_with_who_we_are_and_what_we_want() {
    let (opened, server) = shake(Script::new(), plain()).await;
    let connection = opened.unwrap();
    assert_eq!(connection.server.version.unwrap().to_string(), "0.166.0");
    assert_eq!(connection.server.codex_home.as_deref(), Some("/codex"));
    assert_eq!(connection.server.warning, None);
    assert_eq!(connection.epoch.as_str(), "epoch-1");

    let received = server.received();
    let methods: Vec<_> = received.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "initialized"]);
    let params = &received[0]["params"];
    assert_eq!(params["clientInfo"]["name"], "codex_bridge");
    assert_eq!(params["clientInfo"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(params["capabilities"]["experimentalApi"], true);
    let unwanted = params["capabilities"]["optOutNotificationMethods"].as_array().unwrap();
    assert!(unwanted.contains(&json!("thread/goal/updated")), "{unwanted:?}");
    // What we read is not opted out of.
    assert!(codex_wire::event::METHODS.iter().all(|method| !unwanted.contains(&json!(method))));
}

#[tokio::test]
async fn a_connection_without_a_process_to_ask_knows_nothing_of_one() {
    let (opened, _server) = shake(Script::new(), plain()).await;
    let connection = opened.unwrap();
    assert_eq!((connection.exit().await, connection.server_lives()), (None, false));
    assert!(connection.stderr_tail(5).await.is_empty());
}

#[tokio::test]
async fn a_connection_tells_the_last_words_and_the_end_of_its_process() {
    let script = Script::new().on("initialized", [script::stderr("out of luck"), script::exit(7)]);
    let server = ScriptedServer::new(script);
    let (transport, child) = stdio::spawn(&Spawn::new(server.program(), BTreeMap::new())).unwrap();
    let handshake = Handshake { backing: Some(child.clone()), ..plain() };
    let connection = Connection::open(transport, handshake).await.unwrap();
    connection.peer.wait_closed().await;
    child.wait(LONG).await.unwrap();
    assert_eq!(connection.exit().await.as_deref(), Some("exit status: 7"));
    assert!(!connection.server_lives());
    let tail = || connection.stderr_tail(5).now_or_never().unwrap();
    testkit::wait_until(LONG, "stderr", || tail() == ["out of luck"]).await;
}

// peer: T35
#[tokio::test]
async fn an_older_server_is_refused_with_what_to_do() {
    let (opened, server) = shake(Script::new().version("0.165.9"), plain()).await;
    let Err(error) = opened else { panic!("opened") };
    assert!(matches!(error, Error::TooOld { .. }));
    let said = error.to_string();
    assert!(said.contains("codex 0.165.9 is too old: 0.166.0 or newer is needed"), "{said}");
    assert!(said.contains("npm i -g @openai/codex@"), "{said}");
    assert!(server.calls("initialized").is_empty());
}

#[tokio::test]
async fn a_newer_server_is_a_warning() {
    let (opened, _server) = shake(Script::new().version("0.999.0"), plain()).await;
    let warning = opened.unwrap().server.warning.clone().unwrap();
    assert_eq!(warning, "codex 0.999.0 is newer than the tested 0.166.0");
}

#[tokio::test]
async fn a_server_that_tells_no_version_is_a_warning() {
    let script = Script::new().on("initialize", [script::reply(json!({"userAgent": "something else"}))]);
    let (opened, _server) = shake(script, plain()).await;
    let server = opened.unwrap().server.clone();
    assert_eq!((server.version, server.codex_home.as_deref()), (None, None));
    assert_eq!(server.warning.as_deref(), Some("the server did not report its version"));
}

#[tokio::test]
async fn a_refused_initialize_closes_the_transport() {
    let script = Script::new().on("initialize", [script::reply_error(-32600, "Invalid clientInfo.name")]);
    let (opened, _server) = shake(script, plain()).await;
    let Err(Error::Initialize(CallError::Refused(error))) = opened else { panic!("not refused") };
    assert_eq!(error.message, "Invalid clientInfo.name");
}

#[tokio::test]
async fn an_initialize_without_an_answer_closes_the_transport_in_time() {
    let script = Script::new().on("initialize", [script::no_reply()]);
    let handshake = Handshake { limit: Duration::from_millis(100), ..plain() };
    let (opened, _server) = shake(script, handshake).await;
    let Err(error) = opened else { panic!("opened") };
    assert_eq!(error.to_string(), "initialize failed: initialize timed out after 100 ms");
}

#[tokio::test]
async fn a_server_that_ends_in_the_handshake_is_said_to() {
    let (opened, _server) = shake(Script::new().on("initialize", [script::exit(1)]), plain()).await;
    let Err(error) = opened else { panic!("opened") };
    assert_eq!(error.to_string(), "initialize failed: connection lost: the server closed the connection");
}

/// A newer Codex whose schema is that of the installed one after `change`; it lies in `dir`.
async fn newer_codex(dir: &Path, change: impl FnOnce(&Path)) -> PathBuf {
    let schema = dir.join("schema");
    std::fs::create_dir(&schema).unwrap();
    contract::generate_schema(&codex_path(), &schema).await.unwrap();
    change(&schema);
    let text = format!("for out; do :; done\ncp -R '{}'/. \"$out\"\n", schema.display());
    fake_codex(dir, &text)
}

fn fake_codex(dir: &Path, commands: &str) -> PathBuf {
    let program = dir.join("codex");
    std::fs::write(&program, format!("#!/bin/sh\n{commands}")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

async fn shake_with_newer(binary: PathBuf) -> Result<Connection, Error> {
    let handshake = Handshake { binary: Some(binary), ..plain() };
    shake(Script::new().version("0.167.0"), handshake).await.0
}

#[tokio::test]
async fn a_newer_server_with_the_same_approvals_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let binary = newer_codex(dir.path(), |_| {}).await;
    let warning = shake_with_newer(binary).await.unwrap().server.warning.clone().unwrap();
    assert!(warning.contains("0.167.0"), "{warning}");
}

#[tokio::test]
async fn a_newer_server_with_changed_approvals_is_refused_and_the_change_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let binary = newer_codex(dir.path(), |schema| {
        let file = schema.join("FileChangeRequestApprovalResponse.json");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("\"acceptForSession\""));
        std::fs::write(&file, text.replace("\"acceptForSession\"", "\"acceptForEver\"")).unwrap();
    })
    .await;
    let Err(error) = shake_with_newer(binary).await else { panic!("opened") };
    assert!(matches!(&error, Error::Drifted { drift, .. } if drift.len() == 1), "{error}");
    let said = error.to_string();
    assert!(said.contains("FileChangeApprovalDecision: no value acceptForSession"), "{said}");
    assert!(said.contains("0.167.0") && said.contains("install codex 0.166.0"), "{said}");
}

#[tokio::test]
async fn a_newer_server_that_shows_no_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (commands, why) in [("exit 3\n", "exit status: 3"), ("exit 0\n", "ServerRequest.json")] {
        let Err(error) = shake_with_newer(fake_codex(dir.path(), commands)).await else { panic!("opened") };
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn looking_at_a_schema_leaves_no_folder_behind() {
    let dir = tempfile::tempdir().unwrap();
    let note = dir.path().join("out");
    let binary =
        fake_codex(dir.path(), &format!("for out; do :; done\necho \"$out\" > {}\n", note.display()));
    let drift = contract::drifted_approvals(&binary).await;
    assert!(!drift.is_empty());
    let folder = std::fs::read_to_string(&note).unwrap();
    assert!(!Path::new(folder.trim()).exists(), "{folder}");
}
