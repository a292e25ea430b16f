//! Reads what Slack sends: messages, edits of them, and taps on buttons. Pure. Unknown fields are ignored.

use std::collections::HashMap;

use codex_bridge_core::inbox::{
    Arrival, Attachment, COMMANDS, Context, ConversationKey, Party, Quoted, Room, Sender,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::api::Place;
use super::{blocks, words};
use crate::amount::one_line;
use crate::channel::chat::positions::Positions;
use crate::channel::chat::{Incoming, Keyboard, Tapped, UnknownTap, keyboard};
use crate::channel::recent::Recent;
use crate::channel::{Stranger, attachments};

/// The kinds of messages that somebody has said. The others tell of people who come and go, and the like.
const SAID: [&str; 5] = ["", "bot_message", "file_share", "me_message", "thread_broadcast"];

/// Who the bot is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Me {
    /// The bot as a member of the workspace.
    pub user: String,
    /// The bot as the sender of messages.
    pub bot: String,
    /// The workspace.
    pub team: String,
}

/// What has to be known of the bot's own messages after a restart; the field names are fixed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// Threads below messages of ours.
    pub threads: Recent<()>,
    /// The last question with buttons in each place.
    pub questions: Recent<String>,
}

/// Reads the events of one bot.
pub struct Reader<'a> {
    /// The name of the channel.
    pub channel: &'a str,
    /// Who the bot is.
    pub me: &'a Me,
    /// The names of people that are known.
    pub names: &'a HashMap<String, String>,
    /// The messages of the bot that people reply to.
    pub notes: &'a Notes,
    /// The places whose messages were read.
    pub read: &'a Positions,
}

