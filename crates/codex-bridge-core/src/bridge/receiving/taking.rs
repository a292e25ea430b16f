//! Taking messages in: who may write, what is known already, and one transaction for all that is new and how far the
//! source was read.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::super::{Bridge, Error};
use super::keeping::Knock;
use super::putting_off::PutOff;
use crate::failpoint;
use crate::inbox::{
    Arrival, ChannelName, ChannelRecord, Command, Message, MessageId, MessageKind, Party, Receipt, Received,
    Rules, State, WhenFull, hops, rounds,
};
use crate::store::{MessageFilter, Write};
use crate::task::TimeMs;

/// How long the messages of one agent count.
const HOUR_MS: TimeMs = 60 * 60 * 1000;
/// The longest message that is taken; more is no message.
const TEXT_BYTES: usize = 256 * 1024;
/// A source that has to wait for room is read on after so long in any case.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// How often it is looked whether there is room, beside when a reply went out.
const COUNT_AGAIN: Duration = Duration::from_secs(2);
/// Why a message is not worked on that agents have gone on too long for.
const ENDLESS: &str =
    "agents have gone on here without a person for too long: it is not answered, so that this ends";
/// What the first of them is told.
const NO_ANSWER: &str = "Agents have written to each other here for long, and no person has: this message is not worked \
    on, nor is what follows, until a person writes here, or for an hour.";

impl Bridge {
    /// Takes messages in. Those that may be here are durable when this returns, and so is the cursor, if there is one:
    /// now the source may be told.
    pub async fn receive(
        &self,
        channel: &ChannelName,
        arrivals: Vec<Arrival>,
        cursor: Option<String>,
    ) -> Result<Vec<Receipt>, Error> {
        let channel = channel.clone();
        self.to_its_end(|bridge| async move { bridge.take_in(&channel, arrivals, cursor).await }).await
    }

    async fn take_in(
        &self,
        channel: &ChannelName,
        arrivals: Vec<Arrival>,
        cursor: Option<String>,
    ) -> Result<Vec<Receipt>, Error> {
        let inner = &self.inner;
        let rules = inner.inbox.rules(channel);
        let rules = rules.ok_or_else(|| Error::Refused(format!("channel {channel} is not served")))?;
        let mut put_off = inner.inbox.taking.lock().await;
        let mut intake = Intake {
            bridge: self,
            put_off: &mut put_off,
            rules: &rules,
            now: self.inner.now(),
            batch: Vec::new(),
            known: self.known(channel, &arrivals).await?,
            places: Vec::new(),
        };
        let mut receipts = Vec::new();
        for arrival in arrivals {
            let external_id = arrival.external_id.clone();
            receipts.push(Receipt { external_id, receipt: intake.take(arrival).await? });
        }
        let Intake { mut batch, places, .. } = intake;
        // What was put off is not read: the next life has to be offered it.
        let is_read = receipts.iter().all(|one| one.receipt != Received::NoRoom);
        if let Some(cursor) = cursor.filter(|_| is_read) {
            let record = self.channel(channel).await?;
            if record.cursor.as_ref() != Some(&cursor) {
                let record = ChannelRecord { cursor: Some(cursor), updated_at: self.inner.now(), ..record };
                batch.push(Write::SaveChannel(Box::new(record)));
            }
        }
        if !batch.is_empty() {
            failpoint::hit("inbox.before_record");
            self.commit_from(&places, batch).await?;
            failpoint::hit("inbox.recorded");
            inner.inbox.look();
        }
        Ok(receipts)
    }

    /// Waits until a channel has room for more, before its source is read on: what is not read stays there. A minute at
    /// most, so that decisions and commands come in even if it is they that everything waits for.
    pub async fn until_room(&self, channel: &ChannelName) -> Result<(), Error> {
        let rules = self.inner.inbox.rules(channel).filter(|rules| rules.when_full == WhenFull::ReadLater);
        let Some(rules) = rules else { return Ok(()) };
        let waiting = MessageFilter {
            channel: Some(channel.clone()),
            states: vec![State::Received],
            ..MessageFilter::default()
        };
        let mut replies = self.replies();
        let give_up = tokio::time::Instant::now() + LONGEST_WAIT;
        while self.inner.store.message_count(&waiting).await? >= u64::from(rules.most_waiting_in_all) {
            if tokio::time::Instant::now() >= give_up {
                break;
            }
            // Whichever comes first.
            let _ = tokio::time::timeout(COUNT_AGAIN, replies.changed()).await;
        }
        Ok(())
    }

    /// What of these is here already: our names by the source's.
    async fn known(
        &self,
        channel: &ChannelName,
        arrivals: &[Arrival],
    ) -> Result<HashMap<String, MessageId>, Error> {
        let external_ids: Vec<String> = arrivals.iter().map(|arrival| arrival.external_id.clone()).collect();
        let mut known = HashMap::new();
        for some in external_ids.chunks(500) {
            let filter = MessageFilter {
                channel: Some(channel.clone()),
                external_ids: some.to_vec(),
                ..MessageFilter::default()
            };
            let found = self.inner.store.messages(&filter).await?;
            known.extend(found.into_iter().map(|message| (message.external_id, message.id)));
        }
        Ok(known)
    }
}

