//! Values of JSON keep their structure and lose their secrets.

use serde_json::{Value, json};

use crate::Redactor;

#[track_caller]
fn check(mut value: Value, shown: &Value, hidden: usize) {
    assert_eq!(Redactor::default().redact_json(&mut value), hidden);
    assert_eq!(&value, shown);
}

#[test]
fn fields_are_hidden_by_their_names() {
    check(
        json!({"apiKey": "abc", "nested": {"password": "p", "user": "bob"}, "token": "", "secret": null, "tokens": 12}),
        &json!({"apiKey": "[redacted:api-key]", "nested": {"password": "[redacted:password]", "user": "bob"}, "token": "", "secret": null, "tokens": 12}),
        2,
    );
}

#[test]
fn strings_are_hidden_by_their_content() {
    check(
        json!(["TOKEN=a1b2c3", {"text": "https://u:pw@host"}, "{\"password\":\"x y\"}"]),
        &json!(["TOKEN=[redacted:token]", {"text": "https://u:[redacted:url-password]@host"}, "{\"password\":\"[redacted:password]\"}"]),
        3,
    );
}

#[test]
fn arrays_carry_names_and_flags() {
    check(
        json!({"passwords": ["hunter2", "s3cret"], "argv": ["x", "--token", "a1b2c3", "--password", "abc"], "headers": [["x-api-key", "abc"]]}),
        &json!({
            "passwords": ["[redacted:password]", "[redacted:password]"],
            "argv": ["x", "--token", "[redacted:token]", "--password", "[redacted:password]"],
            "headers": [["x-api-key", "[redacted:api-key]"]],
        }),
        5,
    );
    check(json!(["the password is", "long"]), &json!(["the password is", "long"]), 0);
}

#[test]
fn pairs_of_name_and_value_are_understood() {
    check(
        json!([{"name": "DB_PASSWORD", "value": "abc"}, {"name": "HOME", "value": "/root"}]),
        &json!([{"name": "DB_PASSWORD", "value": "[redacted:password]"}, {"name": "HOME", "value": "/root"}]),
        1,
    );
}

#[test]
fn headers_keep_their_scheme() {
    check(
        json!({"Authorization": "Bearer abc", "authorization": "none", "Cookie": "id=a1; x=2"}),
        &json!({"Authorization": "Bearer [redacted:authorization]", "authorization": "none", "Cookie": "id=[redacted:cookie]"}),
        2,
    );
}

#[test]
fn names_that_are_secrets_are_hidden_and_none_is_lost() {
    let key = |end| format!("ghp_0123456789{end}");
    check(
        json!({key("a"): 1, key("b"): 2, "c": 3}),
        &json!({"[redacted:github-token]": 1, "[redacted:github-token] 2": 2, "c": 3}),
        2,
    );
}

#[test]
fn lookups_and_schemas_stay() {
    let value = json!({
        "apiKey": "process.env.API_KEY",
        "password": {"type": "string"},
        "token": "${TOKEN}",
        "required": ["password", "token"],
        "key": "value",
    });
    check(value.clone(), &value, 0);
}
