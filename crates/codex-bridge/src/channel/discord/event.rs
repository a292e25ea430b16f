//! Reads Discord's events: messages, edits of them, and taps on buttons. Pure. Unknown fields are ignored.

use codex_bridge_core::inbox::{
    Arrival, Attachment, COMMANDS, Context, ConversationKey, Party, Quoted, Room, Sender,
};
use jiff::Timestamp;
use serde_json::Value;

use super::position::written_at;
use crate::amount::one_line;
use crate::channel::chat::{Incoming, Keyboard, Tapped, UnknownTap, keyboard};
use crate::channel::{Stranger, attachments};

/// The kinds of messages that people write: plain ones and replies.
const WRITTEN: [u64; 2] = [0, 19];
/// The kinds of channels that are threads.
const THREADS: [u64; 3] = [10, 11, 12];
/// The kind of a reference that forwards a message.
const FORWARD: u64 = 1;

/// Where something was written: a channel, or a thread in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// `CHANNEL` or `CHANNEL/THREAD`.
    pub name: String,
    /// Who reads it.
    pub room: Room,
}

impl Place {
    /// A private conversation.
    pub fn direct(channel: &str) -> Self {
        Self { name: channel.to_owned(), room: Room::Direct }
    }

    /// The place of a channel's description.
    pub fn of_channel(channel: &Value) -> Option<Self> {
        let id = channel["id"].as_str()?;
        let is_thread = channel["type"].as_u64().is_some_and(|kind| THREADS.contains(&kind));
        let parent = channel["parent_id"].as_str().filter(|_| is_thread);
        let name = parent.map_or_else(|| id.to_owned(), |parent| format!("{parent}/{id}"));
        Some(Self { name, room: if channel["type"] == 1 { Room::Direct } else { Room::Shared } })
    }
}

/// Reads the events of one bot.
pub struct Reader<'a> {
    /// The name of the channel.
    pub channel: &'a str,
    /// The bot's id.
    pub bot: &'a str,
    /// The roles that only the bot has; to mention one is to mention the bot.
    pub roles: &'a [String],
}

