//! A Telegram bot (Bot API 10.3). People write to it in private chats, groups and topics.
//!
//! Updates are read by long poll. Polling with a higher offset confirms the earlier updates, so the next poll waits until
//! these are stored. Requests have buttons; a running turn has one message that is edited. Telegram does not deduplicate
//! messages, so a repeated message is marked as such. Where several people read, words behind `@` are sent as code.
//!
//! A bot without `allow` only sends, and without buttons, since it does not read taps.

mod api;
mod edits;
mod keyboard;
mod memory;
mod outgoing;
mod update;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codex_bridge_core::chats::Verdict;
use codex_bridge_core::inbox::{Allowed, MessageId};
use codex_bridge_core::outbox::{Attempt, Outcome};
use codex_bridge_core::request::{RequestName, RequestRecord};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::{self, Reply};
use super::secret::{Env, Secret, reveal_all};
use super::settings::{OpenedChannel, Opening};
use super::{
    Batch, Buttons, Channel, ChannelError, Keeper, Platform, Progress, Receiving, ShowsProgress, Stored, Tap,
};

pub use api::API;
use api::{Bot, Chat, Place};
use memory::Memory;
use outgoing::numeric_place;

/// The variable with the token, if none is configured.
const TOKEN: &str = "TELEGRAM_BOT_TOKEN";
/// The variable with the address of another API server.
const API_BASE: &str = "TELEGRAM_API_BASE";
/// The environment variables that are read for absent settings.
pub const VARIABLES: [&str; 2] = [TOKEN, API_BASE];
/// How long Telegram holds a poll open.
const LONG_POLL: Duration = Duration::from_secs(25);
/// The same while messages have buttons or show progress, since those have to be updated soon.
const SHORT_POLL: Duration = Duration::from_secs(3);
/// How long a poll without updates takes at least.
const MIN_POLL: Duration = Duration::from_secs(1);
/// How much longer than the poll its reply may take.
const POLL_GRACE: Duration = Duration::from_secs(15);
/// The kinds of updates that are read, as a list in a query.
const ALLOWED_UPDATES: &str = "%5B%22message%22%2C%22callback_query%22%5D";

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
        let telegram =
            Arc::new(Telegram::new(opening.name, self, &opening.common.allow, opening.context.env)?);
        if telegram.only_sends() && telegram.chats.is_empty() {
            return Err("the bot has nobody to talk to: set `allow`, `chat` or `chats`".to_owned());
        }
        if telegram.only_sends() {
            return Ok(OpenedChannel::Sends(telegram));
        }
        opening.receives(telegram, &[])
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
    /// The chat of a target without a place.
    default_chat: Option<Place>,
    /// The chats that callers may name.
    chats: Vec<String>,
    shows_progress: bool,
    /// The address of the API server, if it is not Telegram's own.
    server: Option<String>,
    memory: Mutex<Memory>,
    keeper: Mutex<Keeper>,
    /// What was stored last. Held while the memory is stored, so that the last state stays.
    kept: tokio::sync::Mutex<Option<String>>,
    /// Held while a message with requests is edited: two outcomes are added one after the other.
    editing: tokio::sync::Mutex<()>,
}

impl Telegram {
    /// Builds the bot from its settings. The error says what the operator has to correct.
    pub fn new(name: &str, settings: &Settings, allow: &[String], env: Env<'_>) -> Result<Self, String> {
        let token = Secret::or_variable(settings.token.as_ref(), TOKEN).reveal(env)?;
        if token.is_empty() {
            return Err("the token is missing: set `token_env` or `token`".to_owned());
        }
        let api_base = settings.api_base.clone().or_else(|| env(API_BASE)).filter(|base| !base.is_empty());
        let people = allow.iter().map(|entry| user(entry)).collect::<Result<Vec<String>, String>>()?;
        let listed = settings.chat.iter().chain(&settings.chats);
        Ok(Self {
            name: name.to_owned(),
            bot: Bot::new(&token, api_base.as_deref())?,
            default_chat: settings.chat.clone().map(|chat| Place { chat, topic: None }),
            chats: people.iter().cloned().chain(listed.map(ToString::to_string)).collect(),
            people,
            shows_progress: settings.progress.unwrap_or(true),
            server: api_base,
            memory: Mutex::default(),
            keeper: Mutex::default(),
            kept: tokio::sync::Mutex::default(),
            editing: tokio::sync::Mutex::default(),
        })
    }

    fn only_sends(&self) -> bool {
        self.people.is_empty()
    }

