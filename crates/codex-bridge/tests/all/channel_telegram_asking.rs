//! What Codex asks on Telegram: nobody agrees to what they were not shown, a question is answered and never approved, and
//! what is asked in one chat is decided there.

use std::time::{Duration, Instant};

use codex_bridge_core::id::short;
use codex_wire::host::{Found, find_all};
use rustix::process::{Pid, Signal, kill_process};
use scripted_model::{Question, Scenario, ToolCall};
use testkit::platform::Day;
use testkit::platform::telegram::flooded;
use testkit::platform::telegram::server::{Said, Server};

use crate::channel_telegram::{ADA, Chat, EVE, GROUP, MARK, WORKING, is_progress};
use crate::shell::Shell;

/// Has the Codex of this home get a signal.
fn signal_codex(shell: &Shell, signal: Signal) {
    let hosts = find_all(&shell.home.dir().join("st/hosts"));
    let alive = hosts.into_iter().find_map(|(_, found)| match found {
        Ok(Found::Alive(host)) => Some(host.record().codex.pid),
        _ => None,
    });
    kill_process(Pid::from_raw(i32::try_from(alive.unwrap()).unwrap()).unwrap(), signal).unwrap();
}

impl Chat {
    /// Has Codex ask Ada whether it may run this, and waits for a message with this button.
    async fn asked_for(&self, command: &str, button: &str) -> Said {
        let asks = Scenario::new().call(ToolCall::exec_escalated(command, "it is needed")).then_say("Made.");
        self.shell.model.script("make it", asks);
        self.server.write(ADA, "make it");
        self.start().await;
        self.with_button(button).await
    }

    /// Waits for a message with this button.
    pub async fn with_button(&self, button: &str) -> Said {
        let is_it = |said: &Said| said.button(button).is_some();
        self.server.until(button, |server| server.said().into_iter().find(is_it)).await
    }

    /// What Codex was told as the answer to what it asked last.
    fn answer_of_last_call(&self) -> String {
        let last =
            self.shell.model.requests().into_iter().rev().find_map(|request| request.last_tool_output());
        last.unwrap_or_default()
    }
}

#[tokio::test]
async fn a_long_command_is_shown_whole_before_it_can_be_approved() {
    let chat = Chat::new().await;
    let long = "🦀".repeat(2500);
    let last = chat.asked_for(&format!("touch made.txt # {long}"), "Approve once").await;
    let asking: Vec<Said> = chat.server.said().into_iter().filter(|said| !is_progress(said)).collect();
    assert_eq!(asking.last().unwrap().message_id, last.message_id, "{asking:#?}");
    assert!(asking.len() > 1 && asking.iter().rev().skip(1).all(|said| said.button("Decline").is_none()));
    let shown: String = asking.iter().map(|said| said.text.replace("\n… (continued below)", "")).collect();
    assert_eq!(shown.matches('🦀').count(), 2500, "{shown}");
    chat.server.tap(ADA, &last, &last.button("Approve once").unwrap());
    chat.server.until_said(ADA, "Made.").await;
    assert!(chat.is_made());
    chat.shell.end().await;
}

#[tokio::test]
async fn what_an_approver_forwards_is_not_their_yes() {
    let chat = Chat::new().await;
    chat.asked_for("touch made.txt", "Approve once").await;
    // Written by Eve, before anything was asked, and forwarded by Ada.
    chat.server.forward(ADA, EVE, "/approve");
    chat.server.write(ADA, "/deny");
    chat.server.until_said(ADA, "Made.").await;
    assert!(!chat.is_made(), "Eve's words were taken for Ada's yes");
    chat.shell.end().await;
}

