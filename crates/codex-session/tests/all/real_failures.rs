//! What the model's failures become on the real Codex: kinds, words, what to do, and that the next turn works.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use codex_session::{FailureKind, Session, SessionEvent, TurnOptions, TurnOutcome, TurnResult};
use scripted_model::{Response, Scenario};

use crate::real_parts::{answer_to, completed};
use crate::workbench::{RealCodex, soon, whole_turn};

async fn fail(codex: &RealCodex, session: &Session, scenario: Scenario) -> TurnResult {
    codex.model.script("fail", scenario);
    let result = soon(session.run_turn("fail", TurnOptions::default())).await;
    assert_eq!(result.outcome, TurnOutcome::Failed, "{result:#?}");
    assert!(!result.interrupted && !result.outcome_unknown && result.turn_id.is_some(), "{result:#?}");
    result
}

#[tokio::test]
async fn each_failure_of_the_model_has_its_kind_and_the_session_goes_on() {
    let codex = RealCodex::new().await;
    let session = codex.open(None).await;
    let pid = session.status().await.child_pid;
    let failures = [
        (
            Response::too_many_requests(Duration::from_secs(1)),
            FailureKind::RateLimit,
            "429 Too Many Requests",
        ),
        (Response::rate_limit_exceeded(), FailureKind::RateLimit, "Rate limit reached"),
        (Response::insufficient_quota(), FailureKind::UsageLimit { resets_at: None }, "Quota exceeded"),
        (Response::internal_error(), FailureKind::Provider, "high demand"),
        (Response::overloaded(), FailureKind::Provider, "at capacity"),
        (Response::forbidden(), FailureKind::Provider, "403 Forbidden"),
        (Response::context_length_exceeded(), FailureKind::ContextWindow, "context window"),
        (Response::server_error(), FailureKind::Model, "stream disconnected"),
        (Response::model_not_found(), FailureKind::Model, "model"),
    ];
    for (response, kind, words) in failures {
        let result = fail(&codex, &session, Scenario::new().respond(response)).await;
        assert!(!result.should_retire, "{kind:?}");
        let error = result.error.unwrap();
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(error.message.contains(words), "{words:?} is not in {:?}", error.message);
        assert!(!error.message.contains("codex login") && error.stderr_tail.is_empty(), "{error:?}");
        assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    }
    assert_eq!(session.status().await.child_pid, pid, "the session was never replaced");
    codex.end(session).await;
}

// peer: S52
#[tokio::test]
async fn a_refused_login_says_what_to_do_and_the_next_turn_has_a_fresh_process() {
    let codex = RealCodex::new().await;
    let session = codex.open(None).await;
    let pid = session.status().await.child_pid;
    let result = fail(&codex, &session, Scenario::new().respond(Response::unauthorized())).await;
    assert!(result.should_retire);
    let error = result.error.unwrap();
    assert_eq!(error.kind, FailureKind::Auth);
    assert!(
        error.message.contains("run `codex login`") && error.message.contains("401"),
        "{}",
        error.message
    );
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    assert_ne!(session.status().await.child_pid, pid);
    assert!(codex.last_input().contains("\"fail\""), "the thread is the same");
    codex.end(session).await;
}

#[tokio::test]
async fn a_used_up_limit_tells_when_it_is_renewed() {
    let codex = RealCodex::new().await;
    let session = codex.open(None).await;
    let in_an_hour = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3600;
    let limit = Response::usage_limit_reached(Duration::from_hours(1));
    let result = fail(&codex, &session, Scenario::new().respond(limit)).await;
    assert!(!result.should_retire);
    let FailureKind::UsageLimit { resets_at: Some(resets_at) } = result.error.as_ref().unwrap().kind else {
        panic!("{:?}", result.error)
    };
    assert!(u64::try_from(resets_at).unwrap().abs_diff(in_an_hour) < 60, "{resets_at} is not {in_an_hour}");
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    codex.end(session).await;
}

#[tokio::test]
async fn a_stream_that_breaks_is_tried_again_and_the_last_answer_counts() {
    let codex = RealCodex::configured(|config| config.retries(0, 2)).await;
    let broken = Scenario::new().delta("Half an ans").cut().times(1).say("The whole answer.");
    codex.model.script("speak", broken);
    let session = codex.open(None).await;
    let mut events = session.events();
    let result = completed(soon(session.run_turn("speak", TurnOptions::default())).await);
    assert_eq!(result.final_text, "The whole answer.");
    let told = whole_turn(&mut events).await;
    let retries = told.iter().filter(|event| matches!(event, SessionEvent::Retrying { .. }));
    assert_eq!(retries.count(), 1, "{told:#?}");
    codex.end(session).await;
}

#[tokio::test]
async fn a_stream_that_keeps_breaking_fails_the_turn() {
    let codex = RealCodex::configured(|config| config.retries(0, 1)).await;
    let session = codex.open(None).await;
    for (scenario, words) in [
        (Scenario::new().delta("Half an ans").cut(), "stream disconnected before completion"),
        (Scenario::new().say("All of it.").end_early(), "stream disconnected before completion"),
    ] {
        let before = codex.model.requests().len();
        let result = fail(&codex, &session, scenario).await;
        assert_eq!(codex.model.requests().len() - before, 2, "it was tried twice");
        let error = result.error.unwrap();
        assert_eq!((error.kind, result.should_retire), (FailureKind::Model, false));
        assert!(error.message.contains(words), "{}", error.message);
        assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    }
    codex.end(session).await;
}

// peer: S13
#[tokio::test]
async fn a_prompt_that_codex_refuses_leaves_the_session_usable() {
    let codex = RealCodex::new().await;
    let session = codex.open(None).await;
    let pid = session.status().await.child_pid;
    let result = soon(session.run_turn("x".repeat(1_048_577), TurnOptions::default())).await;
    assert_eq!((result.outcome, result.should_retire), (TurnOutcome::Failed, false));
    let error = result.error.unwrap();
    assert_eq!(error.kind, FailureKind::Refused);
    assert!(error.message.contains("1048576"), "{}", error.message);
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    assert_eq!(session.status().await.child_pid, pid);
    codex.end(session).await;
}
