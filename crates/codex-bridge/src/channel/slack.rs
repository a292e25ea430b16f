//! A Slack app in Socket Mode. People write to it in private chats, channels and threads.
//!
//! Events come by a WebSocket ([`link`]), and each is acknowledged when it is stored. What was written while nobody was
//! connected is read back ([`history`]). A thread is a conversation, and so is a private chat. Texts are `rich_text` blocks, in
//! which Slack parses nothing, so that nobody is notified. A message that may have been sent is looked for by its metadata.
//!
//! An app without `allow` only sends, and without buttons, since it does not read taps.

mod api;
mod blocks;
mod event;
mod history;
mod link;
mod outgoing;
mod receiving;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codex_bridge_core::inbox::Allowed;
use codex_bridge_core::outbox::Outcome;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::chat::{self, ChatApi, EditOutcome, Keyboard, Post, Reading};
use super::secret::{Env, Secret, reveal_all};
use super::settings::{Common, OpenedChannel, Opening};
use super::text::{Limits, Styled};
use super::{ChannelError, Mark, Platform};

use api::{Client, Place, is_id};
use event::{Me, Notes};
use link::Link;
use receiving::{Live, State};

/// The variables with the tokens, if none are configured.
const TOKEN: &str = "SLACK_BOT_TOKEN";
const APP_TOKEN: &str = "SLACK_APP_TOKEN";
/// The variable with the address of another API server.
const API_BASE: &str = "SLACK_API_BASE";
/// The environment variables that are read for absent settings.
pub const VARIABLES: [&str; 3] = [TOKEN, APP_TOKEN, API_BASE];

/// The settings of a Slack app. Absent ones come from the environment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The bot's token (`xoxb-…`); by default `SLACK_BOT_TOKEN`.
    pub token: Option<Secret>,
    /// The app's token (`xapp-…`), by which events are read; by default `SLACK_APP_TOKEN`.
    pub app_token: Option<Secret>,
    /// Another API server than Slack's own; by default `SLACK_API_BASE`.
    pub api_base: Option<String>,
    /// The channel of a target without a place.
    pub channel: Option<String>,
    /// Further channels and people that callers may name. People in `allow` need no entry.
    pub channels: Vec<String>,
    /// Whether a running turn is shown in a message that is edited; true by default.
    pub progress: Option<bool>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<OpenedChannel, String> {
        let slack = Slack::new(opening.name, self, opening.common, opening.context.env)?;
        let only_sends = !slack.receives;
        if only_sends && slack.channels.is_empty() {
            return Err("the app has nobody to talk to: set `allow`, `channel` or `channels`".to_owned());
        }
        let channel = chat::Chat::new(opening.name, slack, self.progress.unwrap_or(true));
        if only_sends { Ok(OpenedChannel::Sends(channel)) } else { opening.receives(channel, &[]) }
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        reveal_all([&self.token, &self.app_token], env)
    }
}

/// An app.
pub struct Slack {
    name: String,
    client: Arc<Client>,
    /// The app's id, which is no secret.
    app: String,
    people: Vec<String>,
    /// Whether anybody may write, or may be allowed to.
    receives: bool,
    /// Whether messages to others are left alone.
    mention_only: bool,
    default_channel: Option<Place>,
    /// The channels and people that callers may name.
    channels: Vec<String>,
    state: Mutex<State>,
}

