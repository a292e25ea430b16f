//! A server of Telegram's Bot API with both directions: people write, tap buttons and see what the bot says and edits.
//!
//! Updates are kept until a later one is asked for; only one poll at a time; limits are Telegram's own. Arguments come as
//! JSON, as a form or in the query, as Telegram takes them: `tests/all/telegram_library.rs` lets a library of others' talk
//! to it.

mod files;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::super::{Answer, Day, PATIENCE, drop_connection};
use super::{LIMIT, refusal};

/// How the bot is called.
pub const USERNAME: &str = "codex_bot";

/// A message of the bot's, as people see it now.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Its number.
    pub message_id: i64,
    /// The chat.
    pub chat: i64,
    /// The topic.
    pub topic: Option<i64>,
    /// What it says now.
    pub text: String,
    /// The formatting of the text.
    pub entities: Vec<Value>,
    /// The name and the content of a file.
    pub file: Option<(String, String)>,
    /// Its buttons, row by row.
    pub buttons: Value,
    /// Which message it answers.
    pub answers: Option<i64>,
    /// How often it was edited.
    pub edits: usize,
}

impl Said {
    /// As Telegram tells of it.
    fn message(&self) -> Value {
        let mut message = json!({
            "message_id": self.message_id, "date": now_s(), "chat": chat_of(self.chat), "from": bot(), "text": self.text,
        });
        if !self.entities.is_empty() {
            message["entities"] = self.entities.clone().into();
        }
        if let Some((name, content)) = &self.file {
            message["document"] = json!({
                "file_id": self.message_id.to_string(), "file_unique_id": self.message_id.to_string(),
                "file_name": name, "file_size": content.len(),
            });
        }
        if self.buttons.is_array() {
            message["reply_markup"] = json!({ "inline_keyboard": self.buttons });
        }
        if let Some(topic) = self.topic {
            message["message_thread_id"] = topic.into();
            message["is_topic_message"] = true.into();
        }
        if self.edits > 0 {
            message["edit_date"] = now_s().into();
        }
        message
    }

    /// The text of each entity of this kind.
    pub fn styled(&self, kind: &str) -> Vec<String> {
        let units: Vec<u16> = self.text.encode_utf16().collect();
        let of_kind = self.entities.iter().filter(|entity| entity["type"] == kind);
        of_kind.map(|entity| String::from_utf16_lossy(&units[entity_range(entity)])).collect()
    }

    /// The data of the button with this text.
    pub fn button(&self, text: &str) -> Option<String> {
        let all = self.buttons.as_array()?.iter().flat_map(|row| row.as_array().into_iter().flatten());
        let mut with = all.filter(|button| button["text"] == text);
        with.next()?["callback_data"].as_str().map(str::to_owned)
    }
}

/// Where an entity is in its text, in UTF-16 units.
fn entity_range(entity: &Value) -> std::ops::Range<usize> {
    let number = |key: &str| {
        entity[key].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(usize::MAX)
    };
    number("offset")..number("offset").saturating_add(number("length"))
}

/// The formatting that Telegram would not show as it was sent.
fn wrong_entities(text: &str, entities: &[Value]) -> Option<Answer> {
    const KINDS: [&str; 6] = ["bold", "italic", "strikethrough", "code", "pre", "text_link"];
    let length = text.encode_utf16().count();
    let is_wrong = |entity: &Value| {
        let range = entity_range(entity);
        let is_code = |one: &Value| one["type"] == "code" || one["type"] == "pre";
        let overlaps = |other: &Value| {
            let other = entity_range(other);
            range.start < other.end && other.start < range.end
        };
        let overlaps_code = entities
            .iter()
            .any(|other| other != entity && (is_code(entity) || is_code(other)) && overlaps(other));
        let is_known = entity["type"].as_str().is_some_and(|kind| KINDS.contains(&kind));
        !is_known || range.is_empty() || range.end > length || overlaps_code
    };
    let is_refused = entities.len() > 100 || entities.iter().any(is_wrong);
    is_refused.then(|| refusal(400, "Bad Request: ENTITY_BOUNDS_INVALID", None))
}

/// A server for one bot.
pub struct Server {
    base: String,
    desk: Arc<Desk>,
    serving: JoinHandle<()>,
}

