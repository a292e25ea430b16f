//! Messages as the real Codex writes and reads them: all that it says fits its schema and is understood, and all that
//! we say fits its schema.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use codex_wire::answer::{Answer, CommandDecision, ElicitationAction, GrantScope, Verdict};
use codex_wire::call::{
    self, Call, CleanBackgroundTerminals, CommandExec, CompactStart, InitialTurnsPage, ThreadFork,
    ThreadLoadedList, ThreadOpened, ThreadRead, ThreadResume, ThreadSettings, ThreadStart, ThreadTurnsList,
    ThreadUnsubscribe, TurnInterrupt, TurnStart, TurnSteer, UserInput,
};
use codex_wire::connection::{Connection, Handshake};
use codex_wire::event::{self, Event};
use codex_wire::peer::{Delivery, Inbox, Peer, inbox};
use codex_wire::request::{FileSystemPermissions, NetworkPermissions, Permissions, ServerRequest};
use codex_wire::transport::stdio::{self, Spawn};
use codex_wire::{Epoch, ThreadId, TurnId};
use futures_util::StreamExt;
use scripted_model::scenario::Question;
use scripted_model::{CodexConfig, Scenario, ScriptedModel, ToolCall};
use serde_json::{Value, json};
use testkit::rig::{Home, codex_path};
use testkit::schema::Schema;

use crate::peer_rig::{LONG, initialize, next};

fn line_of<C: Call>(call: &C) -> Value {
    json!({"id": 1, "method": C::METHOD, "params": call})
}

fn full_settings() -> ThreadSettings {
    ThreadSettings {
        cwd: Some("/ws".into()),
        sandbox: Some("danger-full-access".into()),
        permissions: Some("ours".into()),
        runtime_workspace_roots: Some(vec!["/ws".into()]),
        approval_policy: Some("untrusted".into()),
        approvals_reviewer: Some("user".into()),
        model: Some("gpt-5.5".into()),
        developer_instructions: Some("be brief".into()),
        config: json!({"model_reasoning_effort": "high"}).as_object().cloned(),
    }
}

/// Every call that we make, with every field set.
fn every_call() -> Vec<Value> {
    let thread_id = || ThreadId::from("t");
    let input = vec![
        UserInput::text("hello"),
        UserInput::Image { url: "https://example.com/a.png".into() },
        UserInput::LocalImage { path: "/ws/a.png".into() },
    ];
    let tool =
        json!({"type": "function", "name": "lookup", "description": "d", "inputSchema": {"type": "object"}});
    let start = TurnStart {
        thread_id: "t".into(),
        input: input.clone(),
        client_user_message_id: Some("m".into()),
        cwd: Some("/ws".into()),
        approval_policy: Some("on-request".into()),
        approvals_reviewer: Some("user".into()),
        permissions: Some("ours".into()),
        model: Some("gpt-5.5".into()),
        effort: Some("high".into()),
        output_schema: Some(json!({"type": "object"})),
    };
    vec![
        line_of(&initialize()),
        line_of(&ThreadStart { settings: full_settings(), dynamic_tools: Some(vec![tool]) }),
        line_of(&ThreadStart::default()),
        line_of(&ThreadResume {
            thread_id: thread_id(),
            exclude_turns: true,
            initial_turns_page: Some(InitialTurnsPage { limit: 1, items_view: "full" }),
            settings: full_settings(),
        }),
        line_of(&ThreadFork {
            thread_id: thread_id(),
            last_turn_id: Some(TurnId::from("u")),
            exclude_turns: true,
            settings: full_settings(),
        }),
        line_of(&ThreadUnsubscribe { thread_id: thread_id() }),
        line_of(&ThreadTurnsList {
            thread_id: thread_id(),
            limit: 5,
            sort_direction: "desc",
            items_view: "full",
        }),
        line_of(&ThreadLoadedList {}),
        line_of(&ThreadRead { thread_id: thread_id(), include_turns: false }),
        line_of(&CompactStart { thread_id: thread_id() }),
        line_of(&CleanBackgroundTerminals { thread_id: thread_id() }),
        line_of(&CommandExec {
            command: vec!["cat".into(), "/state".into()],
            cwd: "/".into(),
            permission_profile: "ours".into(),
            timeout_ms: 1000,
        }),
        line_of(&start),
        line_of(&TurnStart { thread_id: "t".into(), ..TurnStart::default() }),
        line_of(&TurnSteer {
            thread_id: thread_id(),
            input,
            client_user_message_id: Some("m".into()),
            expected_turn_id: TurnId::from("u"),
        }),
        line_of(&TurnInterrupt { thread_id: thread_id(), turn_id: String::new() }),
    ]
}

