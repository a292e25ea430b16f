//! A client that opens idle connections, or makes too many calls, does not keep others out.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};

use crate::http_rig::Port;

/// Many more than a door lets stand idle.
const CROWD: usize = 600;
/// Much shorter than a connection may be idle.
const SOON: Duration = Duration::from_secs(8);

fn descriptors(pid: &Value) -> usize {
    std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_says_nothing_keeps_nobody_out() {
    let port = Port::new().await;
    let token = port.token("phone", "viewer").await;
    let socket = port.shell.home.dir().join("st/daemon.sock");
    // Somebody listens since before it came.
    let mut news = port.get("/v1/events").token(&token).events().await;
    news.next().await.unwrap();
    let pid = port.get("/v1/about").token(&token).send().await.ok().json()["pid"].clone();
    let before = descriptors(&pid);

    let (mut on_port, mut on_socket) = (Vec::new(), Vec::new());
    for _ in 0..CROWD {
        on_port.push(TcpStream::connect(("127.0.0.1", port.number)).await.unwrap());
        on_socket.push(UnixStream::connect(&socket).await.unwrap());
    }
    let began = Instant::now();
    port.get("/v1/tasks").token(&token).send().await.ok();
    port.local("GET", "/v1/requests", &Value::Null).send().await.ok();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let more = descriptors(&pid).saturating_sub(before);
    assert!(more < CROWD, "{more} descriptors more than before");
    port.shell.run(&["ps"]).await.ok();
    let work = port.local("POST", "/v1/tasks", &port.work("go [play] say Done."));
    work.send().await.ok();
    news.until("the end", |event| event.data["status"] == "completed").await;
    port.shell.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_its_share_of_streams_and_no_more() {
    let port = Port::new().await;
    let (greedy, other) = (port.token("agent", "viewer").await, port.token("phone", "viewer").await);
    let mut streams = Vec::new();
    for _ in 0..128 {
        streams.push(port.get("/v1/events").token(&greedy).events().await);
    }
    let refused = port.get("/v1/tasks").token(&greedy).send().await;
    assert_eq!(refused.problem(), (429, "too_many_calls".into()));
    port.get("/v1/tasks").token(&other).send().await.ok();
    drop(streams);
    let began = Instant::now();
    while port.get("/v1/tasks").token(&greedy).send().await.status != 200 {
        assert!(began.elapsed() < SOON, "what was closed still counts");
    }
    port.shell.end().await;
}
