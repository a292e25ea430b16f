//! Wishes to leave the sandbox, on the real Codex: told apart from plain commands wherever a thread comes from, decided as
//! the operator says, and never accepted for longer than once.

use std::os::unix::fs::symlink;

use codex_session::ask::{Kind, Offer};
use codex_session::turn::Closing;
use codex_session::{Ask, Decider, Decision, Escalations, Session, SessionConfig, SessionEvent, TurnOptions};
use codex_wire::escalation::Escalation;
use scripted_model::{Scenario, ToolCall};

use crate::real_parts::{Person, answer_to, thread_of};
use crate::workbench::{RealCodex, soon, until, whole_turn};

fn escalated(command: &str) -> ToolCall {
    ToolCall::exec_escalated(command, "it must be so")
}

/// A Codex whose model runs `true` plainly for `plain`, and outside the sandbox for `escalated`.
async fn codex() -> RealCodex {
    let codex = RealCodex::new().await;
    codex.model.script("plain", Scenario::new().exec("touch plain.txt").then_say("went on"));
    codex.model.script("escalated", Scenario::new().call(escalated("touch out.txt")).then_say("went on"));
    codex
}

/// What the next question of this turn is, answered with a no.
async fn asked(session: &Session, person: &Person, prompt: &str) -> Ask {
    let count = person.texts().len() + 1;
    person.say(Decision::Decline);
    assert_eq!(answer_to(session, prompt).await, "went on");
    person.asked(count).await
}

fn first_detail(ask: &Ask) -> (&str, &str) {
    (ask.details[0].label.as_str(), &ask.details[0].text)
}

/// Both commands are told apart in this session.
async fn check(session: &Session, person: &Person) {
    let plain = asked(session, person, "plain").await;
    assert_eq!(plain.escalation, Some(Escalation::None), "{}", plain.text());
    assert!(plain.text().contains("No command of a task ever runs without a sandbox."), "{}", plain.text());
    let wider = asked(session, person, "escalated").await;
    assert_eq!(wider.escalation, Some(Escalation::Asked), "{}", wider.text());
    let (label, care) = first_detail(&wider);
    assert_eq!(label, "Careful");
    assert!(
        care.starts_with("this command asks to leave the sandbox (workspace-write). Accepted,"),
        "{care}"
    );
    assert!(care.ends_with("The network stays off."), "{care}");
    assert_eq!(wider.offers, [Offer::Accept, Offer::Decline, Offer::Cancel]);
}

#[tokio::test]
async fn an_escalated_command_is_told_apart_at_start_after_a_resume_and_in_a_fork() {
    let codex = codex().await;
    let person = Person::silent();
    let session = codex.open(person.approver()).await;
    check(&session, &person).await;
    let care = person.asked(2).await.details[0].text.clone();
    let home = codex.home.codex_home().canonicalize().unwrap();
    assert!(care.contains(&format!("except in {}", home.display())), "{care}");
    let thread = thread_of(&session).await;
    codex.end(session).await;

    let session = Session::resume(codex.writing(), codex.stdio(), person.approver(), thread).await.unwrap();
    check(&session, &person).await;
    let branch = session.fork().await.unwrap();
    check(&branch, &person).await;
    branch.close().await;
    codex.end(session).await;
}

#[tokio::test]
async fn an_escalated_command_of_a_sub_agent_is_told_apart_and_its_patch_is_shown() {
    let codex = RealCodex::new().await;
    let child = Scenario::new()
        .exec("touch plain.txt")
        .then_call(escalated("touch out.txt"))
        .then_call(ToolCall::add_file("sub/.git/config", "x"))
        .then_call(ToolCall::add_file("fine.txt", "x"))
        .then_say("the child is done");
    codex.model.script("the child's work", child);
    // The parent's turn lasts until the child has asked everything.
    let parent =
        Scenario::new().call(ToolCall::spawn_agent("the child's work")).then().stall("parent").say("went on");
    codex.model.script("delegate", parent);
    let person = Person::saying([Decision::Decline, Decision::Decline, Decision::Decline, Decision::Decline]);
    let session = codex.open(person.approver()).await;
    let turn = session.run_turn("delegate", TurnOptions::default());
    let asking = async {
        let asks =
            [person.asked(1).await, person.asked(2).await, person.asked(3).await, person.asked(4).await];
        codex.model.release("parent");
        asks
    };
    let (_, asks) = tokio::join!(soon(turn), asking);
    assert!(asks.iter().all(|ask| ask.text().contains("Asked by a sub-agent")));
    let told = asks.each_ref().map(|ask| ask.escalation);
    let (none, wider) = (Some(Escalation::None), Some(Escalation::Asked));
    assert_eq!(told, [none, wider, wider, none], "{:#?}", person.texts());
    assert!(first_detail(&asks[2]).1.contains("sub/.git/config"), "{}", asks[2].text());
    codex.end(session).await;
}

