//! Opening a thread on servers that refuse, are too old, or do something else than they were asked.

use std::time::Duration;

use codex_session::{
    ApprovalMode, CallLimits, FailureKind, OwnCodex, Sandbox, Session, SessionEvent, TurnOptions, TurnOutcome,
};
use codex_wire::ThreadId;
use serde_json::{Value, json};
use testkit::script::{self, Script};

use crate::workbench::{Scripted, said_on_stderr, soon, until};

/// Why a session does not start on this server.
async fn refusal(script: Script) -> codex_session::Failure {
    let codex = Scripted::new(script);
    let started = soon(Session::start(codex.config(), codex.stdio(), None)).await;
    let failure = started.err().expect("it does not start");
    codex.server.assert_no_processes().await;
    failure
}

fn opening(reply: script::Step) -> Script {
    Script::new().on("thread/start", [reply])
}

// peer: S3
#[tokio::test]
async fn a_session_that_is_opened_twice_has_one_thread() {
    let codex = Scripted::new(
        Script::new().on("thread/start", [script::await_release("open"), script::default_steps()]),
    );
    let session = Session::new(codex.config(), codex.stdio(), None);
    let release = async {
        codex.server.wait_for_method("thread/start").await;
        codex.server.release("open");
    };
    let (one, two, ()) = soon(async { tokio::join!(session.open(), session.open(), release) }).await;
    let three = session.open().await;
    assert_eq!((one.clone().unwrap(), one), (two.unwrap(), three));
    assert_eq!(codex.server.calls("thread/start").len(), 1);
    assert_eq!(codex.server.calls("initialize").len(), 1);
    session.close().await;
}

// peer: S4
#[tokio::test]
async fn the_settings_that_keep_the_user_safe_are_sent_with_thread_and_turn() {
    let codex = Scripted::new(Script::new());
    let session = codex.start().await;
    soon(session.run_turn("go", TurnOptions::default())).await;
    let cwd = json!(codex.server.dir());
    let thread = codex.server.wait_for_method("thread/start").await["params"].clone();
    assert_eq!(thread["cwd"], cwd);
    let profile = &thread["config"]["permissions"][thread["permissions"].as_str().unwrap()];
    assert_eq!((thread.get("sandbox"), &profile["extends"]), (None, &json!(":read-only")));
    assert_eq!(thread["approvalPolicy"], "untrusted");
    assert_eq!(thread["approvalsReviewer"], "user");
    let turn = codex.server.wait_for_method("turn/start").await["params"].clone();
    assert_eq!(turn["cwd"], cwd);
    assert_eq!((turn.get("sandboxPolicy"), &turn["permissions"]), (None, &thread["permissions"]));
    assert_eq!(turn["approvalPolicy"], "untrusted");
    assert_eq!(turn["approvalsReviewer"], "user");
    session.close().await;
}

// peer: S16
#[tokio::test]
async fn a_thread_that_does_not_start_is_a_startup_failure_with_stderr() {
    let steps = [said_on_stderr("no such model"), script::reply_error(-32600, "bad config")];
    let codex = Scripted::new(Script::new().on("thread/start", steps));
    let session = Session::new(codex.config(), codex.stdio(), None);
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!(result.outcome, TurnOutcome::Failed);
    assert!(result.should_retire && !result.outcome_unknown);
    let error = result.error.unwrap();
    assert_eq!(error.kind, FailureKind::Startup);
    assert!(error.message.contains("startup failed") && error.message.contains("bad config"), "{error}");
    assert!(error.stderr_tail.iter().any(|line| line == "no such model"), "{error}");
    codex.server.assert_no_processes().await;
    session.close().await;
}

#[tokio::test]
async fn a_thread_that_is_refused_while_the_login_changes_is_opened_a_moment_later() {
    let revoked = "failed to load configuration: application network permission was revoked";
    let refuses_twice = [1, 2].into_iter().fold(Script::new(), |script, nth| {
        script.on_nth("thread/start", nth, [script::reply_error(-32600, revoked)])
    });
    let codex = Scripted::new(refuses_twice);
    let session = codex.start().await;
    assert_eq!(codex.server.calls("thread/start").len(), 3);
    session.close().await;
    let refused = refusal(opening(script::reply_error(-32600, revoked))).await;
    assert_eq!(refused.kind, FailureKind::Startup, "{refused}");
    assert!(refused.message.contains(revoked), "{refused}");
}

