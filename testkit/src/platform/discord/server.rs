//! A server of Discord's HTTP API (v10) and gateway on one port: people write, tap buttons, and see what the bot says.
//!
//! Its limits, refusals and rate limits are Discord's own. A session's events are kept and sent again from the number that a
//! resumed session names. A tap that is not acknowledged within three seconds has failed.
//! `tests/all/discord_library.rs` lets a library of others' talk to it.

mod api;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use super::super::{Answer, Day, PATIENCE};
use super::gateway::{Resumed, guild};
use super::messages::{Said, message, now_ms, timestamp};

/// The bot's id, its name, and the role that only it has.
pub const BOT: u64 = 4711;
/// How the bot is called.
pub const USERNAME: &str = "codex";
/// The bot's own role.
pub const ROLE: u64 = 4_712;
/// A server, a channel in it that the bot may read, and one that it may not.
pub const GUILD: u64 = 5_000;
/// A channel that the bot may read.
pub const GENERAL: u64 = 6_000;
/// A channel that the bot may not read.
pub const HIDDEN: u64 = 6_001;
/// A person who takes no messages of the bot.
pub const BLOCKED: u64 = 403;
/// How long a tap waits to be acknowledged.
const TAP_PATIENCE: Duration = Duration::from_secs(3);
/// How long a message is recognised by its nonce.
const NONCES: Duration = Duration::from_mins(5);
/// When ids begin, in milliseconds.
const EPOCH_MS: u64 = 1_420_070_400_000;

/// A server for one bot.
pub struct Server {
    origin: String,
    desk: Arc<Desk>,
    serving: JoinHandle<()>,
}

/// What is done with a connection of the gateway's.
#[derive(Debug)]
pub enum Frame {
    /// A message is sent.
    Message(Value),
    /// It is closed with a code.
    Close(u16),
    /// It is dropped.
    Drop,
}

/// The server's state, and the token that it takes.
pub struct Desk {
    pub(super) token: String,
    origin: String,
    books: Mutex<Books>,
}

/// A session: its events, by their numbers from one on.
struct Session {
    events: Vec<Value>,
    connection: Option<usize>,
    is_valid: bool,
}

/// A tap on a button.
struct Tapped {
    id: u64,
    token: String,
    at: Instant,
    is_acknowledged: bool,
    has_failed: bool,
}

/// Everything that the server knows.
pub struct Books {
    last_id: u64,
    connections: BTreeMap<usize, UnboundedSender<Frame>>,
    connection_count: usize,
    sessions: BTreeMap<String, Session>,
    /// Channels and threads, by their ids.
    channels: BTreeMap<u64, Value>,
    /// What was written by anybody, by ids.
    messages: BTreeMap<u64, Value>,
    said: Vec<Said>,
    nonces: HashMap<String, (u64, Instant)>,
    taps: Vec<Tapped>,
    toasts: Vec<(u64, String)>,
    reactions: Vec<(u64, String)>,
    typing: Vec<(u64, Instant)>,
    notified: Vec<String>,
    calls: Vec<(String, Instant)>,
    limited: HashMap<String, VecDeque<Instant>>,
    refusals: Vec<(String, u16)>,
    days: VecDeque<(String, Day)>,
    identified: usize,
    resumed: usize,
    stutters: bool,
    pub(super) heartbeats: Vec<Option<u64>>,
    pub(super) heartbeat: Duration,
    pub(super) is_mute: bool,
    pub(super) refuses_intents: bool,
    origin: String,
}