#[tokio::test]
async fn a_command_whose_call_is_not_found_counts_as_an_escalation() {
    let codex = RealCodex::new().await;
    let plain = Scenario::new().stall("gate").exec("touch plain.txt").then_say("went on");
    codex.model.script("plain", plain);
    let person = Person::saying([Decision::Decline]);
    let mut config = codex.writing();
    config.approvals.accept_commands = true;
    let session = Session::start(config, codex.stdio(), person.approver()).await.unwrap();
    let turn = answer_to(&session, "plain");
    let hiding = async {
        soon(codex.model.wait_for_request(0)).await;
        let sessions = codex.home.codex_home().join("sessions");
        std::fs::rename(&sessions, sessions.with_file_name("away")).unwrap();
        codex.model.release("gate");
    };
    let (answer, ()) = tokio::join!(turn, hiding);
    assert_eq!(answer, "went on");
    let ask = person.asked(1).await;
    assert_eq!(ask.escalation, Some(Escalation::Unknown), "{}", ask.text());
    assert!(first_detail(&ask).1.starts_with("it is unknown whether"), "{}", ask.text());
    assert!(!codex.made("plain.txt"));
    codex.end(session).await;
}

async fn with_policy(codex: &RealCodex, person: &Person, change: impl FnOnce(&mut SessionConfig)) -> Session {
    let mut config = codex.writing();
    change(&mut config);
    Session::start(config, codex.stdio(), person.approver()).await.unwrap()
}

#[tokio::test]
async fn escalations_are_declined_unasked_where_the_operator_says_so_and_the_turn_goes_on() {
    let codex = codex().await;
    let person = Person::silent();
    let decline = |config: &mut SessionConfig| {
        config.approvals.escalations = Escalations::Decline;
        (config.approvals.accept_commands, config.approvals.accept_file_changes) = (true, true);
    };
    let session = with_policy(&codex, &person, decline).await;
    let mut events = session.events();
    assert_eq!(answer_to(&session, "escalated").await, "went on");
    assert!(!codex.made("out.txt") && codex.tool_output("escalated").contains("rejected"));
    let seen = whole_turn(&mut events).await;
    let closing = seen.iter().find_map(|event| match event {
        SessionEvent::RequestClosed { closing, .. } => Some(closing.clone()),
        _ => None,
    });
    let reason =
        "commands that ask to leave the sandbox are declined for this task (escalations = \"decline\")";
    let by = Decider::Policy(reason.to_owned());
    assert_eq!(closing, Some(Closing::Taken { decision: Decision::Decline, by }));
    assert_eq!(answer_to(&session, "plain").await, "went on");
    assert!(codex.made("plain.txt") && person.texts().is_empty());
    codex.end(session).await;
}

#[tokio::test]
async fn the_operators_standing_yes_to_commands_is_none_to_an_escalation() {
    let codex = codex().await;
    let person = Person::silent();
    let session = with_policy(&codex, &person, |config| config.approvals.accept_commands = true).await;
    assert_eq!(answer_to(&session, "plain").await, "went on");
    assert!(codex.made("plain.txt") && person.texts().is_empty());
    assert_eq!(asked(&session, &person, "escalated").await.escalation, Some(Escalation::Asked));
    assert!(!codex.made("out.txt"));
    codex.end(session).await;
}

#[tokio::test]
async fn a_yes_to_an_escalation_is_asked_for_again_each_time() {
    let codex = RealCodex::new().await;
    let call = || escalated("echo once >> runs.txt");
    codex.model.script("twice", Scenario::new().call(call()).then_call(call()).then_say("went on"));
    // Nobody is offered this: whoever says it all the same has said yes once.
    let person = Person::saying([Decision::AcceptForSession, Decision::Decline]);
    let session = codex.open(person.approver()).await;
    assert_eq!(answer_to(&session, "twice").await, "went on");
    assert_eq!((person.texts().len(), codex.lines_of("runs.txt").len()), (2, 1));
    codex.end(session).await;
}

/// The session of the terminal that the last turn with this prompt began.
fn terminal(codex: &RealCodex, prompt: &str) -> u64 {
    let output = codex.tool_output(prompt);
    let id: String =
        output.split("session ID ").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    id.parse().unwrap_or_else(|_| panic!("no session in {output}"))
}

