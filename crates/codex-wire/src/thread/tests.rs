use serde_json::json;

use super::*;

#[test]
fn a_turn_may_say_little() {
    let turn: Turn = serde_json::from_value(json!({"id": "u"})).unwrap();
    assert_eq!((turn.status, turn.error, turn.items), (TurnStatus::InProgress, None, Vec::new()));
    assert!(serde_json::from_value::<Turn>(json!({"status": "completed"})).is_err());
}

#[test]
fn every_status_of_a_turn_is_known_and_a_new_one_is_kept() {
    for (word, status) in [
        ("inProgress", TurnStatus::InProgress),
        ("completed", TurnStatus::Completed),
        ("interrupted", TurnStatus::Interrupted),
        ("failed", TurnStatus::Failed),
        ("paused", TurnStatus::Other("paused".into())),
    ] {
        let turn: Turn = serde_json::from_value(json!({"id": "u", "status": word})).unwrap();
        assert_eq!(turn.status, status);
    }
}

fn error(info: Value) -> TurnError {
    TurnError { codex_error_info: Some(info), ..TurnError::default() }
}

#[test]
fn the_structured_error_is_named_in_each_of_its_forms() {
    assert_eq!(error(json!("usageLimitExceeded")).info(), Some("usageLimitExceeded"));
    let failed = error(json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}));
    assert_eq!((failed.info(), failed.http_status()), (Some("responseTooManyFailedAttempts"), Some(429)));
    let no_status = error(json!({"responseStreamDisconnected": {"httpStatusCode": null}}));
    assert_eq!((no_status.info(), no_status.http_status()), (Some("responseStreamDisconnected"), None));
    for odd in [json!(5), json!([]), json!({}), json!(null)] {
        assert_eq!((error(odd.clone()).info(), error(odd).http_status()), (None, None));
    }
    assert_eq!(TurnError::default().info(), None);
}

#[test]
fn work_goes_on_when_the_last_full_window_empties() {
    let window = |used_percent, resets_at| Some(RateLimitWindow { used_percent, resets_at });
    let limits = |primary, secondary| RateLimits { primary, secondary };
    assert_eq!(limits(window(99.9, Some(5)), None).resets_at(), None);
    assert_eq!(limits(window(100.0, Some(5)), window(3.0, Some(9))).resets_at(), Some(5));
    assert_eq!(limits(window(100.0, Some(5)), window(100.0, Some(9))).resets_at(), Some(9));
    assert_eq!(limits(window(100.0, None), None).resets_at(), None);
}

#[test]
fn a_thread_with_odd_members_is_read_as_far_as_it_goes() {
    let thread: Thread =
        serde_json::from_value(json!({"id": "t", "novel": {}, "status": {"type": "dreaming"}})).unwrap();
    assert_eq!((thread.any_id(), thread.status.kind.as_str()), (Some("t".into()), "dreaming"));
    assert_eq!(Thread::default().any_id(), None);
}
