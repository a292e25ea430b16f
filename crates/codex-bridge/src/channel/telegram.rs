//! A Telegram bot (Bot API 10.3). People write to it in private chats, groups and topics.
//!
//! Updates are read by long poll. Polling with a higher offset confirms the earlier updates, so the next poll waits until
//! these are stored. Requests have buttons; a running turn has one message that is edited. Telegram does not deduplicate
//! messages, so a repeated message is marked as such. Where several people read, words behind `@` are sent as code.
//!
//! A bot without `allow` only sends, and without buttons, since it does not read taps.

mod albums;
mod api;
mod files;
mod outgoing;
mod state;
mod update;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codex_bridge_core::inbox::attachment::FileReference;
use codex_bridge_core::inbox::{Allowed, COMMANDS};
use codex_bridge_core::outbox::Outcome;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::chat::{self, ChatApi, EditOutcome, Keyboard, Post, Reading};
use super::http::{self, DownloadError, Reply};
use super::secret::{Env, Secret, reveal_all};
use super::settings::{Common, OpenedChannel, Opening};
use super::text::{Limits, Styled};
use super::{ChannelError, Mark, Platform};

pub use api::API;
use api::{Bot, Chat, LIMITS, Place, numeric_place};
use state::State;
use update::Reader;

/// The variable with the token, if none is configured.
const TOKEN: &str = "TELEGRAM_BOT_TOKEN";
/// The variable with the address of another API server.
const API_BASE: &str = "TELEGRAM_API_BASE";
/// The environment variables that are read for absent settings.
pub const VARIABLES: [&str; 2] = [TOKEN, API_BASE];
/// How long Telegram holds a poll open.
const LONG_POLL: Duration = Duration::from_secs(25);
/// How long a poll without updates takes at least.
const MIN_POLL: Duration = Duration::from_secs(1);
/// The pause between progress edits in a group.
const GROUP_EDITS_EVERY: Duration = Duration::from_secs(6);
/// How much longer than the poll its reply may take.
const POLL_GRACE: Duration = Duration::from_secs(15);
/// How many updates are read at once.
const PAGE: usize = 100;
/// The kinds of updates that are read, as a list in a query.
const ALLOWED_UPDATES: &str = "%5B%22message%22%2C%22edited_message%22%2C%22callback_query%22%5D";

/// The settings of a Telegram bot. Absent ones come from the environment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The bot's token; by default `TELEGRAM_BOT_TOKEN`.
    pub token: Option<Secret>,
    /// Another API server than Telegram's own; by default `TELEGRAM_API_BASE`.
    pub api_base: Option<String>,
    /// The chat of a target without a place.
    pub chat: Option<Chat>,
    /// Further chats that callers may name. Chats with people in `allow` need no entry.
    pub chats: Vec<Chat>,
    /// Whether a running turn is shown in a message that is edited; true by default.
    pub progress: Option<bool>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<OpenedChannel, String> {
        let telegram = Telegram::new(opening.name, self, opening.common, opening.context.env)?;
        let only_sends = telegram.only_sends();
        if only_sends && telegram.chats.is_empty() {
            return Err("the bot has nobody to talk to: set `allow`, `chat` or `chats`".to_owned());
        }
        let channel = chat::Chat::new(opening.name, telegram, self.progress.unwrap_or(true));
        if only_sends { Ok(OpenedChannel::Sends(channel)) } else { opening.receives(channel, &[]) }
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        reveal_all([&self.token], env)
    }
}

/// A bot.
pub struct Telegram {
    name: String,
    bot: Bot,
    /// The users who may write.
    people: Vec<String>,
    /// Whether anybody may write, or may be allowed to.
    receives: bool,
    /// The chat of a target without a place.
    default_chat: Option<Place>,
    /// The chats that callers may name.
    chats: Vec<String>,
    /// The address of the API server, if it is not Telegram's own.
    server: Option<String>,
    state: Mutex<State>,
}

impl Telegram {
    /// Builds the bot from its settings. The error says what the operator has to correct.
    pub fn new(name: &str, settings: &Settings, common: &Common, env: Env<'_>) -> Result<Self, String> {
        let token = Secret::or_variable(settings.token.as_ref(), TOKEN).reveal(env)?;
        if token.is_empty() {
            return Err("the token is missing: set `token_env` or `token`".to_owned());
        }
        let api_base = settings.api_base.clone().or_else(|| env(API_BASE)).filter(|base| !base.is_empty());
        let allowed = common.allowed();
        let people = allowed.iter().map(|entry| user(entry)).collect::<Result<Vec<String>, String>>()?;
        let listed = settings.chat.iter().chain(&settings.chats);
        Ok(Self {
            name: name.to_owned(),
            bot: Bot::new(&token, api_base.as_deref())?,
            default_chat: settings.chat.clone().map(|chat| Place { chat, topic: None }),
            chats: people.iter().cloned().chain(listed.map(ToString::to_string)).collect(),
            people,
            receives: common.receives(),
            server: api_base,
            state: Mutex::default(),
        })
    }

