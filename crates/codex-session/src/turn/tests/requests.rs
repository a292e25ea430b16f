//! Requests: asked, answered once, taken or orphaned.

use codex_wire::request::{DynamicToolCall, ElicitationRequest};

use codex_wire::escalation::Escalation;

use super::*;
use crate::policy::Escalations;

// peer: S30
#[test]
fn a_decision_counts_when_codex_took_it() {
    check_active(
        prompt(),
        [
            (1, asks(0), "ask 0"),
            (2, decides(0, Decision::AcceptForSession), "answer 0 AcceptForSession"),
            (3, decides(0, Decision::Decline), "AlreadyDecided"),
            (4, resolved(0), "closed 0 taken AcceptForSession by ann"),
            (5, resolved(0), ""),
            (6, decides(0, Decision::Accept), "NotOpen"),
            (7, completed(), "end Completed"),
            (8, decides(0, Decision::Accept), "NotOpen"),
        ],
    );
}

#[test]
fn a_decision_counts_only_on_the_very_request_that_was_shown() {
    let shown = ServerRequest::Command(CommandApproval::default()).digest(None);
    check_active(
        prompt(),
        [
            (1, decides_on(key(0), &shown, Decision::Accept), "NotOpen"),
            (2, asks(0), "ask 0"),
            (3, decides_on(key(0), "what another request asks", Decision::Accept), "AnotherRequest"),
            (4, decides_on(key(1), &shown, Decision::Accept), "NotOpen"),
            (5, decides_on(key(0), &shown, Decision::Accept), "answer 0 Accept"),
            // Nobody hears who was first before they say what they were shown.
            (6, decides_on(key(0), "what another request asks", Decision::Decline), "AnotherRequest"),
        ],
    );
}

#[test]
fn another_request_under_the_same_name_does_not_get_the_decision() {
    let another = CommandApproval { command: Some("rm -r .".to_owned()), ..CommandApproval::default() };
    let another = asks_as(RequestId::Number(0), ServerRequest::Command(another));
    let shown_first = ServerRequest::Command(CommandApproval::default()).digest(None);
    check_active(
        prompt(),
        [
            (1, asks(0), "ask 0"),
            (2, decides(0, Decision::Accept), "answer 0 Accept"),
            (3, asks(0), "answer 0 Accept"),
            (4, another, "closed 0 orphaned Some(Accept); ask 0"),
            (5, decides_on(key(0), &shown_first, Decision::Accept), "AnotherRequest"),
            (6, decides(0, Decision::Decline), "answer 0 Decline"),
        ],
    );
}

// peer: T1
#[test]
fn ids_keep_their_type() {
    let text = RequestId::Text("0".to_owned());
    let mut bench = check_active(prompt(), [(1, asks(0), "ask 0")]);
    assert_eq!(
        bench.step(2, asks_as(text.clone(), ServerRequest::Command(CommandApproval::default()))),
        "ask 0"
    );
    assert_eq!(bench.step(3, of_thread("t", None, Event::RequestResolved(text))), "closed 0 elsewhere");
    assert_eq!(bench.step(4, decides(0, Decision::Accept)), "answer 0 Accept");
}

#[test]
fn a_request_that_is_resolved_first_was_answered_elsewhere() {
    check_active(
        prompt(),
        [
            (1, asks(0), "ask 0"),
            (2, resolved(0), "closed 0 elsewhere"),
            (3, decides(0, Decision::Accept), "NotOpen"),
        ],
    );
}

// peer: T23
#[test]
fn the_end_of_the_turn_orphans_what_is_open() {
    check_active(
        prompt(),
        [
            (1, asks(0), "ask 0"),
            (1, asks(1), "ask 1"),
            (2, decides(1, Decision::Accept), "answer 1 Accept"),
            (3, completed(), "closed 0 orphaned None; closed 1 orphaned Some(Accept); end Completed"),
            // Codex clears what was pending after the end: nobody is told `approved`.
            (4, resolved(1), ""),
        ],
    );
}

