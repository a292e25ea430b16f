//! An app of Slack's on the stand-in server and the real Codex: people write, and get what they were promised.

use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::platform::slack::{ARCHIVED, BOT_USER, Said, Server, dm, error, limited};
use testkit::platform::{Answer, Day};

use crate::shell::Shell;

/// An approver, a user, and somebody who is neither.
pub const ADA: &str = "U0ADA";
pub const BOB: &str = "U0BOB";
pub const EVE: &str = "U0EVE";
/// A channel.
pub const ROOM: &str = "C0ROOM";
const TOKEN: &str = "xoxb-1-planted-bot-token";
const APP_TOKEN: &str = "xapp-1-A0BRIDGE-1-planted-app-token";
const WORKING: &str = "Working · ";

/// Whether a message shows how a turn stands.
fn is_progress(said: &Said) -> bool {
    const HEADS: [&str; 6] = [
        WORKING,
        "Waiting for a decision",
        "Waiting to go on",
        "Done in ",
        "Stopped after ",
        "Failed after ",
    ];
    HEADS.iter().any(|head| said.text.starts_with(head))
}

/// A text that names the bot.
pub fn to_bot(text: &str) -> String {
    format!("<@{BOT_USER}> {text}")
}

/// A shell, a workspace, and a configuration that joins them.
pub struct Chat {
    pub shell: Shell,
    pub server: Server,
}

impl Chat {
    pub async fn new() -> Self {
        Self::with("").await
    }

    /// With these lines more for the channel.
    pub async fn with(lines: &str) -> Self {
        let chat = Self { shell: Shell::new().await, server: Server::open(TOKEN, APP_TOKEN).await };
        chat.shell.configure(&format!(
            "escalations = \"ask\"\n[workspaces]\nmain = \"{}\"\n[channels.slack]\nallow = [\"{ADA}:approver\", \"{BOB}\"]\n\
             type = \"slack\"\ntoken = \"{TOKEN}\"\napp_token = \"{APP_TOKEN}\"\napi_base = \"{}\"\nchannels = [\"{ROOM}\"]\n{lines}\n",
            chat.shell.home.workspace().display(),
            chat.server.base(),
        ));
        chat
    }

    /// Any command starts the daemon, and with it the channel, which is connected when this returns.
    pub async fn start(&self) -> Value {
        let listed = self.shell.run(&["--json", "channel", "list"]).await.ok().json();
        self.server.until_connected().await;
        listed
    }

    pub async fn inbox(&self) -> Vec<Value> {
        self.shell.run(&["--json", "inbox", "--all"]).await.ok().json().as_array().unwrap().clone()
    }

    /// What people see as answers: no progress.
    pub fn answers(&self) -> Vec<Said> {
        self.server.said().into_iter().filter(|said| !is_progress(said)).collect()
    }

    /// Waits for a message with this button.
    async fn with_button(&self, label: &str) -> Said {
        let has = |server: &Server| server.said().into_iter().find(|said| said.button(label).is_some());
        self.server.until(&format!("a button {label:?}"), has).await
    }

    /// Has Codex ask Ada for a command, and gives the message that asks.
    pub async fn asked(&self) -> Said {
        self.start().await;
        self.server.write(ADA, "do it [play] escalate touch made.txt => say Made.");
        self.with_button("Approve once").await
    }

    /// What somebody was told alone, once it contains this.
    async fn told(&self, user: &str, text: &str) -> String {
        let told =
            |server: &Server| server.told().into_iter().find(|(to, told)| to == user && told.contains(text));
        self.server.until(&format!("{user} to be told {text:?}"), told).await.1
    }

    /// Waits for a reaction of the bot's to a message.
    async fn until_reacted(&self, channel: &str, ts: &str, name: &str) {
        let has = |server: &Server| server.reactions(channel, ts).contains(&name.to_owned()).then_some(());
        self.server.until(&format!("{name} at {ts}"), has).await;
    }

    /// Waits until the model is asked so often.
    async fn until_asked(&self, count: usize) {
        let is_asked = |_: &Server| (self.shell.model.requests().len() >= count).then_some(());
        self.server.until("the model to be asked", is_asked).await;
    }

    fn is_made(&self) -> bool {
        self.shell.home.workspace().join("made.txt").exists()
    }
}

