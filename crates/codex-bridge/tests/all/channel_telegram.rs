//! A bot of Telegram's on the stand-in server and the real Codex: people write, and get what they were promised.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::platform::telegram::server::{Said, Server, USERNAME};
use testkit::platform::telegram::{BLOCKED, flooded};
use testkit::platform::{Answer, Day};

use crate::shell::Shell;

/// An approver, a user, and somebody who is neither.
pub const ADA: i64 = 42;
pub const BOB: i64 = 43;
pub const EVE: i64 = 66;
/// A group.
pub const GROUP: i64 = -1001;
const TOKEN: &str = "4711:planted-bot-token";
pub const MARK: &str = "may be a duplicate";
pub const WORKING: &str = "Working · ";

/// Whether a message shows how a turn stands.
pub fn is_progress(said: &Said) -> bool {
    const HEADS: [&str; 6] = [
        "Working · ",
        "Waiting for a decision",
        "Waiting to go on",
        "Done in ",
        "Stopped after ",
        "Failed after ",
    ];
    HEADS.iter().any(|head| said.text.starts_with(head))
}

/// A shell, a server, and a configuration that joins them.
pub struct Chat {
    pub shell: Shell,
    pub server: Server,
}

impl Chat {
    pub async fn new() -> Self {
        Self::with("").await
    }

    /// With these lines at the beginning of the file.
    pub async fn with(lines: &str) -> Self {
        let chat = Self { shell: Shell::new().await, server: Server::open(TOKEN).await };
        chat.shell.configure(&format!(
            "{lines}\nescalations = \"ask\"\n[workspaces]\nmain = \"{}\"\n[channels.telegram]\nallow = [\"{ADA}:approver\", \"{BOB}\", \"{BLOCKED}\"]\n\
             type = \"telegram\"\ntoken = \"{TOKEN}\"\napi_base = \"{}\"\n",
            chat.shell.home.workspace().display(),
            chat.server.base(),
        ));
        chat
    }

    /// Any command starts the daemon, and with it the channel.
    pub async fn start(&self) -> Value {
        self.shell.run(&["--json", "channel", "list"]).await.ok().json()
    }

    pub async fn inbox(&self) -> Vec<Value> {
        self.shell.run(&["--json", "inbox", "--all"]).await.ok().json().as_array().unwrap().clone()
    }

    /// What people see as answers: no progress.
    pub fn answers(&self) -> Vec<Said> {
        self.server.said().into_iter().filter(|said| !is_progress(said)).collect()
    }

    /// Has Codex ask Ada for a command, and gives the message that asks.
    pub async fn asked(&self) -> Said {
        self.server.write(ADA, "do it [play] escalate touch made.txt => say Made.");
        self.start().await;
        self.with_button("Approve once").await
    }

    /// What whoever tapped is told.
    pub async fn told(&self, tap: &str) -> String {
        let told = |server: &Server| server.toasts().into_iter().find(|(id, _)| id == tap);
        self.server.until("an answer to a tap", told).await.1
    }

    pub fn is_made(&self) -> bool {
        self.shell.home.workspace().join("made.txt").exists()
    }
}

#[tokio::test]
async fn a_message_is_answered_where_it_was_written_and_confirmed_once_it_is_durable() {
    let chat = Chat::new().await;
    let (private, topic) = (
        chat.server.write(ADA, "hello [play] say Hello, Ada @everyone."),
        chat.server.write_in(BOB, GROUP, Some(17), &format!("@{USERNAME} hello [play] say Hello, topic.")),
    );
    chat.start().await;
    let said = chat.server.until_said(ADA, "Hello, Ada @everyone.").await;
    assert_eq!((said.answers, said.topic), (Some(private), None));
    let said = chat.server.until_said(GROUP, "Hello, topic.").await;
    assert_eq!((said.answers, said.topic), (Some(topic), Some(17)));
    chat.server.until("all to be confirmed", |server| (server.unconfirmed() == 0).then_some(())).await;
    let inbox = chat.inbox().await;
    let conversations: Vec<&str> = inbox.iter().map(|one| one["conversation"].as_str().unwrap()).collect();
    assert_eq!(conversations.len(), 2, "{inbox:#?}");
    assert!(conversations.contains(&"42") && conversations.contains(&"-1001:17"), "{conversations:?}");
    assert_eq!(chat.answers().len(), 2, "{:#?}", chat.answers());
    let log = chat.shell.log_with("is served").await;
    assert!(!log.contains("planted-bot-token"), "{log}");
    chat.shell.end().await;
}

