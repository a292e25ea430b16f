//! What Codex asks: every kind, under ids of every type, answered in its own shape.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codex_session::ask::Kind;
use codex_session::{Approver, Ask, Decision, SessionEvent, TurnOptions, TurnOutcome};
use codex_wire::answer::Answer;
use codex_wire::request::DynamicToolCall;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use testkit::script::{self, Script, Step, item};

use crate::workbench::{Scripted, soon, until, whole_turn};

/// A request, and the results that it gets from nobody and from [`Willing`].
struct Case {
    request: Step,
    /// What comes before the request, of the same item.
    before: Option<Step>,
    from_nobody: Value,
    from_willing: Value,
}

impl Case {
    fn new(request: Step, from_nobody: Value, from_willing: Value) -> Self {
        Self { before: None, request, from_nobody, from_willing }
    }

    fn after(self, before: Step) -> Self {
        Self { before: Some(before), ..self }
    }
}

fn cases(id: &Value) -> Vec<Case> {
    let id = || id.clone();
    let decision = |name: &str| json!({ "decision": name });
    let declined = json!({"action": "decline", "content": null, "_meta": null});
    let accepted = json!({"action": "accept", "content": null, "_meta": null});
    let granted = json!({
        "permissions": {
            "network": {"enabled": true},
            "fileSystem": {"write": ["/srv"], "entries": [{"path": {"type": "path", "path": "/srv"}, "access": "write"}]},
        },
        "scope": "session",
    });
    let no_tool = json!({"contentItems": [{"type": "inputText", "text": "no tool named dice is offered here"}], "success": false});
    let rolled = json!({"contentItems": [{"type": "inputText", "text": "dice: 4"}], "success": true});
    vec![
        Case::new(script::command_request(id(), "make"), decision("decline"), decision("accept")),
        Case::new(script::file_request(id()), decision("decline"), decision("acceptForSession"))
            .after(item::file_change([item::added("a.txt", "x\n")]).started()),
        Case::new(script::permissions_request(id(), "/srv"), json!({"permissions": {}}), granted),
        Case::new(
            script::user_input_request(id(), "q1", "Shall I?"),
            json!({"answers": {}}),
            json!({"answers": {"q1": {"answers": ["Yes"]}}}),
        ),
        Case::new(
            script::elicitation_form(id(), "forms", "your name?"),
            declined.clone(),
            json!({"action": "accept", "content": {"answer": "Ada"}, "_meta": null}),
        ),
        Case::new(script::elicitation_url(id(), "pages", "https://example.com"), declined.clone(), accepted),
        Case::new(
            script::mcp_tool_approval(id(), "files", "write"),
            declined,
            json!({"action": "accept", "content": null, "_meta": {"persist": "session"}}),
        ),
        Case::new(script::tool_call(id(), "dice", json!({})), no_tool, rolled),
    ]
}

/// Says yes to everything, each in its own way.
struct Willing;

impl Approver for Willing {
    fn decide(&self, ask: Ask) -> BoxFuture<'static, Decision> {
        let decision = match ask.kind {
            Kind::FileChange | Kind::Permissions | Kind::McpTool => Decision::AcceptForSession,
            Kind::Questions => Decision::Answers([("q1".to_owned(), vec!["Yes".to_owned()])].into()),
            Kind::Form => Decision::Form(json!({"answer": "Ada"})),
            _ => Decision::Accept,
        };
        std::future::ready(decision).boxed()
    }

    fn call_tool(&self, call: DynamicToolCall) -> BoxFuture<'static, Answer> {
        std::future::ready(Answer::ToolCall { text: format!("{}: 4", call.tool), success: true }).boxed()
    }
}

