//! Deaths on a host of the real Codex: of the program that runs a turn, and of the host itself.

use std::time::Duration;

use codex_session::turn::Closing;
use codex_session::{Decision, FailureKind, Sandbox, SessionEvent, TurnOptions, TurnOutcome};
use codex_wire::ThreadId;
use scripted_model::{Scenario, ToolCall};
use testkit::wait_until;

use crate::real_parts::{
    Person, Program, answer_to, completed, count_prompts, interrupted, kill_host, runs, thread_of,
};
use crate::workbench::{LONG, RealCodex, soon, whole_turn};

/// A program that was killed in a turn, at this stall of the model.
async fn killed_at(codex: &RealCodex, mut program: Program, stall: &str) -> ThreadId {
    let thread = program.thread().await;
    soon(codex.model.wait_for_stall(stall)).await;
    program.kill().await;
    thread
}

#[tokio::test]
async fn a_prompt_never_becomes_a_steer_of_a_turn_that_nobody_has_joined() {
    let codex = RealCodex::new().await;
    codex.model.script("work", Scenario::new().stall("gate").say("never"));
    let thread = killed_at(&codex, codex.program(&["work"]), "gate").await;

    let session = codex.resume_on_host(&thread, None).await;
    let refused = soon(session.run_turn("another", TurnOptions::default())).await;
    assert_eq!(refused.error.unwrap().kind, FailureKind::Configuration);
    session.interrupt().await;
    while session.status().await.unjoined_turn.is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(answer_to(&session, "another").await, "You said: another");
    assert_eq!(codex.turns_asking("work").len(), 1);
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn a_turn_outlives_its_program_and_is_joined_by_another() {
    let codex = RealCodex::new().await;
    let scenario = Scenario::new()
        .say("I begin.")
        .exec("echo one")
        .then()
        .delta("Half of ")
        .stall("gate")
        .delta("it.")
        .exec("echo two")
        .then_say("All done.");
    codex.model.script("work", scenario);
    let thread = killed_at(&codex, codex.program(&["--approve", "all", "work"]), "gate").await;

    let mut config = codex.writing();
    config.approvals.accept_commands = true;
    let session =
        codex_session::Session::resume(config, codex.on_host(), None, thread.clone()).await.unwrap();
    let unjoined = session.status().await.unjoined_turn;
    assert!(unjoined.is_some());
    let (result, ()) = tokio::join!(soon(session.join_turn(TurnOptions::default())), async {
        codex.model.release("gate");
    });
    let result = completed(result);
    assert_eq!((result.turn_id, session.status().await.unjoined_turn), (unjoined, None));
    assert_eq!((result.final_text.as_str(), result.tool_iterations), ("All done.", 2));
    let said = serde_json::to_string(&result.projected_messages).unwrap();
    for part in ["I begin.", "Half of it.", "All done.", "echo one", "echo two"] {
        assert_eq!(said.matches(part).count(), 1, "{part:?} in {said}");
    }
    assert_eq!(codex.turns_asking("work").len(), 1);
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn a_turn_that_nobody_joins_refuses_nothing_and_can_be_stopped() {
    let codex = RealCodex::new().await;
    codex.model.script("work", Scenario::new().delta("Half of ").stall("gate"));
    let thread = killed_at(&codex, codex.program(&["work"]), "gate").await;
    let session = codex.resume_on_host(&thread, None).await;
    let joined = session.join_turn(TurnOptions::default());
    let (result, ()) = tokio::join!(soon(joined), session.interrupt());
    interrupted(result);
    let again = soon(session.join_turn(TurnOptions::default())).await;
    assert_eq!(again.error.unwrap().kind, FailureKind::Configuration);
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn a_question_outlives_its_program_and_is_answered_once() {
    let codex = RealCodex::new().await;
    codex.model.script("work", Scenario::new().exec("echo ran >> runs.txt").then_say("done"));
    let mut program = codex.program(&["--approve", "ask", "work"]);
    let thread = program.thread().await;
    let asked = program.event("asked").await;
    program.kill().await;

    let person = Person::silent();
    let session = codex.resume_on_host(&thread, person.approver()).await;
    let mut events = session.events();
    assert!(session.status().await.unjoined_turn.is_some());
    let answering = async {
        person.asked(1).await;
        assert!(!codex.made("runs.txt"));
        person.say(Decision::Accept);
    };
    let (result, ()) = tokio::join!(soon(session.join_turn(TurnOptions::default())), answering);
    assert_eq!(completed(result).final_text, "done");
    assert_eq!(codex.lines_of("runs.txt"), ["ran"]);
    assert_eq!(person.texts().len(), 1);
    let told = whole_turn(&mut events).await;
    let keys = told.iter().filter_map(|event| match event {
        SessionEvent::Asked { key, .. } => Some(serde_json::to_value(key).unwrap()),
        _ => None,
    });
    assert_eq!(keys.collect::<Vec<_>>(), [asked["key"].clone()], "it is the same request of the same host");
    let is_taken = |event: &&SessionEvent| {
        matches!(
            event,
            SessionEvent::RequestClosed { closing: Closing::Taken { decision: Decision::Accept, .. }, .. }
        )
    };
    assert_eq!(told.iter().filter(is_taken).count(), 1, "{told:#?}");
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn a_question_about_files_still_says_which_after_its_program_died() {
    let codex = RealCodex::new().await;
    codex.model.script("work", Scenario::new().call(ToolCall::add_file("new.txt", "hello")).then_say("done"));
    let mut program = codex.program(&["--approve", "ask", "work"]);
    let thread = program.thread().await;
    program.event("asked").await;
    program.kill().await;
    let person = Person::saying([Decision::Accept]);
    let session = codex.resume_on_host(&thread, person.approver()).await;
    assert_eq!(completed(soon(session.join_turn(TurnOptions::default())).await).final_text, "done");
    assert!(
        person.texts()[0].contains("1 add: ") && person.texts()[0].contains("new.txt"),
        "{:?}",
        person.texts()
    );
    assert_eq!(codex.lines_of("new.txt"), ["hello"]);
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn a_turn_that_ended_while_nobody_was_there_is_read_back() {
    let codex = RealCodex::new().await;
    let scenario = Scenario::new().exec("echo one").then().delta("Half of ").stall("gate").delta("it.");
    codex.model.script("work", scenario);
    let args = ["--approve", "all", "--client-id", "mine-1", "work"];
    let thread = killed_at(&codex, codex.program(&args), "gate").await;
    codex.model.release("gate");
    codex.until_idle(&thread).await;

    let session = codex.resume_on_host(&thread, None).await;
    assert_eq!(session.status().await.unjoined_turn, None);
    let options = TurnOptions {
        client_id: Some("mine-1".to_owned()),
        may_have_been_sent: true,
        ..TurnOptions::default()
    };
    let result = completed(soon(session.run_turn("work", options)).await);
    assert_eq!((result.final_text.as_str(), result.tool_iterations), ("Half of it.", 1));
    assert_eq!(codex.turns_asking("work").len(), 1);
    assert_eq!(count_prompts(&codex.turns(&thread).await, "mine-1"), 1);
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn the_death_of_a_host_is_told_with_what_was_seen_and_the_thread_goes_on_elsewhere() {
    let codex = RealCodex::new().await;
    let sleep = format!("sleep 98{}", std::process::id());
    let scenario = Scenario::new().exec("touch made.txt").then_exec(sleep.as_str()).then_say("never said");
    codex.model.script("work", scenario);
    let mut config = codex.writing();
    config.approvals.accept_commands = true;
    let session = codex_session::Session::start(config, codex.on_host(), None).await.unwrap();
    let thread = thread_of(&session).await;
    answer_to(&session, "my name is Ada").await;
    let (first, epoch) = (codex.host(), codex.host().epoch().clone());
    let death = async {
        wait_until(LONG, "the command to run", || runs(&sleep)).await;
        kill_host(&first).await;
    };
    let (result, ()) = tokio::join!(soon(session.run_turn("work", TurnOptions::default())), death);

    assert_eq!((result.outcome, result.interrupted), (TurnOutcome::Lost, false), "{result:#?}");
    assert!(result.outcome_unknown && result.should_retire, "{result:#?}");
    assert_eq!(result.error.as_ref().unwrap().kind, FailureKind::Lost);
    let [ran, may_have_run] = result.side_effects.as_slice() else { panic!("{:?}", result.side_effects) };
    assert!(ran.starts_with("ran: ") && ran.contains("touch made.txt"), "{ran}");
    assert!(may_have_run.starts_with("may have run: ") && may_have_run.contains(&sleep), "{may_have_run}");

    // The next turn takes the thread up on a new host, which first ends what the old one left running.
    assert_eq!(answer_to(&session, "what is my name?").await, "You said: what is my name?");
    assert_eq!(thread_of(&session).await, thread);
    assert_ne!(*codex.host().epoch(), epoch);
    assert!(!runs(&sleep));
    let told = codex.last_input();
    assert!(told.contains("my name is Ada") && told.contains("touch made.txt"), "{told}");
    assert_eq!(codex.turns_asking("work").len(), 1, "nothing was run again");
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn a_command_that_left_its_session_is_ended_after_the_death_of_its_host() {
    let codex = RealCodex::new().await;
    let sleep = format!("sleep 97{}", std::process::id());
    codex.model.script("work", Scenario::new().exec(format!("setsid -f {sleep} >&- 2>&-")).stall("gate"));
    // No sandbox, whose end would end the command too.
    let mut config = codex.config();
    config.sandbox = Sandbox::DangerFullAccess;
    config.approvals.accept_commands = true;
    let session = codex_session::Session::start(config, codex.on_host(), None).await.unwrap();
    let death = async {
        wait_until(LONG, "the command to run", || runs(&sleep)).await;
        kill_host(&codex.host()).await;
        assert!(runs(&sleep), "nobody has ended it yet");
    };
    let (result, ()) = tokio::join!(soon(session.run_turn("work", TurnOptions::default())), death);
    assert_eq!(result.outcome, TurnOutcome::Lost, "{result:#?}");
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    assert!(!runs(&sleep));
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn a_question_of_a_dead_host_is_orphaned_and_its_answer_goes_nowhere() {
    let codex = RealCodex::new().await;
    codex.model.script("work", Scenario::new().exec("touch made.txt").then_say("made it"));
    let person = Person::silent();
    let session = codex.start_on_host(person.approver()).await;
    let mut events = session.events();
    let death = async {
        person.asked(1).await;
        kill_host(&codex.host()).await;
    };
    let (result, ()) = tokio::join!(soon(session.run_turn("work", TurnOptions::default())), death);
    assert_eq!(result.outcome, TurnOutcome::Lost, "{result:#?}");
    let told = whole_turn(&mut events).await;
    let is_orphaned = |event: &SessionEvent| {
        matches!(event, SessionEvent::RequestClosed { closing: Closing::Orphaned { decision: None }, .. })
    };
    assert!(told.iter().any(is_orphaned), "{told:#?}");
    person.say(Decision::Accept);
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    assert!(!codex.made("made.txt"));
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn a_host_goes_on_without_its_keeper_and_the_turn_with_it() {
    let codex = RealCodex::new().await;
    codex.model.script("work", Scenario::new().delta("Half of ").stall("gate").delta("it."));
    let session = codex.start_on_host(None).await;
    let host = codex.host();
    let death = async {
        codex.model.wait_for_stall("gate").await;
        assert!(host.record().keeper.signal(rustix::process::Signal::KILL).unwrap());
        wait_until(LONG, "the keeper to be gone", || !host.has_keeper()).await;
        codex.model.release("gate");
    };
    let (result, ()) = tokio::join!(soon(session.run_turn("work", TurnOptions::default())), soon(death));
    assert_eq!(completed(result).final_text, "Half of it.");
    session.close().await;
    host.stop(codex_wire::host::Stop::Now).await.unwrap();
    codex.home.assert_no_processes().await;
}

// peer: S54
#[tokio::test]
async fn the_death_of_a_codex_of_its_own_is_told_at_once_and_the_next_turn_has_another() {
    let codex = RealCodex::new().await;
    codex.model.script("work", Scenario::new().delta("Half of ").stall("never"));
    let session = codex.open(None).await;
    answer_to(&session, "my name is Ada").await;
    let pid = session.status().await.child_pid.unwrap();
    let death = async {
        codex.model.wait_for_stall("never").await;
        let child = codex_wire::os::process::Process::with_pid(pid).unwrap();
        assert!(child.signal(rustix::process::Signal::KILL).unwrap());
    };
    let limit = Duration::from_secs(5);
    let turn = tokio::time::timeout(limit, session.run_turn("work", TurnOptions::default()));
    let (result, ()) = tokio::join!(turn, soon(death));
    let result = result.unwrap();
    assert_eq!((result.outcome, result.outcome_unknown), (TurnOutcome::Lost, true));
    let error = result.error.unwrap();
    assert!(error.message.contains("unexpectedly") && error.message.contains("SIGKILL"), "{error}");
    assert_eq!(answer_to(&session, "what is my name?").await, "You said: what is my name?");
    assert!(codex.last_input().contains("my name is Ada"));
    codex.end(session).await;
}