impl Reader<'_> {
    /// A message, or a new version of one; none if nobody has said it, or the bot itself.
    pub fn incoming(&self, channel: &str, event: &Value) -> Option<Incoming> {
        if event["subtype"] == "message_changed" {
            self.edited(channel, event)
        } else {
            self.said(channel, event)
        }
    }

    fn said(&self, channel: &str, message: &Value) -> Option<Incoming> {
        let word = |key: &str| message[key].as_str().unwrap_or_default();
        let (ts, user, bot) = (word("ts"), word("user"), word("bot_id"));
        let is_ours = user == self.me.user || (!bot.is_empty() && bot == self.me.bot);
        if is_ours || ts.is_empty() || !SAID.contains(&word("subtype")) {
            return None;
        }
        let is_direct = channel.starts_with('D');
        let thread = message["thread_ts"].as_str().filter(|thread| *thread != ts);
        let answers_us = message["parent_user_id"] == self.me.user.as_str();
        let thread = match thread {
            // In a private chat, a thread below one of our messages is only a way to reply to it.
            Some(_) if is_direct && answers_us => None,
            None if !is_direct => Some(ts),
            thread => thread,
        };
        let place = Place { channel: channel.to_owned(), thread: thread.map(str::to_owned) }.to_string();
        let written = word("text").trim_start();
        let is_mentioned = ['>', '|'].iter().any(|end| written.contains(&format!("<@{}{end}", self.me.user)));
        let is_to_others = written.starts_with("<@") && !is_mentioned;
        let is_part = answers_us || self.read.has(&place) || self.notes.threads.get(&place).is_some();
        let is_addressed =
            is_direct || is_mentioned || written.starts_with('/') || (is_part && !is_to_others);
        let (text, quoted) = self.text(message, is_addressed);
        let attachments = files(message);
        if text.trim().is_empty() && attachments.is_empty() {
            return None;
        }
        let party = if bot.is_empty() && user != "USLACKBOT" { Party::Person } else { Party::Agent };
        let id = if user.is_empty() { bot } else { user };
        let name = self.names.get(id).map_or(id, String::as_str).to_owned();
        let explicit = message["thread_ts"].as_str().filter(|_| is_direct && answers_us).map(str::to_owned);
        // What is said to others answers nothing.
        let question =
            self.notes.questions.get(&place).filter(|asked| !is_to_others && ms_of(asked) <= ms_of(ts));
        let replies_to = explicit.or_else(|| question.cloned());
        let arrival = Arrival {
            external_id: format!("{channel}/{ts}"),
            reply_to: format!("{}:{place}", self.channel),
            conversation: ConversationKey(place),
            sender: Sender { id: Some(id).filter(|id| !id.is_empty())?.to_owned(), name, party },
            room: if is_direct { Room::Direct } else { Room::Shared },
            text,
            context: Context { quoted, is_overheard: !is_addressed, ..Context::default() },
            attachments,
            position: None,
            sent_at: ms_of(ts),
        };
        Some(Incoming { arrival, replies_to })
    }

    /// A new version of a message. Each version has an id of its own.
    fn edited(&self, channel: &str, event: &Value) -> Option<Incoming> {
        let message = &event["message"];
        let version = message["edited"]["ts"].as_str()?;
        // Slack also changes a message to show what its links lead to.
        if message["text"] == event["previous_message"]["text"] {
            return None;
        }
        let Incoming { arrival, replies_to } = self.said(channel, message)?;
        let original = arrival.external_id.clone();
        let external_id = format!("{original}#{version}");
        let context = Context { edits: Some(original), ..arrival.context };
        Some(Incoming { arrival: Arrival { external_id, context, ..arrival }, replies_to })
    }

    /// What a message says, and what it quotes.
    fn text(&self, message: &Value, is_addressed: bool) -> (String, Option<Quoted>) {
        let name_of = |id: &str| self.names.get(id).cloned();
        let written = message["text"].as_str().unwrap_or_default().trim_start();
        let own = format!("<@{}>", self.me.user);
        let written = written.strip_prefix(&own).map_or(written, str::trim_start);
        let said = words::plain(written, &name_of);
        let shared = message["attachments"].as_array().into_iter().flatten();
        let quoted =
            { shared }.find(|one| one["is_share"] == true || one["is_msg_unfurl"] == true).map(|one| {
                let author = one_line(one["author_name"].as_str().unwrap_or_default());
                Quoted { author, text: words::plain(one["text"].as_str().unwrap_or_default(), &name_of) }
            });
        if let (true, Some(quoted)) = (said.trim().is_empty(), &quoted) {
            // What another one wrote is never a command or an approval of the person who passes it on.
            let from =
                if quoted.author.is_empty() { String::new() } else { format!(" from {}", quoted.author) };
            let is_empty = quoted.text.trim().is_empty();
            let text = if is_empty { String::new() } else { format!("(forwarded{from})\n{}", quoted.text) };
            return (text, None);
        }
        (if is_addressed { with_slash(said) } else { said }, quoted)
    }

    /// A tap on a button of our bot, or on one that is not known. Of a person who may not write that is an attempt of a
    /// stranger.
    pub fn tapped(
        &self,
        payload: &Value,
        is_listed: impl Fn(&str) -> bool,
    ) -> Option<Result<Tapped, UnknownTap>> {
        let (container, message, action) =
            (&payload["container"], &payload["message"], &payload["actions"][0]);
        let (user, message_id) = (payload["user"]["id"].as_str()?, container["message_ts"].as_str()?);
        let thread = message["thread_ts"].as_str().filter(|thread| *thread != message_id).map(str::to_owned);
        let place = Place { channel: container["channel_id"].as_str()?.to_owned(), thread };
        // It tells where the person is told something.
        let id = format!("{place} {user} {}", action["action_ts"].as_str()?);
        let known = self.names.get(user).map(String::as_str).or_else(|| payload["user"]["name"].as_str());
        let name = known.unwrap_or(user).to_owned();
        let conversation = ConversationKey(place.to_string());
        let is_ours = message["user"] == self.me.user.as_str() || message["bot_id"] == self.me.bot.as_str();
        let pressed = action["value"].as_str().and_then(keyboard::parse).filter(|_| is_ours);
        let Some(pressed) = pressed else {
            let stranger = Stranger { conversation, name, id: user.to_owned() };
            return Some(Err(UnknownTap { id, stranger: Some(stranger).filter(|one| !is_listed(&one.id)) }));
        };
        Some(Ok(Tapped {
            id,
            pressed,
            sender: Sender { id: user.to_owned(), name, party: Party::Person },
            room: if place.channel.starts_with('D') { Room::Direct } else { Room::Shared },
            reply_to: format!("{}:{place}", self.channel),
            conversation,
            message_id: message_id.to_owned(),
            text: blocks::text_of(&message["blocks"]),
            keyboard: Keyboard::NONE,
            at: ms_of(action["action_ts"].as_str()?),
        }))
    }
}

/// The files of a message. They are not fetched.
fn files(message: &Value) -> Vec<Attachment> {
    let file = |file: &Value| {
        let kind = file["mimetype"].as_str().and_then(|kind| kind.split('/').next());
        let kind = kind.filter(|kind| ["image", "video", "audio"].contains(kind));
        attachments::unreadable(kind, file["name"].as_str(), "it is not fetched from Slack")
    };
    message["files"].as_array().into_iter().flatten().map(file).collect()
}

/// Slack keeps messages that begin with `/` to itself, so `!status` is written for `/status`.
fn with_slash(text: String) -> String {
    let word = text.strip_prefix('!').and_then(|rest| rest.split_whitespace().next());
    let is_command = |word: &str| COMMANDS.iter().any(|(name, _, _)| *name == word);
    if word.is_some_and(is_command) { text.replacen('!', "/", 1) } else { text }
}

/// When a message was written, from its time in seconds and microseconds.
fn ms_of(ts: &str) -> i64 {
    let (seconds, micros) = ts.split_once('.').unwrap_or((ts, "0"));
    let number = |text: &str| text.parse::<i64>().unwrap_or_default();
    number(seconds).saturating_mul(1_000).saturating_add(number(micros) / 1_000)
}

#[cfg(test)]
mod tests;
