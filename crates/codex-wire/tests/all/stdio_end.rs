//! The end of a child on pipes: politely if it can be, and with all that it started.

use std::sync::Arc;

use codex_wire::Epoch;
use codex_wire::backing::Backing;
use codex_wire::call::ThreadStart;
use codex_wire::connection::{Connection, Handshake};
use codex_wire::os::process::{self, Process};
use codex_wire::peer::inbox;
use codex_wire::transport::stdio::{self, Spawn, StdioChild};
use scripted_model::CodexConfig;
use testkit::log::Entry;
use testkit::rig::{Home, codex_path};
use testkit::script::Script;
use testkit::{bin, wait_until};

use crate::peer_rig::{LONG, Way, Wired};

// peer: L4
#[tokio::test]
async fn a_polite_child_follows_the_end_of_its_input_without_a_signal() {
    let wired = Wired::new(Way::Stdio, Script::new()).await;
    wired.open().await;
    let child = Arc::clone(wired.child());
    assert!(child.is_alive() && child.exit().is_none());
    wired.peer.close();
    child.end().await.unwrap();
    assert_eq!((child.is_alive(), child.exit().as_deref()), (false, Some("exit status: 0")));
    assert!(!wired.server.entries().contains(&Entry::Terminated));
    assert_eq!(process::stat(child.pid()), None);
    wired.end().await;
}

#[tokio::test]
async fn a_stubborn_child_is_asked_then_killed() {
    let wired = Wired::new(Way::Stdio, Script::new().stubborn()).await;
    wired.open().await;
    let child = Arc::clone(wired.child());
    wired.peer.close();
    child.end().await.unwrap();
    assert!(wired.server.entries().contains(&Entry::Terminated));
    assert_eq!(child.exit().as_deref(), Some("signal: 9 (SIGKILL)"));
    assert_eq!(process::stat(child.pid()), None);
    // Ending what has ended is nothing.
    child.end().await.unwrap();
    child.kill().await.unwrap();
    wired.end().await;
}

#[tokio::test]
async fn a_kill_does_not_wait_for_politeness() {
    let wired = Wired::new(Way::Stdio, Script::new().stubborn()).await;
    wired.open().await;
    wired.child().kill().await.unwrap();
    assert!(!wired.server.entries().contains(&Entry::Terminated));
    assert_eq!(wired.child().exit().as_deref(), Some("signal: 9 (SIGKILL)"));
    wired.end().await;
}

/// A real Codex with a thread, and the thread's MCP server, which stays when its input ends.
async fn codex_with_stubborn_mcp_server(home: &Home) -> (Connection, Arc<StdioChild>, Process) {
    let spawn = Spawn::new(codex_path(), home.env().into_iter().collect());
    let (transport, child) = stdio::spawn(&spawn).unwrap();
    let connection = Connection::open(transport, Handshake::new(Epoch::from("e"))).await.unwrap();
    let thread = ThreadStart::default();
    connection.peer.open_thread(&thread, LONG, inbox().0).await.unwrap();
    let server = || {
        let mut below = process::descendants(child.pid()).into_iter();
        below.find(|it| process::command_line(it.pid).is_some_and(|line| line.contains("--ignore-eof")))
    };
    wait_until(LONG, "the MCP server", || server().is_some()).await;
    let server = server().unwrap();
    (connection, child, server)
}

fn home_with_stubborn_mcp_server() -> Home {
    let model = bin("scripted-model");
    let config = CodexConfig::new("http://127.0.0.1:9/v1");
    let args = ["mcp-server", "--ignore-eof"];
    Home::with_config(&config.mcp_server("stays", &model.to_string_lossy(), &args).to_string())
}

// codex 0.166 ends such a server itself when it leaves in good order; killed, it cannot.
// peer: T31
#[tokio::test]
async fn an_mcp_server_that_ignores_the_end_of_its_input_ends_with_its_codex() {
    let home = home_with_stubborn_mcp_server();
    let (connection, child, server) = codex_with_stubborn_mcp_server(&home).await;
    connection.peer.close();
    child.end().await.unwrap();
    assert_eq!(connection.peer.wait_closed().await.to_string(), "closed by this side");
    assert!(!server.is_alive());
    home.assert_no_processes().await;
}

#[tokio::test]
async fn an_mcp_server_ends_also_when_its_codex_has_left_before_anyone_looked() {
    let home = home_with_stubborn_mcp_server();
    let (connection, child, server) = codex_with_stubborn_mcp_server(&home).await;
    connection.peer.close();
    child.wait(LONG).await.expect("codex follows the end of its input");
    child.end().await.unwrap();
    assert!(!server.is_alive());
    home.assert_no_processes().await;
}

#[tokio::test]
async fn an_mcp_server_is_killed_with_its_codex() {
    let home = home_with_stubborn_mcp_server();
    let (_connection, child, server) = codex_with_stubborn_mcp_server(&home).await;
    child.kill().await.unwrap();
    assert!(!server.is_alive() && !child.is_alive());
    home.assert_no_processes().await;
}