struct Desk {
    token: String,
    books: Mutex<Books>,
    news: Notify,
}

#[derive(Default)]
struct Books {
    updates: Vec<Value>,
    last_update: i64,
    last_message: i64,
    said: Vec<Said>,
    toasts: Vec<(String, String)>,
    /// The bot's reactions: the chat, the message and the sign.
    reactions: Vec<(i64, i64, String)>,
    typing: Vec<(i64, Instant)>,
    commands: Vec<String>,
    /// What people wrote, by their numbers.
    written: Vec<Value>,
    calls: Vec<(String, Instant)>,
    days: VecDeque<(String, Day)>,
    polls: usize,
    webhook: String,
    stutters: bool,
    ignores_high_offsets: bool,
    repeats: bool,
    moved: Option<(i64, i64)>,
    /// The files of people.
    files: Vec<files::Kept>,
    hides_sizes: bool,
    /// The paths of the files that were downloaded.
    downloads: Vec<String>,
}

impl Server {
    /// Opens one for the bot with this token.
    pub async fn open(token: &str) -> Self {
        let desk = Arc::new(Desk { token: token.to_owned(), books: Mutex::default(), news: Notify::new() });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
        let base = format!("http://{}", listener.local_addr().expect("its address"));
        let router = Router::new().fallback(receive).with_state(Arc::clone(&desk));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("serves") });
        Self { base, desk, serving }
    }

    /// Its address, without a slash at the end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Somebody writes to the bot alone; gives the number of the message.
    pub fn write(&self, user: i64, text: &str) -> i64 {
        self.message(user, &json!({ "chat": chat_of(user), "text": text }))
    }

    /// Somebody forwards what another one wrote elsewhere.
    pub fn forward(&self, user: i64, from: i64, text: &str) -> i64 {
        let origin = json!({"type": "user", "date": now_s() - 900, "sender_user": person(from)});
        self.message(user, &json!({ "chat": chat_of(user), "text": text, "forward_origin": origin }))
    }

    /// Somebody writes in a group, in a topic if there is one.
    pub fn write_in(&self, user: i64, chat: i64, topic: Option<i64>, text: &str) -> i64 {
        let mut message = json!({ "chat": chat_of(chat), "text": text });
        if let Some(topic) = topic {
            message["message_thread_id"] = topic.into();
            message["is_topic_message"] = true.into();
        }
        self.message(user, &message)
    }

    /// Somebody replies to a message of the bot's.
    pub fn reply(&self, user: i64, said: &Said, text: &str) -> i64 {
        let mut message =
            json!({ "chat": chat_of(said.chat), "text": text, "reply_to_message": said.message() });
        if let Some(topic) = said.topic {
            message["message_thread_id"] = topic.into();
            message["is_topic_message"] = true.into();
        }
        self.message(user, &message)
    }

    /// Somebody changes what they wrote.
    pub fn edit(&self, message_id: i64, text: &str) {
        let mut books = self.desk.books();
        let of_it = |message: &&Value| message["message_id"] == message_id;
        let mut message = books.written.iter().find(of_it).expect("a message of a person").clone();
        message["text"] = text.into();
        message["edit_date"] = (now_s() + u64::try_from(books.updates.len()).unwrap_or_default()).into();
        books.update("edited_message", &message);
        drop(books);
        self.desk.news.notify_waiters();
    }

    fn message(&self, user: i64, message: &Value) -> i64 {
        let mut books = self.desk.books();
        books.last_message += 1;
        let id = books.last_message;
        let mut message = message.clone();
        message["message_id"] = id.into();
        message["date"] = now_s().into();
        message["from"] = person(user);
        if books.hides_sizes {
            files::without_sizes(&mut message);
        }
        books.written.push(message.clone());
        books.update("message", &message);
        drop(books);
        self.desk.news.notify_waiters();
        id
    }

    /// A group becomes a supergroup, as Telegram tells of it: with a message on either side, and with refusals of the old
    /// number.
    pub fn upgrade(&self, user: i64, from: i64, to: i64) {
        self.migrate(from, to);
        self.message(user, &json!({ "chat": chat_of(from), "migrate_to_chat_id": to }));
        self.message(user, &json!({ "chat": chat_of(to), "migrate_from_chat_id": from }));
    }

    /// Somebody taps a button; gives the name of the tap.
    pub fn tap(&self, user: i64, said: &Said, data: &str) -> String {
        let mut books = self.desk.books();
        let id = format!("tap-{}", books.last_update + 1);
        let tap = json!({
            "id": id, "from": person(user), "message": said.message(), "data": data, "chat_instance": "1",
        });
        books.update("callback_query", &tap);
        drop(books);
        self.desk.news.notify_waiters();
        id
    }

    /// What the server does with the next call of this method.
    pub fn have(&self, method: &str, day: Day) {
        self.desk.books().days.push_back((method.to_owned(), day));
    }

    /// From now on every update comes twice.
    pub fn stutter(&self) {
        self.desk.books().stutters = true;
    }

    /// The next update has this number: after a week without one Telegram picks a random one.
    pub fn number_from(&self, number: i64) {
        self.desk.books().last_update = number - 1;
    }

    /// From now on updates below an offset are given too, as other servers of the API do.
    pub fn ignore_offsets_above(&self) {
        self.desk.books().ignores_high_offsets = true;
    }

    /// From now on no update is ever confirmed: each poll gives all of them.
    pub fn repeat_for_ever(&self) {
        self.desk.books().repeats = true;
    }

    /// A webhook is set.
    pub fn set_webhook(&self, url: &str) {
        url.clone_into(&mut self.desk.books().webhook);
    }

    /// A group gets another number.
    pub fn migrate(&self, from: i64, to: i64) {
        self.desk.books().moved = Some((from, to));
    }

    /// What people see of the bot.
    pub fn said(&self) -> Vec<Said> {
        self.desk.books().said.clone()
    }

    /// What those who tapped were told.
    pub fn toasts(&self) -> Vec<(String, String)> {
        self.desk.books().toasts.clone()
    }

    /// The bot's reactions to this message.
    pub fn reactions(&self, chat: i64, message_id: i64) -> Vec<String> {
        let books = self.desk.books();
        let to_it = books.reactions.iter().filter(|(of, to, _)| (*of, *to) == (chat, message_id));
        to_it.map(|(_, _, sign)| sign.clone()).collect()
    }

    /// When the bot was seen to type in this chat.
    pub fn typing(&self, chat: i64) -> Vec<Instant> {
        self.desk.books().typing.iter().filter(|(of, _)| *of == chat).map(|(_, at)| *at).collect()
    }

    /// The commands that Telegram offers to people.
    pub fn commands(&self) -> Vec<String> {
        self.desk.books().commands.clone()
    }

    /// The methods that were called, and when.
    pub fn calls(&self) -> Vec<(String, Instant)> {
        self.desk.books().calls.clone()
    }

    /// The paths of the files that were downloaded.
    pub fn downloads(&self) -> Vec<String> {
        self.desk.books().downloads.clone()
    }

    /// How many updates nobody has confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.desk.books().updates.len()
    }

    /// Waits until people see what is looked for.
    pub async fn until<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            let said = self.said();
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}; people see {said:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for a message of the bot's in this chat that says this.
    pub async fn until_said(&self, chat: i64, text: &str) -> Said {
        let is_it = |said: &Said| said.chat == chat && said.text.contains(text);
        self.until(&format!("{text:?} in {chat}"), |server| server.said().into_iter().find(is_it)).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Desk {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    /// What the server does instead of what it should, if anything.
    fn day_for(&mut self, method: &str) -> Option<Day> {
        let at = self.days.iter().position(|(of, _)| of == method)?;
        self.days.remove(at).map(|(_, day)| day)
    }

    fn update(&mut self, kind: &str, what: &Value) {
        self.last_update += 1;
        self.updates.push(json!({ "update_id": self.last_update, kind: what }));
    }
}

fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

fn bot() -> Value {
    json!({ "id": 4711, "is_bot": true, "first_name": "Codex", "username": USERNAME })
}

fn person(user: i64) -> Value {
    json!({ "id": user, "is_bot": false, "first_name": format!("User {user}") })
}

/// Numbers of people are positive, those of groups negative, and those of supergroups begin with -100.
fn chat_of(chat: i64) -> Value {
    match chat {
        0.. => json!({ "id": chat, "type": "private", "first_name": format!("User {chat}") }),
        _ if chat.to_string().starts_with("-100") => {
            json!({ "id": chat, "type": "supergroup", "title": "A group", "is_forum": true })
        }
        _ => json!({ "id": chat, "type": "group", "title": "A group" }),
    }
}

/// What a call was given, whichever way it came: in the query, as a form, as JSON.
fn given(query: &str, body: &str) -> Value {
    if let Ok(body @ Value::Object(_)) = serde_json::from_str(body) {
        return body;
    }
    if let Some(body) = form(body) {
        return body;
    }
    let pairs = |text: &str| {
        let uri: Uri = format!("/?{text}").parse().unwrap_or_default();
        Query::<Vec<(String, String)>>::try_from_uri(&uri).map(|Query(pairs)| pairs).unwrap_or_default()
    };
    let read = |(name, text): (String, String)| {
        // Everything but words may be JSON in a text.
        let is_words = matches!(name.as_str(), "text" | "callback_query_id");
        let value = serde_json::from_str(&text).ok().filter(|_| !is_words);
        (name, value.unwrap_or(Value::String(text)))
    };
    pairs(query).into_iter().chain(pairs(body)).map(read).collect()
}

/// What a form with a file was given: the file is an object with its name and its content.
fn form(body: &str) -> Option<Value> {
    let boundary = body.strip_prefix("--")?.split("\r\n").next()?;
    let mut given = serde_json::Map::new();
    for part in body.split(&format!("--{boundary}")).filter(|part| part.starts_with("\r\n")) {
        let (headers, content) = part.trim_start_matches("\r\n").split_once("\r\n\r\n")?;
        let content = content.strip_suffix("\r\n").unwrap_or(content);
        let named = |key: &str| headers.split(&format!(" {key}=\"")).nth(1)?.split('"').next();
        let value = match named("filename") {
            Some(name) => json!({ "name": name, "content": content }),
            None => serde_json::from_str(content).unwrap_or_else(|_| content.into()),
        };
        given.insert(named("name")?.to_owned(), value);
    }
    Some(given.into())
}

fn done(result: &Value) -> Answer {
    Answer::json(200, json!({ "ok": true, "result": result }))
}

/// Counts as a poll for as long as somebody waits for it.
struct Poll(Arc<Desk>);

impl Drop for Poll {
    fn drop(&mut self) {
        self.0.books().polls -= 1;
    }
}

async fn receive(State(desk): State<Arc<Desk>>, uri: Uri, body: Bytes) -> Response {
    let files = format!("/file/bot{}/", desk.token);
    if let Some(path) = uri.path().strip_prefix(&files) {
        let day = desk.books().day_for("file");
        return match day {
            Some(Day::Refuses(answer)) => answer.into_response(),
            Some(Day::Drops | Day::TakesAndDrops) => drop_connection(),
            _ => files::content(&desk, path),
        };
    }
    let prefix = format!("/bot{}/", desk.token);
    let Some(method) = uri.path().strip_prefix(&prefix) else {
        return refusal(401, "Unauthorized", None).into_response();
    };
    let body = given(uri.query().unwrap_or_default(), &String::from_utf8_lossy(&body));
    let day = {
        let mut books = desk.books();
        books.calls.push((method.to_owned(), Instant::now()));
        books.day_for(method)
    };
    match day {
        None => answer(&desk, method, &body).await.into_response(),
        Some(Day::Refuses(answer)) => answer.into_response(),
        Some(Day::Drops) => drop_connection(),
        Some(Day::IsSlow(time)) => {
            tokio::time::sleep(time).await;
            answer(&desk, method, &body).await.into_response()
        }
        Some(Day::AnswersLate(time)) => {
            let answer = answer(&desk, method, &body).await;
            tokio::time::sleep(time).await;
            answer.into_response()
        }
        Some(Day::TakesBut(instead)) => {
            answer(&desk, method, &body).await;
            instead.into_response()
        }
        Some(Day::TakesAndDrops) => {
            answer(&desk, method, &body).await;
            drop_connection()
        }
    }
}

async fn answer(desk: &Arc<Desk>, method: &str, body: &Value) -> Answer {
    match method {
        "getMe" => done(&bot()),
        "getWebhookInfo" => {
            let books = desk.books();
            done(&json!({
                "url": books.webhook, "has_custom_certificate": false, "pending_update_count": books.updates.len(),
            }))
        }
        "deleteWebhook" => {
            desk.books().webhook.clear();
            done(&true.into())
        }
        "getUpdates" => updates(desk, body).await,
        "getFile" => desk.books().get_file(body),
        "sendMessage" | "sendDocument" => send(&mut desk.books(), body),
        "editMessageText" => edit(&mut desk.books(), body),
        "answerCallbackQuery" => {
            let word = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
            assert_ne!(body["show_alert"], true, "a modal has to be closed before anything else can be done");
            desk.books().toasts.push((word("callback_query_id"), word("text")));
            done(&true.into())
        }
        "sendChatAction" => {
            let Some(chat) = body["chat_id"].as_i64().filter(|_| body["action"] == "typing") else {
                return refusal(400, "Bad Request: wrong parameter action in request", None);
            };
            desk.books().typing.push((chat, Instant::now()));
            done(&true.into())
        }
        "setMessageReaction" => react(&mut desk.books(), body),
        "setMyCommands" => set_commands(&mut desk.books(), body),
        _ => refusal(404, "Not Found: method not found", None),
    }
}

fn react(books: &mut Books, body: &Value) -> Answer {
    const SIGNS: [&str; 4] = ["👀", "✍", "👍", "👎"];
    let sign = body["reaction"][0]["emoji"].as_str().filter(|sign| SIGNS.contains(sign));
    let Some(sign) = sign.filter(|_| body["reaction"][0]["type"] == "emoji") else {
        return refusal(400, "Bad Request: REACTION_INVALID", None);
    };
    let number = |key: &str| body[key].as_i64();
    let is_it = |message: &Value| {
        message["message_id"].as_i64() == number("message_id")
            && message["chat"]["id"].as_i64() == number("chat_id")
    };
    let Some((chat, message)) =
        number("chat_id").zip(number("message_id")).filter(|_| books.written.iter().any(is_it))
    else {
        return refusal(400, "Bad Request: message to react not found", None);
    };
    books.reactions.push((chat, message, sign.to_owned()));
    done(&true.into())
}

fn set_commands(books: &mut Books, body: &Value) -> Answer {
    let commands = body["commands"].as_array().cloned().unwrap_or_default();
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
    let is_right = |command: &Value| {
        let word = |key: &str| command[key].as_str().unwrap_or_default();
        let (name, what) = (word("command"), word("description"));
        (1..=32).contains(&name.len())
            && name.chars().all(is_plain)
            && (1..=256).contains(&what.chars().count())
    };
    if commands.len() > 100 || !commands.iter().all(is_right) {
        return refusal(400, "Bad Request: BOT_COMMAND_INVALID", None);
    }
    books.commands =
        commands.iter().filter_map(|command| command["command"].as_str().map(str::to_owned)).collect();
    done(&true.into())
}

async fn updates(desk: &Arc<Desk>, body: &Value) -> Answer {
    let number = |key: &str| body[key].as_i64();
    let wanted = body["allowed_updates"].as_array().cloned().unwrap_or_default();
    let most = number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(100);
    {
        let mut books = desk.books();
        if !books.webhook.is_empty() {
            return refusal(409, "Conflict: can't use getUpdates method while webhook is active", None);
        }
        if books.polls > 0 {
            return refusal(409, "Conflict: terminated by other getUpdates request", None);
        }
        books.polls += 1;
        if let Some(offset) = number("offset") {
            let last = books.updates.last().and_then(|update| update["update_id"].as_i64());
            let is_above = books.ignores_high_offsets && last < Some(offset - 1);
            if !is_above && !books.repeats {
                books.updates.retain(|update| update["update_id"].as_i64() >= Some(offset));
            }
        }
    }
    let _poll = Poll(Arc::clone(desk));
    let wait = Duration::from_secs(number("timeout").unwrap_or_default().unsigned_abs());
    let deadline = tokio::time::Instant::now() + wait;
    loop {
        let news = desk.news.notified();
        let (found, stutters) = {
            let books = desk.books();
            let is_wanted = |update: &Value| wanted.is_empty() || kind_of(update, &wanted);
            let wanted = books.updates.iter().filter(|update| is_wanted(update));
            (wanted.take(most).cloned().collect::<Vec<_>>(), books.stutters)
        };
        if !found.is_empty() {
            let times = if stutters { 2 } else { 1 };
            let found = found.into_iter().flat_map(|update| std::iter::repeat_n(update, times));
            return done(&found.collect::<Vec<_>>().into());
        }
        if tokio::time::timeout_at(deadline, news).await.is_err() {
            return done(&json!([]));
        }
    }
}

fn kind_of(update: &Value, wanted: &[Value]) -> bool {
    wanted.iter().filter_map(Value::as_str).any(|kind| update.get(kind).is_some())
}

fn wrong(text: &str, buttons: &Value) -> Option<Answer> {
    let too_long =
        buttons.as_array().into_iter().flatten().flat_map(|row| row.as_array().into_iter().flatten());
    let has_long = { too_long }
        .any(|button| button["callback_data"].as_str().is_none_or(|data| data.is_empty() || data.len() > 64));
    if text.is_empty() {
        return Some(refusal(400, "Bad Request: message text is empty", None));
    }
    if text.encode_utf16().count() > LIMIT {
        return Some(refusal(400, "Bad Request: message is too long", None));
    }
    has_long.then(|| refusal(400, "Bad Request: BUTTON_DATA_INVALID", None))
}

fn send(books: &mut Books, body: &Value) -> Answer {
    let Some(chat) = body["chat_id"].as_i64() else {
        return refusal(400, "Bad Request: chat not found", None);
    };
    if chat == super::BLOCKED {
        return refusal(403, "Forbidden: bot was blocked by the user", None);
    }
    if let Some((_, to)) = books.moved.filter(|(from, _)| *from == chat) {
        let description = "Bad Request: group chat was upgraded to a supergroup chat";
        return refusal(400, description, Some(json!({ "migrate_to_chat_id": to })));
    }
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let file = word(&body["document"]["name"]).zip(word(&body["document"]["content"]));
    let text = body["text"].as_str().or(body["caption"].as_str()).unwrap_or_default();
    let (entities, buttons) = (entities_of(body), &body["reply_markup"]["inline_keyboard"]);
    let refused = wrong(text, buttons).filter(|_| file.is_none());
    if let Some(refused) = refused.or_else(|| wrong_entities(text, &entities)) {
        return refused;
    }
    books.last_message += 1;
    let message_id = books.last_message;
    let said = Said {
        message_id,
        chat,
        topic: body["message_thread_id"].as_i64(),
        text: text.to_owned(),
        entities,
        file,
        buttons: buttons.clone(),
        answers: body["reply_parameters"]["message_id"].as_i64(),
        edits: 0,
    };
    let message = said.message();
    books.said.push(said);
    done(&message)
}

fn entities_of(body: &Value) -> Vec<Value> {
    body["entities"].as_array().cloned().unwrap_or_default()
}

fn edit(books: &mut Books, body: &Value) -> Answer {
    let (text, buttons) =
        (body["text"].as_str().unwrap_or_default(), &body["reply_markup"]["inline_keyboard"]);
    let entities = entities_of(body);
    if let Some(refused) = wrong(text, buttons).or_else(|| wrong_entities(text, &entities)) {
        return refused;
    }
    let is_it = |said: &&mut Said| {
        Some(said.chat) == body["chat_id"].as_i64() && Some(said.message_id) == body["message_id"].as_i64()
    };
    let Some(said) = books.said.iter_mut().find(is_it) else {
        return refusal(400, "Bad Request: message to edit not found", None);
    };
    if said.text == text && said.buttons == *buttons {
        return refusal(400, "Bad Request: message is not modified", None);
    }
    (said.text, said.buttons, said.edits) = (text.to_owned(), buttons.clone(), said.edits + 1);
    said.entities = entities;
    done(&said.message())
}
