//! Reads Telegram's updates: messages, edits of them, and taps on buttons. Pure. Unknown fields are ignored.

use codex_bridge_core::inbox::{Arrival, Attachment, Context, ConversationKey, Party, Quoted, Room, Sender};
use serde_json::Value;

use super::files;
use super::state::State;
use crate::amount::one_line;
use crate::channel::Stranger;
use crate::channel::chat::{Incoming, Key, Keyboard, Tapped, UnknownTap, keyboard};

/// Reads the updates of one bot.
pub struct Reader<'a> {
    /// The name of the channel.
    pub channel: &'a str,
    /// The number of the bot.
    pub bot: &'a str,
    /// What is known of the bot and its chats.
    pub state: &'a State,
}

impl Reader<'_> {
    /// The chat and topic of a message: its conversation, and the place of the reply.
    fn place(&self, message: &Value) -> Option<String> {
        let chat = self.state.original_chat(message["chat"]["id"].as_i64()?);
        // Without this flag a thread is only a chain of replies.
        let topic = message["message_thread_id"].as_i64().filter(|_| message["is_topic_message"] == true);
        Some(topic.map_or_else(|| chat.to_string(), |topic| format!("{chat}:{topic}")))
    }

    /// A message for the bot; none if it has no text and no attachment, or is a command for another bot.
    pub fn incoming(&self, message: &Value) -> Option<Incoming> {
        let from = &message["from"];
        let (chat, number) = (message["chat"]["id"].as_i64()?, message["message_id"].as_i64()?);
        let place = self.place(message)?;
        let room = if message["chat"]["type"] == "private" { Room::Direct } else { Room::Shared };
        let (text, attachments) = self.content(message)?;
        let answered = &message["reply_to_message"];
        let is_ours = answered["from"]["id"].as_i64().is_some_and(|id| id.to_string() == self.bot);
        let is_addressed = room == Room::Direct
            || is_ours
            || text.trim_start().starts_with('/')
            || self.is_mentioned(message);
        let arrival = Arrival {
            external_id: format!("{chat}/{number}"),
            reply_to: format!("{}:{place}", self.channel),
            conversation: ConversationKey(place),
            sender: sender(from)?,
            room,
            text,
            context: Context {
                quoted: quoted(message, is_ours),
                is_overheard: !is_addressed,
                ..Context::default()
            },
            attachments,
            position: None,
            sent_at: message["date"].as_i64().unwrap_or_default().saturating_mul(1000),
        };
        let replies_to = answered["message_id"].as_i64().filter(|_| is_ours).map(|id| id.to_string());
        Some(Incoming { arrival, replies_to })
    }

    /// A new version of a message. Each version has an id of its own.
    pub fn edited(&self, update: &Value) -> Option<Incoming> {
        let (message, version) = (update.get("edited_message")?, update["update_id"].as_i64()?);
        let Incoming { arrival, replies_to } = self.incoming(message)?;
        let external_id = format!("{}#{version}", arrival.external_id);
        let original = self.state.album_of(&arrival.external_id).unwrap_or(arrival.external_id);
        let context = Context { edits: Some(original), ..arrival.context };
        Some(Incoming { arrival: Arrival { external_id, context, ..arrival }, replies_to })
    }

    /// A tap on a button of our bot. A tap on a message that is too old has no sender, and is unknown.
    pub fn tapped(&self, callback: &Value) -> Option<Tapped> {
        let message = &callback["message"];
        if message["from"]["id"].as_i64()?.to_string() != self.bot {
            return None;
        }
        let place = self.place(message)?;
        Some(Tapped {
            id: callback["id"].as_str()?.to_owned(),
            pressed: keyboard::parse(callback["data"].as_str()?)?,
            reply_to: format!("{}:{place}", self.channel),
            conversation: ConversationKey(place),
            sender: sender(&callback["from"])?,
            room: if message["chat"]["type"] == "private" { Room::Direct } else { Room::Shared },
            message_id: message["message_id"].as_i64()?.to_string(),
            text: message["text"].as_str().map(str::to_owned),
            keyboard: shown_keyboard(&message["reply_markup"]["inline_keyboard"]),
            at: self.state.polled_at.max(message["date"].as_i64().unwrap_or_default().saturating_mul(1000)),
        })
    }

    /// A tap on a button that is not known. Of a person who may not write it is an attempt of a stranger.
    pub fn unknown_tap(&self, callback: &Value, people: &[String]) -> Option<UnknownTap> {
        let id = callback["from"]["id"].as_i64()?.to_string();
        let stranger = Stranger {
            conversation: ConversationKey(self.place(&callback["message"]).unwrap_or_default()),
            name: name(&callback["from"]),
            id,
        };
        let stranger = Some(stranger).filter(|stranger| !people.contains(&stranger.id));
        Some(UnknownTap { id: callback["id"].as_str()?.to_owned(), stranger })
    }

    /// The text and the files of a message; none of a message for another bot, or without either.
    fn content(&self, message: &Value) -> Option<(String, Vec<Attachment>)> {
        let text = words(message);
        let mut files: Vec<Attachment> = files::of(message).into_iter().collect();
        if let Some(from) = forwarded_from(message) {
            // What another one wrote is never a command or an approval of the person who forwards it.
            for file in &mut files {
                file.kind = format!("forwarded {}", file.kind);
            }
            let is_silent = text.trim().is_empty();
            let text = if is_silent { String::new() } else { format!("(forwarded{from})\n{text}") };
            return Some((text, files)).filter(|(_, files)| !is_silent || !files.is_empty());
        }
        // In a group a message begins with the bot's name.
        let text = match text.strip_prefix('@').and_then(|text| text.split_once(char::is_whitespace)) {
            Some((name, rest)) if self.is_our_name(name) => rest.trim_start(),
            _ => text,
        };
        if addressed_bot(text).is_some_and(|name| !self.is_our_name(name)) {
            return None;
        }
        Some((text.to_owned(), files)).filter(|(text, files)| !text.trim().is_empty() || !files.is_empty())
    }

    /// Whether a message names the bot somewhere.
    fn is_mentioned(&self, message: &Value) -> bool {
        let is_of_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let names = words(message)
            .split('@')
            .skip(1)
            .map(|rest| rest.split(|char| !is_of_name(char)).next().unwrap_or_default());
        names.into_iter().any(|name| self.is_our_name(name))
    }

    /// Telegram's names are case-insensitive.
    fn is_our_name(&self, name: &str) -> bool {
        !self.state.username.is_empty() && name.eq_ignore_ascii_case(&self.state.username)
    }
}

