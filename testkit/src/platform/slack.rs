//! A Slack workspace with one app in Socket Mode: people write, change their messages, tap buttons, and see what the app says.
//!
//! The Web API and the WebSocket are on one port. Written from Slack's documentation:
//! - an address for a WebSocket is good once; the server says hello; every envelope is acknowledged within three seconds, or it
//!   comes again, on any of the connections, up to three times;
//! - what happens while nobody is connected is not sent, and can only be read in the history;
//! - connections are replaced now and then: `disconnect` comes first, and some time later the end;
//! - texts, blocks, buttons and metadata have limits; errors are `{"ok": false}` with status 200, limits are 429 with
//!   `Retry-After`.
//!
//! Arguments come as JSON, as a form or in the query: `tests/all/slack_library.rs` lets Slack's own library talk to it.

mod answers;
mod blocks;
mod socket;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Answer, Day, PATIENCE, drop_connection};

/// The bot as a member.
pub const BOT_USER: &str = "U0CODEX";
/// The bot as the sender of messages.
pub const BOT_ID: &str = "B0CODEX";
/// The app.
pub const APP: &str = "A0BRIDGE";
/// The workspace.
pub const TEAM: &str = "T0TEAM";

/// A channel that is archived.
pub const ARCHIVED: &str = "C0ARCHIVED";

/// A message as people see it now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// The channel or private chat.
    pub channel: String,
    /// Its time, which is its id.
    pub ts: String,
    /// The first message of its thread, if it is in one.
    pub thread: Option<String>,
    /// Who wrote it.
    pub user: String,
    /// What its blocks say, as people read it; without blocks, its text.
    pub text: String,
    /// What stands in notifications.
    pub fallback: String,
    /// Its blocks.
    pub blocks: Value,
    /// What programs see.
    pub metadata: Value,
    /// The name and content of its file.
    pub file: Option<(String, String)>,
    /// How often it was edited.
    pub edits: usize,
    /// The reactions of the bot.
    pub reactions: Vec<String>,
    /// Who alone sees it.
    pub only_for: Option<String>,
    /// More fields of a message of a person.
    more: Value,
}

/// A workspace.
pub struct Server {
    base: String,
    desk: Arc<Desk>,
    serving: [JoinHandle<()>; 2],
}

struct Desk {
    token: String,
    app_token: String,
    base: String,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    last_ts: u64,
    said: Vec<Said>,
    calls: Vec<(String, Instant)>,
    days: VecDeque<(String, Day)>,
    tickets: Vec<u64>,
    last_ticket: u64,
    sockets: BTreeMap<u64, mpsc::UnboundedSender<socket::Order>>,
    connected: usize,
    turn: usize,
    envelopes: Vec<socket::Sent>,
    last_envelope: u64,
    late_acks: usize,
    stutters: bool,
    ignores_acks: bool,
    uploads: BTreeMap<String, (String, usize, Option<String>)>,
}

impl Server {
    /// Opens one for the app with these tokens.
    pub async fn open(token: &str, app_token: &str) -> Self {
        let listener = socket::Listener::bind().await;
        let base = format!("http://{}", listener.address());
        let desk = Arc::new(Desk {
            token: token.to_owned(),
            app_token: app_token.to_owned(),
            base: base.clone(),
            books: Mutex::default(),
        });
        let listener = listener.with(Arc::clone(&desk));
        let router = Router::new().fallback(receive).with_state(Arc::clone(&desk));
        let web = tokio::spawn(async move { axum::serve(listener, router).await.expect("serves") });
        let again = tokio::spawn(socket::send_again(Arc::clone(&desk)));
        Self { base, desk, serving: [web, again] }
    }

    /// The address of its API, without a slash at the end.
    pub fn base(&self) -> String {
        format!("{}/api", self.base)
    }

    /// Somebody writes to the bot alone; gives the time of the message.
    pub fn write(&self, user: &str, text: &str) -> String {
        self.write_in(user, &dm(user), None, text)
    }

    /// Somebody writes in a channel, in a thread if there is one.
    pub fn write_in(&self, user: &str, channel: &str, thread: Option<&str>, text: &str) -> String {
        self.write_with(user, channel, thread, text, &json!({}))
    }

    /// The same, with more fields.
    pub fn write_with(
        &self,
        user: &str,
        channel: &str,
        thread: Option<&str>,
        text: &str,
        more: &Value,
    ) -> String {
        let mut books = self.desk.books();
        let ts = books.next_ts();
        let said = Said {
            channel: channel.to_owned(),
            ts: ts.clone(),
            thread: thread.map(str::to_owned),
            user: user.to_owned(),
            text: text.to_owned(),
            more: more.clone(),
            ..Said::default()
        };
        let event = books.event_of(&said);
        books.said.push(said);
        books.event(&event);
        if text.contains(&format!("<@{BOT_USER}>")) && !channel.starts_with('D') {
            // Whoever is mentioned is told of it twice.
            let mut mention = event;
            mention["type"] = "app_mention".into();
            mention.as_object_mut().expect("an object").remove("channel_type");
            books.event(&mention);
        }
        ts
    }

