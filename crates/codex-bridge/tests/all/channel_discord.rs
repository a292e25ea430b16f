//! A bot of Discord's on the stand-in server and the real Codex: people write, and get what they were promised.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::platform::discord::messages::Said;
use testkit::platform::discord::server::{BLOCKED, BOT, GENERAL, HIDDEN, ROLE, Server, direct, limited};
use testkit::platform::{Answer, Day};

use crate::shell::{PATIENCE, Shell};

/// An approver, a user, and somebody who is neither.
pub const ADA: u64 = 42;
pub const BOB: u64 = 43;
pub const EVE: u64 = 66;
/// `4711` in base64, and two parts that say nothing.
pub const TOKEN: &str = "NDcxMQ.planted.discord-token";
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
        let chat = Self { shell: Shell::new().await, server: Server::open(TOKEN).await };
        chat.shell.configure(&format!(
            "escalations = \"ask\"\n[workspaces]\nmain = \"{}\"\n[channels.discord]\n\
             allow = [\"{ADA}:approver\", \"{BOB}\", \"{BLOCKED}\"]\ntype = \"discord\"\ntoken = \"{TOKEN}\"\napi_base = \"{}\"\n\
             channels = [{GENERAL}]\n",
            chat.shell.home.workspace().display(),
            chat.server.base(),
        ));
        chat
    }

    /// Any command starts the daemon, and with it the channel.
    pub async fn list(&self) -> Value {
        self.shell.run(&["--json", "channel", "list"]).await.ok().json()
    }

    /// The same, and the bot is connected when this returns.
    pub async fn start(&self) -> Value {
        let listed = self.list().await;
        self.server.until_connected().await;
        listed
    }

    /// With the bot connected.
    pub async fn started() -> Self {
        let chat = Self::new().await;
        chat.start().await;
        chat
    }

    pub async fn inbox(&self) -> Vec<Value> {
        self.shell.run(&["--json", "inbox", "--all"]).await.ok().json().as_array().unwrap().clone()
    }

    /// Waits until so many messages came in.
    pub async fn until_inbox(&self, count: usize) -> Vec<Value> {
        let began = Instant::now();
        loop {
            let inbox = self.inbox().await;
            if inbox.len() >= count {
                return inbox;
            }
            assert!(began.elapsed() < PATIENCE, "{count} messages did not come in: {inbox:#?}");
        }
    }

    /// What people see as answers: no progress.
    pub fn answers(&self) -> Vec<Said> {
        self.server.said().into_iter().filter(|said| !is_progress(said)).collect()
    }

    /// Waits for a message with this button.
    pub async fn with_button(&self, button: &str) -> Said {
        let is_it = |said: &Said| said.button(button).is_some();
        self.server.until(button, |server| server.said().into_iter().find(is_it)).await
    }

    /// Has Codex ask Ada for a command, and gives the message that asks.
    pub async fn asked(&self) -> Said {
        self.server.write(ADA, "do it [play] escalate touch made.txt => say Made.");
        self.with_button("Approve once").await
    }

    /// What whoever tapped is told.
    pub async fn told(&self, tap: u64) -> String {
        let told = |server: &Server| server.toasts().into_iter().find(|(id, _)| *id == tap);
        self.server.until("an answer to a tap", told).await.1
    }

    pub fn is_made(&self) -> bool {
        self.shell.home.workspace().join("made.txt").exists()
    }

    /// Nobody was notified, no tap failed, and the bot was not refused more than expected.
    pub async fn end(self) {
        assert_eq!(self.server.notified(), Vec::<String>::new(), "nobody is notified by an answer");
        assert_eq!(self.server.failed_taps(), Vec::<u64>::new(), "every tap was acknowledged in time");
        self.shell.end().await;
    }
}

#[tokio::test]
async fn a_message_is_answered_where_it_was_written() {
    let chat = Chat::started().await;
    let thread = chat.server.begin_thread(GENERAL);
    let private = chat.server.write(ADA, "hello [play] say Hello, Ada @everyone <@43>.");
    let public = chat.server.write_in(BOB, thread, &format!("<@{BOT}> hello [play] say Hello, thread."));
    let said = chat.server.until_said(direct(ADA), "Hello, Ada @everyone <@43>.").await;
    assert_eq!(said.answers, Some(private));
    let said = chat.server.until_said(thread, "Hello, thread.").await;
    assert_eq!(said.answers, Some(public));
    let inbox = chat.inbox().await;
    let conversations: Vec<&str> = inbox.iter().map(|one| one["conversation"].as_str().unwrap()).collect();
    assert!(conversations.contains(&"1000042"), "{conversations:?}");
    assert!(
        conversations.contains(&format!("{GENERAL}/{thread}").as_str()),
        "a thread is one of its channel's: {conversations:?}"
    );
    assert_eq!(chat.answers().len(), 2, "{:#?}", chat.answers());
    let log = chat.shell.log_with("is served").await;
    assert!(!log.contains("planted") && !log.contains("discord-token"), "{log}");
    chat.end().await;
}