#[tokio::test]
async fn a_message_is_answered_where_it_was_written_and_acknowledged_once_it_is_durable() {
    let chat = Chat::new().await;
    chat.server.stutter();
    chat.start().await;
    let began = Instant::now();
    let private = chat.server.write(ADA, "hello [play] say Hello, Ada &lt;!channel&gt; @here.");
    chat.until_reacted(&dm(ADA), &private, "eyes").await;
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "it shows at once that it was read: {:?}",
        began.elapsed()
    );
    let root = chat.server.write_in(BOB, ROOM, None, &to_bot("hello [play] say Hello, thread."));
    chat.server.write_in(BOB, ROOM, None, "lunch? [play] say Lunch.");
    chat.server.write_in(EVE, ROOM, None, "yes, lunch");
    let said = chat.server.until_said(&dm(ADA), "Hello, Ada <!channel> @here.").await;
    assert_eq!(said.thread, None, "a private chat is one conversation");
    let said = chat.server.until_said(ROOM, "Hello, thread.").await;
    assert_eq!(said.thread.as_ref(), Some(&root), "a channel's conversations are its threads");
    chat.server.write_in(BOB, ROOM, Some(&root), "and again [play] say Once more.");
    chat.server.write_in(BOB, ROOM, Some(&root), "<@U0EVE> what do you think? [play] say Nothing.");
    let said = chat.server.until_said(ROOM, "Once more.").await;
    assert_eq!(said.thread.as_ref(), Some(&root), "where the bot takes part nobody has to name it");
    chat.server.until_acknowledged().await;
    let inbox = chat.inbox().await;
    let mut conversations: Vec<&str> =
        inbox.iter().map(|one| one["conversation"].as_str().unwrap()).collect();
    conversations.sort_unstable();
    let thread = format!("{ROOM}/{root}");
    assert_eq!(conversations, [thread.as_str(), &thread, &dm(ADA)], "{inbox:#?}");
    assert_eq!(inbox[0]["sender_name"].as_str().unwrap_or("Name of U0BOB"), "Name of U0BOB", "{inbox:#?}");
    assert_eq!(chat.answers().len(), 3, "{:#?}", chat.answers());
    let knocks = &chat.start().await[0]["knocks"];
    assert_eq!(knocks, &serde_json::json!([]), "who talks to others is no stranger at the door");
    let log = chat.shell.log_with("is served").await;
    assert!(!log.contains("planted"), "{log}");
    chat.shell.end().await;
}

#[tokio::test]
async fn an_approval_is_decided_with_a_button_by_who_may_and_by_nobody_else() {
    let chat = Chat::new().await;
    let asked = chat.asked().await;
    assert!(asked.text.contains("touch made.txt"), "the whole command is shown: {}", asked.text);
    let (yes, no) = (asked.button("Approve once").unwrap(), asked.button("Decline").unwrap());
    assert_eq!(asked.blocks[1]["elements"][0]["style"], "primary");
    assert_eq!(asked.styled("code"), ["/bin/bash -c 'touch made.txt'"]);

    chat.server.tap(EVE, &asked, &yes);
    chat.server.tap(EVE, &asked, "x:1");
    chat.server.tap(BOB, &asked, &no);
    chat.told(BOB, "may not decide").await;
    chat.server.until_acknowledged().await;
    assert!(
        !chat.is_made() && chat.server.told().iter().all(|(to, _)| to != EVE),
        "{:?}",
        chat.server.told()
    );
    let knocks = &chat.start().await[0]["knocks"];
    assert_eq!((&knocks[0]["sender_id"], &knocks[0]["count"]), (&EVE.into(), &2.into()), "{knocks:#}");

    chat.server.tap(ADA, &asked, &yes);
    chat.server.until_said(&dm(ADA), "Made.").await;
    assert!(chat.is_made());
    let edited = chat.server.until_said(&dm(ADA), "Approved by Name of U0ADA, ").await;
    assert_eq!((&edited.ts, edited.button("Approve once")), (&asked.ts, None));
    assert!(edited.text.starts_with(asked.text.trim_end()), "{}", edited.text);
    chat.server.tap(ADA, &asked, &no);
    let told = chat.told(ADA, "already answered").await;
    assert!(told.contains("approved, by Name of U0ADA"), "{told}");
    assert_eq!(
        chat.server.told().len(),
        2,
        "what the message shows is not told again: {:?}",
        chat.server.told()
    );
    chat.shell.end().await;
}