impl Server {
    /// Opens one for the bot with this token.
    pub async fn open(token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
        let origin = listener.local_addr().expect("its address").to_string();
        let books = Mutex::new(Books::new(&origin));
        let desk = Arc::new(Desk { token: token.to_owned(), origin: origin.clone(), books });
        let router = Router::new().fallback(api::receive).with_state(Arc::clone(&desk));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("serves") });
        Self { origin, desk, serving }
    }

    /// The address of its HTTP API.
    pub fn base(&self) -> String {
        format!("http://{}/api/v10", self.origin)
    }

    /// The address of its gateway.
    pub fn gateway(&self) -> String {
        format!("ws://{}/gateway", self.origin)
    }

    /// Somebody writes to the bot alone; gives the id of the message.
    pub fn write(&self, user: u64, text: &str) -> u64 {
        self.write_in(user, direct(user), text)
    }

    /// Somebody writes in a channel or a thread.
    pub fn write_in(&self, user: u64, channel: u64, text: &str) -> u64 {
        self.post(user, channel, text, &json!({}))
    }

    /// Somebody forwards what another one wrote elsewhere.
    pub fn forward(&self, user: u64, text: &str) -> u64 {
        let more = json!({
            "message_reference": {"type": 1, "channel_id": "1", "message_id": "1"},
            "message_snapshots": [{"message": {"content": text, "type": 0, "attachments": []}}],
        });
        self.post(user, direct(user), "", &more)
    }

    /// Somebody replies to a message of the bot's.
    pub fn reply(&self, user: u64, said: &Said, text: &str) -> u64 {
        let answered = said.message(&bot());
        let more = json!({
            "type": 19, "referenced_message": answered, "mentions": [bot()],
            "message_reference": {"type": 0, "channel_id": said.channel.to_string(), "message_id": said.id.to_string()},
        });
        self.post(user, said.channel, text, &more)
    }

    /// Somebody changes what they wrote.
    pub fn edit(&self, id: u64, text: &str) {
        let mut books = self.desk.books();
        let mut edited = books.messages.get(&id).expect("a message of a person").clone();
        edited["content"] = text.into();
        edited["edited_timestamp"] = timestamp(now_ms()).into();
        books.messages.insert(id, edited.clone());
        books.tell_of_message("MESSAGE_UPDATE", edited);
    }

    /// Discord adds a preview to a message: it changes, but nobody wrote anything.
    pub fn preview(&self, id: u64) {
        let mut books = self.desk.books();
        let mut changed = books.messages.get(&id).expect("a message").clone();
        changed["embeds"] = json!([{ "type": "link", "url": "https://x.example" }]);
        books.tell_of_message("MESSAGE_UPDATE", changed);
    }

    /// Somebody begins a thread in a channel; gives its id.
    pub fn begin_thread(&self, parent: u64) -> u64 {
        let mut books = self.desk.books();
        let id = books.next_id();
        let thread = json!({
            "id": id.to_string(), "guild_id": GUILD.to_string(), "parent_id": parent.to_string(), "type": 11, "name": "a thread",
            "owner_id": "42", "last_message_id": null, "message_count": 0, "member_count": 1, "flags": 0,
            "thread_metadata": {"archived": false, "auto_archive_duration": 1440, "archive_timestamp": timestamp(now_ms()), "locked": false},
        });
        books.channels.insert(id, thread.clone());
        books.tell("THREAD_CREATE", &thread);
        id
    }

    fn post(&self, user: u64, channel: u64, text: &str, more: &Value) -> u64 {
        let mut books = self.desk.books();
        books.open_direct(channel);
        let id = books.next_id();
        let mut written = message(id, channel, &person(user), text);
        let (names, role) = (text.contains(&format!("<@{BOT}>")), text.contains(&format!("<@&{ROLE}>")));
        written["mentions"] = if names { json!([bot()]) } else { json!([]) };
        written["mention_roles"] = if role { json!([ROLE.to_string()]) } else { json!([]) };
        for (key, value) in more.as_object().into_iter().flatten() {
            written[key] = value.clone();
        }
        books.add(id, channel, written);
        id
    }

    /// Somebody taps a button; gives the id of the tap.
    pub fn tap(&self, user: u64, said: &Said, custom_id: &str) -> u64 {
        let mut books = self.desk.books();
        let id = books.next_id();
        let token = format!("aW50ZXJhY3Rpb24{id}");
        let channel = books.channels.get(&said.channel).cloned().unwrap_or_default();
        let mut tap = json!({
            "id": id.to_string(), "application_id": BOT.to_string(), "type": 3, "token": token, "version": 1,
            "channel_id": said.channel.to_string(), "channel": channel, "message": said.message(&bot()),
            "data": {"custom_id": custom_id, "component_type": 2, "id": 2}, "entitlements": [], "locale": "en-US",
            "authorizing_integration_owners": {}, "context": 0, "attachment_size_limit": 10_485_760,
        });
        if channel["guild_id"].is_string() {
            tap["guild_id"] = GUILD.to_string().into();
            tap["member"] = json!({ "user": person(user), "roles": [], "joined_at": timestamp(0), "deaf": false, "mute": false, "flags": 0, "permissions": "0" });
        } else {
            tap["user"] = person(user);
        }
        books.taps.push(Tapped { id, token, at: Instant::now(), is_acknowledged: false, has_failed: false });
        books.tell("INTERACTION_CREATE", &tap);
        drop(books);
        let desk = Arc::clone(&self.desk);
        tokio::spawn(async move {
            tokio::time::sleep(TAP_PATIENCE).await;
            if let Some(tap) = desk.books().taps.iter_mut().find(|tap| tap.id == id) {
                tap.has_failed = !tap.is_acknowledged;
            }
        });
        id
    }

    /// What the server does with the next call of this name; the names are those of `operation`.
    pub fn have(&self, operation: &str, day: Day) {
        self.desk.books().days.push_back((operation.to_owned(), day));
    }

    /// From now on every message comes twice.
    pub fn stutter(&self) {
        self.desk.books().stutters = true;
    }

    /// Connections that begin from now on have heartbeats as often as this.
    pub fn set_heartbeat(&self, interval: Duration) {
        self.desk.books().heartbeat = interval;
    }

    /// From now on no heartbeat is answered, or each one is again.
    pub fn set_mute(&self, is_mute: bool) {
        self.desk.books().is_mute = is_mute;
    }

    /// Message Content Intent is off.
    pub fn refuse_intents(&self) {
        self.desk.books().refuses_intents = true;
    }

    /// Asks every connection to be made again.
    pub fn ask_to_reconnect(&self) {
        self.to_all(|| Frame::Message(json!({ "op": 7, "s": null, "t": null, "d": null })));
    }

    /// Closes every connection with a code.
    pub fn close_connections(&self, code: u16) {
        self.to_all(|| Frame::Close(code));
    }

    /// Drops every connection.
    pub fn drop_connections(&self) {
        self.to_all(|| Frame::Drop);
    }

    fn to_all(&self, frame: impl Fn() -> Frame) {
        self.desk.books().connections.values().for_each(|connection| drop(connection.send(frame())));
    }

    /// From now on no session that was begun can be resumed.
    pub fn end_sessions(&self) {
        self.desk.books().sessions.values_mut().for_each(|session| session.is_valid = false);
    }

    /// Forgets the nonces of all messages, as Discord does after some minutes.
    pub fn forget_nonces(&self) {
        self.desk.books().nonces.clear();
    }

    /// What people see of the bot.
    pub fn said(&self) -> Vec<Said> {
        self.desk.books().said.clone()
    }

    /// What those who tapped were told, by the ids of their taps.
    pub fn toasts(&self) -> Vec<(u64, String)> {
        self.desk.books().toasts.clone()
    }

    /// Whether Discord knows that a tap came.
    pub fn is_acknowledged(&self, tap: u64) -> bool {
        self.desk.books().taps.iter().any(|one| one.id == tap && one.is_acknowledged)
    }

    /// The taps of which people were told that they failed.
    pub fn failed_taps(&self) -> Vec<u64> {
        self.desk.books().taps.iter().filter(|tap| tap.has_failed).map(|tap| tap.id).collect()
    }

    /// The bot's reactions to a message.
    pub fn reactions(&self, message: u64) -> Vec<String> {
        let books = self.desk.books();
        books.reactions.iter().filter(|(to, _)| *to == message).map(|(_, sign)| sign.clone()).collect()
    }

    /// When the bot was seen to type in this channel.
    pub fn typing(&self, channel: u64) -> Vec<Instant> {
        self.desk.books().typing.iter().filter(|(of, _)| *of == channel).map(|(_, at)| *at).collect()
    }

    /// The contents that have notified somebody.
    pub fn notified(&self) -> Vec<String> {
        self.desk.books().notified.clone()
    }

    /// The calls of the API by their names, and when.
    pub fn calls(&self) -> Vec<(String, Instant)> {
        self.desk.books().calls.clone()
    }

    /// The calls that were refused with 401, 403 or 429, which Discord counts.
    pub fn refusals(&self) -> Vec<(String, u16)> {
        self.desk.books().refusals.clone()
    }

    /// How many sessions were begun, and how often one was resumed.
    pub fn sessions(&self) -> (usize, usize) {
        let books = self.desk.books();
        (books.identified, books.resumed)
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.desk.books().connection_count
    }

    /// The numbers that heartbeats named.
    pub fn heartbeats(&self) -> Vec<Option<u64>> {
        self.desk.books().heartbeats.clone()
    }

    /// Whether a session has a connection now.
    pub fn is_connected(&self) -> bool {
        self.desk.books().sessions.values().any(|session| session.is_valid && session.connection.is_some())
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

    /// Waits for a message of the bot's in this channel that says this.
    pub async fn until_said(&self, channel: u64, text: &str) -> Said {
        let is_it = |said: &Said| said.channel == channel && said.text.contains(text);
        self.until(&format!("{text:?} in {channel}"), |server| server.said().into_iter().find(is_it)).await
    }

    /// Waits until the bot is connected.
    pub async fn until_connected(&self) {
        self.until("the bot to connect", |server| server.is_connected().then_some(())).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
        self.drop_connections();
    }
}