#[tokio::test]
async fn of_what_takes_several_messages_only_those_that_may_have_been_said_are_marked() {
    let chat = Chat::new().await;
    // What shows the turn is sent first, then the first of three: the second has to wait, and then its answer is lost.
    for day in [Day::IsSlow(Duration::ZERO), Day::IsSlow(Duration::ZERO), flooded(1), Day::TakesAndDrops] {
        chat.server.have("sendMessage", day);
    }
    chat.shell.model.script("make it", Scenario::new().stall("gate").call(long_command()).then_say("Made."));
    chat.server.write(ADA, "make it");
    chat.start().await;
    chat.server.until_said(ADA, WORKING).await;
    chat.shell.model.release("gate");
    let last = chat.with_button("Approve once").await;
    let asking: Vec<Said> = chat.server.said().into_iter().filter(|said| !is_progress(said)).collect();
    let marked: Vec<bool> = asking.iter().map(|said| said.text.contains(MARK)).collect();
    assert_eq!(marked, [false, false, true, false], "{asking:#?}");
    chat.server.tap(ADA, &last, &last.button("Approve once").unwrap());
    chat.server.until_said(ADA, "Made.").await;
    chat.shell.end().await;
}

/// One that takes three messages.
fn long_command() -> ToolCall {
    ToolCall::exec_escalated(format!("touch made.txt # {}", "x".repeat(9000)), "it is needed")
}

#[tokio::test]
async fn what_is_too_long_to_be_shown_cannot_be_approved_in_a_chat() {
    let chat = Chat::new().await;
    let asked = chat.asked_for(&format!("touch made.txt # {}", "x".repeat(60_000)), "Decline").await;
    assert_eq!(asked.button("Approve once"), None, "{asked:#?}");
    let task = chat.inbox().await[0]["task_id"].as_str().unwrap().to_owned();
    assert!(asked.text.contains(&format!("codex-bridge approve {} req-", short(&task))), "{}", asked.text);
    chat.server.tap(ADA, &asked, &asked.button("Decline").unwrap());
    chat.server.until_said(ADA, "Made.").await;
    assert!(!chat.is_made());
    chat.shell.end().await;
}

#[tokio::test]
async fn a_question_is_answered_with_a_button_and_never_approved() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "go [play] ask Shall it be? => say So be it.");
    chat.start().await;
    let asked = chat.with_button("Yes").await;
    assert!(
        asked.text.contains("Reply to this message") && !asked.text.contains("/approve"),
        "{}",
        asked.text
    );
    assert_eq!((asked.button("Approve once"), asked.button("Decline")), (None, None), "{asked:#?}");
    chat.server.write(ADA, "/approve");
    let told = chat.server.until_said(ADA, "is a question").await;
    assert!(told.text.contains("/answer req-"), "{}", told.text);
    let yes = asked.button("Yes").unwrap();
    let forged = chat.told(&chat.server.tap(ADA, &asked, &yes.replace("q:", "a:").replace(":0", ""))).await;
    assert!(forged.contains("is a question"), "{forged}");

    chat.server.tap(ADA, &asked, &yes);
    chat.server.until_said(ADA, "So be it.").await;
    let answered = chat.server.until_said(ADA, "Answered by User 42").await;
    assert_eq!((answered.message_id, answered.button("Yes")), (asked.message_id, None));
    assert!(chat.answer_of_last_call().contains("Yes"), "{}", chat.answer_of_last_call());
    chat.shell.end().await;
}

#[tokio::test]
async fn several_questions_are_asked_one_after_the_other_with_buttons() {
    let chat = Chat::new().await;
    let questions = [Question::yes_no("colour", "Red?"), Question::yes_no("size", "Big?")];
    let asks = Scenario::new().call(ToolCall::request_user_input(&questions)).then_say("So be it.");
    chat.shell.model.script("choose", asks);
    chat.server.write(ADA, "choose");
    chat.start().await;
    let first = chat.server.until_said(ADA, "Red?").await;
    assert!(!first.text.contains("Big?"), "one at a time: {}", first.text);
    chat.server.tap(ADA, &first, &first.button("Yes").unwrap());
    let second = chat.server.until_said(ADA, "Big?").await;
    assert_eq!(second.message_id, first.message_id, "in the same message");
    assert!(second.text.contains("colour: Yes"), "{}", second.text);
    let repeated = chat.told(&chat.server.tap(ADA, &first, &first.button("No").unwrap())).await;
    assert_eq!(repeated, "", "an answer may be changed before the last one is given");
    let second = chat.server.until_said(ADA, "colour: No").await;
    chat.server.tap(ADA, &second, &second.button("Yes").unwrap());
    chat.server.until_said(ADA, "So be it.").await;
    let told = chat.answer_of_last_call();
    assert!(told.contains("No") && told.contains("Yes"), "{told}");
    let closed = chat.server.until_said(ADA, "Answered by User 42").await;
    assert_eq!(closed.button("Yes"), None);
    chat.shell.end().await;
}

