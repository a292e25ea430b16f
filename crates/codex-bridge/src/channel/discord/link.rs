//! Receives: keeps a session of the gateway, and reads the history of channels when messages are missing that no session
//! brings any more. What was received is confirmed by the cursor alone: a session is resumed behind the last event that is
//! stored.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::TryFutureExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Discord;
use super::event::{Place, Reader, unknown_tap};
use super::gateway::{Event, Gateway, Signal, ends_session, fatal};
use super::history::Missed;
use super::outgoing::Tap;
use super::position::{Position, Session};
use crate::channel::ChannelError;
use crate::channel::chat::Reading;

/// How long a reading waits for a message.
const LONGEST: Duration = Duration::from_secs(30);
/// The most events of one reading.
const MOST_EVENTS: usize = 100;
/// The most events that wait for the history before them.
const MOST_HELD: usize = 1_000;
/// How long a new session may take to describe its servers before events are read on.
const GUILDS: Duration = Duration::from_secs(10);
/// The most channels whose history is read.
const MOST_MISSED: usize = 1_000;
/// The pause before a connection is made again that lasted for less than [`LASTS`]. It doubles each time.
const MIN_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(32);
const LASTS: Duration = Duration::from_secs(20);

/// The state of receiving.
#[derive(Default)]
pub struct Link {
    gateway: Option<Gateway>,
    pub(super) position: Position,
    /// The cursor that was given out last. If another one is stored, everything behind that is received again.
    given: Option<String>,
    /// The number of the last event that is stored.
    stored: Option<u64>,
    /// The servers that a new session has not described yet, and until when events wait for them.
    awaited: BTreeSet<String>,
    awaited_until: Option<Instant>,
    pub(super) missed: VecDeque<Missed>,
    held: VecDeque<Event>,
    /// When the last connection was made, and the pause before the next one.
    connected_at: Option<Instant>,
    pause: Duration,
}

impl Link {
    /// Forgets everything behind this cursor.
    fn go_back_to(&mut self, cursor: &str) {
        let position = Position::of_cursor(cursor, now_ms());
        let (connected_at, pause) = (self.connected_at, self.pause);
        *self = Self { position, given: Some(cursor.to_owned()), connected_at, pause, ..Self::default() };
    }

    /// Drops the connection, at the beginning of a new one or after a failure.
    pub fn restart(&mut self) {
        (self.gateway, self.given) = (None, None);
    }

    /// Whether all messages up to the last event were read.
    fn is_complete(&self) -> bool {
        self.awaited.is_empty() && self.missed.is_empty() && self.held.is_empty()
    }

    /// Whether events have to wait for the history before them.
    fn must_hold(&self) -> bool {
        let waits =
            !self.awaited.is_empty() && self.awaited_until.is_some_and(|until| Instant::now() < until);
        waits || !self.missed.is_empty()
    }

    fn hold(&mut self, event: Event) -> Result<(), ChannelError> {
        if self.held.len() >= MOST_HELD {
            return Err(ChannelError::retry("more events wait for the history before them than can be kept"));
        }
        self.held.push_back(event);
        Ok(())
    }

    /// Notes that the history of a channel has to be read, if something was written in it.
    pub(super) fn miss(&mut self, channel: &str, place: Place, last: Option<u64>) {
        let after = self.position.last_of(channel, now_ms());
        if last.is_some_and(|last| last > after) && self.missed.len() < MOST_MISSED {
            self.missed.push_back(Missed { channel: channel.to_owned(), place, after, pages: 0 });
        }
    }