#[tokio::test]
async fn an_open_approval_is_put_before_people_again_after_a_restart_and_all_its_buttons_go_with_the_answer()
{
    let chat = Chat::new().await;
    let first = chat.asked().await;
    chat.shell.deliveries(|all| all.iter().any(|one| one["state"] == "delivered")).await;
    chat.shell.kill_daemon_for_good().await;
    chat.start().await;
    let again = |server: &Server| {
        server.said().into_iter().find(|said| said.ts != first.ts && said.button("Approve once").is_some())
    };
    let again = chat.server.until("it to be asked again", again).await;
    chat.server.tap(ADA, &again, &again.button("Approve once").unwrap());
    chat.server.until_said(&dm(ADA), "Made.").await;
    let is_over = |server: &Server| {
        server.said().iter().all(|said| said.button("Approve once").is_none()).then_some(())
    };
    chat.server.until("all buttons to go", is_over).await;
    chat.shell.end().await;
}

#[tokio::test]
async fn a_question_is_answered_with_a_button_or_in_the_thread() {
    use scripted_model::{Question, Scenario, ToolCall};
    let chat = Chat::new().await;
    let asks = || {
        let question = Question::yes_no("colour", "Which colour shall it be?");
        Scenario::new().call(ToolCall::request_user_input(&[question])).then_say("So be it.")
    };
    chat.shell.model.script("paint it", asks());
    chat.shell.model.script("paint that", asks());
    chat.start().await;
    let root = chat.server.write_in(ADA, ROOM, None, &to_bot("paint it"));
    let asked = chat.server.until_said(ROOM, "Which colour").await;
    assert_eq!(asked.thread.as_ref(), Some(&root));
    chat.server.write_in(ADA, ROOM, Some(&root), "a shade of green");
    chat.server.until_said(ROOM, "So be it.").await;
    let given = || chat.shell.model.requests().iter().map(|one| one.body.to_string()).collect::<String>();
    assert!(given().contains("a shade of green"));

    chat.server.write(ADA, "paint that");
    let asked = chat.server.until_said(&dm(ADA), "Which colour").await;
    let label = ["yes", "Yes", "no", "No"].into_iter().find(|label| asked.button(label).is_some()).unwrap();
    chat.server.tap(ADA, &asked, &asked.button(label).unwrap());
    chat.server.until_said(&dm(ADA), "So be it.").await;
    chat.shell.end().await;
}

#[tokio::test]
async fn commands_work_with_an_exclamation_mark_and_what_waits_shows_that_it_was_read() {
    let chat = Chat::new().await;
    chat.start().await;
    chat.server.write(ADA, "long [play] exec ls => stall one => exec pwd => stall two => say Done.");
    let shown = chat.server.until_said(&dm(ADA), WORKING).await;
    let waiting = chat.server.write(ADA, "next [play] say Next.");
    chat.until_reacted(&dm(ADA), &waiting, "eyes").await;
    chat.server.write(ADA, "!status");
    chat.server.until_said(&dm(ADA), "1 more in the queue").await;
    chat.shell.model.release("one");
    let edited = chat.server.until_said(&dm(ADA), "$ pwd").await;
    assert_eq!(edited.ts, shown.ts, "a running turn is shown in one message that is edited");
    let added = chat.server.write(ADA, "!steer and look twice [play] stall three => say Twice.");
    chat.server.until_acknowledged().await;
    chat.shell.model.release("two");
    chat.until_reacted(&dm(ADA), &added, "pencil2").await;
    chat.shell.model.release("three");
    chat.server.until_said(&dm(ADA), "Next.").await;
    let over = chat.server.until_said(&dm(ADA), "Done in ").await;
    assert_eq!(over.ts, shown.ts);
    chat.server.write(ADA, "!great, thanks [play] say Welcome.");
    chat.server.until_said(&dm(ADA), "Welcome.").await;
    chat.shell.end().await;
}

