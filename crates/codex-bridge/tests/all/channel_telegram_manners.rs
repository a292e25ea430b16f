//! How a bot of Telegram's behaves to people: it shows at once that it has read, takes plain words for what they are meant, and
//! says what went wrong in words that people have.

use std::time::Duration;

use scripted_model::{Question, Scenario, ToolCall};
use testkit::platform::telegram::server::Server;

use crate::channel_telegram::{ADA, BOB, Chat, EVE, GROUP, WORKING};

impl Chat {
    /// Waits until the model is asked, so that a turn runs.
    async fn until_asked(&self) {
        let is_asked = |_: &Server| (!self.shell.model.requests().is_empty()).then_some(());
        self.server.until("the model to be asked", is_asked).await;
    }

    /// Waits for a reaction of the bot's to a message.
    async fn until_reacted(&self, chat: i64, message: i64, sign: &str) {
        let has = |server: &Server| server.reactions(chat, message).contains(&sign.to_owned()).then_some(());
        self.server.until(&format!("{sign} at {message}"), has).await;
    }

    /// All that the model was given, as one text.
    fn given(&self) -> String {
        self.shell.model.requests().iter().map(|request| request.body.to_string()).collect()
    }
}

#[tokio::test]
async fn every_message_is_acknowledged_at_once() {
    let chat = Chat::new().await;
    chat.start().await;
    chat.server.write(ADA, "one [play] stall gate => exec ls => say One.");
    let typing = |server: &Server| server.typing(ADA).first().copied();
    chat.server.until("the bot to type", typing).await;
    chat.until_asked().await;
    let waiting = chat.server.write(ADA, "two [play] say Two.");
    chat.until_reacted(ADA, waiting, "👀").await;
    let added = chat.server.write(ADA, "/steer and three");
    chat.until_reacted(ADA, added, "✍").await;
    chat.shell.model.release("gate");
    chat.server.until_said(ADA, "Two.").await;
    assert!(chat.server.commands().contains(&"retry".to_owned()), "{:?}", chat.server.commands());
    chat.shell.end().await;
}

#[tokio::test]
async fn where_no_reaction_is_allowed_a_short_line_says_it() {
    let chat = Chat::new().await;
    let refused = testkit::platform::Answer::json(
        400,
        serde_json::json!({"ok": false, "error_code": 400, "description": "Bad Request: REACTION_INVALID"}),
    );
    chat.server.have("setMessageReaction", testkit::platform::Day::Refuses(refused));
    chat.start().await;
    chat.server.write(ADA, "one [play] stall gate => say One.");
    chat.until_asked().await;
    let waiting = chat.server.write(ADA, "two [play] say Two.");
    let line = chat.server.until_said(ADA, "This waits its turn").await;
    assert_eq!(line.answers, Some(waiting));
    chat.shell.model.release("gate");
    chat.server.until_said(ADA, "Two.").await;
    chat.shell.end().await;
}

#[tokio::test]
async fn a_yes_while_something_is_asked_is_told_what_it_lacks_and_never_becomes_a_turn() {
    let chat = Chat::new().await;
    let asked = chat.asked().await;
    for yes in ["yes", "Ok!", "👍"] {
        let before = chat.server.said().len();
        chat.server.write(ADA, yes);
        let is_told = |server: &Server| {
            let told = server
                .said()
                .into_iter()
                .skip(before)
                .find(|said| said.text.contains("Codex waits for your decision above"));
            told.map(drop)
        };
        chat.server.until(yes, is_told).await;
    }
    chat.server.reply(ADA, &asked, "yes, do it");
    let count = |server: &Server| {
        let told = server
            .said()
            .into_iter()
            .filter(|said| said.text.contains("Codex waits for your decision above"));
        (told.count() == 4).then_some(())
    };
    chat.server.until("the reply to be told so as well", count).await;
    chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap());
    chat.server.until_said(ADA, "Made.").await;
    let (given, inbox) = (chat.given(), chat.inbox().await);
    assert!(
        !given.contains("yes, do it")
            && inbox.iter().all(|one| one["state"] == "answered" || one["state"] == "acknowledged"),
        "{inbox:#?}"
    );
    chat.shell.end().await;
}

