//! One ordered stream per thread, and who gets what.

use std::time::Duration;

use codex_wire::answer::{Answer, CommandDecision, Verdict};
use codex_wire::call::TurnStart;
use codex_wire::os::process;
use codex_wire::peer::{Delivery, INBOX_MESSAGES, Inbox, Peer, inbox, read_reply};
use codex_wire::{RequestId, ThreadId};
use serde_json::{Value, json};
use testkit::script::{self, Script, Step, item};
use testkit::wait_until;

use crate::peer_rig::{BOTH, LONG, Way, Wired, next, next_method, prompt};

const APPROVAL: &str = "item/commandExecution/requestApproval";

/// Posts a prompt; its reply comes to the thread's own inbox.
async fn post(peer: &Peer, start: &TurnStart, thread: &ThreadId) -> (codex_wire::peer::InboxSender, Inbox) {
    let (sender, messages) = inbox();
    peer.route(thread.clone(), sender.clone());
    peer.post(start, LONG, sender.clone(), 77).await.unwrap();
    (sender, messages)
}

/// Starts a thread and prompts it, with one inbox for all that comes.
async fn prompted(wired: &Wired) -> Inbox {
    let (thread, _) = wired.open().await;
    post(&wired.peer, &prompt(&thread), &thread.id().unwrap()).await.1
}

fn turn(steps: impl IntoIterator<Item = Step>) -> Script {
    Script::new().on("turn/start", steps)
}

fn note(name: &str) -> Step {
    script::notify(&format!("test/{name}"), json!({"threadId": "$thread"}))
}

async fn methods(messages: &mut Inbox, count: usize) -> Vec<String> {
    let mut methods = Vec::new();
    for _ in 0..count {
        methods.push(next_method(messages).await);
    }
    methods
}

fn approve() -> Answer {
    Answer::Command(CommandDecision::Plain(Verdict::Accept))
}

#[tokio::test]
async fn notifications_requests_and_a_posted_reply_keep_the_order_of_the_wire() {
    let script = turn([
        note("before"),
        script::command_request(0, "ls"),
        script::reply_turn(),
        note("between"),
        script::command_request(1, "ls"),
        note("after"),
    ]);
    for way in BOTH {
        let wired = Wired::new(way, script.clone()).await;
        let mut messages = prompted(&wired).await;
        let expected = [
            "test/before",
            &format!("{APPROVAL} 0"),
            "reply 77",
            "test/between",
            &format!("{APPROVAL} 1"),
            "test/after",
        ];
        assert_eq!(methods(&mut messages, 6).await, expected);
        wired.end().await;
    }
}

#[tokio::test]
async fn a_posted_reply_is_read_as_what_the_method_promises() {
    let wired = Wired::new(Way::Stdio, turn([script::reply_turn()])).await;
    let mut messages = prompted(&wired).await;
    let Delivery::Reply { token: 77, result: Ok(raw) } = next(&mut messages).await else {
        panic!("no reply")
    };
    assert_eq!(read_reply::<TurnStart>(&raw).unwrap().turn.id.as_str(), script::turn_id(1));
    wired.end().await;
}

// peer: T1
#[tokio::test]
async fn an_answer_carries_the_id_of_its_request_in_the_same_json_type() {
    let ids = [json!(0), json!(7), json!("s-1"), json!("0")];
    let script = turn(ids.clone().map(|id| script::command_request(id, "ls")));
    for way in BOTH {
        let wired = Wired::new(way, script.clone()).await;
        let mut messages = prompted(&wired).await;
        let expected: [RequestId; 4] = [0.into(), 7.into(), text_id("s-1"), text_id("0")];
        for id in expected {
            let Delivery::Request(incoming) = next(&mut messages).await else { panic!("no request") };
            assert_eq!(incoming.id, id);
            wired.peer.respond(&incoming.id, approve()).await.unwrap();
        }
        for id in ids.clone() {
            let answer = wired.server.wait_for_answer(id.clone()).await;
            assert_eq!(answer, json!({"id": id, "result": {"decision": "accept"}}));
        }
        wired.end().await;
    }
}

