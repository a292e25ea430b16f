//! What Codex does with the same repository when nobody keeps it within bounds: the traps are live. Where this test fails on a
//! new version of Codex, the other tests show less than they did.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use codex_wire::Epoch;
use codex_wire::call::{ThreadSettings, ThreadStart, TurnStart, UserInput};
use codex_wire::connection::{Connection, Handshake};
use codex_wire::event::Event;
use codex_wire::peer::{Delivery, Inbox, inbox};
use codex_wire::transport::{DEFAULT_MESSAGE_LIMIT, unix};
use scripted_model::Scenario;
use testkit::rig::codex_path;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::repository::Repository;
use crate::workbench::{PATIENCE, Workbench, eventually};

/// Traps that Codex springs by itself in a repository that the user has never decided about.
const LIVE: [&str; 6] = ["mcp", "outside", "filter", "submodule", "bash-env", "profile"];
/// What it tells the model.
const TOLD: [&str; 6] = [
    "REPOSITORY-OVERRIDE",
    "REPOSITORY-SKILL",
    "REPOSITORY-DEVELOPER",
    "REPOSITORY-MODEL",
    "WROTE-OUTSIDE",
    "REACHED-THE-NETWORK",
];

#[tokio::test]
async fn codex_by_itself_takes_the_repository_for_trusted_and_springs_its_traps() {
    let bench = Workbench::new().await;
    let repository = Repository::undecided(&bench);
    let scenario = Scenario::new().exec(repository.plant()).then_exec(repository.leave());
    bench.model.script("go", scenario.then_say("done"));
    bench.model.script("more", Scenario::new().stall("until all is seen").say("done"));
    let socket = bench.home.socket();
    let mut codex = bench.home.codex(["app-server", "--listen", &format!("unix://{}", socket.display())]);
    codex.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut codex = codex.spawn().unwrap();
    let stream = eventually(async || UnixStream::connect(&socket).await.ok(), Option::is_some).await.unwrap();
    let transport = unix::connect(stream, DEFAULT_MESSAGE_LIMIT).await.unwrap();
    let handshake = Handshake { binary: Some(codex_path()), ..Handshake::new(Epoch::from("e")) };
    let connection = Connection::open(transport, handshake).await.unwrap();
    let settings = ThreadSettings {
        cwd: repository.dir.to_str().map(Into::into),
        sandbox: Some("workspace-write".to_owned()),
        ..ThreadSettings::default()
    };
    let (sender, mut messages) = inbox();
    let start = ThreadStart { settings, ..ThreadStart::default() };
    let opened = connection.peer.open_thread(&start, PATIENCE, sender).await.unwrap();
    let thread_id = opened.id().unwrap().to_string();
    let turn = async |prompt: &str| {
        let input = vec![UserInput::text(prompt)];
        let turn = TurnStart { thread_id: thread_id.clone(), input, ..TurnStart::default() };
        connection.peer.call(&turn, PATIENCE).await.unwrap();
    };
    turn("go").await;
    timeout(PATIENCE, until_completed(&mut messages)).await.unwrap();
    // Codex finds what a command has planted when the next turn begins. The end of that turn would end its git.
    turn("more").await;
    eventually(
        async || (repository.sprung(), Repository::words_told(&bench)),
        |(sprung, words)| contains(sprung, &LIVE) && contains(words, &TOLD),
    )
    .await;
    bench.model.release("until all is seen");
    let config = fs::read_to_string(bench.home.codex_home().join("config.toml")).unwrap();
    assert!(config.contains("trust_level = \"trusted\""), "{config}");
    connection.peer.close();
    codex.kill().await.unwrap();
    bench.home.assert_no_processes().await;
}

async fn until_completed(messages: &mut Inbox) {
    while let Some(delivery) = messages.recv().await {
        if let Delivery::Notification(note) = delivery
            && matches!(note.event(), Event::TurnCompleted(_))
        {
            return;
        }
    }
}

fn contains(all: &[&str], some: &[&str]) -> bool {
    let all: BTreeSet<&str> = all.iter().copied().collect();
    some.iter().all(|name| all.contains(name))
}
