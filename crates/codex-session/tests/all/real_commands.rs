//! Command approvals on the real Codex: each decision, and what becomes of the command.

use std::sync::Arc;
use std::time::Duration;

use codex_session::turn::Closing;
use codex_session::{
    ApprovalMode, Ask, Decider, Decision, Sandbox, Session, SessionConfig, SessionEvent, TurnOptions,
    TurnOutcome,
};
use scripted_model::{Scenario, ToolCall};

use crate::real_parts::{Person, answer_to, completed, interrupted};
use crate::workbench::{LONG, RealCodex, soon, whole_turn};

/// Makes a file; read-only sandboxes do not let it.
fn touch(file: &str) -> Scenario {
    Scenario::new().exec(format!("touch {file}")).then_say("went on")
}

async fn with_config(codex: &RealCodex, person: &Person, change: impl FnOnce(&mut SessionConfig)) -> Session {
    let mut config = codex.writing();
    change(&mut config);
    Session::start(config, codex.stdio(), person.approver()).await.unwrap()
}

/// How the requests of a turn ended.
fn closings(events: &[SessionEvent]) -> Vec<Closing> {
    let closing = |event: &SessionEvent| match event {
        SessionEvent::RequestClosed { closing, .. } => Some(closing.clone()),
        _ => None,
    };
    events.iter().filter_map(closing).collect()
}

// peer: S30, S39
#[tokio::test]
async fn an_accepted_command_runs_as_it_was_shown() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", Scenario::new().exec("echo one >> runs.txt && echo said").then_say("done"));
    let person = Person::saying([Decision::Accept]);
    let session = codex.open(person.approver()).await;
    let mut events = session.events();
    let result = completed(soon(session.run_turn("make it", TurnOptions::default())).await);
    assert_eq!((result.final_text.as_str(), result.tool_iterations), ("done", 1));
    assert_eq!(codex.lines_of("runs.txt"), ["one"]);
    assert!(codex.tool_output("make it").contains("said"));
    let [text] = person.texts().try_into().expect("one question");
    let cwd = codex.home.workspace();
    for part in ["echo one >> runs.txt && echo said", cwd.to_str().unwrap(), "workspace-write"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let taken = Closing::Taken { decision: Decision::Accept, by: Decider::Person("approver".to_owned()) };
    assert_eq!(closings(&whole_turn(&mut events).await), [taken]);
    codex.end(session).await;
}

#[tokio::test]
async fn an_accepted_command_that_the_sandbox_blocks_is_never_run_outside_of_it() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", Scenario::new().exec("echo one >> runs.txt").then_say("done"));
    let person = Person::silent();
    let session = codex.start(person.approver()).await;
    for tries in 1..=5 {
        person.say(Decision::Accept);
        completed(soon(session.run_turn("make it", TurnOptions::default())).await);
        assert_eq!(person.texts().len(), tries);
        assert!(!codex.made("runs.txt"), "{}", codex.tool_output("make it"));
    }
    codex.end(session).await;
}

// peer: S1, S32
#[tokio::test]
async fn a_command_accepted_for_the_session_is_not_asked_again_in_this_thread_but_in_another() {
    let codex = RealCodex::new().await;
    let command = "echo once >> runs.txt";
    codex.model.script("twice", Scenario::new().exec(command).then_exec(command).then_say("done"));
    codex.model.script("again", Scenario::new().exec(command).then_say("done"));
    let person = Person::saying([Decision::AcceptForSession, Decision::Decline]);
    let session = codex.start_on_host(person.approver()).await;
    answer_to(&session, "twice").await;
    answer_to(&session, "again").await;
    assert_eq!(person.texts().len(), 1);
    assert_eq!(codex.lines_of("runs.txt").len(), 3);

    let other = codex.start_on_host(person.approver()).await;
    answer_to(&other, "again").await;
    assert_eq!(person.texts().len(), 2);
    assert_eq!(codex.lines_of("runs.txt").len(), 3);
    session.close().await;
    other.close().await;
    codex.end_host().await;
}

// peer: S31
#[tokio::test]
async fn a_declined_command_does_not_run_and_the_turn_goes_on() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", touch("made.txt"));
    let person = Person::saying([Decision::Decline]);
    let session = codex.open(person.approver()).await;
    assert_eq!(answer_to(&session, "make it").await, "went on");
    assert!(!codex.made("made.txt"));
    assert!(codex.tool_output("make it").contains("rejected"), "{}", codex.tool_output("make it"));
    codex.end(session).await;
}

#[tokio::test]
async fn a_cancelled_command_does_not_run_and_the_turn_ends() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", touch("made.txt"));
    let person = Person::saying([Decision::Cancel]);
    let session = codex.open(person.approver()).await;
    interrupted(soon(session.run_turn("make it", TurnOptions::default())).await);
    assert!(!codex.made("made.txt"));
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    codex.end(session).await;
}

#[tokio::test]
async fn with_nobody_to_ask_a_command_is_declined_at_once() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", touch("made.txt"));
    let session = codex.open(None).await;
    let mut events = session.events();
    assert_eq!(answer_to(&session, "make it").await, "went on");
    assert!(!codex.made("made.txt"));
    let declined = Closing::Taken {
        decision: Decision::Decline,
        by: Decider::Policy("nobody is here to answer".to_owned()),
    };
    assert_eq!(closings(&whole_turn(&mut events).await), [declined]);
    codex.end(session).await;
}

