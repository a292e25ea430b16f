//! Taking messages in: who may write, what is known already, and one transaction for all that is new and how far the
//! source was read.

use std::collections::{BTreeMap, HashMap};

use super::super::{Bridge, Error, audit, now_ms};
use super::keeping::Knock;
use crate::failpoint;
use crate::inbox::{
    Arrival, ChannelRecord, Command, Conversation, Message, MessageKind, Party, Receipt, Received, Rules,
    State, hops, new_id,
};
use crate::store::{MessageFilter, Write};
use crate::task::TimeMs;

/// How long the messages of one agent count.
const HOUR_MS: TimeMs = 60 * 60 * 1000;
/// The longest message that is taken; more is no message.
const TEXT_BYTES: usize = 256 * 1024;

impl Bridge {
    /// Takes messages in. Those that may be here are durable when this returns, and so is the cursor, if there is one:
    /// now the source may be told.
    pub async fn receive(
        &self,
        channel: &str,
        arrivals: Vec<Arrival>,
        cursor: Option<String>,
    ) -> Result<Vec<Receipt>, Error> {
        let inner = &self.inner;
        let rules = inner.inbox.rules(channel);
        let rules = rules.ok_or_else(|| Error::Refused(format!("channel {channel} is not served")))?;
        let _taking = inner.inbox.taking.lock().await;
        let mut intake = Intake {
            bridge: self,
            rules: &rules,
            now: now_ms(),
            batch: Vec::new(),
            known: self.known(channel, &arrivals).await?,
            conversations: BTreeMap::new(),
        };
        let mut receipts = Vec::new();
        for arrival in arrivals {
            let external_id = arrival.external_id.clone();
            receipts.push(Receipt { external_id, receipt: intake.take(arrival).await? });
        }
        let mut batch = intake.batch;
        if let Some(cursor) = cursor {
            let record = self.channel(channel).await?;
            if record.cursor.as_ref() != Some(&cursor) {
                let record = ChannelRecord { cursor: Some(cursor), updated_at: now_ms(), ..record };
                batch.push(Write::SaveChannel(Box::new(record)));
            }
        }
        if !batch.is_empty() {
            failpoint::hit("inbox.before_record");
            inner.commit(batch).await?;
            failpoint::hit("inbox.recorded");
            inner.inbox.look();
        }
        Ok(receipts)
    }

    /// What of these is here already: our names by the source's.
    async fn known(&self, channel: &str, arrivals: &[Arrival]) -> Result<HashMap<String, String>, Error> {
        let external_ids: Vec<String> = arrivals.iter().map(|arrival| arrival.external_id.clone()).collect();
        let mut known = HashMap::new();
        for some in external_ids.chunks(500) {
            let filter = MessageFilter {
                channel: Some(channel.to_owned()),
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
    rules: &'a Rules,
    now: TimeMs,
    batch: Vec<Write>,
    known: HashMap<String, String>,
    conversations: BTreeMap<String, bool>,
}

impl Intake<'_> {
    async fn take(&mut self, arrival: Arrival) -> Result<Received, Error> {
        if let Some(id) = self.known.get(&arrival.external_id) {
            return Ok(Received::Known { id: id.clone() });
        }
        if self.rules.role(&arrival.sender.id, arrival.sender.party).is_none() {
            self.note_knock(&arrival);
            return Ok(Received::Refused);
        }
        self.meet(&arrival).await?;
        let mut message = self.message(&arrival)?;
        if let Some(why) = self.unwanted(&message).await? {
            (message.state, message.error) = (State::Dead, Some(why));
        }
        let id = message.id.clone();
        self.known.insert(arrival.external_id, id.clone());
        self.bridge.inner.outbox.is_there(&arrival.reply_to);
        self.batch.push(Write::AddMessage(Box::new(message)));
        Ok(Received::Taken { id })
    }

    /// Makes sure that the conversation is there, with what is known of who reads it.
    async fn meet(&mut self, arrival: &Arrival) -> Result<(), Error> {
        let has_approver = self.rules.has_approver(&arrival.sender, arrival.room);
        let met = self.conversations.insert(arrival.conversation.clone(), has_approver);
        if met == Some(has_approver) {
            return Ok(());
        }
        let known = self.bridge.conversation(&self.rules.channel, &arrival.conversation).await?;
        let is_new = known.is_none();
        let new = || Conversation::new(&self.rules.channel, &arrival.conversation, self.now);
        let mut conversation = known.unwrap_or_else(new);
        if is_new || conversation.has_approver != has_approver {
            (conversation.has_approver, conversation.updated_at) = (has_approver, self.now);
            self.batch.push(Write::SaveConversation(Box::new(conversation)));
        }
        Ok(())
    }

    fn message(&self, arrival: &Arrival) -> Result<Message, Error> {
        let inner = &self.bridge.inner;
        let id = new_id();
        let text = &arrival.text[..arrival.text.floor_char_boundary(TEXT_BYTES)];
        let sealed = inner.key.seal(text.as_bytes(), &id);
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
            hops: if is_agent { hops::of(text) } else { 0 },
            reply_to: arrival.reply_to.clone(),
            position: arrival.position,
            summary: inner.summary(text),
            // Only people command.
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
            ..MessageFilter::default()
        };
        let lately = self.bridge.inner.store.messages(&of_hour).await?;
        let lately =
            lately.iter().filter(|message| message.state != State::Dead).count() + self.taken_of(message);
        let limit = self.rules.agent_turns_per_hour as usize;
        Ok((lately >= limit)
            .then(|| format!("this agent has written {lately} times within an hour; the limit is {limit}")))
    }

    fn taken_of(&self, message: &Message) -> usize {
        let is_same = |write: &&Write| matches!(write, Write::AddMessage(one) if one.sender_id == message.sender_id && one.state != State::Dead);
        self.batch.iter().filter(is_same).count()
    }

    fn note_knock(&mut self, arrival: &Arrival) {
        let sender = &arrival.sender;
        let is_first = self.bridge.inner.inbox.knock(Knock {
            channel: self.rules.channel.clone(),
            sender_id: sender.id.clone(),
            sender_name: self.bridge.inner.summary(&sender.name),
            conversation: arrival.conversation.clone(),
            count: 1,
            last_at: self.now,
        });
        if is_first {
            let who = format!("{}:{}", self.rules.channel, sender.id);
            self.batch.push(audit(&who, "knock", None, &self.bridge.inner.summary(&sender.name)));
        }
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