/// Plays each case in a turn of its own. Every turn must end as soon as its request is answered.
async fn play(id: Value, approver: Option<Arc<dyn Approver>>, wanted: impl Fn(&Case) -> &Value) {
    let cases = cases(&id);
    let turns = cases.iter().zip(1..).fold(Script::new(), |script, (case, nth)| {
        let of_item = case.before.clone().into_iter().chain([case.request.clone().asked()]);
        let steps = [script::reply_turn(), script::started(), script::fresh_item(of_item)];
        script.on_nth(
            "turn/start",
            nth,
            steps.into_iter().chain([script::message("on it"), script::completed()]),
        )
    });
    let codex = Scripted::new(turns);
    let session = codex_session::Session::start(codex.config(), codex.stdio(), approver).await.unwrap();
    for (index, case) in cases.iter().enumerate() {
        let began = Instant::now();
        let result = soon(session.run_turn("go", TurnOptions::default())).await;
        assert_eq!(
            (result.outcome, result.final_text.as_str()),
            (TurnOutcome::Completed, "on it"),
            "{result:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(5), "far from the deadline of 600 s");
        let answers = codex.server.answers();
        assert_eq!(answers.len(), index + 1, "one answer to {:?}", case.request);
        assert_eq!(answers[index], json!({"id": id, "result": wanted(case)}), "to {:?}", case.request);
    }
    session.close().await;
}

// peer: S30, S32, T1, T2, T3
#[tokio::test]
async fn every_kind_is_answered_in_its_shape_under_the_id_it_came_with() {
    for id in [json!(0), json!(7), json!("s-1")] {
        play(id, Some(Arc::new(Willing)), |case| &case.from_willing).await;
    }
}

// peer: S31
#[tokio::test]
async fn every_kind_is_declined_when_nobody_can_answer() {
    for id in [json!(0), json!(7), json!("s-1")] {
        play(id, None, |case| &case.from_nobody).await;
    }
}

// peer: S33, T3, T4
#[tokio::test]
async fn an_unknown_request_is_refused_at_once_and_the_turn_goes_on() {
    for id in [json!(0), json!(7), json!("s-1")] {
        let codex = Scripted::playing([
            script::unknown_request(id.clone()),
            script::await_answer(id.clone()),
            // One that is not even about our thread.
            script::request("stray", "test/unknown", json!({})),
            script::await_answer("stray"),
            script::completed(),
        ]);
        let result = codex.run(TurnOptions::default()).await;
        assert_eq!(result.outcome, TurnOutcome::Completed);
        let answers = codex.server.answers();
        assert_eq!(answers.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [&id, &json!("stray")]);
        assert!(answers.iter().all(|answer| answer["error"]["code"] == -32601), "{answers:?}");
    }
}

// peer: T4
#[tokio::test]
async fn what_only_a_program_can_answer_never_waits_for_a_person() {
    let codex = Scripted::playing([
        script::current_time(0),
        script::await_answer(0),
        script::token_refresh(1),
        script::await_answer(1),
        script::attestation(2),
        script::await_answer(2),
        script::completed(),
    ]);
    let never: Arc<dyn Approver> = Arc::new(|_: Ask| std::future::pending::<Decision>());
    let session = codex.start_with(never).await;
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
    let answers = codex.server.answers();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let told = answers[0]["result"]["currentTimeAt"].as_u64().unwrap();
    assert!(now.abs_diff(told) < 60, "{told} is not about {now}");
    for refused in &answers[1..] {
        assert_eq!(refused["error"]["code"], -32601, "we manage no tokens and promised no attestation");
    }
    session.close().await;
}

/// Keeps what it is asked, and accepts.
fn keeping() -> (Arc<dyn Approver>, tokio::sync::mpsc::UnboundedReceiver<Ask>) {
    let (asked, asks) = tokio::sync::mpsc::unbounded_channel();
    let approver = move |ask: Ask| {
        asked.send(ask).unwrap();
        std::future::ready(Decision::Accept)
    };
    (Arc::new(approver), asks)
}

// peer: S30, S39
#[tokio::test]
async fn a_person_sees_the_command_and_the_sessions_directory() {
    let codex = Scripted::playing([
        script::command_request(0, "make love").without("/cwd").asked(),
        script::completed(),
    ]);
    let (approver, mut asks) = keeping();
    let session = codex.start_with(approver).await;
    soon(session.run_turn("go", TurnOptions::default())).await;
    let text = asks.recv().await.unwrap().text();
    assert!(text.contains("make love"), "{text}");
    assert!(text.contains(&codex.server.dir().display().to_string()), "{text}");
    session.close().await;
}

// peer: S40
#[tokio::test]
async fn an_approval_right_behind_its_patch_shows_what_will_change() {
    let patch = item::file_change([item::added("a.txt", "1\n"), item::updated("b.txt", "@@ -1 +1 @@")]);
    let codex = Scripted::playing([
        script::fresh_item([patch.started(), script::file_request(0).asked(), patch.completed()]),
        script::completed(),
    ]);
    let (approver, mut asks) = keeping();
    let session = codex.start_with(approver).await;
    soon(session.run_turn("go", TurnOptions::default())).await;
    let text = asks.recv().await.unwrap().text();
    assert!(text.contains("1 add, 1 update: a.txt, b.txt"), "{text}");
    session.close().await;
}

// peer: S41
#[tokio::test]
async fn an_approval_of_an_unknown_patch_shows_the_reason() {
    let codex = Scripted::playing([
        script::file_request(0).with("/reason", "needs a config").asked(),
        script::completed(),
    ]);
    let (approver, mut asks) = keeping();
    let session = codex.start_with(approver).await;
    soon(session.run_turn("go", TurnOptions::default())).await;
    let text = asks.recv().await.unwrap().text();
    assert!(text.contains("1 change pending") && text.contains("needs a config"), "{text}");
    session.close().await;
}

/// The events of a turn as short words.
fn words(events: &[SessionEvent]) -> Vec<String> {
    let word = |event: &SessionEvent| {
        let value = serde_json::to_value(event).unwrap();
        match (value["event"].as_str()?, value["show"].as_str()) {
            ("shown", Some("message")) => Some(format!("message {}", value["text"].as_str()?)),
            ("shown", Some(show)) => Some(show.to_owned()),
            ("warning", _) => Some(format!("warning {}", value["message"].as_str()?)),
            (event, _) => Some(event.to_owned()),
        }
    };
    events.iter().filter_map(word).collect()
}

// peer: S34
#[tokio::test]
async fn events_around_an_approval_come_in_the_order_in_which_they_were_sent() {
    let codex = Scripted::playing([
        script::message("before"),
        script::fresh_item([
            item::command("make", "", 0).started(),
            script::command_request(0, "make"),
            script::warning("meanwhile"),
            script::await_answer(0),
            script::resolved(0),
            item::command("make", "", 0).completed(),
        ]),
        script::message("after"),
        script::completed(),
    ]);
    let (release, released) = tokio::sync::watch::channel(false);
    let approver: Arc<dyn Approver> = Arc::new(move |_: Ask| {
        let mut released = released.clone();
        async move { released.wait_for(|it| *it).await.map_or(Decision::Decline, |_| Decision::Accept) }
    });
    let session = codex.start_with(approver).await;
    let mut events = session.events();
    let turn = session.run_turn("go", TurnOptions::default());
    let watching = async {
        // The person decides only after the event behind the question was seen.
        let mut seen = until(&mut events, |event| matches!(event, SessionEvent::Warning { .. })).await;
        release.send(true).unwrap();
        seen.extend(whole_turn(&mut events).await);
        seen
    };
    let (result, seen) = tokio::join!(soon(turn), watching);
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "after"));
    let mut told = words(&seen);
    // The question comes when it is known what it asks for. Nothing that Codex tells waits for that.
    let place = |word: &str| told.iter().position(|it| it == word);
    assert!(place("tool_started") < place("asked") && place("asked") < place("request_closed"), "{told:?}");
    told.retain(|word| word != "asked");
    let wanted = [
        "turn_started",
        "message before",
        "tool_started",
        "warning meanwhile",
        "request_closed",
        "tool_completed",
        "message after",
        "turn_ended",
    ];
    assert_eq!(told, wanted);
    session.close().await;
}