impl Desk {
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn new(origin: &str) -> Self {
        let channel = |id: u64, name: &str| {
            json!({
                "id": id.to_string(), "guild_id": GUILD.to_string(), "type": 0, "name": name, "position": 0,
                "permission_overwrites": [], "last_message_id": null, "nsfw": false, "parent_id": null, "topic": null,
                "rate_limit_per_user": 0, "flags": 0,
            })
        };
        let channels = [(GENERAL, channel(GENERAL, "general")), (HIDDEN, channel(HIDDEN, "hidden"))];
        Self {
            last_id: 0,
            connections: BTreeMap::new(),
            connection_count: 0,
            sessions: BTreeMap::new(),
            channels: channels.into(),
            messages: BTreeMap::new(),
            said: Vec::new(),
            nonces: HashMap::new(),
            taps: Vec::new(),
            toasts: Vec::new(),
            reactions: Vec::new(),
            typing: Vec::new(),
            notified: Vec::new(),
            calls: Vec::new(),
            limited: HashMap::new(),
            refusals: Vec::new(),
            days: VecDeque::new(),
            identified: 0,
            resumed: 0,
            stutters: false,
            heartbeats: Vec::new(),
            heartbeat: Duration::from_millis(41_250),
            is_mute: false,
            refuses_intents: false,
            origin: origin.to_owned(),
        }
    }

