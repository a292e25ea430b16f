//! Lines that are no message: each costs itself alone, and is counted.

use codex_wire::peer::CallError;
use serde_json::json;
use testkit::script::{self, Script};

use crate::peer_rig::{BOTH, LONG, Way, Wired, next_method};

// peer: E41, T6
#[tokio::test]
async fn lines_that_are_no_message_cost_themselves_alone() {
    let strays: [&[u8]; 9] = [
        b"garbage",
        b"",
        b"[1,2]",
        b"42",
        b"\xff\xfe",
        b"{\"method\":5}",
        b"{\"id\":1.5,\"method\":\"m\"}",
        b"{\"neither\":1}",
        b"{\"id\":\"unasked\",\"result\":1}",
    ];
    let mut steps: Vec<_> = strays.iter().map(|line| script::raw_line(*line)).collect();
    steps.push(script::notify("test/sane", json!({})));
    steps.push(script::reply(json!("still here")));
    for way in BOTH {
        let wired = Wired::new(way, Script::new().on("test/probe", steps.clone())).await;
        let (_, mut messages) = wired.open().await;
        assert_eq!(wired.probe(LONG).await, Ok(json!("still here")));
        assert_eq!(next_method(&mut messages).await, "test/sane");
        assert_eq!(wired.peer.stray_lines(), 9);
        wired.end().await;
    }
}

#[tokio::test]
async fn half_a_line_costs_itself_alone() {
    let steps = [
        script::half_line(r#"{"method":"test/cut","par"#),
        script::raw("\n"),
        script::reply(json!("still here")),
    ];
    let wired = Wired::new(Way::Stdio, Script::new().on("test/probe", steps)).await;
    assert_eq!(wired.probe(LONG).await, Ok(json!("still here")));
    assert_eq!(wired.peer.stray_lines(), 1);
    wired.end().await;
}

#[tokio::test]
async fn half_a_line_before_the_end_is_no_message() {
    let steps = [script::half_line(r#"{"id":1,"result":1}"#), script::exit(0)];
    let wired = Wired::new(Way::Stdio, Script::new().on("test/probe", steps)).await;
    assert!(matches!(wired.probe(LONG).await, Err(CallError::Closed(_))));
    wired.end().await;
}

#[tokio::test]
async fn a_flood_of_stray_lines_is_counted() {
    let steps = [script::flood(100, [script::raw_line("noise")]), script::reply(json!({}))];
    let wired = Wired::new(Way::Stdio, Script::new().on("test/probe", steps)).await;
    wired.probe(LONG).await.unwrap();
    assert_eq!(wired.peer.stray_lines(), 100);
    wired.end().await;
}
