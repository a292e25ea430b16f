//! Codex says in mid-turn that a thread has left its bounds: an MCP server that nobody set up, settings that nobody asked for.

use std::fs;

use codex_session::{FailureKind, OwnCodex, Session, SessionEvent, TurnOptions, TurnOutcome};
use codex_wire::transport::stdio::Spawn;
use serde_json::{Value, json};
use testkit::script::{self, Script, Step};

use crate::workbench::{Scripted, soon, until};

/// `mcpServer/startupStatus/updated`.
fn mcp_server(name: &str) -> Step {
    let params = json!({"threadId": "$thread", "name": name, "status": "starting", "error": null});
    script::notify("mcpServer/startupStatus/updated", params)
}

/// `thread/settings/updated` with the settings that were asked for.
fn settings() -> Step {
    let settings =
        json!({"$extends": "$thread_result", "sandboxPolicy": {"type": "readOnly", "networkAccess": false}});
    script::notify("thread/settings/updated", json!({"threadId": "$thread", "threadSettings": settings}))
}

/// A Codex whose user has set up the MCP server `docs`.
fn dial(codex: &Scripted) -> OwnCodex {
    let home = codex.server.dir().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("config.toml"), "[mcp_servers.docs]\ncommand = \"docs\"\n").unwrap();
    let env = [("CODEX_HOME".to_owned(), home.to_string_lossy().into_owned())];
    OwnCodex(Spawn { env: env.into(), ..codex.spawn() })
}

async fn start(codex: &Scripted) -> Session {
    Session::start(codex.config(), dial(codex), None).await.unwrap()
}

/// Runs a turn in which Codex says this. The turn has to be stopped for a breach: it ends by nothing else.
async fn assert_breach(said: Step, words: &str) {
    let codex = Scripted::playing([script::message("first"), said]);
    let session = start(&codex).await;
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!(result.outcome, TurnOutcome::Interrupted, "{words}: {result:?}");
    assert!(result.should_retire, "{words}: {result:?}");
    let error = result.error.unwrap();
    assert_eq!(error.kind, FailureKind::Breach, "{error}");
    assert!(error.message.contains(words), "{error}");
    assert_eq!(codex.server.calls("turn/interrupt").len(), 1, "{words}");
    session.close().await;
    codex.server.assert_no_processes().await;
}

/// Runs a turn in which Codex says this. Nothing is wrong with it.
async fn assert_no_breach(said: Step) {
    let codex = Scripted::playing([said, script::message("fine"), script::completed()]);
    let session = start(&codex).await;
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "fine"), "{result:?}");
    session.close().await;
}

#[tokio::test]
async fn an_mcp_server_that_nobody_set_up_stops_the_turn() {
    assert_breach(mcp_server("evil"), "codex started the MCP server \"evil\"").await;
    // A server of a sub-agent runs outside of any sandbox too.
    let of_child = script::group([script::child_started("child"), mcp_server("evil").in_thread("child")]);
    assert_breach(of_child, "codex started the MCP server \"evil\"").await;
    assert_no_breach(mcp_server("docs")).await;
}

#[tokio::test]
async fn an_mcp_server_that_starts_with_the_thread_stops_its_first_turn() {
    // codex 0.166: the reply comes first, then the servers are started. Another one may do it the other way round.
    let as_it_is = [script::reply_thread(), mcp_server("evil")];
    let the_other_way_round = [mcp_server("evil"), script::reply_thread()];
    for opening in [as_it_is, the_other_way_round] {
        let turn = [script::reply_turn(), script::started()];
        let codex = Scripted::new(Script::new().on("thread/start", opening).on("turn/start", turn));
        let session = Session::new(codex.config(), dial(&codex), None);
        let result = soon(session.run_turn("go", TurnOptions::default())).await;
        assert_eq!(result.error.unwrap().kind, FailureKind::Breach);
        session.close().await;
        codex.server.assert_no_processes().await;
    }
}

#[tokio::test]
async fn settings_that_change_in_mid_turn_stop_it() {
    let changes: [(&str, Value, &str); 7] = [
        ("sandboxPolicy", json!({"type": "dangerFullAccess"}), "sandbox"),
        ("sandboxPolicy/networkAccess", json!(true), "sandbox"),
        ("activePermissionProfile/id", json!(":read-only"), "permission profile"),
        ("activePermissionProfile", Value::Null, "permission profile"),
        ("approvalPolicy", json!("never"), "approval policy"),
        ("approvalsReviewer", json!("auto_review"), "approvals reviewer"),
        ("cwd", json!("/"), "directory"),
    ];
    for (field, value, what) in changes {
        let other = settings().with(&format!("/threadSettings/{field}"), value);
        assert_breach(other, &format!("codex did not apply the {what}")).await;
    }
    assert_no_breach(settings()).await;
    let of_another = settings().with("/threadSettings/cwd", json!("/")).in_thread("another");
    assert_no_breach(of_another).await;
}

#[tokio::test]
async fn a_thread_that_leaves_its_bounds_between_turns_is_opened_anew_before_the_next_one() {
    let wrong = settings().with("/threadSettings/approvalPolicy", json!("never"));
    let late = [script::reply_turn(), script::started(), script::message("one"), script::completed(), wrong];
    let codex = Scripted::new(Script::new().on_nth("turn/start", 1, late));
    let session = start(&codex).await;
    let mut events = session.events();
    let first = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!((first.outcome, first.final_text.as_str()), (TurnOutcome::Completed, "one"), "{first:?}");
    let warned = |event: &SessionEvent| matches!(event, SessionEvent::Warning { message } if message.contains("approval policy"));
    until(&mut events, warned).await;
    let next = soon(session.run_turn("again", TurnOptions::default())).await;
    assert_eq!(next.outcome, TurnOutcome::Completed, "{next:?}");
    let resumed = codex.server.calls("thread/resume");
    assert_eq!(resumed.len(), 1, "with everything that keeps it within bounds");
    assert_eq!(resumed[0]["params"]["approvalPolicy"], "untrusted");
    session.close().await;
    codex.server.assert_no_processes().await;
}
