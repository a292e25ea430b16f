//! The outbox on the real Codex, with a sender that does what it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codex_bridge_core::bridge::RequestSelector;
use codex_bridge_core::outbox::notice::FinishedTask;
use codex_bridge_core::outbox::sender::{Refusal, Seen, Unknown};
use codex_bridge_core::outbox::{
    Attempt, Content, Delivery, DeliveryState, Notice, Occasion, Outcome, Repeats, Sender,
};
use codex_bridge_core::request::RequestName;
use codex_bridge_core::store::{DeliveryFilter, Write};
use codex_bridge_core::task::{NotificationStatus, Status};
use codex_bridge_core::{Bridge, Config, NewTask};
use codex_session::{Decision, Sandbox};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scripted_model::Scenario;

use crate::workbench::{PATIENCE, Workbench, asked, at_rest, decide, eventually};

/// What the sender does with an attempt.
type Play = Box<dyn FnOnce() -> BoxFuture<'static, Outcome> + Send>;

/// Does what it is told; after that it delivers, and shows all that is asked.
#[derive(Default)]
pub struct Stage {
    repeats: Option<Repeats>,
    seen: Option<Seen>,
    plays: Mutex<VecDeque<Play>>,
    attempts: Mutex<Vec<Attempt>>,
}

impl Stage {
    pub fn play(&self, play: impl FnOnce() -> BoxFuture<'static, Outcome> + Send + 'static) {
        self.plays.lock().unwrap().push_back(Box::new(play));
    }

    pub fn answers(&self, outcome: Outcome) {
        self.play(move || std::future::ready(outcome).boxed());
    }

    pub fn attempts(&self) -> Vec<Attempt> {
        self.attempts.lock().unwrap().clone()
    }
}

impl Sender for Stage {
    fn check(&self, target: &str) -> Result<(), Unknown> {
        let unknown = || Unknown {
            target: target.into(),
            why: "it is not one of ours".into(),
            known: vec!["a".into()],
        };
        if target.starts_with("stage:") { Ok(()) } else { Err(unknown()) }
    }

    fn repeats(&self, _: &Attempt) -> Repeats {
        self.repeats.unwrap_or(Repeats::MayDouble)
    }

    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome> {
        let shown = attempt.notice.requests().iter().map(|asked| asked.request_id.clone()).collect();
        let delivered = Outcome::Delivered { message_id: Some("m-1".into()), shown };
        self.attempts.lock().unwrap().push(attempt);
        let play = self.plays.lock().unwrap().pop_front();
        play.map_or_else(|| std::future::ready(delivered).boxed(), |play| play())
    }

    fn look(&self, _: &Attempt) -> BoxFuture<'_, Result<Seen, String>> {
        std::future::ready(self.seen.clone().ok_or_else(|| "it does not answer".to_owned())).boxed()
    }
}

fn rest(notice: &Notice) -> &FinishedTask {
    let Content::Finished(rest) = &notice.content else { panic!("it tells of no end: {notice:#?}") };
    rest
}

pub fn config(bench: &Workbench, stage: &Arc<Stage>) -> Config {
    Config { sender: Arc::clone(stage) as Arc<dyn Sender>, ..bench.config() }
}

fn task(bench: &Workbench, targets: &str, prompt: &str) -> NewTask {
    NewTask { notify_target: Some(targets.to_owned()), ..bench.task(prompt) }
}

/// All deliveries, the oldest first, once they are so.
pub async fn deliveries(bridge: &Bridge, is_so: impl Fn(&[Delivery]) -> bool) -> Vec<Delivery> {
    let all = async || {
        let mut all = bridge.deliveries(&DeliveryFilter::default()).await.unwrap();
        all.reverse();
        all
    };
    eventually(all, |all| is_so(all)).await
}

fn all_are(state: DeliveryState, count: usize) -> impl Fn(&[Delivery]) -> bool {
    move |all| all.len() == count && all.iter().all(|one| one.state == state)
}