    fn only_sends(&self) -> bool {
        !self.receives
    }

    /// Parses an empty place, `CHAT` or `CHAT:TOPIC`.
    fn parse_place(&self, place: &str) -> Result<Place, String> {
        match &self.default_chat {
            _ if !place.is_empty() => Place::parse(place),
            Some(chat) => Ok(chat.clone()),
            None => Err("the channel has no default chat: name one, or set `chat`".to_owned()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call(&self, method: &str, body: &Value) -> Result<Value, ChannelError> {
        result(self.bot.call(method, body).await)
    }

    /// The bot's user name, and whether it has a webhook. Changes nothing.
    async fn find_bot(&self) -> Result<(String, bool), ChannelError> {
        let me = self.call("getMe", &json!({})).await?;
        let webhook = self.call("getWebhookInfo", &json!({})).await?;
        let has_webhook = webhook["url"].as_str().is_some_and(|url| !url.is_empty());
        Ok((me["username"].as_str().unwrap_or_default().to_owned(), has_webhook))
    }

    /// Checks that the bot can be served, and tells what serving would change.
    async fn probe_bot(&self) -> Result<String, ChannelError> {
        let (username, has_webhook) = self.find_bot().await?;
        let note =
            if has_webhook { "; it has a webhook, which is removed when the channel is served" } else { "" };
        Ok(format!("@{username} can be reached{note}"))
    }

    async fn start_polling(&self) -> Result<String, ChannelError> {
        let (username, has_webhook) = self.find_bot().await?;
        let mut sentence = format!("@{username} is served");
        if has_webhook {
            // A bot with a webhook cannot be polled.
            self.call("deleteWebhook", &json!({ "drop_pending_updates": false })).await?;
            sentence.push_str("; its webhook was removed");
        }
        self.state().username = username;
        self.register_commands().await;
        Ok(sentence)
    }

    /// Tells Telegram the commands, which it then offers to people. The channel works without that.
    async fn register_commands(&self) {
        let command = |(name, _, what): &(&str, &str, &str)| json!({ "command": name, "description": what });
        let commands: Vec<Value> = COMMANDS.iter().map(command).collect();
        if let Err(error) = self.call("setMyCommands", &json!({ "commands": commands })).await {
            tracing::warn!(channel = self.name, ?error, "the commands could not be registered");
        }
    }

    async fn poll(&self, cursor: Option<String>) -> Result<Reading, ChannelError> {
        let (server, now) = (self.server.as_deref(), Timestamp::now().as_millisecond());
        let offset = state::offset_of(cursor.as_deref(), server, now);
        let from = offset.map(|offset| format!("&offset={offset}")).unwrap_or_default();
        let timeout = LONG_POLL.as_secs();
        let query = |timeout: u64| {
            format!("getUpdates?timeout={timeout}&limit={PAGE}&allowed_updates={ALLOWED_UPDATES}{from}")
        };
        let began = Instant::now();
        let mut updates = self.updates(&query(timeout)).await?;
        self.complete_albums(&mut updates, &query(0)).await?;
        if updates.is_empty() {
            // A server that does not hold a poll open must not be asked again at once.
            tokio::time::sleep(MIN_POLL.saturating_sub(began.elapsed())).await;
        }
        let last_read_at = state::read_before(cursor.as_deref());
        let reading = self.read_updates(&updates, last_read_at);
        if updates.len() < PAGE {
            // All that came before this poll was in it.
            self.state().polled_at = now;
        }
        Ok(Reading { cursor: state::cursor_behind(&updates, server, now), ..reading })
    }

    async fn updates(&self, query: &str) -> Result<Vec<Value>, ChannelError> {
        match result(self.bot.list(query, LONG_POLL + POLL_GRACE).await)? {
            Value::Array(updates) => Ok(updates),
            _ => Ok(Vec::new()),
        }
    }

    /// Waits for the other parts of albums. Nothing is confirmed meanwhile: the same updates are read again with those that came
    /// since, so that a crash loses no part.
    async fn complete_albums(&self, updates: &mut Vec<Value>, query: &str) -> Result<(), ChannelError> {
        for _ in 0..albums::LOOKS {
            let parts = albums::open_parts(updates);
            if parts == 0 || updates.len() >= PAGE {
                break;
            }
            tokio::time::sleep(albums::PAUSE).await;
            *updates = self.updates(query).await?;
            if albums::open_parts(updates) == parts {
                break;
            }
        }
        albums::without_cut_album(updates, PAGE);
        Ok(())
    }

    /// Reads the messages and taps of these updates.
    fn read_updates(&self, updates: &[Value], last_read_at: i64) -> Reading {
        let mut reading = Reading::default();
        let mut state = self.state();
        state.polled_at = state.polled_at.max(last_read_at);
        // The albums among the messages: where each is, and its parts.
        let mut albums: BTreeMap<String, (usize, Vec<i64>)> = BTreeMap::new();
        for update in updates {
            let message = &update["message"];
            state.note_move(message);
            let reader = Reader { channel: &self.name, bot: self.bot.id(), state: &state };
            let group = albums::group(update);
            match (reader.incoming(message), group, message["message_id"].as_i64()) {
                (Some(incoming), Some(group), Some(number)) => match albums.get_mut(&group) {
                    Some((_, parts)) if parts.contains(&number) => {}
                    Some((at, parts)) => {
                        parts.push(number);
                        albums::add_part(&mut reading.incoming[*at], incoming);
                    }
                    None => {
                        albums.insert(group, (reading.incoming.len(), vec![number]));
                        reading.incoming.push(incoming);
                    }
                },
                (incoming, ..) => reading.incoming.extend(incoming),
            }
            reading.incoming.extend(reader.edited(update));
            let Some(callback) = update.get("callback_query") else { continue };
            match reader.tapped(callback) {
                Some(tapped) => reading.taps.push(tapped),
                None => reading.unknown_taps.extend(reader.unknown_tap(callback, &self.people)),
            }
        }
        for (at, parts) in albums.into_values() {
            albums::name(&mut reading.incoming[at].arrival, &parts, &mut state);
        }
        reading
    }
}

impl ChatApi for Telegram {
    fn places(&self) -> Vec<String> {
        self.default_chat.iter().map(|_| String::new()).chain(self.chats.iter().cloned()).collect()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        let chat = self.parse_place(place)?.chat;
        let before = if let Chat::Number(chat) = chat {
            self.state().original_chat(chat).to_string()
        } else {
            chat.to_string()
        };
        let is_known = [chat.to_string(), before].iter().any(|known| self.chats.contains(known));
        if is_known { Ok(()) } else { Err("that chat is not in `chat` or `chats` of the channel".to_owned()) }
    }

    fn reaches(&self, place: &str) -> bool {
        numeric_place(place).is_ok() || self.check_place(place).is_ok()
    }

    fn identity(&self) -> String {
        format!("Telegram bot {}", self.bot.id())
    }

    fn place(&self, place: &str) -> Result<String, String> {
        Ok(self.parse_place(place)?.to_string())
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    /// A chat that is named by `@name` gets no buttons, since its taps carry a number that is not known here.
    fn takes_taps(&self, place: &str) -> bool {
        !self.only_sends() && numeric_place(place).is_ok()
    }

    fn progress_pause(&self, place: &str) -> Duration {
        // Telegram allows twenty messages and edits a minute in a group.
        let is_group = numeric_place(place).is_ok_and(|(chat, _)| chat < 0);
        if is_group { GROUP_EDITS_EVERY } else { Duration::ZERO }
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

    fn react<'a>(&'a self, place: &'a str, external_id: &'a str, mark: Mark) -> BoxFuture<'a, bool> {
        self.set_reaction(place, external_id, mark).boxed()
    }

    fn toast<'a>(&'a self, tap_id: &'a str, text: &'a str) -> BoxFuture<'a, ()> {
        self.answer_tap(tap_id, text).boxed()
    }

    fn download<'a>(&'a self, reference: &'a FileReference) -> BoxFuture<'a, Result<Vec<u8>, DownloadError>> {
        self.bot.download(reference.as_str()).boxed()
    }

    fn notes(&self) -> Value {
        self.state().notes()
    }

    fn start<'a>(&'a self, notes: &'a Value) -> BoxFuture<'a, Result<String, ChannelError>> {
        self.state().restore(notes);
        self.start_polling().boxed()
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>> {
        self.probe_bot().boxed()
    }

    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Reading, ChannelError>> {
        self.poll(cursor).boxed()
    }
}

/// The numeric user id of an entry of `allow`.
fn user(allowed: &str) -> Result<String, String> {
    let user = Allowed::parse(allowed)?.sender;
    let is_number = |text: &str| text.parse::<i64>().is_ok();
    match user.split_once(':') {
        _ if is_number(&user) => Ok(user),
        Some((id, role)) if is_number(id) => {
            Err(format!("{role:?} is not a role: use {}", Allowed::ROLES.join(" or ")))
        }
        _ => Err(format!("{user:?} is not a user: Telegram's users are numbers; @userinfobot tells yours")),
    }
}

/// The result of a method, or the error for the channel.
fn result(called: Result<Reply, http::Error>) -> Result<Value, ChannelError> {
    let mut reply = called.map_err(|error| ChannelError::retry(format!("Telegram: {error}")))?;
    if reply.body["ok"] == true {
        return Ok(reply.body["result"].take());
    }
    let described = reply.body["description"].as_str().unwrap_or("without a reason");
    let why = format!("Telegram answered {}: {described}", reply.status);
    Err(match reply.status {
        401 | 404 => {
            ChannelError::Fatal(format!("{why}. The token is not valid: @BotFather gives a new one"))
        }
        409 => ChannelError::retry(format!(
            "{why}. Another program may be polling this bot: stop it, since only one can"
        )),
        429 => ChannelError::Retry { after: api::retry_after(&reply), reason: why },
        _ => ChannelError::retry(why),
    })
}

#[cfg(test)]
mod tests;