// peer: T22
#[test]
fn a_decision_never_crosses_epochs() {
    let foreign = RequestKey { epoch: Epoch::from("e0"), id: number(0) };
    let shown = ServerRequest::Command(CommandApproval::default()).digest(None);
    let decided = decides_on(foreign.clone(), &shown, Decision::Accept);
    let answered = Input::ProgramAnswered { key: foreign, answer: Answer::unknown_method("x") };
    check_active(prompt(), [(1, asks(0), "ask 0"), (2, decided, "NotOpen"), (3, answered, "")]);
}

// peer: T4
#[test]
fn nobody_in_time_is_a_no() {
    let policy = ApprovalPolicy { answer_limit: Some(Duration::from_mins(1)), ..ApprovalPolicy::default() };
    let bench = check_active(
        Plan { policy, ..prompt() },
        [
            (1_000, asks(0), "ask 0"),
            (1_500, asks_as(number(1), ServerRequest::CurrentTime), "ask program 1"),
            (60_999, Input::Time, ""),
            (61_000, Input::Time, "answer 0 Decline"),
            (61_001, decides(0, Decision::Accept), "AlreadyDecided"),
            (61_002, resolved(0), "closed 0 taken Decline by nobody answered in time"),
        ],
    );
    assert_eq!(bench.deadline(), None, "programs have no limit of a person's");
}

// peer: S31
#[test]
fn without_an_approver_the_answer_is_no() {
    check_active(
        Plan { someone_answers: false, ..prompt() },
        [
            (
                1,
                asks(0),
                "warn: declined item/commandExecution/requestApproval: nobody is here to answer; answer 0 Decline",
            ),
            (2, resolved(0), "closed 0 taken Decline by policy: nobody is here to answer"),
        ],
    );
}

// peer: S35, S36, S37
#[test]
fn standing_decisions_need_no_one() {
    let elicits = |server: &str| {
        let asked = ElicitationRequest { server_name: server.to_owned(), ..ElicitationRequest::default() };
        asks_as(RequestId::Text(server.to_owned()), ServerRequest::Elicitation(asked))
    };
    let policy = ApprovalPolicy {
        accept_commands: true,
        trusted_mcp_servers: vec!["ours".to_owned()],
        decline_other_mcp_servers: true,
        ..ApprovalPolicy::default()
    };
    check_active(
        Plan { policy, someone_answers: false, ..prompt() },
        [
            (1, asks(0), "answer 0 Accept"),
            (2, resolved(0), "closed 0 taken Accept by policy: commands are accepted without asking"),
            (3, elicits("ours"), "answer ours Elicitation { action: Accept, content: None, meta: None }"),
            (4, elicits("other"), "answer other Elicitation { action: Decline, content: None, meta: None }"),
        ],
    );
}

// peer: S33
#[test]
fn an_unknown_request_is_refused_at_once() {
    let unknown = ServerRequest::Unknown { method: "do/magic".to_owned(), params: json!({}) };
    check_active(
        prompt(),
        [(
            1,
            asks_as(number(7), unknown),
            "warn: refused an unknown request of Codex: do/magic; answer 7 -32601",
        )],
    );
}

#[test]
fn what_is_not_for_people_is_answered_by_the_program() {
    let answers = |text: &str| Input::ProgramAnswered {
        key: key(3),
        answer: Answer::ToolCall { text: text.to_owned(), success: true },
    };
    let call = ServerRequest::ToolCall(DynamicToolCall::default());
    check_active(
        Plan { someone_answers: false, ..prompt() },
        [
            (1, asks_as(number(3), call.clone()), "ask program 3"),
            (1, decides_on(key(3), &call.digest(None), Decision::Accept), "NotOpen"),
            (2, answers("42"), "answer 3 42"),
            (3, answers("43"), ""),
            (4, resolved(3), ""),
            (5, completed(), "end Completed"),
        ],
    );
}

#[test]
fn a_program_does_not_answer_for_a_person() {
    let answers = Input::ProgramAnswered { key: key(0), answer: Answer::unknown_method("x") };
    check_active(
        prompt(),
        [(1, asks(0), "ask 0"), (2, answers, ""), (3, decides(0, Decision::Accept), "answer 0 Accept")],
    );
}

// peer: S40
#[test]
fn a_patch_is_shown_with_its_question() {
    check_active(
        prompt(),
        [
            (1, own(Event::ItemStarted(patch("f"))), ""),
            (2, asks_patch(0, "f"), "ask 0 with 1 change"),
            (3, asks_patch(1, "unseen"), "ask 1"),
            (4, item_completed(patch("f")), ""),
            (5, asks_patch(2, "f"), "ask 2"),
        ],
    );
}