fn text_id(id: &str) -> RequestId {
    RequestId::Text(id.to_owned())
}

#[tokio::test]
async fn what_belongs_to_no_thread_reaches_all_threads() {
    let script = Script::new().on("test/probe", [script::rate_limits(7, 1), script::reply(json!({}))]);
    let wired = Wired::new(Way::Stdio, script).await;
    let (_, mut first) = wired.open().await;
    let (_, mut second) = wired.open_another().await;
    wired.probe(LONG).await.unwrap();
    assert_eq!(next_method(&mut first).await, "account/rateLimits/updated");
    assert_eq!(next_method(&mut second).await, "account/rateLimits/updated");
    wired.end().await;
}

#[tokio::test]
async fn threads_get_their_own_messages_alone() {
    let wired = Wired::new(Way::Stdio, turn([note("own"), script::reply_turn()])).await;
    let (first, mut of_first) = wired.open().await;
    let (second, mut of_second) = wired.open_another().await;
    for (thread, messages) in [(&second, &mut of_second), (&first, &mut of_first)] {
        wired.peer.call(&prompt(thread), LONG).await.unwrap();
        let Delivery::Notification(note) = next(messages).await else { panic!("no notification") };
        assert_eq!(note.thread_id, thread.id());
    }
    assert!(of_first.is_empty() && of_second.is_empty());
    wired.end().await;
}

#[tokio::test]
async fn what_a_sub_agent_asks_and_its_own_sub_agents_ask_reaches_the_thread_above() {
    let grandchild = script::child_started("grandchild").with("/thread/parentThreadId", "child");
    let script = turn([
        script::child_started("child"),
        script::command_request(3, "ls").in_thread("child"),
        grandchild,
        script::command_request(4, "ls").in_thread("grandchild"),
        note("end"),
    ]);
    let wired = Wired::new(Way::Stdio, script).await;
    let (_other, _unread) = wired.open().await;
    let (thread, _) = wired.open_another().await;
    let (_, mut messages) = post(&wired.peer, &prompt(&thread), &thread.id().unwrap()).await;
    let expected =
        ["thread/started", &format!("{APPROVAL} 3"), "thread/started", &format!("{APPROVAL} 4"), "test/end"];
    assert_eq!(methods(&mut messages, 5).await, expected);
    wired.end().await;
}

#[tokio::test]
async fn a_sub_agent_that_only_the_call_tells_of_is_heard_too() {
    let spawned = |child: &str| item::spawned_agent(child, "help").completed();
    // A call that deals with a thread it has not started makes it no child of ours.
    let foreign = item::spawned_agent("stranger", "help").with("tool", "sendInput").completed();
    let script = turn([
        script::fresh_item([spawned("child")]),
        script::command_request(3, "ls").in_thread("child"),
        script::fresh_item([spawned("grandchild").in_thread("child")]),
        script::command_request(4, "ls").in_thread("grandchild"),
        script::fresh_item([foreign]),
        script::command_request(5, "ls").in_thread("stranger"),
        note("end"),
    ]);
    let wired = Wired::new(Way::Stdio, script).await;
    let (thread, _) = wired.open().await;
    let (_, mut messages) = post(&wired.peer, &prompt(&thread), &thread.id().unwrap()).await;
    let (third, fourth) = (format!("{APPROVAL} 3"), format!("{APPROVAL} 4"));
    let expected = ["item/completed", &third, "item/completed", &fourth, "item/completed", "test/end"];
    assert_eq!(methods(&mut messages, 6).await, expected);
    assert_eq!(wired.server.wait_for_answer(5).await["result"], json!({"decision": "decline"}));
    wired.end().await;
}

