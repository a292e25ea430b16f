//! Who decides, and how a request ends: standing decisions, failing and slow approvers, ends that come first.

use std::sync::Arc;
use std::time::Duration;

use codex_session::turn::Closing;
use codex_session::{
    ApprovalPolicy, Approver, Ask, DecideOutcome, Decider, Decision, RequestKey, Session, SessionConfig,
    SessionEvent, TurnOptions, TurnOutcome,
};
use codex_wire::RequestId;
use serde_json::{Value, json};
use testkit::script::{self, Step, item};

use crate::workbench::{Scripted, always, soon, until, whole_turn, within};

/// What came of one request.
struct Outcome {
    answer: Value,
    closing: Closing,
    asked: bool,
}

/// Plays a turn with this request, under this policy, with this person.
async fn decide(request: Step, policy: ApprovalPolicy, approver: Option<Arc<dyn Approver>>) -> Outcome {
    decide_after([], request, policy, approver).await
}

/// The same after these steps of the same item.
async fn decide_after(
    before: impl IntoIterator<Item = Step>,
    request: Step,
    policy: ApprovalPolicy,
    approver: Option<Arc<dyn Approver>>,
) -> Outcome {
    let steps = before.into_iter().chain([request.asked()]);
    let codex = Scripted::playing([script::fresh_item(steps), script::completed()]);
    let mut config = codex.config();
    config.approvals = policy;
    let session = Session::start(config, codex.stdio(), approver).await.unwrap();
    let mut events = session.events();
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
    let seen = whole_turn(&mut events).await;
    session.close().await;
    Outcome {
        answer: codex.server.answers()[0]["result"].clone(),
        closing: closings(&seen).pop().expect("the request was closed"),
        asked: seen.iter().any(|event| matches!(event, SessionEvent::Asked { .. })),
    }
}

fn taken(decision: Decision, by: Decider) -> Closing {
    Closing::Taken { decision, by }
}

fn policy(reason: &str) -> Decider {
    Decider::Policy(reason.to_owned())
}

// peer: S37
#[tokio::test]
async fn commands_and_patches_each_have_a_switch_of_their_own() {
    let accept_commands = ApprovalPolicy { accept_commands: true, ..ApprovalPolicy::default() };
    let accept_patches = ApprovalPolicy { accept_file_changes: true, ..ApprovalPolicy::default() };
    let command = || script::command_request(0, "make");
    let patch = || script::file_request(0);
    let changes = || [item::file_change([item::added("a.txt", "x\n")]).started()];
    for (before, request, policy, verdict) in [
        (vec![], command(), &accept_commands, "accept"),
        // Nobody can tell what this one asks for.
        (vec![], command().with("/itemId", "exec-1"), &accept_commands, "decline"),
        (vec![], command(), &accept_patches, "decline"),
        (changes().into(), patch(), &accept_patches, "accept"),
        // Nobody said which files change.
        (vec![], patch(), &accept_patches, "decline"),
        (changes().into(), patch(), &accept_commands, "decline"),
        // What would open a directory for the rest of the session is more than a patch.
        (changes().into(), patch().with("/grantRoot", "/srv"), &accept_patches, "decline"),
    ] {
        let outcome = decide_after(before, request, policy.clone(), None).await;
        assert_eq!(outcome.answer, json!({"decision": verdict}));
        assert!(!outcome.asked);
    }
}

#[tokio::test]
async fn a_switch_answers_in_place_of_the_person() {
    let accept_commands = ApprovalPolicy { accept_commands: true, ..ApprovalPolicy::default() };
    let no = always(Decision::Decline);
    let outcome = decide(script::command_request(0, "make"), accept_commands, Some(no)).await;
    assert_eq!(outcome.closing, taken(Decision::Accept, policy("commands are accepted without asking")));
    assert!(!outcome.asked);
}