#[tokio::test]
async fn a_reply_to_a_question_is_its_answer() {
    let chat = Chat::new().await;
    let question = Question::yes_no("colour", "Which colour shall it be?");
    let asks = Scenario::new().call(ToolCall::request_user_input(&[question])).then_say("So be it.");
    chat.shell.model.script("paint it", asks);
    chat.server.write(ADA, "paint it");
    chat.start().await;
    let asked = chat.server.until_said(ADA, "Which colour").await;
    chat.server.reply(ADA, &asked, "a shade of green");
    chat.server.until_said(ADA, "So be it.").await;
    assert!(chat.given().contains("a shade of green"));
    chat.shell.end().await;
}

#[tokio::test]
async fn a_comment_on_a_no_reaches_codex() {
    let chat = Chat::new().await;
    let asks = Scenario::new().call(ToolCall::exec_escalated("touch made.txt", "it is needed"));
    chat.shell.model.script("make it", asks.then_say("I did not."));
    chat.shell.model.script_containing("use the other file", Scenario::new().say("Then the other one."));
    chat.server.write(ADA, "make it");
    chat.start().await;
    let asked = chat.with_button("Decline with a comment").await;
    let told =
        chat.told(&chat.server.tap(ADA, &asked, &asked.button("Decline with a comment").unwrap())).await;
    assert_eq!(told, "Write your comment as your next message.");
    chat.server.write(ADA, "use the other file");
    let closed = chat.server.until_said(ADA, "Declined by User 42").await;
    assert_eq!((closed.message_id, closed.button("Approve once")), (asked.message_id, None));
    let is_given = |_: &Server| chat.given().contains("use the other file").then_some(());
    chat.server.until("Codex to read the comment", is_given).await;
    assert!(!chat.is_made());
    chat.shell.end().await;
}

#[tokio::test]
async fn a_message_that_waits_can_be_changed_and_a_later_change_is_told() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "one [play] stall gate => say One.");
    chat.start().await;
    chat.until_asked().await;
    let waiting = chat.server.write(ADA, "two [play] say Wrong.");
    chat.until_reacted(ADA, waiting, "👀").await;
    chat.server.edit(waiting, "two [play] say Right.");
    chat.server.until_said(ADA, "Your change was taken over").await;
    chat.shell.model.release("gate");
    chat.server.until_said(ADA, "Right.").await;
    assert!(chat.server.said().iter().all(|said| said.text != "Wrong."));
    chat.server.edit(waiting, "two [play] say Too late.");
    chat.server.until_said(ADA, "Codex already has this message as it was").await;
    chat.shell.end().await;
}

#[tokio::test]
async fn what_somebody_quotes_reaches_codex_with_its_origin() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "one [play] say The first answer.");
    chat.start().await;
    let said = chat.server.until_said(ADA, "The first answer.").await;
    chat.server.reply(ADA, &said, "what does that mean? [play] say It means one.");
    chat.server.until_said(ADA, "It means one.").await;
    assert!(
        chat.given()
            .contains("In reply to your own message:\\n> The first answer.\\n\\nwhat does that mean?"),
        "{}",
        chat.given()
    );
    chat.shell.end().await;
}

#[tokio::test]
async fn in_a_group_only_what_is_meant_for_the_bot_is_read() {
    let chat = Chat::new().await;
    chat.server.write_in(BOB, GROUP, None, "lunch? [play] say Lunch.");
    chat.server.write_in(EVE, GROUP, None, "yes, lunch");
    chat.server.write_in(ADA, GROUP, None, "@codex_bot look [play] say Looked.");
    chat.start().await;
    chat.server.until_said(GROUP, "Looked.").await;
    assert_eq!(chat.inbox().await.len(), 1);
    let knocks = &chat.start().await[0]["knocks"];
    assert_eq!(knocks, &serde_json::json!([]), "who talks to others is no stranger at the door");
    chat.shell.end().await;
}