#[tokio::test]
async fn an_approval_is_decided_with_a_button_by_who_may_and_by_nobody_else() {
    let chat = Chat::started().await;
    let asked = chat.asked().await;
    assert!(asked.text.contains("touch made.txt"), "the whole command is shown: {}", asked.text);
    let (yes, no) = (asked.button("Approve once").unwrap(), asked.button("Decline").unwrap());

    for button in [&*yes, "x:1"] {
        let tap = chat.server.tap(EVE, &asked, button);
        chat.server
            .until("the tap to be acknowledged", |server| server.is_acknowledged(tap).then_some(()))
            .await;
    }
    let told = chat.told(chat.server.tap(BOB, &asked, &no)).await;
    assert!(told.contains("may not decide"), "{told}");
    assert!(!chat.is_made(), "a stranger's tap counts for nothing");
    assert_eq!(chat.server.toasts().len(), 1, "a stranger is told nothing");
    let knocks = &chat.list().await[0]["knocks"];
    assert_eq!((&knocks[0]["sender_id"], &knocks[0]["count"]), (&"66".into(), &2.into()), "{knocks:#}");
    assert_eq!(chat.server.said().iter().find(|said| said.id == asked.id), Some(&asked));

    let told = chat.told(chat.server.tap(ADA, &asked, &yes)).await;
    assert!(told.contains("Codex has it"), "{told}");
    chat.server.until_said(direct(ADA), "Made.").await;
    assert!(chat.is_made());
    let edited = chat.server.until_said(direct(ADA), "Approved by User 42, ").await;
    assert_eq!((edited.id, edited.button("Approve once")), (asked.id, None));
    assert!(edited.text.starts_with(asked.text.trim_end()), "{}", edited.text);

    let told = chat.told(chat.server.tap(ADA, &asked, &no)).await;
    assert!(told.contains("already answered: approved, by User 42"), "{told}");
    chat.end().await;
}

#[tokio::test]
async fn a_role_in_a_channel_holds_in_its_threads() {
    let chat = Chat::new().await;
    let file = chat.shell.home.dir().join("config.toml");
    let config = fs::read_to_string(&file).unwrap();
    let in_channel = format!("[channels.discord]\nallow_in = {{ \"{GENERAL}\" = [\"{EVE}:approver\"] }}\n");
    fs::write(&file, config.replace("[channels.discord]\n", &in_channel)).unwrap();
    chat.start().await;
    let thread = chat.server.begin_thread(GENERAL);
    chat.server.write(EVE, "let me in [play] say No.");
    chat.server.write_in(EVE, thread, &format!("<@{BOT}> do it [play] escalate touch made.txt => say Made."));
    let asked = chat.with_button("Approve once").await;
    chat.server.tap(EVE, &asked, &asked.button("Approve once").unwrap());
    chat.server.until_said(thread, "Made.").await;
    assert!(chat.is_made());
    assert!(chat.server.said().iter().all(|said| said.channel == thread), "{:#?}", chat.server.said());
    chat.end().await;
}

#[tokio::test]
async fn a_question_is_answered_with_a_button_or_with_a_reply() {
    let chat = Chat::started().await;
    chat.server.write(ADA, "go [play] ask Shall it be? => say So be it.");
    let asked = chat.with_button("Yes").await;
    assert_eq!((asked.button("Approve once"), asked.button("Decline")), (None, None), "{asked:#?}");
    chat.server.tap(ADA, &asked, &asked.button("Yes").unwrap());
    chat.server.until_said(direct(ADA), "So be it.").await;
    let answered = chat.server.until_said(direct(ADA), "Answered by User 42").await;
    assert_eq!((answered.id, answered.button("Yes")), (asked.id, None));
    chat.server.write(ADA, "again [play] ask And this? => say So it is.");
    let asked = chat.server.until_said(direct(ADA), "And this?").await;
    chat.server.reply(ADA, &asked, "rather not");
    chat.server.until_said(direct(ADA), "So it is.").await;
    let given: String = chat.shell.model.requests().iter().map(|request| request.body.to_string()).collect();
    assert!(given.contains("rather not"));
    chat.end().await;
}

