//! The rig: the real Codex runs in a home of its own and nothing is left of it.

use std::time::Duration;

use serde_json::json;
use testkit::rig::{self, Home};
use testkit::wait_until;

use crate::client::Client;

#[tokio::test]
async fn the_real_codex_shakes_hands_on_stdio_and_leaves_nothing_behind() {
    let home = Home::without_model();
    let mut client = Client::spawn(&mut home.codex(["app-server"]));
    let hello = client.initialize().await;
    assert_eq!(hello["codexHome"], home.codex_home().to_str().unwrap());
    let ours = home.workspace();
    let started = client.call("thread/start", json!({ "cwd": ours })).await["result"].clone();
    assert_eq!(started["cwd"], ours.to_str().unwrap());
    let (code, said) = client.finish().await;
    assert_eq!(code, Some(0), "{said}");
    home.assert_no_processes().await;
}

#[tokio::test]
async fn the_real_codex_listens_on_a_socket_of_its_home() {
    let home = Home::without_model();
    let socket = home.socket();
    let address = format!("unix://{}", socket.display());
    let mut command = home.codex(["app-server", "--listen", &address]);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_until(Duration::from_secs(20), "the socket of codex", || {
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    })
    .await;
    let mut client = Client::connect(&socket).await;
    assert_eq!(client.initialize().await["platformFamily"], "unix");
    child.kill().await.unwrap();
    home.assert_no_processes().await;
}

#[test]
fn the_pinned_codex_is_the_tested_version() {
    assert_eq!(rig::codex().version.to_string(), testkit::script::VERSION);
}

#[tokio::test]
async fn a_process_left_behind_is_named_killed_and_fails_the_test() {
    let sleeping = |home: &Home| {
        let mut command = std::process::Command::new("sleep");
        command.arg("60").env_clear().current_dir(home.workspace());
        command.spawn().unwrap()
    };
    let home = Home::without_model();
    let mut child = sleeping(&home);
    let failure =
        tokio::spawn(async move { home.assert_no_processes().await }).await.unwrap_err().into_panic();
    let said = failure.downcast_ref::<String>().unwrap();
    assert!(said.contains(&format!("{} sleep 60 (working directory)", child.id())), "{said}");
    assert!(!child.wait().unwrap().success());
}

#[test]
fn dropping_a_home_with_a_process_left_fails_the_test() {
    let home = Home::without_model();
    let open = std::fs::File::create(home.dir().join("out")).unwrap();
    let mut child = std::process::Command::new("sleep").arg("61").env_clear().stdout(open).spawn().unwrap();
    let failure = std::thread::spawn(move || drop(home)).join().unwrap_err();
    let said = failure.downcast_ref::<String>().unwrap();
    assert!(said.contains("sleep 61 (open file)"), "{said}");
    assert!(!child.wait().unwrap().success());
}