#[tokio::test]
async fn what_broke_is_said_in_words_and_tried_again_with_a_button() {
    let chat = Chat::new().await;
    let breaks = Scenario::new().fail("invalid_prompt", "no such thing");
    chat.shell.model.script("do it", breaks);
    chat.server.write(ADA, "do it");
    chat.start().await;
    let failed = chat.with_button("Retry").await;
    assert!(
        failed.text.contains("The conversation is kept.") && !failed.text.contains("/retry"),
        "{}",
        failed.text
    );
    chat.server.tap(ADA, &failed, &failed.button("Details").unwrap());
    let details = chat.server.until_said(ADA, "Kind: ").await;
    assert!(details.text.contains("no such thing"), "{}", details.text);
    chat.shell.model.script("do it", Scenario::new().say("Done after all."));
    chat.server.tap(ADA, &failed, &failed.button("Retry").unwrap());
    chat.server.until_said(ADA, "Done after all.").await;
    chat.server.write(ADA, "/retry");
    chat.server.until_said(ADA, "Nothing that failed is left to be tried again").await;
    chat.shell.end().await;
}

#[tokio::test]
async fn a_stranger_is_told_a_code_if_the_operator_wants_that_and_may_write_once_it_is_confirmed() {
    let chat = Chat::new().await;
    let file = chat.shell.home.dir().join("config.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config.replace("[channels.telegram]\n", "[channels.telegram]\npairing = true\n"))
        .unwrap();
    chat.server.write(EVE, "hello?");
    chat.server.write_in(EVE, GROUP, None, "/status");
    chat.start().await;
    let told = chat.server.until_said(EVE, "codex-bridge channel allow ").await;
    let code = told.text.rsplit(' ').next().unwrap().to_owned();
    let listed = chat.shell.run(&["channel", "list"]).await.ok();
    assert!(listed.out.contains(&format!("codex-bridge channel allow {code}")), "{}", listed.out);
    let allowed = chat.shell.run(&["channel", "allow", &code]).await.ok();
    assert!(allowed.out.contains("66 (\"User 66\") may write on telegram"), "{}", allowed.out);
    chat.server.write(EVE, "hello [play] say Hello, Eve.");
    chat.server.until_said(EVE, "Hello, Eve.").await;
    chat.shell.kill_daemon_for_good().await;
    chat.start().await;
    chat.server.write(EVE, "/whoami");
    let who = chat.server.until_said(EVE, "You are User 66 (66) on telegram").await;
    assert!(who.text.contains("write to Codex; others decide"), "{}", who.text);
    chat.shell.run(&["channel", "disallow", "telegram", "66"]).await.ok();
    let before = chat.server.said().len();
    chat.server.write(EVE, "/status");
    chat.server.until("it to be read", |server| (server.unconfirmed() == 0).then_some(())).await;
    chat.server.write(ADA, "/whoami");
    chat.server.until_said(ADA, "You are User 42").await;
    let since: Vec<i64> = chat.server.said()[before..]
        .iter()
        .filter(|said| !said.text.contains("channel allow"))
        .map(|said| said.chat)
        .collect();
    assert_eq!(since, [ADA]);
    assert!(
        chat.server.said().iter().all(|said| said.chat != GROUP),
        "a group is not written to by strangers"
    );
    chat.shell.end().await;
}

#[tokio::test]
async fn a_conversation_goes_back_to_an_earlier_task_and_on_with_one_of_another_door() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "first task [play] say One.");
    chat.start().await;
    chat.server.until_said(ADA, "One.").await;
    chat.server.write(ADA, "/new");
    chat.server.write(ADA, "second task [play] say Two.");
    chat.server.until_said(ADA, "Two.").await;
    chat.server.write(ADA, "/list");
    let list = chat.server.until_said(ADA, "/switch NUMBER").await;
    assert!(list.text.contains("1. second task") && list.text.contains("2. first task"), "{}", list.text);
    chat.server.write(ADA, "/switch 2");
    chat.server.until_said(ADA, "From here on this goes on with").await;
    chat.server.write(ADA, "and more [play] say Three.");
    chat.server.until_said(ADA, "Three.").await;
    let inbox = chat.inbox().await;
    let task_of = |words: &str| {
        let it = inbox.iter().find(|one| one["summary"].as_str().unwrap().contains(words)).unwrap();
        it["task_id"].as_str().unwrap().to_owned()
    };
    assert_eq!(task_of("and more"), task_of("first task"));

    let workspace = chat.shell.home.workspace();
    let run = ["--json", "run", "-C", workspace.to_str().unwrap(), "at a desk [play] say Four."];
    let task = chat.shell.run(&run).await.ok().json();
    let id = task["task_id"].as_str().unwrap();
    chat.server.write(ADA, &format!("/resume {id}"));
    chat.server.write(ADA, "in the chat [play] say Five.");
    chat.server.until_said(ADA, "Five.").await;
    let asked = chat.shell.model.requests().last().unwrap().body.to_string();
    assert!(asked.contains("at a desk"), "the same thread goes on");
    let before = chat.shell.run(&["--json", "show", id]).await.ok().json();
    assert_eq!(before["final_text"], "Four.", "the task itself stays as it was");
    chat.server.write(ADA, "/resume codex-");
    chat.server.until_said(ADA, "There is no such task").await;
    chat.server.write(BOB, &format!("/resume {id}"));
    chat.server.until_said(BOB, "Only approvers may continue").await;
    chat.shell.end().await;
}

