//! Hosts after kill -9 of whatever can be killed, on the real Codex. Nothing may be left behind.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use codex_wire::host::record::{Plan, write_json};
use codex_wire::host::{Error, Found, Host, Identity, Stop, find, sweep, sweep_unfinished};
use codex_wire::os::process::Process;
use rustix::process::Signal;
use serde_json::json;
use testkit::wait_until;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::host_rig::{
    Client, LONG, STUBBORN_MCP, home_with, host_in, launch_in, launching_program, start_children,
};

fn kill(process: Process) {
    assert!(process.signal(Signal::KILL).unwrap(), "{process:?} was there to be killed");
}

#[tokio::test]
async fn a_host_outlives_the_program_that_started_it_and_is_found_again() {
    let home = home_with("");
    let launch = launch_in(&home, "h");
    let mut program = launching_program(&launch, &home).stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(LONG, lines.next_line()).await.unwrap().unwrap();
    assert!(line.unwrap().ends_with("answers"));
    kill(Process::with_pid(program.id().unwrap()).unwrap());
    program.wait().await.unwrap();

    let Some(Found::Alive(host)) = find(&launch.dir).unwrap() else { panic!("the host is not found alive") };
    let mut client = Client::connect(&host).await;
    client.start_thread(&home).await;
    host.stop(Stop::Drain { grace: LONG }).await.unwrap();
    home.assert_no_processes().await;
}

#[tokio::test]
async fn codex_works_on_without_its_keeper_and_all_of_it_can_be_stopped() {
    let home = home_with(STUBBORN_MCP);
    let host = host_in(&home).await;
    let children = start_children(&host, &home).await;
    kill(host.record().keeper);
    wait_until(LONG, "the keeper to be gone", || !host.has_keeper()).await;

    assert_eq!(find(host.dir()).unwrap(), Some(Found::KeeperGone(host.clone())));
    assert!(host.is_healthy(LONG).await);
    Client::connect(&host).await.call("thread/list", json!({})).await;
    assert_eq!(children.alive(), [true, true]);

    host.stop(Stop::Now).await.unwrap();
    assert_eq!(children.alive(), [false, false]);
    assert!(!host.is_alive());
    assert!(std::fs::symlink_metadata(&host.record().socket).is_err(), "the socket is removed");
    home.assert_no_processes().await;
}

#[tokio::test]
async fn codex_without_its_keeper_still_drains() {
    let home = home_with("");
    let host = host_in(&home).await;
    kill(host.record().keeper);
    wait_until(LONG, "the keeper to be gone", || !host.has_keeper()).await;
    host.stop(Stop::Drain { grace: LONG }).await.unwrap();
    assert!(!host.is_alive());
    home.assert_no_processes().await;
}

#[tokio::test]
async fn the_keeper_records_the_end_of_a_killed_codex_and_clears_up() {
    let home = home_with(STUBBORN_MCP);
    let host = host_in(&home).await;
    let children = start_children(&host, &home).await;
    kill(host.record().codex);
    wait_until(LONG, "the keeper to end", || !host.has_keeper()).await;

    assert_eq!(children.alive(), [false, false]);
    let exit = host.exit().await.unwrap();
    assert_eq!((exit.code, exit.signal, exit.error), (None, Some(9), None));
    assert!(
        matches!(find(host.dir()).unwrap(), Some(Found::Dead { exit: Some(found), .. }) if found.signal == Some(9))
    );
    assert!(std::fs::symlink_metadata(&host.record().socket).is_err(), "the socket is removed");
    home.assert_no_processes().await;
}

#[tokio::test]
async fn what_survives_the_death_of_both_is_swept_up() {
    let home = home_with(STUBBORN_MCP);
    let host = host_in(&home).await;
    let children = start_children(&host, &home).await;
    kill(host.record().keeper);
    kill(host.record().codex);
    wait_until(LONG, "both to be gone", || !host.has_keeper() && !host.is_alive()).await;

    let Some(Found::Dead { record, exit: None }) = find(host.dir()).unwrap() else {
        panic!("the host is not dead")
    };
    assert_eq!(children.alive(), [true, true], "nobody was there to end them");
    tokio::task::spawn_blocking(move || sweep(&record)).await.unwrap().unwrap();
    assert_eq!(children.alive(), [false, false]);
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_start_that_was_broken_off_is_found_and_swept_up() {
    let home = home_with("");
    let dir = home.dir().join("h");
    std::fs::create_dir(&dir).unwrap();
    let plan = Plan {
        id: "broken-off".to_owned(),
        dir: dir.clone(),
        codex: "/nowhere/codex".into(),
        version: String::new(),
        identity: Identity::default(),
        codex_home: home.codex_home(),
        config: Vec::new(),
        adopters: Vec::new(),
    };
    write_json(&dir.join("plan.json"), &plan).unwrap();
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(
        matches!(find(&dir), Err(Error::DirNotPrivate { .. })),
        "a directory that others may write is trusted"
    );
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).unwrap();
    let mut left = Command::new("sleep")
        .arg("600")
        .env("CODEX_BRIDGE_HOST", &plan.id)
        .current_dir(&dir)
        .process_group(0)
        .spawn()
        .unwrap();
    assert_eq!(find(&dir).unwrap(), Some(Found::Unfinished { id: plan.id.clone() }));
    tokio::task::spawn_blocking(move || sweep_unfinished(&plan.id)).await.unwrap().unwrap();
    left.wait().unwrap();
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_host_stopped_by_two_at_once_ends_once() {
    let home = home_with(STUBBORN_MCP);
    let host = host_in(&home).await;
    let children = start_children(&host, &home).await;
    let drain = host.stop(Stop::Drain { grace: Duration::from_secs(5) });
    let (first, second) = tokio::join!(drain, host.stop(Stop::Now));
    first.unwrap();
    second.unwrap();
    assert_eq!(children.alive(), [false, false]);
    home.assert_no_processes().await;
}

#[tokio::test]
async fn a_new_host_can_follow_in_the_directory_of_one_that_was_killed() {
    let home = home_with(STUBBORN_MCP);
    let host = host_in(&home).await;
    let children = start_children(&host, &home).await;
    kill(host.record().keeper);
    kill(host.record().codex);
    wait_until(LONG, "both to be gone", || !host.has_keeper() && !host.is_alive()).await;
    let next = Host::launch(&launch_in(&home, "h")).await.unwrap();
    assert_eq!(children.alive(), [false, false]);
    next.stop(Stop::Now).await.unwrap();
    home.assert_no_processes().await;
}
