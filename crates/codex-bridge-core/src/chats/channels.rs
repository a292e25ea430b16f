//! The records of channels, and acknowledgements to their sources.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::watch;

use super::Chats;
use crate::bridge::Error;
use crate::desk::{Caller, Verb};
use crate::failpoint;
use crate::inbox::{
    ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId, MessageState, Rules,
};
use crate::outbox::DeliveryId;
use crate::outbox::notice::{Content, MOST_REQUESTS, Reminder};
use crate::store::{MessageFilter, Write};

impl Chats {
    /// Opens a channel under these rules, or changes the rules of an open one.
    pub async fn open_channel(&self, rules: Rules) -> Result<(), Error> {
        self.to_completion(|chats| async move {
            let name = rules.channel.clone();
            let mut rules = rules;
            let taking = chats.inbox.taking.lock().await;
            rules.allowed_by_code = chats.channel(&name).await?.allowed;
            let before = chats.inbox.channels().insert(name.clone(), Arc::new(rules));
            drop(taking);
            if before.is_none() {
                // Once per daemon: a connection that comes and goes must not remind people again and again.
                chats.remind(&name).await?;
            }
            chats.inbox.wake_for_all();
            Ok(())
        })
        .await
    }

    /// Closes a channel. Its messages stay.
    pub fn close_channel(&self, name: &ChannelName) {
        self.inbox.channels().remove(name);
    }

    /// The stored record of a channel.
    pub async fn channel(&self, name: &ChannelName) -> Result<ChannelRecord, Error> {
        let all = self.inner().store.channels().await?;
        Ok(all
            .into_iter()
            .find(|one| one.name == *name)
            .unwrap_or_else(|| ChannelRecord::new(name, self.inner().now())))
    }

    /// Stores what a channel has to know after a restart. Durable when this returns.
    pub async fn save_memory(&self, name: &ChannelName, memory: String) -> Result<(), Error> {
        let name = name.clone();
        self.to_completion(|chats| async move {
            // Taking messages in changes the record too.
            let _taking = chats.inbox.taking.lock().await;
            let record = chats.channel(&name).await?;
            let record = ChannelRecord { memory: Some(memory), updated_at: chats.inner().now(), ..record };
            Ok(chats.inner().commit(vec![Write::SaveChannel(Box::new(record))]).await?)
        })
        .await
    }

    /// Pauses or resumes a channel.
    pub async fn pause_channel(
        &self,
        caller: &Caller,
        name: &ChannelName,
        is_paused: bool,
    ) -> Result<ChannelRecord, Error> {
        caller.may(Verb::Administer)?;
        let action = if is_paused { "pause channel" } else { "wake channel" };
        let (name, noted) = (name.clone(), self.inner().audit(&caller.name, action, None, name.as_str()));
        self.to_completion(|chats| async move {
            // Taking messages in changes the record too.
            let _taking = chats.inbox.taking.lock().await;
            let record = chats.channel(&name).await?;
            let record = ChannelRecord { is_paused, updated_at: chats.inner().now(), ..record };
            chats.inner().commit(vec![noted, Write::SaveChannel(Box::new(record.clone()))]).await?;
            Ok(record)
        })
        .await
    }

    /// Sends open requests again: the first notice may be far up in the chat, or its buttons dead.
    async fn remind(&self, channel: &ChannelName) -> Result<(), Error> {
        let now = self.inner().now();
        let running = MessageFilter::of(channel, MessageState::Running);
        for message in self.inner().store.messages(&running).await? {
            let Some(task_id) = &message.task_id else { continue };
            let Some(task) = self.inner().store.task(task_id).await? else { continue };
            let mut open = Vec::new();
            for request in self.bridge().open_requests(Some(task_id.clone())).await? {
                if self.was_told(task_id, &request.request_id).await? {
                    open.push(request);
                }
            }
            for (number, some) in open.chunks(MOST_REQUESTS).enumerate() {
                let id = DeliveryId(format!("{}-again-{now}-{number}", message.own_reply_id()));
                let content = Content::Reminder(Reminder::new(&task, some));
                self.say_once(id, &message.reply_to, content, now).await?;
            }
        }
        Ok(())
    }

    /// A conversation of a channel.
    pub async fn conversation(
        &self,
        channel: &ChannelName,
        key: &ConversationKey,
    ) -> Result<Option<Conversation>, Error> {
        Ok(self.inner().store.conversations(channel, Some(key)).await?.into_iter().next())
    }