#[tokio::test]
async fn an_end_is_written_with_the_task_and_sent_to_each_target() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = bench.open_with(config(&bench, &stage)).await;
    let targets = "stage:a stage:b?on=failed stage:c?on=completed local";
    let started = bridge.start(task(&bench, targets, "hello [play] say Hello.")).await.unwrap();
    let view = at_rest(&bridge, started.task.id.as_str()).await;
    // There as soon as the end is.
    let all = deliveries(&bridge, |all| all.len() == 2).await;
    assert!(all.iter().all(|one| Some(one.created_at) == view.task.completed_at), "{all:#?}");
    let all = deliveries(&bridge, all_are(DeliveryState::Delivered, 2)).await;
    assert_eq!([&all[0].target, &all[1].target], ["stage:a", "stage:c"]);
    assert_eq!(all[0].message_id.as_deref(), Some("m-1"));
    let attempts = stage.attempts();
    assert!(attempts.iter().all(|attempt| rest(&attempt.notice).answer.as_ref().unwrap().text == "Hello."));
    assert_eq!(attempts.len(), 2);

    let unknown = bridge.start(task(&bench, "stage:a pigeon", "hello")).await.unwrap_err();
    assert!(unknown.to_string().contains("pigeon"), "{unknown}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_failed_task_and_an_interrupted_one_say_so() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("break", Scenario::new().fail("invalid_prompt", "the model refuses"));
    bench.model.script("ask", Scenario::new().exec("touch one.txt").then_say("done"));
    let bridge = bench.open_with(config(&bench, &stage)).await;
    let started = bridge.start(task(&bench, "stage:a", "break")).await.unwrap();
    at_rest(&bridge, started.task.id.as_str()).await;
    deliveries(&bridge, all_are(DeliveryState::Delivered, 1)).await;
    let told = stage.attempts().remove(0).notice;
    assert_eq!((told.occasion(), rest(&told).task.status), (Occasion::Failed, Status::Failed));
    assert!(rest(&told).error.as_ref().unwrap().message.contains("the model refuses"));

    let id = bridge.start(task(&bench, "stage:a", "ask")).await.unwrap().task.id;
    asked(&bridge, id.as_str()).await;
    bridge.interrupt(id.as_str(), None).await.unwrap();
    let all = deliveries(&bridge, |all| all.len() == 3 && all[2].state == DeliveryState::Delivered).await;
    let told = &all[2].notice;
    assert_eq!((told.occasion(), rest(told).task.status), (Occasion::Failed, Status::Cancelled));
    deliveries(&bridge, |all| all[1].state == DeliveryState::Withdrawn).await;
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn the_files_that_a_turn_changed_are_named() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\n";
    bench.model.script("change", Scenario::new().apply_patch(patch).then_say("done"));
    let bridge = bench.open_with(config(&bench, &stage)).await;
    let mut new = task(&bench, "stage:a?on=completed", "change");
    new.settings.sandbox = Sandbox::WorkspaceWrite;
    let id = bridge.start(new).await.unwrap().task.id;
    while !asked_or_at_rest(&bridge, id.as_str()).await {
        decide(&bridge, id.as_str(), Decision::Accept, "a test").await.unwrap();
    }
    let told = deliveries(&bridge, all_are(DeliveryState::Delivered, 1)).await.remove(0).notice;
    let told = rest(&told);
    assert_eq!((told.files.as_slice(), told.more_files), (&["new.txt".to_owned()][..], 0));
    assert!(told.work_ms.is_some() && told.tokens.is_some(), "{told:#?}");
    bench.tidy(bridge).await;
}

/// True once it is at rest, false when it asks.
async fn asked_or_at_rest(bridge: &Bridge, id: &str) -> bool {
    bridge.wait(id, PATIENCE).await.unwrap().task.status.is_finished()
}

