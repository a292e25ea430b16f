//! The daemon dies while it sends: nothing is lost, and what may be a repetition says so, unless the receiver knows.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::json;
use testkit::platform::{Answer, Day, Platform, feishu, telegram, webhook};

use crate::dying::{Moments, rounds};
use crate::shell::Shell;

const MARK: &str = "may be a duplicate";

/// The points, and whether the target has the message by then.
const POINTS: [(&str, bool); 2] = [("delivery.before_send", false), ("delivery.sent", true)];

/// Hands a task over to a daemon that dies at this point, and lets the next one finish.
async fn through_a_crash(shell: &Shell, target: &str, point: &str) {
    shell.run_dying_at(&["run", "-d", "--notify", target, "hello [play] say Hello."], point).await.ok();
    shell.until_dead_at(point).await;
    shell.run(&["ps"]).await.ok();
    shell.deliveries(|all| all.len() == 1 && all[0]["state"] == "delivered").await;
}

fn feishu_settings(base: &str) -> String {
    let (id, secret) = (feishu::APP_ID, feishu::APP_SECRET);
    format!(
        "[notify.feishu]\napp_id = \"{id}\"\napp_secret = \"{secret}\"\nchat = \"oc_home\"\napi_base = \"{base}\"\n"
    )
}

async fn with(platform: Platform, settings: impl Fn(&str) -> String) -> (Shell, Platform) {
    let shell = Shell::new().await;
    shell.configure(&settings(platform.base()));
    (shell, platform)
}

#[tokio::test]
async fn a_webhook_gets_the_same_id_again_after_a_crash() {
    for (point, had_it) in POINTS {
        let (shell, hook) =
            with(webhook::open().await, |base| format!("[notify.webhook.ci]\nurl = \"{base}/in\"\n")).await;
        through_a_crash(&shell, "webhook:ci", point).await;
        let taken = hook.taken();
        assert_eq!(taken.len(), 1 + usize::from(had_it), "{point}");
        assert_eq!(webhook::different(&taken), 1, "{point}");
        assert!(taken.iter().all(|one| !one.text.contains(MARK)), "{point}: its receiver knows");
        shell.end().await;
    }
}

#[tokio::test]
async fn telegram_is_told_that_it_may_be_a_duplicate_after_a_crash() {
    for (point, had_it) in POINTS {
        let (shell, bot) = with(telegram::open("4711:token").await, |base| {
            format!("[notify.telegram]\ntoken = \"4711:token\"\nchat = -100\napi_base = \"{base}\"\n")
        })
        .await;
        through_a_crash(&shell, "telegram", point).await;
        let taken = bot.taken();
        assert_eq!(taken.len(), 1 + usize::from(had_it), "{point}");
        let unmarked = taken.iter().filter(|one| !one.text.contains(MARK)).count();
        assert_eq!(unmarked, usize::from(had_it), "{point}: only the repetition is marked: {taken:#?}");
        shell.end().await;
    }
}

#[tokio::test]
async fn feishu_shows_it_once_after_a_crash() {
    for (point, _) in POINTS {
        let (shell, app) = with(feishu::open().await, feishu_settings).await;
        through_a_crash(&shell, "feishu", point).await;
        let shown = feishu::shown(&app.taken());
        assert_eq!(shown.len(), 1, "{point}: {shown:#?}");
        assert!(!shown[0].contains(MARK), "{point}: {shown:#?}");
        shell.end().await;
    }
}

fn feishu_bot_settings(base: &str) -> String {
    format!("[notify.feishu-bot.team]\nurl = \"{base}/hook\"\nsecret = \"s\"\n")
}

fn slack_settings(base: &str) -> String {
    format!("[notify.webhook.slack]\nurl = \"{base}/in\"\nbody = {{ text = \"{{text}}\" }}\n")
}

/// Takes everything, and knows no keys.
async fn service() -> Platform {
    Platform::open(Box::new(|_| Answer::json(200, json!({ "code": 0 })))).await
}

/// Who has no key is sent it again, with a mark.
async fn marked_after_a_crash(target: &str, settings: impl Fn(&str) -> String) {
    for (point, had_it) in POINTS {
        let (shell, service) = with(service().await, &settings).await;
        through_a_crash(&shell, target, point).await;
        let taken = service.taken();
        assert_eq!(taken.len(), 1 + usize::from(had_it), "{target}, {point}");
        let marked = taken.iter().filter(|one| one.text.contains(MARK)).count();
        assert_eq!(marked, 1, "{target}, {point}: only the repetition is marked: {taken:#?}");
        shell.end().await;
    }
}

#[tokio::test]
async fn a_bot_of_feishus_is_told_that_it_may_be_a_duplicate_after_a_crash() {
    marked_after_a_crash("feishu-bot:team", feishu_bot_settings).await;
}

#[tokio::test]
async fn a_webhook_with_a_body_of_its_own_is_told_that_it_may_be_a_duplicate_after_a_crash() {
    marked_after_a_crash("webhook:slack", slack_settings).await;
}

