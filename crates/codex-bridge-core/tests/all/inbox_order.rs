//! The order of what is said in a conversation, and what is added to a turn that runs: once, and only what may be.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use codex_bridge_core::desk::calls::Prompt;
use codex_bridge_core::inbox::{Arrival, Message, MessageKind, MessageState, Rules, WhileRunning};
use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::store::{TaskFilter, Write};
use codex_bridge_core::task::Status;
use codex_bridge_core::{Caller, Desk};
use futures_util::FutureExt;
use scripted_model::Scenario;

use crate::inbox::{from, messages, receive, rules, said};
use crate::outbox::{Stage, config, until};
use crate::stubborn_store::Stubborn;
use crate::workbench::{PATIENCE, Serving, Workbench, at_rest};

async fn serving(bench: &Workbench, stage: &Arc<Stage>, while_running: WhileRunning) -> Serving {
    let bridge = Serving::on(bench.open_with(config(bench, stage)).await);
    bridge.chats.open_channel(Rules { while_running, ..rules(bench) }).await.unwrap();
    bridge
}

#[tokio::test]
async fn a_reply_that_must_wait_holds_up_those_behind_it() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    stage.answers(Outcome::failed(Refusal::NotBefore(Duration::from_secs(2)), "too many"));
    let bridge = serving(&bench, &stage, WhileRunning::Queue).await;
    receive(&bridge, [from("ada", "m-1", "one [play] say One."), from("ada", "m-2", "two [play] say Two.")])
        .await;
    until(|| stage.attempts().len() == 3).await;
    assert_eq!(said(&stage), ["One.", "One.", "Two."]);
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_reply_that_was_cut_off_by_a_death_goes_before_those_behind_it() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    stage.play(|| std::future::pending().boxed());
    let bridge = serving(&bench, &stage, WhileRunning::Queue).await;
    receive(&bridge, [from("ada", "m-1", "one [play] say One."), from("ada", "m-2", "two [play] say Two.")])
        .await;
    messages(&bridge, |all| all.iter().all(|message| message.state == MessageState::Answered)).await;
    assert_eq!(said(&stage), ["One."]);
    bridge.abandon().await;
    let stage = Arc::new(Stage::default());
    let bridge = serving(&bench, &stage, WhileRunning::Queue).await;
    until(|| stage.attempts().len() == 2).await;
    assert_eq!(said(&stage), ["One.", "Two."]);
    bench.tidy(bridge.end()).await;
}

/// How often the model was told something, in the last of what it was asked.
fn times_told(bench: &Workbench, text: &str) -> usize {
    let requests = bench.model.requests();
    requests.last().unwrap().body.to_string().matches(text).count()
}

#[tokio::test]
async fn only_the_very_next_message_is_added_to_a_turn_and_never_one_that_is_to_wait() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("first", Scenario::new().stall("gate").say("First."));
    bench.model.script_containing("added", Scenario::new().stall("late").say("First, and added."));
    let bridge = serving(&bench, &stage, WhileRunning::Steer).await;
    receive(&bridge, [from("ada", "m-1", "first")]).await;
    bench.model.wait_for_stall("gate").await;
    receive(
        &bridge,
        [
            from("ada", "m-2", "added"),
            from("ada", "m-3", "/queue later [play] say Later."),
            from("ada", "m-4", "last [play] say Last."),
        ],
    )
    .await;
    let all =
        messages(&bridge, |all| all[1].state == MessageState::Running && all[1].sealed_text.is_none()).await;
    assert_eq!(all[1].kind, MessageKind::Steer);
    bench.model.release("gate");
    let stalled = tokio::time::timeout(PATIENCE, bench.model.wait_for_stall("late")).await;
    stalled.unwrap_or_else(|_| panic!("it was never told: {:#?}", bench.model.requests()));
    let kinds: Vec<_> = messages(&bridge, |_| true).await.iter().map(|one| (one.kind, one.state)).collect();
    assert_eq!(kinds[2..], [(MessageKind::Prompt, MessageState::Received); 2], "{kinds:?}");
    bench.model.release("late");
    until(|| said(&stage).len() == 3).await;
    assert_eq!(said(&stage), ["First, and added.", "Later.", "Last."]);
    let all = messages(&bridge, |all| all.iter().all(|one| one.state == MessageState::Answered)).await;
    assert_eq!(all[0].reply_id, all[1].reply_id, "one answer for both");
    bench.tidy(bridge.end()).await;
}

