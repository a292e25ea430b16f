//! Notices reach their targets: on good days, on bad days, and whatever the daemon was doing when it died.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use codex_bridge_core::id::short;
use serde_json::{Value, json};
use testkit::platform::{Answer, Day, Platform, Received, feishu, telegram, webhook};

use crate::shell::{PATIENCE, Shell};

/// 24 bytes and more, as the specification asks for.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BOT_TOKEN: &str = "4711:planted-bot-token";

impl Shell {
    /// Adds to the operator's file, before the first command.
    pub fn configure(&self, more: &str) {
        let file = self.home.dir().join("config.toml");
        fs::write(&file, fs::read_to_string(&file).unwrap() + more).unwrap();
    }

    async fn run_for(&self, targets: &str, prompt: &str) -> String {
        let said = self.run(&["--json", "run", "-d", "--notify", targets, prompt]).await.ok();
        said.json()["task_id"].as_str().unwrap().to_owned()
    }

    /// All deliveries, the newest first, once each is as expected.
    pub async fn deliveries(&self, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let began = Instant::now();
        loop {
            let found = self.run(&["--json", "deliveries", "--all"]).await.ok().json();
            let found = found.as_array().unwrap().clone();
            if is_so(&found) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain: {found:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The only delivery, once it is in this state.
    async fn delivery(&self, state: &str) -> Value {
        self.deliveries(|all| all.len() == 1 && all[0]["state"] == state).await.remove(0)
    }
}

async fn with_webhook() -> (Shell, Platform) {
    let (shell, hook) = (Shell::new().await, webhook::open().await);
    shell.configure(&format!(
        "[channels.ci]\ntype = \"webhook\"\nurl = \"{}/in\"\nsecret = \"{SECRET}\"\n",
        hook.base()
    ));
    (shell, hook)
}

async fn with_telegram() -> (Shell, Platform) {
    let (shell, bot) = (Shell::new().await, telegram::open(BOT_TOKEN).await);
    let chats = format!("chat = -100\nchats = [{}]", telegram::BLOCKED);
    shell.configure(&format!(
        "[channels.telegram]\ntype = \"telegram\"\ntoken = \"{BOT_TOKEN}\"\n{chats}\napi_base = \"{}\"\n",
        bot.base()
    ));
    (shell, bot)
}

async fn with_feishu() -> (Shell, Platform) {
    let (shell, app) = (Shell::new().await, feishu::open().await);
    shell.configure(&format!(
        "[channels.feishu]\ntype = \"feishu\"\napp_id = \"{}\"\napp_secret = \"{}\"\nchat = \"oc_home\"\nchats = [\"oc_left\"]\n\
         api_base = \"{}\"\n",
        feishu::APP_ID,
        feishu::APP_SECRET,
        app.base()
    ));
    (shell, app)
}

fn text(received: &Received) -> &str {
    received.body["text"].as_str().unwrap()
}

const MARK: &str = "may be a duplicate";

/// What the reference library of Standard Webhooks says of a body with the headers of a delivery.
fn judged_by_reference(told: &Received, body: &str) -> String {
    const JUDGE: &str = "import json, sys\nfrom standardwebhooks import Webhook, WebhookVerificationError\n\
        given = json.load(sys.stdin)\ntry:\n    Webhook(given['secret']).verify(given['body'], given['headers'])\n\
        \x20   print('genuine', end='')\nexcept WebhookVerificationError:\n    print('forged', end='')\n";
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/standardwebhooks/bin/python");
    let mut judge = Command::new(tools);
    judge.args(["-c", JUDGE]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut judge = judge.spawn().expect("the reference library is there after `cargo xtask setup`");
    let given = json!({"secret": SECRET, "headers": told.headers, "body": body}).to_string();
    judge.stdin.take().unwrap().write_all(given.as_bytes()).unwrap();
    String::from_utf8(judge.wait_with_output().unwrap().stdout).unwrap()
}

#[tokio::test]
async fn a_channel_that_only_sends_is_listed_and_can_be_neither_served_nor_paused() {
    let shell = Shell::new().await;
    shell.configure("[channels.mail]\ntype = \"exec\"\nargv = [\"true\"]\n");
    let listed = shell.run(&["--json", "channel", "list"]).await.ok().json();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["about"]),
        (&json!("mail"), &json!("the channel only sends")),
        "{listed}"
    );
    for verb in ["run", "test", "pause"] {
        let refused = shell.run(&["channel", verb, "mail"]).await;
        assert!(refused.code != 0 && refused.err.contains("channel mail only sends"), "{}", refused.err);
    }
    for target in ["mail", "exec:mail"] {
        shell.run(&["deliveries", "test", target]).await.ok();
    }
    let told = shell.run(&["--json", "doctor"]).await.json();
    let targets = told.as_array().unwrap().iter().find(|finding| finding["name"] == "targets").unwrap();
    assert!(targets["message"].as_str().unwrap().starts_with("mail; "), "{targets}");
    shell.end().await;
}

#[tokio::test]
async fn the_end_of_a_task_reaches_a_webhook_signed_and_whole() {
    let (shell, hook) = with_webhook().await;
    let id = shell.run_for("webhook:ci", "hello there [play] say All is well.").await;
    let told = hook.until_taken(1).await.remove(0);
    let data = &told.body["data"];
    assert_eq!((&told.body["type"], &data["event"]), (&json!("task.completed"), &json!("completed")));
    assert_eq!((&data["task_id"], &data["status"]), (&json!(id), &json!("completed")));
    assert_eq!(data["answer"], "All is well.");
    assert!(data["prompt"].as_str().unwrap().starts_with("hello there"), "{data:#}");
    assert!(data["work_ms"].is_u64() && data["tokens"].as_u64().unwrap() > 0, "{data:#}");
    let text = data["text"].as_str().unwrap();
    assert!(text.contains("All is well.") && text.contains(short(&id)) && text.contains("tokens"), "{text}");

    let delivery = shell.delivery("delivered").await;
    assert_eq!(told.headers["webhook-id"], delivery["delivery_id"].as_str().unwrap());
    assert_eq!(judged_by_reference(&told, &told.text), "genuine");
    assert_eq!(judged_by_reference(&told, &told.text.replace("All", "Not all")), "forged");
    assert_eq!((&delivery["attempts"], &delivery["in_doubt"]), (&json!(1), &json!(false)));
    let task = shell.run(&["--json", "show", &id]).await.ok().json();
    assert_eq!(task["notification"]["status"], "sent", "{task:#}");
    assert_eq!(shell.run(&["--json", "deliveries"]).await.ok().json(), json!([]), "nothing is left to do");
    shell.end().await;
}

#[tokio::test]
async fn a_program_gets_the_message_on_its_stdin_and_the_notice_as_json() {
    let shell = Shell::new().await;
    let (message, notice) = (shell.home.dir().join("message"), shell.home.dir().join("notice"));
    let script = format!(
        "cat > {0}.part; printf %s \"$CODEX_BRIDGE_NOTICE\" > {1}; mv {0}.part {0}; sleep 300 & exit 0",
        message.display(),
        notice.display()
    );
    shell.configure(&format!("[channels.file]\ntype = \"exec\"\nargv = [\"sh\", \"-c\", '''{script}''']\n"));
    shell.run_for("exec:file", "make a file [play] say Done, @everyone.").await;
    // What it left running is gone with it: asserted at the end of the shell.
    shell.delivery("delivered").await;
    let message = fs::read_to_string(message).unwrap();
    assert!(message.contains("Asked: make a file") && message.contains("Done, ＠everyone."), "{message}");
    let notice: Value = serde_json::from_str(&fs::read_to_string(notice).unwrap()).unwrap();
    assert_eq!((&notice["event"], &notice["answer"]), (&json!("completed"), &json!("Done, @everyone.")));
    shell.end().await;
}

#[tokio::test]
async fn a_program_that_fails_or_hangs_is_tried_again_and_says_why() {
    let shell = Shell::new().await;
    shell.configure(
        "[channels.fails]\ntype = \"exec\"\nargv = [\"sh\", \"-c\", \"echo no such address >&2; exit 3\"]\n\
         [channels.hangs]\ntype = \"exec\"\nargv = [\"sh\", \"-c\", \"sleep 300\"]\ntimeout_s = 1\n\
         [channels.dies]\ntype = \"exec\"\nargv = [\"sh\", \"-c\", \"kill -9 $$\"]\n\
         [channels.lacks]\ntype = \"exec\"\nargv = [\"/nonexistent/program\"]\n",
    );
    shell.run_for("exec:fails exec:hangs exec:lacks exec:dies", "hello [play] say Hello.").await;
    let all = shell.deliveries(|all| all.len() == 4 && all.iter().all(|one| one["attempts"] == 1)).await;
    let of = |target: &str| all.iter().find(|one| one["target"] == target).unwrap();
    let error = |target: &str| of(target)["last_error"].as_str().unwrap();
    assert!(error("exec:fails").contains("exit status: 3: no such address"), "{all:#?}");
    assert!(error("exec:hangs").contains("longer than 1 s"), "{all:#?}");
    assert!(error("exec:lacks").contains("cannot be run"), "{all:#?}");
    for (target, in_doubt) in
        [("exec:fails", false), ("exec:lacks", false), ("exec:hangs", true), ("exec:dies", true)]
    {
        assert_eq!(of(target)["in_doubt"], in_doubt, "{target}: {all:#?}");
    }
    assert!(all.iter().all(|one| one["state"] == "pending" && one["next_at"].is_string()), "{all:#?}");
    shell.end().await;
}

#[tokio::test]
async fn a_target_that_is_not_known_is_refused_with_those_that_are() {
    let (shell, _hook) = with_webhook().await;
    for (target, why) in [
        ("webhook:cd", "is not configured"),
        ("pigeon:roof", "no channel has this name"),
        ("telegram:-5", "is not configured"),
        ("molecule:canvas", "is not configured"),
        ("webhook:ci?on=sometimes", "unknown occasion"),
    ] {
        let said = shell.run(&["--json", "run", "-d", "--notify", target, "hello"]).await;
        let failure = said.failure();
        assert_eq!((said.code, &failure["code"]), (2, &json!("unknown_target")), "{target}: {failure}");
        assert!(failure["message"].as_str().unwrap().contains(why), "{target}: {failure}");
    }
    for targets in [json!("webhook:cd"), json!(["webhook:ci", "webhook:cd"])] {
        let (code, error) =
            shell.refused(json!({"action": "start", "prompt": "x", "notify_target": targets})).await;
        assert_eq!(code, "unknown_target", "{error}");
    }
    let said = shell.run(&["--json", "run", "-d", "--notify", "webhook:cd", "hello"]).await;
    assert!(said.failure()["hint"].as_str().unwrap().contains("local, ci"), "{}", said.err);
    assert_eq!(shell.run(&["--json", "ps", "--all"]).await.ok().json(), json!([]), "nothing was started");
    shell.end().await;
}

#[tokio::test]
async fn a_target_hears_only_of_what_it_asked_for() {
    let (shell, hook) = with_webhook().await;
    shell.configure(&format!("[channels.all]\ntype = \"webhook\"\nurl = \"{}/all\"\n", hook.base()));
    let targets = "webhook:ci?on=failed,webhook:all?on=completed,paused";
    shell.run_for(targets, "hello [play] say Hello.").await;
    let told = hook.until_taken(1).await;
    assert_eq!((told.len(), told[0].path.as_str()), (1, "/all"));
    shell.delivery("delivered").await;
    shell.end().await;
}

#[tokio::test]
async fn an_approval_is_told_in_full_once_and_not_after_it_was_answered() {
    let (shell, hook) = with_webhook().await;
    let id = shell.run_for("webhook:ci", "go [play] exec touch asked.txt; say Done.").await;
    let told = hook.until_taken(1).await.remove(0);
    let data = &told.body["data"];
    assert_eq!(data["event"], "approval", "{data:#}");
    let text = data["text"].as_str().unwrap();
    let request = data["requests"][0]["request_id"].as_str().unwrap();
    assert!(text.contains("touch asked.txt"), "{text}");
    assert!(text.contains(&shell.home.workspace().display().to_string()), "{text}");
    assert!(text.contains(&format!("codex-bridge approve {} {}\n", short(&id), short(request))), "{text}");
    shell.approve(&id).await.ok();
    let told = hook.until_taken(2).await;
    assert_eq!(told[1].body["data"]["event"], "completed");
    shell.deliveries(|all| all.len() == 2 && all.iter().all(|one| one["state"] == "delivered")).await;

    // Answered at once: by the time it would be told there is nothing to tell.
    let id = shell.run_for("webhook:ci", "again [play] exec touch again.txt; say Done.").await;
    shell.run(&["--json", "wait", &id, "--timeout", "120"]).await;
    shell.approve(&id).await.ok();
    let all = shell.deliveries(|all| all.len() == 4 && all[1]["state"] == "withdrawn").await;
    assert_eq!((&all[1]["event"], &all[0]["event"]), (&json!("approval"), &json!("completed")), "{all:#?}");
    assert_eq!(hook.until_taken(3).await.len(), 3, "{all:#?}");
    shell.end().await;
}

#[tokio::test]
async fn a_webhook_that_asks_for_time_gets_it_and_one_that_fails_is_sent_the_same_again() {
    let (shell, hook) = with_webhook().await;
    let after_all = Day::TakesBut(Answer::status(500));
    hook.have([webhook::busy(2), after_all]);
    shell.run_for("webhook:ci", "hello [play] say Hello.").await;
    let received = hook.until_received(3).await;
    assert!(received[1].at - received[0].at >= Duration::from_secs(2), "it was asked to wait");
    assert!(received[2].at - received[1].at >= Duration::from_secs(5), "it backs off");
    assert_eq!(webhook::different(&received), 1, "the same id each time");
    assert_eq!(received[1].body, received[2].body, "and the same words");
    assert!(!received[2].text.contains(MARK), "a receiver that knows ids needs no mark");
    let delivery = shell.delivery("delivered").await;
    assert_eq!(delivery["attempts"], 2, "a wait that was asked for is no attempt: {delivery:#}");
    shell.end().await;
}

#[tokio::test]
async fn a_webhook_that_is_gone_is_left_alone_until_somebody_says_so() {
    let (shell, hook) = with_webhook().await;
    hook.have([webhook::gone()]);
    shell.run_for("webhook:ci", "one [play] say One.").await;
    let dead = shell.delivery("dead").await;
    assert!(dead["last_error"].as_str().unwrap().contains("410"), "{dead:#}");

    // The next one is not even tried, also not by the next daemon.
    shell.run(&["stop"]).await.ok();
    let id = shell.run_for("webhook:ci", "two [play] say Two.").await;
    let all = shell.deliveries(|all| all.len() == 2 && all[0]["state"] == "dead").await;
    assert_eq!(hook.received().len(), 1, "{all:#?}");
    let task = shell.run(&["--json", "show", &id]).await.ok().json();
    assert_eq!(task["notification"]["status"], "failed", "{task:#}");

    let of_second = all[0]["delivery_id"].as_str().unwrap();
    shell.run(&["deliveries", "retry", of_second]).await.ok();
    assert_eq!(hook.until_taken(1).await[0].headers["webhook-id"], of_second);
    // From now on it is as good as any other, for the next daemon too.
    shell.run(&["stop"]).await.ok();
    shell.run_for("webhook:ci", "three [play] say Three.").await;
    hook.until_taken(2).await;
    shell.run(&["deliveries", "retry", dead["delivery_id"].as_str().unwrap()]).await.ok();
    hook.until_taken(3).await;
    shell.deliveries(|all| all.iter().all(|one| one["state"] == "delivered")).await;
    let again = shell.run(&["--json", "deliveries", "retry", of_second]).await;
    assert_eq!(again.failure()["code"], "refused", "what was delivered is not sent again");
    shell.end().await;
}

#[tokio::test]
async fn a_slow_target_holds_up_nobody_else() {
    let (shell, hook) = with_webhook().await;
    let slow = webhook::open().await;
    slow.have([Day::IsSlow(Duration::from_secs(8))]);
    shell.configure(&format!("[channels.slow]\ntype = \"webhook\"\nurl = \"{}/in\"\n", slow.base()));
    for number in 0..3 {
        shell.run_for("webhook:slow webhook:ci", &format!("task {number} [play] say Hello.")).await;
    }
    hook.until_taken(3).await;
    assert!(slow.taken().is_empty(), "the slow one is still at it");
    slow.until_taken(3).await;
    shell.end().await;
}

#[tokio::test]
async fn telegram_gets_messages_that_fit_and_floods_are_waited_out() {
    let (shell, bot) = with_telegram().await;
    bot.have([telegram::flooded(2)]);
    let long = format!("go [play] say {}", "𝄞 a word of an answer ".repeat(600));
    let id = shell.run_for("telegram", &long).await;
    let [told, rest] = bot.until_taken(2).await.try_into().unwrap();
    let received = bot.received();
    assert!(received[1].at - received[0].at >= Duration::from_secs(2), "it was asked to wait");
    assert_eq!((&told.body["chat_id"], &told.body["parse_mode"]), (&json!(-100), &Value::Null));
    let units = told.body["text"].as_str().unwrap().encode_utf16().count();
    assert!((3900..=4096).contains(&units), "as much as fits: {units}");
    // A notification has only the beginning of an answer.
    assert!(text(&rest).contains(&format!("codex-bridge show {}`", short(&id))), "{}", text(&rest));
    assert!(!text(&told).contains(MARK) && !text(&rest).contains(MARK), "a flood is no doubt");
    assert_eq!(shell.delivery("delivered").await["message_id"], "9");
    shell.end().await;
}

#[tokio::test]
async fn telegram_marks_what_may_have_been_said_before_and_gives_a_dead_chat_up() {
    let (shell, bot) = with_telegram().await;
    // An answer that breaks off says nothing either way.
    bot.have([Day::TakesBut(Answer::status(200))]);
    shell.run_for("telegram", "hello [play] say Hello.").await;
    let told = bot.until_taken(2).await;
    assert!(!text(&told[0]).contains(MARK) && text(&told[1]).contains(MARK), "{told:#?}");
    shell.delivery("delivered").await;

    shell.run_for(&format!("telegram:{}", telegram::BLOCKED), "hello [play] say Hello.").await;
    let all = shell.deliveries(|all| all.len() == 2 && all[0]["state"] == "dead").await;
    assert!(all[0]["last_error"].as_str().unwrap().contains("blocked"), "{all:#?}");
    let said = shell.run(&["--json", "run", "-d", "--notify", "telegram:-999", "hello"]).await;
    assert_eq!(said.failure()["code"], "unknown_target", "a chat that is not the operator's");
    shell.end().await;
}

#[tokio::test]
async fn feishu_shows_a_message_once_however_often_it_was_sent() {
    let (shell, app) = with_feishu().await;
    shell.run_for("feishu", "one [play] say One.").await;
    shell.delivery("delivered").await;
    app.have([Day::TakesAndDrops]);
    shell.run_for("feishu", "two [play] say Two, <at user_id=\"all\">all</at>.").await;
    shell.deliveries(|all| all.len() == 2 && all[0]["state"] == "delivered").await;
    app.have([Day::TakesBut(Answer::status(502))]);
    shell.run_for("feishu", "three [play] say Three.").await;
    shell.deliveries(|all| all.len() == 3 && all[0]["state"] == "delivered").await;
    let taken = app.taken();
    let shown = feishu::shown(&taken);
    assert_eq!(shown.len(), 3, "{shown:#?}");
    assert!(shown.iter().any(|text| text.contains("＜at user_id")) && !shown.concat().contains(MARK));
    let messages = taken.iter().filter(|one| one.body["uuid"].is_string());
    assert_eq!(messages.clone().count(), 1 + 2 + 2, "each was sent again: {taken:#?}");
    assert!(messages.into_iter().all(|one| one.path.ends_with("receive_id_type=chat_id")));
    assert_eq!(taken.len(), 1 + 1 + 2 + 2, "one token for all");

    shell.run_for("feishu:oc_left", "four [play] say Four.").await;
    shell.deliveries(|all| all.len() == 4 && all[0]["state"] == "dead").await;
    shell.end().await;
}

#[tokio::test]
async fn a_feishu_bot_gets_a_signed_message() {
    let (shell, group) = (Shell::new().await, webhook::open().await);
    shell.configure(&format!(
        "[channels.team]\ntype = \"feishu-bot\"\nurl = \"{}/open-apis/bot/v2/hook/planted-hook-id\"\nsecret = \"planted-secret\"\n",
        group.base()
    ));
    group.have([Day::Refuses(Answer::json(200, json!({"code": 19_021, "msg": "sign match fail"})))]);
    shell.run_for("feishu-bot:team", "hello [play] say Hello.").await;
    let dead = shell.delivery("dead").await;
    assert!(dead["last_error"].as_str().unwrap().contains("sign match fail"), "{dead:#}");
    // The first answer breaks off.
    let taken = Answer::json(200, json!({"code": 0}));
    group.have([Day::TakesBut(Answer::status(200)), Day::TakesBut(taken)]);
    shell.run(&["deliveries", "retry", dead["delivery_id"].as_str().unwrap()]).await.ok();
    let told = group.until_taken(2).await;
    assert!(!told[0].text.contains(MARK) && told[1].text.contains(MARK), "{told:#?}");
    let told = &told[0];
    assert!(told.body["sign"].is_string() && told.body["timestamp"].is_string(), "{told:#?}");
    assert!(told.body["content"]["text"].as_str().unwrap().contains("Hello."));
    shell.delivery("delivered").await;
    shell.end().await;
}

#[tokio::test]
async fn a_service_gets_the_body_that_it_wants() {
    let (shell, slack) = (Shell::new().await, webhook::open().await);
    shell.configure(&format!(
        "[channels.slack]\ntype = \"webhook\"\nurl = \"{}/services/planted-path-of-a-hook\"\n\
         body = {{ text = \"{{title}}: {{text}}\", unfurl_links = false }}\nlimit = 300\n",
        slack.base()
    ));
    shell.run(&["deliveries", "test", "webhook:slack"]).await.ok();
    assert_eq!(slack.taken()[0].body["unfurl_links"], false);
    slack.have([Day::TakesAndDrops]);
    shell.run_for("webhook:slack", "hello [play] say {title} \"quoted\" <!channel>").await;
    let told = slack.until_taken(3).await;
    assert!(text(&told[1]).contains("{title} \"quoted\" ＜!channel>"), "{}", text(&told[1]));
    assert!(!text(&told[1]).contains(MARK) && text(&told[2]).contains(MARK), "it knows no ids");
    shell.end().await;
}

#[tokio::test]
async fn a_test_of_a_target_says_at_once_whether_it_was_reached() {
    let (shell, hook) = with_webhook().await;
    shell.run(&["deliveries", "test", "webhook:ci"]).await.ok();
    assert_eq!(hook.taken()[0].body["type"], "task.test");
    hook.have([Day::Refuses(Answer::status(404))]);
    let said = shell.run(&["--json", "deliveries", "test", "webhook:ci"]).await;
    assert_eq!((said.code, &said.failure()["code"]), (1, &json!("undelivered")));
    assert!(said.failure()["message"].as_str().unwrap().contains("404"));
    assert_eq!(shell.run(&["--json", "deliveries", "--all"]).await.ok().json(), json!([]));
    let audit = shell.run(&["--json", "audit"]).await.ok().json();
    let line = |at: usize| (&audit[at]["by"], &audit[at]["action"], &audit[at]["detail"]);
    let noted = (&json!("local user"), &json!("test delivery"), &json!("webhook:ci"));
    assert_eq!(
        [line(0), line(1)],
        [noted, noted],
        "reached or not, who had it sent is on the record: {audit:#}"
    );
    shell.end().await;
}

#[tokio::test]
async fn no_secret_of_a_target_is_in_what_is_stored_logged_or_said() {
    let (shell, bot) = with_telegram().await;
    let hook = webhook::open().await;
    shell.configure(&format!(
        "[channels.ci]\ntype = \"webhook\"\nurl = \"{}/planted-path-of-a-hook\"\n",
        hook.base()
    ));
    let echo = json!({"ok": false, "description": format!("no such bot: {BOT_TOKEN}")});
    bot.have([Day::Refuses(Answer::json(404, echo))]);
    hook.have([Day::Drops]);
    let prompt = format!("go [play] say The token is {BOT_TOKEN} and the path planted-path-of-a-hook.");
    let id = shell.run_for("telegram webhook:ci", &prompt).await;
    let all = shell.deliveries(|all| all.len() == 2 && all.iter().all(|one| one["attempts"] == 1)).await;
    let show = shell.run(&["--json", "show", &id]).await.ok().out;
    let test = shell.run(&["--json", "deliveries", "test", "telegram"]).await;
    for (what, said) in
        [("deliveries", format!("{all:?}")), ("show", show), ("test", format!("{}{}", test.out, test.err))]
    {
        assert!(!said.contains("planted"), "{what}: {said}");
    }
    shell.run(&["stop"]).await.ok();
    let files: Vec<PathBuf> =
        fs::read_dir(shell.home.dir().join("st")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_there = |name: &str| files.iter().any(|file| file.ends_with(name));
    assert!(is_there("tasks.db") && is_there("daemon.log"), "{files:?}");
    let mut stored = String::new();
    for file in files.iter().filter(|file| file.is_file()) {
        let held = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        assert!(!held.contains("planted"), "{}", file.display());
        stored.push_str(&held);
    }
    assert!(stored.contains("webhook:ci"), "what is looked for would be found");
    shell.end().await;
}

// peer: BR7
#[tokio::test]
async fn who_asks_is_told_how_far_the_outbox_is() {
    let (shell, hook) = with_webhook().await;
    hook.have([Day::Refuses(Answer::status(404))]);
    let call = json!({"action": "start", "prompt": "hello [play] say Hello.", "notify_target": "webhook:ci"});
    let id = shell.told(call).await["task_id"].as_str().unwrap().to_owned();
    shell.ended(&id).await;
    shell.deliveries(|all| all.len() == 1 && all[0]["attempts"] == 1).await;
    let told = shell.told(json!({"action": "notify_completed"})).await["notifications"][0].clone();
    assert_eq!((&told["notification_status"], &told["sent"]), (&json!("pending"), &json!(false)));
    assert!(told["error"].as_str().unwrap().contains("404"), "{told:#}");
    shell.delivery("delivered").await;
    let told = shell.told(json!({"action": "notify_completed"})).await["notifications"][0].clone();
    assert_eq!((&told["notification_status"], &told["sent"]), (&json!("sent"), &json!(true)), "{told:#}");
    assert_eq!(shell.told(json!({"action": "notify_completed"})).await["processed"], 0);
    assert_eq!(hook.taken().len(), 1, "asking sends nothing");
    shell.end().await;
}
