//! What an app's settings may be.

use super::*;

fn open(settings: &Value, common: &Common) -> Result<Slack, String> {
    let settings: Settings = serde_json::from_value(settings.clone()).unwrap();
    Slack::new("slack", &settings, common, &|_| None)
}

fn allowing(allowed: &str) -> Common {
    Common { allow: vec![allowed.to_owned()], ..Common::default() }
}

#[test]
fn wrong_settings_are_refused_with_what_to_correct() {
    let both = json!({ "token": "xoxb-1-2-x", "app_token": "xapp-1-A012-3-x", "channels": ["C0ROOM"] });
    let why = |settings: &Value, allowed: &str| open(settings, &allowing(allowed)).map(drop).unwrap_err();
    assert_eq!(why(&both, "U1:aprover"), "\"aprover\" is not a role: use user or approver");
    assert!(why(&both, "@ada:approver").contains("ids look like U012ABCDE"));
    assert!(why(&json!({ "token": "xapp-1-A012-3-x" }), "U1").contains("it looks like xoxb-"));
    let swapped = json!({ "token": "xoxb-1-2-x", "app_token": "xoxb-1-2-x" });
    assert!(why(&swapped, "U1").contains("it looks like xapp-"));
    assert!(why(&json!({ "token": "xoxb-1-2-x" }), "U1").contains("SLACK_APP_TOKEN is not set"));
    assert!(why(&json!({ "token": "xoxb-1-2-x", "channel": "#general" }), "U1").contains("SLACK_APP_TOKEN"));
    let named = json!({ "token": "xoxb-1-2-x", "app_token": "xapp-1-A012-3-x", "channel": "#general" });
    assert!(why(&named, "U1").contains("looks like C0123ABCD"));
}

#[test]
fn an_app_is_known_by_its_id_and_reaches_what_the_operator_names() {
    let settings = json!({ "token": "xoxb-1-2-x", "app_token": "xapp-1-A012-3-x", "channels": ["C0ROOM"] });
    let app = open(&settings, &allowing("U1:approver")).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(
        (app.identity().as_str(), app.places()),
        ("Slack app A012", vec!["U1".to_owned(), "C0ROOM".to_owned()])
    );
    assert!(
        app.check_place("C0ROOM/1.1").is_ok()
            && app.check_place("C0OTHER").is_err()
            && app.check_place("").is_err()
    );
    assert!(app.takes_taps("C0ROOM/1.1") && app.takes_taps("D1") && !app.takes_taps("U1"));
    assert!(app.is_listed("U1") && !app.is_listed("U12"));
    let sender = open(&json!({ "token": "xoxb-1-2-x", "channel": "C1" }), &Common::default());
    let sender = sender.unwrap_or_else(|why| panic!("{why}"));
    assert!(!sender.receives && !sender.takes_taps("C1") && sender.place("").unwrap() == "C1");
}