#[tokio::test]
async fn requests_that_come_together_are_told_together_and_later_ones_apart() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let scenario = Scenario::new().exec("touch one.txt").exec("touch two.txt").then_exec("touch three.txt");
    bench.model.script("ask", scenario.then_say("done"));
    let bridge = bench.open_with(config(&bench, &stage)).await;
    let id = bridge.start(task(&bench, "stage:a", "ask")).await.unwrap().task.id;
    // codex 0.166 asks for both calls of one response at once.
    for (round, together) in [2, 1].into_iter().enumerate() {
        let told = Arc::clone(&stage);
        until(move || told.attempts().len() == round + 1).await;
        let open = asked(&bridge, id.as_str()).await.open_requests;
        let told: Vec<RequestName> =
            stage.attempts()[round].notice.requests().iter().map(|asked| asked.request_id.clone()).collect();
        let names: Vec<RequestName> = open.iter().map(|request| request.request_id.clone()).collect();
        assert_eq!((told.len(), &told), (together, &names), "{:#?}", stage.attempts());
        for request in &open {
            let which =
                RequestSelector::Shown { request_id: request.request_id.as_str(), digest: &request.digest };
            bridge.decide(id.as_str(), which, Decision::Accept, "a test").await.unwrap();
        }
    }
    at_rest(&bridge, id.as_str()).await;
    let all = deliveries(&bridge, all_are(DeliveryState::Delivered, 3)).await;
    let asks = |one: &&Delivery| matches!(one.notice.content, Content::Asks(_));
    assert_eq!(all.iter().filter(asks).count(), 2, "{all:#?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn requests_that_are_too_many_for_one_notice_are_all_told_once() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let ask = (0..12).fold(Scenario::new(), |ask, number| ask.exec(format!("touch {number}.txt")));
    bench.model.script("ask", ask.then_say("done"));
    let bridge = bench.open_with(config(&bench, &stage)).await;
    let id = bridge.start(task(&bench, "stage:a", "ask")).await.unwrap().task.id;
    let told =
        || stage.attempts().iter().flat_map(|attempt| attempt.notice.requests().to_vec()).collect::<Vec<_>>();
    until(|| told().len() >= 12).await;
    let mut names: Vec<RequestName> = told().into_iter().map(|asked| asked.request_id).collect();
    let mut open: Vec<RequestName> =
        asked(&bridge, id.as_str()).await.open_requests.into_iter().map(|one| one.request_id).collect();
    names.sort();
    open.sort();
    assert_eq!(names, open);
    let notices: Vec<_> = stage.attempts().into_iter().map(|attempt| attempt.notice).collect();
    assert!(notices.len() > 1 && notices.iter().all(|one| one.requests().len() <= 10), "{notices:#?}");
    bridge.interrupt(id.as_str(), None).await.unwrap();
    bench.tidy(bridge).await;
}

pub async fn until(is_so: impl Fn() -> bool) {
    eventually(async || is_so(), |so| *so).await;
}

/// What an earlier life was sending when it died: in doubt, whatever the platform.
async fn after_a_death(stage: Stage) -> (Workbench, Bridge, Arc<Stage>, Delivery) {
    let (bench, dying) = (Workbench::new().await, Arc::new(Stage::default()));
    dying.play(|| std::future::pending().boxed());
    let bridge = bench.open_with(config(&bench, &dying)).await;
    let id = bridge.start(task(&bench, "stage:a", "hello [play] say Hello.")).await.unwrap().task.id;
    at_rest(&bridge, id.as_str()).await;
    let dying_again = Arc::clone(&dying);
    until(move || dying_again.attempts().len() == 1).await;
    bridge.abandon().await;
    let stage = Arc::new(stage);
    let bridge = bench.open_with(config(&bench, &stage)).await;
    let delivery = deliveries(&bridge, |all| all.len() == 1 && all[0].state != DeliveryState::Attempting)
        .await
        .remove(0);
    (bench, bridge, stage, delivery)
}

