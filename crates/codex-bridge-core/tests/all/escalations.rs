//! Wishes to leave the sandbox, on the real Codex: what becomes of them depends on the operator and on who handed the task
//! over, and the log tells.

use codex_bridge_core::bridge::{Author, Error, NewBranch};
use codex_bridge_core::event::Event;
use codex_bridge_core::task::{AuthorKind, EscalationRule, Status, Task};
use codex_bridge_core::token::{NewQuota, Role};
use codex_bridge_core::{Bridge, NewTask};
use codex_session::{Decision, Escalations};
use codex_wire::escalation::Escalation;
use codex_wire::host::Stop;
use scripted_model::{Scenario, ToolCall};
use serde_json::Value;

use crate::workbench::{Workbench, asked, at_rest, decide, json};

fn escalated() -> Scenario {
    Scenario::new().call(ToolCall::exec_escalated("touch out.txt", "it must be so")).then_say("went on")
}

/// A task whose first command asks to leave the sandbox, of an origin with this default.
fn task(bench: &Workbench, prompt: &str, of_origin: Escalations) -> NewTask {
    let mut new = bench.writing_task(prompt);
    new.settings.escalations = EscalationRule { of_profile: None, of_origin };
    new
}

/// Waits for the question whether a command may leave the sandbox, and says no.
async fn asked_to_leave(bridge: &Bridge, id: &str) {
    let view = asked(bridge, id).await;
    let ask = &view.open_requests[0].ask;
    assert_eq!(ask.escalation, Some(Escalation::Asked), "{ask:#?}");
    assert_eq!(ask.details[0].label.as_str(), "Careful", "{ask:#?}");
    decide(bridge, id, Decision::Decline, "ada").await.unwrap();
    done(bridge, id).await;
}

async fn done(bridge: &Bridge, id: &str) -> Task {
    let task = at_rest(bridge, id).await.task;
    assert_eq!((task.status, task.final_text.as_deref()), (Status::Completed, Some("went on")), "{task:?}");
    task
}

async fn log(bridge: &Bridge, task: &Task, kind: &str) -> Vec<Event> {
    let mut events = bridge.events(&task.id, 0, 1000).await.unwrap();
    events.retain(|event| event.line.kind() == kind);
    events
}

