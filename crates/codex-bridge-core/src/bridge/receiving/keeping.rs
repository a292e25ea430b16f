//! What is kept of channels, and how a source learns what is done with.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use tokio::sync::watch;

use super::super::{Bridge, Error, audit};
use super::Inbox;
use crate::failpoint;
use crate::inbox::{
    ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId, Rules, State,
};
use crate::store::{MessageFilter, Write};
use crate::task::TimeMs;

/// Somebody who knocks again within this time is not noted anew.
const NOTED_MS: TimeMs = 60 * 60 * 1000;
/// So many are remembered.
const KNOCKS: usize = 100;
/// So many of one channel have a line of their own in the audit log within this time. Strangers cost nothing, and must
/// not push out what people decided.
const LINES: u32 = 20;

/// Somebody who wrote without being allowed to. Nothing of what they wrote is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knock {
    /// Where.
    pub channel: ChannelName,
    /// Who, as they would be allowed.
    pub sender_id: String,
    /// As people call them.
    pub sender_name: String,
    /// In which conversation.
    pub conversation: ConversationKey,
    /// How often.
    pub count: u64,
    /// When last.
    pub last_at: TimeMs,
}

/// Who wrote without being allowed to, and how much of it was noted.
#[derive(Debug, Default)]
pub(super) struct Knocks {
    /// The last ones.
    last: Vec<Knock>,
    /// Of each channel, since when its lines are counted, and how many there are.
    lines: BTreeMap<ChannelName, (TimeMs, u32)>,
}

impl Knocks {
    /// The line of the audit log that somebody is worth who knocks now: their own, one for all that follow, or none.
    fn line(&mut self, channel: &ChannelName, who: &str, how: &str, now: TimeMs) -> Option<Write> {
        let (since, count) = self.lines.entry(channel.clone()).or_insert((now, 0));
        if *since + NOTED_MS < now {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        match (*count).cmp(&(LINES + 1)) {
            Ordering::Less => Some(audit(now, &format!("{channel}:{who}"), "knock", None, how)),
            Ordering::Equal => {
                Some(audit(now, channel.as_str(), "knock", None, "and others, who are not noted for an hour"))
            }
            Ordering::Greater => None,
        }
    }
}

impl Inbox {
    /// Notes somebody who may not write, and how they tried; gives the line that is to be written, if that is news.
    pub(super) fn knock(&self, knock: Knock, how: &str) -> Option<Write> {
        let mut all = self.knocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let knocks = &mut all.last;
        let (channel, who, now) = (knock.channel.clone(), knock.sender_id.clone(), knock.last_at);
        let known = knocks
            .iter()
            .position(|one| (&one.channel, &one.sender_id) == (&knock.channel, &knock.sender_id));
        let known = known.map(|at| knocks.remove(at));
        let is_news = known.as_ref().is_none_or(|known| known.last_at + NOTED_MS < knock.last_at);
        let count = known.map_or(1, |known| known.count + 1);
        knocks.push(Knock { count, ..knock });
        let surplus = knocks.len().saturating_sub(KNOCKS);
        knocks.drain(..surplus);
        if is_news { all.line(&channel, &who, how, now) } else { None }
    }
}

impl Bridge {
    /// Serves a channel from here on, under these rules; or under others, if it is served already.
    pub async fn open_channel(&self, rules: Rules) -> Result<(), Error> {
        self.to_its_end(|bridge| async move { bridge.begin_to_serve(rules).await }).await
    }

    async fn begin_to_serve(&self, rules: Rules) -> Result<(), Error> {
        let name = rules.channel.clone();
        let before = self.inner.inbox.channels().insert(name.clone(), std::sync::Arc::new(rules));
        if before.is_none() {
            // Once in our life: a connection that comes and goes must not ask people again and again.
            self.remind(&name).await?;
        }
        self.inner.inbox.look_at_all();
        Ok(())
    }

    /// Serves it no more. What it brought stays.
    pub fn close_channel(&self, name: &ChannelName) {
        self.inner.inbox.channels().remove(name);
    }

    /// What is remembered of a channel.
    pub async fn channel(&self, name: &ChannelName) -> Result<ChannelRecord, Error> {
        let all = self.inner.store.channels().await?;
        Ok(all
            .into_iter()
            .find(|one| one.name == *name)
            .unwrap_or_else(|| ChannelRecord::new(name, self.inner.now())))
    }

    /// Has a channel rest, or wakes it.
    pub async fn pause_channel(
        &self,
        name: &ChannelName,
        is_paused: bool,
        by: &str,
    ) -> Result<ChannelRecord, Error> {
        let action = if is_paused { "pause channel" } else { "wake channel" };
        let noted = vec![self.inner.audit(by, action, None, name.as_str())];
        self.change_channel(name, move |record| record.is_paused = is_paused, noted).await
    }