#[tokio::test]
async fn a_running_turn_is_shown_in_one_message_that_is_edited_and_every_message_is_acknowledged() {
    let chat = Chat::started().await;
    chat.server.write(ADA, "long [play] exec ls => stall one => exec pwd => say Done.");
    let typing = |server: &Server| server.typing(direct(ADA)).first().copied();
    chat.server.until("the bot to type", typing).await;
    let shown = chat.server.until_said(direct(ADA), WORKING).await;
    chat.server.have("react", Day::Refuses(limited(0.4, false)));
    let waiting = chat.server.write(ADA, "two [play] say Two.");
    let reacted = |message, sign: &'static str| {
        move |server: &Server| server.reactions(message).contains(&sign.to_owned()).then_some(())
    };
    chat.server.until("a sign that it waits", reacted(waiting, "👀")).await;
    let added = chat.server.write(ADA, "!steer and three [play] stall two => say Three.");
    chat.shell.model.release("one");
    chat.server.until("a sign that it was added", reacted(added, "📝")).await;
    chat.shell.model.release("two");
    chat.server.until_said(direct(ADA), "Two.").await;
    let over = chat.server.until_said(direct(ADA), "Done in ").await;
    assert_eq!(over.id, shown.id);
    let lines = chat.server.said().iter().filter(|said| said.text.contains("waits its turn")).count();
    assert_eq!(lines, 0, "a sign that has to wait is no reason for a line");
    let typing = chat.server.typing(direct(ADA));
    assert!(typing.windows(2).all(|pair| pair[1] - pair[0] > Duration::from_secs(4)), "{typing:?}");
    chat.end().await;
}

#[tokio::test]
async fn in_a_server_only_what_is_meant_for_the_bot_is_read() {
    let chat = Chat::started().await;
    chat.server.write_in(BOB, GENERAL, "lunch? [play] say Lunch.");
    chat.server.write_in(EVE, GENERAL, "yes, lunch");
    chat.server.write_in(ADA, GENERAL, "!lunch is a command of another bot");
    chat.server.write_in(EVE, GENERAL, &format!("<@{BOT}> let me in"));
    chat.server.write_in(ADA, HIDDEN, &format!("<@{BOT}> the bot cannot read this"));
    chat.server.write_in(ADA, GENERAL, &format!("<@&{ROLE}> look [play] say Looked."));
    let said = chat.server.until_said(GENERAL, "Looked.").await;
    chat.server.reply(BOB, &said, "and now? [play] say Nothing new.");
    chat.server.until_said(GENERAL, "Nothing new.").await;
    let given: String = chat.shell.model.requests().iter().map(|request| request.body.to_string()).collect();
    assert!(given.contains("In reply to codex:\\n> Looked.\\n\\nand now?"), "{given}");
    assert_eq!(chat.inbox().await.len(), 2);
    let knocks = &chat.list().await[0]["knocks"];
    assert_eq!(knocks.as_array().map(Vec::len), Some(1), "{knocks:#}");
    chat.end().await;
}

#[tokio::test]
async fn commands_are_read_behind_the_bots_name_and_behind_an_exclamation_mark() {
    let chat = Chat::started().await;
    chat.server.write(BOB, "!help");
    chat.server.until_said(direct(BOB), "/usage – tokens").await;
    chat.server.write_in(BOB, GENERAL, &format!("<@{BOT}> /whoami"));
    let who = chat.server.until_said(GENERAL, "You are User 43 (43) on discord").await;
    assert_eq!(who.styled("mention"), Vec::<&str>::new());
    chat.server.forward(ADA, "/new");
    chat.until_inbox(3).await;
    chat.server.write(ADA, "!deny");
    chat.server.until_said(direct(ADA), "no open request").await;
    chat.end().await;
}