#[tokio::test]
async fn conversations_go_on_side_by_side_and_each_keeps_its_order() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "first [play] stall gate => say One.");
    chat.server.write(ADA, "second [play] say Two.");
    chat.start().await;
    chat.server.write(BOB, "other [play] say Mine.");
    chat.server.until_said(BOB, "Mine.").await;
    assert!(chat.answers().iter().all(|said| said.chat == BOB), "{:#?}", chat.answers());
    chat.shell.model.release("gate");
    chat.server.until_said(ADA, "Two.").await;
    let texts: Vec<String> =
        chat.answers().into_iter().filter(|said| said.chat == ADA).map(|said| said.text).collect();
    assert_eq!(texts, ["One.", "Two."]);
    let threads: std::collections::BTreeSet<_> =
        chat.shell.model.requests().iter().map(|request| request.thread_id().unwrap().to_owned()).collect();
    assert_eq!(threads.len(), 2, "one thread for each conversation");
    chat.shell.end().await;
}

#[tokio::test]
async fn an_approval_is_decided_with_a_button_by_who_may_and_by_nobody_else() {
    let chat = Chat::new().await;
    let asked = chat.asked().await;
    assert!(asked.text.contains("touch made.txt"), "the whole command is shown: {}", asked.text);
    let (yes, no) = (asked.button("Approve once").unwrap(), asked.button("Decline").unwrap());

    assert_eq!(chat.told(&chat.server.tap(EVE, &asked, &yes)).await, "", "a stranger is told nothing");
    assert_eq!(chat.told(&chat.server.tap(EVE, &asked, "x:1")).await, "", "whatever they tap on");
    let told = chat.told(&chat.server.tap(BOB, &asked, &no)).await;
    assert!(told.contains("may not decide"), "{told}");
    assert!(!chat.is_made(), "a stranger's tap counts for nothing");
    let knocks = &chat.start().await[0]["knocks"];
    assert_eq!((&knocks[0]["sender_id"], &knocks[0]["count"]), (&"66".into(), &2.into()), "{knocks:#}");
    assert_eq!(chat.server.said().iter().find(|said| said.message_id == asked.message_id), Some(&asked));

    chat.server.tap(ADA, &asked, &yes);
    chat.server.until_said(ADA, "Made.").await;
    assert!(chat.is_made());
    let edited = chat.server.until_said(ADA, "Approved by User 42, ").await;
    assert_eq!((edited.message_id, edited.button("Approve once")), (asked.message_id, None));
    assert!(edited.text.starts_with(asked.text.trim_end()), "{}", edited.text);

    let told = chat.told(&chat.server.tap(ADA, &asked, &no)).await;
    assert!(told.contains("already answered: approved, by User 42"), "{told}");
    chat.shell.end().await;
}

#[tokio::test]
async fn a_denied_command_does_not_run() {
    let chat = Chat::new().await;
    let asked = chat.asked().await;
    chat.server.tap(ADA, &asked, &asked.button("Decline").unwrap());
    chat.server.until_said(ADA, "Made.").await;
    chat.server.until_said(ADA, "Declined by User 42").await;
    assert!(!chat.is_made());
    chat.shell.end().await;
}

#[tokio::test]
async fn where_nobody_may_decide_a_request_is_declined_at_once_and_said_to_be() {
    let chat = Chat::new().await;
    chat.server.write(BOB, "do it [play] escalate touch made.txt => say I could not.");
    chat.start().await;
    let said = chat.server.until_said(BOB, "I could not.").await;
    assert!(
        said.text.contains("nobody here may decide") && said.text.contains("touch made.txt"),
        "{}",
        said.text
    );
    assert!(!chat.is_made());
    chat.shell.end().await;
}

#[tokio::test]
async fn an_open_approval_is_put_before_people_again_after_a_restart_and_all_its_buttons_go_with_the_answer()
{
    let chat = Chat::new().await;
    let first = chat.asked().await;
    // With its delivery is stored what must be remembered of the message.
    chat.shell.deliveries(|all| all.iter().any(|one| one["state"] == "delivered")).await;
    chat.shell.kill_daemon_for_good().await;
    chat.start().await;
    let again = chat
        .server
        .until("it to be asked again", |server| {
            server
                .said()
                .into_iter()
                .find(|said| said.message_id != first.message_id && said.button("Approve once").is_some())
        })
        .await;
    assert!(again.text.contains("still waits") && again.text.contains("touch made.txt"), "{}", again.text);
    chat.server.tap(ADA, &again, &again.button("Approve once").unwrap());
    chat.server.until_said(ADA, "Made.").await;
    assert!(chat.is_made());
    chat.server
        .until("all buttons to go", |server| {
            server.said().iter().all(|said| said.button("Approve once").is_none()).then_some(())
        })
        .await;
    chat.shell.end().await;
}