#[tokio::test]
async fn several_questions_can_be_answered_in_words_line_by_line() {
    let chat = Chat::new().await;
    let questions = [Question::yes_no("colour", "Red?"), Question::yes_no("size", "Big?")];
    let asks = Scenario::new().call(ToolCall::request_user_input(&questions)).then_say("So be it.");
    chat.shell.model.script("choose", asks);
    chat.server.write(ADA, "choose");
    chat.start().await;
    let asked = chat.with_button("Yes").await;
    chat.server.reply(ADA, &asked, "Yes");
    let told = chat.server.until_said(ADA, "each needs its answer").await;
    assert!(told.text.contains("colour=YOUR ANSWER\nsize=YOUR ANSWER"), "{}", told.text);
    chat.server.reply(ADA, &asked, "colour=Yes\nsize=rather small");
    chat.server.until_said(ADA, "So be it.").await;
    assert!(chat.answer_of_last_call().contains("rather small"), "{}", chat.answer_of_last_call());
    chat.shell.end().await;
}

#[tokio::test]
async fn a_question_that_is_put_again_after_a_restart_says_how_it_is_answered() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "go [play] ask Shall it be? => say So be it.");
    chat.start().await;
    let first = chat.with_button("Yes").await;
    chat.shell.deliveries(|all| all.iter().any(|one| one["state"] == "delivered")).await;
    chat.shell.kill_daemon_for_good().await;
    chat.start().await;
    let again = chat.server.until_said(ADA, "still waits").await;
    assert!(
        again.text.contains("Reply to this message") && !again.text.contains("/approve"),
        "{}",
        again.text
    );
    assert_ne!(again.message_id, first.message_id);
    chat.server.tap(ADA, &again, &again.button("No").unwrap());
    chat.server.until_said(ADA, "So be it.").await;
    assert!(chat.answer_of_last_call().contains("No"), "{}", chat.answer_of_last_call());
    chat.shell.end().await;
}

#[tokio::test]
async fn a_task_of_another_door_is_decided_with_the_buttons_of_its_notice() {
    let chat = Chat::new().await;
    chat.start().await;
    let run = ["run", "-d", "-s", "workspace-write", "--notify", "telegram:42"];
    let prompt = "go [play] escalate touch made.txt => say All is made.";
    chat.shell.run(&[&run[..], &[prompt]].concat()).await.ok();
    let asked = chat.with_button("Approve once").await;
    chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap());
    let told = chat.server.until_said(ADA, " completed").await;
    assert!(
        told.text.starts_with("Codex task codex-") && told.text.contains("All is made."),
        "{}",
        told.text
    );
    assert!(chat.is_made());
    chat.shell.end().await;
}

#[tokio::test]
async fn a_request_that_nobody_answers_in_time_says_so_and_loses_its_buttons() {
    let chat = Chat::with("answer_limit_s = 4").await;
    let asked = chat.asked().await;
    assert!(asked.text.contains("Declined automatically at"), "{}", asked.text);
    chat.server.until_said(ADA, "nobody answered in time, so it was declined").await;
    let is_closed =
        |server: &Server| server.said().iter().all(|said| said.button("Decline").is_none()).then_some(());
    chat.server.until("the buttons to go", is_closed).await;
    let told = chat.told(&chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap())).await;
    assert!(told.contains("expired before it was answered"), "{told}");
    assert!(!chat.is_made());
    chat.shell.end().await;
}