    /// Parses an empty place, `CHAT` or `CHAT:TOPIC`.
    fn place(&self, place: &str) -> Result<Place, String> {
        match &self.default_chat {
            _ if !place.is_empty() => Place::parse(place),
            Some(chat) => Ok(chat.clone()),
            None => Err("the channel has no default chat: name one, or set `chat`".to_owned()),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores which messages will be edited, if that has changed. A failure is made good by the next change.
    async fn keep(&self) {
        let mut kept = self.kept.lock().await;
        let sent = self.memory().sent();
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(changed) = sent.filter(|sent| kept.as_ref() != Some(sent)) else { return };
        match keeper.keep(changed.clone()).await {
            Ok(true) => *kept = Some(changed),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(channel = self.name, %error, "messages that will be edited could not be stored");
            }
        }
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
        self.memory().username = username;
        Ok(sentence)
    }

    async fn read(&self, cursor: Option<String>) -> Result<Batch, ChannelError> {
        let (server, now) = (self.server.as_deref(), Timestamp::now().as_millisecond());
        let offset = memory::offset_of(cursor.as_deref(), server, now);
        let poll = if self.memory().is_busy() { SHORT_POLL } else { LONG_POLL };
        let from = offset.map(|offset| format!("&offset={offset}")).unwrap_or_default();
        let query = format!(
            "getUpdates?timeout={}&limit=100&allowed_updates={ALLOWED_UPDATES}{from}",
            poll.as_secs()
        );
        let began = Instant::now();
        let updates = result(self.bot.list(&query, poll + POLL_GRACE).await)?;
        let updates = updates.as_array().map(Vec::as_slice).unwrap_or_default();
        if updates.is_empty() {
            // A server that does not hold a poll open must not be asked again at once.
            tokio::time::sleep(MIN_POLL.saturating_sub(began.elapsed())).await;
        }
        let (mut batch, unknown) = self.read_updates(updates);
        batch.cursor = memory::cursor_behind(updates, server, now);
        self.keep().await;
        for callback in unknown {
            let may_write = self.people.contains(&callback["from"]["id"].to_string());
            let text = if may_write { "This button is no longer valid." } else { "" };
            batch.knocks.extend(
                update::stranger(callback, |chat| self.memory().original_chat(chat)).filter(|_| !may_write),
            );
            self.toast(callback["id"].as_str().unwrap_or_default(), text).await;
        }
        Ok(batch)
    }

    /// Reads the messages and taps of these updates. Also returns the taps on unknown buttons.
    fn read_updates<'a>(&self, updates: &'a [Value]) -> (Batch, Vec<&'a Value>) {
        let mut batch = Batch::default();
        let mut unknown = Vec::new();
        let mut memory = self.memory();
        for update in updates {
            memory.note_move(&update["message"]);
            let original_chat = |chat| memory.original_chat(chat);
            batch.arrivals.extend(update::arrival(
                &self.name,
                &memory.username,
                &update["message"],
                original_chat,
            ));
            match update::tapped(self.bot.id(), &update["callback_query"], original_chat) {
                // A repeated tap is decided once.
                Some(tapped) if memory.taps.contains_key(&tapped.tap.id) => {}
                Some(tapped) => {
                    batch.taps.push(tapped.tap.clone());
                    memory.taps.insert(tapped.tap.id.clone(), tapped);
                }
                None => unknown.extend(update.get("callback_query")),
            }
        }
        if !updates.is_empty() {
            memory.last_update_at = Some(Instant::now());
        }
        (batch, unknown)
    }
}

impl Channel for Telegram {
    fn places(&self) -> Vec<String> {
        self.default_chat.iter().map(|_| String::new()).chain(self.chats.iter().cloned()).collect()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        let chat = self.place(place)?.chat;
        let before = if let Chat::Number(chat) = chat {
            self.memory().original_chat(chat).to_string()
        } else {
            chat.to_string()
        };
        let is_known = [chat.to_string(), before].iter().any(|known| self.chats.contains(known));
        if is_known { Ok(()) } else { Err("that chat is not in `chat` or `chats` of the channel".to_owned()) }
    }

    fn reaches(&self, place: &str) -> bool {
        numeric_place(place).is_ok() || self.check_place(place).is_ok()
    }

    fn send<'a>(&'a self, place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        self.deliver(place, attempt).boxed()
    }
}

impl Receiving for Telegram {
    fn identity(&self) -> String {
        format!("Telegram bot {}", self.bot.id())
    }

    fn start(&self, stored: Stored) -> BoxFuture<'_, Result<String, ChannelError>> {
        let mut memory = self.memory();
        memory.restore(&stored);
        // Taps without a stored decision are read again; for the others the bridge answers that the request is decided.
        memory.taps.clear();
        drop(memory);
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = stored.keeper;
        self.start_polling().boxed()
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>> {
        self.probe_bot().boxed()
    }

    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Batch, ChannelError>> {
        self.read(cursor).boxed()
    }

    fn buttons(&self) -> Option<&dyn Buttons> {
        Some(self)
    }

    fn progress(&self) -> Option<&dyn ShowsProgress> {
        self.shows_progress.then_some(self)
    }
}

impl Buttons for Telegram {
    fn decided<'a>(&'a self, tap: &'a Tap, verdict: &'a Verdict) -> BoxFuture<'a, ()> {
        self.show_verdict(tap, verdict).boxed()
    }

    fn shown_requests(&self) -> Vec<RequestName> {
        let memory = self.memory();
        // A request that is being decided is left out: its message will show who decided.
        let is_tapped =
            |id: &RequestName| memory.taps.values().any(|tapped| tapped.tap.button.request_id == *id);
        let asked = memory.request_messages.iter().flat_map(|message| &message.requests);
        asked.filter(|id| !is_tapped(id)).cloned().collect()
    }

    fn close_request<'a>(&'a self, request: &'a RequestRecord) -> BoxFuture<'a, ()> {
        self.show_closed(request).boxed()
    }
}

impl ShowsProgress for Telegram {
    fn in_progress(&self) -> Vec<MessageId> {
        self.memory().progress_messages.names().cloned().map(MessageId).collect()
    }

    fn show<'a>(&'a self, progress: &'a Progress) -> BoxFuture<'a, ()> {
        self.show_progress(progress).boxed()
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
