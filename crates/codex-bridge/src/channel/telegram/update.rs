//! What Telegram tells us, read: messages and taps on buttons. Pure. Fields that we do not know are none of our business.

use codex_bridge_core::inbox::{Arrival, ConversationKey, Party, Room, Sender};
use serde_json::Value;

use super::keyboard::{self, Meaning};
use crate::channel::{Stranger, Tap, attached};

/// What can come beside text; none of it can be read here.
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

/// Stands above the words of somebody else.
const FORWARDED: &str = "(forwarded)";

/// A tap, and what is needed to show what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tapped {
    /// The tap itself.
    pub tap: Tap,
    /// Who tapped, as people call them.
    pub who: String,
    /// The message as it stands, if Telegram still shows it to us.
    pub text: Option<String>,
    /// Its buttons.
    pub buttons: Value,
}

/// The chat of a message, and the topic if it is in one: what belongs together, and where a reply goes. `home` is the
/// number under which a chat is known here.
fn place(message: &Value, home: impl Fn(i64) -> i64) -> Option<String> {
    let chat = home(message["chat"]["id"].as_i64()?);
    // Without this mark a thread is only a chain of replies.
    let topic = message["message_thread_id"].as_i64().filter(|_| message["is_topic_message"] == true);
    Some(topic.map_or_else(|| chat.to_string(), |topic| format!("{chat}:{topic}")))
}

/// A message for us; none if there is nothing in it that somebody said, or if it is a command for another bot. `username`
/// is how our bot is called.
pub fn arrival(channel: &str, username: &str, message: &Value, home: impl Fn(i64) -> i64) -> Option<Arrival> {
    let from = &message["from"];
    let (chat, number) = (message["chat"]["id"].as_i64()?, message["message_id"].as_i64()?);
    let place = place(message, home)?;
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

/// The number of the message that an arrival of ours names, in this chat.
pub fn number_in(external_id: &str, chat: i64) -> Option<i64> {
    let (of, number) = external_id.split_once('/')?;
    number.parse().ok().filter(|_| of == chat.to_string())
}

/// A tap on one of our buttons: one that stands on a message of our bot's, whose number is `bot`. Telegram no longer says
/// of messages that are too old who sent them.
pub fn tapped(bot: &str, callback: &Value, home: impl Fn(i64) -> i64) -> Option<Tapped> {
    let message = &callback["message"];
    if message["from"]["id"].as_i64()?.to_string() != bot {
        return None;
    }
    let Meaning { button, choice } = keyboard::meaning(callback["data"].as_str()?)?;
    let tap = Tap {
        id: callback["id"].as_str()?.to_owned(),
        conversation: ConversationKey(place(message, home)?),
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

/// Whoever tapped on something that means nothing to us.
pub fn stranger(callback: &Value, home: impl Fn(i64) -> i64) -> Option<Stranger> {
    Some(Stranger {
        conversation: ConversationKey(place(&callback["message"], home).unwrap_or_default()),
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
    let said = message["text"].as_str().or_else(|| message["caption"].as_str()).unwrap_or_default();
    if is_of_another(message) {
        return Some(format!("{FORWARDED}\n{said}")).filter(|_| !said.trim().is_empty());
    }
    // In a group a bot is addressed.
    let said = match said.strip_prefix('@').and_then(|said| said.split_once(char::is_whitespace)) {
        Some((name, rest)) if is_ours(username, name) => rest.trim_start(),
        _ => said,
    };
    if commanded(said).is_some_and(|name| !is_ours(username, name)) {
        return None;
    }
    let kind = ATTACHMENTS.into_iter().find(|kind| message.get(*kind).is_some());
    let name = kind.and_then(|kind| message[kind]["file_name"].as_str());
    let text = attached::below(said, kind.map(|kind| attached::line(Some(kind), name)));
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Whether somebody else wrote the words of a message. They are no command and no yes of whoever passes them on.
fn is_of_another(message: &Value) -> bool {
    ["forward_origin", "forward_date", "via_bot"].iter().any(|key| message.get(*key).is_some())
}

/// The bot that a command is for, if it names one: `/status@codex_bot`.
fn commanded(said: &str) -> Option<&str> {
    let (word, name) = said.trim_start().strip_prefix('/')?.split_whitespace().next()?.split_once('@')?;
    let is_of_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    (!word.is_empty() && word.chars().all(is_of_word)).then_some(name)
}

/// Telegram's names are the same in small letters and in capitals.
fn is_ours(username: &str, name: &str) -> bool {
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
        assert_eq!(number_in("42/5", 42), Some(5));
        assert_eq!(number_in("42/5", 43), None);
    }
}