// peer: S35
#[tokio::test]
async fn a_trusted_mcp_server_is_accepted_without_asking() {
    let trust = || ApprovalPolicy { trusted_mcp_servers: vec!["ours".into()], ..ApprovalPolicy::default() };
    let outcome = decide(script::mcp_tool_approval(0, "ours", "write"), trust(), None).await;
    assert_eq!(outcome.answer, json!({"action": "accept", "content": null, "_meta": null}));
    assert_eq!(outcome.closing, taken(Decision::Accept, policy("MCP server ours is trusted")));
    // Trust is no answer to a form, and opens no page.
    for request in [
        script::elicitation_form(0, "ours", "name?"),
        script::elicitation_url(0, "ours", "https://example.com"),
    ] {
        assert_eq!(decide(request, trust(), None).await.answer["action"], "decline");
    }
}

// peer: S36
#[tokio::test]
async fn other_mcp_servers_are_declined_or_asked_about() {
    let decline = ApprovalPolicy {
        decline_other_mcp_servers: true,
        trusted_mcp_servers: vec!["ours".into()],
        ..ApprovalPolicy::default()
    };
    for request in [
        script::mcp_tool_approval(0, "theirs", "write"),
        script::elicitation_form(0, "theirs", "name?"),
        script::elicitation_url(0, "theirs", "https://example.com"),
    ] {
        let declined = json!({"action": "decline", "content": null, "_meta": null});
        let unasked = decide(request.clone(), decline.clone(), Some(always(Decision::Accept))).await;
        assert_eq!((unasked.answer, unasked.asked), (declined.clone(), false));
        let nobody = decide(request.clone(), ApprovalPolicy::default(), None).await;
        assert_eq!(nobody.answer, declined);
        let asked = decide(request, ApprovalPolicy::default(), Some(always(Decision::Accept))).await;
        assert_eq!((asked.answer["action"].as_str(), asked.asked), (Some("accept"), true));
    }
}

// peer: S38
#[tokio::test]
async fn an_approver_that_panics_said_no() {
    let panics: Arc<dyn Approver> = Arc::new(|_: Ask| async { panic!("a bug in the approver") });
    let outcome = decide(script::command_request(0, "make"), ApprovalPolicy::default(), Some(panics)).await;
    assert_eq!(outcome.answer, json!({"decision": "decline"}));
    assert_eq!(outcome.closing, taken(Decision::Decline, policy("the approver failed")));
}

#[tokio::test]
async fn a_tool_that_panics_has_failed_for_the_model() {
    struct Panics;
    impl Approver for Panics {
        fn decide(&self, _: Ask) -> futures_util::future::BoxFuture<'static, Decision> {
            Box::pin(std::future::ready(Decision::Decline))
        }
        fn call_tool(
            &self,
            _: codex_wire::request::DynamicToolCall,
        ) -> futures_util::future::BoxFuture<'static, codex_wire::answer::Answer> {
            Box::pin(async { panic!("a bug in the tool") })
        }
    }
    let codex = Scripted::playing([
        script::tool_call(0, "dice", json!({})),
        script::await_answer(0),
        script::completed(),
    ]);
    let session = codex.start_with(Arc::new(Panics)).await;
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
    assert_eq!(codex.server.answers()[0]["result"]["success"], false);
    session.close().await;
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_a_no_with_its_reason() {
    let limited =
        ApprovalPolicy { answer_limit: Some(Duration::from_millis(200)), ..ApprovalPolicy::default() };
    let never: Arc<dyn Approver> = Arc::new(|_: Ask| std::future::pending::<Decision>());
    let outcome = decide(script::command_request(0, "make"), limited, Some(never)).await;
    assert_eq!(outcome.answer, json!({"decision": "decline"}));
    assert_eq!(outcome.closing, taken(Decision::Decline, Decider::TimeLimit));
    assert!(outcome.asked);
}