#[test]
fn every_call_fits_the_schema() {
    let schema = Schema::of_installed_codex();
    let calls = every_call();
    for line in &calls {
        schema.check_client_request(line).unwrap_or_else(|complaint| panic!("{complaint}\n{line}"));
    }
    let checked: BTreeSet<_> = calls.iter().map(|line| line["method"].as_str().unwrap()).collect();
    assert_eq!(checked, call::METHODS.iter().copied().collect());
}

#[test]
fn every_answer_fits_the_schema() {
    let schema = Schema::of_installed_codex();
    let granted = Permissions {
        file_system: Some(FileSystemPermissions {
            read: Some(vec!["/a".into()]),
            write: None,
            entries: Some(vec![json!({"path": {"type": "path", "path": "/a"}, "access": "read"})]),
        }),
        network: Some(NetworkPermissions { enabled: Some(true) }),
    };
    let nothing = Permissions::default();
    let verdicts = [Verdict::Accept, Verdict::AcceptForSession, Verdict::Decline, Verdict::Cancel];
    let mut answers = vec![
        (
            "CommandExecutionRequestApprovalResponse",
            Answer::Command(CommandDecision::AmendExecpolicy(vec!["ls".into()])),
        ),
        ("PermissionsRequestApprovalResponse", Answer::Permissions { granted, scope: GrantScope::Session }),
        (
            "PermissionsRequestApprovalResponse",
            Answer::Permissions { granted: nothing, scope: GrantScope::Turn },
        ),
        (
            "ToolRequestUserInputResponse",
            Answer::UserInput(BTreeMap::from([("q".to_owned(), vec!["Yes".to_owned()])])),
        ),
        ("DynamicToolCallResponse", Answer::ToolCall { text: "42".into(), success: true }),
        ("CurrentTimeReadResponse", Answer::CurrentTime),
    ];
    for verdict in verdicts {
        answers.push((
            "CommandExecutionRequestApprovalResponse",
            Answer::Command(CommandDecision::Plain(verdict)),
        ));
        answers.push(("FileChangeRequestApprovalResponse", Answer::FileChange(verdict)));
    }
    for action in [ElicitationAction::Accept, ElicitationAction::Decline, ElicitationAction::Cancel] {
        let (content, meta) = (Some(json!({"answer": "x"})), Some(json!({"persist": "session"})));
        answers.push(("McpServerElicitationRequestResponse", Answer::Elicitation { action, content, meta }));
    }
    for (name, answer) in answers {
        let reply = answer.clone().into_reply().unwrap();
        schema.check(name, &reply).unwrap_or_else(|complaint| panic!("{complaint}\n{answer:?}"));
    }
}

/// A yes to everything.
fn yes(request: &ServerRequest) -> Answer {
    match request {
        ServerRequest::Command(_) => Answer::Command(CommandDecision::Plain(Verdict::Accept)),
        ServerRequest::FileChange(_) => Answer::FileChange(Verdict::Accept),
        ServerRequest::Permissions(asked) => {
            Answer::Permissions { granted: asked.permissions.clone(), scope: GrantScope::Turn }
        }
        ServerRequest::UserInput(asked) => {
            let yes =
                |question: &codex_wire::request::Question| (question.id.clone(), vec!["Yes".to_owned()]);
            Answer::UserInput(asked.questions.iter().map(yes).collect())
        }
        ServerRequest::Elicitation(_) => {
            let content = Some(json!({"answer": "blue"}));
            Answer::Elicitation { action: ElicitationAction::Accept, content, meta: None }
        }
        ServerRequest::ToolCall(_) => Answer::ToolCall { text: "42".into(), success: true },
        other => Answer::fail_closed(other),
    }
}

