//! A bot of Telegram's (Bot API 10.3): people write to it, alone, in groups and in topics.
//!
//! Updates are read by long poll. Asking for a later one confirms the earlier ones, so the next one is asked for only when
//! these are durable. What Codex asks has buttons; a running turn has one message that is edited. Messages have no key
//! against repetitions, so what is sent again is marked.
//!
//! A bot that nobody may write to only sends, and without buttons: it would not see a tap.

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
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::{self, Reply};
use super::secret::{Env, Secret, all_found};
use super::settings::{Opening, Way};
use super::{Batch, Channel, Platform, Progress, Receiving, Tap, Trouble};

pub use api::API;
use api::{Bot, Chat, Place};
use memory::Memory;
use outgoing::numbered;

/// Where the token is, unless told otherwise.
const TOKEN: &str = "TELEGRAM_BOT_TOKEN";
/// Another server than Telegram's own.
const API_BASE: &str = "TELEGRAM_API_BASE";
/// What is read from the environment where the settings say nothing.
pub const VARIABLES: [&str; 2] = [TOKEN, API_BASE];
/// How long Telegram waits for something to tell us.
const LONG_POLL: Duration = Duration::from_secs(25);
/// The same while something is under way, so that what changes beside is seen soon.
const SHORT_POLL: Duration = Duration::from_secs(3);
/// How much longer an answer may take than the poll itself.
const BEYOND_POLL: Duration = Duration::from_secs(15);
/// What we want to hear of, as a list in a query.
const WANTED: &str = "%5B%22message%22%2C%22callback_query%22%5D";

/// A bot of Telegram's. What is absent comes from the environment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The bot's token; else `TELEGRAM_BOT_TOKEN`.
    pub token: Option<Secret>,
    /// Another server than Telegram's own; else `TELEGRAM_API_BASE`.
    pub api_base: Option<String>,
    /// The chat that the channel's name alone means, as a target.
    pub chat: Option<Chat>,
    /// Chats, beside that one and those with the people who may write, that tasks may notify.
    pub chats: Vec<Chat>,
    /// Whether a running turn is shown in a message that is edited; it is, unless told otherwise.
    pub progress: Option<bool>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<Way, String> {
        let telegram =
            Arc::new(Telegram::new(opening.name, self, &opening.common.allow, opening.around.env)?);
        if telegram.only_sends() && telegram.chats.is_empty() {
            return Err(
                "nobody may write, and there is no chat to tell: set `allow`, `chat` or `chats`".to_owned()
            );
        }
        if telegram.only_sends() {
            return Ok(Way::Sends(telegram));
        }
        opening.receives(telegram, &[])
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        all_found([&self.token], env)
    }
}

/// A bot.
pub struct Telegram {
    name: String,
    bot: Bot,
    /// Those who may write.
    people: Vec<String>,
    /// The chat that the channel's name alone means.
    home: Option<Place>,
    /// Chats that can be named as targets.
    chats: Vec<String>,
    shows_progress: bool,
    memory: Mutex<Memory>,
}

impl Telegram {
    /// As configured, or what is missing. `allow` are those who may write.
    pub fn new(name: &str, settings: &Settings, allow: &[String], env: Env<'_>) -> Result<Self, String> {
        let token = Secret::or_variable(settings.token.as_ref(), TOKEN).reveal(env)?;
        if token.is_empty() {
            return Err("it has no token".to_owned());
        }
        let api_base = settings.api_base.clone().or_else(|| env(API_BASE)).filter(|base| !base.is_empty());
        let people = allow.iter().map(|one| user(one)).collect::<Result<Vec<String>, String>>()?;
        let listed = settings.chat.iter().chain(&settings.chats);
        Ok(Self {
            name: name.to_owned(),
            bot: Bot::new(&token, api_base.as_deref())?,
            home: settings.chat.clone().map(|chat| Place { chat, topic: None }),
            chats: people.iter().cloned().chain(listed.map(ToString::to_string)).collect(),
            people,
            shows_progress: settings.progress.unwrap_or(true),
            memory: Mutex::default(),
        })
    }