/// Messages that are being taken in.
struct Intake<'a> {
    bridge: &'a Bridge,
    put_off: &'a mut PutOff,
    rules: &'a Rules,
    now: TimeMs,
    batch: Vec<Write>,
    known: HashMap<String, MessageId>,
    /// Where replies go.
    places: Vec<String>,
}

impl Intake<'_> {
    async fn take(&mut self, arrival: Arrival) -> Result<Received, Error> {
        let line = (self.rules.channel.clone(), arrival.conversation.clone());
        let external_id = arrival.external_id.clone();
        let received = self.receive(arrival).await?;
        if received != Received::NoRoom {
            // Whatever becomes of it, nothing waits for it any more.
            self.put_off.take(&line, &external_id);
        }
        Ok(received)
    }

    async fn receive(&mut self, arrival: Arrival) -> Result<Received, Error> {
        if let Some(id) = self.known.get(&arrival.external_id) {
            return Ok(Received::Known { id: id.clone() });
        }
        if self.rules.role(&arrival.sender.id, arrival.sender.party).is_none() {
            self.note_knock(&arrival);
            return Ok(Received::Refused);
        }
        let mut message = self.message(&arrival)?;
        if let Some(why) = self.unwanted(&message).await? {
            (message.state, message.error) = (State::Dead, Some(why));
        } else if self.is_endless(&message).await? {
            self.refuse_as_before(&mut message, ENDLESS, NO_ANSWER).await?;
        } else if arrival.text.len() > self.text_limit() {
            self.refuse_long(&mut message, arrival.text.len());
        } else if !self.is_let_in(&message).await? {
            return Ok(Received::NoRoom);
        }
        let id = message.id.clone();
        self.known.insert(arrival.external_id, id.clone());
        self.places.push(arrival.reply_to);
        self.batch.push(Write::AddMessage(Box::new(message)));
        Ok(Received::Taken { id })
    }

    /// What a message may have: no more than any prompt.
    fn text_limit(&self) -> usize {
        TEXT_BYTES.min(self.bridge.inner.config.prompt_limit_bytes)
    }

    /// A part of what somebody wants may be the opposite of it: all of it is refused.
    fn refuse_long(&mut self, message: &mut Message, bytes: usize) {
        let why = format!("it has {bytes} bytes; the limit is {}", self.text_limit());
        let said = format!("This message was not taken: {why}. Put it in a file, or send less of it.");
        message.sealed_text = None;
        self.refuse(message, why, Some(&said));
    }

    /// Whether there is room for it. What is to be done at once waits behind nothing and may be what ends the waiting; and a
    /// source that is read is not read on instead, see [`Bridge::until_room`]. What was put off comes before what follows.
    async fn is_let_in(&mut self, message: &Message) -> Result<bool, Error> {
        if self.rules.when_full == WhenFull::ReadLater || message.kind == MessageKind::UrgentCommand {
            return Ok(true);
        }
        let (line, now) = ((message.channel.clone(), message.conversation.clone()), Instant::now());
        let is_next = self.put_off.is_next(&line, &message.external_id, now);
        if is_next && !self.is_full(message).await? {
            return Ok(true);
        }
        self.put_off.put_off(&line, &message.external_id, now);
        Ok(false)
    }

    /// Whether too much waits already.
    async fn is_full(&self, message: &Message) -> Result<bool, Error> {
        let in_channel = MessageFilter {
            channel: Some(message.channel.clone()),
            states: vec![State::Received],
            ..MessageFilter::default()
        };
        let conversation = Some(message.conversation.clone());
        let in_conversation = MessageFilter { conversation, ..in_channel.clone() };
        let store = &self.bridge.inner.store;
        let waits = |one: &&Message| one.state == State::Received;
        let here = |one: &&Message| one.conversation == message.conversation;
        let taken = self.taken().filter(waits).count() as u64;
        let taken_here = self.taken().filter(waits).filter(here).count() as u64;
        if store.message_count(&in_channel).await? + taken >= u64::from(self.rules.most_waiting_in_all) {
            return Ok(true);
        }
        Ok(store.message_count(&in_conversation).await? + taken_here >= u64::from(self.rules.most_waiting))
    }

    /// The first is told; those that follow it are kept, too, for whoever takes them up.
    async fn refuse_as_before(&mut self, message: &mut Message, why: &str, said: &str) -> Result<(), Error> {
        let before = MessageFilter {
            channel: Some(message.channel.clone()),
            conversation: Some(message.conversation.clone()),
            limit: Some(1),
            ..MessageFilter::default()
        };
        let stored = self.bridge.inner.store.messages(&before).await?;
        let taken = self.taken().filter(|one| one.conversation == message.conversation).last();
        let last = taken.or_else(|| stored.first());
        let is_told = last.is_some_and(|last| last.error.as_deref() == Some(why));
        self.refuse(message, why.to_owned(), (!is_told).then_some(said));
        Ok(())
    }

    fn refuse(&mut self, message: &mut Message, why: String, said: Option<&str>) {
        (message.state, message.error) = (State::Dead, Some(why));
        if let Some(said) = said {
            let reply = self.bridge.written_reply(message, None, said);
            self.batch.push(reply);
        }
    }

    /// Whether agents have had the conversation to themselves for too long.
    async fn is_endless(&self, message: &Message) -> Result<bool, Error> {
        if message.party == Party::Person {
            return Ok(false);
        }
        let limit = self.rules.agent_turns_in_a_row;
        let worked_on = MessageFilter {
            channel: Some(message.channel.clone()),
            conversation: Some(message.conversation.clone()),
            states: State::ALL.into_iter().filter(|state| *state != State::Dead).collect(),
            limit: Some(limit),
            ..MessageFilter::default()
        };
        let stored = self.bridge.inner.store.messages(&worked_on).await?;
        let mut taken: Vec<&Message> =
            self.taken().filter(|one| one.conversation == message.conversation).collect();
        taken.reverse();
        Ok(rounds::in_a_row(taken.into_iter().chain(&stored), self.now) >= limit as usize)
    }

    /// The messages of this batch that are new.
    fn taken(&self) -> impl Iterator<Item = &Message> {
        self.batch.iter().filter_map(|write| match write {
            Write::AddMessage(one) => Some(&**one),
            _ => None,
        })
    }

    fn message(&self, arrival: &Arrival) -> Result<Message, Error> {
        let inner = &self.bridge.inner;
        let id = MessageId(format!("in-{}", inner.random_hex(12)));
        let text = &arrival.text[..arrival.text.floor_char_boundary(TEXT_BYTES)];
        let sealed = inner.key.seal(text.as_bytes(), id.as_str());
        let is_agent = arrival.sender.party == Party::Agent;
        Ok(Message {
            sealed_text: Some(sealed.map_err(|error| Error::Refused(error.to_string()))?),
            id,
            channel: self.rules.channel.clone(),
            external_id: arrival.external_id.clone(),
            conversation: arrival.conversation.clone(),
            sender_id: arrival.sender.id.clone(),
            sender_name: inner.summary(&arrival.sender.name),
            party: arrival.sender.party,
            room: arrival.room,
            hops: if is_agent { hops::of(text) } else { 0 },
            reply_to: arrival.reply_to.clone(),
            position: arrival.position,
            // Only people command.
            summary: inner.summary(&if is_agent { text.into() } else { Command::kept(text) }),
            kind: if is_agent { MessageKind::Prompt } else { kind(text) },
            state: State::Received,
            attempts: 0,
            next_at: self.now,
            task_id: None,
            reply_id: None,
            error: None,
            sent_at: arrival.sent_at,
            received_at: self.now,
            acknowledged_at: None,
            updated_at: self.now,
        })
    }

    /// Why nothing is done with a message of somebody who may write.
    async fn unwanted(&self, message: &Message) -> Result<Option<String>, Error> {
        let age = u128::try_from(self.now - message.sent_at).unwrap_or_default();
        if let Some(max_age) = self.rules.max_age.filter(|max_age| age > max_age.as_millis()) {
            return Ok(Some(format!(
                "it was {} s old when it came in; the limit is {} s",
                age / 1000,
                max_age.as_secs()
            )));
        }
        if message.party == Party::Person {
            return Ok(None);
        }
        if message.hops >= self.rules.max_hops {
            return Ok(Some(format!(
                "it has passed {} of us: it is not answered, so that this ends",
                message.hops
            )));
        }
        let of_hour = MessageFilter {
            channel: Some(message.channel.clone()),
            sender_id: Some(message.sender_id.clone()),
            since: Some(self.now - HOUR_MS),
            states: State::ALL.into_iter().filter(|state| *state != State::Dead).collect(),
            ..MessageFilter::default()
        };
        let lately = self.bridge.inner.store.message_count(&of_hour).await?;
        let is_same = |one: &&Message| one.sender_id == message.sender_id && one.state != State::Dead;
        let lately = lately + self.taken().filter(is_same).count() as u64;
        let limit = u64::from(self.rules.agent_turns_per_hour);
        Ok((lately >= limit)
            .then(|| format!("this agent has written {lately} times within an hour; the limit is {limit}")))
    }

    fn note_knock(&mut self, arrival: &Arrival) {
        let sender = &arrival.sender;
        let name = self.bridge.inner.summary(&sender.name);
        let knock = Knock {
            channel: self.rules.channel.clone(),
            sender_id: sender.id.clone(),
            sender_name: name.clone(),
            conversation: arrival.conversation.clone(),
            count: 1,
            last_at: self.now,
        };
        self.batch.extend(self.bridge.inner.inbox.knock(knock, &name));
    }
}

fn kind(text: &str) -> MessageKind {
    match Command::parse(text) {
        None | Some(Command::Enqueue(_)) => MessageKind::Prompt,
        Some(Command::Steer(_)) => MessageKind::Steer,
        Some(command) if command.is_urgent() => MessageKind::UrgentCommand,
        Some(_) => MessageKind::Command,
    }
}