#[tokio::test]
async fn what_was_answered_at_another_door_loses_its_buttons_and_a_tap_is_told_so() {
    let chat = Chat::new().await;
    let asked = chat.asked().await;
    let task = chat.inbox().await[0]["task_id"].as_str().unwrap().to_owned();
    chat.shell.approve(&task).await.ok();
    chat.server.until_said(ADA, "Made.").await;
    let is_closed = |server: &Server| {
        let said = server.said().into_iter().find(|said| said.message_id == asked.message_id)?;
        (said.button("Approve once").is_none() && said.text.contains("Approved by")).then_some(())
    };
    chat.server.until("the buttons to go", is_closed).await;
    let told = chat.told(&chat.server.tap(ADA, &asked, &asked.button("Decline").unwrap())).await;
    assert!(told.contains("already answered"), "{told}");
    chat.shell.end().await;
}

#[tokio::test]
async fn who_is_not_listed_gets_nothing_and_the_operator_sees_who_knocked() {
    let chat = Chat::new().await;
    chat.server.write(EVE, "let me in [play] say No.");
    chat.server.write_in(EVE, GROUP, None, "/status");
    chat.server.write(ADA, "hello [play] say Hello.");
    chat.start().await;
    chat.server.until_said(ADA, "Hello.").await;
    chat.server.until("all to be confirmed", |server| (server.unconfirmed() == 0).then_some(())).await;
    assert!(chat.server.said().iter().all(|said| said.chat == ADA), "{:#?}", chat.server.said());
    let knocks = &chat.start().await[0]["knocks"];
    assert_eq!((&knocks[0]["sender_id"], &knocks[0]["count"]), (&"66".into(), &2.into()), "{knocks:#}");
    chat.shell.end().await;
}

#[tokio::test]
async fn a_running_turn_is_shown_in_one_message_that_is_edited() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "long [play] exec ls => stall one => exec pwd => stall two => say Done.");
    chat.start().await;
    let shown = chat.server.until_said(ADA, WORKING).await;
    chat.server.until_said(ADA, "ls").await;
    chat.shell.model.release("one");
    let edited = chat.server.until_said(ADA, "pwd").await;
    assert_eq!(edited.message_id, shown.message_id);
    chat.shell.model.release("two");
    chat.server.until_said(ADA, "Done.").await;
    let over = chat.server.until_said(ADA, "Done in ").await;
    assert_eq!(over.message_id, shown.message_id);
    let said = chat.server.said();
    assert_eq!(said.len(), 2, "one message for the turn and the answer: {said:#?}");
    let edits: Vec<Instant> = chat
        .server
        .calls()
        .into_iter()
        .filter(|(method, _)| method == "editMessageText")
        .map(|(_, at)| at)
        .collect();
    assert!(edits.windows(2).all(|pair| pair[1] - pair[0] > Duration::from_millis(1500)), "{edits:?}");
    chat.shell.end().await;
}

#[tokio::test]
async fn bad_days_cost_time_and_nothing_else() {
    let chat = Chat::new().await;
    chat.server.set_webhook("https://elsewhere.example/hook");
    chat.server.stutter();
    let conflict = Answer::json(
        409,
        serde_json::json!({"ok": false, "error_code": 409, "description": "Conflict: terminated by other getUpdates request"}),
    );
    chat.server.have("getMe", Day::Drops);
    chat.server.have("getUpdates", Day::Refuses(conflict));
    chat.server.have("getUpdates", Day::TakesAndDrops);
    chat.server.have("getUpdates", flooded(1));
    chat.server.have("getUpdates", Day::Refuses(Answer::status(502)));
    chat.server.have("sendMessage", flooded(1));
    chat.server.have("sendMessage", Day::Drops);
    chat.server.write(ADA, "hello [play] say Hello.");
    chat.server.write(ADA, "again [play] say Once more.");
    chat.start().await;
    chat.server.until_said(ADA, "Once more.").await;
    chat.server.until("all to be confirmed", |server| (server.unconfirmed() == 0).then_some(())).await;
    let texts: Vec<String> = chat.answers().into_iter().map(|said| said.text).collect();
    assert_eq!(texts.len(), 2, "each is answered once: {texts:#?}");
    assert!(texts[0].ends_with("Hello.") && texts[1].ends_with("Once more."), "{texts:#?}");
    assert_eq!(chat.inbox().await.len(), 2, "what comes twice is known");
    chat.shell.end().await;
}

#[tokio::test]
async fn an_answer_that_was_delivered_with_an_error_or_without_words_is_repeated_with_a_mark() {
    // 200 without what Telegram says with it: the answer broke off.
    for status in [502, 200] {
        let chat = Chat::new().await;
        chat.server.have("sendMessage", Day::TakesBut(Answer::status(status)));
        chat.server.write(ADA, "hello [play] say Hello.");
        chat.start().await;
        let marked = chat.server.until_said(ADA, MARK).await;
        let texts: Vec<String> = chat.answers().into_iter().map(|said| said.text).collect();
        assert_eq!(texts, ["Hello.".to_owned(), marked.text], "{status}");
        chat.shell.end().await;
    }
}

