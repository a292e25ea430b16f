//! Calls: replies, refusals, deadlines, overload, and how many are out at once.

use std::time::{Duration, Instant};

use codex_wire::answer::RpcError;
use codex_wire::call::ThreadLoadedList;
use codex_wire::peer::{CallError, inbox};
use futures_util::future::join_all;
use serde_json::json;
use testkit::script::{self, Script};

use crate::peer_rig::{BOTH, LONG, Probe, Way, Wired, next_method, prompt};

const OVERLOADED: i64 = -32001;

#[tokio::test]
async fn a_refusal_keeps_its_code_its_words_and_its_data() {
    let data =
        json!({"type": "modelProviderMismatch", "modelProvider": "fake0", "currentModelProvider": "fake"});
    let script = Script::new()
        .on("test/probe", [script::reply_error_with(-32600, "This chat uses fake0.", data.clone())]);
    for way in BOTH {
        let wired = Wired::new(way, script.clone()).await;
        let refused =
            RpcError { code: -32600, message: "This chat uses fake0.".into(), data: Some(data.clone()) };
        assert_eq!(wired.probe(LONG).await, Err(CallError::Refused(refused)));
        wired.end().await;
    }
}

#[tokio::test]
async fn a_refusal_of_an_odd_shape_still_fails_its_call() {
    let script = Script::new().on("test/probe", [script::raw_line(r#"{"id":1,"error":"no"}"#)]);
    let wired = Wired::new(Way::Stdio, script).await;
    let Err(CallError::Refused(error)) = wired.probe(LONG).await else { panic!("not refused") };
    assert_eq!(error.message, "\"no\"");
    wired.end().await;
}

#[tokio::test]
async fn a_reply_that_is_not_what_the_method_promises_is_unreadable() {
    let script = Script::new().on("thread/loaded/list", [script::reply(json!({"data": 5}))]);
    let wired = Wired::new(Way::Stdio, script).await;
    let error = wired.peer.call(&ThreadLoadedList {}, LONG).await.unwrap_err();
    assert!(matches!(error, CallError::Unreadable { method: "thread/loaded/list", .. }), "{error}");
    wired.end().await;
}

#[tokio::test]
async fn a_null_result_is_a_result() {
    let script = Script::new().on("test/probe", [script::reply(json!(null))]);
    let wired = Wired::new(Way::Stdio, script).await;
    assert_eq!(wired.probe(LONG).await, Ok(json!(null)));
    wired.end().await;
}

#[tokio::test]
async fn a_call_that_times_out_is_over_and_its_late_reply_is_nobodys() {
    let late =
        [script::await_release("late"), script::reply(json!("late")), script::notify("test/said", json!({}))];
    let script = Script::new().on_nth("test/probe", 1, late).on("test/probe", [script::reply(json!("own"))]);
    for way in BOTH {
        let wired = Wired::new(way, script.clone()).await;
        let (_, mut messages) = wired.open().await;
        let limit = Duration::from_millis(50);
        let error = wired.probe(limit).await.unwrap_err();
        assert_eq!(error, CallError::TimedOut { method: "test/probe", after: limit });
        wired.server.release("late");
        assert_eq!(next_method(&mut messages).await, "test/said");
        assert_eq!(wired.probe(LONG).await, Ok(json!("own")));
        assert_eq!(wired.peer.stray_lines(), 0);
        wired.end().await;
    }
}

// peer: T30
#[tokio::test]
async fn calls_that_timed_out_leave_room_for_others() {
    let mut script = Script::new().on("test/probe", [script::reply(json!("ok"))]);
    for nth in 1..=64 {
        script = script.on_nth("test/probe", nth, [script::no_reply()]);
    }
    let wired = Wired::new(Way::Stdio, script).await;
    let lost = join_all((0..64).map(|_| wired.probe(Duration::from_millis(300)))).await;
    assert!(lost.iter().all(|result| matches!(result, Err(CallError::TimedOut { .. }))), "{lost:?}");
    assert_eq!(wired.probe(LONG).await, Ok(json!("ok")));
    wired.end().await;
}

#[tokio::test]
async fn a_posted_call_that_times_out_is_told_to_its_inbox() {
    let script = Script::new().on("test/probe", [script::no_reply()]);
    let wired = Wired::new(Way::Stdio, script).await;
    let (sender, mut messages) = inbox();
    wired.peer.post(&Probe::default(), Duration::from_millis(50), sender, 9).await.unwrap();
    assert_eq!(next_method(&mut messages).await, "reply 9 failed");
    wired.end().await;
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again_until_it_has_time() {
    let script = Script::new()
        .on_nth("test/probe", 1, [script::overloaded()])
        .on_nth("test/probe", 2, [script::overloaded()])
        .on("test/probe", [script::reply(json!("at last"))]);
    for way in BOTH {
        let wired = Wired::new(way, script.clone()).await;
        let began = Instant::now();
        assert_eq!(wired.probe(LONG).await, Ok(json!("at last")));
        // Two pauses, of at least 50 and 100 ms.
        assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
        let calls = wired.server.calls("test/probe");
        assert_eq!(calls.len(), 3);
        assert!(calls.iter().all(|call| call["params"] == json!({"n": 0})));
        wired.end().await;
    }
}

#[tokio::test]
async fn a_server_that_stays_overloaded_is_asked_a_bounded_number_of_times() {
    let wired = Wired::new(Way::Stdio, Script::new().on("test/probe", [script::overloaded()])).await;
    let Err(CallError::Refused(error)) = wired.probe(LONG).await else { panic!("not refused") };
    assert_eq!(error.code, OVERLOADED);
    assert_eq!(wired.server.calls("test/probe").len(), 6);
    wired.end().await;
}

#[tokio::test]
async fn an_overloaded_server_does_not_stretch_a_deadline() {
    let wired = Wired::new(Way::Stdio, Script::new().on("test/probe", [script::overloaded()])).await;
    let (began, limit) = (Instant::now(), Duration::from_secs(2));
    let Err(CallError::Refused(error)) = wired.probe(limit).await else { panic!("not refused") };
    assert_eq!(error.code, OVERLOADED);
    assert!(began.elapsed() < limit, "{:?}", began.elapsed());
    assert!(wired.server.calls("test/probe").len() > 1);
    wired.end().await;
}

#[tokio::test]
async fn a_thread_that_opens_only_at_the_second_try_gets_its_messages() {
    let script = Script::new().on_nth("thread/start", 1, [script::overloaded()]);
    let wired = Wired::new(Way::Stdio, script).await;
    let (thread, mut messages) = wired.open().await;
    let (sender, _unread) = inbox();
    wired.peer.post(&prompt(&thread), LONG, sender, 1).await.unwrap();
    assert_eq!(next_method(&mut messages).await, "thread/status/changed");
    wired.end().await;
}

#[tokio::test]
async fn of_two_hundred_calls_at_once_no_more_than_64_are_in_flight() {
    let script =
        Script::new().on("test/probe", [script::await_release("go"), script::reply(json!("$index"))]);
    for way in BOTH {
        let wired = Wired::new(way, script.clone()).await;
        let mut calls = Box::pin(join_all((0..200).map(|n| {
            let peer = wired.peer.clone();
            async move { peer.call(&Probe { n }, LONG).await }
        })));
        let watching = async {
            wired.server.wait_for("64 calls", |all| all.len() >= 64).await;
            // Everything that was queued before this has been received before it.
            wired.peer.notify("test/barrier").await.unwrap();
            wired.server.wait_for_method("test/barrier").await;
            assert_eq!(wired.server.calls("test/probe").len(), 64);
            wired.server.release("go");
        };
        let ((), results) = tokio::join!(watching, &mut calls);
        assert_eq!(results.len(), 200);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        let mut sent: Vec<_> =
            wired.server.calls("test/probe").iter().map(|call| call["params"]["n"].as_u64()).collect();
        sent.sort_unstable();
        assert!((0..200).map(Some).eq(sent));
        wired.end().await;
    }
}