#[tokio::test]
async fn a_request_that_nobody_here_can_take_is_declined_at_once() {
    let script = turn([
        script::command_request(0, "ls").in_thread("stranger"),
        script::file_request(1).in_thread("stranger"),
        script::permissions_request(2, "/x").in_thread("stranger"),
        script::unknown_request(3).in_thread("stranger"),
        script::current_time(4).in_thread("stranger"),
        script::token_refresh(5),
    ]);
    for way in BOTH {
        let wired = Wired::new(way, script.clone()).await;
        let _messages = prompted(&wired).await;
        for id in [0, 1] {
            assert_eq!(wired.server.wait_for_answer(id).await["result"], json!({"decision": "decline"}));
        }
        assert_eq!(wired.server.wait_for_answer(2).await["result"], json!({"permissions": {}}));
        for id in [3, 5] {
            assert_eq!(wired.server.wait_for_answer(id).await["error"]["code"], -32601);
        }
        assert!(
            wired.server.wait_for_answer(4).await["result"]["currentTimeAt"].as_i64().unwrap()
                > 1_700_000_000
        );
        wired.end().await;
    }
}

#[tokio::test]
async fn a_request_for_an_owner_that_is_gone_is_declined() {
    let wired = Wired::new(Way::Stdio, turn([script::command_request(0, "ls")])).await;
    let messages = prompted(&wired).await;
    drop(messages);
    assert_eq!(wired.server.wait_for_answer(0).await["result"], json!({"decision": "decline"}));
    wired.end().await;
}

/// Tests that fill or measure this process's memory take turns, where they share a process.
static MEMORY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test]
async fn an_inbox_that_nobody_reads_costs_bounded_memory_and_loses_nothing() {
    const COUNT: u64 = 30_000;
    let _memory = MEMORY.lock().await;
    let filler = "x".repeat(2000);
    let flood = script::notify("test/flood", json!({"threadId": "$thread", "n": "$index", "filler": filler}));
    let script = turn([script::flood(COUNT, [flood]), note("end")]);
    for way in BOTH {
        let wired = Wired::new(way, script.clone()).await;
        let before = rss();
        let mut messages = prompted(&wired).await;
        wait_until(LONG, "a full inbox", || messages.len() == INBOX_MESSAGES).await;
        // 60 MB are on their way; there is no event for bytes that stay away.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(messages.len(), INBOX_MESSAGES);
        let grown = rss().saturating_sub(before);
        assert!(grown < 32 * 1024 * 1024, "{grown} bytes more");

        for n in 0..COUNT {
            let Delivery::Notification(note) = next(&mut messages).await else { panic!("no notification") };
            let line: Value = serde_json::from_slice(note.raw()).unwrap();
            assert_eq!(line["params"]["n"], n);
        }
        assert_eq!(next_method(&mut messages).await, "test/end");
        wired.end().await;
    }
}

fn rss() -> u64 {
    process::rss_bytes(std::process::id()).unwrap()
}

#[tokio::test]
async fn big_messages_that_nobody_reads_are_bounded_in_bytes() {
    const BIG: usize = 10_000_000;
    let _memory = MEMORY.lock().await;
    let script = turn([script::flood(16, [script::big_line(BIG)]), note("end")]);
    let wired = Wired::new(Way::Stdio, script).await;
    let mut messages = prompted(&wired).await;
    // 128 MiB hold 13 of them.
    wait_until(LONG, "as much as may wait", || messages.len() == 13).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(messages.len(), 13);
    for _ in 0..16 {
        assert_eq!(next_method(&mut messages).await, "test/bigLine");
    }
    assert_eq!(next_method(&mut messages).await, "test/end");
    wired.end().await;
}

#[tokio::test]
async fn a_line_of_twenty_megabytes_passes() {
    const BIG: usize = 20_000_000;
    for way in BOTH {
        let wired = Wired::new(way, turn([script::big_line(BIG)])).await;
        let mut messages = prompted(&wired).await;
        let Delivery::Notification(note) = next(&mut messages).await else { panic!("no notification") };
        assert_eq!((&*note.method, note.raw().len()), ("test/bigLine", BIG));
        wired.end().await;
    }
}
