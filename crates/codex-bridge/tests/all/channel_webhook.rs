//! Work that arrives by a signed POST, signed by the reference library of Standard Webhooks.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testkit::platform::{Platform, webhook};

use crate::dying::{Moments, Source, on_the_way_from, rounds};
use crate::http_rig::{Answer, Port};
use crate::shell::{PATIENCE, until};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What the reference library signs a body with.
fn signed_by_reference(id: &str, at: u64, body: &str) -> String {
    all_signed_by_reference(&[id.to_owned()], at, body).remove(0)
}

/// The same for one body under several names.
fn all_signed_by_reference(ids: &[String], at: u64, body: &str) -> Vec<String> {
    const SIGNER: &str = "import datetime, json, sys\nfrom standardwebhooks import Webhook\n\
        given = json.load(sys.stdin)\nat = datetime.datetime.fromtimestamp(given['at'], datetime.timezone.utc)\n\
        hook = Webhook(given['secret'])\n\
        print(json.dumps([hook.sign(id, at, given['body']) for id in given['ids']]), end='')\n";
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/standardwebhooks/bin/python");
    let mut signer = Command::new(tools);
    signer.args(["-c", SIGNER]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut signer = signer.spawn().expect("the reference library is there after `cargo xtask setup`");
    let given = json!({"secret": SECRET, "ids": ids, "at": at, "body": body}).to_string();
    signer.stdin.take().unwrap().write_all(given.as_bytes()).unwrap();
    serde_json::from_slice(&signer.wait_with_output().unwrap().stdout).unwrap()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A port with a hook, and a receiver of its replies.
async fn with_hook() -> (Port, Platform) {
    let (port, receiver) = configured().await;
    port.shell.run(&["channel", "list"]).await.ok();
    (port, receiver)
}

/// The same, and nothing is started yet.
async fn configured() -> (Port, Platform) {
    configured_with("").await
}

/// The same with these keys at the beginning of the file.
async fn configured_with(keys: &str) -> (Port, Platform) {
    let (port, receiver) = (Port::new().await, webhook::open().await);
    let workspace = port.shell.home.workspace();
    port.configure(
        keys,
        &format!(
            "[workspaces]\nmain = \"{}\"\n[channels.ci.webhook]\nsecret = \"{SECRET}\"\n\
             [notify.webhook.back]\nurl = \"{}/in\"\n",
            workspace.display(),
            receiver.base()
        ),
    );
    (port, receiver)
}

async fn post(port: &Port, id: &str, at: u64, body: &Value, signed: &Value) -> Answer {
    post_signed(port, id, at, body, &signed_by_reference(id, at, &signed.to_string())).await
}

async fn post_signed(port: &Port, id: &str, at: u64, body: &Value, signature: &str) -> Answer {
    let call =
        port.post("/hooks/ci", body).header("webhook-id", id).header("webhook-timestamp", &at.to_string());
    call.header("webhook-signature", signature).send().await
}

#[tokio::test]
async fn signed_work_is_taken_once_and_its_answer_goes_where_it_is_wanted() {
    let (port, receiver) = with_hook().await;
    let body = json!({"text": "build [play] say Built.", "conversation": "main", "reply_to": "webhook:back"});
    let taken = post(&port, "msg_1", now_s(), &body, &body).await;
    assert_eq!(taken.status, 202, "{}", taken.body);
    let inbox_id = taken.json()["inbox_id"].as_str().unwrap().to_owned();
    assert!(inbox_id.starts_with("in-"), "{inbox_id}");
    let again = post(&port, "msg_1", now_s(), &body, &body).await;
    assert_eq!((again.status, &again.json()["inbox_id"]), (202, &json!(inbox_id)), "the same answer");
    let told = receiver.until_taken(1).await.remove(0);
    assert!(told.body["data"]["text"].as_str().unwrap().contains("Built."), "{}", told.text);

    let second =
        json!({"text": "and [play] say Once more.", "conversation": "main", "reply_to": "webhook:back"});
    assert_eq!(post(&port, "msg_2", now_s(), &second, &second).await.status, 202);
    receiver.until_taken(2).await;
    let requests = port.shell.model.requests();
    assert_eq!(requests.len(), 2, "what came twice ran once");
    assert_eq!(requests[0].thread_id(), requests[1].thread_id(), "one conversation, one thread");
    port.shell.end().await;
}

#[tokio::test]
async fn a_hook_is_answered_only_when_the_bridge_has_its_rules() {
    let (port, _receiver) = configured().await;
    let (body, at) = (json!({"text": "build [play] say Built."}), now_s());
    let signature = signed_by_reference("msg_1", at, &body.to_string());
    // Asked again and again while the daemon starts: the first answer counts.
    let first = async {
        loop {
            let call = port.post("/hooks/ci", &body).header("webhook-id", "msg_1");
            let call = call.header("webhook-timestamp", &at.to_string());
            match tokio::spawn(call.header("webhook-signature", &signature).send()).await {
                Ok(answer) => break answer,
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    };
    let (started, first) = tokio::join!(port.shell.run(&["channel", "list"]), first);
    started.ok();
    assert_eq!(first.status, 202, "{}", first.body);
    port.shell.end().await;
}

#[tokio::test]
async fn what_finds_no_room_is_not_taken_and_may_come_again() {
    let (port, _receiver) = with_hook().await;
    let body = json!({"text": "build [play] stall gate => say Built.", "conversation": "main"});
    let ids: Vec<String> = (0..300).map(|number| format!("msg_{number}")).collect();
    let at = now_s();
    let signatures = all_signed_by_reference(&ids, at, &body.to_string());
    let mut taken = 0;
    let refused = loop {
        let answer = post_signed(&port, &ids[taken], at, &body, &signatures[taken]).await;
        if answer.status != 202 {
            break answer;
        }
        taken += 1;
    };
    assert_eq!((refused.status, refused.json()["code"].as_str()), (429, Some("no_room")), "{}", refused.body);
    assert!(refused.header("retry-after").parse::<u64>().is_ok(), "{:?}", refused.headers);
    assert!(taken >= 200, "{taken} were taken");
    let inbox = port.shell.run(&["--json", "inbox", "--all"]).await.ok().json();
    let is_refused = |one: &Value| one["external_id"] == ids[taken];
    assert!(!inbox.as_array().unwrap().iter().any(is_refused), "nothing of it is kept");
    port.shell.end().await;
}

#[tokio::test]
async fn what_is_not_signed_or_not_fresh_or_not_for_a_hook_is_refused() {
    let (port, _) = with_hook().await;
    let body = json!({"text": "build [play] say Built."});
    let other = json!({"text": "destroy [play] say Gone."});
    let forged = post(&port, "msg_1", now_s(), &other, &body).await;
    assert_eq!(
        (forged.status, forged.json()["code"].as_str()),
        (401, Some("unauthorized")),
        "{}",
        forged.body
    );
    assert_eq!(post(&port, "msg_1", now_s() - 400, &body, &body).await.status, 401, "too old");
    assert_eq!(post(&port, "msg_1", now_s() + 400, &body, &body).await.status, 401, "from the future");
    assert_eq!(port.post("/hooks/ci", &body).send().await.status, 401, "unsigned");
    assert_eq!(port.post("/hooks/other", &body).send().await.status, 404);
    assert_eq!(port.post("/v1/tasks", &body).send().await.status, 401, "nothing else is open");
    let nowhere = json!({"text": "build", "reply_to": "webhook:unknown"});
    assert_eq!(post(&port, "msg_1", now_s(), &nowhere, &nowhere).await.status, 422);
    let empty = json!({"text": " "});
    assert_eq!(post(&port, "msg_1", now_s(), &empty, &empty).await.status, 400);
    let huge = json!({"text": "x".repeat(300 * 1024)});
    assert_eq!(post(&port, "msg_1", now_s(), &huge, &huge).await.status, 413);
    assert_eq!(port.shell.run(&["--json", "inbox", "--all"]).await.ok().json(), json!([]));
    port.shell.end().await;
}

#[tokio::test]
async fn what_a_hook_brings_never_leaves_the_sandbox_unless_the_operator_has_people_asked() {
    let (port, receiver) = with_hook().await;
    let body = json!({
        "text": "do it [play] escalate touch made.txt => say I could not.", "conversation": "main",
        "reply_to": "webhook:back",
    });
    assert_eq!(post(&port, "msg_1", now_s(), &body, &body).await.status, 202);
    let told = receiver.until_taken(1).await.remove(0);
    assert!(told.body["data"]["text"].as_str().unwrap().contains("I could not."), "{}", told.text);
    assert!(!port.shell.home.workspace().join("made.txt").exists());
    let tasks = port.shell.run(&["--json", "ps", "--all"]).await.ok().json();
    let log = port.shell.run(&["logs", tasks[0]["task_id"].as_str().unwrap()]).await.ok().out;
    assert!(log.contains("→ declined without asking: commands that ask to leave the sandbox"), "{log}");
    port.shell.end().await;
}

#[tokio::test]
async fn a_hook_never_decides_and_what_it_would_need_is_declined() {
    let (port, receiver) = configured_with("escalations = \"ask\"\n").await;
    port.shell.run(&["channel", "list"]).await.ok();
    let body = json!({
        "text": "do it [play] escalate touch made.txt => say I could not.", "conversation": "main",
        "reply_to": "webhook:back",
    });
    assert_eq!(post(&port, "msg_1", now_s(), &body, &body).await.status, 202);
    let told = receiver.until_taken(1).await.remove(0);
    let text = told.body["data"]["text"].as_str().unwrap();
    assert!(text.contains("nobody here may decide"), "{text}");
    assert!(!port.shell.home.workspace().join("made.txt").exists());
    let approve = json!({"text": "/approve", "conversation": "main", "reply_to": "webhook:back"});
    assert_eq!(post(&port, "msg_2", now_s(), &approve, &approve).await.status, 202);
    let told = receiver.until_taken(2).await.remove(1);
    assert!(told.body["data"]["text"].as_str().unwrap().contains("may not decide"), "{}", told.text);
    port.shell.end().await;
}

#[tokio::test]
async fn what_was_accepted_is_worked_on_whenever_the_daemon_dies() {
    let mut moments = Moments::seeded(0x5eed_0099);
    for round in 0..rounds() {
        let after = moments.within_ms(800);
        let (port, receiver) = with_hook().await;
        let body = json!({"text": "build [play] say Built.", "reply_to": "webhook:back"});
        assert_eq!(post(&port, "msg_1", now_s(), &body, &body).await.status, 202);
        tokio::time::sleep(after).await;
        port.shell.kill_daemon();
        // A command may still meet the one that dies.
        while port.shell.run(&["channel", "list"]).await.code != 0 {}
        let taken = receiver.until_taken(1).await;
        port.shell.deliveries(|all| all.iter().all(|one| one["state"] == "delivered")).await;
        assert_eq!(webhook::different(&receiver.taken()), 1, "round {round}, {after:?}: {taken:#?}");
        assert_eq!(port.shell.model.requests().len(), 1, "round {round}, {after:?}");
        port.shell.end().await;
    }
}

/// A sender that keeps to the rules: the same message under the same id until it is taken.
async fn post_until_taken(port: &Port, body: &Value) -> String {
    let (at, began) = (now_s(), Instant::now());
    let text = body.to_string();
    let signature = signed_by_reference("msg_1", at, &text);
    loop {
        let call = port.post("/hooks/ci", body).header("webhook-id", "msg_1");
        let call = call.header("webhook-timestamp", &at.to_string()).header("webhook-signature", &signature);
        let answer = tokio::spawn(call.send()).await;
        match answer {
            Ok(answer) if answer.status == 202 => {
                return answer.json()["inbox_id"].as_str().unwrap().to_owned();
            }
            // The daemon has died, or is not ready: as whoever keeps one running would.
            _ => drop(port.shell.run(&["channel", "list"]).await),
        }
        assert!(began.elapsed() < PATIENCE, "it is never taken");
    }
}

#[tokio::test]
async fn wherever_the_daemon_dies_a_message_that_is_posted_until_it_is_taken_runs_once() {
    for point in on_the_way_from(Source::Webhook) {
        let (port, receiver) = configured().await;
        port.shell.run_dying_at(&["channel", "list"], point).await;
        let body = json!({"text": "build [play] say Built.", "reply_to": "webhook:back"});
        let id = post_until_taken(&port, &body).await;
        let log = port.shell.home.dir().join("st/daemon.log");
        let died =
            || fs::read_to_string(&log).unwrap().contains(&format!("failpoint {point}: ")).then_some(());
        until(&format!("the daemon to die at {point}"), died).await;
        assert_eq!(post_until_taken(&port, &body).await, id, "{point}: the same answer");
        receiver.until_taken(1).await;
        port.shell.deliveries(|all| all.iter().all(|one| one["state"] == "delivered")).await;
        let inbox = port.shell.run(&["--json", "inbox", "--all"]).await.ok().json();
        assert_eq!(inbox.as_array().map(Vec::len), Some(1), "{point}: {inbox}");
        assert_eq!(webhook::different(&receiver.taken()), 1, "{point}");
        assert_eq!(port.shell.model.requests().len(), 1, "{point}: it ran once");
        port.shell.end().await;
    }
}