    /// Somebody changes what they wrote.
    pub fn edit(&self, channel: &str, ts: &str, text: &str) {
        let mut books = self.desk.books();
        let at =
            books.said.iter().position(|said| said.channel == channel && said.ts == ts).expect("a message");
        let before = books.event_of(&books.said[at]);
        text.clone_into(&mut books.said[at].text);
        let version = books.next_ts();
        let mut message = books.event_of(&books.said[at]);
        message["edited"] = json!({ "user": message["user"], "ts": version });
        books.event(&json!({
            "type": "message", "subtype": "message_changed", "hidden": true, "channel": channel, "ts": version,
            "event_ts": version, "message": message, "previous_message": before,
        }));
    }

    /// Somebody taps a button; gives what the interaction is known by.
    pub fn tap(&self, user: &str, said: &Said, value: &str) -> String {
        let mut books = self.desk.books();
        let at = books.next_ts();
        let message = books.event_of(said);
        let mut container = json!({
            "type": "message", "message_ts": said.ts, "channel_id": said.channel, "is_ephemeral": false,
        });
        if let Some(thread) = &said.thread {
            container["thread_ts"] = thread.as_str().into();
        }
        let tap = json!({
            "type": "block_actions", "user": {"id": user, "username": user, "name": user, "team_id": TEAM},
            "api_app_id": APP, "token": "old", "container": container, "trigger_id": format!("1.2.{at}"),
            "team": {"id": TEAM, "domain": "team"}, "channel": {"id": said.channel, "name": "a-channel"}, "message": message,
            "response_url": "https://hooks.slack.invalid/actions", "actions": [{
                "action_id": "key", "block_id": "b", "text": {"type": "plain_text", "text": "x"}, "value": value,
                "type": "button", "action_ts": at,
            }],
        });
        books.envelope("interactive", &tap);
        at
    }

    /// What the server does with the next call of this method.
    pub fn have(&self, method: &str, day: Day) {
        self.desk.books().days.push_back((method.to_owned(), day));
    }

    /// From now on every event comes twice.
    pub fn stutter(&self) {
        self.desk.books().stutters = true;
    }

    /// Loses acknowledgements from now on, or no more.
    pub fn ignore_acks(&self, ignores: bool) {
        self.desk.books().ignores_acks = ignores;
    }

    /// Announces that all connections end, and ends them so much later.
    pub fn refresh(&self, reason: &str, grace: Duration) {
        let frame = json!({ "type": "disconnect", "reason": reason, "debug_info": { "host": "stand-in" } });
        for socket in self.desk.books().sockets.values() {
            socket.send(socket::Order::Say(frame.clone())).ok();
            socket.send(socket::Order::EndAfter(grace)).ok();
        }
    }

    /// All connections break off.
    pub fn cut(&self) {
        let mut books = self.desk.books();
        books.sockets.values().for_each(|socket| drop(socket.send(socket::Order::Cut)));
        books.sockets.clear();
    }

    /// How many connections there are, and how many there were so far.
    pub fn connections(&self) -> (usize, usize) {
        let books = self.desk.books();
        (books.sockets.len(), books.connected)
    }

    /// What the bot has said to everybody, the oldest first.
    pub fn said(&self) -> Vec<Said> {
        let books = self.desk.books();
        books.said.iter().filter(|said| said.user == BOT_USER && said.only_for.is_none()).cloned().collect()
    }

    /// What the bot has told somebody alone: who, and what.
    pub fn told(&self) -> Vec<(String, String)> {
        let books = self.desk.books();
        books.said.iter().filter_map(|said| Some((said.only_for.clone()?, said.text.clone()))).collect()
    }

    /// The bot's reactions to a message.
    pub fn reactions(&self, channel: &str, ts: &str) -> Vec<String> {
        let books = self.desk.books();
        let found = books.said.iter().find(|said| said.channel == channel && said.ts == ts);
        found.map(|said| said.reactions.clone()).unwrap_or_default()
    }

    /// The methods that were called, and when.
    pub fn calls(&self) -> Vec<(String, Instant)> {
        self.desk.books().calls.clone()
    }

    /// How often a method was called.
    pub fn count(&self, method: &str) -> usize {
        self.calls().iter().filter(|(called, _)| called == method).count()
    }

    /// How many envelopes nobody has acknowledged yet, and how many were acknowledged too late.
    pub fn unacknowledged(&self) -> (usize, usize) {
        let books = self.desk.books();
        (books.envelopes.len(), books.late_acks)
    }