#[tokio::test]
async fn a_group_that_moves_is_followed_and_who_blocks_the_bot_is_left_alone() {
    let chat = Chat::new().await;
    chat.server.migrate(GROUP, -1_002_222);
    chat.server.write_in(ADA, GROUP, None, "/queue hello [play] say Hello, group.");
    chat.server.write(BLOCKED, "hello [play] say Hello, nobody.");
    chat.start().await;
    chat.server.until_said(-1_002_222, "Hello, group.").await;
    let dead =
        |all: &[Value]| all.iter().any(|one| one["state"] == "dead" && one["target"] == "telegram:403");
    chat.shell.deliveries(dead).await;
    assert!(chat.server.said().iter().all(|said| said.chat != BLOCKED));
    chat.shell.end().await;
}

#[tokio::test]
async fn without_a_file_the_environment_is_enough_and_a_second_daemon_is_told_who_serves() {
    let shell = Shell::new().await;
    let server = Server::open(TOKEN).await;
    let run = |dir: &str| {
        let mut command = shell.command(&["channel", "run", "telegram", "--allow", "42:approver"]);
        command.env("TELEGRAM_BOT_TOKEN", TOKEN).env("TELEGRAM_API_BASE", server.base());
        command.env("CODEX_BRIDGE_STATE_DIR", shell.home.dir().join(dir));
        command
    };
    // A daemon that runs already knows nothing of the token, until somebody brings it along.
    shell.run(&["--json", "channel", "list"]).await.ok();
    let mut first = run("st").spawn().unwrap();
    server.write(ADA, &format!("hello [play] say Hello, {TOKEN}."));
    let said = server.until_said(ADA, "Hello, ").await;
    assert_eq!(said.text, "Hello, [redacted:known-secret].");

    fs::create_dir(shell.home.dir().join("other")).unwrap();
    let mut second = run("other");
    let second = tokio::task::spawn_blocking(move || second.output().unwrap()).await.unwrap();
    let told = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success() && told.contains("Telegram bot 4711 is served by the daemon"), "{told}");
    assert!(!told.contains("planted-bot-token"), "{told}");

    let mut wrong = shell.command(&["channel", "run", "telegram", "--allow", "@ada"]);
    wrong.env("TELEGRAM_BOT_TOKEN", TOKEN);
    let wrong = tokio::task::spawn_blocking(move || wrong.output().unwrap()).await.unwrap();
    let told = String::from_utf8(wrong.stderr).unwrap();
    assert!(!wrong.status.success() && told.contains("users are numbers"), "{told}");
    shell.run(&["stop", "--hosts"]).await.ok();
    first.wait().unwrap();
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn a_chat_that_is_not_the_operators_is_refused_and_one_of_a_channel_that_rests_waits() {
    let chat = Chat::new().await;
    chat.start().await;
    chat.server.until("the bot to be served", |server| (!server.calls().is_empty()).then_some(())).await;
    let said = chat.shell.run(&["--json", "run", "-d", "--notify", "telegram:-5", "hello"]).await;
    let failure = said.failure();
    assert_eq!(failure["code"], "unknown_target", "{failure}");
    assert!(failure["hint"].as_str().unwrap().contains("telegram:42, telegram:43"), "{failure}");

    chat.shell.run(&["channel", "pause", "telegram"]).await.ok();
    let said = chat.shell.run(&["--json", "run", "-d", "--notify", "telegram:-5", "hello"]).await;
    assert_eq!(said.failure(), failure, "whether or not it is served");
    chat.shell.run(&["run", "-d", "--notify", "telegram:42", "hello [play] say Later."]).await.ok();
    let waits = |all: &[Value]| {
        all.iter()
            .any(|one| one["state"] == "pending" && one["last_error"] == "the channel is not served now")
    };
    chat.shell.deliveries(waits).await;
    assert!(chat.server.said().is_empty(), "{:#?}", chat.server.said());
    chat.shell.end().await;
}

#[tokio::test]
async fn a_channel_that_is_configured_no_more_is_no_target_any_more() {
    let chat = Chat::new().await;
    chat.start().await;
    chat.server.until("the bot to be served", |server| (!server.calls().is_empty()).then_some(())).await;
    chat.shell.run(&["stop", "--hosts"]).await.ok();
    let file = chat.shell.home.dir().join("config.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.split("[channels.telegram]").next().unwrap()).unwrap();
    let said = chat.shell.run(&["--json", "run", "-d", "--notify", "telegram:42", "hello"]).await;
    let failure = said.failure();
    assert_eq!(failure["code"], "unknown_target", "{failure}");
    chat.shell.end().await;
}
