//! What else the real Codex asks: permissions, questions of the model, forms and tools of MCP servers, tools of ours.

use std::collections::BTreeMap;

use codex_session::ask::Kind;
use codex_session::{ApprovalMode, Decision, Session, SessionConfig};
use codex_wire::answer::GrantScope;
use codex_wire::request::{FileSystemPermissions, NetworkPermissions, Permissions};
use scripted_model::{CodexConfig, Question, Scenario, ToolCall};
use serde_json::json;

use crate::real_parts::{Person, answer_to};
use crate::workbench::RealCodex;

fn asks_for_permissions(config: CodexConfig) -> CodexConfig {
    config.feature("request_permissions_tool", true).feature("exec_permission_approvals", true)
}

fn has_mcp_server(config: CodexConfig) -> CodexConfig {
    let program = testkit::bin("scripted-model");
    config.mcp_server("desk", program.to_str().unwrap(), &["mcp-server"])
}

/// A prompt that asks to write in two directories, then tries to in both.
fn widen(codex: &RealCodex) -> [String; 2] {
    let dirs = ["a", "b"].map(|name| {
        let dir = codex.home.dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir.to_string_lossy().into_owned()
    });
    let wish = json!({"file_system": {"write": dirs}, "network": {"enabled": true}});
    let [a, b] = &dirs;
    let scenario = Scenario::new()
        .call(ToolCall::request_permissions(&wish, "both are needed"))
        .then_exec(format!("touch {a}/x; touch {b}/x; true"))
        .then_say("went on");
    codex.model.script("widen", scenario);
    dirs
}

fn made(dirs: &[String; 2]) -> [bool; 2] {
    dirs.each_ref().map(|dir| std::path::Path::new(dir).join("x").exists())
}

async fn on_request(codex: &RealCodex, person: Option<&Person>) -> Session {
    let mut config = codex.config();
    config.approval_mode = ApprovalMode::OnRequest;
    Session::start(config, codex.stdio(), person.and_then(Person::approver)).await.unwrap()
}

// peer: T2
#[tokio::test]
async fn permissions_are_granted_whole_in_part_or_not_at_all() {
    let codex = RealCodex::configured(asks_for_permissions).await;
    let dirs = widen(&codex);
    let only_a = Permissions {
        file_system: Some(FileSystemPermissions { write: Some(vec![dirs[0].clone()]), ..Default::default() }),
        network: None,
    };
    let a_part = Decision::Grant { permissions: only_a, scope: GrantScope::Turn };
    let too_much = Permissions {
        file_system: Some(FileSystemPermissions { write: Some(vec!["/".to_owned()]), ..Default::default() }),
        network: Some(NetworkPermissions { enabled: Some(true) }),
    };
    let more_than_asked = Decision::Grant { permissions: too_much, scope: GrantScope::Turn };
    for (decision, granted) in [
        (Decision::Decline, [false, false]),
        (Decision::Cancel, [false, false]),
        (more_than_asked, [false, false]),
        (a_part, [true, false]),
        (Decision::Accept, [true, true]),
    ] {
        let person = Person::saying([decision.clone()]);
        let session = on_request(&codex, Some(&person)).await;
        assert_eq!(answer_to(&session, "widen").await, "went on", "{decision:?}");
        assert_eq!(made(&dirs), granted, "{decision:?}");
        let ask = person.asked(1).await;
        assert_eq!((ask.kind, person.texts().len()), (Kind::Permissions, 1));
        for part in [dirs[0].as_str(), dirs[1].as_str(), "network", "both are needed"] {
            assert!(ask.text().contains(part), "{part:?} is not in\n{}", ask.text());
        }
        codex.end(session).await;
        for dir in &dirs {
            let _ = std::fs::remove_file(std::path::Path::new(dir).join("x"));
        }
    }
}

#[tokio::test]
async fn permissions_granted_for_the_session_hold_in_the_next_turn_and_others_do_not() {
    let codex = RealCodex::configured(asks_for_permissions).await;
    let dirs = widen(&codex);
    let try_again = Scenario::new().exec(format!("touch {}/y; true", dirs[0])).then_say("tried");
    codex.model.script("again", try_again);
    let again = std::path::Path::new(&dirs[0]).join("y");
    for (decision, holds) in [(Decision::Accept, false), (Decision::AcceptForSession, true)] {
        let person = Person::saying([decision]);
        let session = on_request(&codex, Some(&person)).await;
        answer_to(&session, "widen").await;
        answer_to(&session, "again").await;
        assert_eq!((again.exists(), person.texts().len()), (holds, 1));
        codex.end(session).await;
    }
}