    /// Messages, the newest first.
    pub async fn messages(&self, filter: &MessageFilter) -> Result<Vec<Message>, Error> {
        Ok(self.inner().store.messages(filter).await?)
    }

    /// Changes whenever a reply is finished. Sources may then need an acknowledgement.
    pub fn replies(&self) -> watch::Receiver<u64> {
        self.inner().outbox.finished.subscribe()
    }

    /// The name of a person, from `channel:id`, which is what decisions are stored under. The same text if no name is known.
    pub async fn name_of(&self, by: &str) -> Result<String, Error> {
        let known = by.split_once(':').filter(|(channel, _)| self.inbox.rules(&(*channel).into()).is_some());
        let Some((channel, sender_id)) = known else { return Ok(by.to_owned()) };
        let of_person = MessageFilter {
            channel: Some(channel.into()),
            sender_id: Some(sender_id.to_owned()),
            limit: Some(1),
            ..MessageFilter::default()
        };
        let last = self.inner().store.messages(&of_person).await?.into_iter().next();
        Ok(last.map_or_else(|| by.to_owned(), |message| message.sender_name))
    }

    /// Changes whenever messages come in, begin to run or are answered.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inbox.changes.subscribe()
    }

    /// The messages of a channel that are done and not yet acknowledged, the oldest first. For a source with a
    /// watermark, only those with no unfinished message before them.
    pub async fn settled(&self, channel: &ChannelName) -> Result<Vec<Message>, Error> {
        let is_in_order = self.inbox.rules(channel).is_none_or(|rules| rules.acknowledges);
        let open = MessageFilter {
            channel: Some(channel.clone()),
            unacknowledged: true,
            ..MessageFilter::default()
        };
        // Includes messages whose reply was given up. The list of deliveries shows those.
        let done = MessageFilter { done_with: true, ..open.clone() };
        let done = self.inner().store.messages(&done).await?;
        if is_in_order && !done.is_empty() {
            let ids: HashSet<MessageId> = done.into_iter().map(|message| message.id).collect();
            let open = in_order(self.inner().store.messages(&open).await?).into_iter();
            return Ok(open.take_while(|message| ids.contains(&message.id)).collect());
        }
        Ok(in_order(done))
    }

    /// Records that the source knows these messages are done.
    pub async fn acknowledged(&self, messages: Vec<Message>) -> Result<(), Error> {
        self.to_completion(|chats| async move {
            let now = chats.inner().now();
            failpoint::hit("inbox.acknowledged");
            let batch = messages.into_iter().map(|mut message| {
                if message.state == MessageState::Answered {
                    message.state = MessageState::Acknowledged;
                }
                (message.acknowledged_at, message.updated_at) = (Some(now), now);
                Write::SaveMessage(Box::new(message))
            });
            chats.inner().commit(batch.collect()).await?;
            failpoint::hit("inbox.acknowledgement_recorded");
            Ok(())
        })
        .await
    }

    /// Retries a message that was given up.
    pub async fn retry_message(&self, caller: &Caller, id: &str) -> Result<Message, Error> {
        caller.may(Verb::Administer)?;
        let (id, by) = (id.to_owned(), caller.name.clone());
        self.to_completion(|chats| async move {
            let _taking = chats.inbox.taking.lock().await;
            let found = chats.message(&id.as_str().into()).await?;
            let mut message = found.ok_or_else(|| Error::UnknownMessage(id.clone()))?;
            if message.state != MessageState::Dead || message.sealed_text.is_none() {
                let state = message.state.as_str();
                return Err(Error::Refused(format!(
                    "message {id} is {state}: only a dead message whose text is still stored can be retried"
                )));
            }
            let now = chats.inner().now();
            (message.state, message.attempts, message.error) = (MessageState::Received, 0, None);
            // The source may get a second acknowledgement, which does no harm.
            (message.next_at, message.updated_at, message.acknowledged_at) = (now, now, None);
            let saved = Write::SaveMessage(Box::new(message.clone()));
            chats.inner().commit(vec![saved, chats.inner().audit(&by, "retry message", None, &id)]).await?;
            chats.inbox.wake();
            Ok(message)
        })
        .await
    }
}

/// In the order of the source, or of arrival where the source gives no position.
fn in_order(mut messages: Vec<Message>) -> Vec<Message> {
    messages.reverse();
    messages.sort_by_key(|message| message.position);
    messages
}