    /// The next id: ids begin with the time.
    fn next_id(&mut self) -> u64 {
        self.last_id = ((now_ms() - EPOCH_MS) << 22).max(self.last_id + 1);
        self.last_id
    }

    pub(super) fn connect(&mut self, sender: UnboundedSender<Frame>) -> usize {
        self.connection_count += 1;
        self.connections.insert(self.connection_count, sender);
        self.connection_count
    }

    pub(super) fn disconnect(&mut self, connection: usize) {
        self.connections.remove(&connection);
        for session in self.sessions.values_mut().filter(|session| session.connection == Some(connection)) {
            session.connection = None;
        }
    }

    /// Begins a session. False if the connection has one.
    pub(super) fn identify(&mut self, connection: usize, _intents: u64) -> bool {
        if self.sessions.values().any(|session| session.connection == Some(connection)) {
            return false;
        }
        self.identified += 1;
        let id = format!("session-{}", self.identified);
        let session = Session { events: Vec::new(), connection: Some(connection), is_valid: true };
        self.sessions.insert(id.clone(), session);
        let ready = json!({
            "v": 10, "user": bot(), "session_id": id, "resume_gateway_url": format!("ws://{}/resume", self.origin), "session_type": "normal",
            "guilds": [{"id": GUILD.to_string(), "unavailable": true}], "private_channels": [], "relationships": [],
            "application": {"id": BOT.to_string(), "flags": 1 << 19}, "shard": [0, 1],
        });
        self.tell_session(&id, "READY", &ready);
        let is_thread = |channel: &&Value| channel["type"] == 11;
        let in_guild = || self.channels.values().filter(|channel| channel["guild_id"].is_string()).cloned();
        let (threads, channels): (Vec<Value>, Vec<Value>) =
            in_guild().partition(|channel| is_thread(&channel));
        let role = json!({
            "id": ROLE.to_string(), "name": USERNAME, "color": 0, "hoist": false, "position": 1, "permissions": "0", "managed": true,
            "mentionable": false, "flags": 0, "tags": {"bot_id": BOT.to_string()},
            "colors": {"primary_color": 0, "secondary_color": null, "tertiary_color": null},
        });
        self.tell_session(&id, "GUILD_CREATE", &guild(&channels, &threads, &role));
        true
    }

    /// Goes on with a session behind an event.
    pub(super) fn resume(&mut self, connection: usize, id: &str, last: u64) -> Resumed {
        let Some(session) = self.sessions.get_mut(id).filter(|session| session.is_valid) else {
            return Resumed::Over;
        };
        let Ok(last) = usize::try_from(last) else { return Resumed::WrongNumber };
        if last > session.events.len() {
            return Resumed::WrongNumber;
        }
        session.connection = Some(connection);
        let missed = session.events[last..].to_vec();
        let Some(sender) = self.connections.get(&connection).cloned() else { return Resumed::Over };
        for event in missed {
            drop(sender.send(Frame::Message(event)));
        }
        self.resumed += 1;
        self.tell_session(id, "RESUMED", &json!({}));
        Resumed::Yes
    }

