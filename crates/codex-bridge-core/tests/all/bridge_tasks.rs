//! Tasks from their start to their end, and over the death of the bridge.

use std::time::Duration;

use codex_bridge_core::NewTask;
use codex_bridge_core::bridge::{Author, DecisionOutcome, Error, RequestSelector};
use codex_bridge_core::request::DecisionWord;
use codex_bridge_core::store::TaskFilter;
use codex_bridge_core::task::{ShownStatus, Status};
use codex_session::ask::ShownChangeKind;
use codex_session::{Decision, SteerOutcome};
use scripted_model::{Scenario, ToolCall};

use crate::workbench::{PATIENCE, Workbench, asked, at_rest, decide, json};

#[tokio::test]
async fn a_task_is_taken_done_and_remembered() {
    let bench = Workbench::new().await;
    bench.model.script("say hi", Scenario::new().say("hi"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.task("say hi")).await.unwrap().task;
    assert!(task.id.as_str().starts_with("codex-") && task.id.as_str().len() == 6 + 32, "{}", task.id);
    let done = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!((done.status, done.final_text.as_deref()), (Status::Completed, Some("hi")), "{done:?}");
    let events = bridge.events(&task.id, 0, 100).await.unwrap();
    let seqs: Vec<i64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=i64::try_from(events.len()).unwrap()).collect::<Vec<_>>());
    let kinds: Vec<&str> = events.iter().map(|event| event.line.kind()).collect();
    for kind in ["state", "thread_opened", "turn_started", "message", "turn_ended"] {
        assert!(kinds.contains(&kind), "{kind} is missing: {kinds:?}");
    }
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn an_approval_waits_for_a_person_and_is_reported_when_codex_took_it() {
    let bench = Workbench::new().await;
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("made"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.writing_task("make x")).await.unwrap().task;
    let view = asked(&bridge, task.id.as_str()).await;
    assert_eq!(view.status(), ShownStatus::WaitingForApproval);
    let report = decide(&bridge, task.id.as_str(), Decision::Accept, "ada").await.unwrap();
    assert_eq!((report.outcome, report.decided_by.as_deref()), (DecisionOutcome::Resolved, Some("ada")));
    let late = bridge
        .decide(
            task.id.as_str(),
            RequestSelector::Named(report.request_id.as_str()),
            Decision::Decline,
            "bob",
        )
        .await
        .unwrap();
    assert_eq!((late.outcome, late.decided_by.as_deref()), (DecisionOutcome::AlreadyResolved, Some("ada")));
    assert_eq!(at_rest(&bridge, task.id.as_str()).await.task.status, Status::Completed);
    assert!(bench.home.workspace().join("x.txt").exists());
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_yes_needs_the_digest_of_what_was_shown_and_a_no_does_not() {
    let bench = Workbench::new().await;
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("not made"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.writing_task("make x")).await.unwrap().task;
    let open = asked(&bridge, task.id.as_str()).await.open_requests.remove(0);
    let (of, id) = (task.id.as_str(), open.request_id.as_str());
    assert_eq!(open.digest.len(), 32, "{open:?}");
    let other = RequestSelector::Shown { request_id: id, digest: "0123456789abcdef0123456789abcdef" };
    for which in [RequestSelector::Only, RequestSelector::Named(id)] {
        let refused = bridge.decide(of, which, Decision::Accept, "ada").await;
        assert!(matches!(&refused, Err(Error::NotShown(named)) if named.as_str() == id), "{refused:?}");
    }
    for decision in [Decision::Accept, Decision::AcceptForSession, Decision::Decline] {
        let refused = bridge.decide(of, other, decision, "ada").await;
        assert!(matches!(&refused, Err(Error::AnotherRequest(named)) if named.as_str() == id), "{refused:?}");
    }
    let report = bridge.decide(of, RequestSelector::Only, Decision::Decline, "ada").await.unwrap();
    assert_eq!((report.outcome, report.decision), (DecisionOutcome::Resolved, Some(DecisionWord::Decline)));
    at_rest(&bridge, of).await;
    assert!(!bench.home.workspace().join("x.txt").exists());
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_secret_that_had_to_be_shown_is_hidden_once_it_is_decided_on() {
    let bench = Workbench::new().await;
    let command = "TOKEN=hunter2; $TOKEN x";
    let file = "a line of a file that is cut\n".repeat(3000);
    let patch = ToolCall::add_file("x.env", &format!("{file}DB_PASSWORD=hunter2$(x)\n"));
    let scenario = Scenario::new().exec(command).then_call(patch).then_say("not done");
    bench.model.script("go", scenario);
    let bridge = bench.open().await;
    let id = bridge.start(bench.task("go")).await.unwrap().task.id;
    for what in ["the command", "the patch"] {
        let open = asked(&bridge, id.as_str()).await.open_requests.remove(0);
        let shown = format!("{:?} {:?}", open.ask, bridge.whole_changes(&open).await.unwrap().changes);
        assert!(shown.contains("hunter2"), "{what} acts on it: {shown:.500}");
        let report = decide(&bridge, id.as_str(), Decision::Decline, "ada").await.unwrap();
        assert_eq!(report.outcome, DecisionOutcome::Resolved, "{what}");
    }
    at_rest(&bridge, id.as_str()).await;
    let closed = bridge.requests(id).await.unwrap();
    assert_eq!(closed.len(), 2);
    assert!(closed[1].ask.whole_changes_bytes.is_some(), "the patch is cut in lists");
    for request in closed {
        let kept = format!("{:?} {:?}", request.ask, bridge.whole_changes(&request).await.unwrap().changes);
        assert!(!kept.contains("hunter2"), "{kept:.2000}");
    }
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn the_same_request_gives_the_same_task() {
    let bench = Workbench::new().await;
    bench.model.script("once", Scenario::new().say("done"));
    let bridge = bench.open().await;
    let mut new = bench.task("once");
    new.client_request_id = Some("r-1".to_owned());
    let first = bridge.start(new.clone()).await.unwrap().task;
    let second = bridge.start(new.clone()).await.unwrap().task;
    assert_eq!(first.id, second.id);
    at_rest(&bridge, first.id.as_str()).await;
    assert_eq!(bridge.start(new.clone()).await.unwrap().task.id, first.id, "also when its prompt is gone");

    let refused = Err(Error::KeyReused(first.id.clone()));
    let other_prompt = NewTask { prompt: "once more".to_owned(), ..new.clone() };
    assert_eq!(bridge.start(other_prompt).await, refused);
    let mut other_settings = new;
    other_settings.settings.model = Some("another".to_owned());
    assert_eq!(bridge.start(other_settings).await, refused);

    bench.model.script("again", Scenario::new().say("done again"));
    let id = first.id.as_str();
    for _ in 0..2 {
        bridge.continue_once(id, "again", Some("c-1"), &Author::default()).await.unwrap();
        assert_eq!(at_rest(&bridge, id).await.task.used.turns, 2);
    }
    let other = bridge.continue_once(id, "something else", Some("c-1"), &Author::default()).await;
    assert_eq!(other.map(|continued| continued.view), refused);
    assert_eq!(bridge.list(&TaskFilter::default()).await.unwrap().len(), 1);
    bench.tidy(bridge).await;
}

// peer: T25
#[tokio::test]
async fn a_bridge_that_comes_back_takes_up_the_turn_and_its_open_approval() {
    let bench = Workbench::new().await;
    bench.model.script("make y", Scenario::new().exec("echo run >> y.txt").then_say("made"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.writing_task("make y")).await.unwrap().task;
    asked(&bridge, task.id.as_str()).await;
    bridge.abandon().await;

    let bridge = bench.open().await;
    asked(&bridge, task.id.as_str()).await;
    let report = decide(&bridge, task.id.as_str(), Decision::Accept, "ada").await.unwrap();
    assert_eq!(report.outcome, DecisionOutcome::Resolved);
    assert_eq!(at_rest(&bridge, task.id.as_str()).await.task.status, Status::Completed);
    assert_eq!(std::fs::read_to_string(bench.home.workspace().join("y.txt")).unwrap(), "run\n");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_turn_that_ended_while_nobody_looked_is_read_back() {
    let bench = Workbench::new().await;
    bench.model.script("slow", Scenario::new().stall("gate").say("late answer"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.task("slow")).await.unwrap().task;
    bench.model.wait_for_stall("gate").await;
    bridge.abandon().await;
    bench.model.release("gate");
    let bridge = bench.open().await;
    let done = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!(
        (done.status, done.final_text.as_deref()),
        (Status::Completed, Some("late answer")),
        "{done:?}"
    );
    assert_eq!(
        bench.model.requests().iter().filter(|request| request.prompt().as_deref() == Some("slow")).count(),
        1
    );
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn an_interrupt_is_confirmed_and_a_task_can_be_continued() {
    let bench = Workbench::new().await;
    bench.model.script("stuck", Scenario::new().stall("never").say("x"));
    bench.model.script("go on", Scenario::new().say("went on"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.task("stuck")).await.unwrap().task;
    bench.model.wait_for_stall("never").await;
    let stopped =
        tokio::time::timeout(PATIENCE, bridge.interrupt(task.id.as_str(), None)).await.unwrap().unwrap();
    assert_eq!(stopped.task.status, Status::Cancelled);
    bridge.continue_task(task.id.as_str(), "go on").await.unwrap();
    let done = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!(
        (done.status, done.final_text.as_deref(), done.used.turns),
        (Status::Completed, Some("went on"), 2)
    );
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_turn_that_is_asked_for_again_under_its_name_is_not_begun_again() {
    let bench = Workbench::new().await;
    for prompt in ["first", "second", "third"] {
        bench.model.script(prompt, Scenario::new().say(prompt));
    }
    let bridge = bench.open().await;
    let task = bridge.start(bench.task("first")).await.unwrap().task;
    let thread = at_rest(&bridge, task.id.as_str()).await.task.thread_id.unwrap();
    for _ in 0..3 {
        // By the thread's id, too.
        let found = bridge
            .continue_once(thread.as_str(), "second", Some("mine"), &Author::default())
            .await
            .unwrap()
            .view
            .task;
        assert_eq!(found.id, task.id);
        at_rest(&bridge, task.id.as_str()).await;
    }
    bridge.continue_once(task.id.as_str(), "third", Some("another"), &Author::default()).await.unwrap();
    at_rest(&bridge, task.id.as_str()).await;
    let late = bridge
        .continue_once(task.id.as_str(), "second", Some("mine"), &Author::default())
        .await
        .unwrap()
        .view
        .task;
    assert_eq!((late.status, late.used.turns), (Status::Completed, 3));
    bench.tidy(bridge).await;
}

// peer: T5, T24
#[tokio::test]
async fn a_task_whose_host_died_is_lost_and_can_be_continued_with_its_history() {
    let bench = Workbench::new().await;
    bench.model.script("first", Scenario::new().stall("never").say("x"));
    bench.model.script("second", Scenario::new().say("still here"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.task("first")).await.unwrap().task;
    bench.model.wait_for_stall("never").await;
    for host in bridge.hosts() {
        host.stop(codex_wire::host::Stop::Now).await.unwrap();
    }
    let lost = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!(lost.status, Status::Lost, "{lost:?}");
    bridge.continue_task(task.id.as_str(), "second").await.unwrap();
    let done = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!(
        (done.status, done.final_text.as_deref()),
        (Status::Completed, Some("still here")),
        "{done:?}"
    );
    let newest = bench.model.requests().pop().unwrap();
    assert!(newest.body.to_string().contains("first"), "the history is gone");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_task_over_its_work_limit_is_paused() {
    let bench = Workbench::new().await;
    bench.model.script("long", Scenario::new().stall("never").say("x"));
    let bridge = bench.open().await;
    let mut new = bench.task("long");
    new.limits.work_ms = Some(Duration::from_millis(300).as_millis().try_into().unwrap());
    let task = bridge.start(new).await.unwrap().task;
    let paused = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!(paused.status, Status::Paused, "{paused:?}");
    assert!(paused.reason.unwrap().contains("timed out"));
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_task_that_was_continued_beyond_its_work_limit_gets_as_long_again() {
    let bench = Workbench::new().await;
    bench.model.script("long", Scenario::new().stall("never").say("x"));
    bench.model.script("go on", Scenario::new().say("went on"));
    let bridge = bench.open().await;
    let mut new = bench.task("long");
    new.limits.work_ms = Some(3_000);
    let id = bridge.start(new).await.unwrap().task.id;
    assert_eq!(at_rest(&bridge, id.as_str()).await.task.status, Status::Paused);
    bridge.continue_task(id.as_str(), "go on").await.unwrap();
    let done = at_rest(&bridge, id.as_str()).await.task;
    assert_eq!((done.status, done.final_text.as_deref()), (Status::Completed, Some("went on")), "{done:?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_task_whose_host_died_in_its_last_turn_is_paused_until_it_is_given_another() {
    let bench = Workbench::new().await;
    bench.model.script("first", Scenario::new().stall("never").say("x"));
    bench.model.script("second", Scenario::new().say("still here"));
    let mut config = bench.config();
    config.on_host_loss = codex_bridge_core::OnHostLoss::Resume;
    let bridge = bench.open_with(config).await;
    let mut new = bench.task("first");
    new.limits.turns = Some(1);
    let id = bridge.start(new).await.unwrap().task.id;
    bench.model.wait_for_stall("never").await;
    for host in bridge.hosts() {
        host.stop(codex_wire::host::Stop::Now).await.unwrap();
    }
    let paused = at_rest(&bridge, id.as_str()).await.task;
    assert_eq!(paused.status, Status::Paused, "{paused:?}");
    assert!(paused.reason.as_deref().unwrap().contains("used all its turns"), "{paused:?}");
    bridge.continue_task(id.as_str(), "second").await.unwrap();
    let done = at_rest(&bridge, id.as_str()).await.task;
    assert_eq!((done.status, done.used.turns), (Status::Completed, 2), "{done:?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_turn_that_was_cancelled_before_it_began_is_not_begun_again_under_its_name() {
    let bench = Workbench::new().await;
    for prompt in ["first", "other"] {
        bench.model.script(prompt, Scenario::new().say(prompt));
    }
    bench.model.script("blocker", Scenario::new().stall("gate").say("done"));
    let mut config = bench.config();
    config.max_running = 1;
    let bridge = bench.open_with(config).await;
    let id = bridge.start(bench.task("first")).await.unwrap().task.id;
    at_rest(&bridge, id.as_str()).await;
    let blocker = bridge.start(bench.task("blocker")).await.unwrap().task.id;
    bench.model.wait_for_stall("gate").await;
    bridge.continue_once(id.as_str(), "second", Some("mine"), &Author::default()).await.unwrap();
    assert_eq!(bridge.interrupt(id.as_str(), None).await.unwrap().task.status, Status::Cancelled);
    let turns = bridge.turns(&id).await.unwrap();
    assert_eq!((turns.len(), &turns[1].sealed_prompt), (2, &None), "its prompt is not needed any more");
    let again = bridge
        .continue_once(id.as_str(), "second", Some("mine"), &Author::default())
        .await
        .unwrap()
        .view
        .task;
    assert_eq!(again.status, Status::Cancelled);
    bridge.continue_once(id.as_str(), "other", None, &Author::default()).await.unwrap();
    bench.model.release("gate");
    at_rest(&bridge, blocker.as_str()).await;
    let other = at_rest(&bridge, id.as_str()).await.task;
    assert_eq!((other.final_text.as_deref(), other.used.turns), (Some("other"), 3), "{other:?}");
    let late = bridge
        .continue_once(id.as_str(), "second", Some("mine"), &Author::default())
        .await
        .unwrap()
        .view
        .task;
    assert_eq!((late.status, late.used.turns), (Status::Completed, 3), "{late:?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_name_that_is_too_long_or_a_credential_is_refused() {
    let bench = Workbench::new().await;
    let bridge = bench.open().await;
    let secret = format!("sk-{}", "a1B2".repeat(12));
    for (name, why) in [("n".repeat(1000), "up to 255 characters"), (secret, "looks like a credential")] {
        let new = NewTask { client_request_id: Some(name.clone()), ..bench.task("work") };
        let starting = bridge.start(new).await.unwrap_err();
        let continuing =
            bridge.continue_once("codex-1", "work", Some(&name), &Author::default()).await.unwrap_err();
        for refused in [starting, continuing] {
            assert!(refused.to_string().contains(why), "{refused}");
        }
    }
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_name_of_digits_and_letters_is_no_credential() {
    let bench = Workbench::new().await;
    let bridge = bench.open().await;
    for name in [
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "8c5f9c1e-8d3a-4b7e-9b43-0f8f4d1c2e6a",
        "d2d2d2e8c4b0f5a7c3e1d9b8a7f6e5d4c3b2a190",
        "telegram:-1001234567890:42",
        "slack-C024BE91L-1355517523.000005",
        "token deploy-key: 01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "token ci_token: 8c5f9c1e-8d3a-4b7e-9b43-0f8f4d1c2e6a",
    ] {
        let new = NewTask { client_request_id: Some(name.to_owned()), ..bench.task("work") };
        let task = bridge.start(new).await.unwrap().task;
        assert_eq!(task.client_request_id.as_deref(), Some(name));
    }
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_limit_of_no_turns_is_refused() {
    let bench = Workbench::new().await;
    let bridge = bench.open().await;
    let mut new = bench.task("work");
    new.limits.turns = Some(0);
    let refused = bridge.start(new).await.unwrap_err();
    assert!(refused.to_string().contains("0 turns"), "{refused}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_patch_waits_for_a_person_with_its_diff() {
    let bench = Workbench::new().await;
    let secret = format!("sk-{}", "a1B2".repeat(12));
    let patch = format!("*** Begin Patch\n*** Add File: new.txt\n+hello\n+key {secret}\n*** End Patch\n");
    bench.model.script("patch it", Scenario::new().apply_patch(&patch).then_say("done"));
    let bridge = bench.open().await;
    let id = bridge.start(bench.task("patch it")).await.unwrap().task.id;
    let view = asked(&bridge, id.as_str()).await;
    let change = &view.open_requests[0].ask.changes[0];
    assert!(change.path.ends_with("/new.txt"), "{change:?}");
    assert_eq!((change.kind, change.cut_bytes), (ShownChangeKind::Add, 0), "{change:?}");
    let diff = &change.diff;
    assert!(diff.contains("@@ -0,0 +1,2 @@\n+hello\n+key "), "{diff}");
    assert!(!diff.contains("a1B2a1B2"), "{diff}");
    // A credential in a diff may be used by anything: it is shown at the machine alone.
    let refused = decide(&bridge, id.as_str(), Decision::Accept, "ada").await;
    assert!(matches!(refused, Err(Error::NeedsReveal(_))), "{refused:?}");
    let request = &view.open_requests[0];
    assert!(bridge.reveal(request, "ada").await.unwrap().contains(&secret));
    let which =
        RequestSelector::Revealed { request_id: request.request_id.as_str(), digest: &request.digest };
    bridge.decide(id.as_str(), which, Decision::Accept, "ada").await.unwrap();
    at_rest(&bridge, id.as_str()).await;
    assert!(std::fs::read_to_string(bench.home.workspace().join("new.txt")).unwrap().contains(&secret));
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_home_with_a_chatgpt_login_has_one_host_and_what_does_not_fit_waits_for_room() {
    let bench = Workbench::new().await;
    bench.model.script("one", Scenario::new().stall("first").say("1"));
    bench.model.script("three", Scenario::new().say("3"));
    // Codex may fail a turn that begins while it reads a new login. The task then goes on by itself.
    bench.model.script_containing("account limit or login", Scenario::new().say("3"));
    let mut config = bench.config();
    config.host_limits.max_threads = 1;
    let bridge = bench.open_with(config).await;
    let one = bridge.start(bench.task("one")).await.unwrap().task.id;
    bench.model.wait_for_stall("first").await;
    // The login comes while the host runs.
    let login = r#"{"auth_mode": "chatgpt", "tokens": {"refresh_token": "r"}}"#;
    bench.log_in(login);
    // The default home by its name is no second home.
    let mut named = bench.task("three");
    named.settings.codex_home = Some(bench.home.codex_home());
    let three = bridge.start(named).await.unwrap().task.id;
    let waiting = bridge.wait(three.as_str(), Duration::from_secs(2)).await.unwrap().task;
    assert_eq!(waiting.status, Status::Starting, "{waiting:?}");
    assert_eq!(bridge.hosts().len(), 1);
    bench.model.release("first");
    assert_eq!(at_rest(&bridge, one.as_str()).await.task.status, Status::Completed);
    assert_eq!(at_rest(&bridge, three.as_str()).await.task.status, Status::Completed);
    assert_eq!(bridge.hosts().len(), 1);
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_home_with_a_key_has_as_many_hosts_as_its_tasks_need() {
    let bench = Workbench::new().await;
    bench.model.script("one", Scenario::new().stall("first").say("1"));
    bench.model.script("two", Scenario::new().say("2"));
    bench.log_in(r#"{"OPENAI_API_KEY": "k"}"#);
    let mut config = bench.config();
    config.host_limits.max_threads = 1;
    let bridge = bench.open_with(config).await;
    let one = bridge.start(bench.task("one")).await.unwrap().task.id;
    bench.model.wait_for_stall("first").await;
    let two = bridge.start(bench.task("two")).await.unwrap().task.id;
    assert_eq!(at_rest(&bridge, two.as_str()).await.task.status, Status::Completed);
    assert_eq!(bridge.hosts().len(), 2);
    bench.model.release("first");
    assert_eq!(at_rest(&bridge, one.as_str()).await.task.status, Status::Completed);
    bench.tidy(bridge).await;
}

// peer: T25
#[tokio::test]
async fn a_host_that_died_while_the_bridge_was_down_leaves_the_task_lost() {
    let bench = Workbench::new().await;
    bench.model.script("first", Scenario::new().stall("never").say("x"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.task("first")).await.unwrap().task;
    bench.model.wait_for_stall("never").await;
    let hosts = bridge.hosts();
    bridge.abandon().await;
    for host in hosts {
        host.stop(codex_wire::host::Stop::Now).await.unwrap();
    }
    let bridge = bench.open().await;
    let lost = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!(lost.status, Status::Lost, "{lost:?}");
    assert_eq!(
        bench.model.requests().iter().filter(|request| request.prompt().as_deref() == Some("first")).count(),
        1
    );
    bench.tidy(bridge).await;
}

// peer: T36
#[tokio::test]
async fn tasks_that_wait_keep_their_order_over_a_restart() {
    let bench = Workbench::new().await;
    bench.model.script("blocker", Scenario::new().stall("gate").say("done"));
    for prompt in ["one", "two"] {
        bench.model.script(prompt, Scenario::new().say(prompt));
    }
    let mut config = bench.config();
    config.max_running = 1;
    let bridge = bench.open_with(config.clone()).await;
    bridge.start(bench.task("blocker")).await.unwrap();
    bench.model.wait_for_stall("gate").await;
    let one = bridge.start(bench.task("one")).await.unwrap().task;
    let two = bridge.start(bench.task("two")).await.unwrap().task;
    assert_eq!((one.status, two.status), (Status::Queued, Status::Queued));
    bridge.abandon().await;
    let bridge = bench.open_with(config).await;
    bench.model.release("gate");
    at_rest(&bridge, two.id.as_str()).await;
    let prompts: Vec<_> = bench.model.requests().iter().filter_map(|request| request.prompt()).collect();
    assert_eq!(prompts, ["blocker", "one", "two"]);
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_task_over_its_token_limit_is_paused_at_the_next_count() {
    let bench = Workbench::new().await;
    let usage = scripted_model::Usage { input: 5000, output: 10, ..scripted_model::Usage::default() };
    bench.model.script("costly", Scenario::new().exec("true").usage(usage).then_say("done"));
    let mut config = bench.config();
    config.approvals.accept_commands = true;
    let bridge = bench.open_with(config).await;
    let mut new = bench.task("costly");
    new.limits.tokens = Some(100);
    let task = bridge.start(new).await.unwrap().task;
    let paused = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!(paused.status, Status::Paused, "{paused:?}");
    assert!(paused.reason.unwrap().contains("tokens"));
    bench.tidy(bridge).await;
}

// peer: T36
#[tokio::test]
async fn every_task_on_a_host_that_dies_is_accounted_for() {
    const TASKS: usize = 30;
    let bench = Workbench::new().await;
    bench.model.script("work", Scenario::new().stall("never").say("x"));
    let mut config = bench.config();
    config.max_running = TASKS;
    let bridge = bench.open_with(config).await;
    for _ in 0..TASKS {
        bridge.start(bench.task("work")).await.unwrap();
    }
    tokio::time::timeout(PATIENCE, bench.model.wait_for_request(TASKS - 1)).await.unwrap();
    let hosts = bridge.hosts();
    assert_eq!(hosts.len(), 1);
    hosts[0].stop(codex_wire::host::Stop::Now).await.unwrap();
    for view in bridge.list(&TaskFilter::default()).await.unwrap() {
        let task = at_rest(&bridge, view.task.id.as_str()).await.task;
        assert_eq!(task.status, Status::Lost, "{task:?}");
        assert!(task.error.unwrap().message.contains("ended unexpectedly"));
    }
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn what_is_added_to_a_turn_is_in_its_log_with_who_said_it() {
    let bench = Workbench::new().await;
    let long = Scenario::new().delta("begun ").stall("long").delta("done").then_say("with that too");
    bench.model.script("long work", long);
    let bridge = bench.open().await;
    let id = bridge.start(bench.task("long work")).await.unwrap().task.id;
    bench.model.wait_for_stall("long").await;
    let words = "and mind the tests, PASSWORD=planted-secret-9";
    assert_eq!(bridge.steer(id.as_str(), words, &"ada".into(), None).await.unwrap(), SteerOutcome::Accepted);
    bench.model.release("long");
    at_rest(&bridge, id.as_str()).await;
    let mut events = bridge.events(&id, 0, 100).await.unwrap();
    events.retain(|event| event.line.kind() == "steered");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(json(&events[0])["by"], "ada", "{events:?}");
    let text = json(&events[0])["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("and mind the tests, PASSWORD=") && !text.contains("planted"), "{text}");
    bench.tidy(bridge).await;
}
