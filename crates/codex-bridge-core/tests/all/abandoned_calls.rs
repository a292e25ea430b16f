//! Calls whose callers hang up in the middle of a change, as the client of an HTTP server may: the change is carried out
//! to its end all the same.

use std::sync::Arc;
use std::time::Duration;

use codex_bridge_core::bridge::{Author, Error, NewBranch};
use codex_bridge_core::inbox::{Allowed, Arrival, Context, Party, Room, Rules, Sender, WhileRunning};
use codex_bridge_core::store::{MessageFilter, TaskFilter};
use codex_bridge_core::task::Status;
use codex_bridge_core::token::{NewQuota, Role};
use codex_bridge_core::{Bridge, Chats, Desk, News};
use codex_session::{ApprovalMode, Decision, Sandbox};
use scripted_model::Scenario;
use tokio::sync::broadcast;

use crate::stubborn_store::Stubborn;
use crate::workbench::{PATIENCE, Workbench, asked, at_rest, decide};

async fn bench() -> (Workbench, Bridge, Arc<Stubborn>) {
    let bench = Workbench::new().await;
    let (bridge, store) = Stubborn::open(&bench, bench.config()).await;
    (bench, bridge, store)
}

/// The one task that there is.
async fn only_task(bridge: &Bridge) -> String {
    let all = bridge.list(&TaskFilter::default()).await.unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].task.id.to_string()
}

/// Waits to be told that a task changed.
async fn told(news: &mut broadcast::Receiver<News>) {
    let told = async { while !matches!(news.recv().await, Ok(News::Task(_))) {} };
    tokio::time::timeout(PATIENCE, told).await.expect("nobody was told");
}

