//! The marker that some servers leave instead of a `turn/completed`: believed only when the turn says so itself.

use codex_session::turn::is_abort_marker;
use codex_session::{FailureKind, TurnOptions, TurnOutcome};
use serde_json::json;
use testkit::script::{self, Script, Step};

use crate::workbench::{Scripted, soon};

// peer: S59, S60, S61, S62
#[test]
fn only_the_marker_alone_is_the_marker() {
    for text in ["<turn_aborted>", "<turn_aborted/>", "<turn_aborted />", "\n<turn_aborted>\n"] {
        assert!(is_abort_marker(text), "{text}");
    }
    for text in
        ["", "   ", "all done", "turn_aborted", "I saw `<turn_aborted>` in the log", "<turn_aborted> done"]
    {
        assert!(!is_abort_marker(text), "{text}");
    }
}

/// A turn that says this and nothing more, on a server that knows it under this status.
fn saying(text: &str, status: &str) -> Scripted {
    let known =
        json!({"data": [{"id": script::turn_id(1), "status": status, "items": []}], "nextCursor": null});
    let steps: [Step; 5] = [
        script::reply_turn(),
        script::started(),
        script::message(text),
        script::await_release("end"),
        script::completed(),
    ];
    Scripted::new(Script::new().on("turn/start", steps).on("thread/turns/list", [script::reply(known)]))
}

// peer: S48, S49
#[tokio::test]
async fn a_marker_alone_ends_the_turn_once_the_turn_itself_says_so() {
    let aborted = async |marker: &str| {
        let codex = saying(marker, "interrupted");
        let result = codex.run(TurnOptions::default()).await;
        assert_eq!(result.outcome, TurnOutcome::Interrupted, "{result:?}");
        let error = result.error.unwrap();
        assert_eq!(error.kind, FailureKind::Aborted);
        assert!(error.message.contains("turn_aborted"), "{error}");
        let looks = codex.server.calls("thread/turns/list");
        assert_eq!(looks.len(), 1);
        assert_eq!(looks[0]["params"]["threadId"], script::thread_id(1));
    };
    tokio::join!(aborted("<turn_aborted>"), aborted("<turn_aborted/>"));
}

#[tokio::test]
async fn a_marker_in_a_turn_that_goes_on_ends_nothing() {
    let codex = saying("<turn_aborted>", "inProgress");
    let session = codex.start().await;
    let looked = async {
        codex.server.wait_for_method("thread/turns/list").await;
        codex.server.release("end");
    };
    let turn = session.run_turn("go", TurnOptions::default());
    let (result, ()) = soon(async { tokio::join!(turn, looked) }).await;
    assert_eq!((result.outcome, result.error), (TurnOutcome::Completed, None));
    session.close().await;
}

#[tokio::test]
async fn a_marker_before_a_proper_end_is_not_even_looked_up() {
    let codex = saying("<turn_aborted>", "interrupted");
    codex.server.release("end");
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.error), (TurnOutcome::Completed, None));
    assert!(codex.server.calls("thread/turns/list").is_empty());
}

#[tokio::test]
async fn a_message_that_quotes_the_marker_ends_nothing() {
    let codex = saying("The log says <turn_aborted>, which is harmless.", "interrupted");
    let limit = std::time::Duration::from_millis(2_500);
    let options = TurnOptions { idle_limit: Some(limit), ..TurnOptions::default() };
    let result = codex.run(options).await;
    // Longer than a marker is watched for: only the limit ended it.
    assert_eq!(result.error.unwrap().kind, FailureKind::Timeout);
    assert!(codex.server.calls("thread/turns/list").is_empty());
}
