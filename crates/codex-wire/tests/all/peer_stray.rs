//! Lines that are no message: each costs itself alone, and is kept for diagnosis without its secrets.

use codex_wire::peer::CallError;
use serde_json::json;
use testkit::script::{self, Script};

use crate::peer_rig::{BOTH, LONG, Way, Wired, next_method};

const SECRET: &str = "sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789";

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
        let (count, kept) = wired.peer.stray_lines();
        assert_eq!((count, kept.len()), (9, 9), "{kept:?}");
        assert_eq!(kept[0].trim_end(), "garbage");
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
    let kept = wired.peer.stray_lines();
    assert_eq!(kept, (1, vec![r#"{"method":"test/cut","par"#.to_owned()]));
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
async fn stray_lines_are_kept_cut_and_without_secrets() {
    let across_the_cut = format!("{} OPENAI_API_KEY={SECRET}", "x".repeat(170));
    let steps = [
        script::raw_line(format!("token: {SECRET} end")),
        script::raw_line(across_the_cut),
        script::raw_line("long ".repeat(10_000)),
        script::reply(json!({})),
    ];
    for way in BOTH {
        let wired = Wired::new(way, Script::new().on("test/probe", steps.clone())).await;
        wired.probe(LONG).await.unwrap();
        let (count, kept) = wired.peer.stray_lines();
        assert_eq!(count, 3);
        assert!(kept.iter().all(|line| line.chars().count() <= 200), "{kept:?}");
        assert!(!kept.concat().contains("AbCdEfGhIjKl"), "{kept:?}");
        assert!(kept[0].starts_with("token: ") && kept[0].contains("end"), "{kept:?}");
        wired.end().await;
    }
}

#[tokio::test]
async fn a_flood_of_stray_lines_is_counted_and_the_last_are_kept() {
    let steps =
        [script::flood(100, [script::raw_line("noise")]), script::raw_line("last"), script::reply(json!({}))];
    let wired = Wired::new(Way::Stdio, Script::new().on("test/probe", steps)).await;
    wired.probe(LONG).await.unwrap();
    let (count, kept) = wired.peer.stray_lines();
    assert_eq!((count, kept.len()), (101, 16));
    assert_eq!(kept.last().unwrap(), "last");
    wired.end().await;
}