    /// Waits until people see what is looked for.
    pub async fn until<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            let said = self.said();
            let seen: Vec<(String, String, usize)> =
                said.into_iter().map(|said| (said.channel, said.text, said.edits)).collect();
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}; people see {seen:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the app is connected.
    pub async fn until_connected(&self) {
        self.until("a connection", |server| (server.connections().0 > 0).then_some(())).await;
    }

    /// Waits for a message of the bot's in this channel that says this.
    pub async fn until_said(&self, channel: &str, text: &str) -> Said {
        let is_it = |said: &Said| said.channel == channel && said.text.contains(text);
        self.until(&format!("{text:?} in {channel}"), |server| server.said().into_iter().find(is_it)).await
    }

    /// Waits until everything is acknowledged.
    pub async fn until_acknowledged(&self) {
        self.until("all to be acknowledged", |server| (server.unacknowledged().0 == 0).then_some(())).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
        // The connections have tasks of their own.
        self.cut();
    }
}

/// The private chat of a person with the bot.
pub fn dm(user: &str) -> String {
    format!("D{}", user.trim_start_matches('U'))
}

/// Too many calls.
pub fn limited(seconds: u64) -> Day {
    let refused = Answer::json(429, json!({ "ok": false, "error": "ratelimited" }));
    Day::Refuses(refused.header("retry-after", seconds.to_string()))
}

/// An error as Slack tells of it.
pub fn error(code: &str) -> Answer {
    Answer::json(200, json!({ "ok": false, "error": code }))
}

impl Said {
    /// The value of the button with this label.
    pub fn button(&self, label: &str) -> Option<String> {
        let blocks = self.blocks.as_array()?.iter().filter(|block| block["type"] == "actions");
        let mut buttons = blocks.flat_map(|block| block["elements"].as_array().cloned().unwrap_or_default());
        let found = buttons.find(|button| button["text"]["text"] == label)?;
        found["value"].as_str().map(str::to_owned)
    }

    /// The texts with this style: `bold`, `code` …, or `preformatted`.
    pub fn styled(&self, style: &str) -> Vec<String> {
        blocks::styled(&self.blocks, style)
    }
}

impl Desk {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    /// Times are unique in a workspace, and those of today.
    fn next_ts(&mut self) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        self.last_ts = (self.last_ts + 1).max(u64::try_from(now.as_micros()).expect("before 2500"));
        format!("{}.{:06}", self.last_ts / 1_000_000, self.last_ts % 1_000_000)
    }

    /// A message as events and the history tell of it.
    fn event_of(&self, said: &Said) -> Value {
        let mut message = json!({
            "type": "message", "channel": said.channel, "user": said.user, "text": said.text, "ts": said.ts,
            "event_ts": said.ts, "team": TEAM,
            "channel_type": if said.channel.starts_with('D') { "im" } else { "channel" },
        });
        if said.user == BOT_USER {
            message["bot_id"] = BOT_ID.into();
            message["app_id"] = APP.into();
            message["text"] = said.fallback.as_str().into();
            message["blocks"] = said.blocks.clone();
        }
        if let Some(thread) = &said.thread {
            message["thread_ts"] = thread.as_str().into();
            let root = self.said.iter().find(|one| one.channel == said.channel && one.ts == *thread);
            message["parent_user_id"] = root.map_or(Value::Null, |root| root.user.as_str().into());
        }
        for (key, value) in said.more.as_object().into_iter().flatten() {
            message[key] = value.clone();
        }
        message
    }

    fn event(&mut self, event: &Value) {
        self.last_envelope += 1;
        let callback = json!({
            "token": "old", "team_id": TEAM, "api_app_id": APP, "event": event, "type": "event_callback",
            "event_id": format!("Ev{}", self.last_envelope), "event_time": 1_700_000_000,
            "authorizations": [{"team_id": TEAM, "user_id": BOT_USER, "is_bot": true}],
        });
        let times = if self.stutters { 2 } else { 1 };
        (0..times).for_each(|_| self.envelope("events_api", &callback));
    }
}

async fn receive(State(desk): State<Arc<Desk>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let call = answers::Call::read(&uri, &headers, &body);
    let day = {
        let mut books = desk.books();
        books.calls.push((call.method.clone(), Instant::now()));
        let at = books.days.iter().position(|(of, _)| *of == call.method);
        at.and_then(|at| books.days.remove(at)).map(|(_, day)| day)
    };
    match day {
        None => desk.answer(&call).into_response(),
        Some(Day::Refuses(answer)) => answer.into_response(),
        Some(Day::Drops) => drop_connection(),
        Some(Day::IsSlow(time)) => {
            tokio::time::sleep(time).await;
            desk.answer(&call).into_response()
        }
        Some(Day::AnswersLate(time)) => {
            let answer = desk.answer(&call);
            tokio::time::sleep(time).await;
            answer.into_response()
        }
        Some(Day::TakesBut(instead)) => {
            desk.answer(&call);
            instead.into_response()
        }
        Some(Day::TakesAndDrops) => {
            desk.answer(&call);
            drop_connection()
        }
    }
}