#[tokio::test]
async fn a_task_whose_caller_hung_up_runs_and_the_same_request_finds_it() {
    let (bench, bridge, store) = bench().await;
    bench.model.script("once", Scenario::new().say("done"));
    let mut new = bench.task("once");
    new.client_request_id = Some("r-1".to_owned());
    let (caller, asked_for) = (bridge.clone(), new.clone());
    store.hang_up_on(async move { caller.start(asked_for).await }).await;
    let id = only_task(&bridge).await;
    assert_eq!(bridge.start(new).await.unwrap().task.id.as_str(), id);
    assert_eq!(at_rest(&bridge, &id).await.task.status, Status::Completed);
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_turn_whose_caller_hung_up_runs() {
    let (bench, bridge, store) = bench().await;
    for prompt in ["first", "second"] {
        bench.model.script(prompt, Scenario::new().say(prompt));
    }
    let id = bridge.start(bench.task("first")).await.unwrap().task.id.to_string();
    at_rest(&bridge, &id).await;
    let (caller, of) = (bridge.clone(), id.clone());
    store
        .hang_up_on(
            async move { caller.continue_once(&of, "second", Some("mine"), &Author::default()).await },
        )
        .await;
    let done = at_rest(&bridge, &id).await.task;
    assert_eq!((done.final_text.as_deref(), done.used.turns), (Some("second"), 2), "{done:?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_decision_whose_caller_hung_up_reaches_codex() {
    let (bench, bridge, store) = bench().await;
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("made"));
    let id = bridge.start(bench.writing_task("make x")).await.unwrap().task.id.to_string();
    asked(&bridge, &id).await;
    let (caller, of) = (bridge.clone(), id.clone());
    store.hang_up_on(async move { decide(&caller, &of, Decision::Accept, "ada").await }).await;
    assert_eq!(at_rest(&bridge, &id).await.task.status, Status::Completed);
    assert!(bench.home.workspace().join("x.txt").exists());
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_token_whose_revoker_hung_up_is_worth_nothing() {
    let (bench, bridge, store) = bench().await;
    let (_, secret) = bridge.create_token("phone", Role::Viewer, NewQuota::default(), "ada").await.unwrap();
    assert!(bridge.recognise(&secret).is_some());
    let mut revocations = bridge.revocations();
    let caller = bridge.clone();
    store.hang_up_on(async move { caller.revoke_token("phone", "ada").await }).await;
    tokio::time::timeout(PATIENCE, revocations.changed()).await.expect("it is not revoked").unwrap();
    assert_eq!(bridge.recognise(&secret), None);
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn whoever_listens_hears_of_a_cancellation_whose_caller_hung_up() {
    let bench = Workbench::new().await;
    bench.model.script("blocker", Scenario::new().stall("gate").say("done"));
    let mut config = bench.config();
    config.max_running = 1;
    let (bridge, store) = Stubborn::open(&bench, config).await;
    let blocker = bridge.start(bench.task("blocker")).await.unwrap().task.id;
    bench.model.wait_for_stall("gate").await;
    let id = bridge.start(bench.task("waits")).await.unwrap().task.id;
    let (mut news, _) = bridge.join(&id);
    let (caller, of) = (bridge.clone(), id.to_string());
    store.hang_up_on(async move { caller.interrupt(&of, None).await }).await;
    told(&mut news).await;
    assert_eq!(bridge.show(id.as_str()).await.unwrap().task.status, Status::Cancelled);
    bench.model.release("gate");
    at_rest(&bridge, blocker.as_str()).await;
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn whoever_listens_hears_of_a_branch_whose_caller_hung_up() {
    let (bench, bridge, store) = bench().await;
    bench.model.script("root", Scenario::new().say("root"));
    let trunk = bridge.start(bench.task("root")).await.unwrap().task.id;
    at_rest(&bridge, trunk.as_str()).await;
    let mut news = bridge.news();
    let (caller, of) = (bridge.clone(), trunk.to_string());
    store.hang_up_on(async move { caller.fork(&of, NewBranch::default()).await }).await;
    told(&mut news).await;
    let all = bridge.list(&TaskFilter::default()).await.unwrap();
    assert_eq!((all.len(), all[0].task.status), (2, Status::Paused), "{all:?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_message_whose_source_hung_up_becomes_a_turn_at_once() {
    let (bench, bridge, store) = bench().await;
    bench.model.script("hello", Scenario::new().say("hi"));
    let chats = Chats::open(Desk::new(bridge.clone()));
    chats.open_channel(rules(&bench)).await.unwrap();
    let caller = chats.clone();
    store.hang_up_on(async move { caller.receive(&"chat".into(), vec![arrival()], None).await }).await;
    // Long before the inbox looks by itself.
    let taken = async {
        while bridge.list(&TaskFilter::default()).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let messages = chats.messages(&MessageFilter::default()).await.unwrap();
    tokio::time::timeout(PATIENCE, taken).await.unwrap_or_else(|_| panic!("nothing came of {messages:?}"));
    at_rest(&bridge, &only_task(&bridge).await).await;
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_bridge_that_closes_carries_out_what_was_begun_and_begins_nothing_more() {
    let (bench, bridge, store) = bench().await;
    bench.model.script("late", Scenario::new().say("late"));
    let left = bridge.clone();
    let caller = bridge.clone();
    let new = bench.task("late");
    store.hang_up_on(async move { caller.start(new).await }).await;
    bridge.abandon().await;
    assert_eq!(left.start(bench.task("too late")).await, Err(Error::CutOff));
    assert_eq!(left.list(&TaskFilter::default()).await.unwrap().len(), 1);
    drop((left, store));
    let bridge = bench.open().await;
    assert_eq!(at_rest(&bridge, &only_task(&bridge).await).await.task.status, Status::Completed);
    bench.tidy(bridge).await;
}

fn rules(bench: &Workbench) -> Rules {
    Rules {
        channel: "chat".into(),
        allow: vec![Allowed::parse("1").unwrap()],
        allowed_by_code: Vec::new(),
        workspaces: [("home".to_owned(), bench.home.workspace())].into(),
        workspace: "home".to_owned(),
        sandbox: Sandbox::ReadOnly,
        approval_policy: ApprovalMode::Untrusted,
        network: false,
        writable_roots: Vec::new(),
        escalations: None,
        models: Vec::new(),
        model: None,
        effort: None,
        while_running: WhileRunning::Queue,
        pairing: false,
        mention_only: true,
        turn_limit: None,
        max_age: None,
        attempts: 1,
        max_hops: 1,
        most_waiting: 10,
        most_waiting_in_all: 10,
        when_full: codex_bridge_core::inbox::WhenFull::ReadLater,
        agent_turns_per_hour: 1,
        agent_turns_in_a_row: 1,
        transcriber: None,
        acknowledges: false,
    }
}

fn arrival() -> Arrival {
    Arrival {
        external_id: "m-1".to_owned(),
        conversation: "c-1".into(),
        sender: Sender { id: "1".to_owned(), name: "Ada".to_owned(), party: Party::Person },
        room: Room::Direct,
        text: "hello".to_owned(),
        reply_to: "chat:c-1".to_owned(),
        context: Context::default(),
        attachments: Vec::new(),
        position: None,
        sent_at: 0,
    }
}
