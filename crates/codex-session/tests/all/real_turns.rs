//! Turns on the real Codex that go well: what is said comes back, whole, in order and counted.

use codex_session::projection::Message;
use codex_session::tool_display::Display;
use codex_session::{SessionEvent, TurnOptions, TurnOutcome};
use codex_wire::call::UserInput;
use scripted_model::{Phase, Scenario, Usage};
use serde_json::json;

use crate::real_parts::{Person, answer_to, completed};
use crate::workbench::{RealCodex, soon, whole_turn};

/// A picture of one pixel.
const PIXEL: &[u8] = &[
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0, 144,
    119, 83, 222, 0, 0, 0, 12, 73, 68, 65, 84, 120, 156, 99, 248, 207, 192, 0, 0, 3, 1, 1, 0, 201, 254, 146,
    239, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];

const PIXEL_IN_BASE64: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

// peer: S6, S43
#[tokio::test]
async fn a_prompt_gives_its_answer() {
    let codex = RealCodex::new().await;
    codex.model.script("hello", Scenario::new().say_in_chunks(["Hello ", "there."]));
    let session = codex.open(None).await;
    let result = completed(soon(session.run_turn("hello", TurnOptions::default())).await);
    assert_eq!(result.final_text, "Hello there.");
    assert!(result.turn_id.is_some() && result.thread_id == session.status().await.thread_id);
    codex.end(session).await;
}

// peer: S10, S12, P10, P11
#[tokio::test]
async fn thoughts_remarks_and_tools_come_back_in_order_and_the_final_answer_counts() {
    let codex = RealCodex::new().await;
    let usage = Usage { input: 1234, cached: 1000, output: 56, reasoning: 12 };
    let scenario = Scenario::new()
        .reason("I had better look first.")
        .say_as(Phase::Commentary, "I will look.")
        .exec("echo seen")
        .then()
        .say_as(Phase::FinalAnswer, "It is fine.")
        .say_as(Phase::Commentary, "That was all.")
        .usage(usage);
    codex.model.script("look", scenario);
    let mut config = codex.writing();
    config.approvals.accept_commands = true;
    let session = codex_session::Session::start(config, codex.stdio(), None).await.unwrap();
    let mut events = session.events();
    let result = completed(soon(session.run_turn("look", TurnOptions::default())).await);

    assert_eq!((result.final_text.as_str(), result.tool_iterations), ("It is fine.", 1));
    let usage = result.usage.unwrap();
    assert_eq!((usage.last.input_tokens, usage.last.cached_input_tokens), (1234, 1000));
    assert_eq!((usage.last.output_tokens, usage.last.reasoning_output_tokens), (56, 12));
    assert_eq!(usage.total.input_tokens, 1234 + 100);
    let [first, call, output, answer, remark] = result.projected_messages.as_slice() else {
        panic!("{:#?}", result.projected_messages)
    };
    let Message::Assistant { content, reasoning, .. } = first else { panic!("{first:?}") };
    assert_eq!(content.as_deref(), Some("I will look."));
    assert_eq!(reasoning.as_deref(), Some("I had better look first."));
    let (Message::Assistant { tool_calls, .. }, Message::Tool { tool_call_id, content }) = (call, output)
    else {
        panic!("{call:?} {output:?}")
    };
    assert_eq!((tool_calls[0].function.name.as_str(), &tool_calls[0].id), ("exec_command", tool_call_id));
    assert!(tool_calls[0].function.arguments.contains("echo seen") && content.contains("seen"), "{content}");
    for (message, said) in [(answer, "It is fine."), (remark, "That was all.")] {
        assert!(
            matches!(message, Message::Assistant { content: Some(text), .. } if text == said),
            "{message:?}"
        );
    }
    let told = told(&whole_turn(&mut events).await);
    assert_eq!(
        told,
        [
            "turn",
            "thought",
            "said: I will look.",
            "tool",
            "result",
            "said: It is fine.",
            "said: That was all.",
            "end"
        ]
    );
    codex.end(session).await;
}