#[tokio::test]
async fn what_may_have_arrived_is_sent_again_as_the_platform_needs_it() {
    for (repeats, marked) in [
        (Repeats::Idempotent { within: None }, false),
        (Repeats::Idempotent { within: Some(Duration::from_hours(1)) }, false),
        (Repeats::Idempotent { within: Some(Duration::ZERO) }, true),
        (Repeats::MayDouble, true),
    ] {
        let stage = Stage { repeats: Some(repeats), ..Stage::default() };
        let (bench, bridge, stage, delivery) = after_a_death(stage).await;
        assert_eq!(delivery.state, DeliveryState::Delivered, "{repeats:?}");
        let attempts = stage.attempts();
        assert_eq!((attempts.len(), attempts[0].may_be_duplicate), (1, marked), "{repeats:?}");
        assert_eq!(attempts[0].key, delivery.id, "{repeats:?}");
        bench.tidy(bridge).await;
    }
}

/// A delivery that was sent, with its bridge.
async fn sent(stage: &Arc<Stage>) -> (Workbench, Bridge, Delivery) {
    let bench = Workbench::new().await;
    let bridge = bench.open_with(config(&bench, stage)).await;
    bridge.start(task(&bench, "stage:a", "hello [play] say Hello.")).await.unwrap();
    let delivery = deliveries(&bridge, all_are(DeliveryState::Delivered, 1)).await.remove(0);
    (bench, bridge, delivery)
}

/// The next life, after one that left a delivery so.
async fn after_leaving(bench: &Workbench, bridge: Bridge, left: Delivery, stage: &Arc<Stage>) -> Bridge {
    bridge.store().commit(vec![Write::SaveDelivery(Box::new(left))]).await.unwrap();
    bridge.abandon().await;
    bench.open_with(config(bench, stage)).await
}