    /// The next event, if one comes until then. Makes the connection again if it is lost.
    async fn next(&mut self, discord: &Discord, until: Instant) -> Result<Option<Event>, ChannelError> {
        loop {
            let stored = self.stored;
            if self.gateway.is_none() && until <= Instant::now() {
                // What was gathered must not wait for another connection.
                return Ok(None);
            }
            let gateway = match &mut self.gateway {
                Some(gateway) => gateway,
                None => self.connect(discord).await?,
            };
            match gateway.next(until, stored).await? {
                None => return Ok(None),
                Some(Signal::Event(event)) => {
                    if let Some(session) = &mut self.position.session {
                        session.number = event.number;
                    }
                    return Ok(Some(event));
                }
                Some(Signal::Reconnect) => self.gateway = None,
                Some(Signal::SessionOver) => {
                    (self.gateway, self.position.session) = (None, None);
                    // Discord asks for a random pause before a new session.
                    sleep(Duration::from_secs(1) + Duration::from_secs(3).mul_f64(rand::random::<f64>()))
                        .await;
                }
                Some(Signal::Closed(code)) => {
                    self.gateway = None;
                    if let Some(why) = code.and_then(fatal) {
                        return Err(ChannelError::Fatal(format!(
                            "Discord's gateway closed the connection: {why}"
                        )));
                    }
                    if code.is_some_and(ends_session) {
                        self.position.session = None;
                    }
                }
            }
        }
    }

    /// Makes a connection, after a pause if the last one did not last.
    async fn connect(&mut self, discord: &Discord) -> Result<&mut Gateway, ChannelError> {
        if self.connected_at.is_some_and(|at| at.elapsed() < LASTS + self.pause) {
            self.pause = (self.pause * 2).clamp(MIN_PAUSE, MAX_PAUSE);
            sleep(self.pause).await;
        } else {
            self.pause = Duration::ZERO;
        }
        self.connected_at = Some(Instant::now());
        let gateway = if let Some(session) = &self.position.session {
            // An address that is gone is replaced; the session is the same.
            let again = |_| async { Gateway::connect(&discord.gateway_address().await?).await };
            let mut gateway = Gateway::connect(&session.address).or_else(again).await?;
            gateway.resume(discord.rest.token(), &session.id, session.number).await?;
            gateway
        } else {
            let mut gateway = Gateway::connect(&discord.gateway_address().await?).await?;
            gateway.identify(discord.rest.token()).await?;
            gateway
        };
        Ok(self.gateway.insert(gateway))
    }
}

fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// An id as a number, by which Discord orders ids.
pub(super) fn number(id: &Value) -> Option<u64> {
    id.as_str()?.parse().ok()
}

