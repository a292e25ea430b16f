//! Receives: what was missed, channel by channel, and then what comes by the connection. Everything is acknowledged when it is
//! stored.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::api::is_id;
use super::event::{Me, Notes, Reader};
use super::link::Link;
use super::{Slack, history};
use crate::channel::ChannelError;
use crate::channel::chat::Reading;
use crate::channel::chat::positions::Positions;

/// How long to wait for an event before the cursor is read again.
const LONGEST_WAIT: Duration = Duration::from_secs(25);
/// The most envelopes in a batch.
const MOST_IN_BATCH: usize = 100;
/// The most names that are remembered, and how long asking for those of a batch may take: events are acknowledged within
/// three seconds.
const MOST_NAMES: usize = 500;
const NAMES_TIMEOUT: Duration = Duration::from_secs(1);
/// What changes while the app is served.
#[derive(Default)]
pub struct State {
    /// Who the bot is.
    pub me: Me,
    /// Its messages that people reply to.
    pub notes: Notes,
    /// The names of people.
    pub names: HashMap<String, String>,
    /// Until when Slack takes no edits.
    pub edits_wait_until: Option<Instant>,
    /// Takes what is to be acknowledged.
    pub acks: Option<mpsc::Sender<String>>,
    /// Envelopes whose messages are being stored. Taps are stored when the next batch is asked for.
    pub messages: Vec<String>,
    /// The same of taps.
    pub taps: Vec<String>,
    /// The connection while no batch is being waited for.
    pub live: Option<Box<Live>>,
}

/// A connection.
pub struct Live {
    /// The connection itself.
    pub link: Link,
    /// The channels that are not read back yet; none before it is known which.
    pub to_read: Option<VecDeque<String>>,
}

