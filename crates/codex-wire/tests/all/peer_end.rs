//! The end of a connection, whichever way it comes: everyone is told, at once, why; nothing is left.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use codex_wire::RequestId;
use codex_wire::answer::{Answer, Verdict};
use codex_wire::call::ThreadLoadedList;
use codex_wire::os::process;
use codex_wire::peer::{CallError, Closed, Delivery, Peer, inbox};
use codex_wire::transport::stdio::{self, Spawn};
use codex_wire::transport::{Error as TransportError, Transport};
use futures_util::{StreamExt, sink, stream};
use serde_json::json;
use testkit::script::{self, Script, Step};
use testkit::wait_until;

use crate::peer_rig::{BOTH, LONG, Probe, Way, Wired, next, next_method, prompt};

/// Far less than any limit of a call here.
const AT_ONCE: Duration = Duration::from_secs(5);

/// A call is out when the server does `steps`: what is the call told?
async fn check(way: Way, steps: impl IntoIterator<Item = Step>, message_limit: usize, expected: Closed) {
    let script = Script::new().on("test/probe", steps);
    let wired = Wired::with_limit(way, script, message_limit).await;
    let began = Instant::now();
    let told = wired.probe(Duration::from_mins(10)).await;
    assert_eq!(told, Err(CallError::Closed(expected.clone())), "{way:?}");
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(wired.peer.closed(), Some(expected.clone()));
    assert_eq!(wired.peer.wait_closed().await, expected);
    // Later calls are told the same.
    assert_eq!(wired.probe(LONG).await, Err(CallError::Closed(expected)));
    wired.end().await;
}

#[tokio::test]
async fn the_end_of_the_servers_output_fails_pending_calls_at_once() {
    for way in BOTH {
        check(way, [script::close_stdout()], 1000, Closed::ByServer).await;
    }
}