#[tokio::test]
async fn however_often_the_daemon_dies_while_it_sends_the_target_is_not_given_up() {
    let stage = Arc::new(Stage::default());
    let (bench, mut bridge, sent) = sent(&stage).await;
    let held = |broken_off| Delivery {
        state: DeliveryState::Attempting,
        broken_off,
        next_at: i64::MAX,
        ..sent.clone()
    };
    for broken_off in 0..3 {
        bridge = after_leaving(&bench, bridge, held(broken_off), &stage).await;
        let sent = deliveries(&bridge, all_are(DeliveryState::Delivered, 1)).await.remove(0);
        assert_eq!((sent.broken_off, sent.attempts), (broken_off + 1, 2), "{sent:#?}");
        let attempt = stage.attempts().pop().unwrap();
        assert_eq!((attempt.number, attempt.may_be_duplicate), (broken_off + 3, true));
    }
    let tried = stage.attempts().len();
    bridge = after_leaving(&bench, bridge, held(20), &stage).await;
    let waiting = deliveries(&bridge, all_are(DeliveryState::Pending, 1)).await.remove(0);
    assert_eq!((waiting.broken_off, waiting.attempts, waiting.in_doubt), (21, 1, true), "{waiting:#?}");
    assert_eq!(stage.attempts().len(), tried, "it leaves the next daemon some peace");
    assert!(waiting.next_at - waiting.updated_at >= 30 * 60 * 1000, "{waiting:#?}");
    bridge.retry_delivery(waiting.id.as_str(), "a test").await.unwrap();
    let sent = deliveries(&bridge, all_are(DeliveryState::Delivered, 1)).await.remove(0);
    assert_eq!((sent.broken_off, sent.attempts), (0, 1), "{sent:#?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn no_time_for_which_the_daemon_was_down_makes_a_delivery_too_old() {
    let stage = Arc::new(Stage::default());
    let (bench, mut bridge, sent) = sent(&stage).await;
    let long_ago = sent.created_at - 4 * 24 * 60 * 60 * 1000;
    let old = Delivery { created_at: long_ago, next_at: long_ago, attempts: 0, ..sent };
    // Never tried; tried, and due again long ago; being tried when it all ended.
    for (state, attempts) in
        [(DeliveryState::Pending, 0), (DeliveryState::Pending, 3), (DeliveryState::Attempting, 0)]
    {
        let left = Delivery { state, attempts, ..old.clone() };
        stage.answers(Outcome::failed(Refusal::Later, "not now"));
        bridge = after_leaving(&bench, bridge, left, &stage).await;
        let is_over =
            |all: &[Delivery]| all[0].last_error.is_some() && all[0].state != DeliveryState::Attempting;
        let failed = deliveries(&bridge, is_over).await.remove(0);
        assert_eq!((failed.state, failed.attempts), (DeliveryState::Pending, attempts + 1), "{failed:#?}");
    }
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn where_one_can_look_nothing_is_sent_that_is_there() {
    let there = Seen::Yes { message_id: Some("m-7".into()), shown: Vec::new() };
    for (seen, sent, state) in [
        (Some(there), 0, DeliveryState::Delivered),
        (Some(Seen::No), 1, DeliveryState::Delivered),
        // A look that fails sends nothing: it is looked again later.
        (None, 0, DeliveryState::Pending),
    ] {
        let stage = Stage { repeats: Some(Repeats::LookFirst), seen: seen.clone(), ..Stage::default() };
        let (bench, bridge, stage, delivery) = after_a_death(stage).await;
        assert_eq!((delivery.state, stage.attempts().len()), (state, sent), "{seen:?}: {delivery:#?}");
        assert!(stage.attempts().iter().all(|attempt| !attempt.may_be_duplicate));
        bench.tidy(bridge).await;
    }
}

#[tokio::test]
async fn a_sender_that_panics_or_hangs_stops_nobody() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    stage.play(|| async { panic!("a mistake of the sender's") }.boxed());
    stage.play(|| std::future::pending().boxed());
    let bridge = bench.open_with(config(&bench, &stage)).await;
    bridge.start(task(&bench, "stage:a stage:b stage:c", "hello [play] say Hello.")).await.unwrap();
    let all = deliveries(&bridge, |all| all.iter().any(|one| one.state == DeliveryState::Delivered)).await;
    assert_eq!(all.iter().filter(|one| one.state == DeliveryState::Attempting).count(), 2, "{all:#?}");
    // A target that is free takes what comes next.
    bridge.start(task(&bench, "stage:c", "again [play] say Hello.")).await.unwrap();
    deliveries(&bridge, |all| all.iter().filter(|one| one.state == DeliveryState::Delivered).count() == 2)
        .await;
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn what_is_given_up_can_be_taken_up_again_and_keeps_its_reason() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    stage.answers(Outcome::failed(Refusal::Never, "no: PASSWORD=planted-secret-9 was wrong"));
    let bridge = bench.open_with(config(&bench, &stage)).await;
    let id = bridge.start(task(&bench, "stage:a", "hello [play] say Hello.")).await.unwrap().task.id;
    let dead = deliveries(&bridge, all_are(DeliveryState::Dead, 1)).await.remove(0);
    let error = dead.last_error.unwrap();
    assert!(error.starts_with("no: PASSWORD=") && !error.contains("planted"), "{error}");
    assert_eq!(bridge.show(id.as_str()).await.unwrap().task.notification.status, NotificationStatus::Failed);
    bridge.retry_delivery(dead.id.as_str(), "a test").await.unwrap();
    deliveries(&bridge, all_are(DeliveryState::Delivered, 1)).await;
    assert_eq!(bridge.show(id.as_str()).await.unwrap().task.notification.status, NotificationStatus::Sent);
    let again = bridge.retry_delivery(dead.id.as_str(), "a test").await.unwrap_err();
    assert!(again.to_string().contains("delivered"), "{again}");
    assert!(bridge.retry_delivery("dlv-0", "a test").await.is_err());
    bench.tidy(bridge).await;
}