/// A turn that runs, and a message that is to be added to it and stands as a death left it.
async fn half_added(bench: &Workbench, bridge: &Serving) -> Message {
    bench.model.script("first", Scenario::new().stall("gate").say("First."));
    receive(bridge, [from("ada", "m-1", "first")]).await;
    bench.model.wait_for_stall("gate").await;
    let task_id = bridge.list(&TaskFilter::default()).await.unwrap()[0].task.id.clone();
    // Not served, so that nothing is done with it before it stands as it should.
    bridge.chats.close_channel(&"chat".into());
    bridge.chats.open_channel(Rules { channel: "other".into(), ..rules(bench) }).await.unwrap();
    let mut added = Message {
        id: "in-added".into(),
        external_id: "m-2".to_owned(),
        kind: MessageKind::Steer,
        state: MessageState::Running,
        task_id: Some(task_id),
        ..messages(bridge, |all| !all.is_empty()).await.remove(0)
    };
    let sealed = bench.key().seal(b"/steer added [play] say Added.", added.id.as_str()).unwrap();
    added.sealed_text = Some(sealed);
    bridge.store().commit(vec![Write::AddMessage(Box::new(added.clone()))]).await.unwrap();
    bridge.chats.open_channel(rules(bench)).await.unwrap();
    added
}