impl Reader<'_> {
    /// A message of somebody else; none if it has no text and no attachment.
    pub fn incoming(&self, message: &Value, place: &Place) -> Option<Incoming> {
        let (author, id) = (&message["author"], message["id"].as_str()?);
        let is_written = message["type"].as_u64().is_some_and(|kind| WRITTEN.contains(&kind));
        if author["id"] == self.bot || !is_written {
            return None;
        }
        let (text, is_named) = self.text(message);
        let attachments = files(message);
        if text.trim().is_empty() && attachments.is_empty() {
            return None;
        }
        let answered = &message["referenced_message"];
        let is_ours = answered["author"]["id"] == self.bot;
        let is_addressed = place.room == Room::Direct || is_ours || is_named || text.starts_with('/');
        let arrival = Arrival {
            external_id: format!("{}/{id}", message["channel_id"].as_str()?),
            conversation: ConversationKey(place.name.clone()),
            sender: sender(author, message)?,
            room: place.room,
            text,
            reply_to: format!("{}:{}", self.channel, place.name),
            attachments,
            position: None,
            sent_at: written_at(id.parse().ok()?),
            context: Context { quoted: quoted(answered), is_overheard: !is_addressed, ..Context::default() },
        };
        let replies_to = answered["id"].as_str().filter(|_| is_ours).map(str::to_owned);
        Some(Incoming { arrival, replies_to })
    }

    /// A new version of a message. Each version has an id of its own. Other changes, such as a preview, are none.
    pub fn edited(&self, message: &Value, place: &Place) -> Option<Incoming> {
        let version: Timestamp = message["edited_timestamp"].as_str()?.parse().ok()?;
        message["content"].as_str()?;
        let Incoming { arrival, replies_to } = self.incoming(message, place)?;
        let original = arrival.external_id.clone();
        let external_id = format!("{original}#{}", version.as_microsecond());
        let context = Context { edits: Some(original), ..arrival.context };
        Some(Incoming { arrival: Arrival { external_id, context, ..arrival }, replies_to })
    }

    /// A tap on a button of our bot.
    pub fn tapped(&self, interaction: &Value, place: &Place) -> Option<Tapped> {
        let message = &interaction["message"];
        if message["author"]["id"] != self.bot {
            return None;
        }
        Some(Tapped {
            id: interaction["id"].as_str()?.to_owned(),
            pressed: keyboard::parse(interaction["data"]["custom_id"].as_str()?)?,
            sender: sender(who(interaction), &Value::Null)?,
            conversation: ConversationKey(place.name.clone()),
            room: place.room,
            reply_to: format!("{}:{}", self.channel, place.name),
            message_id: message["id"].as_str()?.to_owned(),
            // Discord gives back the text with all marks, which nobody wrote.
            text: None,
            keyboard: Keyboard::NONE,
            at: interaction["id"].as_str()?.parse().ok().map(written_at)?,
        })
    }

    /// The text of a message, and whether it names the bot.
    fn text(&self, message: &Value) -> (String, bool) {
        if message["message_reference"]["type"].as_u64() == Some(FORWARD) {
            // What another one wrote is never a command or an approval of the person who forwards it.
            let text = message["message_snapshots"][0]["message"]["content"].as_str().unwrap_or_default();
            let text = if text.trim().is_empty() { String::new() } else { format!("(forwarded)\n{text}") };
            return (text, false);
        }
        let mut text = message["content"].as_str().unwrap_or_default().trim_start();
        let is_ours = |named: &Value| named["id"] == self.bot;
        let has_role =
            |role: &Value| role.as_str().is_some_and(|role| self.roles.iter().any(|own| own == role));
        let is_named =
            list(&message["mentions"]).any(is_ours) || list(&message["mention_roles"]).any(has_role);
        if let Some((mention, rest)) = text.split_once('>')
            && self.is_our_mention(mention)
        {
            text = rest.trim_start();
        }
        let command = text.strip_prefix('!').filter(|rest| is_command(rest));
        let text = command.map_or_else(|| text.to_owned(), |rest| format!("/{rest}"));
        (text, is_named)
    }

    /// Whether a text is a mention of the bot without its end: `<@4711`, `<@!4711` or `<@&` and a role.
    fn is_our_mention(&self, text: &str) -> bool {
        let Some(id) = text.strip_prefix("<@") else { return false };
        match id.strip_prefix('&') {
            Some(role) => self.roles.iter().any(|own| own == role),
            None => id.trim_start_matches('!') == self.bot,
        }
    }
}

