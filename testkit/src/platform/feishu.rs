//! A server of Feishu's, as far as messages are sent by an app: tokens, messages, and the key against repetitions.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::{Answer, Platform, Received, open as locked};

/// The app that it knows.
pub const APP_ID: &str = "cli_standin";
/// Its secret.
pub const APP_SECRET: &str = "planted-app-secret";

const TOKEN: &str = "t-standin";

/// Opens one. What was sent under the same `uuid` before is answered alike and not shown again: see [`shown`].
pub async fn open() -> Platform {
    let by_uuid: Mutex<BTreeMap<String, String>> = Mutex::default();
    Platform::open(Box::new(move |received| answer(received, &by_uuid))).await
}

fn answer(received: &Received, by_uuid: &Mutex<BTreeMap<String, String>>) -> Answer {
    let body = &received.body;
    if received.path.ends_with("/tenant_access_token/internal") {
        if body["app_id"] == APP_ID && body["app_secret"] == APP_SECRET {
            return Answer::json(200, json!({ "code": 0, "tenant_access_token": TOKEN, "expire": 7200 }));
        }
        return Answer::json(200, json!({ "code": 10_014, "msg": "app secret invalid" }));
    }
    if received.headers.get("authorization").map(String::as_str) != Some(&format!("Bearer {TOKEN}")) {
        return Answer::json(
            400,
            json!({ "code": 99_991_663, "msg": "Invalid access token for authorization" }),
        );
    }
    let content: Value =
        serde_json::from_str(body["content"].as_str().unwrap_or_default()).unwrap_or_default();
    if body["msg_type"] != "text" || content["text"].as_str().is_none_or(str::is_empty) {
        return Answer::json(400, json!({ "code": 230_001, "msg": "invalid content" }));
    }
    if body["receive_id"] == "oc_left" {
        return Answer::json(400, json!({ "code": 230_002, "msg": "The bot can not be outside the group." }));
    }
    let uuid = body["uuid"].as_str().unwrap_or_default().to_owned();
    if uuid.is_empty() || uuid.len() > 50 {
        return Answer::json(400, json!({ "code": 230_001, "msg": "invalid uuid" }));
    }
    let mut known = locked(by_uuid);
    let next = format!("om_{}", known.len() + 1);
    let id = known.entry(uuid).or_insert(next);
    Answer::json(200, json!({ "code": 0, "data": { "message_id": id } }))
}

/// What people see of these: each `uuid` once, and no tokens.
pub fn shown(taken: &[Received]) -> Vec<String> {
    let mut texts = BTreeMap::new();
    for message in taken.iter().filter(|message| message.body["uuid"].is_string()) {
        let content: Value = serde_json::from_str(message.body["content"].as_str().unwrap_or_default())
            .expect("content is JSON in a text");
        let text = content["text"].as_str().unwrap_or_default().to_owned();
        texts.entry(message.body["uuid"].to_string()).or_insert(text);
    }
    texts.into_values().collect()
}
