//! What a bot's settings may be.

use serde_json::json;

use super::*;

#[test]
fn a_role_that_there_is_not_is_refused_with_those_that_there_are() {
    let settings: Settings = serde_json::from_value(json!({ "token": "4711:token" })).unwrap();
    let why = |allowed: &str| {
        let common = Common { allow: vec![allowed.to_owned()], ..Common::default() };
        Telegram::new("telegram", &settings, &common, &|_| None).map(drop).unwrap_err()
    };
    assert_eq!(why("42:aprover"), "\"aprover\" is not a role: use user or approver");
    assert!(why("@ada:approver").contains("users are numbers"));
    assert!(why("*").contains("users are numbers"));
}

#[test]
fn a_bot_receives_if_anybody_may_write_or_may_be_allowed_to() {
    let settings: Settings = serde_json::from_value(json!({ "token": "4711:token" })).unwrap();
    let receives = |common: &Common| {
        !Telegram::new("telegram", &settings, common, &|_| None)
            .unwrap_or_else(|why| panic!("{why}"))
            .only_sends()
    };
    assert!(!receives(&Common::default()));
    assert!(receives(&Common { pairing: true, ..Common::default() }));
    let in_a_group = [("-1001".to_owned(), vec!["42:approver".to_owned()])].into();
    assert!(receives(&Common { allow_in: in_a_group, ..Common::default() }));
}

#[test]
fn a_tap_is_as_old_as_the_last_poll_that_did_not_have_it() {
    let settings: Settings = serde_json::from_value(json!({ "token": "4711:token" })).unwrap();
    let common = Common { allow: vec!["42".to_owned()], ..Common::default() };
    let telegram = Telegram::new("telegram", &settings, &common, &|_| None).unwrap();
    let tap = json!({"update_id": 1, "callback_query": {
        "id": "77", "from": {"id": 42}, "data": "c:/retry",
        "message": {"message_id": 9, "date": 5, "from": {"id": 4711}, "chat": {"id": 42, "type": "private"}},
    }});
    let at = |last_read_at| telegram.read_updates(std::slice::from_ref(&tap), last_read_at).taps[0].at;
    assert_eq!(at(0), 5_000, "not before the button was there");
    let cursor = state::cursor_behind(&[json!({"update_id": 0})], None, 7_000).unwrap();
    assert_eq!(at(state::read_before(Some(&cursor))), 7_000, "in the last run");
    telegram.state().polled_at = 9_000;
    assert_eq!(at(state::read_before(Some(&cursor))), 9_000);
}
