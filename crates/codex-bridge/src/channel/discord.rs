//! A Discord bot (API v10). People write to it in private, in channels of a server, and in threads.
//!
//! Events come by the gateway, a WebSocket. Nothing confirms an event: a session is resumed behind the last one that is
//! stored, and where no session can be resumed, the history of the channels is read. Requests have buttons; a running turn
//! has one message that is edited. Discord recognises a repeated message for some minutes. Nobody is notified by what the
//! bot says.
//!
//! A bot without `allow` only sends, and without buttons, since it does not read taps.

mod event;
mod gateway;
mod history;
mod link;
mod markdown;
mod outgoing;
mod position;
mod rest;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use codex_bridge_core::inbox::Allowed;
use codex_bridge_core::outbox::{Outcome, Repeats};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::chat::{self, ChatApi, EditOutcome, Keyboard, Post, Reading};
use super::secret::{Env, Secret, reveal_all};
use super::settings::{Common, OpenedChannel, Opening};
use super::text::{Limits, Styled};
use super::{ChannelError, Mark, Platform};
use event::Place;
use link::Link;
use outgoing::Tap;
use rest::Rest;

/// The variable with the token, if none is configured.
const TOKEN: &str = "DISCORD_BOT_TOKEN";
/// The variable with the address of another API server.
const API_BASE: &str = "DISCORD_API_BASE";
/// The environment variables that are read for absent settings.
pub const VARIABLES: [&str; 2] = [TOKEN, API_BASE];
/// How long Discord recognises a repeated message. It says "a few minutes".
const REMEMBERED: Duration = Duration::from_mins(2);
/// The most taps that can be answered, channels whose place is known, and roles of the bot.
const MOST_TAPS: usize = 256;
const MOST_PLACES: usize = 10_000;
const MOST_ROLES: usize = 200;
/// The flags of an application that may read messages; the second one is for bots in less than a hundred servers.
const MESSAGE_CONTENT: u64 = 1 << 18 | 1 << 19;

/// The settings of a Discord bot. Absent ones come from the environment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The bot's token; by default `DISCORD_BOT_TOKEN`.
    pub token: Option<Secret>,
    /// Another API server than Discord's own; by default `DISCORD_API_BASE`.
    pub api_base: Option<String>,
    /// The channel of a target without a place.
    pub channel: Option<Id>,
    /// Further channels that callers may name, with the threads in them.
    pub channels: Vec<Id>,
    /// Whether a running turn is shown in a message that is edited; true by default.
    pub progress: Option<bool>,
}

/// An id of Discord's, written as a number or as text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number.
    Number(u64),
    /// Text.
    Text(String),
}

impl Id {
    fn read(&self) -> Result<String, String> {
        match self {
            Self::Number(number) => Ok(number.to_string()),
            Self::Text(text) if is_id(text) => Ok(text.clone()),
            Self::Text(text) => Err(format!(
                "{text:?} is not an id: Discord's ids are numbers; with Developer Mode on, right-click and Copy ID"
            )),
        }
    }
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<OpenedChannel, String> {
        let discord = Discord::new(opening.name, self, opening.common, opening.context.env)?;
        let receives = discord.receives;
        if !receives && discord.channels.is_empty() {
            return Err("the bot has nobody to talk to: set `allow`, `channel` or `channels`".to_owned());
        }
        let channel = chat::Chat::new(opening.name, discord, self.progress.unwrap_or(true));
        if receives { opening.receives(channel, &[]) } else { Ok(OpenedChannel::Sends(channel)) }
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        reveal_all([&self.token], env)
    }
}

/// A bot.
pub struct Discord {
    name: String,
    /// The bot's id, which is no secret.
    id: String,
    rest: Arc<Rest>,
    /// The users who may write.
    people: Vec<String>,
    /// Whether anybody may write, or may be allowed to.
    receives: bool,
    /// The channel of a target without a place.
    default_channel: Option<String>,
    /// The channels that callers may name.
    channels: Vec<String>,
    state: Mutex<State>,
    /// Held for the whole of a reading: there is one at a time.
    link: tokio::sync::Mutex<Link>,
}

