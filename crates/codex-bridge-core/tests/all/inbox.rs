//! The inbox on the real Codex: what comes in, and what becomes of it when something is wrong with it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use codex_bridge_core::bridge::RequestSelector;
use codex_bridge_core::inbox::{
    Allowed, Arrival, Context, Message, MessageState, Party, Received, Room, Rules, Sender, WhenFull,
};
use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{self, Content, Delivery, Notice, Outcome, notice};
use codex_bridge_core::store::{DeliveryFilter, MessageFilter, TaskFilter, Write};
use codex_bridge_core::task::Status;
use codex_bridge_core::token::Role;
use codex_bridge_core::{Caller, Config};
use codex_session::Decision;
use futures_util::FutureExt;
use scripted_model::{Response, Scenario};

use crate::outbox::{Stage, config, deliveries, until};
use crate::stubborn_store::Stubborn;
use crate::workbench::{PATIENCE, Serving, Workbench, asked, decide, eventually};

/// Ada may decide, Bob may write, and so may an agent.
pub fn rules(bench: &Workbench) -> Rules {
    let allow = ["ada:approver", "bob", "peer"].map(|text| Allowed::parse(text).unwrap());
    let mut rules = Rules::new("chat", allow.into(), [("home".to_owned(), bench.home.workspace())].into());
    rules.approval_policy = codex_session::ApprovalMode::Untrusted;
    rules
}