    /// Whether nobody may write to it.
    fn only_sends(&self) -> bool {
        self.people.is_empty()
    }

    /// Nothing, `CHAT` or `CHAT:TOPIC`.
    fn place(&self, place: &str) -> Result<Place, String> {
        match &self.home {
            _ if !place.is_empty() => Place::parse(place),
            Some(home) => Ok(home.clone()),
            None => Err("no chat is set for it; name one".to_owned()),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, method: &str, body: &Value) -> Result<Value, Trouble> {
        result(self.bot.call(method, body).await)
    }

    /// How our bot is called there, and whether it has a webhook. Changes nothing.
    async fn find_bot(&self) -> Result<(String, bool), Trouble> {
        let me = self.ask("getMe", &json!({})).await?;
        let webhook = self.ask("getWebhookInfo", &json!({})).await?;
        let has_webhook = webhook["url"].as_str().is_some_and(|url| !url.is_empty());
        Ok((me["username"].as_str().unwrap_or_default().to_owned(), has_webhook))
    }

    /// Whether it could be served, and what would change there if it were.
    async fn look(&self) -> Result<String, Trouble> {
        let (username, has_webhook) = self.find_bot().await?;
        let note = if has_webhook { "; it has a webhook, which is removed when it is served" } else { "" };
        Ok(format!("@{username} can be reached{note}"))
    }

    async fn begin(&self) -> Result<String, Trouble> {
        let (username, has_webhook) = self.find_bot().await?;
        let mut sentence = format!("@{username} is served");
        if has_webhook {
            // As long as there is one, nothing can be read.
            self.ask("deleteWebhook", &json!({ "drop_pending_updates": false })).await?;
            sentence.push_str("; the webhook that it had was removed");
        }
        self.memory().username = username;
        Ok(sentence)
    }

    async fn read(&self, cursor: Option<String>) -> Result<Batch, Trouble> {
        let offset = Memory::offset_of(cursor.as_deref());
        let poll = if self.memory().is_busy() { SHORT_POLL } else { LONG_POLL };
        let from = offset.map(|offset| format!("&offset={offset}")).unwrap_or_default();
        let query = format!("getUpdates?timeout={}&limit=100&allowed_updates={WANTED}{from}", poll.as_secs());
        let updates = result(self.bot.list(&query, poll + BEYOND_POLL).await)?;
        let updates = updates.as_array().map(Vec::as_slice).unwrap_or_default();
        let (mut batch, unknown) = self.sort_out(offset, updates);
        batch.cursor = batch.cursor.filter(|text| Some(text) != cursor.as_ref());
        for callback in unknown {
            let may_write = self.people.contains(&callback["from"]["id"].to_string());
            let text = if may_write { "This button is not known any more." } else { "" };
            batch
                .knocks
                .extend(update::stranger(callback, |chat| self.memory().home(chat)).filter(|_| !may_write));
            self.toast(callback["id"].as_str().unwrap_or_default(), text).await;
        }
        Ok(batch)
    }

    /// What there is in these, and the taps that mean nothing to us.
    fn sort_out<'a>(&self, offset: Option<i64>, updates: &'a [Value]) -> (Batch, Vec<&'a Value>) {
        let mut batch = Batch::default();
        let mut unknown = Vec::new();
        let mut memory = self.memory();
        memory.offset = offset;
        for update in updates {
            memory.offset = memory.offset.max(update["update_id"].as_i64().map(|id| id + 1));
            memory.note_move(&update["message"]);
            let home = |chat| memory.home(chat);
            batch.arrivals.extend(update::arrival(&self.name, &memory.username, &update["message"], home));
            match update::tapped(self.bot.id(), &update["callback_query"], home) {
                // One that comes twice is decided on once.
                Some(tapped) if memory.taps.contains_key(&tapped.tap.id) => {}
                Some(tapped) => {
                    batch.taps.push(tapped.tap.clone());
                    memory.taps.insert(tapped.tap.id.clone(), tapped);
                }
                None => unknown.extend(update.get("callback_query")),
            }
        }
        if !updates.is_empty() {
            memory.stirred_at = Some(Instant::now());
        }
        batch.cursor = memory.cursor();
        (batch, unknown)
    }
}