/// What is known of Discord, all of it bounded.
#[derive(Default)]
struct State {
    /// The places of channels, by their ids.
    places: HashMap<String, Place>,
    /// Channels that the bot may not read.
    unreadable: HashSet<String>,
    /// The roles that only the bot has. Stored.
    roles: Vec<String>,
    /// Taps that may be answered, by their ids, the oldest first.
    taps: IndexMap<String, Tap>,
    /// Where it was shown lately that the bot types, and when.
    typing: HashMap<String, Instant>,
}

impl State {
    fn note_place(&mut self, id: &str, place: Place) {
        // What is forgotten is asked for again.
        if self.places.len() >= MOST_PLACES {
            self.places.clear();
        }
        self.places.insert(id.to_owned(), place);
    }

    fn note_unreadable(&mut self, id: &str) {
        if self.unreadable.len() >= MOST_PLACES {
            self.unreadable.clear();
        }
        self.unreadable.insert(id.to_owned());
    }

    fn note_roles<'a>(&mut self, roles: impl Iterator<Item = &'a str>) {
        for role in roles {
            if self.roles.len() < MOST_ROLES && !self.roles.iter().any(|known| known == role) {
                self.roles.push(role.to_owned());
            }
        }
    }

    /// Remembers a tap. One that came before keeps what is known of it.
    fn note_tap(&mut self, id: &str, tap: Tap) -> Tap {
        let tap = self.taps.entry(id.to_owned()).or_insert(tap).clone();
        if self.taps.len() > MOST_TAPS {
            self.taps.shift_remove_index(0);
        }
        tap
    }
}