#[test]
fn the_same_host_asks_again_and_gets_the_same_answer() {
    check_active(
        prompt(),
        [
            (1, asks(0), "ask 0"),
            (1, asks(1), "ask 1"),
            (2, decides(0, Decision::Accept), "answer 0 Accept"),
            (3, lost(), "reconnect"),
            (4, attached("e1"), "list"),
            (5, running(vec![]), ""),
            (6, asks(0), "answer 0 Accept"),
            // Still being decided: nobody is asked twice.
            (6, asks(1), ""),
            (7, decides(1, Decision::Decline), "answer 1 Decline"),
            (8, resolved(0), "closed 0 taken Accept by ann"),
            (9, resolved(1), "closed 1 taken Decline by ann"),
        ],
    );
}

#[test]
fn a_decision_made_without_a_connection_is_sent_when_it_is_back() {
    check_active(
        prompt(),
        [
            (1, asks(0), "ask 0"),
            (2, lost(), "reconnect"),
            (3, decides(0, Decision::Accept), ""),
            (4, attached("e1"), "list"),
            (5, running(vec![]), "answer 0 Accept"),
            (6, resolved(0), "closed 0 taken Accept by ann"),
        ],
    );
}

#[test]
fn a_decision_that_was_never_sent_was_never_taken() {
    check_active(
        prompt(),
        [
            (1, asks(0), "ask 0"),
            (2, lost(), "reconnect"),
            (3, decides(0, Decision::Accept), ""),
            (4, attached("e1"), "list"),
            (5, resolved(0), ""),
            (6, running(vec![]), "closed 0 elsewhere"),
        ],
    );
}

#[test]
fn a_question_that_waited_comes_with_its_patch_to_whoever_takes_the_turn_up() {
    check(
        plan(Begin::Attach("u".into())),
        "list",
        [
            (1, asks_patch(0, "f"), ""),
            (2, running(vec![patch("f")]), "ask 0 with 1 change"),
            (3, decides(0, Decision::Accept), "answer 0 Accept"),
            (4, resolved(0), "closed 0 taken Accept by ann"),
            (5, completed(), "end Completed"),
        ],
    );
}

#[test]
fn a_question_of_a_turn_that_is_not_ours_is_refused_in_the_end() {
    check(
        prompt_once(true),
        "list",
        [
            (1, asks(0), ""),
            (
                2,
                Input::Reply(Reply::Turns(Err(timed_out()))),
                "answer 0 Decline; end Failed unknown Unresponsive: thread/turns/list timed out after 10 s",
            ),
        ],
    );
}

#[test]
fn a_turn_that_is_given_up_leaves_no_question_open() {
    let told = "answer 0 Decline; closed 0 orphaned None; closed 1 orphaned Some(Accept); \
                end Interrupted unknown Unresponsive: codex did not confirm the interrupt; its host is ended unless other tasks run on it";
    check_active(
        prompt(),
        [
            (1, asks(0), "ask 0"),
            (1, asks(1), "ask 1"),
            (2, decides(1, Decision::Accept), "answer 1 Accept"),
            (10, Input::Interrupt, "interrupt u"),
            (5_010, Input::Time, "interrupt any; clean"),
            (10_010, Input::Time, "drain"),
            (20_010, Input::Time, told),
        ],
    );
}

#[test]
fn a_lost_host_orphans_its_questions() {
    let lost_words = "closed 0 orphaned Some(Accept); end Lost unknown Lost: codex app-server ended unexpectedly: the host was replaced by a new one";
    check_active(
        prompt(),
        [
            (1, asks(0), "ask 0"),
            (2, lost(), "reconnect"),
            (3, decides(0, Decision::Accept), ""),
            (4, attached("e2"), lost_words),
            // The other host's requests are refused under its own epoch.
            (5, asks(0), "answer 0 Decline"),
        ],
    );
}

