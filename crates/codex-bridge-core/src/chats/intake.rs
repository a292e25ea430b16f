//! Takes messages in: one transaction stores new messages and the source's cursor. The rules are in [`intake`].

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::error;

use super::{Chats, pairing};
use crate::bridge::Error;
use crate::failpoint;
use crate::inbox::attachment;
use crate::inbox::deferred::Deferred;
use crate::inbox::intake::{self, Admission, HOUR_MS, IntakeFacts, TEXT_BYTES};
use crate::inbox::reply::{self, ReplyText};
use crate::inbox::strangers::{Knock, KnockLine};
use crate::inbox::{
    Arrival, Attached, Attachment, AttachmentRecord, ChannelName, ChannelRecord, ConversationKey, Message,
    MessageId, MessageState, Party, Receipt, Received, Rules, WhenFull, machine, rounds,
};
use crate::outbox::DeliveryId;
use crate::store::{MessageFilter, Write};
use crate::task::TimeMs;

/// A source that waits for room is read on after this time in any case.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// What is said of files that came with a command.
const NO_FILES: &str = "What you sent with this command was not given to Codex. Send it with a message.";
/// The pause between two counts of waiting messages, unless a reply is finished first.
const COUNT_AGAIN: Duration = Duration::from_secs(2);

impl Chats {
    /// Takes messages in. When this returns, accepted messages and cursor are durable.
    pub async fn receive(
        &self,
        channel: &ChannelName,
        arrivals: Vec<Arrival>,
        cursor: Option<String>,
    ) -> Result<Vec<Receipt>, Error> {
        let channel = channel.clone();
        self.to_completion(|chats| async move {
            let taken = chats.take_in(&channel, arrivals, cursor).await;
            taken.inspect_err(|error| error!(%channel, %error, "messages could not be stored; their source must send them again"))
        })
        .await
    }

    async fn take_in(
        &self,
        channel: &ChannelName,
        arrivals: Vec<Arrival>,
        cursor: Option<String>,
    ) -> Result<Vec<Receipt>, Error> {
        let rules = self.inbox.rules(channel);
        let rules = rules.ok_or_else(|| Error::Refused(format!("channel {channel} is not served")))?;
        let mut deferred = self.inbox.taking.lock().await;
        let mut batch = Batch {
            chats: self,
            deferred: &mut deferred,
            rules: &rules,
            now: self.inner().now(),
            known: self.known(channel, &arrivals).await?,
            taken: Vec::new(),
            files: Vec::new(),
            others: Vec::new(),
        };
        let mut receipts = Vec::new();
        for arrival in arrivals {
            let external_id = arrival.external_id.clone();
            receipts.push(Receipt { external_id, receipt: batch.take(arrival).await? });
        }
        let Batch { taken, files, others: mut writes, now, .. } = batch;
        let places: Vec<String> = taken.iter().map(|message| message.reply_to.clone()).collect();
        writes.extend(taken.into_iter().map(|message| Write::AddMessage(Box::new(message))));
        writes.extend(files.into_iter().map(|file| Write::SaveAttachment(Box::new(file))));
        // A deferred message has not been read: after a restart, the source must offer it again.
        let is_read = receipts.iter().all(|one| one.receipt != Received::NoRoom);
        if let Some(cursor) = cursor.filter(|_| is_read) {
            let record = self.channel(channel).await?;
            if record.cursor.as_ref() != Some(&cursor) {
                let record = ChannelRecord { cursor: Some(cursor), updated_at: now, ..record };
                writes.push(Write::SaveChannel(Box::new(record)));
            }
        }
        if !writes.is_empty() {
            failpoint::hit("inbox.before_record");
            self.bridge().commit_from(&places, writes).await?;
            failpoint::hit("inbox.recorded");
            self.inbox.wake();
        }
        Ok(receipts)
    }

    /// Waits until a channel has room, before its source is read on. Waits at most a minute, so that decisions and
    /// commands come in even if all else waits for them.
    pub async fn until_room(&self, channel: &ChannelName) -> Result<(), Error> {
        let rules = self.inbox.rules(channel).filter(|rules| rules.when_full == WhenFull::ReadLater);
        let Some(rules) = rules else { return Ok(()) };
        let waiting = MessageFilter::of(channel, MessageState::Received);
        let mut replies = self.replies();
        let give_up = tokio::time::Instant::now() + LONGEST_WAIT;
        while self.inner().store.message_count(&waiting).await? >= u64::from(rules.most_waiting_in_all) {
            if tokio::time::Instant::now() >= give_up {
                break;
            }
            tokio::time::timeout(COUNT_AGAIN, replies.changed()).await.ok();
        }
        Ok(())
    }