/// The items of a list.
pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Discord {
    /// Reads what came since the cursor.
    pub(super) async fn read(&self, cursor: Option<String>) -> Result<Reading, ChannelError> {
        let mut link = self.link.lock().await;
        let Some(cursor) = cursor else {
            // Stored before anything is read, so that nothing is lost that is written from now on.
            return Ok(Reading { cursor: Position::new(now_ms()).to_cursor(true), ..Reading::default() });
        };
        if link.given.as_ref() != Some(&cursor) {
            link.go_back_to(&cursor);
        }
        link.stored = Position::of_cursor(&cursor, now_ms()).session.map(|session| session.number);
        let mut reading = self.gather(&mut link).await?;
        let is_complete = link.is_complete();
        reading.cursor = link.position.to_cursor(is_complete);
        link.given.clone_from(&reading.cursor);
        Ok(reading)
    }

    /// Gathers messages and taps: what is there at once, or what comes first.
    async fn gather(&self, link: &mut Link) -> Result<Reading, ChannelError> {
        let mut reading = Reading::default();
        let deadline = Instant::now() + LONGEST;
        for _ in 0..MOST_EVENTS {
            let has_something =
                !reading.incoming.is_empty() || !reading.taps.is_empty() || !reading.unknown_taps.is_empty();
            let now = Instant::now();
            if link.awaited.is_empty() || link.awaited_until.is_none_or(|until| until <= now) {
                if let Some(missed) = link.missed.pop_front() {
                    self.read_page(link, missed, &mut reading).await?;
                    return Ok(reading);
                }
                if let Some(event) = link.held.pop_front() {
                    self.take(link, &event, &mut reading).await?;
                    continue;
                }
            }
            let until = if has_something { now } else { deadline };
            let until = if link.awaited.is_empty() {
                until
            } else {
                link.awaited_until.unwrap_or(until).max(now).min(until)
            };
            match link.next(self, until).await? {
                Some(event) if self.begins(link, &event).await? => return Ok(reading),
                Some(event) if link.must_hold() => link.hold(event)?,
                Some(event) => self.take(link, &event, &mut reading).await?,
                None if has_something || deadline <= Instant::now() => return Ok(reading),
                // The servers that are missing are not waited for any longer.
                None => link.awaited_until = None,
            }
        }
        Ok(reading)
    }

    /// Reads the beginning of a session, and descriptions of servers. False if the event is another one.
    async fn begins(&self, link: &mut Link, event: &Event) -> Result<bool, ChannelError> {
        let body = &event.body;
        let word = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        match event.kind.as_str() {
            "READY" => {
                let (id, address) = (word("session_id"), word("resume_gateway_url"));
                link.position.session = Some(Session { id, address, number: event.number });
                (link.missed, link.held) = (VecDeque::new(), VecDeque::new());
                link.awaited = list(&body["guilds"])
                    .filter_map(|guild| guild["id"].as_str().map(str::to_owned))
                    .collect();
                link.awaited_until = Some(Instant::now() + GUILDS);
                self.miss_direct(link).await?;
            }
            "GUILD_CREATE" => {
                self.learn(list(&body["channels"]).chain(list(&body["threads"])));
                self.learn_roles(&body["roles"]);
                if link.awaited.remove(&word("id")) {
                    for channel in list(&body["channels"]).chain(list(&body["threads"])) {
                        let place = channel["id"].as_str().zip(Place::of_channel(channel));
                        let Some((id, place)) =
                            place.filter(|(id, _)| !self.state().unreadable.contains(*id))
                        else {
                            continue;
                        };
                        link.miss(id, place, number(&channel["last_message_id"]));
                    }
                }
            }
            "THREAD_LIST_SYNC" => self.learn(list(&body["threads"])),
            "THREAD_CREATE" | "THREAD_UPDATE" | "CHANNEL_CREATE" => self.learn(std::iter::once(body)),
            _ => return Ok(false),
        }
        Ok(event.kind == "READY" || (event.kind == "GUILD_CREATE" && link.awaited.is_empty()))
    }

    /// Reads a message or a tap.
    async fn take(&self, link: &mut Link, event: &Event, reading: &mut Reading) -> Result<(), ChannelError> {
        let body = &event.body;
        if !["MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE"].contains(&event.kind.as_str()) {
            return Ok(());
        }
        let Some(place) = self.place_of(body).await? else { return Ok(()) };
        let roles = self.state().roles.clone();
        let reader = Reader { channel: &self.name, bot: &self.id, roles: &roles };
        match event.kind.as_str() {
            "MESSAGE_CREATE" => {
                reading.incoming.extend(reader.incoming(body, &place));
                let (channel, is_complete) = (body["channel_id"].as_str(), link.is_complete());
                if let Some((channel, message)) = channel.zip(number(&body["id"])) {
                    link.position.note(channel, message, place == Place::direct(channel), is_complete);
                }
            }
            "MESSAGE_UPDATE" => reading.incoming.extend(reader.edited(body, &place)),
            // A button was used.
            _ if body["type"] == 3 => {
                self.note_tap(body);
                match reader.tapped(body, &place) {
                    Some(tapped) => reading.taps.push(tapped),
                    None => reading.unknown_taps.extend(unknown_tap(body, &place, &self.people)),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Remembers the tap, to be answered, and tells Discord that it came.
    fn note_tap(&self, interaction: &Value) {
        let (Some(id), Some(tap)) = (interaction["id"].as_str(), Tap::of(interaction)) else { return };
        let tap = self.state().note_tap(id, tap);
        let rest = self.rest.clone();
        tokio::spawn(async move { tap.acknowledge(&rest).await });
    }

    /// The address of the gateway for a new connection.
    pub(super) async fn gateway_address(&self) -> Result<String, ChannelError> {
        let gateway = self.rest.list("gateway/bot").await?;
        let starts = &gateway["session_start_limit"];
        if starts["remaining"] == 0 {
            let after = starts["reset_after"].as_u64().map(Duration::from_millis);
            let reason = "Discord allows no more sessions today".to_owned();
            return Err(ChannelError::Retry { after, reason });
        }
        let address = gateway["url"].as_str().map(str::to_owned);
        address.ok_or_else(|| ChannelError::retry("Discord named no gateway"))
    }
}