/// A story in which the requests themselves are looked at.
fn check_inspected(plan: Plan, story: impl IntoIterator<Item = (Millis, Input, &'static str)>) {
    let (mut bench, _) = Bench::begin(plan);
    bench.inspects = true;
    for (at, input, expected) in [(0, accepted(), ""), (0, started(), "")].into_iter().chain(story) {
        let shown = format!("at {at}: {input:?}");
        assert_eq!(bench.step(at, input), expected, "{shown}");
    }
}

fn runs(command: &str) -> ServerRequest {
    ServerRequest::Command(CommandApproval {
        command: Some(command.to_owned()),
        ..CommandApproval::default()
    })
}

/// What request 0 asks for, which is this command.
fn found(command: &str, escalation: Escalation) -> Input {
    Input::Inspected { key: key(0), digest: runs(command).digest(None), inspection: escalation.into() }
}

#[test]
fn nobody_decides_before_it_is_known_what_is_asked_for() {
    let policy = ApprovalPolicy { answer_limit: Some(Duration::from_secs(1)), ..ApprovalPolicy::default() };
    check_inspected(
        Plan { policy, ..prompt() },
        [
            (1, asks_as(number(0), runs("ls")), "inspect 0"),
            // The host asks again after a reconnect: it is being looked at already.
            (2, asks_as(number(0), runs("ls")), ""),
            (3, decides_on(key(0), &runs("ls").digest(None), Decision::Accept), "NotOpen"),
            (3_000, Input::Time, ""),
            (3_000, found("ls", Escalation::None), "ask 0"),
            (3_001, found("ls", Escalation::Asked), ""),
            (3_999, Input::Time, ""),
            // A person's time begins when they are asked.
            (4_000, Input::Time, "answer 0 Decline"),
        ],
    );
}

#[test]
fn what_was_found_out_about_another_request_of_the_same_name_does_not_count() {
    check_inspected(
        prompt(),
        [
            (1, asks_as(number(0), runs("ls")), "inspect 0"),
            (2, asks_as(number(0), runs("rm -r .")), "closed 0 orphaned None; inspect 0"),
            (3, found("ls", Escalation::None), ""),
            (4, found("rm -r .", Escalation::Asked), "ask 0"),
        ],
    );
}

#[test]
fn an_escalation_is_declined_or_asked_as_the_operator_says_and_never_accepted_unasked() {
    for (escalations, escalation, told) in [
        (Escalations::Ask, Escalation::None, "answer 0 Accept"),
        (Escalations::Ask, Escalation::Asked, "ask 0"),
        (Escalations::Ask, Escalation::Unknown, "ask 0"),
        (Escalations::Decline, Escalation::None, "answer 0 Accept"),
        (Escalations::Decline, Escalation::Asked, "answer 0 Decline"),
        (Escalations::Decline, Escalation::Unknown, "answer 0 Decline"),
    ] {
        let policy = ApprovalPolicy { accept_commands: true, escalations, ..ApprovalPolicy::default() };
        let asked = asks_as(number(0), runs("ls"));
        check_inspected(
            Plan { policy, ..prompt() },
            [(1, asked, "inspect 0"), (2, found("ls", escalation), told)],
        );
    }
}

#[test]
fn a_yes_to_an_escalation_counts_once() {
    for (escalation, told) in [
        (Escalation::None, "answer 0 AcceptForSession"),
        (Escalation::Asked, "answer 0 Accept"),
        (Escalation::Unknown, "answer 0 Accept"),
    ] {
        check_inspected(
            prompt(),
            [
                (1, asks_as(number(0), runs("ls")), "inspect 0"),
                (2, found("ls", escalation), "ask 0"),
                (3, decides(0, Decision::AcceptForSession), told),
            ],
        );
    }
}

#[test]
fn a_sub_agents_patch_is_shown_with_its_question() {
    let asked = |id: i64, thread: &str| {
        let approval = FileChangeApproval {
            thread_id: thread.to_owned(),
            item_id: "f".to_owned(),
            ..FileChangeApproval::default()
        };
        asks_as(number(id), ServerRequest::FileChange(approval))
    };
    check_active(
        prompt(),
        [
            (1, of_thread("child", Some("v"), Event::ItemStarted(patch("f"))), ""),
            (2, asked(0, "child"), "ask 0 with 1 change"),
            (3, asked(1, "t"), "ask 1"),
            (4, of_thread("child", Some("v"), Event::ItemCompleted(patch("f"))), ""),
            (5, asked(2, "child"), "ask 2"),
        ],
    );
}
