//! Server-sent events: resumed without gaps or repetitions, live for lists, and never slowing a task.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::http_rig::{Event, Port};
use crate::shell::{PATIENCE, until};

fn ids(events: &[Event]) -> Vec<i64> {
    events.iter().filter_map(|event| event.id).collect()
}

#[tokio::test]
async fn a_reader_goes_on_over_a_restart_without_gap_or_double() {
    let port = Port::new().await;
    let token = port.token("agent", "operator").await;
    let prompt = "go [play] delta Once => and stall here => and say upon a time.";
    let id = port.start(&token, prompt).await;
    port.shell.model.wait_for_stall("here").await;
    let path = format!("/v1/tasks/{id}/events");
    let mut stream = port.get(&path).token(&token).events().await;
    let mut seen = stream.until("the turn", |event| event.name == "turn_started").await;
    assert!(seen.iter().all(|event| event.data["kind"] == event.name.as_str()), "{seen:#?}");
    port.shell.run(&["stop"]).await.ok();
    // What was already on its way is read; then the stream ends.
    while let Some(event) = stream.next().await {
        seen.push(event);
    }
    let last = *ids(&seen).last().unwrap();
    port.shell.run(&["ps"]).await.ok();
    // The address still says where the first reading began; the header counts.
    let call = port.get(&format!("{path}?after=0")).token(&token).header("last-event-id", &last.to_string());
    let mut stream = call.events().await;
    port.shell.model.release("here");
    let is_over = |event: &Event| event.name == "state" && event.data["status"] == "completed";
    seen.extend(stream.until("the end", is_over).await);
    let all = ids(&seen);
    assert_eq!(all, (1..=i64::try_from(all.len()).unwrap()).collect::<Vec<_>>(), "each once, in order");
    // It stays open: the task may be continued.
    let more = json!({"prompt": "more [play] say More."});
    port.post(&format!("/v1/tasks/{id}/turns"), &more).token(&token).send().await.ok();
    let later = stream.until("the second end", is_over).await;
    assert_eq!(ids(&later).first(), Some(&(all.last().unwrap() + 1)));
    let bad = port.get(&path).token(&token).header("last-event-id", "x").send().await;
    assert_eq!(bad.problem(), (400, "bad_call".into()));
    port.shell.end().await;
}

#[tokio::test]
async fn live_text_has_no_number() {
    let port = Port::new().await;
    let token = port.token("agent", "operator").await;
    let id = port
        .start(&token, "go [play] delta Once upon a time there was => and stall here => and say one.")
        .await;
    port.shell.model.wait_for_stall("here").await;
    let path = format!("/v1/tasks/{id}/events?live=true");
    let mut stream = port.get(&path).token(&token).events().await;
    let read = stream.until("live text", |event| event.name == "live").await;
    let live = read.last().unwrap();
    // What could be the beginning of a secret is held back.
    let text = live.data["text"].as_str().unwrap();
    assert!(
        live.id.is_none() && "Once upon a time there was".starts_with(text) && !text.is_empty(),
        "{live:?}"
    );
    port.shell.model.release("here");
    stream.until("the message", |event| event.name == "message").await;
    port.shell.end().await;
}

#[tokio::test]
async fn a_list_hears_of_every_task() {
    let port = Port::new().await;
    let token = port.token("agent", "approver").await;
    let mut news = port.get("/v1/events").token(&token).events().await;
    let first = news.next().await.unwrap();
    assert_eq!((first.name.as_str(), &first.data["total"]), ("open_requests", &json!(0)));
    let id = port.start(&token, "go [play] exec touch made.txt => say Done.").await;
    let asked = news.until("an open request", |event| event.name == "open_requests").await;
    assert_eq!(asked.last().unwrap().data["total"], 1);
    let told = |event: &Event| event.data["task_id"] == id.as_str() && event.data["open_requests"] == 1;
    assert!(asked.iter().any(told), "{asked:#?}");
    port.decide(&token, &id, "decline").await.ok();
    let rest = news.until("the end", |event| event.data["status"] == "completed").await;
    let is_none_open = |event: &Event| event.name == "open_requests" && event.data["total"] == 0;
    assert!(rest.iter().any(is_none_open), "{rest:#?}");
    port.shell.end().await;
}