fn sender(from: &Value) -> Option<Sender> {
    let party = if from["is_bot"] == true { Party::Agent } else { Party::Person };
    Some(Sender { id: from["id"].as_i64()?.to_string(), name: name(from), party })
}

/// The number of a message in this chat, from the `external_id` of its arrival.
pub fn message_number(external_id: &str, chat: i64) -> Option<i64> {
    let (chat_id, number) = external_id.split_once('/')?;
    number.parse().ok().filter(|_| chat_id == chat.to_string())
}

fn words(message: &Value) -> &str {
    message["text"].as_str().or_else(|| message["caption"].as_str()).unwrap_or_default()
}

fn name(from: &Value) -> String {
    let word = |key: &str| from[key].as_str().filter(|word| !word.is_empty());
    let names: Vec<&str> = [word("first_name"), word("last_name")].into_iter().flatten().collect();
    match (names.is_empty(), word("username").or(word("title"))) {
        (false, _) => names.join(" "),
        (true, Some(username)) => username.to_owned(),
        (true, None) => from["id"].to_string(),
    }
}

/// Who wrote a forwarded text, in words; none if the sender of the message wrote it.
fn forwarded_from(message: &Value) -> Option<String> {
    let origin = &message["forward_origin"];
    let chat = [&origin["sender_chat"], &origin["chat"]].into_iter().find(|chat| chat.is_object());
    let from = match (origin["sender_user"].is_object(), chat, origin["sender_user_name"].as_str()) {
        (true, ..) => name(&origin["sender_user"]),
        (false, Some(chat), _) => name(chat),
        (false, None, Some(name)) => name.to_owned(),
        (false, None, None) => String::new(),
    };
    let is_forwarded =
        ["forward_origin", "forward_date", "via_bot"].iter().any(|key| message.get(*key).is_some());
    let from = one_line(&from);
    is_forwarded.then(|| if from.is_empty() { String::new() } else { format!(" from {from}") })
}