    fn tell_session(&mut self, id: &str, kind: &str, body: &Value) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let event = json!({ "op": 0, "t": kind, "s": session.events.len() + 1, "d": body });
        session.events.push(event.clone());
        if let Some(sender) = session.connection.and_then(|connection| self.connections.get(&connection)) {
            drop(sender.send(Frame::Message(event)));
        }
    }

    /// Tells all sessions of an event.
    fn tell(&mut self, kind: &str, body: &Value) {
        let valid = self.sessions.iter().filter(|(_, session)| session.is_valid);
        let ids: Vec<String> = valid.map(|(id, _)| id.clone()).collect();
        for id in &ids {
            self.tell_session(id, kind, body);
        }
    }

    fn tell_of_message(&mut self, kind: &str, mut written: Value) {
        let channel =
            written["channel_id"].as_str().and_then(|id| id.parse::<u64>().ok()).unwrap_or_default();
        if channel == HIDDEN {
            return;
        }
        if self.channels.get(&channel).is_some_and(|channel| channel["guild_id"].is_string()) {
            written["guild_id"] = GUILD.to_string().into();
            written["member"] =
                json!({ "roles": [], "joined_at": timestamp(0), "deaf": false, "mute": false, "flags": 0 });
        }
        let times = if self.stutters { 2 } else { 1 };
        (0..times).for_each(|_| self.tell(kind, &written));
    }

    /// Adds a message to a channel.
    fn add(&mut self, id: u64, channel: u64, written: Value) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel["last_message_id"] = id.to_string().into();
        }
        self.messages.insert(id, written.clone());
        self.tell_of_message("MESSAGE_CREATE", written);
    }

    /// A private conversation is there once somebody writes in it.
    fn open_direct(&mut self, channel: u64) {
        if let Some(user) = channel.checked_sub(DIRECT).filter(|user| *user < DIRECT) {
            let opened = json!({ "id": channel.to_string(), "type": 1, "last_message_id": null, "recipients": [person(user)], "flags": 0 });
            self.channels.entry(channel).or_insert(opened);
        }
    }

    /// The refusal of a call beyond a rate limit, and what every answer says of that limit.
    fn limit(&mut self, operation: &str, channel: &str) -> (Option<Answer>, Vec<(&'static str, String)>) {
        let (most, window) = match operation {
            "createMessage" | "editMessage" => (5, Duration::from_secs(5)),
            "react" => (1, Duration::from_millis(250)),
            _ => return (None, Vec::new()),
        };
        let now = Instant::now();
        let calls = self.limited.entry(format!("{operation} {channel}")).or_default();
        while calls.front().is_some_and(|at| now - *at >= window) {
            calls.pop_front();
        }
        let reset = calls.front().map_or(window, |at| window.saturating_sub(now - *at)).as_secs_f64();
        if calls.len() >= most {
            return (Some(limited(reset, false)), Vec::new());
        }
        calls.push_back(now);
        let remaining = most - calls.len();
        let headers = [
            ("x-ratelimit-limit", most.to_string()),
            ("x-ratelimit-remaining", remaining.to_string()),
            ("x-ratelimit-reset-after", format!("{reset:.3}")),
            ("x-ratelimit-bucket", format!("{operation}-bucket")),
        ];
        (None, headers.into())
    }
}

/// Where private conversations begin; the rest of the id is the person's.
const DIRECT: u64 = 1_000_000;

/// The private conversation with a person.
pub fn direct(user: u64) -> u64 {
    DIRECT + user
}

/// A refusal because of a rate limit.
pub fn limited(seconds: f64, is_global: bool) -> Answer {
    let body =
        json!({ "message": "You are being rate limited.", "retry_after": seconds, "global": is_global });
    let answer = Answer::json(429, body).header("retry-after", format!("{}", seconds.ceil()));
    let scope = if is_global { "global" } else { "user" };
    answer.header("x-ratelimit-scope", scope)
}

fn bot() -> Value {
    json!({ "id": BOT.to_string(), "username": USERNAME, "discriminator": "0", "global_name": null, "avatar": null, "bot": true })
}

fn person(user: u64) -> Value {
    json!({
        "id": user.to_string(), "username": format!("user{user}"), "discriminator": "0", "global_name": format!("User {user}"),
        "avatar": null,
    })
}
