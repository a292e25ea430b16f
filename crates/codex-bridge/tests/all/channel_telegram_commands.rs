//! The commands of a chat, each on the real Codex if that can play its part.

use std::fs;
use std::time::Instant;

use serde_json::Value;
use testkit::ScriptedServer;
use testkit::platform::telegram::server::Server;
use testkit::script::{self, Script, Step};

use crate::channel_telegram::{ADA, BOB, Chat};
use crate::shell::PATIENCE;

impl Chat {
    /// Waits until a message is so.
    async fn until_inbox(&self, is_so: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let inbox = self.inbox().await;
            if inbox.iter().any(&is_so) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain: {inbox:#?}");
        }
    }
}

#[tokio::test]
async fn a_turn_that_runs_is_steered_and_others_wait_behind_it() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "begin [play] stall gate => exec ls => say Done.");
    chat.start().await;
    let is_asked = |_: &Server| (!chat.shell.model.requests().is_empty()).then_some(());
    chat.server.until("the model to be asked", is_asked).await;
    chat.server.write(ADA, "/queue and then [play] say Queued.");
    chat.server.write(ADA, "/queue");
    chat.server.until_said(ADA, "1. /queue and then").await;
    chat.server.write(ADA, "/status");
    let status = chat.server.until_said(ADA, "1 more in the queue").await;
    assert!(
        status.text.contains("in main: working") && status.text.contains("Last asked: begin"),
        "{}",
        status.text
    );
    chat.server.write(ADA, "/steer look at the tests first [play] say Steered.");
    chat.until_inbox(|one| {
        one["summary"].as_str().unwrap().starts_with("/steer") && one["state"] == "running"
    })
    .await;
    chat.shell.model.release("gate");
    let is_over = |server: &Server| server.said().iter().any(|said| said.text == "Queued.").then_some(());
    chat.server.until("what was queued", is_over).await;
    let texts: Vec<String> = chat.answers().into_iter().map(|said| said.text).collect();
    let at = |text: &str| {
        texts.iter().position(|said| said == text).unwrap_or_else(|| panic!("{text}: {texts:#?}"))
    };
    assert!(at("Steered.") < at("Queued."));
    let asked = chat.shell.model.requests();
    let steered = asked.iter().filter(|request| request.body.to_string().contains("look at the tests first"));
    assert!(steered.count() >= 1, "the model was told");
    let words = asked.iter().map(|request| request.body.to_string()).collect::<String>();
    assert!(!words.contains("/steer") && !words.contains("/queue"), "commands are no prompts");
    chat.shell.end().await;
}

#[tokio::test]
async fn what_was_changed_and_used_is_told() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "/diff");
    chat.server.write(ADA, "/usage");
    chat.start().await;
    let nothing = |server: &Server| {
        let said = server.said();
        (said.iter().filter(|said| said.text.contains("done nothing here yet")).count() == 2).then_some(())
    };
    chat.server.until("both to say that there is nothing", nothing).await;
    chat.server.write(ADA, "make [play] write made.txt hello => say Written.");
    let asked = chat.with_button("Approve once").await;
    assert!(asked.text.contains("made.txt"), "{}", asked.text);
    chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap());
    chat.server.until_said(ADA, "Written.").await;
    chat.server.write(ADA, "/diff");
    chat.server.until_said(ADA, "+hello").await;
    chat.server.write(ADA, "/usage");
    let usage = chat.server.until_said(ADA, "1 turn, ").await;
    assert!(usage.text.ends_with(" tokens"), "{}", usage.text);
    chat.shell.end().await;
}

#[tokio::test]
async fn a_chat_moves_to_a_workspace_that_is_registered_and_to_no_other() {
    let chat = Chat::new().await;
    let other = chat.shell.home.dir().join("other");
    fs::create_dir(&other).unwrap();
    let file = chat.shell.home.dir().join("config.toml");
    let config = fs::read_to_string(&file).unwrap();
    let with_other =
        config.replace("[workspaces]\n", &format!("[workspaces]\nother = \"{}\"\n", other.display()));
    fs::write(&file, with_other).unwrap();
    chat.server.write(ADA, "/project");
    chat.start().await;
    chat.server.until_said(ADA, "Codex can work in: main (here), other").await;
    chat.server.write(ADA, "/project /etc");
    chat.server.until_said(ADA, "There is no workspace /etc").await;
    chat.server.write(ADA, "/project other");
    chat.server.write(ADA, "look [play] exec pwd => say Looked.");
    chat.server.until_said(ADA, "From here on Codex works in other").await;
    chat.server.until_said(ADA, "Looked.").await;
    let told = chat.shell.model.requests().last().unwrap().last_tool_output().unwrap_or_default();
    assert!(told.contains(&*other.to_string_lossy()), "{told}");
    chat.server.write(BOB, "/project");
    chat.server.until_said(BOB, "main (here), other").await;
    chat.shell.end().await;
}

#[tokio::test]
async fn a_bare_no_is_for_the_only_request_and_a_user_may_not_say_it() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "/deny");
    chat.asked().await;
    chat.server.until_said(ADA, "There is no open request in this conversation.").await;
    chat.server.write(BOB, "/deny");
    chat.server.until_said(BOB, "You may not decide").await;
    chat.server.write(ADA, "/deny");
    chat.server.until_said(ADA, "Declined: Codex has it").await;
    chat.server.until_said(ADA, "Made.").await;
    assert!(!chat.is_made());
    chat.server.write(ADA, "/approve req-nonsense");
    chat.server.until_said(ADA, "There is no request req-nonsense in this conversation.").await;
    chat.server.write(ADA, "/answer req-nonsense yes");
    let both = |server: &Server| {
        let said = server.said();
        (said.iter().filter(|said| said.text.contains("no request req-nonsense")).count() == 2).then_some(())
    };
    chat.server.until("both to be told so", both).await;
    chat.shell.end().await;
}

#[tokio::test]
async fn what_codex_refuses_to_add_waits_its_turn_and_its_sender_hears_so() {
    let turn = |steps: Vec<Step>| [script::reply_turn(), script::started()].into_iter().chain(steps);
    let codex = ScriptedServer::new(
        Script::new()
            .on_nth(
                "turn/start",
                1,
                turn(vec![script::await_release("end"), script::message("First."), script::completed()]),
            )
            .on("turn/start", turn(vec![script::message("Second."), script::completed()]))
            .on("turn/steer", [script::reply_error(-32600, "cannot steer a review turn")]),
    );
    let chat = Chat::new().await;
    codex.attach_to_home(&chat.shell.home.codex_home());
    let file = chat.shell.home.dir().join("config.toml");
    let config = fs::read_to_string(&file).unwrap();
    let real = testkit::rig::codex_path().display().to_string();
    fs::write(&file, config.replace(&real, &codex.program().display().to_string())).unwrap();
    chat.server.write(ADA, "first");
    chat.start().await;
    codex.wait_for_method("turn/start").await;
    chat.server.write(ADA, "/steer and this");
    chat.server.until_said(ADA, "Your message waits in the queue").await;
    codex.release("end");
    chat.server.until_said(ADA, "Second.").await;
    let answers: Vec<String> = chat.answers().into_iter().map(|said| said.text).collect();
    let refused = "Codex did not accept the text: this kind of turn cannot be steered. Your message waits in the queue.";
    assert_eq!(answers, [refused, "First.", "Second."]);
    let started = codex.calls("turn/start");
    assert!(started.len() == 2 && started[1].to_string().contains("and this"), "{started:#?}");
    chat.shell.end().await;
}