#[tokio::test]
async fn no_clock_of_the_turn_runs_while_a_person_thinks() {
    let thinking = Duration::from_millis(1_200);
    let limit = Duration::from_millis(500);
    let slow: Arc<dyn Approver> = Arc::new(move |_: Ask| async move {
        tokio::time::sleep(thinking).await;
        Decision::Accept
    });
    let codex = Scripted::playing([script::command_request(0, "make").asked(), script::completed()]);
    let session = codex.start_with(slow).await;
    let options = TurnOptions { idle_limit: Some(limit), ..within(limit) };
    let began = std::time::Instant::now();
    let result = soon(session.run_turn("go", options)).await;
    assert_eq!((result.outcome, result.error), (TurnOutcome::Completed, None));
    assert!(began.elapsed() >= thinking);
    assert_eq!(codex.server.answers()[0]["result"]["decision"], "accept");
    session.close().await;
}

/// Tells that it is gone.
struct Gone(tokio::sync::mpsc::UnboundedSender<&'static str>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.send("gone");
    }
}

#[tokio::test]
async fn a_turn_that_ends_first_leaves_its_request_orphaned_and_nobody_thinking() {
    let codex = Scripted::playing([
        script::command_request(0, "make"),
        script::await_release("thinking"),
        script::message("never mind"),
        script::completed(),
    ]);
    let (told, mut news) = tokio::sync::mpsc::unbounded_channel();
    let never: Arc<dyn Approver> = Arc::new(move |_: Ask| {
        let told = told.clone();
        async move {
            told.send("thinking").unwrap();
            let _gone = Gone(told);
            std::future::pending().await
        }
    });
    let session = codex.start_with(never).await;
    let mut events = session.events();
    let turn = session.run_turn("go", TurnOptions::default());
    let ending = async {
        assert_eq!(news.recv().await, Some("thinking"));
        codex.server.release("thinking");
        assert_eq!(news.recv().await, Some("gone"));
    };
    let (result, ()) = soon(async { tokio::join!(turn, ending) }).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "never mind"));
    assert_eq!(closings(&whole_turn(&mut events).await), [Closing::Orphaned { decision: None }]);
    assert!(codex.server.answers().is_empty());
    session.close().await;
}

/// The next request of a turn.
async fn next_asked(events: &mut codex_session::Events) -> (RequestKey, Ask) {
    let seen = until(events, |event| matches!(event, SessionEvent::Asked { .. })).await;
    match seen.into_iter().next_back() {
        Some(SessionEvent::Asked { key, ask }) => (key, *ask),
        other => panic!("nothing is asked: {other:?}"),
    }
}

#[tokio::test]
async fn a_program_decides_by_the_key_and_the_digest_that_it_was_told() {
    let codex = Scripted::playing([script::command_request(0, "make").asked(), script::completed()]);
    let config = SessionConfig { takes_decisions: true, ..codex.config() };
    let session = Session::start(config, codex.stdio(), None).await.unwrap();
    let mut events = session.events();
    let ada = || Decider::Person("ada".to_owned());
    let deciding = async {
        let (key, ask) = next_asked(&mut events).await;
        let decide = async |key: &RequestKey, digest: &str, decision| {
            session.decide(key.clone(), digest, decision, ada()).await
        };
        let other_id = RequestKey { id: RequestId::Number(7), ..key.clone() };
        let other_epoch = RequestKey { epoch: "another start".into(), ..key.clone() };
        for other in [&other_id, &other_epoch] {
            assert_eq!(decide(other, &ask.digest, Decision::Accept).await, DecideOutcome::NotOpen);
        }
        let unseen = decide(&key, "something else", Decision::Accept).await;
        assert_eq!(unseen, DecideOutcome::AnotherRequest);
        assert!(codex.server.answers().is_empty(), "none of these was about it");
        assert_eq!(decide(&key, &ask.digest, Decision::Decline).await, DecideOutcome::Given);
        // Codex may have taken the first meanwhile.
        let second = decide(&key, &ask.digest, Decision::Accept).await;
        assert!(matches!(second, DecideOutcome::AlreadyDecided | DecideOutcome::NotOpen), "{second:?}");
        (key, ask, whole_turn(&mut events).await)
    };
    let turn = session.run_turn("go", TurnOptions::default());
    let (result, (key, ask, seen)) = soon(async { tokio::join!(turn, deciding) }).await;
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
    assert_eq!(codex.server.answers(), [json!({"id": 0, "result": {"decision": "decline"}})]);
    assert_eq!(closings(&seen), [taken(Decision::Decline, ada())]);
    let after = session.decide(key.clone(), ask.digest.clone(), Decision::Accept, ada()).await;
    assert_eq!(after, DecideOutcome::NotOpen, "its turn is over");
    session.close().await;
    let closed = session.decide(key, ask.digest, Decision::Accept, ada()).await;
    assert_eq!(closed, DecideOutcome::NotOpen, "its session is closed");
}