/// The text that a message quotes or replies to, with its author.
fn quoted(message: &Value, is_ours: bool) -> Option<Quoted> {
    let answered =
        [&message["reply_to_message"], &message["external_reply"]].into_iter().find(|one| one.is_object())?;
    let text = message["quote"]["text"].as_str().unwrap_or_else(|| words(answered));
    let author = match answered.get("from").filter(|from| from.is_object()) {
        // In quotes, so that no name passes for these words.
        _ if is_ours => "your own message".to_owned(),
        Some(from) => format!("{:?}", one_line(&name(from))),
        None => String::new(),
    };
    Some(Quoted { author, text: text.to_owned() }).filter(|quoted| !quoted.text.trim().is_empty())
}

fn shown_keyboard(markup: &Value) -> Keyboard {
    let key = |key: &Value| {
        Some(Key { text: key["text"].as_str()?.to_owned(), data: key["callback_data"].as_str()?.to_owned() })
    };
    let row = |row: &Value| row.as_array().into_iter().flatten().filter_map(key).collect();
    Keyboard(markup.as_array().into_iter().flatten().map(row).collect())
}

/// The bot that a command names, if any: `/status@codex_bot`.
fn addressed_bot(text: &str) -> Option<&str> {
    let (word, name) = text.trim_start().strip_prefix('/')?.split_whitespace().next()?.split_once('@')?;
    let is_of_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    (!word.is_empty() && word.chars().all(is_of_word)).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A group that became a supergroup is told of by its first number.
    fn state() -> State {
        State { username: "codex_bot".to_owned(), moved: [(-77, -100_777)].into(), ..State::default() }
    }

    fn incoming(message: &Value) -> Option<Incoming> {
        Reader { channel: "telegram", bot: "4711", state: &state() }.incoming(message)
    }

    fn arrival(message: &Value) -> Option<Arrival> {
        incoming(message).map(|incoming| incoming.arrival)
    }

    fn said(text: &str) -> Value {
        json!({
            "message_id": 5, "date": 1_700_000_000, "chat": {"id": -1001, "type": "supergroup"},
            "from": {"id": 42, "is_bot": false, "first_name": "Ada", "last_name": "L"}, "text": text,
        })
    }

    #[test]
    fn words_of_another_are_no_command_of_whoever_passes_them_on() {
        for mark in ["forward_origin", "forward_date", "via_bot"] {
            let mut message = said("/approve req-1");
            message[mark] = json!({});
            assert_eq!(arrival(&message).unwrap().text, "(forwarded)\n/approve req-1");
        }
        let mut message = said("it broke");
        message["forward_origin"] = json!({"type": "user", "sender_user": {"id": 7, "first_name": "Bob\nA"}});
        assert_eq!(arrival(&message).unwrap().text, "(forwarded from Bob A)\nit broke");
    }

    #[test]
    fn a_message_belongs_to_its_chat_and_topic() {
        let mut message = said("hello");
        let plain = arrival(&message).unwrap();
        assert_eq!((plain.external_id.as_str(), plain.conversation.as_str()), ("-1001/5", "-1001"));
        assert_eq!((plain.reply_to.as_str(), plain.room), ("telegram:-1001", Room::Shared));
        assert_eq!((plain.sender.name.as_str(), plain.sent_at), ("Ada L", 1_700_000_000_000));
        message["message_thread_id"] = 17.into();
        assert_eq!(
            arrival(&message).unwrap().conversation.as_str(),
            "-1001",
            "a chain of replies is no topic"
        );
        message["is_topic_message"] = true.into();
        assert_eq!(arrival(&message).unwrap().reply_to, "telegram:-1001:17");
        message["chat"]["type"] = "private".into();
        assert_eq!(arrival(&message).unwrap().room, Room::Direct);
        message["chat"]["id"] = (-100_777).into();
        assert_eq!(arrival(&message).unwrap().conversation.as_str(), "-77:17");
    }

    #[test]
    fn in_a_group_a_message_is_for_the_bot_if_it_names_it_replies_to_it_or_is_a_command() {
        let is_overheard = |message: &Value| arrival(message).unwrap().context.is_overheard;
        assert!(is_overheard(&said("lunch?")));
        for text in ["@codex_bot lunch?", "lunch, @Codex_Bot?", "/status"] {
            assert!(!is_overheard(&said(text)), "{text}");
        }
        assert!(is_overheard(&said("@codex_bots lunch?")));
        let mut reply = said("yes");
        reply["reply_to_message"] =
            json!({"message_id": 9, "from": {"id": 4711, "first_name": "Codex"}, "text": "Shall I?"});
        let read = incoming(&reply).unwrap();
        assert!(!read.arrival.context.is_overheard);
        assert_eq!(read.replies_to.as_deref(), Some("9"));
        let quoted = read.arrival.context.quoted.unwrap();
        assert_eq!((quoted.author.as_str(), quoted.text.as_str()), ("your own message", "Shall I?"));
        reply["reply_to_message"]["from"]["id"] = 7.into();
        assert!(is_overheard(&reply) && incoming(&reply).unwrap().replies_to.is_none());
        let quoted = incoming(&reply).unwrap().arrival.context.quoted.unwrap();
        assert_eq!(quoted.author, "\"Codex\"", "anybody may have that name");
        let mut alone = said("lunch?");
        alone["chat"] = json!({"id": 42, "type": "private"});
        assert!(!is_overheard(&alone));
    }

    #[test]
    fn each_version_of_a_message_has_an_id_of_its_own() {
        let update = json!({"update_id": 9, "edited_message": said("@codex_bot look there")});
        let reader = Reader { channel: "telegram", bot: "4711", state: &state() };
        let read = reader.edited(&update).unwrap().arrival;
        assert_eq!(
            (read.external_id.as_str(), read.context.edits.as_deref()),
            ("-1001/5#9", Some("-1001/5"))
        );
        assert_eq!(read.text, "look there");
    }

    #[test]
    fn what_nobody_said_is_no_message() {
        let text = |message: &Value| arrival(message).map(|arrival| arrival.text);
        let mut message = said("@codex_bot  do it");
        assert_eq!(text(&message).unwrap(), "do it");
        message["text"] = "@codex_bots do it".into();
        assert_eq!(text(&message).unwrap(), "@codex_bots do it");
        message.as_object_mut().unwrap().remove("text");
        assert_eq!(text(&message), None, "somebody joined, or the like");
        message["photo"] = json!([{}]);
        assert_eq!(
            (text(&message).unwrap(), arrival(&message).unwrap().attachments.len()),
            (String::new(), 1)
        );
        message["caption"] = "what is this?".into();
        assert_eq!(text(&message).unwrap(), "what is this?");
        message["forward_date"] = 1.into();
        assert_eq!(arrival(&message).unwrap().attachments[0].kind, "forwarded photo");
        assert_eq!(arrival(&json!({"chat": {"id": 1}, "message_id": 1, "text": "a post"})), None);
    }

    #[test]
    fn a_command_for_another_bot_is_none_of_ours() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(arrival(&said(text)).map(|arrival| arrival.text).as_deref(), expected, "{text}");
        };
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
            "message": {
                "message_id": 9, "from": {"id": 4711}, "chat": {"id": 42, "type": "private"}, "text": "Codex asks",
                "reply_markup": {"inline_keyboard": [[{"text": "Yes", "callback_data": "a:x"}]]},
            },
        });
        let state = state();
        let tapped = |bot| Reader { channel: "telegram", bot, state: &state }.tapped(&callback);
        assert_eq!(tapped("8"), None, "on a message of somebody else");
        let tapped = tapped("4711").unwrap();
        assert_eq!(tapped.pressed, keyboard::parse("a:req-12ab34cd.0123456789abcdef").unwrap());
        assert_eq!((tapped.conversation.as_str(), tapped.message_id.as_str()), ("42", "9"));
        assert_eq!((tapped.sender.name.as_str(), tapped.room), ("ada", Room::Direct));
        assert_eq!(tapped.keyboard.0[0][0].text, "Yes");
        let state = State { polled_at: 1_700_000_000_000, ..state };
        let later = Reader { channel: "telegram", bot: "4711", state: &state }.tapped(&callback).unwrap();
        assert_eq!((tapped.at, later.at), (0, 1_700_000_000_000), "after the last poll");
        assert_eq!((message_number("42/5", 42), message_number("42/5", 43)), (Some(5), None));
    }
}