#[tokio::test]
async fn a_request_whose_codex_has_died_says_so_and_loses_its_buttons() {
    let chat = Chat::new().await;
    let asked = chat.asked().await;
    chat.shell.deliveries(|all| all.iter().any(|one| one["state"] == "delivered")).await;
    signal_codex(&chat.shell, Signal::KILL);
    chat.server.until_said(ADA, "The Codex that worked on this has gone").await;
    chat.server.until_said(ADA, "No longer open").await;
    let is_closed =
        |server: &Server| server.said().iter().all(|said| said.button("Decline").is_none()).then_some(());
    chat.server.until("the buttons to go", is_closed).await;
    let told = chat.told(&chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap())).await;
    assert!(told.contains("ended with its turn before it was answered"), "{told}");
    assert!(!chat.is_made());
    chat.shell.end().await;
}

#[tokio::test]
async fn messages_are_read_while_codex_takes_its_time_with_a_decision() {
    let chat = Chat::new().await;
    let asked = chat.asked().await;
    signal_codex(&chat.shell, Signal::STOP);
    let tap = chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap());
    chat.server.until("the tap to be confirmed", |server| (server.unconfirmed() == 0).then_some(())).await;
    chat.server.write(ADA, "/help");
    chat.server.until_said(ADA, "/usage – tokens").await;
    assert!(chat.server.toasts().is_empty(), "nobody is told that it was taken before it was");
    signal_codex(&chat.shell, Signal::CONT);
    assert!(chat.told(&tap).await.contains("Codex has it"));
    chat.server.until_said(ADA, "Made.").await;
    chat.shell.end().await;
}

#[tokio::test]
async fn a_group_that_becomes_a_supergroup_keeps_its_conversation_and_its_buttons() {
    const BEFORE: i64 = -77;
    const AFTER: i64 = -100_777;
    let chat = Chat::new().await;
    chat.server.write_in(ADA, BEFORE, None, "@codex_bot one [play] say One.");
    chat.start().await;
    chat.server.until_said(BEFORE, "One.").await;
    chat.server.upgrade(ADA, BEFORE, AFTER);
    let written =
        chat.server.write_in(ADA, AFTER, None, "@codex_bot two [play] escalate touch made.txt => say Two.");
    let asked = chat.with_button("Approve once").await;
    chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap());
    let said = chat.server.until_said(AFTER, "Two.").await;
    assert_eq!(said.answers, Some(written), "it answers the message of the new group");
    assert!(chat.is_made());
    let inbox = chat.inbox().await;
    assert!(inbox.iter().all(|one| one["conversation"] == "-77"), "{inbox:#?}");
    assert_eq!(inbox[0]["task_id"], inbox[1]["task_id"], "one thread goes on");
    chat.shell.end().await;
}

/// When a method was called.
fn times(server: &Server, method: &str) -> Vec<Instant> {
    server.calls().into_iter().filter(|(called, _)| called == method).map(|(_, at)| at).collect()
}

#[tokio::test]
async fn a_chat_that_is_flooded_is_left_alone_and_a_group_is_edited_seldom() {
    let chat = Chat::new().await;
    let steps = |gates: &str| {
        let [a, b, c] = [1, 2, 3].map(|number| format!("stall {gates}{number} => exec echo {number} =>"));
        format!("long [play] exec echo 0 => {a} {b} {c} say Done.")
    };
    chat.server.have("editMessageText", flooded(6));
    chat.server.write(ADA, &steps("a"));
    chat.start().await;
    chat.server.until_said(ADA, WORKING).await;
    for gate in ["a1", "a2", "a3"] {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        chat.shell.model.release(gate);
    }
    chat.server.until_said(ADA, "Done in ").await;
    let edits = times(&chat.server, "editMessageText");
    assert!(edits.len() > 1 && edits[1] - edits[0] >= Duration::from_secs(6), "{edits:?}");

    let before = edits.len();
    chat.server.write_in(ADA, GROUP, None, &format!("@codex_bot {}", steps("g")));
    chat.server.until_said(GROUP, WORKING).await;
    for gate in ["g1", "g2", "g3"] {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        chat.shell.model.release(gate);
    }
    chat.server.until_said(GROUP, "Done in ").await;
    let edits = times(&chat.server, "editMessageText").split_off(before);
    assert!(edits.windows(2).all(|pair| pair[1] - pair[0] > Duration::from_secs(5)), "{edits:?}");
    chat.shell.end().await;
}