#[tokio::test]
async fn what_a_death_kept_from_being_added_waits_its_turn_before_what_follows() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = serving(&bench, &stage, WhileRunning::Queue).await;
    half_added(&bench, &bridge).await;
    receive(&bridge, [from("ada", "m-3", "last [play] say Last.")]).await;
    bench.model.release("gate");
    until(|| said(&stage).len() == 3).await;
    assert_eq!(said(&stage), ["First.", "Added.", "Last."]);
    assert_eq!(times_told(&bench, "say Added"), 1, "it was never told twice");
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn while_it_is_not_known_whether_something_was_added_commands_are_carried_out_and_nothing_spins() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let (bridge, store) = Stubborn::open(&bench, config(&bench, &stage)).await;
    let bridge = Serving::on(bridge);
    bridge.chats.open_channel(rules(&bench)).await.unwrap();
    half_added(&bench, &bridge).await;
    receive(&bridge, [from("ada", "m-3", "/status"), from("ada", "m-4", "last [play] say Last.")]).await;
    until(|| said(&stage).len() == 1).await;
    assert!(said(&stage)[0].contains("Last asked: first"), "{:?}", said(&stage));
    let before = store.looks.load(Ordering::SeqCst);
    // A whole turn of somebody else's is time enough for thousands of looks.
    let other = bridge.start(bench.task("other [play] say Other.")).await.unwrap().task.id;
    at_rest(&bridge, other.as_str()).await;
    let looks = store.looks.load(Ordering::SeqCst) - before;
    assert!(looks < 10, "{looks} looks while nothing happened here");
    bench.model.release("gate");
    until(|| said(&stage).len() == 4).await;
    assert_eq!(said(&stage)[1..], ["First.", "Added.", "Last."]);
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn what_was_to_be_added_long_ago_is_not_added_and_its_sender_hears_so() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("first", Scenario::new().stall("gate").say("First."));
    let bridge = serving(&bench, &stage, WhileRunning::Queue).await;
    receive(&bridge, [from("ada", "m-1", "first")]).await;
    bench.model.wait_for_stall("gate").await;
    let late = from("ada", "m-2", "/steer added");
    receive(&bridge, [Arrival { sent_at: late.sent_at - 11 * 60 * 1000, ..late }]).await;
    until(|| said(&stage).len() == 1).await;
    assert!(said(&stage)[0].contains("too long ago"), "{:?}", said(&stage));
    bench.model.release("gate");
    until(|| said(&stage).len() == 2).await;
    let all = messages(&bridge, |all| all.iter().all(|one| one.state == MessageState::Answered)).await;
    assert_eq!((all.len(), said(&stage)[1].as_str()), (2, "First."));
    assert_eq!(times_told(&bench, "added"), 0);
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn what_was_added_before_a_death_is_found_and_not_said_again() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = serving(&bench, &stage, WhileRunning::Queue).await;
    bench.model.script("first", Scenario::new().stall("gate").say("First."));
    bench.model.script_containing("added", Scenario::new().say("First, and added."));
    receive(&bridge, [from("ada", "m-1", "first")]).await;
    bench.model.wait_for_stall("gate").await;
    receive(&bridge, [from("ada", "m-2", "/steer added")]).await;
    let all = messages(&bridge, |all| all.len() == 2 && all[1].sealed_text.is_none()).await;
    // As if we had died before that was written.
    let mut unknown = all[1].clone();
    unknown.state = MessageState::Running;
    unknown.reply_id = None;
    unknown.sealed_text = Some(bench.key().seal(b"/steer added", unknown.id.as_str()).unwrap());
    bridge.store().commit(vec![Write::SaveMessage(Box::new(unknown))]).await.unwrap();
    bridge.abandon().await;
    bench.model.release("gate");
    let bridge = serving(&bench, &stage, WhileRunning::Queue).await;
    let all = messages(&bridge, |all| all.iter().all(|one| one.state == MessageState::Answered)).await;
    assert_eq!(all[0].reply_id, all[1].reply_id, "{all:#?}");
    until(|| said(&stage) == ["First, and added."]).await;
    assert_eq!(times_told(&bench, "added"), 1);
    let task = bridge.list(&TaskFilter::default()).await.unwrap().remove(0).task;
    assert_eq!((task.status, task.used.turns), (Status::Completed, 1), "{task:#?}");
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn only_approvers_in_a_chat_speak_into_a_turn_of_the_owner() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = serving(&bench, &stage, WhileRunning::Queue).await;
    bench.model.script("mine", Scenario::new().stall("gate").say("Mine."));
    let room = |who, id, text| Arrival { conversation: "room".into(), ..from(who, id, text) };
    receive(&bridge, [room("bob", "m-1", "first [play] say First.")]).await;
    until(|| said(&stage) == ["First."]).await;
    let id = bridge.list(&TaskFilter::default()).await.unwrap()[0].task.id.clone();
    let mine = Prompt { prompt: "mine".to_owned(), client_request_id: None };
    Desk::new((*bridge).clone()).continue_task(&Caller::owner(), id.as_str(), mine).await.unwrap();
    bench.model.wait_for_stall("gate").await;
    receive(&bridge, [room("bob", "m-2", "/steer of Bob [play] say For Bob.")]).await;
    until(|| said(&stage).len() == 2).await;
    let told = said(&stage).remove(1);
    assert!(told.contains("nobody else adds to it. Your message waits in the queue"), "{told}");
    receive(&bridge, [room("ada", "m-3", "/steer of Ada [play] say For Ada.")]).await;
    messages(&bridge, |all| all.len() == 3 && all[2].sealed_text.is_none()).await;
    bench.model.release("gate");
    let all = messages(&bridge, |all| all.iter().all(|one| one.state == MessageState::Answered)).await;
    assert_eq!((all[1].kind, all[2].kind), (MessageKind::Prompt, MessageKind::Steer), "{all:#?}");
    until(|| said(&stage).len() == 3).await;
    assert_eq!(said(&stage)[2], "For Bob.");
    let log = bridge.audit_log(Some(id.as_str()), None, 100).await.unwrap();
    let steers: Vec<&str> =
        log.iter().filter(|line| line.action == "steer").map(|line| line.actor.as_str()).collect();
    assert_eq!(steers, ["chat:ada"], "what is refused is not recorded as done");
    bench.tidy(bridge.end()).await;
}