#[tokio::test]
async fn with_nobody_to_ask_no_permission_is_granted() {
    let codex = RealCodex::configured(asks_for_permissions).await;
    let dirs = widen(&codex);
    let session = on_request(&codex, None).await;
    assert_eq!(answer_to(&session, "widen").await, "went on");
    assert_eq!(made(&dirs), [false, false]);
    codex.end(session).await;
}

#[tokio::test]
async fn questions_of_the_model_are_answered_or_left_open() {
    let codex = RealCodex::configured(|config| config.feature("default_mode_request_user_input", true)).await;
    let questions = [Question::yes_no("sure", "Are you sure?"), Question::yes_no("really", "Really?")];
    let scenario = Scenario::new().call(ToolCall::request_user_input(&questions)).then_say("went on");
    codex.model.script("ask me", scenario);
    let answers = [("sure", "Yes"), ("really", "My own words")];
    let answers = answers.map(|(id, answer)| (id.to_owned(), vec![answer.to_owned()]));
    let person = Person::saying([Decision::Answers(BTreeMap::from(answers)), Decision::Decline]);
    let session = codex.open(person.approver()).await;
    assert_eq!(answer_to(&session, "ask me").await, "went on");
    let told = codex.tool_output("ask me");
    assert!(told.contains(r#""Yes""#) && told.contains("My own words"), "{told}");
    let ask = person.asked(1).await;
    assert_eq!((ask.kind, ask.questions.len()), (Kind::Questions, 2));
    assert!(ask.text().contains("Are you sure?") && ask.text().contains("Really?"), "{}", ask.text());

    assert_eq!(answer_to(&session, "ask me").await, "went on");
    assert_eq!(codex.tool_output("ask me"), r#"{"answers":{}}"#);
    codex.end(session).await;

    let session = codex.open(None).await;
    assert_eq!(answer_to(&session, "ask me").await, "went on");
    assert_eq!(codex.tool_output("ask me"), r#"{"answers":{}}"#);
    codex.end(session).await;
}

// peer: T3
#[tokio::test]
async fn a_form_of_an_mcp_server_is_filled_in_declined_or_dismissed() {
    let codex = RealCodex::configured(has_mcp_server).await;
    let call = ToolCall::mcp("desk", "ask", json!({"text": "Which colour?"}));
    codex.model.script("ask me", Scenario::new().call(call).then_say("went on"));
    let form = Decision::Form(json!({"answer": "blue"}));
    let person = Person::saying([form, Decision::Decline, Decision::Cancel]);
    let session = codex.open(person.approver()).await;
    for answer in [r#""action":"accept""#, r#""action":"decline""#, r#""action":"cancel""#] {
        assert_eq!(answer_to(&session, "ask me").await, "went on");
        let told = codex.tool_output("ask me").replace(r#"\""#, "\"");
        assert!(told.contains(answer), "{answer} is not in {told}");
        assert_eq!(told.contains("blue"), answer.contains("accept"), "{told}");
    }
    let ask = person.asked(3).await;
    assert_eq!(ask.kind, Kind::Form);
    assert!(ask.text().contains("Which colour?") && ask.text().contains("desk"), "{}", ask.text());
    codex.end(session).await;
}

// peer: S35, S36
#[tokio::test]
async fn forms_of_trusted_servers_still_ask_and_those_of_others_can_be_declined_unasked() {
    let codex = RealCodex::configured(has_mcp_server).await;
    let call = ToolCall::mcp("desk", "ask", json!({"text": "Which colour?"}));
    codex.model.script("ask me", Scenario::new().call(call).then_say("went on"));
    let trust = |config: &mut SessionConfig| config.approvals.trusted_mcp_servers = vec!["desk".to_owned()];
    let distrust = |config: &mut SessionConfig| config.approvals.decline_other_mcp_servers = true;
    for (change, asks, answer) in [
        (&trust as &dyn Fn(&mut SessionConfig), 1, r#""action":"accept""#),
        (&distrust, 0, r#""action":"decline""#),
    ] {
        let person = Person::saying([Decision::Form(json!({"answer": "red"}))]);
        let mut config = codex.config();
        change(&mut config);
        let session = Session::start(config, codex.stdio(), person.approver()).await.unwrap();
        answer_to(&session, "ask me").await;
        assert_eq!(person.texts().len(), asks);
        let told = codex.tool_output("ask me").replace(r#"\""#, "\"");
        assert!(told.contains(answer), "{answer} is not in {told}");
        codex.end(session).await;
    }
}

#[tokio::test]
async fn a_tool_of_an_mcp_server_runs_only_if_it_is_accepted() {
    let codex = RealCodex::configured(has_mcp_server).await;
    let call = |tool: &str| Scenario::new().call(ToolCall::mcp("desk", tool, json!({"text": "it"})));
    codex.model.script("poke", call("poke").then_say("went on"));
    codex.model.script("peek", call("peek").then_say("went on"));
    let decisions = [Decision::Decline, Decision::Cancel, Decision::Accept, Decision::AcceptForSession];
    let person = Person::saying(decisions);
    let session = codex.open(person.approver()).await;
    for (asks, works) in [(1, false), (2, false), (3, true), (4, true), (4, true)] {
        assert_eq!(answer_to(&session, "poke").await, "went on");
        let told = codex.tool_output("poke");
        assert_eq!((person.texts().len(), told.contains("poked it")), (asks, works), "{told}");
    }
    let ask = person.asked(1).await;
    assert_eq!(ask.kind, Kind::McpTool);
    assert!(ask.text().contains("desk") && ask.text().contains("poke"), "{}", ask.text());
    answer_to(&session, "peek").await;
    assert!(codex.tool_output("peek").contains("peeked at it"));
    assert_eq!(person.texts().len(), 4, "what only reads is not asked");
    codex.end(session).await;
}

#[tokio::test]
async fn a_tool_of_a_trusted_server_runs_unasked_and_without_a_person_none_does() {
    let codex = RealCodex::configured(has_mcp_server).await;
    let call = ToolCall::mcp("desk", "poke", json!({"text": "it"}));
    codex.model.script("poke", Scenario::new().call(call).then_say("went on"));
    let trusting = || vec!["desk".to_owned()];
    for (trusted, works) in [(Vec::new(), false), (trusting(), true)] {
        let mut config = codex.config();
        config.approvals.trusted_mcp_servers = trusted;
        let session = Session::start(config, codex.stdio(), None).await.unwrap();
        assert_eq!(answer_to(&session, "poke").await, "went on");
        assert_eq!(codex.tool_output("poke").contains("poked it"), works);
        codex.end(session).await;
    }
}

// peer: T3
#[tokio::test]
async fn a_tool_of_the_program_is_called_and_without_a_program_the_model_is_told() {
    let codex = RealCodex::new().await;
    let call = ToolCall::function("lookup", json!({"word": "tea"}));
    codex.model.script("look it up", Scenario::new().call(call).then_say("went on"));
    let mut config = codex.config();
    config.dynamic_tools = vec![json!({
        "type": "function", "name": "lookup", "description": "Looks a word up",
        "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}},
    })];
    let person = Person::silent();
    for (approver, told) in [
        (person.approver(), r#"lookup was called with {"word":"tea"}"#),
        (None, "no tool named lookup is offered here"),
    ] {
        let session = Session::start(config.clone(), codex.stdio(), approver).await.unwrap();
        assert_eq!(answer_to(&session, "look it up").await, "went on");
        let output = codex.tool_output("look it up");
        assert!(output.contains(told), "{told} is not in {output}");
        codex.end(session).await;
    }
    assert!(person.texts().is_empty());
}

#[tokio::test]
async fn a_command_that_brings_its_own_permissions_says_what_it_opens() {
    let codex = RealCodex::configured(asks_for_permissions).await;
    let dir = codex.home.dir().join("a");
    std::fs::create_dir(&dir).unwrap();
    let call = ToolCall::function(
        "exec_command",
        json!({
            "cmd": format!("touch {}/x", dir.display()),
            "sandbox_permissions": "with_additional_permissions",
            "additional_permissions": {"file_system": {"write": [dir]}},
            "justification": "it is needed",
        }),
    );
    codex.model.script("make it", Scenario::new().call(call).then_say("went on"));
    for (decision, made) in [(Decision::Decline, false), (Decision::Accept, true)] {
        let person = Person::saying([decision]);
        let session = on_request(&codex, Some(&person)).await;
        assert_eq!(answer_to(&session, "make it").await, "went on");
        assert_eq!(dir.join("x").exists(), made, "{}", codex.tool_output("make it"));
        let text = person.asked(1).await.text();
        assert!(text.contains(&format!("Also opens: write {}", dir.display())), "{text}");
        codex.end(session).await;
    }
}

// peer: T4
#[tokio::test]
async fn codex_is_told_the_time_when_it_asks() {
    let external = "features.current_time_reminder = { enabled = true, clock_source = \"external\" }\n";
    let codex = RealCodex::configured(|config| config.extra(external)).await;
    let session = codex.open(None).await;
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    let told = codex.last_input();
    assert!(told.contains("<current_time_reminder>It is 20"), "{told}");
    codex.end(session).await;
}
