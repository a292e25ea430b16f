//! Reads Telegram's updates: messages and taps on buttons. Pure. Unknown fields are ignored.

use codex_bridge_core::inbox::{Arrival, ConversationKey, Party, Room, Sender};
use serde_json::Value;

use super::keyboard::{self, ButtonData};
use crate::channel::{Stranger, Tap, attachments};

/// The kinds of attachments; none of them can be read here.
const ATTACHMENTS: [&str; 10] = [
    "photo",
    "document",
    "voice",
    "audio",
    "video",
    "video_note",
    "sticker",
    "animation",
    "location",
    "contact",
];

const FORWARDED: &str = "(forwarded)";

/// A tap, with what is needed to show its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Tapped {
    /// The tap itself.
    pub tap: Tap,
    /// The display name of the person who tapped.
    pub who: String,
    /// The present text of the message, if Telegram still sends it.
    pub text: Option<String>,
    /// The present buttons of the message.
    pub buttons: Value,
}

/// The chat and topic of a message: its conversation, and the place of the reply. `original_chat` gives the number that a
/// chat had first.
fn place(message: &Value, original_chat: impl Fn(i64) -> i64) -> Option<String> {
    let chat = original_chat(message["chat"]["id"].as_i64()?);
    // Without this flag a thread is only a chain of replies.
    let topic = message["message_thread_id"].as_i64().filter(|_| message["is_topic_message"] == true);
    Some(topic.map_or_else(|| chat.to_string(), |topic| format!("{chat}:{topic}")))
}

/// A message for the bot; none if it has no text and no attachment, or is a command for another bot. `username` is our
/// bot's name.
pub fn arrival(
    channel: &str,
    username: &str,
    message: &Value,
    original_chat: impl Fn(i64) -> i64,
) -> Option<Arrival> {
    let from = &message["from"];
    let (chat, number) = (message["chat"]["id"].as_i64()?, message["message_id"].as_i64()?);
    let place = place(message, original_chat)?;
    let is_private = message["chat"]["type"] == "private";
    let party = if from["is_bot"] == true { Party::Agent } else { Party::Person };
    Some(Arrival {
        external_id: format!("{chat}/{number}"),
        reply_to: format!("{channel}:{place}"),
        conversation: ConversationKey(place),
        sender: Sender { id: from["id"].as_i64()?.to_string(), name: name(from), party },
        room: if is_private { Room::Direct } else { Room::Shared },
        text: text(username, message)?,
        position: None,
        sent_at: message["date"].as_i64().unwrap_or_default().saturating_mul(1000),
    })
}

/// The number of a message in this chat, from the `external_id` of its arrival.
pub fn message_number(external_id: &str, chat: i64) -> Option<i64> {
    let (chat_id, number) = external_id.split_once('/')?;
    number.parse().ok().filter(|_| chat_id == chat.to_string())
}

/// A tap on a button of our bot, whose number is `bot`. A tap on a message that is too old has no sender, and is ignored.
pub fn tapped(bot: &str, callback: &Value, original_chat: impl Fn(i64) -> i64) -> Option<Tapped> {
    let message = &callback["message"];
    if message["from"]["id"].as_i64()?.to_string() != bot {
        return None;
    }
    let ButtonData { button, choice } = keyboard::parse(callback["data"].as_str()?)?;
    let tap = Tap {
        id: callback["id"].as_str()?.to_owned(),
        conversation: ConversationKey(place(message, original_chat)?),
        sender_id: callback["from"]["id"].as_i64()?.to_string(),
        button,
        choice,
        message_id: Some(message["message_id"].as_i64()?.to_string()),
    };
    Some(Tapped {
        tap,
        who: name(&callback["from"]),
        text: message["text"].as_str().map(str::to_owned),
        buttons: message["reply_markup"]["inline_keyboard"].clone(),
    })
}

/// The person who tapped on an unknown button.
pub fn stranger(callback: &Value, original_chat: impl Fn(i64) -> i64) -> Option<Stranger> {
    Some(Stranger {
        conversation: ConversationKey(place(&callback["message"], original_chat).unwrap_or_default()),
        id: callback["from"]["id"].as_i64()?.to_string(),
        name: name(&callback["from"]),
    })
}

fn name(from: &Value) -> String {
    let word = |key: &str| from[key].as_str().filter(|word| !word.is_empty());
    let names: Vec<&str> = [word("first_name"), word("last_name")].into_iter().flatten().collect();
    match (names.is_empty(), word("username")) {
        (false, _) => names.join(" "),
        (true, Some(username)) => username.to_owned(),
        (true, None) => from["id"].to_string(),
    }
}