/// Says yes until the turn is over; gives the methods of the requests that were answered.
async fn until_the_end_of_the_turn(peer: &Peer, messages: &mut Inbox) -> Vec<String> {
    let mut asked = Vec::new();
    loop {
        match next(messages).await {
            Delivery::Notification(note) if &*note.method == "turn/completed" => return asked,
            Delivery::Notification(_) => {}
            Delivery::Request(incoming) => {
                asked.push(incoming.request.method().to_owned());
                peer.respond(&incoming.id, yes(&incoming.request)).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn play(
    model: &ScriptedModel,
    peer: &Peer,
    thread: &ThreadOpened,
    messages: &mut Inbox,
) -> BTreeSet<String> {
    let questions = [Question::yes_no("q1", "Really?")];
    let permissions = json!({"network": {"enabled": true}});
    let words = json!({"text": "it"});
    let scenarios = [
        Scenario::new().reason("I think.").say_in_chunks(["Hello ", "there."]),
        Scenario::new().exec("echo hi; echo there >&2; exit 2").then_say("done"),
        Scenario::new().call(ToolCall::add_file("new.txt", "hello\n")).then_say("patched"),
        Scenario::new().call(ToolCall::request_user_input(&questions)).then_say("asked"),
        Scenario::new().call(ToolCall::request_permissions(&permissions, "to fetch")).then_say("granted"),
        Scenario::new().call(ToolCall::mcp("tools", "poke", words.clone())).then_say("poked"),
        Scenario::new().call(ToolCall::mcp("tools", "ask", words.clone())).then_say("answered"),
        Scenario::new().call(ToolCall::function("lookup", words)).then_say("looked up"),
        Scenario::new().fail("context_length_exceeded", "too long"),
    ];
    let mut asked = BTreeSet::new();
    for (n, scenario) in scenarios.into_iter().enumerate() {
        let prompt = format!("prompt {n}");
        model.script(prompt.clone(), scenario);
        let thread_id = thread.id().unwrap().0;
        let start = TurnStart { thread_id, input: vec![UserInput::text(prompt)], ..TurnStart::default() };
        peer.post(&start, LONG, inbox().0, 1).await.unwrap();
        asked.extend(until_the_end_of_the_turn(peer, messages).await);
    }
    asked
}

/// All that a real Codex says in a session of every kind of turn, with the methods of its requests.
async fn real_session() -> (Vec<Value>, BTreeSet<String>) {
    let model = ScriptedModel::start().await.unwrap();
    let program = testkit::bin("scripted-model");
    let config = CodexConfig::new(model.base_url())
        .feature("default_mode_request_user_input", true)
        .feature("request_permissions_tool", true)
        .mcp_server("tools", &program.to_string_lossy(), &["mcp-server"]);
    let home = Home::with_config(&config.to_string());
    let spawn = Spawn::new(codex_path(), home.env().into_iter().collect());
    let (mut transport, child) = stdio::spawn(&spawn).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&heard);
    transport.incoming = transport
        .incoming
        .inspect(move |line| {
            lines.lock().unwrap().push(serde_json::from_slice(line.as_ref().unwrap()).unwrap());
        })
        .boxed();
    let connection = Connection::open(transport, Handshake::new(Epoch::from("e"))).await.unwrap();

    let tool = json!({"type": "function", "name": "lookup", "description": "looks up",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}});
    let settings = ThreadSettings {
        cwd: home.workspace().to_str().map(Into::into),
        sandbox: Some("danger-full-access".into()),
        approval_policy: Some("untrusted".into()),
        ..ThreadSettings::default()
    };
    let (sender, mut messages) = inbox();
    let start = ThreadStart { settings, dynamic_tools: Some(vec![tool]) };
    let thread = connection.peer.open_thread(&start, LONG, sender).await.unwrap();
    let asked = play(&model, &connection.peer, &thread, &mut messages).await;
    connection.peer.close();
    child.end().await.unwrap();
    home.assert_no_processes().await;
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    (heard, asked)
}

#[tokio::test]
async fn what_a_real_session_says_fits_the_schema_and_is_understood() {
    let (heard, asked) = real_session().await;
    let schema = Schema::of_installed_codex();
    let mut understood = BTreeSet::new();
    for line in &heard {
        let Some(method) = line["method"].as_str() else { continue };
        if line.get("id").is_some() {
            schema.check_server_request(line).unwrap_or_else(|complaint| panic!("{complaint}\n{line}"));
            let request = ServerRequest::parse(method, line["params"].clone());
            assert!(!matches!(request, ServerRequest::Unknown { .. }), "{line}");
        } else {
            schema.check_notification(line).unwrap_or_else(|complaint| panic!("{complaint}\n{line}"));
            if event::METHODS.contains(&method) {
                assert_ne!(Event::parse(method, line.to_string().as_bytes()), Event::Other, "{line}");
                understood.insert(method);
            }
        }
    }
    let expected = [
        "account/rateLimits/updated",
        "error",
        "item/agentMessage/delta",
        "item/completed",
        "item/reasoning/summaryTextDelta",
        "item/started",
        "serverRequest/resolved",
        "thread/started",
        "thread/status/changed",
        "thread/tokenUsage/updated",
        "turn/completed",
        "turn/diff/updated",
        "turn/started",
    ];
    let missing: Vec<_> = expected.iter().filter(|method| !understood.contains(**method)).collect();
    assert!(missing.is_empty(), "never said: {missing:?}");
    let expected = [
        "item/commandExecution/requestApproval",
        "item/fileChange/requestApproval",
        "item/permissions/requestApproval",
        "item/tool/call",
        "item/tool/requestUserInput",
        "mcpServer/elicitation/request",
    ];
    assert_eq!(asked.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}