impl Slack {
    /// Builds the app from its settings. The error says what the operator has to correct.
    pub fn new(name: &str, settings: &Settings, common: &Common, env: Env<'_>) -> Result<Self, String> {
        let token = Secret::or_variable(settings.token.as_ref(), TOKEN).reveal(env)?;
        let looks_right = |token: &str, start| {
            token.starts_with(start) && token.chars().all(|char| char.is_ascii_graphic())
        };
        if !looks_right(&token, "xoxb-") {
            return Err("the token is not that of a Slack bot; it looks like xoxb-123-456-AbC".to_owned());
        }
        let receives = common.receives();
        let app_token = match Secret::or_variable(settings.app_token.as_ref(), APP_TOKEN).reveal(env) {
            Ok(token) if looks_right(&token, "xapp-") => token,
            _ if !receives => String::new(),
            Ok(_) => {
                return Err(
                    "the app token is not one of Slack's; it looks like xapp-1-A012-345-abc".to_owned()
                );
            }
            Err(why) => return Err(format!("{why}: Socket Mode needs an app token (`app_token`)")),
        };
        let api_base = settings.api_base.clone().or_else(|| env(API_BASE)).filter(|base| !base.is_empty());
        let allowed = common.allowed();
        let people = allowed.iter().map(|entry| person(entry)).collect::<Result<Vec<String>, String>>()?;
        let listed: Vec<String> = settings.channel.iter().chain(&settings.channels).cloned().collect();
        for place in &listed {
            Place::parse(place)?;
        }
        let named = people.iter().filter(|id| !id.ends_with('*')).cloned();
        Ok(Self {
            name: name.to_owned(),
            client: Arc::new(Client::new(&token, &app_token, api_base.as_deref())),
            app: app_token.split('-').nth(2).unwrap_or_default().to_owned(),
            default_channel: settings.channel.as_deref().map(Place::parse).transpose()?,
            channels: named.chain(listed).collect(),
            people,
            receives,
            mention_only: common.mention_only.unwrap_or(true),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parses an empty place, `CHANNEL` or `CHANNEL/THREAD`.
    fn parse_place(&self, place: &str) -> Result<Place, String> {
        match &self.default_channel {
            _ if !place.is_empty() => Place::parse(place),
            Some(channel) => Ok(channel.clone()),
            None => Err("the channel has no default channel: name one, or set `channel`".to_owned()),
        }
    }

    /// Who the bot is, and its name and that of its workspace.
    async fn find_bot(&self) -> Result<(Me, String), ChannelError> {
        let found = self.client.call("auth.test", &json!({})).await?;
        let word = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        let me = Me { user: word("user_id"), bot: word("bot_id"), team: word("team_id") };
        Ok((me, format!("@{} in {}", word("user"), word("team"))))
    }

    /// Checks that the app can be served.
    async fn probe_app(&self) -> Result<String, ChannelError> {
        let (_, bot) = self.find_bot().await?;
        self.client.socket_address().await?;
        Ok(format!("{bot} can be reached"))
    }

    async fn connect(&self) -> Result<String, ChannelError> {
        // A connection of the last time would get a part of the events.
        self.state().live = None;
        let (me, bot) = self.find_bot().await?;
        let (link, connections) = Link::open(&self.client).await?;
        let mut state = self.state();
        (state.me, state.acks) = (me, Some(link.acks.clone()));
        (state.messages, state.taps) = (Vec::new(), Vec::new());
        state.live = Some(Box::new(Live { link, to_read: None }));
        Ok(if connections > 1 {
            format!(
                "{bot} is served; the app has {connections} connections, among which Slack spreads its events"
            )
        } else {
            format!("{bot} is served")
        })
    }
}

impl ChatApi for Slack {
    fn places(&self) -> Vec<String> {
        self.default_channel.iter().map(|_| String::new()).chain(self.channels.iter().cloned()).collect()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        let place = self.parse_place(place)?;
        let is_known = self.channels.contains(&place.channel) || self.channels.contains(&place.to_string());
        if is_known {
            Ok(())
        } else {
            Err("that place is not in `channel` or `channels` of the channel".to_owned())
        }
    }

    fn reaches(&self, place: &str) -> bool {
        self.parse_place(place).is_ok()
    }

    fn identity(&self) -> String {
        format!("Slack app {}", self.app)
    }

    fn place(&self, place: &str) -> Result<String, String> {
        Ok(self.parse_place(place)?.to_string())
    }

    fn limits(&self) -> Limits {
        blocks::LIMITS
    }

    /// A person who is named by an id gets no buttons, since their taps carry the private chat, which is not known here.
    fn takes_taps(&self, place: &str) -> bool {
        self.receives && Place::parse(place).is_ok_and(|place| is_id(&place.channel, "CDG"))
    }

    /// What an app may read that only sends is not known.
    fn finds_repeats(&self, place: &str) -> bool {
        self.takes_taps(place)
    }

    fn marks_every_message(&self) -> bool {
        true
    }

    fn repeats_outcomes(&self) -> bool {
        false
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

    /// Apps cannot type. Each message gets a sign instead.
    fn working<'a>(&'a self, _place: &'a str) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    fn react<'a>(&'a self, _place: &'a str, external_id: &'a str, mark: Mark) -> BoxFuture<'a, bool> {
        self.set_reaction(external_id, mark).boxed()
    }

    fn toast<'a>(&'a self, tap_id: &'a str, text: &'a str) -> BoxFuture<'a, ()> {
        self.tell(tap_id, text).boxed()
    }

    fn notes(&self) -> Value {
        serde_json::to_value(&self.state().notes).unwrap_or_default()
    }

    fn start<'a>(&'a self, notes: &'a Value) -> BoxFuture<'a, Result<String, ChannelError>> {
        if let Ok(notes) = Notes::deserialize(notes) {
            self.state().notes = notes;
        }
        self.connect().boxed()
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>> {
        self.probe_app().boxed()
    }

    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Reading, ChannelError>> {
        self.next_batch(cursor).boxed()
    }

    fn received(&self) -> BoxFuture<'_, ()> {
        self.acknowledge(false);
        std::future::ready(()).boxed()
    }
}

/// The id of an entry of `allow`; a `*` at its end stands for anything.
fn person(allowed: &str) -> Result<String, String> {
    let person = Allowed::parse(allowed)?.sender;
    match person.split_once(':') {
        Some((id, role)) if is_id(id, "UWB") => {
            Err(format!("{role:?} is not a role: use {}", Allowed::ROLES.join(" or ")))
        }
        _ if is_id(&person, "UWB") || person.ends_with('*') => Ok(person),
        _ => Err(format!(
            "{person:?} is not a member of a workspace: ids look like U012ABCDE, and a member's profile in Slack tells it"
        )),
    }
}

#[cfg(test)]
mod tests;