impl Slack {
    /// What was missed, or else the next events.
    pub(super) async fn next_batch(&self, stored: Option<String>) -> Result<Reading, ChannelError> {
        let live = self.state().live.take();
        let mut live = live.ok_or_else(|| ChannelError::retry("there is no connection to Slack"))?;
        // All of the last batch is stored by now.
        self.acknowledge(true);
        let team = self.state().me.team.clone();
        let now_s = u64::try_from(Timestamp::now().as_second()).unwrap_or_default();
        let cursor = Positions::read(stored.as_deref(), &team, &format!("{now_s}.000000"));
        let Some(to_read) = &mut live.to_read else {
            live.to_read = Some(history::channels_of(&self.client, &cursor).await?.into());
            self.state().live = Some(live);
            // What is written from now on counts, even if the daemon ends before it is stored.
            let cursor = cursor.to_stored().filter(|_| stored.is_none());
            return Ok(Reading { cursor, ..Reading::default() });
        };
        let (mut page, mut frames) = ((String::new(), Vec::new()), Vec::new());
        if let Some(channel) = to_read.pop_front() {
            let threads: Vec<String> = self.state().notes.threads.names().cloned().collect();
            page = (channel.clone(), history::missed(&self.client, &cursor, &channel, &threads).await?);
        } else {
            let waiting = live.link.frames.recv_many(&mut frames, MOST_IN_BATCH);
            if timeout(LONGEST_WAIT, waiting).await == Ok(0) {
                return Err(ChannelError::retry("the connection to Slack ended"));
            }
        }
        // What came before the connection ended is read first: history has no taps. The next call finds the end again.
        let mut envelopes: Vec<Value> = Vec::new();
        for frame in frames {
            match frame {
                Ok(envelope) => envelopes.push(envelope),
                Err(error) if envelopes.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        self.state().live = Some(live);
        self.find_names(&page.1, &envelopes).await;
        Ok(self.read_batch(&page, &envelopes, cursor))
    }

    /// Acknowledges the envelopes of stored messages, and those of taps if they are stored too.
    pub(super) fn acknowledge(&self, with_taps: bool) {
        let mut state = self.state();
        let mut done = std::mem::take(&mut state.messages);
        if with_taps {
            done.append(&mut state.taps);
        }
        for id in done {
            // Slack sends those again for which there is no room.
            state.acks.as_ref().and_then(|acks| acks.try_send(id).ok());
        }
    }

    /// Asks for the names of those who wrote, for as long as there is time.
    async fn find_names(&self, page: &[Value], envelopes: &[Value]) {
        let live = envelopes.iter().flat_map(|envelope| {
            let event = &envelope["payload"]["event"];
            [event, &event["message"]]
        });
        let mut ids: BTreeSet<&str> =
            page.iter().chain(live).filter_map(|message| message["user"].as_str()).collect();
        ids.extend(envelopes.iter().filter_map(|envelope| envelope["payload"]["user"]["id"].as_str()));
        ids.retain(|id| is_id(id, "UW") && !self.state().names.contains_key(*id));
        let asking = async {
            for id in ids {
                let Ok(found) = self.client.read("users.info", &[("user", id)]).await else { return };
                let (user, profile) = (&found["user"], &found["user"]["profile"]);
                let names = [&profile["display_name"], &user["real_name"], &user["name"]];
                let name = names.into_iter().filter_map(Value::as_str).find(|name| !name.trim().is_empty());
                let mut state = self.state();
                if state.names.len() >= MOST_NAMES {
                    state.names.clear();
                }
                state.names.insert(id.to_owned(), crate::amount::one_line(name.unwrap_or(id)));
            }
        };
        timeout(NAMES_TIMEOUT, asking).await.ok();
    }

    fn read_batch(
        &self,
        (channel, page): &(String, Vec<Value>),
        envelopes: &[Value],
        mut read: Positions,
    ) -> Reading {
        let (mut reading, before, mut state) = (Reading::default(), read.clone(), self.state());
        let (mut messages, mut taps) = (Vec::new(), Vec::new());
        for message in page {
            self.read_message(&state, &mut read, channel, message, &mut reading);
        }
        for envelope in envelopes {
            let (payload, id) = (&envelope["payload"], &envelope["envelope_id"]);
            let event = &payload["event"];
            let is_message = event["type"] == "message" || event["type"] == "app_mention";
            let is_tap = payload["type"] == "block_actions";
            if is_tap {
                match self.reader(&state, &read).tapped(payload, |id| self.is_listed(id)) {
                    Some(Ok(tapped)) => reading.taps.push(tapped),
                    Some(Err(unknown)) => reading.unknown_taps.push(unknown),
                    None => {}
                }
            } else if let Some(channel) = event["channel"].as_str().filter(|_| is_message) {
                self.read_message(&state, &mut read, channel, event, &mut reading);
                read.note_newest(event["ts"].as_str().unwrap_or_default());
            }
            if is_tap { &mut taps } else { &mut messages }.extend(id.as_str().map(str::to_owned));
        }
        (state.messages, state.taps) = (messages, taps);
        reading.cursor = read.to_stored().filter(|_| read != before);
        reading
    }

    fn read_message(
        &self,
        state: &State,
        read: &mut Positions,
        channel: &str,
        message: &Value,
        reading: &mut Reading,
    ) {
        let Some(incoming) = self.reader(state, read).incoming(channel, message) else { return };
        let context = &incoming.arrival.context;
        if let Some(ts) = message["ts"].as_str().filter(|_| context.edits.is_none()) {
            read.note(channel, ts);
            // Others do not make the bot take part in a thread.
            if !context.is_overheard && self.is_listed(&incoming.arrival.sender.id) {
                read.note(incoming.arrival.conversation.as_str(), ts);
            }
        }
        if !(context.is_overheard && self.mention_only && incoming.replies_to.is_none()) {
            reading.incoming.push(incoming);
        }
    }

    fn reader<'a>(&'a self, state: &'a State, read: &'a Positions) -> Reader<'a> {
        Reader { channel: &self.name, me: &state.me, names: &state.names, notes: &state.notes, read }
    }

    pub(super) fn is_listed(&self, id: &str) -> bool {
        let fits = |person: &String| match person.strip_suffix('*') {
            Some(start) => id.starts_with(start),
            None => person == id,
        };
        self.people.iter().any(fits)
    }
}