#[tokio::test]
async fn a_request_that_outlives_the_daemon_is_told_to_be_closed() {
    let port = Port::new().await;
    let token = port.token("agent", "approver").await;
    let id = port.start(&token, "go [play] exec touch made.txt => say Done.").await;
    assert_eq!(port.wait(&token, &id).await["status"], "waiting_for_approval");
    let mut news = port.get("/v1/events").token(&token).events().await;
    port.shell.run(&["stop"]).await.ok();
    let told = news.until("why it ends", |event| event.name == "failure").await;
    assert_eq!(told.last().unwrap().data["error"]["code"], "daemon_stopping", "{told:#?}");
    assert!(news.next().await.is_none());
    port.shell.run(&["ps"]).await.ok();
    let mut news = port.get("/v1/events").token(&token).events().await;
    assert_eq!(news.next().await.unwrap().data["total"], 1);
    port.decide(&token, &id, "decline").await.ok();
    let rest = news.until("the end", |event| event.data["status"] == "completed").await;
    let is_none_open = |event: &Event| event.name == "open_requests" && event.data["total"] == 0;
    assert!(rest.iter().any(is_none_open), "{rest:#?}");
    // As many as were asked for, and then it is over.
    let mut first = port.get("/v1/events?limit=1").token(&token).events().await;
    assert_eq!(first.next().await.unwrap().name, "open_requests");
    assert!(first.next().await.is_none());
    port.shell.end().await;
}

/// A connection on which a task's events were asked for, and are not read.
async fn reader_that_stalls(port: &Port, token: &str, id: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stalled = socket.connect(([127, 0, 0, 1], port.number).into()).await.unwrap();
    let request = format!(
        "GET /v1/tasks/{id}/events HTTP/1.1\r\nhost: localhost:{}\r\nauthorization: Bearer {token}\r\n\
         accept: text/event-stream\r\n\r\n",
        port.number
    );
    stalled.write_all(request.as_bytes()).await.unwrap();
    assert!(is_connected(port.number, stalled.local_addr().unwrap().port()));
    stalled
}

/// Whether the daemon's end of a connection stands, as the kernel says.
fn is_connected(daemon: u16, peer: u16) -> bool {
    let ends = format!("0100007F:{daemon:04X} 0100007F:{peer:04X} 01 ");
    std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&ends)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stalls_is_let_go_with_a_resume_point_and_slows_nobody() {
    let port = Port::new().await;
    let token = port.token("agent", "operator").await;
    // More than the buffers on the way hold.
    let page = "long words ".repeat(15_000);
    let mut story = scripted_model::Scenario::new();
    for _ in 0..110 {
        story = story.say_as(scripted_model::Phase::Commentary, &page);
    }
    port.shell.model.script("tell it", story.say("The end."));
    let id = port.start(&token, "tell it").await;
    let ended = port.wait(&token, &id).await;
    assert_eq!(ended["status"], "completed", "{}", ended["error"]);

    let mut stalled = reader_that_stalls(&port, &token, &id).await;
    let asleep = reader_that_stalls(&port, &token, &id).await;
    // Meanwhile others work as ever.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(14) {
        let task = Instant::now();
        let other = port.start(&token, "go [play] say Quick.").await;
        assert_eq!(port.wait(&token, &other).await["status"], "completed");
        assert!(task.elapsed() < Duration::from_secs(8), "{:?}", task.elapsed());
    }
    let mut heard = Vec::new();
    let read = async {
        let mut chunk = vec![0; 1 << 20];
        while !heard.ends_with(b"\r\n0\r\n\r\n") {
            let count = stalled.read(&mut chunk).await.unwrap();
            assert_ne!(count, 0, "closed before its last word");
            heard.extend_from_slice(&chunk[..count]);
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the stream ends");
    let heard = String::from_utf8_lossy(&heard);
    let (_, last_word) = heard.split_once("event: dropped\ndata: ").expect("a last word");
    let last_word: serde_json::Value = serde_json::from_str(last_word.lines().next().unwrap()).unwrap();
    let last = last_word["last_id"].as_i64().unwrap();
    let told = heard.lines().filter(|line| line.starts_with("id: ")).count();
    assert_eq!(i64::try_from(told).unwrap(), last, "all up to the resume point were sent");
    let path = format!("/v1/tasks/{id}/events");
    let call = port.get(&path).token(&token).header("last-event-id", &last.to_string());
    let rest = call.events().await.until("the end", |event| event.data["status"] == "completed").await;
    assert_eq!(rest.first().unwrap().id, Some(last + 1));
    // One that never reads on does not keep its connection.
    let asleep_at = asleep.local_addr().unwrap().port();
    until("the end of the connection", || (!is_connected(port.number, asleep_at)).then_some(())).await;
    port.shell.end().await;
}
