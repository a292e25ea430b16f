//! Reading updates across restarts of the channel.

use serde_json::json;

use super::*;

fn bot() -> Telegram {
    let token = serde_json::from_value(json!({ "token": "4711:token" })).unwrap();
    Telegram::new("telegram", &token, &["42:approver".to_owned()], &|_| None).unwrap()
}

#[test]
fn a_tap_that_could_not_be_decided_on_comes_again_when_the_channel_is_begun_again() {
    let bot = bot();
    let tap = json!({ "update_id": 7, "callback_query": {
        "id": "77", "from": {"id": 42, "first_name": "Ada"}, "data": "a:req-12ab34cd",
        "message": {"message_id": 9, "from": {"id": 4711}, "chat": {"id": 42}, "text": "Codex asks"},
    }});
    let taps = || bot.read_updates(std::slice::from_ref(&tap)).0.taps.len();
    // Only the synchronous part of a start; the returned future would call the platform.
    let begin = || drop(bot.start(Stored::default()));
    begin();
    assert_eq!((taps(), taps()), (1, 0), "one that comes twice is decided on once");
    begin();
    assert_eq!(taps(), 1);
    bot.memory().request_messages.push(memory::RequestMessage {
        place: "42".to_owned(),
        message_id: 9,
        text: "Codex asks".to_owned(),
        spans: Vec::new(),
        buttons: json!([]),
        requests: vec!["req-12ab34cd".into()],
        has_several: false,
    });
    assert!(bot.shown_requests().is_empty(), "who decides is shown with their name");
    begin();
    assert_eq!(bot.shown_requests(), ["req-12ab34cd".into()], "nobody decides on it any more");
}

#[test]
fn a_role_that_there_is_not_is_refused_with_those_that_there_are() {
    let settings: Settings = serde_json::from_value(json!({ "token": "4711:token" })).unwrap();
    let why = |allowed: &str| {
        Telegram::new("telegram", &settings, &[allowed.to_owned()], &|_| None).map(drop).unwrap_err()
    };
    assert_eq!(why("42:aprover"), "\"aprover\" is not a role: use user or approver");
    assert!(why("@ada:approver").contains("users are numbers"));
    assert!(why("*").contains("users are numbers"));
}