    /// The messages that are already stored, as our ids by the source's ids.
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
            let found = self.inner().store.messages(&filter).await?;
            known.extend(found.into_iter().map(|message| (message.external_id, message.id)));
        }
        Ok(known)
    }

    /// Strangers, the last one last, since this daemon started. The audit log has older ones.
    pub fn knocks(&self) -> Vec<Knock> {
        self.inbox.strangers().last()
    }

    /// Records a stranger who tapped a button.
    pub async fn note_tap(
        &self,
        channel: &ChannelName,
        conversation: &ConversationKey,
        sender_id: &str,
        sender_name: &str,
    ) -> Result<(), Error> {
        let sender = (sender_id, sender_name);
        let rules = self.inbox.rules(channel);
        if rules.is_some_and(|rules| rules.role(sender_id, Party::Person, conversation).is_some()) {
            return Ok(());
        }
        if let Some(line) = self.knock(channel, conversation, sender, Some("a button"), self.inner().now()) {
            let note = self.inner().audit(&line.actor, "knock", None, &line.detail);
            self.to_completion(|chats| async move { Ok(chats.inner().commit(vec![note]).await?) }).await?;
        }
        Ok(())
    }

    /// Records a message or tap of a sender who is not allowed.
    fn knock(
        &self,
        channel: &ChannelName,
        conversation: &ConversationKey,
        (sender_id, sender_name): (&str, &str),
        how: Option<&str>,
        now: TimeMs,
    ) -> Option<KnockLine> {
        let sender_name = self.inner().summary(sender_name);
        let how = how.unwrap_or(&sender_name).to_owned();
        let (channel, conversation) = (channel.clone(), conversation.clone());
        let sender_id = sender_id.to_owned();
        let code = pairing::code(&self.inner().random_hex());
        let knock = Knock { channel, sender_id, sender_name, conversation, code, count: 1, last_at: now };
        self.inbox.strangers().knock(knock, &how)
    }
}

/// The messages of one call to [`Chats::receive`].
struct Batch<'a> {
    chats: &'a Chats,
    deferred: &'a mut Deferred,
    rules: &'a Rules,
    now: TimeMs,
    /// Messages that are already stored, by the source's ids.
    known: HashMap<String, MessageId>,
    /// New messages, the oldest first.
    taken: Vec<Message>,
    /// The files of new messages.
    files: Vec<AttachmentRecord>,
    /// Other writes of the same transaction.
    others: Vec<Write>,
}