// peer: S9
#[tokio::test]
async fn a_child_that_is_busy_around_an_approval_changes_nothing() {
    let of_child = |step: Step| step.in_thread("child-1").in_turn("child-turn");
    let codex = Scripted::playing([
        script::child_started("child-1"),
        of_child(script::started()),
        script::command_request(0, "make"),
        of_child(script::message("the child's words")),
        of_child(script::completed_without_message()),
        script::await_answer(0),
        script::resolved(0),
        of_child(script::completed_without_message()),
        script::message("the parent's words"),
        script::completed(),
    ]);
    let (approver, mut asks) = keeping();
    let session = codex.start_with(approver).await;
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "the parent's words"));
    assert_eq!(codex.server.answers(), [json!({"id": 0, "result": {"decision": "accept"}})]);
    asks.recv().await.unwrap();
    assert!(asks.try_recv().is_err(), "asked once");
    session.close().await;
}

#[tokio::test]
async fn what_a_child_asks_is_asked_here_and_named_as_a_childs() {
    let codex = Scripted::playing([
        script::child_started("child-1"),
        script::command_request(3, "make").in_thread("child-1").in_turn("child-turn").asked(),
        script::completed(),
    ]);
    let (approver, mut asks) = keeping();
    let session = codex.start_with(approver).await;
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!(result.outcome, TurnOutcome::Completed);
    assert!(asks.recv().await.unwrap().text().contains("sub-agent, thread child-1"));
    assert_eq!(codex.server.answers()[0]["result"]["decision"], "accept");
    session.close().await;
}