#[tokio::test]
async fn a_message_that_waits_can_be_changed_and_what_is_shared_reaches_codex_with_its_origin() {
    let chat = Chat::new().await;
    chat.start().await;
    chat.server.write(ADA, "one [play] stall gate => say One.");
    chat.until_asked(1).await;
    let waiting = chat.server.write(ADA, "two [play] say Wrong.");
    chat.until_reacted(&dm(ADA), &waiting, "eyes").await;
    chat.server.edit(&dm(ADA), &waiting, "two [play] say Right.");
    chat.server.until_said(&dm(ADA), "Your change was taken over").await;
    chat.shell.model.release("gate");
    chat.server.until_said(&dm(ADA), "Right.").await;
    assert!(chat.server.said().iter().all(|said| said.text != "Wrong."));
    let shared = serde_json::json!({
        "attachments": [{"is_share": true, "is_msg_unfurl": true, "author_name": "Bob", "text": "/stop <@U0ADA> &amp; go"}],
        "files": [{"id": "F1", "name": "trace.log", "mimetype": "text/plain"}],
    });
    chat.shell.model.script_containing("what is that?", scripted_model::Scenario::new().say("It is it."));
    chat.server.write_with(ADA, &dm(ADA), None, "what is that?", &shared);
    chat.server.until_said(&dm(ADA), "It is it.").await;
    let given = chat.shell.model.requests().last().unwrap().body.to_string();
    assert!(given.contains("In reply to Bob:\\n> /stop @Name of U0ADA & go"), "{given}");
    assert!(given.contains("trace.log; it cannot be read: it is not fetched from Slack]"), "{given}");
    chat.shell.end().await;
}

#[tokio::test]
async fn what_was_written_while_nobody_was_connected_is_read_back_in_order_and_once() {
    let chat = Chat::new().await;
    chat.start().await;
    let root = chat.server.write_in(ADA, ROOM, None, &to_bot("one [play] say Answer one."));
    chat.server.write(ADA, "private [play] say Answer private.");
    chat.server.until_said(ROOM, "Answer one.").await;
    chat.server.until_said(&dm(ADA), "Answer private.").await;
    chat.server.until_acknowledged().await;
    chat.shell.run(&["stop", "--hosts"]).await.ok();
    chat.server.until("no connection", |server| (server.connections().0 == 0).then_some(())).await;
    // A thread that is known, a channel, a chat that never was, and more than one page.
    chat.server.write_in(ADA, ROOM, Some(&root), "two [play] say Answer two.");
    let other = chat.server.write_in(ADA, ROOM, None, &to_bot("three [play] say Answer three."));
    chat.server.write_in(ADA, ROOM, Some(&other), "four [play] say Answer four.");
    chat.server.write(BOB, "five [play] say Answer five.");
    for number in 0..50 {
        chat.server.write_in(EVE, ROOM, None, &format!("chatter {number}"));
    }
    chat.server.have("conversations.history", limited(1));
    chat.server.have("conversations.replies", Day::Drops);
    chat.start().await;
    chat.server.until_said(&dm(BOB), "Answer five.").await;
    for (thread, text) in [(&root, "Answer two."), (&other, "Answer three."), (&other, "Answer four.")] {
        let said = chat.server.until_said(ROOM, text).await;
        assert_eq!(said.thread.as_ref(), Some(thread), "{text}");
    }
    let texts: Vec<String> = chat.answers().into_iter().map(|said| said.text).collect();
    assert_eq!(texts.len(), 6, "each once: {texts:#?}");
    let at = |text: &str| texts.iter().position(|said| said == text).unwrap();
    assert!(at("Answer three.") < at("Answer four."), "{texts:#?}");
    assert_eq!(chat.inbox().await.len(), 6);
    chat.shell.end().await;
}

#[tokio::test]
async fn a_connection_is_replaced_without_a_gap_and_one_that_breaks_is_made_again() {
    let chat = Chat::new().await;
    chat.start().await;
    chat.server.write(ADA, "one [play] say Answer one.");
    chat.server.until_said(&dm(ADA), "Answer one.").await;
    let read = chat.server.count("conversations.history");
    chat.server.refresh("refresh_requested", Duration::from_secs(4));
    chat.server.until("a second connection", |server| (server.connections().0 == 2).then_some(())).await;
    // They come by both.
    for number in 2..6 {
        chat.server.write(ADA, &format!("{number} [play] say Answer {number}."));
    }
    chat.server.until_said(&dm(ADA), "Answer 5.").await;
    chat.server
        .until("the first connection to end", |server| (server.connections() == (1, 2)).then_some(()))
        .await;
    chat.server.write(ADA, "6 [play] say Answer 6.");
    chat.server.until_said(&dm(ADA), "Answer 6.").await;
    assert_eq!(chat.server.count("conversations.history"), read, "nothing was missed");

    chat.server.cut();
    chat.server.write(ADA, "7 [play] say Answer 7.");
    chat.server.until_said(&dm(ADA), "Answer 7.").await;
    chat.server.until_acknowledged().await;
    assert_eq!(chat.answers().len(), 7, "{:#?}", chat.answers());
    chat.shell.end().await;
}