#[tokio::test]
async fn a_thread_that_does_not_start_in_time_is_a_startup_failure() {
    let codex = Scripted::new(Script::new().on("thread/start", [script::hang()]));
    let mut config = codex.config();
    config.call_limits.thread_start = Duration::from_millis(200);
    let failure = soon(Session::start(config, codex.stdio(), None)).await.err().unwrap();
    assert_eq!(failure.kind, FailureKind::Startup);
    assert!(failure.message.contains("thread/start timed out"), "{failure}");
    codex.server.assert_no_processes().await;
}

#[tokio::test]
async fn a_thread_refused_for_its_login_tells_to_log_in() {
    let failure = refusal(opening(script::reply_error(-32600, "not logged in"))).await;
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(failure.message.contains("codex login"), "{failure}");
}

// peer: S55, S56, S57
#[tokio::test]
async fn the_thread_id_is_found_wherever_servers_have_put_it() {
    let places = [
        ("/thread", json!({"id": "t-1"})),
        ("/thread", json!({"sessionId": "t-1"})),
        ("/sessionId", json!("t-1")),
        ("/threadId", json!("t-1")),
    ];
    for (place, id) in places {
        let reply = script::reply_thread().with("/thread", json!({})).with(place, id);
        let codex = Scripted::new(opening(reply));
        let session = codex.start().await;
        assert_eq!(session.open().await.unwrap(), ThreadId("t-1".to_owned()), "{place}");
        let result = soon(session.run_turn("go", TurnOptions::default())).await;
        assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
        assert_eq!(codex.server.wait_for_method("turn/start").await["params"]["threadId"], "t-1");
        session.close().await;
    }
}

#[tokio::test]
async fn settings_that_are_not_echoed_count_as_not_taken() {
    for missing in [
        "/sandbox",
        "/approvalPolicy",
        "/approvalsReviewer",
        "/activePermissionProfile",
        "/runtimeWorkspaceRoots",
        "/cwd",
    ] {
        let failure = refusal(opening(script::reply_thread().with(missing, Value::Null))).await;
        assert_eq!(failure.kind, FailureKind::Breach, "{missing}");
        assert!(failure.message.contains("did not apply the"), "{failure}");
    }
}

// peer: S58
#[tokio::test]
async fn an_answer_without_any_thread_id_is_a_protocol_error() {
    for reply in
        [json!({}), json!({"thread": {}}), json!({"thread": {"id": null}}), json!({"thread": {"id": ""}})]
    {
        let failure = refusal(opening(script::reply(reply))).await;
        assert_eq!(failure.kind, FailureKind::Protocol);
        assert!(failure.message.contains("no thread id"), "{failure}");
    }
}

#[tokio::test]
async fn settings_that_codex_did_not_take_stop_the_session() {
    let other = |pointer: &str, value: Value| opening(script::reply_thread().with(pointer, value));
    let cases = [
        (other("/sandbox", json!({"type": "dangerFullAccess"})), "sandbox"),
        (other("/sandbox/networkAccess", json!(true)), "sandbox"),
        (other("/activePermissionProfile/id", json!(":read-only")), "permission profile"),
        (other("/runtimeWorkspaceRoots", json!(["/"])), "workspace roots"),
        (other("/approvalPolicy", json!("never")), "approval policy"),
        (other("/approvalPolicy", json!({"granular": {"rules": true}})), "approval policy"),
        (other("/approvalsReviewer", json!("auto_review")), "approvals reviewer"),
        (other("/cwd", json!("/")), "directory"),
    ];
    for (script, what) in cases {
        let failure = refusal(script).await;
        assert_eq!(failure.kind, FailureKind::Breach);
        assert!(failure.message.contains(&format!("did not apply the {what}")), "{failure}");
    }
}

#[tokio::test]
async fn settings_of_ones_own_are_checked_as_they_were_asked() {
    let codex = Scripted::new(Script::new());
    let mut config = codex.config();
    (config.sandbox, config.approval_mode) = (Sandbox::WorkspaceWrite, ApprovalMode::OnRequest);
    let session = Session::start(config, codex.stdio(), None).await.unwrap();
    soon(session.run_turn("go", TurnOptions::default())).await;
    let thread = codex.server.wait_for_method("thread/start").await["params"].clone();
    let profile = &thread["config"]["permissions"][thread["permissions"].as_str().unwrap()];
    assert_eq!(profile["extends"], ":workspace");
    let turn = codex.server.wait_for_method("turn/start").await["params"].clone();
    assert_eq!(
        (&turn["permissions"], &turn["approvalPolicy"]),
        (&thread["permissions"], &json!("on-request"))
    );
    session.close().await;
}