// peer: T5
#[tokio::test]
async fn the_exit_of_the_server_fails_pending_calls_at_once() {
    check(Way::Stdio, [script::exit(3)], 1000, Closed::ByServer).await;
    // The socket's server is gone then: only the connection is looked at.
    let wired = Wired::new(Way::Socket, Script::new().on("test/probe", [script::exit(3)])).await;
    assert_eq!(wired.probe(LONG).await, Err(CallError::Closed(Closed::ByServer)));
    wired.end().await;
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_connection_and_says_so() {
    let limit = 10_000;
    for way in BOTH {
        let too_long = TransportError::MessageTooLong { limit };
        check(way, [script::big_line(limit + 1), script::hang()], limit, Closed::Transport(too_long)).await;
        let wired = Wired::with_limit(
            way,
            Script::new().on("test/probe", [script::big_line(limit), script::reply(json!(1))]),
            limit,
        );
        let wired = wired.await;
        assert_eq!(wired.probe(LONG).await, Ok(json!(1)));
        wired.end().await;
    }
}

// peer: L3
#[tokio::test]
async fn a_blocked_call_notices_close_at_once() {
    for way in BOTH {
        let wired = Wired::new(way, Script::new().on("test/probe", [script::no_reply()])).await;
        let peer = wired.peer.clone();
        let call = tokio::spawn(async move { peer.call(&Probe::default(), Duration::from_mins(10)).await });
        wired.server.wait_for_method("test/probe").await;
        let began = Instant::now();
        wired.peer.close();
        assert_eq!(call.await.unwrap(), Err(CallError::Closed(Closed::ByUs)));
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        wired.end().await;
    }
}

#[tokio::test]
async fn a_call_that_waits_to_try_again_notices_close_at_once() {
    let wired = Wired::new(Way::Stdio, Script::new().on("test/probe", [script::overloaded()])).await;
    let peer = wired.peer.clone();
    let call = tokio::spawn(async move { peer.call(&Probe::default(), LONG).await });
    // The fifth pause is at least 800 ms.
    wired.server.wait_for("five tries", |all| all.len() == 5).await;
    let began = Instant::now();
    wired.peer.close();
    assert_eq!(call.await.unwrap(), Err(CallError::Closed(Closed::ByUs)));
    assert!(began.elapsed() < Duration::from_millis(700), "{:?}", began.elapsed());
    wired.end().await;
}

/// `sh` in place of a server.
fn shell(script: &str) -> Spawn {
    let env = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    Spawn { args: vec!["-c".into(), script.into()], ..Spawn::new("/bin/sh", env) }
}

// peer: T30
#[tokio::test]
async fn a_server_that_takes_no_input_fails_calls_with_a_write_error() {
    let (transport, child) = stdio::spawn(&shell("exec <&-; sleep 600")).unwrap();
    let peer = Peer::new(transport);
    let began = Instant::now();
    let error = loop {
        // The first may be written before the shell has closed its end.
        match peer.call(&Probe::default(), Duration::from_millis(100)).await {
            Err(CallError::TimedOut { .. }) => {}
            other => break other,
        }
    };
    let Err(CallError::Closed(Closed::Transport(TransportError::Write(why)))) = error else {
        panic!("{error:?}")
    };
    assert!(why.contains("Broken pipe"), "{why}");
    assert!(began.elapsed() < AT_ONCE);
    child.kill().await.unwrap();
}

#[tokio::test]
async fn last_words_are_heard_though_a_write_failed_first() {
    let said = r#"{"method":"test/last","params":{"threadId":"t"}}"#;
    // Not read before the write has failed: the sink breaks before the stream gives anything.
    let (broke, has_broken) = tokio::sync::oneshot::channel::<()>();
    let incoming = stream::once(async move {
        let _ = has_broken.await;
        Ok(said.into())
    });
    let mut broke = Some(broke);
    let outgoing = sink::unfold((), move |(), _| {
        drop(broke.take());
        async { Err(TransportError::Write("gone".into())) }
    });
    let peer = Peer::new(Transport { incoming: incoming.boxed(), outgoing: Box::pin(outgoing) });
    let (sender, mut messages) = inbox();
    peer.route("t".into(), sender);
    let error = peer.call(&Probe::default(), LONG).await.unwrap_err();
    assert_eq!(error, CallError::Closed(Closed::Transport(TransportError::Write("gone".into()))));
    assert_eq!(next_method(&mut messages).await, "test/last");
    assert_eq!(next_method(&mut messages).await, "closed");
}

#[tokio::test]
async fn a_server_that_reads_nothing_does_not_stretch_deadlines_nor_hold_up_close() {
    let (transport, child) = stdio::spawn(&shell("sleep 600")).unwrap();
    let peer = Peer::new(transport);
    let (id, answer) = (RequestId::Number(0), Answer::Refusal { code: 1, message: "x".repeat(4000) });
    // Until neither the pipe nor the queue takes more.
    let limit = Duration::from_millis(300);
    while tokio::time::timeout(limit, peer.respond(&id, answer.clone())).await.is_ok() {}

    let began = Instant::now();
    let told = peer.call(&ThreadLoadedList {}, limit).await.unwrap_err();
    assert_eq!(told, CallError::TimedOut { method: "thread/loaded/list", after: limit });
    assert!(began.elapsed() < AT_ONCE);

    let began = Instant::now();
    let closing = async { peer.close() };
    let (stuck, ()) = tokio::join!(peer.respond(&id, answer), closing);
    assert_eq!(stuck, Err(Closed::ByUs));
    assert!(began.elapsed() < AT_ONCE);
    child.kill().await.unwrap();
}

#[tokio::test]
async fn every_inbox_is_told_once_after_its_pending_replies() {
    let wired = Wired::new(Way::Stdio, Script::new().on("turn/start", [script::no_reply()])).await;
    let (thread, mut own) = wired.open().await;
    let (sender, mut shared) = inbox();
    wired.peer.route("a".into(), sender.clone());
    wired.peer.route("b".into(), sender.clone());
    for token in [5, 6] {
        wired.peer.post(&prompt(&thread), LONG, sender.clone(), token).await.unwrap();
    }
    drop(sender);
    wired.peer.close();
    for expected in ["reply 5 failed", "reply 6 failed", "closed"] {
        assert_eq!(next_method(&mut shared).await, expected);
    }
    assert!(shared.recv().await.is_none());
    let Delivery::Closed(Closed::ByUs) = next(&mut own).await else { panic!("not told") };
    // Whoever comes later is told too.
    let (sender, mut late) = inbox();
    wired.peer.route("c".into(), sender);
    assert_eq!(next_method(&mut late).await, "closed");
    wired.end().await;
}

#[tokio::test]
async fn an_inbox_that_nobody_reads_does_not_keep_others_from_being_told() {
    let flood = script::notify("test/flood", json!({"threadId": "full"}));
    let script = Script::new().on("test/probe", [script::flood(3000, [flood]), script::hang()]);
    let wired = Wired::new(Way::Stdio, script).await;
    let (sender, full) = inbox();
    wired.peer.route("full".into(), sender);
    let peer = wired.peer.clone();
    let call = tokio::spawn(async move { peer.call(&Probe::default(), LONG).await });
    wait_until(LONG, "a full inbox", || full.capacity() == 0 || full.len() == full.max_capacity()).await;
    let (sender, mut other) = inbox();
    wired.peer.route("other".into(), sender);
    let began = Instant::now();
    wired.peer.close();
    assert_eq!(call.await.unwrap(), Err(CallError::Closed(Closed::ByUs)));
    assert_eq!(next_method(&mut other).await, "closed");
    assert!(began.elapsed() < AT_ONCE);
    wired.end().await;
}

#[tokio::test]
async fn what_was_handed_over_before_close_still_goes_out() {
    let script = Script::new().on("turn/start", [script::file_request(0)]);
    for way in BOTH {
        let wired = Wired::new(way, script.clone()).await;
        let (thread, mut messages) = wired.open().await;
        wired.peer.post(&prompt(&thread), LONG, inbox().0, 1).await.unwrap();
        let Delivery::Request(incoming) = next(&mut messages).await else { panic!("no request") };
        wired.peer.respond(&incoming.id, Answer::FileChange(Verdict::Cancel)).await.unwrap();
        wired.peer.close();
        assert_eq!(wired.server.wait_for_answer(0).await["result"], json!({"decision": "cancel"}));
        wired.end().await;
    }
}

// peer: L2, L5
#[tokio::test(flavor = "multi_thread")]
async fn closing_twice_and_from_two_tasks_is_closing_once() {
    for way in BOTH {
        let wired = Wired::new(way, Script::new()).await;
        let (_, mut messages) = wired.open().await;
        let closers = [(); 8].map(|()| {
            let peer = wired.peer.clone();
            tokio::spawn(async move {
                peer.close();
                peer.close();
                peer.wait_closed().await
            })
        });
        for closer in closers {
            assert_eq!(closer.await.unwrap(), Closed::ByUs);
        }
        assert_eq!(next_method(&mut messages).await, "closed");
        assert!(messages.recv().await.is_none());
        wired.end().await;
    }
}

// peer: L4
#[tokio::test]
async fn close_ends_the_process_and_all_tasks_of_the_connection() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for way in BOTH {
        let wired = Wired::new(way, Script::new().on("test/probe", [script::no_reply()])).await;
        let peer = wired.peer.clone();
        let call = tokio::spawn(async move { peer.call(&Probe::default(), Duration::from_mins(10)).await });
        wired.server.wait_for_method("test/probe").await;
        wired.peer.close();
        call.await.unwrap().unwrap_err();
        if way == Way::Stdio {
            let pid = wired.child().pid();
            wired.child().wait(LONG).await.expect("the server follows the end of its input");
            // Not even a zombie is left.
            assert_eq!(process::stat(pid), None);
        }
        wait_until(LONG, "the end of all tasks", || tasks() == before).await;
        wired.end().await;
    }
}

#[tokio::test]
async fn nothing_can_be_sent_after_the_end() {
    let wired = Wired::new(Way::Stdio, Script::new()).await;
    let (thread, _messages) = wired.open().await;
    wired.peer.close();
    assert_eq!(wired.peer.notify("initialized").await, Err(Closed::ByUs));
    assert_eq!(
        wired.peer.respond(&RequestId::Number(0), Answer::unknown_method("m")).await,
        Err(Closed::ByUs)
    );
    let posted = wired.peer.post(&prompt(&thread), LONG, inbox().0, 1).await;
    assert_eq!(posted, Err(CallError::Closed(Closed::ByUs)));
    wired.end().await;
}