impl Batch<'_> {
    async fn take(&mut self, arrival: Arrival) -> Result<Received, Error> {
        let line = (self.rules.channel.clone(), arrival.conversation.clone());
        let external_id = arrival.external_id.clone();
        let received = self.receive(arrival).await?;
        if received == Received::NoRoom {
            self.deferred.defer(&line, &external_id, Instant::now());
        } else {
            // Accepted or refused: later messages need not wait for it any more.
            self.deferred.take(&line, &external_id);
        }
        Ok(received)
    }

    async fn receive(&mut self, mut arrival: Arrival) -> Result<Received, Error> {
        if let Some(id) = self.known.get(&arrival.external_id) {
            return Ok(Received::Known { id: id.clone() });
        }
        let original = self.original(&arrival).await?;
        if !intake::is_for_bot(&arrival, original.as_ref(), self.rules) {
            return Ok(Received::Refused);
        }
        let sender = (arrival.sender.id.as_str(), arrival.sender.name.as_str());
        if self.rules.role(sender.0, arrival.sender.party, &arrival.conversation).is_none() {
            let (channel, conversation) = (&self.rules.channel, &arrival.conversation);
            if let Some(line) = self.chats.knock(channel, conversation, sender, None, self.now) {
                self.others.push(self.chats.inner().audit(&line.actor, "knock", None, &line.detail));
            }
            self.others.extend(self.chats.invitation(self.rules, &arrival, self.now));
            return Ok(Received::Refused);
        }
        attachment::limit(&mut arrival.attachments);
        let mut message = self.message(&arrival)?;
        let facts = self.intake_facts(&message).await?;
        match intake::admit(&message, arrival.text.len(), self.rules, &facts, self.now) {
            Admission::Take => {}
            Admission::Refuse { why, said, keeps_text } => {
                (message.state, message.error) = (MessageState::Dead, Some(why));
                message.sealed_text = message.sealed_text.filter(|_| keeps_text);
                if let Some(said) = said {
                    message = machine::answered(&message, self.now);
                    let id = message.own_reply_id();
                    let delivery = reply::delivery(&message, id, None, ReplyText::plain(&said), self.now);
                    self.others.push(Write::AddDelivery(Box::new(delivery)));
                }
            }
            Admission::Defer => return Ok(Received::NoRoom),
        }
        let id = message.id.clone();
        self.take_files(&mut message, arrival.attachments)?;
        self.known.insert(arrival.external_id, id.clone());
        self.taken.push(message);
        Ok(Received::Taken { id })
    }

    /// The stored message of which an arrival is a new version.
    async fn original(&self, arrival: &Arrival) -> Result<Option<Message>, Error> {
        let Some(edits) = &arrival.context.edits else { return Ok(None) };
        if let Some(taken) = self.taken.iter().find(|one| one.external_id == *edits) {
            return Ok(Some(taken.clone()));
        }
        self.chats.message_named(&self.rules.channel, edits).await
    }

    /// Adds the files of a message. Those of a command are left out, and the sender is told.
    fn take_files(&mut self, message: &mut Message, files: Vec<Attachment>) -> Result<(), Error> {
        if files.is_empty() || message.sealed_text.is_none() {
            message.attached = Attached::Nothing;
            return Ok(());
        }
        if intake::takes_files(message.kind) {
            self.files.extend(self.chats.inner().attachment_rows(&message.id, files)?);
            return Ok(());
        }
        message.attached = Attached::Nothing;
        let id = DeliveryId(format!("{}-files", message.own_reply_id()));
        let delivery = reply::delivery(message, id, None, ReplyText::plain(NO_FILES), self.now);
        self.others.push(Write::AddDelivery(Box::new(delivery)));
        Ok(())
    }

    fn message(&self, arrival: &Arrival) -> Result<Message, Error> {
        let inner = &self.chats.inner();
        let id = MessageId(format!("in-{}", inner.random_hex()));
        let sealed = inner.key.seal(intake::with_quotation(arrival).as_bytes(), id.as_str())?;
        Ok(intake::message(id, self.rules, arrival, sealed, |text| inner.summary(text), self.now))
    }

    /// The facts that the rules need, from the store and from earlier messages of this batch.
    async fn intake_facts(&mut self, message: &Message) -> Result<IntakeFacts, Error> {
        let store = &self.chats.inner().store;
        let mut facts = IntakeFacts {
            limit_bytes: TEXT_BYTES.min(self.chats.inner().config.prompt_limit_bytes),
            ..IntakeFacts::default()
        };
        let is_here = |one: &&Message| one.conversation == message.conversation;
        if message.party == Party::Agent {
            let in_channel =
                MessageFilter { channel: Some(message.channel.clone()), ..MessageFilter::default() };
            let here =
                MessageFilter { conversation: Some(message.conversation.clone()), ..in_channel.clone() };
            let worked_on: Vec<MessageState> =
                MessageState::ALL.into_iter().filter(|state| *state != MessageState::Dead).collect();
            let of_agent = MessageFilter {
                sender_id: Some(message.sender_id.clone()),
                since: Some(self.now - HOUR_MS),
                states: worked_on.clone(),
                ..in_channel
            };
            let is_same =
                |one: &&Message| one.sender_id == message.sender_id && one.state != MessageState::Dead;
            let taken = self.taken.iter().filter(is_same).count() as u64;
            facts.of_agent_lately = store.message_count(&of_agent).await? + taken;
            let limit = Some(self.rules.agent_turns_in_a_row);
            let stored = store.messages(&MessageFilter { states: worked_on, limit, ..here }).await?;
            let row = self.taken.iter().rev().filter(is_here).chain(&stored);
            facts.of_agents_in_a_row = rounds::in_a_row(row, self.now);
        }
        if message.party == Party::Agent || intake::too_old(message, self.rules, self.now).is_some() {
            let last = MessageFilter {
                channel: Some(message.channel.clone()),
                conversation: Some(message.conversation.clone()),
                limit: Some(1),
                ..MessageFilter::default()
            };
            let stored = store.messages(&last).await?;
            let last = self.taken.iter().rev().find(is_here).or(stored.first());
            facts.last_error = last.and_then(|last| last.error.clone());
        }
        if intake::may_be_deferred(message, self.rules) {
            let line = (message.channel.clone(), message.conversation.clone());
            facts.is_behind = !self.deferred.is_next(&line, &message.external_id, Instant::now());
            let waiting: Vec<&Message> =
                self.taken.iter().filter(|one| one.state == MessageState::Received).collect();
            let in_channel = MessageFilter::of(&message.channel, MessageState::Received);
            let here = MessageFilter { conversation: Some(line.1), ..in_channel.clone() };
            let taken_here = waiting.iter().copied().filter(is_here).count() as u64;
            facts.waiting_in_all = store.message_count(&in_channel).await? + waiting.len() as u64;
            facts.waiting_here = store.message_count(&here).await? + taken_here;
        }
        Ok(facts)
    }
}