#[tokio::test]
async fn progress_counts_what_was_done_and_a_short_turn_has_none() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "short [play] exec ls => say Short.");
    chat.start().await;
    chat.server.until_said(ADA, "Short.").await;
    chat.server.write(ADA, "long [play] exec ls => exec pwd => stall gate => say Long.");
    let shown = chat.server.until_said(ADA, WORKING).await;
    chat.server.until_said(ADA, "$ pwd").await;
    chat.shell.model.release("gate");
    let done = chat.server.until_said(ADA, "Done in ").await;
    assert_eq!(done.message_id, shown.message_id);
    assert!(done.text.ends_with(" · 2 commands"), "{}", done.text);
    let progress = chat.server.said().into_iter().filter(crate::channel_telegram::is_progress).count();
    assert_eq!(progress, 1, "{:#?}", chat.server.said());
    chat.shell.end().await;
}

#[tokio::test]
async fn a_reaction_that_is_too_many_does_not_become_a_message_more() {
    let chat = Chat::new().await;
    chat.server.have("setMessageReaction", testkit::platform::telegram::flooded(30));
    chat.start().await;
    chat.server.write(ADA, "one [play] stall gate => say One.");
    chat.until_asked().await;
    chat.server.write(ADA, "two [play] say Two.");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let told = chat.server.said().into_iter().any(|said| said.text.contains("This waits its turn"));
    chat.shell.model.release("gate");
    chat.server.until_said(ADA, "Two.").await;
    chat.shell.end().await;
    assert!(!told, "where Telegram asks for fewer calls, each reaction that fails is a message instead");
}

#[tokio::test]
async fn a_comment_on_a_request_of_a_task_from_elsewhere_declines_it_and_reaches_that_task() {
    let chat = Chat::new().await;
    let workspace = chat.shell.home.workspace();
    let asks = Scenario::new().call(ToolCall::exec_escalated("touch made.txt", "it is needed"));
    chat.shell.model.script("make it", asks.then_say("I did not."));
    chat.start().await;
    let run = ["run", "-d", "--notify", "telegram:42", "-C", workspace.to_str().unwrap(), "make it"];
    chat.shell.run(&run).await.ok();
    let asked = chat.with_button("Decline with a comment").await;
    chat.server.write(ADA, "yes");
    chat.server.until_said(ADA, "Codex waits for your decision above").await;
    chat.told(&chat.server.tap(ADA, &asked, &asked.button("Decline with a comment").unwrap())).await;
    chat.server.write(ADA, "not that file");
    let is_closed = |server: &Server| {
        server.said().iter().all(|said| said.button("Approve once").is_none()).then_some(())
    };
    chat.server.until("the request to be declined", is_closed).await;
    let is_given = |_: &Server| chat.given().contains("not that file").then_some(());
    chat.server.until("Codex to have the comment", is_given).await;
    assert!(!workspace.join("made.txt").exists());
    chat.server.until_said(ADA, "You said: not that file").await;
    let is_of_task = |asked: &str| asked.contains("make it");
    assert!(chat.shell.model.requests().iter().all(|request| is_of_task(&request.body.to_string())));
    chat.shell.end().await;
}