#[tokio::test]
async fn a_person_is_asked_at_start_on_a_new_host_and_in_a_fork() {
    let bench = Workbench::new().await;
    bench.model.script("go", escalated());
    let bridge = bench.open().await;
    let id = bridge.start(task(&bench, "go", Escalations::Ask)).await.unwrap().task.id.to_string();
    asked_to_leave(&bridge, &id).await;
    for host in bridge.hosts() {
        host.stop(Stop::Now).await.unwrap();
    }
    bridge.continue_task(&id, "go").await.unwrap();
    asked_to_leave(&bridge, &id).await;
    let branch = NewBranch { prompt: Some("go".into()), ..NewBranch::default() };
    let branch = bridge.fork(&id, branch).await.unwrap().task.id.to_string();
    asked_to_leave(&bridge, &branch).await;
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_question_that_outlives_the_bridge_still_says_that_it_asks_to_leave() {
    let bench = Workbench::new().await;
    bench.model.script("go", escalated());
    let bridge = bench.open().await;
    let id = bridge.start(task(&bench, "go", Escalations::Ask)).await.unwrap().task.id.to_string();
    asked(&bridge, &id).await;
    bridge.abandon().await;
    let bridge = bench.open().await;
    asked_to_leave(&bridge, &id).await;
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn others_are_declined_unasked_and_the_log_says_why() {
    let bench = Workbench::new().await;
    bench.model.script("go", escalated());
    let mut config = bench.config();
    // The operator's standing yes is none to an escalation.
    config.approvals.accept_commands = true;
    let bridge = bench.open_with(config).await;
    let id = bridge.start(task(&bench, "go", Escalations::Decline)).await.unwrap().task.id.to_string();
    let task = done(&bridge, &id).await;
    assert!(!bench.home.workspace().join("out.txt").exists());
    let decided = log(&bridge, &task, "request_decided").await;
    let [line] = &decided[..] else { panic!("{decided:#?}") };
    let closing = &json(line)["closing"];
    assert_eq!(
        (&closing["decision"], &closing["by"]["by"]),
        (&Value::from("decline"), &Value::from("policy"))
    );
    assert_eq!(
        closing["by"]["detail"],
        "commands that ask to leave the sandbox are declined for this task (escalations = \"decline\")"
    );
    assert!(log(&bridge, &task, "request").await.is_empty());
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn the_operators_word_comes_before_who_handed_the_task_over() {
    let (ask, decline) = (Escalations::Ask, Escalations::Decline);
    // What the file says, what the profile says, what the origin has by default, and whether a person is asked.
    let cases = [
        (Some(ask), None, decline, true),
        (Some(decline), None, ask, false),
        (Some(decline), Some(ask), decline, true),
        (Some(ask), Some(decline), ask, false),
    ];
    for (file, profile, of_origin, is_asked) in cases {
        let bench = Workbench::new().await;
        bench.model.script("go", escalated());
        let mut config = bench.config();
        config.escalations = file;
        let bridge = bench.open_with(config).await;
        let mut new = task(&bench, "go", of_origin);
        new.settings.escalations.of_profile = profile;
        let id = bridge.start(new).await.unwrap().task.id.to_string();
        if is_asked {
            asked_to_leave(&bridge, &id).await;
        } else {
            done(&bridge, &id).await;
        }
        bench.tidy(bridge).await;
    }
}

#[tokio::test]
async fn a_turn_that_comes_by_a_token_is_declined_whoever_began_the_task() {
    let bench = Workbench::new().await;
    bench.model.script("go", escalated());
    let bridge = bench.open().await;
    bridge.create_token("ci", Role::Operator, NewQuota::default(), "ada").await.unwrap();
    let ci = Author { name: "token ci".to_owned(), token: Some("ci".to_owned()), kind: AuthorKind::Other };
    let id = bridge.start(task(&bench, "go", Escalations::Ask)).await.unwrap().task.id.to_string();
    asked_to_leave(&bridge, &id).await;
    bridge.continue_once(&id, "go", None, &ci).await.unwrap();
    let task = done(&bridge, &id).await;
    assert_eq!(log(&bridge, &task, "request_decided").await.len(), 1);
    let branch = NewBranch { prompt: Some("go".into()), by: ci, ..NewBranch::default() };
    let branch = bridge.fork(&id, branch).await.unwrap().task.id.to_string();
    done(&bridge, &branch).await;
    bridge.continue_task(&id, "go").await.unwrap();
    asked_to_leave(&bridge, &id).await;
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn nobody_accepts_an_escalation_for_longer_than_once() {
    let bench = Workbench::new().await;
    bench.model.script("go", escalated());
    let bridge = bench.open().await;
    let id = bridge.start(task(&bench, "go", Escalations::Ask)).await.unwrap().task.id.to_string();
    asked(&bridge, &id).await;
    for decision in [Decision::AcceptForSession, Decision::AcceptAlways] {
        let refused = decide(&bridge, &id, decision, "ada").await;
        assert!(
            matches!(&refused, Err(Error::Refused(why)) if why.contains("accepted only once")),
            "{refused:?}"
        );
    }
    decide(&bridge, &id, Decision::Accept, "ada").await.unwrap();
    done(&bridge, &id).await;
    assert!(bench.home.workspace().join("out.txt").exists());
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn input_to_a_running_command_is_in_the_log_each_time_and_redacted() {
    let bench = Workbench::new().await;
    bench.model.script("begin", Scenario::new().call(ToolCall::exec_in_terminal("cat")).then_say("went on"));
    let mut config = bench.config();
    config.approvals.accept_commands = true;
    let bridge = bench.open_with(config).await;
    let id = bridge.start(bench.writing_task("begin")).await.unwrap().task.id.to_string();
    done(&bridge, &id).await;
    let told = bench.model.requests().last().unwrap().last_tool_output().unwrap();
    let session: String =
        told.split("session ID ").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    let session = session.parse().unwrap();
    let secret = format!("sk-{}", "a1B2".repeat(12));
    let typed = Scenario::new()
        .call(ToolCall::write_stdin(session, "first\n"))
        .then_call(ToolCall::write_stdin(session, ""))
        .then_call(ToolCall::write_stdin(session, format!("key {secret}\n")))
        .then_say("went on");
    bench.model.script("type", typed);
    bridge.continue_task(&id, "type").await.unwrap();
    let task = done(&bridge, &id).await;
    let lines = log(&bridge, &task, "terminal_input").await;
    let [first, second] = &lines[..] else { panic!("{lines:#?}") };
    assert_eq!(json(first)["text"], "first\n");
    let hidden = json(second)["text"].as_str().unwrap().to_owned();
    assert!(hidden.starts_with("key ") && !hidden.contains("a1B2a1B2a1B2"), "{hidden}");
    let begun = log(&bridge, &task, "tool_started").await;
    assert_eq!(json(first)["of_call"], json(&begun[0])["call_id"]);
    bench.tidy(bridge).await;
}