#[tokio::test]
async fn input_to_a_running_command_is_told_and_to_an_escalated_one_it_is_an_escalation() {
    let codex = RealCodex::new().await;
    codex
        .model
        .script("sandboxed", Scenario::new().call(ToolCall::exec_in_terminal("cat")).then_say("went on"));
    let out = ToolCall::exec_escalated_in_terminal("cat", "it must be so");
    codex.model.script("wider", Scenario::new().call(out).then_say("went on"));
    let person = Person::saying([Decision::Accept, Decision::Accept, Decision::Decline]);
    let session = codex.open(person.approver()).await;
    let mut events = session.events();

    assert_eq!(answer_to(&session, "sandboxed").await, "went on");
    let secret = format!("sk-{}", "a1B2".repeat(12));
    let shell = terminal(&codex, "sandboxed");
    let typed = Scenario::new()
        .call(ToolCall::write_stdin(shell, format!("key {secret}\n")))
        .then_call(ToolCall::write_stdin(shell, ""))
        .then_say("went on");
    codex.model.script("type", typed);
    assert_eq!(answer_to(&session, "type").await, "went on");
    assert_eq!(person.texts().len(), 1, "Codex asks nobody");

    assert_eq!(answer_to(&session, "wider").await, "went on");
    let input = ToolCall::write_stdin(terminal(&codex, "wider"), "echo hello\n");
    codex.model.script("type more", Scenario::new().call(input).then_say("went on"));
    assert_eq!(answer_to(&session, "type more").await, "went on");
    let ask = person.asked(3).await;
    assert_eq!((ask.kind, ask.escalation), (Kind::CommandInput, Some(Escalation::Asked)));
    assert!(first_detail(&ask).1.starts_with("this is input to a running command"), "{}", ask.text());

    let mut seen = whole_turn(&mut events).await;
    for _ in 0..3 {
        seen.extend(whole_turn(&mut events).await);
    }
    let typed: Vec<_> = seen.iter().filter(|event| matches!(event, SessionEvent::Typed { .. })).collect();
    let [SessionEvent::Typed { text, cut_bytes: 0, .. }] = typed[..] else { panic!("{typed:#?}") };
    assert!(text.starts_with("key ") && !text.contains("a1B2a1B2a1B2"), "{text}");
    codex.end(session).await;
}

#[tokio::test]
async fn long_input_is_cut_after_it_was_redacted_and_names_a_command_of_its_turn() {
    let codex = RealCodex::new().await;
    codex.model.script(
        "begin",
        Scenario::new().call(ToolCall::exec_in_terminal("cat")).then().stall("typing").say("went on"),
    );
    let person = Person::saying([Decision::Accept]);
    let session = codex.open(person.approver()).await;
    let mut events = session.events();
    let turn = answer_to(&session, "begin");
    let typing = async {
        soon(codex.model.wait_for_request(1)).await;
        let shell = terminal(&codex, "begin");
        let typed = Scenario::new().call(ToolCall::write_stdin(shell, "word ".repeat(10_000)));
        codex.model.script("now type", typed.then_say("went on"));
        codex.model.release("typing");
    };
    let (answer, ()) = tokio::join!(turn, typing);
    assert_eq!(answer, "went on");
    assert_eq!(answer_to(&session, "now type").await, "went on");
    let seen = until(&mut events, |event| matches!(event, SessionEvent::Typed { .. })).await;
    let Some(SessionEvent::Typed { text, cut_bytes, .. }) = seen.last() else { unreachable!() };
    assert_eq!((text.len(), *cut_bytes), (16 * 1024, 50_000 - 16 * 1024));
    codex.end(session).await;
}

#[tokio::test]
async fn patches_beyond_the_task_say_so_first_and_are_never_accepted_unasked() {
    let codex = RealCodex::new().await;
    let (ws, outside) = (codex.home.workspace(), codex.home.dir().join("outside"));
    std::fs::create_dir_all(ws.join(".git")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, ws.join("link")).unwrap();
    let cases = [
        (".git/config", "changes files that decide what git, Codex or other agents run"),
        ("sub/.codex/x", "changes files that decide what git, Codex or other agents run"),
        ("../outside/direct", "changes files outside the task's directory"),
        ("link/by-link", "changes files outside the task's directory"),
    ];
    for (path, _) in cases {
        codex.model.script(path, Scenario::new().call(ToolCall::add_file(path, "x")).then_say("went on"));
    }
    codex.model.script("fine", Scenario::new().call(ToolCall::add_file("fine.txt", "x")).then_say("went on"));
    let person = Person::silent();
    let session = with_policy(&codex, &person, |config| config.approvals.accept_file_changes = true).await;
    for (path, care) in cases {
        let ask = asked(&session, &person, path).await;
        let (label, text) = first_detail(&ask);
        let name = path.rsplit('/').next().unwrap();
        assert_eq!((label, ask.escalation), ("Careful", Some(Escalation::Asked)), "{}", ask.text());
        assert!(text.starts_with(care) && text.contains(name), "{text}");
        assert_eq!(ask.offers, [Offer::Accept, Offer::Decline, Offer::Cancel]);
    }
    assert!(person.asked(4).await.details[0].text.contains("through a link"), "{}", person.texts()[3]);
    assert_eq!(answer_to(&session, "fine").await, "went on");
    assert_eq!((codex.made("fine.txt"), person.texts().len()), (true, 4), "this one is accepted unasked");
    codex.end(session).await;

    let decline = |config: &mut SessionConfig| config.approvals.escalations = Escalations::Decline;
    let session = with_policy(&codex, &person, decline).await;
    for (path, _) in cases {
        assert_eq!(answer_to(&session, path).await, "went on");
    }
    assert_eq!(person.texts().len(), 4, "declined unasked");
    assert!(std::fs::read_dir(&outside).unwrap().next().is_none());
    assert!(!codex.made(".git/config") && !codex.made("sub"));
    codex.end(session).await;
}