#[tokio::test]
async fn a_program_may_decide_before_its_approver_does() {
    let codex = Scripted::playing([script::command_request(0, "make").asked(), script::completed()]);
    let never: Arc<dyn Approver> = Arc::new(|_: Ask| std::future::pending::<Decision>());
    let session = codex.start_with(never).await;
    let mut events = session.events();
    let deciding = async {
        let (key, ask) = next_asked(&mut events).await;
        session.decide(key, ask.digest, Decision::Accept, policy("a rule of the program")).await
    };
    let turn = session.run_turn("go", TurnOptions::default());
    let (result, outcome) = soon(async { tokio::join!(turn, deciding) }).await;
    assert_eq!((result.outcome, outcome), (TurnOutcome::Completed, DecideOutcome::Given));
    assert_eq!(codex.server.answers()[0]["result"]["decision"], "accept");
    session.close().await;
}

/// How the requests of a turn ended.
fn closings(events: &[SessionEvent]) -> Vec<Closing> {
    let closing = |event: &SessionEvent| match event {
        SessionEvent::RequestClosed { closing, .. } => Some(closing.clone()),
        _ => None,
    };
    events.iter().filter_map(closing).collect()
}

#[tokio::test]
async fn an_answer_counts_as_taken_only_when_codex_says_so_in_the_turn() {
    let codex = Scripted::playing([
        script::command_request(0, "make"),
        script::await_answer(0),
        script::completed(),
        script::resolved(0),
    ]);
    let session = codex.start_with(always(Decision::Accept)).await;
    let mut events = session.events();
    soon(session.run_turn("go", TurnOptions::default())).await;
    let seen = whole_turn(&mut events).await;
    assert_eq!(closings(&seen), [Closing::Orphaned { decision: Some(Decision::Accept) }]);
    session.close().await;
}

// peer: T23
#[tokio::test]
async fn a_request_that_someone_else_answered_is_no_longer_asked() {
    let codex = Scripted::playing([
        script::command_request(0, "make"),
        script::await_release("asked"),
        script::resolved(0),
        script::completed(),
    ]);
    let never: Arc<dyn Approver> = Arc::new(|_: Ask| std::future::pending::<Decision>());
    let session = codex.start_with(never).await;
    let mut events = session.events();
    let turn = session.run_turn("go", TurnOptions::default());
    let watching = async {
        until(&mut events, |event| matches!(event, SessionEvent::Asked { .. })).await;
        codex.server.release("asked");
        whole_turn(&mut events).await
    };
    let (result, seen) = tokio::join!(soon(turn), watching);
    assert_eq!(result.outcome, TurnOutcome::Completed);
    assert!(seen.iter().any(|event| matches!(
        event,
        SessionEvent::RequestClosed { closing: Closing::AnsweredElsewhere, .. }
    )));
    session.close().await;
}

#[tokio::test]
async fn a_question_between_turns_is_answered_with_no() {
    let codex = Scripted::playing([
        script::completed(),
        script::await_release("later"),
        script::command_request(5, "make"),
    ]);
    let session = codex.start_with(always(Decision::Accept)).await;
    soon(session.run_turn("go", TurnOptions::default())).await;
    codex.server.release("later");
    let answer = codex.server.wait_for_answer(5).await;
    assert_eq!(answer["result"]["decision"], "decline", "no turn runs that it could belong to");
    session.close().await;
}