#[tokio::test]
async fn bad_days_cost_time_and_nothing_else() {
    let chat = Chat::new().await;
    chat.server.have("auth.test", Day::Drops);
    chat.server.have("apps.connections.open", limited(1));
    chat.server.have("apps.connections.open", Day::Refuses(Answer::status(502)));
    chat.server.have("users.info", Day::Refuses(error("internal_error")));
    chat.server.have("reactions.add", limited(30));
    chat.start().await;
    chat.server.ignore_acks(true);
    chat.server.have("chat.postMessage", limited(1));
    chat.server.write(ADA, "hello [play] say Hello.");
    chat.server.write(ADA, "again [play] say Once more.");
    chat.server.until_said(&dm(ADA), "Once more.").await;
    chat.server
        .until("envelopes to come again", |server| (server.unacknowledged().1 > 0).then_some(()))
        .await;
    chat.server.ignore_acks(false);
    chat.server.until_acknowledged().await;
    let texts: Vec<String> = chat.answers().into_iter().map(|said| said.text).collect();
    assert_eq!(texts, ["Hello.", "Once more."], "each once");
    assert_eq!(chat.inbox().await.len(), 2, "what comes twice is known");
    chat.shell.end().await;
}

#[tokio::test]
async fn a_token_that_is_not_valid_stops_the_channel_and_says_what_to_do() {
    let chat = Chat::new().await;
    let file = chat.shell.home.dir().join("config.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config.replace(TOKEN, "xoxb-1-another-token")).unwrap();
    chat.shell.run(&["--json", "channel", "list"]).await.ok();
    let log = chat.shell.log_with("invalid_auth").await;
    assert!(!log.contains("another-token"), "{log}");
    let stopped = |channels: &Value| {
        let reason = channels[0].to_string();
        reason.contains("take its tokens from api.slack.com/apps") && reason.contains("stopped")
    };
    let began = Instant::now();
    loop {
        let listed = chat.shell.run(&["--json", "channel", "list"]).await.ok().json();
        if stopped(&listed) {
            break;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{listed:#}");
    }
    chat.shell.run(&["stop", "--hosts"]).await.ok();
    std::fs::write(&file, config).unwrap();
    chat.start().await;
    chat.shell.log_with("@codex in Team is served").await;
    chat.shell.run(&["channel", "pause", "slack"]).await.ok();
    let tested = chat.shell.run(&["channel", "test", "slack"]).await.ok();
    assert!(tested.out.contains("@codex in Team can be reached"), "{}", tested.out);
    chat.server.until("no connection", |server| (server.connections().0 == 0).then_some(())).await;
    chat.shell.end().await;
}

#[tokio::test]
async fn a_notice_goes_to_a_channel_or_a_person_and_a_reply_below_it_reaches_codex() {
    let chat = Chat::with(&format!("channel = \"{ARCHIVED}\"")).await;
    chat.start().await;
    let run = [
        "run",
        "-d",
        "--notify",
        &format!("slack:{ROOM}"),
        "--notify",
        &format!("slack:{BOB}"),
        "--notify",
        "slack",
        "x [play] say Told.",
    ];
    chat.shell.run(&run).await.ok();
    let notice = chat.server.until_said(ROOM, "Told.").await;
    assert_eq!(notice.thread, None);
    chat.server.until_said(&dm(BOB), "Told.").await;
    chat.shell
        .deliveries(|all| all.iter().any(|one| one["state"] == "dead" && one["target"] == "slack"))
        .await;
    let said = chat.shell.run(&["--json", "run", "-d", "--notify", "slack:C0OTHER", "hello"]).await;
    assert_eq!(said.failure()["code"], "unknown_target");
    chat.server.write_in(ADA, ROOM, Some(&notice.ts), "and why? [play] say Because.");
    let said = chat.server.until_said(ROOM, "Because.").await;
    assert_eq!(said.thread, Some(notice.ts));
    chat.shell.end().await;
}