impl Discord {
    /// Builds the bot from its settings. The error says what the operator has to correct.
    pub fn new(name: &str, settings: &Settings, common: &Common, env: Env<'_>) -> Result<Self, String> {
        let token = Secret::or_variable(settings.token.as_ref(), TOKEN).reveal(env)?;
        if token.is_empty() {
            return Err("the token is missing: set `token_env` or `token`".to_owned());
        }
        let id = bot_of(&token)
            .ok_or("the token is not a Discord bot's token; the Developer Portal shows it under Bot")?;
        let api_base = settings.api_base.clone().or_else(|| env(API_BASE)).filter(|base| !base.is_empty());
        let people =
            common.allowed().iter().map(|entry| user(entry)).collect::<Result<Vec<String>, String>>()?;
        let listed = settings.channel.iter().chain(&settings.channels);
        Ok(Self {
            name: name.to_owned(),
            id,
            rest: Arc::new(Rest::new(&token, api_base.as_deref())),
            people,
            receives: common.receives(),
            default_channel: settings.channel.as_ref().map(Id::read).transpose()?,
            channels: listed.map(Id::read).collect::<Result<_, _>>()?,
            state: Mutex::default(),
            link: tokio::sync::Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bot's name. Changes nothing.
    async fn find_bot(&self) -> Result<String, ChannelError> {
        let me = self.rest.list("users/@me").await?;
        Ok(me["username"].as_str().unwrap_or_default().to_owned())
    }

    async fn probe_bot(&self) -> Result<String, ChannelError> {
        let name = self.find_bot().await?;
        let application = self.rest.list("applications/@me").await?;
        if application["flags"].as_u64().is_some_and(|flags| flags & MESSAGE_CONTENT == 0) {
            let why = gateway::fatal(4014).unwrap_or_default();
            return Err(ChannelError::Fatal(format!("@{name} can be reached, but {why}")));
        }
        Ok(format!("@{name} can be reached"))
    }

    async fn begin(&self) -> Result<String, ChannelError> {
        self.link.lock().await.restart();
        Ok(format!("@{} is served", self.find_bot().await?))
    }
}

impl ChatApi for Discord {
    fn places(&self) -> Vec<String> {
        self.default_channel.iter().map(|_| String::new()).chain(self.channels.iter().cloned()).collect()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        let place = self.place(place)?;
        let channel = place.split('/').next().unwrap_or_default();
        let is_known = self.channels.iter().any(|known| known == channel || *known == place);
        if is_known { Ok(()) } else { Err("that channel is not in `channel` or `channels`".to_owned()) }
    }

    fn reaches(&self, place: &str) -> bool {
        !place.is_empty() && self.place(place).is_ok() || self.check_place(place).is_ok()
    }

    fn identity(&self) -> String {
        format!("Discord bot {}", self.id)
    }

    /// Reads an empty place, `CHANNEL` or `CHANNEL/THREAD`.
    fn place(&self, place: &str) -> Result<String, String> {
        match &self.default_channel {
            _ if place.split('/').all(is_id) && place.split('/').count() <= 2 => Ok(place.to_owned()),
            Some(channel) if place.is_empty() => Ok(channel.clone()),
            None if place.is_empty() => {
                Err("the channel has no default: name one, or set `channel`".to_owned())
            }
            _ => Err("a place is CHANNEL or CHANNEL/THREAD, both numbers".to_owned()),
        }
    }

    fn limits(&self) -> Limits {
        markdown::LIMITS
    }

    fn takes_taps(&self, _place: &str) -> bool {
        self.receives
    }

    fn repeats(&self) -> Repeats {
        Repeats::Idempotent { within: Some(REMEMBERED) }
    }

    fn post<'a>(&'a self, place: &'a str, post: Post<'a>) -> BoxFuture<'a, Outcome> {
        self.send(place, post).boxed()
    }

    fn edit<'a>(
        &'a self,
        place: &'a str,
        message_id: &'a str,
        text: &'a Styled,
        keyboard: &'a Keyboard,
    ) -> BoxFuture<'a, EditOutcome> {
        self.change(place, message_id, text, keyboard).boxed()
    }

    fn working<'a>(&'a self, place: &'a str) -> BoxFuture<'a, ()> {
        self.type_in(place).boxed()
    }

    fn react<'a>(&'a self, _place: &'a str, external_id: &'a str, mark: Mark) -> BoxFuture<'a, bool> {
        self.set_reaction(external_id, mark).boxed()
    }

    fn toast<'a>(&'a self, tap_id: &'a str, text: &'a str) -> BoxFuture<'a, ()> {
        self.answer_tap(tap_id, text).boxed()
    }

    fn notes(&self) -> Value {
        json!({ "roles": self.state().roles })
    }

    fn start<'a>(&'a self, notes: &'a Value) -> BoxFuture<'a, Result<String, ChannelError>> {
        let roles = notes["roles"].as_array().into_iter().flatten().filter_map(Value::as_str);
        self.state().note_roles(roles);
        self.begin().boxed()
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>> {
        self.probe_bot().boxed()
    }

    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Reading, ChannelError>> {
        self.read(cursor).boxed()
    }
}

/// Whether a text is an id of Discord's.
fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= 20 && text.chars().all(|char| char.is_ascii_digit())
}

/// The id of a token's bot: the first of its three parts, in base64.
fn bot_of(token: &str) -> Option<String> {
    let is_of_token = |char: char| char.is_ascii_alphanumeric() || "._-=".contains(char);
    let (first, rest) = token.split_once('.').filter(|_| token.chars().all(is_of_token))?;
    let id = STANDARD_NO_PAD.decode(first.trim_end_matches('=')).ok()?;
    String::from_utf8(id).ok().filter(|id| is_id(id) && rest.contains('.'))
}

/// The user id of an entry of `allow`.
fn user(allowed: &str) -> Result<String, String> {
    let user = Allowed::parse(allowed)?.sender;
    match user.split_once(':') {
        _ if is_id(&user) => Ok(user),
        Some((id, role)) if is_id(id) => {
            Err(format!("{role:?} is not a role: use {}", Allowed::ROLES.join(" or ")))
        }
        _ => Err(format!(
            "{user:?} is not a user: Discord's users are numbers; with Developer Mode on, right-click and Copy User ID"
        )),
    }
}

#[cfg(test)]
mod tests;