// peer: S37
#[tokio::test]
async fn commands_that_the_operator_accepts_run_unasked() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", touch("made.txt"));
    let person = Person::silent();
    let session = with_config(&codex, &person, |config| config.approvals.accept_commands = true).await;
    assert_eq!(answer_to(&session, "make it").await, "went on");
    assert!(codex.made("made.txt") && person.texts().is_empty());
    codex.end(session).await;
}

// peer: S38
#[tokio::test]
async fn an_approver_that_panics_has_not_said_yes() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", touch("made.txt"));
    let broken = |_: Ask| async { panic!("this approver is broken on purpose") };
    let session = codex.open(Some(Arc::new(broken))).await;
    assert_eq!(answer_to(&session, "make it").await, "went on");
    assert!(!codex.made("made.txt"));
    codex.end(session).await;
}

#[tokio::test]
async fn a_person_who_takes_too_long_has_not_said_yes() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", touch("made.txt"));
    let person = Person::silent();
    let limit = Duration::from_millis(200);
    let session = with_config(&codex, &person, |config| config.approvals.answer_limit = Some(limit)).await;
    let mut events = session.events();
    assert_eq!(answer_to(&session, "make it").await, "went on");
    assert!(!codex.made("made.txt"));
    assert_eq!(person.texts().len(), 1);
    let declined = Closing::Taken { decision: Decision::Decline, by: Decider::TimeLimit };
    assert_eq!(closings(&whole_turn(&mut events).await), [declined]);
    codex.end(session).await;
}

#[tokio::test]
async fn no_work_clock_runs_while_a_person_is_asked() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", touch("made.txt"));
    let person = Person::silent();
    let session = codex.open(person.approver()).await;
    let limit = Duration::from_secs(2);
    let turn = session.run_turn("make it", crate::workbench::within(limit));
    let thinking = async {
        person.asked(1).await;
        tokio::time::sleep(limit).await;
        person.say(Decision::Accept);
    };
    let (result, ()) = tokio::join!(soon(turn), thinking);
    assert_eq!(completed(result).final_text, "went on");
    codex.end(session).await;
}

#[tokio::test]
async fn a_command_is_allowed_for_good_only_with_the_operators_leave() {
    let codex = RealCodex::new().await;
    let rules = codex.home.codex_home().join("rules/default.rules");
    codex.model.script("make it", touch("made.txt"));
    let person = Person::saying([Decision::AcceptAlways, Decision::AcceptAlways]);
    let session = codex.open(person.approver()).await;
    answer_to(&session, "make it").await;
    assert!(codex.made("made.txt"));
    assert!(!rules.exists(), "{:?}", std::fs::read_to_string(&rules));
    assert!(!person.texts()[0].contains("always"), "{}", person.texts()[0]);
    codex.end(session).await;

    let allow = |config: &mut SessionConfig| config.approvals.allow_permanent_rules = true;
    let session = with_config(&codex, &person, allow).await;
    answer_to(&session, "make it").await;
    assert!(
        person.texts()[1].contains("accept `touch made.txt` always, in every thread"),
        "{}",
        person.texts()[1]
    );
    assert!(
        std::fs::read_to_string(&rules).unwrap().contains(r#"prefix_rule(pattern=["touch", "made.txt"]"#)
    );
    codex.end(session).await;
    let session = codex.open(person.approver()).await;
    answer_to(&session, "make it").await;
    assert_eq!(person.texts().len(), 2, "what was allowed for good is not asked again");
    codex.end(session).await;
}

#[tokio::test]
async fn two_commands_wait_at_once_and_are_answered_in_any_order() {
    let codex = RealCodex::new().await;
    let both = Scenario::new().exec("touch yes.txt").exec("touch no.txt").then_say("went on");
    codex.model.script("both", both);
    let (later_ask, later) = tokio::sync::watch::channel(0);
    let approver = move |ask: Ask| {
        let (asked, mut seen) = (later_ask.clone(), later.clone());
        async move {
            asked.send_modify(|count| *count += 1);
            if ask.text().contains("no.txt") {
                return Decision::Decline;
            }
            // The other one is answered first, whichever came first.
            tokio::time::timeout(LONG, seen.wait_for(|count| *count == 2)).await.unwrap().unwrap();
            Decision::Accept
        }
    };
    let session = codex.open(Some(Arc::new(approver))).await;
    assert_eq!(answer_to(&session, "both").await, "went on");
    assert!(codex.made("yes.txt") && !codex.made("no.txt"));
    codex.end(session).await;
}

#[tokio::test]
async fn a_command_that_wants_out_of_the_sandbox_says_why() {
    let codex = RealCodex::new().await;
    let call = ToolCall::exec_escalated("touch made.txt", "the file is needed");
    codex.model.script("make it", Scenario::new().call(call).then_say("went on"));
    codex.model.script("try it", touch("tried.txt"));
    let person = Person::saying([Decision::Accept]);
    let on_request = |config: &mut SessionConfig| {
        (config.sandbox, config.approval_mode) = (Sandbox::ReadOnly, ApprovalMode::OnRequest);
    };
    let session = with_config(&codex, &person, on_request).await;
    assert_eq!(answer_to(&session, "make it").await, "went on");
    assert!(codex.made("made.txt"));
    assert!(person.texts()[0].contains("Reason: the file is needed"), "{}", person.texts()[0]);
    let result = completed(soon(session.run_turn("try it", TurnOptions::default())).await);
    assert_eq!(result.outcome, TurnOutcome::Completed);
    assert!(!codex.made("tried.txt"), "on-request repeats nothing outside the sandbox");
    assert_eq!(person.texts().len(), 1);
    codex.end(session).await;
}