/// A message by somebody in their own chat.
pub fn from(who: &str, external_id: &str, text: &str) -> Arrival {
    let party = if who == "peer" { Party::Agent } else { Party::Person };
    Arrival {
        external_id: external_id.to_owned(),
        conversation: who.into(),
        sender: Sender { id: who.to_owned(), name: who.to_owned(), party },
        room: Room::Direct,
        text: text.to_owned(),
        reply_to: format!("stage:{who}"),
        context: Context::default(),
        attachments: Vec::new(),
        position: None,
        sent_at: now_ms(),
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

pub async fn receive(bridge: &Serving, arrivals: impl IntoIterator<Item = Arrival>) {
    bridge.chats.receive(&"chat".into(), arrivals.into_iter().collect(), None).await.unwrap();
}

/// All messages, the oldest first, once they are so.
pub async fn messages(bridge: &Serving, is_so: impl Fn(&[Message]) -> bool) -> Vec<Message> {
    let all = async || {
        let mut all = bridge.chats.messages(&MessageFilter::default()).await.unwrap();
        all.reverse();
        all
    };
    eventually(all, |all| is_so(all)).await
}

/// What is said in a conversation; nothing in any other notice.
pub fn text(notice: &Notice) -> &str {
    match &notice.content {
        Content::Reply(reply) => &reply.text.text,
        Content::Reminder(_) => notice::REMINDER,
        _ => "",
    }
}

/// What was sent, in the order in which it was tried.
pub fn said(stage: &Stage) -> Vec<String> {
    stage.attempts().iter().map(|attempt| text(&attempt.notice).to_owned()).collect()
}

async fn serving(bench: &Workbench, stage: &Arc<Stage>) -> Serving {
    let bridge = Serving::on(bench.open_with(config(bench, stage)).await);
    bridge.chats.open_channel(rules(bench)).await.unwrap();
    bridge
}

fn is_over(message: &Message) -> bool {
    matches!(message.state, MessageState::Answered | MessageState::Acknowledged | MessageState::Dead)
}

#[tokio::test]
async fn what_is_wrong_with_one_message_stops_no_other_and_ends() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let (bridge, store) = Stubborn::open(&bench, config(&bench, &stage)).await;
    let bridge = Serving::on(bridge);
    store.curse(|write| match write {
        // It cannot be begun.
        Write::SaveMessage(one) => one.external_id == "m-1" && one.state == MessageState::Running,
        // It cannot be answered.
        Write::AddDelivery(one) => {
            text(&one.notice).contains("Cursed") || text(&one.notice).contains("more in")
        }
        _ => false,
    });
    bridge.chats.open_channel(Rules { attempts: 2, ..rules(&bench) }).await.unwrap();
    let bob =
        |id, text| Arrival { conversation: format!("bob {id}").as_str().into(), ..from("bob", id, text) };
    receive(
        &bridge,
        [
            from("ada", "m-1", "one [play] say One."),
            bob("m-2", "two [play] say Cursed."),
            bob("m-3", "three [play] say Three."),
        ],
    )
    .await;
    let all = messages(&bridge, |all| all.iter().all(is_over)).await;
    let states: Vec<MessageState> = all.iter().map(|message| message.state).collect();
    assert_eq!(states, [MessageState::Dead, MessageState::Dead, MessageState::Answered], "{all:#?}");
    deliveries(&bridge, |all| {
        all.len() == 3 && all.iter().all(|one| one.state == outbox::DeliveryState::Delivered)
    })
    .await;
    let begun = bridge.find(all[2].task_id.as_ref().unwrap().as_str()).await.unwrap().created_at;
    assert!(begun < all[0].updated_at, "it waited until another was given up: {all:#?}");
    let said = said(&stage);
    assert!(said.contains(&"Three.".to_owned()), "{said:#?}");
    assert_eq!(said.iter().filter(|text| text.contains("It is not tried again")).count(), 2, "{said:#?}");
    assert_eq!(store.refusals.load(Ordering::SeqCst), 4, "each was tried twice");
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_workspace_that_is_not_there_yet_costs_attempts_and_no_message() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = Serving::on(bench.open_with(config(&bench, &stage)).await);
    let mounted = bench.home.dir().join("mounted");
    let workspaces = [("home".to_owned(), mounted.clone())].into();
    bridge.chats.open_channel(Rules { workspaces, ..rules(&bench) }).await.unwrap();
    receive(&bridge, [from("ada", "m-1", "one [play] say One.")]).await;
    let failed = messages(&bridge, |all| all[0].attempts > 0).await.remove(0);
    assert_eq!(
        (failed.state, failed.error.as_deref()),
        (MessageState::Received, Some("the directory of workspace home does not exist"))
    );
    std::fs::create_dir(&mounted).unwrap();
    messages(&bridge, |all| all[0].state == MessageState::Answered).await;
    deliveries(&bridge, |all| all.iter().any(|one| text(&one.notice) == "One.")).await;
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_crowd_of_strangers_does_not_fill_the_audit_log() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = serving(&bench, &stage).await;
    let strangers =
        (0..50).map(|number| from(&format!("stranger-{number}"), &format!("m-{number}"), "let me in"));
    receive(&bridge, strangers).await;
    let lines = bridge.audit_log(None, None, 1_000).await.unwrap();
    let knocks: Vec<_> = lines.iter().filter(|line| line.action == "knock").collect();
    assert_eq!(knocks.len(), 21, "{knocks:#?}");
    assert_eq!(knocks.iter().filter(|line| line.detail.contains("and others")).count(), 1);
    assert_eq!(bridge.chats.knocks().len(), 50, "the operator sees them all the same");
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_command_that_cannot_be_answered_is_not_tried_without_end() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let (bridge, store) = Stubborn::open(&bench, config(&bench, &stage)).await;
    let bridge = Serving::on(bridge);
    let is_status = |text: &str| {
        text.contains("Codex has done nothing here yet") || text.contains("Nothing could be done")
    };
    store.curse(move |write| matches!(write, Write::AddDelivery(one) if is_status(text(&one.notice))));
    bridge.chats.open_channel(Rules { attempts: 1, ..rules(&bench) }).await.unwrap();
    receive(&bridge, [from("ada", "m-1", "/status"), from("bob", "m-2", "hello [play] say Hello.")]).await;
    until(|| said(&stage) == ["Hello."]).await;
    // Neither its reply nor that it failed could be written: it is left alone for a while.
    let refusals = store.refusals.load(Ordering::SeqCst);
    assert!((2..=4).contains(&refusals), "{refusals}");
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn somebody_who_was_gone_and_writes_again_is_answered_after_a_restart_too() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    stage.answers(Outcome::failed(Refusal::Gone, "they have blocked us"));
    stage.play(|| std::future::pending().boxed());
    let bridge = serving(&bench, &stage).await;
    receive(&bridge, [from("ada", "m-1", "one [play] say One.")]).await;
    deliveries(&bridge, |all| all.len() == 1 && all[0].target_gone).await;
    receive(&bridge, [from("ada", "m-2", "two [play] say Two.")]).await;
    until(|| said(&stage) == ["One.", "Two."]).await;
    bridge.abandon().await;
    let stage = Arc::new(Stage::default());
    let bridge = serving(&bench, &stage).await;
    let all =
        deliveries(&bridge, |all| all.iter().all(|one| one.state != outbox::DeliveryState::Attempting)).await;
    assert_eq!(all[1].state, outbox::DeliveryState::Delivered, "{all:#?}");
    assert_eq!(said(&stage), ["Two."]);
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn whether_anyone_may_decide_is_fixed_for_a_turn() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("Made."));
    let bridge = serving(&bench, &stage).await;
    // A name that no target could have.
    let room = |who: &str, id: &str, text: &str| Arrival {
        conversation: "general room".into(),
        reply_to: "stage:general room, and more?on=paused".to_owned(),
        ..from(who, id, text)
    };
    receive(&bridge, [room("ada", "m-1", "make x")]).await;
    messages(&bridge, |all| all[0].task_id.is_some()).await;
    let id = bridge.list(&TaskFilter::default()).await.unwrap()[0].task.id.clone();
    asked(&bridge, id.as_str()).await;
    until(|| stage.attempts().len() == 1).await;
    let told = stage.attempts().remove(0);
    assert_eq!(
        (told.target.as_str(), told.notice.requests().len()),
        ("stage:general room, and more?on=paused", 1)
    );
    // Whoever writes meanwhile may not decide, and changes nothing.
    receive(&bridge, [room("bob", "m-2", "/status"), room("bob", "m-3", "make x")]).await;
    messages(&bridge, |all| all.len() == 3 && is_over(&all[1])).await;
    assert_eq!(asked(&bridge, id.as_str()).await.open_requests.len(), 1);
    decide(&bridge, id.as_str(), Decision::Accept, "a test").await.unwrap();
    // Bob's own turn has nobody to ask, though Ada wrote last.
    receive(&bridge, [room("ada", "m-4", "/status")]).await;
    let all = messages(&bridge, |all| all.iter().all(is_over)).await;
    assert_eq!(all.len(), 4);
    until(|| said(&stage).iter().any(|text| text.contains("nobody here may decide"))).await;
    assert!(said(&stage).iter().any(|text| text == "Made."));
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn what_was_asked_is_declined_once_nobody_may_decide_any_more() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("I may not."));
    let bridge = serving(&bench, &stage).await;
    receive(&bridge, [from("ada", "m-1", "make x")]).await;
    messages(&bridge, |all| all[0].task_id.is_some()).await;
    let id = bridge.list(&TaskFilter::default()).await.unwrap()[0].task.id.clone();
    asked(&bridge, id.as_str()).await;
    let mut without = rules(&bench);
    without.allow[0].role = Role::Operator;
    bridge.chats.open_channel(without).await.unwrap();
    messages(&bridge, |all| all.iter().all(is_over)).await;
    until(|| said(&stage).iter().any(|text| text.contains("nobody here may decide"))).await;
    assert!(!bench.home.workspace().join("x.txt").exists());
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_reminder_tells_only_of_what_is_open_when_it_goes_out() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("Made."));
    let bridge = serving(&bench, &stage).await;
    receive(&bridge, [from("ada", "m-1", "make x")]).await;
    deliveries(&bridge, |all| all.len() == 1 && all[0].state == outbox::DeliveryState::Delivered).await;
    bridge.abandon().await;
    let stage = Arc::new(Stage::default());
    stage.answers(Outcome::failed(Refusal::NotBefore(Duration::from_secs(1)), "too many"));
    let bridge = serving(&bench, &stage).await;
    until(|| stage.attempts().len() == 1).await;
    let id = bridge.list(&TaskFilter::default()).await.unwrap()[0].task.id.clone();
    decide(&bridge, id.as_str(), Decision::Accept, "a test").await.unwrap();
    until(|| stage.attempts().len() == 2).await;
    let all = bridge.deliveries(&DeliveryFilter::default()).await.unwrap();
    let reminder = all.iter().find(|one| one.id.as_str().contains("-again-")).unwrap();
    assert_eq!(reminder.state, outbox::DeliveryState::Withdrawn, "{all:#?}");
    assert_eq!(said(&stage), ["This still waits for a decision.", "Made."]);
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused_and_its_sender_hears_why() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = serving(&bench, &stage).await;
    let long = format!("delete nothing {}", "x".repeat(256 * 1024));
    receive(&bridge, [from("ada", "m-1", &long)]).await;
    until(|| said(&stage).len() == 1).await;
    assert!(said(&stage)[0].contains("has 262159 bytes; the limit is 262144"), "{:?}", said(&stage));
    let all = messages(&bridge, |all| all.iter().all(is_over)).await;
    assert_eq!((all[0].state, all[0].sealed_text.as_ref()), (MessageState::Dead, None));
    assert!(bridge.list(&TaskFilter::default()).await.unwrap().is_empty());
    assert!(bridge.chats.retry_message(&Caller::owner(), all[0].id.as_str()).await.is_err());
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_message_is_no_longer_than_the_operator_allows_a_prompt_to_be() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let short = Config { prompt_limit_bytes: 2000, ..config(&bench, &stage) };
    let bridge = Serving::on(bench.open_with(short).await);
    bridge.chats.open_channel(rules(&bench)).await.unwrap();
    receive(&bridge, [from("ada", "m-1", &"x".repeat(2001))]).await;
    until(|| said(&stage).len() == 1).await;
    assert!(said(&stage)[0].contains("has 2001 bytes; the limit is 2000"), "{:?}", said(&stage));
    assert!(bridge.list(&TaskFilter::default()).await.unwrap().is_empty());
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn agents_that_go_on_too_long_are_told_once_and_a_person_begins_anew() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = Serving::on(bench.open_with(config(&bench, &stage)).await);
    bridge.chats.open_channel(Rules { agent_turns_in_a_row: 2, ..rules(&bench) }).await.unwrap();
    let peer = |id: &str| from("peer", id, "go on [play] say On.");
    receive(&bridge, [peer("m-1")]).await;
    receive(&bridge, ["m-2", "m-3", "m-4"].map(peer)).await;
    let elsewhere = Arrival { conversation: "elsewhere".into(), ..peer("m-5") };
    receive(&bridge, [peer("m-6"), elsewhere]).await;
    let person = Arrival { conversation: "peer".into(), ..from("bob", "m-7", "well [play] say Well.") };
    receive(&bridge, [person, peer("m-8")]).await;
    let all = messages(&bridge, |all| all.iter().all(is_over)).await;
    let dead = |one: &&Message| one.state == MessageState::Dead;
    let dead: Vec<&str> = all.iter().filter(dead).map(|one| one.external_id.as_str()).collect();
    assert_eq!(dead, ["m-3", "m-4", "m-6"], "{all:#?}");
    deliveries(&bridge, |all| {
        all.len() == 6 && all.iter().all(|one| one.state == outbox::DeliveryState::Delivered)
    })
    .await;
    let told = said(&stage).into_iter().filter(|text| text.contains("no person has")).count();
    assert_eq!(told, 1, "{:#?}", said(&stage));
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn what_is_urgent_is_done_however_much_waits_in_the_channel() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("first", Scenario::new().stall("gate").say("First."));
    let bridge = Serving::on(bench.open_with(config(&bench, &stage)).await);
    let rules = Rules { most_waiting_in_all: 1, when_full: WhenFull::PutOff, ..rules(&bench) };
    bridge.chats.open_channel(rules).await.unwrap();
    receive(&bridge, [from("ada", "m-1", "first")]).await;
    bench.model.wait_for_stall("gate").await;
    let waits = [from("ada", "m-2", "two [play] say Two."), from("bob", "m-3", "three")];
    receive(&bridge, waits).await;
    receive(&bridge, [from("ada", "m-4", "/stop")]).await;
    let all = messages(&bridge, |all| all.iter().all(is_over)).await;
    let states: Vec<MessageState> = all.iter().map(|message| message.state).collect();
    assert_eq!(states, [MessageState::Answered; 3], "what found no room is not kept: {all:#?}");
    let log = bridge.audit_log(None, None, 100).await.unwrap();
    let stopped = log.iter().find(|line| line.action == "interrupt").map(|line| line.actor.as_str());
    assert_eq!(stopped, Some("chat:ada"), "who stopped it is on the record: {log:#?}");
    until(|| said(&stage).iter().any(|text| text == "Two.")).await;
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn what_is_put_off_is_taken_before_what_follows_it_and_no_place_is_kept_beyond_it() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("first", Scenario::new().stall("gate").say("First."));
    let bridge = Serving::on(bench.open_with(config(&bench, &stage)).await);
    let rules = Rules { most_waiting: 1, when_full: WhenFull::PutOff, ..rules(&bench) };
    bridge.chats.open_channel(rules).await.unwrap();
    receive(&bridge, [from("ada", "m-1", "first")]).await;
    bench.model.wait_for_stall("gate").await;
    let numbered =
        |number: u32| from("ada", &format!("m-{number}"), &format!("{number} [play] say No {number}."));
    let offered = async |arrivals: Vec<Arrival>, cursor: &str| -> Vec<bool> {
        let receipts = bridge.chats.receive(&"chat".into(), arrivals, Some(cursor.to_owned())).await.unwrap();
        receipts.iter().map(|one| one.receipt != Received::NoRoom).collect()
    };
    let cursor = async || bridge.chats.channel(&"chat".into()).await.unwrap().cursor;
    assert_eq!(offered((2..=4).map(numbered).collect(), "4").await, [true, false, false]);
    assert_eq!(cursor().await, None, "what was put off must be offered to the next life too");
    let others = vec![from("bob", "m-9", "hello [play] say Hello."), from("ada", "m-8", "/status")];
    assert_eq!(offered(others, "9").await, [true, true], "neither others wait nor what is urgent");
    assert_eq!(cursor().await.as_deref(), Some("9"));
    bench.model.release("gate");
    messages(&bridge, |all| all.iter().all(is_over)).await;
    assert_eq!(offered(vec![numbered(4)], "4").await, [false], "there is room, but another comes first");
    assert_eq!(offered(vec![numbered(3), numbered(4)], "4").await, [true, false], "it is full again");
    until(|| said(&stage).iter().any(|text| text == "No 3.")).await;
    assert_eq!(offered(vec![numbered(4), numbered(4)], "4").await, [true, true]);
    until(|| said(&stage).iter().any(|text| text == "No 4.")).await;
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_source_is_read_on_after_a_minute_even_if_there_is_no_room() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = Serving::on(bench.open_with(config(&bench, &stage)).await);
    bridge.chats.open_channel(Rules { most_waiting_in_all: 0, ..rules(&bench) }).await.unwrap();
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let room = tokio::time::timeout(Duration::from_mins(10), bridge.chats.until_room(&"chat".into())).await;
    room.expect("what everything waits for may be what comes next").unwrap();
    assert!(began.elapsed() >= Duration::from_mins(1), "{:?}", began.elapsed());
    tokio::time::resume();
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_source_that_keeps_its_messages_waits_for_room_and_loses_none() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("first", Scenario::new().stall("gate").say("First."));
    let bridge = Serving::on(bench.open_with(config(&bench, &stage)).await);
    let rules = Rules { most_waiting: 1, most_waiting_in_all: 3, ..rules(&bench) };
    bridge.chats.open_channel(rules).await.unwrap();
    receive(&bridge, [from("ada", "m-1", "first")]).await;
    bench.model.wait_for_stall("gate").await;
    let numbered =
        |number: u32| from("ada", &format!("m-{number}"), &format!("{number} [play] say No {number}."));
    receive(&bridge, (2..=3).map(numbered)).await;
    tokio::time::timeout(PATIENCE, bridge.chats.until_room(&"chat".into()))
        .await
        .expect("there is room")
        .unwrap();
    receive(&bridge, (4..=5).map(numbered)).await;
    let chat = "chat".into();
    let mut room = Box::pin(bridge.chats.until_room(&chat));
    let early = tokio::time::timeout(Duration::from_millis(500), &mut room).await;
    assert!(early.is_err(), "four wait where three may");
    bench.model.release("gate");
    tokio::time::timeout(PATIENCE, room).await.expect("there is room again").unwrap();
    until(|| said(&stage).len() == 5).await;
    assert_eq!(said(&stage), ["First.", "No 2.", "No 3.", "No 4.", "No 5."]);
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_reminder_that_is_sent_again_says_what_it_said() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let both = Scenario::new().exec("touch x.txt").exec("touch y.txt").then_say("Made.");
    bench.model.script("make both", both);
    let bridge = serving(&bench, &stage).await;
    receive(&bridge, [from("ada", "m-1", "make both")]).await;
    let told = |all: &[Delivery]| all.iter().map(|one| one.notice.requests().len()).sum::<usize>();
    deliveries(&bridge, |all| {
        told(all) == 2 && all.iter().all(|one| one.state == outbox::DeliveryState::Delivered)
    })
    .await;
    bridge.abandon().await;
    let stage = Arc::new(Stage::default());
    stage.answers(Outcome::failed(Refusal::NotBefore(Duration::from_secs(1)), "too many"));
    let bridge = serving(&bench, &stage).await;
    until(|| stage.attempts().len() == 1).await;
    let requests = stage.attempts()[0].notice.requests().to_vec();
    let id = bridge.list(&TaskFilter::default()).await.unwrap()[0].task.id.clone();
    let asked = &requests[0];
    let which = RequestSelector::Shown { request_id: asked.request_id.as_str(), digest: &asked.digest };
    bridge.decide(id.as_str(), which, Decision::Accept, "a test").await.unwrap();
    until(|| stage.attempts().len() == 2).await;
    assert_eq!((requests.len(), stage.attempts()[1].notice.requests()), (2, &requests[..]));
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn who_waits_for_a_usage_limit_is_told_so_once_with_the_time() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let limit = Response::usage_limit_reached(Duration::from_hours(3));
    bench.model.script("work", Scenario::new().respond(limit));
    let bridge = serving(&bench, &stage).await;
    receive(&bridge, [from("ada", "m-1", "work")]).await;
    until(|| said(&stage).len() == 1).await;
    // What is held back before it begins, too.
    receive(&bridge, [from("bob", "m-2", "hello [play] say Hello.")]).await;
    until(|| said(&stage).len() == 2).await;
    for text in said(&stage) {
        assert!(text.contains("usage limit") && text.contains("UTC (in "), "{text}");
    }
    let tasks = bridge.list(&TaskFilter::default()).await.unwrap();
    assert_eq!(tasks[0].task.status, Status::Queued, "{tasks:#?}");
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn who_comes_back_after_their_thread_was_forgotten_is_told_so() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    // Forgotten only when it is asked for here.
    let forgetful = Config {
        keep_tasks: Duration::ZERO,
        upkeep_every: Duration::from_hours(1),
        ..config(&bench, &stage)
    };
    let bridge = Serving::on(bench.open_with(forgetful).await);
    bridge.chats.open_channel(rules(&bench)).await.unwrap();
    receive(&bridge, [from("bob", "m-1", "one [play] say One.")]).await;
    deliveries(&bridge, |all| all.len() == 1 && all[0].state == outbox::DeliveryState::Delivered).await;
    eventually(async || bridge.forget_old().await.unwrap(), |forgotten| *forgotten == 1).await;
    receive(
        &bridge,
        [from("bob", "m-2", "two [play] say Two."), from("bob", "m-3", "three [play] say Three.")],
    )
    .await;
    until(|| said(&stage).len() == 4).await;
    let said = said(&stage);
    assert!(said[1].contains("has been forgotten"), "{said:#?}");
    assert_eq!([&said[0], &said[2], &said[3]], ["One.", "Two.", "Three."], "it is said once");
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn the_mark_of_how_far_a_reply_has_come_is_never_cut_off() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("tell me all", Scenario::new().say("x".repeat(70_000)));
    let bridge = serving(&bench, &stage).await;
    receive(&bridge, [from("peer", "row-1", "tell me all")]).await;
    until(|| stage.attempts().len() == 1).await;
    let notice = stage.attempts().remove(0).notice;
    let Content::Reply(reply) = notice.content else { panic!("{notice:#?}") };
    assert!(reply.text.cut_chars > 0);
    assert_eq!(reply.closing.as_deref(), Some("[re: row-1] [codex-bridge hop 1]"));
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn what_is_taken_up_after_days_has_all_its_attempts() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    stage.answers(Outcome::failed(Refusal::Never, "no"));
    let bridge = serving(&bench, &stage).await;
    receive(&bridge, [from("ada", "m-1", "one [play] say One.")]).await;
    let dead = deliveries(&bridge, |all| all.len() == 1 && all[0].state == outbox::DeliveryState::Dead)
        .await
        .remove(0);
    let old = Delivery { created_at: dead.created_at - 4 * 24 * 60 * 60 * 1000, ..dead };
    bridge.store().commit(vec![Write::SaveDelivery(Box::new(old.clone()))]).await.unwrap();
    stage.answers(Outcome::failed(Refusal::Later, "not now"));
    bridge.retry_delivery(old.id.as_str(), "a test").await.unwrap();
    until(|| stage.attempts().len() == 2).await;
    let all = deliveries(&bridge, |all| all[0].state != outbox::DeliveryState::Attempting).await;
    assert_eq!((all[0].state, all[0].attempts), (outbox::DeliveryState::Pending, 1), "{all:#?}");
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn whoever_may_write_no_more_hears_so_and_nothing_is_tried_again() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("first", Scenario::new().stall("gate").say("First."));
    let bridge = serving(&bench, &stage).await;
    receive(&bridge, [from("bob", "m-1", "first")]).await;
    bench.model.wait_for_stall("gate").await;
    receive(&bridge, [from("bob", "m-2", "second [play] say Second.")]).await;
    let mut without = rules(&bench);
    without.allow.remove(1);
    bridge.chats.open_channel(without).await.unwrap();
    bench.model.release("gate");
    let all = messages(&bridge, |all| all.iter().all(is_over)).await;
    assert_eq!((all[1].state, all[1].attempts), (MessageState::Answered, 0), "{all:#?}");
    until(|| said(&stage).len() == 2).await;
    let told = said(&stage).remove(1);
    assert!(told.starts_with("Not allowed: chat:bob is a viewer: this needs operator;"), "{told}");
    assert_eq!(bridge.list(&TaskFilter::default()).await.unwrap()[0].task.used.turns, 1);
    bench.tidy(bridge.end()).await;
}