fn text(username: &str, message: &Value) -> Option<String> {
    let text = message["text"].as_str().or_else(|| message["caption"].as_str()).unwrap_or_default();
    if is_forwarded(message) {
        return Some(format!("{FORWARDED}\n{text}")).filter(|_| !text.trim().is_empty());
    }
    // In a group a message begins with the bot's name.
    let text = match text.strip_prefix('@').and_then(|text| text.split_once(char::is_whitespace)) {
        Some((name, rest)) if is_our_name(username, name) => rest.trim_start(),
        _ => text,
    };
    if addressed_bot(text).is_some_and(|name| !is_our_name(username, name)) {
        return None;
    }
    let kind = ATTACHMENTS.into_iter().find(|kind| message.get(*kind).is_some());
    let name = kind.and_then(|kind| message[kind]["file_name"].as_str());
    let text = attachments::append(text, kind.map(|kind| attachments::line(Some(kind), name)));
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Whether another person wrote the text. A forwarded text is never a command or an approval of the person who forwards it.
fn is_forwarded(message: &Value) -> bool {
    ["forward_origin", "forward_date", "via_bot"].iter().any(|key| message.get(*key).is_some())
}

/// The bot that a command names, if any: `/status@codex_bot`.
fn addressed_bot(text: &str) -> Option<&str> {
    let (word, name) = text.trim_start().strip_prefix('/')?.split_whitespace().next()?.split_once('@')?;
    let is_of_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    (!word.is_empty() && word.chars().all(is_of_word)).then_some(name)
}

/// Telegram's names are case-insensitive.
fn is_our_name(username: &str, name: &str) -> bool {
    !username.is_empty() && name.eq_ignore_ascii_case(username)
}

#[cfg(test)]
mod tests {
    use codex_session::Decision;
    use serde_json::json;

    use super::*;

    #[test]
    fn words_of_another_are_no_command_of_whoever_passes_them_on() {
        for mark in ["forward_origin", "forward_date", "via_bot"] {
            let mut message = json!({"text": "/approve req-1"});
            message[mark] = json!({});
            assert_eq!(text("codex_bot", &message).unwrap(), "(forwarded)\n/approve req-1");
        }
    }

    fn same(chat: i64) -> i64 {
        chat
    }

    fn message() -> Value {
        json!({
            "message_id": 5, "date": 1_700_000_000, "chat": {"id": -1001, "type": "supergroup"},
            "from": {"id": 42, "is_bot": false, "first_name": "Ada", "last_name": "L"}, "text": "hello",
        })
    }

    #[test]
    fn a_message_belongs_to_its_chat_and_topic() {
        let mut message = message();
        let plain = arrival("telegram", "codex_bot", &message, same).unwrap();
        assert_eq!((plain.external_id.as_str(), plain.conversation.as_str()), ("-1001/5", "-1001"));
        assert_eq!((plain.reply_to.as_str(), plain.room), ("telegram:-1001", Room::Shared));
        assert_eq!((plain.sender.name.as_str(), plain.sent_at), ("Ada L", 1_700_000_000_000));
        message["message_thread_id"] = 17.into();
        assert_eq!(
            arrival("t", "b", &message, same).unwrap().conversation.as_str(),
            "-1001",
            "a chain of replies is no topic"
        );
        message["is_topic_message"] = true.into();
        assert_eq!(arrival("t", "b", &message, same).unwrap().reply_to, "t:-1001:17");
        message["chat"]["type"] = "private".into();
        assert_eq!(arrival("t", "b", &message, same).unwrap().room, Room::Direct);
    }

    #[test]
    fn what_nobody_said_is_no_message() {
        let mut message = message();
        message["text"] = "@codex_bot  do it".into();
        assert_eq!(arrival("t", "codex_bot", &message, same).unwrap().text, "do it");
        message["text"] = "@codex_bots do it".into();
        assert_eq!(arrival("t", "codex_bot", &message, same).unwrap().text, "@codex_bots do it");
        message.as_object_mut().unwrap().remove("text");
        assert_eq!(arrival("t", "b", &message, same), None, "somebody joined, or the like");
        message["photo"] = json!([{}]);
        assert!(arrival("t", "b", &message, same).unwrap().text.contains("photo attached"));
        message["caption"] = "what is this?".into();
        assert!(arrival("t", "b", &message, same).unwrap().text.starts_with("what is this?\n"));
        assert_eq!(
            arrival("t", "b", &json!({"chat": {"id": 1}, "message_id": 1, "text": "a post"}), same),
            None
        );
    }

    #[test]
    fn a_command_for_another_bot_is_none_of_ours() {
        let said = |text: &str| {
            let mut message = message();
            message["text"] = text.into();
            arrival("t", "codex_bot", &message, same).map(|arrival| arrival.text)
        };
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(said(text).as_deref(), expected, "{text}");
        check("/approve@other_bot", None);
        check(" /approve@other_bot req-1", None);
        check("/approve@codex_bots", None);
        check("/approve@", None);
        check("@codex_bot /approve@other_bot", None);
        check("/approve@codex_bot req-1", Some("/approve@codex_bot req-1"));
        check("/approve@Codex_Bot", Some("/approve@Codex_Bot"));
        check("@Codex_BOT do it", Some("do it"));
        check("/approve", Some("/approve"));
        check("/etc/x@y is wrong", Some("/etc/x@y is wrong"));
        check("write to me@other_bot", Some("write to me@other_bot"));
    }

    #[test]
    fn a_tap_names_its_request_and_its_place() {
        let callback = json!({
            "id": "77", "from": {"id": 42, "username": "ada"}, "data": "a:req-12ab34cd.0123456789abcdef",
            "message": {"message_id": 9, "from": {"id": 7}, "chat": {"id": 42}, "text": "Codex asks"},
        });
        assert_eq!(tapped("8", &callback, same), None, "on a message of somebody else");
        let tapped = tapped("7", &callback, same).unwrap();
        assert_eq!(tapped.tap.button.digest, "0123456789abcdef");
        assert_eq!(
            (tapped.tap.conversation.as_str(), tapped.tap.button.request_id.as_str()),
            ("42", "req-12ab34cd")
        );
        assert_eq!((tapped.tap.choice, tapped.who.as_str()), (Decision::Accept.into(), "ada"));
        assert_eq!(message_number("42/5", 42), Some(5));
        assert_eq!(message_number("42/5", 43), None);
    }
}