#[tokio::test]
async fn a_program_is_told_that_it_may_be_a_duplicate_after_a_crash() {
    for (point, had_it) in POINTS {
        let shell = Shell::new().await;
        let file = shell.home.dir().join("messages");
        let script = format!("cat >> {0}; echo END >> {0}", file.display());
        shell.configure(&format!("[notify.exec.file]\nargv = [\"sh\", \"-c\", '''{script}''']\n"));
        through_a_crash(&shell, "exec:file", point).await;
        let messages = fs::read_to_string(&file).unwrap();
        assert_eq!(messages.matches("END").count(), 1 + usize::from(had_it), "{point}: {messages}");
        assert_eq!(messages.matches(MARK).count(), 1, "{point}: {messages}");
        shell.end().await;
    }
}

/// The messages that people see at a target.
type Shown = Box<dyn Fn() -> Vec<String>>;

/// Kills the daemon at seeded moments around the end of tasks, and looks at what people see in the end.
async fn killed_at_any_moment(shell: Shell, target: &str, shown: Shown) {
    let tries = rounds();
    let mut moments = Moments::seeded(0x9e37_79b9);
    for round in 1..=tries {
        // A task takes about a tenth of a second; its notice is sent in the last of it.
        let after = moments.within_ms(250);
        let prompt = format!("task number {round}. [play] say Hello.");
        shell.run(&["run", "-d", "--notify", target, &prompt]).await.ok();
        tokio::time::sleep(after).await;
        shell.kill_daemon_for_good().await;
    }
    shell.run(&["ps"]).await.ok();
    shell.deliveries(|all| all.len() == tries && all.iter().all(|one| one["state"] == "delivered")).await;
    let shown = shown();
    for round in 1..=tries {
        let asked = format!("task number {round}.");
        let messages: Vec<&String> = shown.iter().filter(|text| text.contains(&asked)).collect();
        assert!(!messages.is_empty(), "{target}: {asked} was lost");
        let unmarked = messages.iter().filter(|text| !text.contains(MARK)).count();
        assert!(unmarked <= 1, "{target}: {asked} was said {unmarked} times without a mark: {messages:#?}");
    }
    shell.end().await;
}

/// Answers that take their time, so that more of the kills fall between a message and its answer.
fn late() -> Vec<Day> {
    vec![Day::AnswersLate(Duration::from_millis(100)); 1000]
}

/// What a receiver that knows ids shows: each once.
fn once_each(platform: &Platform) -> Vec<String> {
    let by_id: BTreeMap<String, String> =
        platform.taken().into_iter().rev().map(|one| (one.headers["webhook-id"].clone(), one.text)).collect();
    by_id.into_values().collect()
}

#[tokio::test]
async fn a_webhook_sees_everything_once_whenever_the_daemon_is_killed() {
    let (shell, hook) =
        with(webhook::open().await, |base| format!("[notify.webhook.ci]\nurl = \"{base}/in\"\n")).await;
    hook.have(late());
    killed_at_any_moment(shell, "webhook:ci", Box::new(move || once_each(&hook))).await;
}

#[tokio::test]
async fn telegram_sees_everything_and_nothing_twice_unmarked_whenever_the_daemon_is_killed() {
    let (shell, bot) = with(telegram::open("4711:token").await, |base| {
        format!("[notify.telegram]\ntoken = \"4711:token\"\nchat = -100\napi_base = \"{base}\"\n")
    })
    .await;
    bot.have(late());
    let shown = move || bot.taken().into_iter().map(|one| one.text).collect();
    killed_at_any_moment(shell, "telegram", Box::new(shown)).await;
}

#[tokio::test]
async fn feishu_sees_everything_once_whenever_the_daemon_is_killed() {
    let (shell, app) = with(feishu::open().await, feishu_settings).await;
    app.have(late());
    killed_at_any_moment(shell, "feishu", Box::new(move || feishu::shown(&app.taken()))).await;
}

#[tokio::test]
async fn a_bot_of_feishus_sees_everything_and_nothing_twice_unmarked_whenever_the_daemon_is_killed() {
    let (shell, bot) = with(service().await, feishu_bot_settings).await;
    bot.have(late());
    let shown = move || bot.taken().into_iter().map(|one| one.text).collect();
    killed_at_any_moment(shell, "feishu-bot:team", Box::new(shown)).await;
}

#[tokio::test]
async fn a_webhook_with_a_body_of_its_own_sees_nothing_twice_unmarked_whenever_the_daemon_is_killed() {
    let (shell, hook) = with(service().await, slack_settings).await;
    hook.have(late());
    let shown = move || hook.taken().into_iter().map(|one| one.text).collect();
    killed_at_any_moment(shell, "webhook:slack", Box::new(shown)).await;
}

#[tokio::test]
async fn a_program_sees_everything_and_nothing_twice_unmarked_whenever_the_daemon_is_killed() {
    let shell = Shell::new().await;
    let dir = shell.home.dir().join("messages");
    fs::create_dir(&dir).unwrap();
    // Whole or not at all: the daemon may die while it is written.
    let script = format!("cd {} && cat > part.$$ && mv part.$$ whole.$$ && sleep 0.1", dir.display());
    shell.configure(&format!("[notify.exec.file]\nargv = [\"sh\", \"-c\", '''{script}''']\n"));
    let shown = move || {
        let files = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        let whole = files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("whole"));
        whole.map(|path| fs::read_to_string(path).unwrap()).collect()
    };
    killed_at_any_moment(shell, "exec:file", Box::new(shown)).await;
}