#[tokio::test]
async fn a_message_that_waits_can_be_changed_and_a_preview_is_no_change() {
    let chat = Chat::started().await;
    chat.server.write(ADA, "one [play] stall gate => say One.");
    let is_asked = |_: &Server| (!chat.shell.model.requests().is_empty()).then_some(());
    chat.server.until("the model to be asked", is_asked).await;
    let waiting = chat.server.write(ADA, "two [play] say Wrong.");
    chat.server.preview(waiting);
    chat.server.edit(waiting, "two [play] say Right.");
    chat.server.preview(waiting);
    chat.server.until_said(direct(ADA), "Your change was taken over").await;
    chat.shell.model.release("gate");
    chat.server.until_said(direct(ADA), "Right.").await;
    assert!(chat.server.said().iter().all(|said| said.text != "Wrong."));
    let changes = chat.server.said().iter().filter(|said| said.text.contains("Your change")).count();
    assert_eq!(changes, 1);
    chat.end().await;
}

#[tokio::test]
async fn bad_days_cost_time_and_nothing_else() {
    let chat = Chat::new().await;
    chat.server.stutter();
    chat.server.have("me", Day::Drops);
    chat.server.have("gateway", Day::Refuses(Answer::status(502)));
    chat.start().await;
    chat.server.have("createMessage", Day::Refuses(limited(1.2, false)));
    chat.server.have("createMessage", Day::TakesAndDrops);
    chat.server.write(ADA, "hello [play] say Hello.");
    chat.server.write(ADA, "again [play] say Once more.");
    chat.server.until_said(direct(ADA), "Once more.").await;
    chat.shell.deliveries(|all| all.len() == 2 && all.iter().all(|one| one["state"] == "delivered")).await;
    let texts: Vec<String> = chat.answers().into_iter().map(|said| said.text).collect();
    assert_eq!(texts, ["Hello.", "Once more."], "Discord recognises what is sent again");
    assert_eq!(chat.inbox().await.len(), 2, "what comes twice is known");
    chat.end().await;
}

#[tokio::test]
async fn rate_limits_are_kept_without_being_hit_again_and_again() {
    let chat = Chat::started().await;
    for number in 0..9 {
        chat.server.write(BOB, &format!("!approve req-{number}"));
    }
    let all = |server: &Server| (server.said().len() == 9).then_some(());
    chat.server.until("all answers", all).await;
    let refusals = chat.server.refusals();
    assert!(refusals.len() <= 2, "five messages in five seconds: {refusals:?}");
    chat.end().await;
}

#[tokio::test]
async fn a_wrong_token_and_a_missing_intent_stop_the_channel_with_what_to_do() {
    let chat = Chat::new().await;
    chat.server.refuse_intents();
    let told = |what: &'static str| {
        let shell = &chat.shell;
        async move {
            let began = Instant::now();
            loop {
                let listed = shell.run(&["channel", "list"]).await.ok().out;
                if listed.contains(what) {
                    return listed;
                }
                assert!(began.elapsed() < PATIENCE, "{listed}");
            }
        }
    };
    chat.list().await;
    told("switch on Message Content Intent").await;
    chat.shell.run(&["channel", "pause", "discord"]).await.ok();
    let tested = chat.shell.run(&["channel", "test", "discord"]).await;
    assert!(
        tested.code != 0 && tested.err.contains("Message Content Intent"),
        "{}{}",
        tested.out,
        tested.err
    );
    chat.shell.run(&["channel", "run", "discord"]).await;
    chat.shell.run(&["stop", "--hosts"]).await.ok();
    chat.server
        .have("me", Day::Refuses(Answer::json(401, json!({"message": "401: Unauthorized", "code": 0}))));
    chat.list().await;
    let listed = told("Reset Token").await;
    assert!(listed.contains("stopped") && !listed.contains("planted"), "{listed}");
    assert!(chat.server.said().is_empty());
    chat.shell.end().await;
}

#[tokio::test]
async fn who_takes_no_messages_is_left_alone_and_an_unlisted_channel_is_refused() {
    let chat = Chat::started().await;
    chat.server.write(BLOCKED, "hello [play] say Hello, nobody.");
    let dead = |all: &[Value]| all.iter().any(|one| one["state"] == "dead");
    chat.shell.deliveries(dead).await;
    let said = chat.shell.run(&["--json", "run", "-d", "--notify", "discord:7", "hello"]).await;
    assert_eq!(said.failure()["code"], "unknown_target", "{}", said.err);
    let prompt = "go [play] say All is made.";
    let notify = format!("discord:{GENERAL}");
    chat.shell.run(&["run", "-d", "--notify", &notify, prompt]).await.ok();
    chat.server.until_said(GENERAL, "All is made.").await;
    chat.end().await;
}