impl Channel for Telegram {
    fn places(&self) -> Vec<String> {
        self.home.iter().map(|_| String::new()).chain(self.chats.iter().cloned()).collect()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        let chat = self.place(place)?.chat;
        let before =
            if let Chat::Number(now) = chat { self.memory().home(now).to_string() } else { chat.to_string() };
        let is_known = [chat.to_string(), before].iter().any(|one| self.chats.contains(one));
        if is_known { Ok(()) } else { Err("that chat is not one of the operator's".to_owned()) }
    }

    fn reaches(&self, place: &str) -> bool {
        numbered(place).is_ok() || self.check_place(place).is_ok()
    }

    fn send<'a>(&'a self, place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        self.say(place, attempt).boxed()
    }
}

impl Receiving for Telegram {
    fn identity(&self) -> String {
        format!("Telegram bot {}", self.bot.id())
    }

    fn start(&self, cursor: Option<String>) -> BoxFuture<'_, Result<String, Trouble>> {
        let mut memory = self.memory();
        memory.recall(cursor.as_deref());
        // What could not be decided on comes again; what was decided on is told that it was.
        memory.taps.clear();
        drop(memory);
        self.begin().boxed()
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, Trouble>> {
        self.look().boxed()
    }

    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Batch, Trouble>> {
        self.read(cursor).boxed()
    }

    fn decided<'a>(&'a self, tap: &'a Tap, verdict: &'a Verdict) -> BoxFuture<'a, ()> {
        self.show_verdict(tap, verdict).boxed()
    }

    fn asked(&self) -> Vec<RequestName> {
        let memory = self.memory();
        // What somebody decides on at this moment is shown with their name.
        let is_tapped =
            |id: &RequestName| memory.taps.values().any(|tapped| tapped.tap.button.request_id == *id);
        let asked = memory.asking.iter().flat_map(|asking| &asking.requests);
        asked.filter(|id| !is_tapped(id)).cloned().collect()
    }

    fn close_asked<'a>(&'a self, request: &'a RequestRecord) -> BoxFuture<'a, ()> {
        self.show_closed(request).boxed()
    }

    fn shows_progress(&self) -> bool {
        self.shows_progress
    }

    fn in_progress(&self) -> Vec<MessageId> {
        self.memory().shown.names().cloned().map(MessageId).collect()
    }

    fn progress<'a>(&'a self, progress: &'a Progress) -> BoxFuture<'a, ()> {
        self.show_progress(progress).boxed()
    }
}

/// The number of somebody who may write.
fn user(allowed: &str) -> Result<String, String> {
    let user = Allowed::parse(allowed)?.sender;
    let is_number = |text: &str| text.parse::<i64>().is_ok();
    match user.split_once(':') {
        _ if is_number(&user) => Ok(user),
        Some((id, role)) if is_number(id) => {
            Err(format!("{role:?} is no role: it is {}", Allowed::ROLES.join(" or ")))
        }
        _ => Err(format!("{user:?} is no user: Telegram's users are numbers, which @userinfobot tells")),
    }
}

/// What a method gave, or what it means for the channel that it did not.
fn result(called: Result<Reply, http::Error>) -> Result<Value, Trouble> {
    let mut reply = called.map_err(|error| Trouble::again(format!("Telegram: {error}")))?;
    if reply.body["ok"] == true {
        return Ok(reply.body["result"].take());
    }
    let described = reply.body["description"].as_str().unwrap_or("without a reason");
    let why = format!("Telegram answered {}: {described}", reply.status);
    Err(match reply.status {
        401 | 404 => {
            Trouble::Stop(format!("{why}. The token is not, or no longer, valid: @BotFather gives another"))
        }
        409 => Trouble::again(format!(
            "{why}. Another program may be reading this bot's messages: there can be one only"
        )),
        429 => {
            let wait = reply.body["parameters"]["retry_after"].as_u64().map(Duration::from_secs);
            Trouble::Again { after: wait.or(reply.retry_after), why }
        }
        _ => Trouble::again(why),
    })
}

#[cfg(test)]
mod tests;