/// A tap on a button that is not known. Of a person who may not write it is an attempt of a stranger.
pub fn unknown_tap(interaction: &Value, place: &Place, people: &[String]) -> Option<UnknownTap> {
    let Sender { id, name, .. } = sender(who(interaction), &Value::Null)?;
    let stranger = Stranger { conversation: ConversationKey(place.name.clone()), id, name };
    let stranger = Some(stranger).filter(|stranger| !people.contains(&stranger.id));
    Some(UnknownTap { id: interaction["id"].as_str()?.to_owned(), stranger })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Whether a text begins with the name of a command, which other bots may have too.
fn is_command(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    text.starts_with(word) && COMMANDS.iter().any(|(name, ..)| *name == word)
}

/// Who used a button: in a server its member, else the user.
fn who(interaction: &Value) -> &Value {
    let member = &interaction["member"]["user"];
    if member.is_object() { member } else { &interaction["user"] }
}

fn sender(user: &Value, message: &Value) -> Option<Sender> {
    let is_agent = user["bot"] == true || message["webhook_id"].is_string();
    let party = if is_agent { Party::Agent } else { Party::Person };
    Some(Sender { id: user["id"].as_str()?.to_owned(), name: name(user), party })
}

fn name(user: &Value) -> String {
    let name = user["global_name"].as_str().or_else(|| user["username"].as_str()).unwrap_or_default();
    one_line(name)
}

/// The text that a message replies to, with its author.
fn quoted(answered: &Value) -> Option<Quoted> {
    let text = answered["content"].as_str().filter(|text| !text.trim().is_empty())?;
    Some(Quoted { author: name(&answered["author"]), text: text.to_owned() })
}

/// The files of a message, or of the one that it forwards. They are not fetched.
fn files(message: &Value) -> Vec<Attachment> {
    const WHY: &str = "it is not fetched from Discord";
    let with_files = [message, &message["message_snapshots"][0]["message"]];
    let file = |attached: &Value| {
        let kind = attached["content_type"].as_str().and_then(|kind| kind.split('/').next());
        let kind = kind.filter(|kind| ["image", "video", "audio"].contains(kind));
        attachments::unreadable(kind, attached["filename"].as_str(), WHY)
    };
    let sticker = |sticker: &Value| attachments::unreadable(Some("sticker"), sticker["name"].as_str(), WHY);
    let of = |message: &Value| -> Vec<Attachment> {
        let stickers = list(&message["sticker_items"]).map(sticker);
        list(&message["attachments"]).map(file).chain(stickers).collect()
    };
    with_files.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ROLES: [String; 0] = [];

    fn read(message: &Value) -> Option<Incoming> {
        let roles = ["900".to_owned()];
        let place = Place { name: "1/2".to_owned(), room: Room::Shared };
        Reader { channel: "discord", bot: "4711", roles: &roles }.incoming(message, &place)
    }

    fn said(text: &str) -> Value {
        json!({
            "id": "1267700000000000000", "channel_id": "2", "type": 0, "content": text,
            "author": {"id": "42", "username": "ada", "global_name": "Ada"}, "mentions": [],
        })
    }

    #[test]
    fn a_message_belongs_to_its_channel_and_thread() {
        let arrival = read(&said("hello")).unwrap().arrival;
        assert_eq!(arrival.external_id, "2/1267700000000000000");
        assert_eq!((arrival.conversation.as_str(), arrival.reply_to.as_str()), ("1/2", "discord:1/2"));
        assert_eq!((arrival.sender.name.as_str(), arrival.sender.party), ("Ada", Party::Person));
        assert_eq!(Timestamp::from_millisecond(arrival.sent_at).unwrap().to_string()[..7], *"2024-07");
        let thread = json!({"id": "2", "type": 11, "parent_id": "1"});
        assert_eq!(Place::of_channel(&thread).unwrap().name, "1/2");
        let channel = json!({"id": "1", "type": 0, "parent_id": "77"});
        assert_eq!(Place::of_channel(&channel).unwrap().name, "1", "a category is no channel");
    }

    #[test]
    fn in_a_server_a_message_is_for_the_bot_if_it_names_it_replies_to_it_or_is_a_command() {
        let is_overheard = |message: &Value| read(message).unwrap().arrival.context.is_overheard;
        assert!(is_overheard(&said("lunch?")) && is_overheard(&said("!lunch")));
        assert!(!is_overheard(&said("/status")) && !is_overheard(&said("!status now")));
        let mut named = said("lunch, <@4711>?");
        named["mentions"] = json!([{"id": "4711"}]);
        assert!(!is_overheard(&named));
        let mut role = said("<@&900> lunch?");
        role["mention_roles"] = json!(["900"]);
        assert!(!is_overheard(&role));
        assert_eq!(read(&role).unwrap().arrival.text, "lunch?");
        let mut reply = said("yes");
        reply["referenced_message"] =
            json!({"id": "9", "content": "Shall I?", "author": {"id": "4711", "username": "Codex"}});
        let read = read(&reply).unwrap();
        assert_eq!((read.replies_to.as_deref(), read.arrival.context.is_overheard), (Some("9"), false));
        assert_eq!(read.arrival.context.quoted.unwrap().author, "Codex");
    }

    #[test]
    fn a_command_is_read_behind_the_bots_name_and_with_another_mark() {
        let text = |text: &str| read(&said(text)).unwrap().arrival.text;
        assert_eq!(text("<@4711>  /status"), "/status");
        assert_eq!(text("<@!4711> !deny req-1"), "/deny req-1");
        assert_eq!(
            (text("!status"), text("!statusx"), text("! status")),
            ("/status".into(), "!statusx".into(), "! status".into())
        );
        assert_eq!(text("<@4712> /status"), "<@4712> /status");
    }

    #[test]
    fn words_of_another_are_no_command_of_whoever_passes_them_on() {
        let mut message = said("");
        message["message_reference"] = json!({"type": 1, "channel_id": "5"});
        message["message_snapshots"] = json!([{"message": {"content": "/approve req-1"}}]);
        let arrival = read(&message).unwrap().arrival;
        assert_eq!(
            (arrival.text.as_str(), arrival.context.is_overheard),
            ("(forwarded)\n/approve req-1", true)
        );
    }

    #[test]
    fn what_nobody_said_is_no_message() {
        let mut message = said("");
        assert_eq!(read(&message), None);
        message["attachments"] = json!([{"filename": "a.png", "content_type": "image/png"}]);
        assert!(read(&message).unwrap().arrival.attachments[0].name == "a.png");
        message["type"] = 7.into();
        assert_eq!(read(&message), None, "somebody joined");
        let mut own = said("hello");
        own["author"] = json!({"id": "4711", "bot": true});
        assert_eq!(read(&own), None);
        own["author"]["id"] = "4712".into();
        assert_eq!(read(&own).unwrap().arrival.sender.party, Party::Agent);
    }

    #[test]
    fn each_version_of_a_message_has_an_id_of_its_own_and_a_preview_is_none() {
        let reader = Reader { channel: "discord", bot: "4711", roles: &ROLES };
        let place = Place::direct("2");
        let mut message = said("look there");
        assert_eq!(reader.edited(&message, &place), None);
        message["edited_timestamp"] = "2026-05-01T10:00:00.123000+00:00".into();
        let arrival = reader.edited(&message, &place).unwrap().arrival;
        assert!(arrival.external_id.starts_with("2/1267700000000000000#1777"), "{}", arrival.external_id);
        assert_eq!(arrival.context.edits.as_deref(), Some("2/1267700000000000000"));
    }

    #[test]
    fn a_tap_names_its_request_its_place_and_its_person() {
        let reader = Reader { channel: "discord", bot: "4711", roles: &ROLES };
        let mut tap = json!({
            "id": "77", "token": "aW50", "application_id": "4711", "type": 3, "channel_id": "2", "guild_id": "5",
            "data": {"component_type": 2, "custom_id": "a:req-12ab34cd.0123456789abcdef"},
            "member": {"user": {"id": "42", "username": "ada"}},
            "message": {"id": "9", "author": {"id": "4711"}, "content": "Codex asks"},
        });
        let place = Place { name: "1/2".to_owned(), room: Room::Shared };
        let tapped = reader.tapped(&tap, &place).unwrap();
        assert_eq!((tapped.conversation.as_str(), tapped.message_id.as_str()), ("1/2", "9"));
        assert_eq!((tapped.sender.id.as_str(), tapped.sender.name.as_str()), ("42", "ada"));
        let unknown = unknown_tap(&tap, &place, &["42".to_owned()]).unwrap();
        assert_eq!(unknown.stranger, None);
        assert!(unknown_tap(&tap, &place, &[]).unwrap().stranger.is_some());
        tap["message"]["author"]["id"] = "8".into();
        assert_eq!(reader.tapped(&tap, &place), None, "on a message of somebody else");
    }
}