#[tokio::test]
async fn a_handshake_that_is_refused_says_so() {
    let failure = refusal(Script::new().on(
        "initialize",
        [said_on_stderr("bad toml"), script::reply_error(-32600, "Invalid clientInfo.name")],
    ))
    .await;
    assert_eq!(failure.kind, FailureKind::Startup);
    assert!(failure.message.contains("Invalid clientInfo.name"), "{failure}");
    assert!(failure.stderr_tail.iter().any(|line| line == "bad toml"), "{failure}");
}

#[tokio::test]
async fn a_codex_that_dies_before_its_handshake_leaves_its_reason() {
    let failure = refusal(
        Script::new().on("initialize", [script::stderr("config.toml: expected `=`"), script::exit(1)]),
    )
    .await;
    assert_eq!(failure.kind, FailureKind::Startup);
    assert!(failure.to_string().contains("expected `=`"), "{failure}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_a_startup_failure() {
    let codex = Scripted::new(Script::new());
    let missing = codex.server.dir().join("no-such-codex");
    let dial = OwnCodex(codex_wire::transport::stdio::Spawn { program: missing, ..codex.spawn() });
    let failure = Session::start(codex.config(), dial, None).await.err().unwrap();
    assert_eq!(failure.kind, FailureKind::Startup);
    assert!(failure.message.contains("no-such-codex"), "{failure}");
}

#[tokio::test]
async fn a_codex_that_is_too_old_is_refused_with_what_to_do() {
    let failure = refusal(Script::new().version("0.100.0")).await;
    assert_eq!(failure.kind, FailureKind::Startup);
    assert!(
        failure.message.contains("0.100.0 is too old") && failure.message.contains("npm i -g"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_newer_codex_whose_approvals_cannot_be_checked_is_refused() {
    // A scripted server has no schema to show, which counts as drift.
    let failure = refusal(Script::new().version("0.999.0")).await;
    assert_eq!(failure.kind, FailureKind::Startup);
    assert!(failure.message.contains("0.999.0 is newer"), "{failure}");
}

#[tokio::test]
async fn a_codex_that_tells_no_version_is_used_with_a_warning() {
    let script = Script::new().on("initialize", [script::reply(json!({"userAgent": "codex"}))]);
    let codex = Scripted::new(script);
    let session = Session::new(codex.config(), codex.stdio(), None);
    let mut events = session.events();
    session.open().await.unwrap();
    let is_warning = |event: &SessionEvent| matches!(event, SessionEvent::Warning { message } if message.contains("version"));
    until(&mut events, is_warning).await;
    session.close().await;
}

// peer: L14
#[tokio::test]
async fn a_thread_is_taken_up_without_its_turns_and_no_new_one_is_started() {
    assert_eq!(CallLimits::default().thread_resume, Duration::from_secs(90));
    let codex = Scripted::new(Script::new());
    let thread_id = ThreadId("an-old-thread".to_owned());
    let session = Session::resume(codex.config(), codex.stdio(), None, thread_id.clone()).await.unwrap();
    assert_eq!(session.open().await.unwrap(), thread_id);
    let resume = codex.server.wait_for_method("thread/resume").await["params"].clone();
    assert_eq!((&resume["threadId"], &resume["excludeTurns"]), (&json!("an-old-thread"), &json!(true)));
    assert!(resume["permissions"].as_str().is_some_and(|id| id.starts_with("codex_bridge_")), "{resume}");
    assert!(codex.server.calls("thread/start").is_empty());
    session.close().await;
}

#[tokio::test]
async fn another_thread_than_the_one_asked_for_is_a_protocol_error() {
    let script = Script::new().on("thread/resume", [script::reply_resume().with("/thread/id", "another")]);
    let codex = Scripted::new(script);
    let wanted = ThreadId("mine".to_owned());
    let failure = soon(Session::resume(codex.config(), codex.stdio(), None, wanted)).await.err().unwrap();
    assert_eq!(failure.kind, FailureKind::Protocol);
    assert!(failure.message.contains("another") && failure.message.contains("mine"), "{failure}");
    codex.server.assert_no_processes().await;
}