    async fn change_channel(
        &self,
        name: &ChannelName,
        change: impl FnOnce(&mut ChannelRecord) + Send + 'static,
        mut batch: Vec<Write>,
    ) -> Result<ChannelRecord, Error> {
        let name = name.clone();
        self.to_its_end(|bridge| async move {
            // Whoever takes messages in changes it too.
            let _taking = bridge.inner.inbox.taking.lock().await;
            let mut record = bridge.channel(&name).await?;
            change(&mut record);
            record.updated_at = bridge.inner.now();
            batch.push(Write::SaveChannel(Box::new(record.clone())));
            bridge.inner.commit(batch).await?;
            Ok(record)
        })
        .await
    }

    /// A conversation of a channel.
    pub async fn conversation(
        &self,
        channel: &ChannelName,
        key: &ConversationKey,
    ) -> Result<Option<Conversation>, Error> {
        Ok(self.inner.store.conversations(channel, Some(key)).await?.into_iter().next())
    }

    /// Messages that came in, the newest first.
    pub async fn messages(&self, filter: &MessageFilter) -> Result<Vec<Message>, Error> {
        Ok(self.inner.store.messages(filter).await?)
    }

    /// Who wrote without being allowed to, the last one last. Since the start of this bridge; the audit log has more.
    pub fn knocks(&self) -> Vec<Knock> {
        self.inner.inbox.knocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).last.clone()
    }

    /// Changes whenever a reply has been sent or given up, so that sources may have to be told.
    pub fn replies(&self) -> watch::Receiver<u64> {
        self.inner.inbox.sent.subscribe()
    }

    /// The messages of a channel that are done with and of which its source does not know, the oldest first. Where the
    /// source keeps a watermark, only those before which nothing is open.
    pub async fn settled(&self, channel: &ChannelName) -> Result<Vec<Message>, Error> {
        let is_in_order = self.inner.inbox.rules(channel).is_none_or(|rules| rules.acknowledges);
        let open = MessageFilter {
            channel: Some(channel.clone()),
            unacknowledged: true,
            ..MessageFilter::default()
        };
        // A reply that was given up is seen among the deliveries; nothing more can be done for its message.
        let done = MessageFilter { done_with: true, ..open.clone() };
        let done = self.inner.store.messages(&done).await?;
        if is_in_order && !done.is_empty() {
            let ids: HashSet<MessageId> = done.into_iter().map(|message| message.id).collect();
            let open = in_order(self.inner.store.messages(&open).await?).into_iter();
            return Ok(open.take_while(|message| ids.contains(&message.id)).collect());
        }
        Ok(in_order(done))
    }

    /// Its source knows that these are done with.
    pub async fn acknowledged(&self, messages: Vec<Message>) -> Result<(), Error> {
        self.to_its_end(|bridge| async move { bridge.note_acknowledged(messages).await }).await
    }

    async fn note_acknowledged(&self, messages: Vec<Message>) -> Result<(), Error> {
        let now = self.inner.now();
        failpoint::hit("inbox.acknowledged");
        let batch = messages.into_iter().map(|mut message| {
            if message.state == State::Answered {
                message.state = State::Acknowledged;
            }
            (message.acknowledged_at, message.updated_at) = (Some(now), now);
            Write::SaveMessage(Box::new(message))
        });
        self.inner.commit(batch.collect()).await?;
        failpoint::hit("inbox.acknowledgement_recorded");
        Ok(())
    }

    /// Takes a message up again that was given up.
    pub async fn retry_message(&self, id: &str, by: &str) -> Result<Message, Error> {
        let (id, by) = (id.to_owned(), by.to_owned());
        self.to_its_end(|bridge| async move { bridge.take_up_message(&id, &by).await }).await
    }

    async fn take_up_message(&self, id: &str, by: &str) -> Result<Message, Error> {
        let _taking = self.inner.inbox.taking.lock().await;
        let filter = MessageFilter { id: Some(id.into()), ..MessageFilter::default() };
        let found = self.inner.store.messages(&filter).await?.into_iter().next();
        let mut message = found.ok_or_else(|| Error::UnknownMessage(id.to_owned()))?;
        if message.state != State::Dead || message.sealed_text.is_none() {
            let state = message.state.as_str();
            return Err(Error::Refused(format!(
                "message {id} is {state}: there is nothing to take up again"
            )));
        }
        let now = self.inner.now();
        (message.state, message.attempts, message.error) = (State::Received, 0, None);
        // Its source may be told once more, and does not mind.
        (message.next_at, message.updated_at, message.acknowledged_at) = (now, now, None);
        let saved = Write::SaveMessage(Box::new(message.clone()));
        self.inner.commit(vec![saved, self.inner.audit(by, "retry message", None, id)]).await?;
        self.inner.inbox.look();
        Ok(message)
    }
}

/// As their source has them; those of which it does not say, as they came.
fn in_order(mut messages: Vec<Message>) -> Vec<Message> {
    messages.reverse();
    messages.sort_by_key(|message| message.position);
    messages
}
