use std::future::pending;
use std::net::SocketAddr;

use axum::routing::{get, post};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::http::{Body as Json, Refusal};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
const HASTE: Limits = Limits { head: Duration::from_millis(300), body: Duration::from_millis(300), idle: 4 };
const HELLO: &str = "GET /hello HTTP/1.1\r\nhost: x\r\n\r\n";

struct Server {
    address: SocketAddr,
    ending: watch::Sender<Shutdown>,
    served: JoinHandle<()>,
}

async fn server(limits: Limits) -> Server {
    let taken = |Json(_): Json<Value>| async { Ok::<_, Refusal>("taken") };
    let router = Router::new()
        .route("/hello", get(async || "hello"))
        .route("/slow", get(async || tokio::time::sleep(Duration::from_secs(1)).await))
        .route("/never", get(async || pending::<()>().await))
        .route("/take", post(taken));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ending, ended) = watch::channel(Shutdown::No);
    let served = tokio::spawn(serve(listener, router, limits, |_, address| *address, ended));
    Server { address, ending, served }
}

impl Server {
    async fn say(&self, words: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        stream
    }
}

/// All that comes until the connection is closed.
async fn rest(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // It may be closed in the middle of what was sent.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut said)).await.expect("it is closed");
    String::from_utf8(said).unwrap()
}

/// The next answer without a body, or the beginning of one with it.
async fn heard(stream: &mut TcpStream) -> String {
    let mut said = vec![0; 1024];
    let count = timeout(PATIENCE, stream.read(&mut said)).await.expect("an answer").unwrap();
    String::from_utf8_lossy(&said[..count]).into_owned()
}

#[tokio::test]
async fn whoever_does_not_finish_a_request_is_cut_off() {
    let server = server(HASTE).await;
    for begun in ["", "GET /hello HT", "GET /hello HTTP/1.1\r\nhost: x\r\nx-more: "] {
        let said = rest(server.say(begun).await).await;
        assert!(!said.contains("200 OK"), "{begun:?}: {said}");
    }
    let mut kept = server.say(HELLO).await;
    assert!(heard(&mut kept).await.starts_with("HTTP/1.1 200 OK"));
    assert_eq!(rest(kept).await, "", "one that asks for nothing more is closed, too");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_told_and_not_waited_for() {
    let server = server(HASTE).await;
    let begun =
        "POST /take HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    let said = rest(server.say(begun).await).await;
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("\"code\":\"too_slow\""), "{said}");
}

#[tokio::test]
async fn a_crowd_keeps_nobody_out() {
    let patient = Limits { head: Duration::from_mins(10), ..HASTE };
    let server = server(patient).await;
    let mut crowd = Vec::new();
    for _ in 0..50 {
        crowd.push(server.say("GET /hello HT").await);
    }
    let mut one = server.say(HELLO).await;
    assert!(heard(&mut one).await.starts_with("HTTP/1.1 200 OK"));
    // Those that came first went first, and no more than need be.
    let stayed = crowd.split_off(50 - (HASTE.idle - 1));
    for first in crowd {
        rest(first).await;
    }
    for mut last in stayed {
        last.write_all(b"TP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert!(heard(&mut last).await.starts_with("HTTP/1.1 200 OK"));
    }
}

#[tokio::test]
async fn an_answer_that_was_begun_is_finished_at_the_end_and_an_idle_connection_is_closed() {
    let server = server(Limits::default()).await;
    let mut idle = server.say(HELLO).await;
    heard(&mut idle).await;
    let slow = server.say("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    // It has been taken when the next one is answered.
    heard(&mut server.say(HELLO).await).await;
    server.ending.send(Shutdown::LeaveHosts).unwrap();
    assert_eq!(rest(idle).await, "");
    assert!(rest(slow).await.starts_with("HTTP/1.1 200 OK"));
    timeout(Duration::from_secs(3), server.served).await.expect("nobody is waited for in vain").unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_never_ends_does_not_hold_up_the_end_for_long() {
    let server = server(Limits::default()).await;
    let _never = server.say("GET /never HTTP/1.1\r\nhost: x\r\n\r\n").await;
    heard(&mut server.say(HELLO).await).await;
    server.ending.send(Shutdown::LeaveHosts).unwrap();
    let began = tokio::time::Instant::now();
    server.served.await.unwrap();
    assert!(began.elapsed() >= DRAIN_TIMEOUT && began.elapsed() < DRAIN_TIMEOUT * 2, "{:?}", began.elapsed());
}
