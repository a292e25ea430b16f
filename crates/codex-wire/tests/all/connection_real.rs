//! The handshake with the real Codex, on pipes and on its socket, and the shape of its refusals.

use std::process::Stdio;

use codex_wire::call::{ThreadLoadedList, ThreadResume, ThreadSettings, ThreadStart, TurnInterrupt};
use codex_wire::connection::{Connection, Handshake};
use codex_wire::peer::{CallError, Delivery, inbox};
use codex_wire::transport::stdio::{self, Spawn};
use codex_wire::transport::{DEFAULT_MESSAGE_LIMIT, unix};
use codex_wire::{Epoch, ThreadId};
use testkit::rig::{Home, codex_path};
use testkit::wait_until;

use crate::peer_rig::{LONG, initialize, next};

fn handshake() -> Handshake {
    Handshake { binary: Some(codex_path()), ..Handshake::new(Epoch::from("e")) }
}

/// What holds for a fresh connection to the real Codex, however it was reached.
async fn check(connection: &Connection, home: &Home) {
    let server = &connection.server;
    assert_eq!(server.version, Some(testkit::rig::codex().version));
    assert_eq!(server.codex_home.as_deref(), home.codex_home().to_str());
    assert_eq!(server.warning, None);

    // We send it once; Codex would refuse another.
    let Err(CallError::Refused(error)) = connection.peer.call(&initialize(), LONG).await else {
        panic!("a second initialize was taken")
    };
    assert_eq!((error.code, error.message.as_str()), (-32600, "Already initialized"));

    let (sender, mut messages) = inbox();
    let settings =
        ThreadSettings { cwd: home.workspace().to_str().map(Into::into), ..ThreadSettings::default() };
    let start = ThreadStart { settings, dynamic_tools: None };
    let opened = connection.peer.open_thread(&start, LONG, sender).await.unwrap();
    let Delivery::Notification(note) = next(&mut messages).await else { panic!("no notification") };
    assert_eq!((&*note.method, note.thread_id), ("thread/started", opened.id()));
    assert_eq!(connection.peer.stray_lines(), 0);
}

async fn check_unknown_thread(connection: &Connection) {
    let stranger = ThreadId::from("01a1e0af-0000-7000-8000-000000000000");
    let interrupt = TurnInterrupt { thread_id: stranger.clone(), turn_id: String::new() };
    let Err(CallError::Refused(error)) = connection.peer.call(&interrupt, LONG).await else {
        panic!("taken")
    };
    assert_eq!(error.code, -32600);
    assert!(error.message.contains("thread not found"), "{error}");

    let resume = ThreadResume {
        thread_id: stranger,
        exclude_turns: true,
        initial_turns_page: None,
        settings: ThreadSettings::default(),
    };
    let Err(CallError::Refused(error)) = connection.peer.call(&resume, LONG).await else { panic!("taken") };
    assert_eq!(error.code, -32600);
    assert!(error.message.contains("no rollout found for thread id"), "{error}");
}

#[tokio::test]
async fn the_real_codex_shakes_hands_on_pipes() {
    let home = Home::without_model();
    let spawn = Spawn::new(codex_path(), home.env().into_iter().collect());
    let (transport, child) = stdio::spawn(&spawn).unwrap();
    let connection = Connection::open(transport, handshake()).await.unwrap();
    check(&connection, &home).await;
    check_unknown_thread(&connection).await;
    connection.peer.close();
    child.end().await.unwrap();
    home.assert_no_processes().await;
}

#[tokio::test]
async fn the_real_codex_shakes_hands_on_its_socket() {
    let home = Home::without_model();
    let listen = format!("unix://{}", home.socket().display());
    let mut command = home.codex(["app-server", "--listen", &listen]);
    let mut codex = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(LONG, "the socket", || std::os::unix::net::UnixStream::connect(home.socket()).is_ok()).await;
    // Two clients at once, each with a handshake of its own.
    for _ in 0..2 {
        let stream = tokio::net::UnixStream::connect(home.socket()).await.unwrap();
        let transport = unix::connect(stream, DEFAULT_MESSAGE_LIMIT).await.unwrap();
        let connection = Connection::open(transport, handshake()).await.unwrap();
        check(&connection, &home).await;
        check_unknown_thread(&connection).await;
        connection.peer.close();
    }
    codex.kill().await.unwrap();
    home.assert_no_processes().await;
}

#[tokio::test]
async fn the_death_of_the_real_codex_ends_the_connection_on_its_socket() {
    let home = Home::without_model();
    let listen = format!("unix://{}", home.socket().display());
    let mut command = home.codex(["app-server", "--listen", &listen]);
    let mut codex = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(LONG, "the socket", || std::os::unix::net::UnixStream::connect(home.socket()).is_ok()).await;
    let stream = tokio::net::UnixStream::connect(home.socket()).await.unwrap();
    let transport = unix::connect(stream, DEFAULT_MESSAGE_LIMIT).await.unwrap();
    let connection = Connection::open(transport, handshake()).await.unwrap();
    // Whatever was on its way has arrived when it answers: nothing is being written as it dies.
    connection.peer.call(&ThreadLoadedList {}, LONG).await.unwrap();
    codex.kill().await.unwrap();
    assert_eq!(connection.peer.wait_closed().await.to_string(), "the server closed the connection");
    home.assert_no_processes().await;
}