/// What a listener was told, in short and without repeats in a row.
fn told(events: &[SessionEvent]) -> Vec<String> {
    let word = |event: &SessionEvent| match event {
        SessionEvent::TurnStarted { .. } => Some("turn".to_owned()),
        SessionEvent::Shown(Display::Reasoning { .. }) => Some("thought".to_owned()),
        SessionEvent::Shown(Display::Message { text, .. }) => Some(format!("said: {text}")),
        SessionEvent::Shown(Display::ToolStarted(_)) => Some("tool".to_owned()),
        SessionEvent::Shown(Display::ToolCompleted(_)) => Some("result".to_owned()),
        SessionEvent::TurnEnded { outcome: TurnOutcome::Completed } => Some("end".to_owned()),
        _ => None,
    };
    let mut words: Vec<String> = events.iter().filter_map(word).collect();
    words.dedup();
    words
}

#[tokio::test]
async fn text_is_told_while_it_is_written() {
    let codex = RealCodex::new().await;
    codex
        .model
        .script("write", Scenario::new().delta("First words").delta(" and more").stall("pause").delta("."));
    let session = codex.open(None).await;
    let mut events = session.events();
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.run_turn("write", TurnOptions::default()).await }
    });
    // The last word may be the beginning of a secret, so it is held back until more comes.
    let mut text = String::new();
    while !text.contains("First words") {
        if let Some(SessionEvent::Shown(Display::Text { delta })) = soon(events.next()).await {
            text.push_str(&delta);
        }
        assert!("First words and more".starts_with(&text), "{text:?}");
    }
    codex.model.release("pause");
    assert_eq!(completed(soon(turn).await.unwrap()).final_text, "First words and more.");
    codex.end(session).await;
}

#[tokio::test]
async fn a_thread_remembers_its_turns() {
    let codex = RealCodex::new().await;
    let session = codex.open(None).await;
    assert_eq!(answer_to(&session, "my name is Ada").await, "You said: my name is Ada");
    assert_eq!(answer_to(&session, "what is my name?").await, "You said: what is my name?");
    assert!(codex.last_input().contains("my name is Ada"));
    codex.end(session).await;
}

// peer: S2, S11
#[tokio::test]
async fn pictures_reach_the_model() {
    let codex = RealCodex::new().await;
    let file = codex.home.workspace().join("pixel.png");
    std::fs::write(&file, PIXEL).unwrap();
    let address = format!("data:image/png;base64,{PIXEL_IN_BASE64}");
    let prompt = vec![
        UserInput::text("what is this?"),
        UserInput::LocalImage { path: file.to_string_lossy().into_owned() },
        UserInput::Image { url: address.clone() },
    ];
    let session = codex.open(None).await;
    let result = completed(soon(session.run_turn(prompt, TurnOptions::default())).await);
    assert_eq!(result.final_text, "You said: what is this?");
    let request = codex.model.requests().pop().unwrap();
    let parts =
        request.body["input"].as_array().unwrap().iter().filter_map(|item| item["content"].as_array());
    let images: Vec<_> = parts.flatten().filter(|part| part["type"] == "input_image").collect();
    assert_eq!(images.len(), 2, "{:#}", request.body["input"]);
    for image in images {
        assert_eq!(image["image_url"], address, "{image}");
    }
    codex.end(session).await;
}

// peer: N5
#[tokio::test]
async fn a_turn_has_its_own_model_effort_and_schema() {
    let codex = RealCodex::new().await;
    let session = codex.open(None).await;
    let schema = json!({
        "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false,
    });
    let options = TurnOptions {
        model: Some("gpt-5.4".to_owned()),
        effort: Some("high".to_owned()),
        output_schema: Some(schema.clone()),
        ..TurnOptions::default()
    };
    completed(soon(session.run_turn("as JSON", options)).await);
    let request = codex.model.requests().pop().unwrap();
    assert_eq!(request.body["model"], "gpt-5.4");
    assert_eq!(request.body["reasoning"]["effort"], "high");
    assert_eq!(request.body["text"]["format"]["schema"], schema);
    codex.end(session).await;
}

#[tokio::test]
async fn a_session_on_a_host_asks_and_leaves_the_host_running() {
    let codex = RealCodex::new().await;
    codex.model.script("make x", Scenario::new().exec("touch x.txt && echo made").then_say("made it"));
    let person = Person::saying([codex_session::Decision::Accept]);
    let session = codex.start_on_host(person.approver()).await;
    let result = completed(soon(session.run_turn("make x", TurnOptions::default())).await);
    assert_eq!((result.final_text.as_str(), result.tool_iterations), ("made it", 1));
    assert!(person.texts()[0].contains("touch x.txt"), "{:?}", person.texts());
    session.close().await;
    codex.end_host().await;
}
