//! A store in memory: the model that other stores are compared with, and the store of tests with their own clock. It
//! has no thread and no file: a commit is done at its first poll.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::ready;

use codex_bridge_core::event::{Event, Line, NewEvent, Seq};
use codex_bridge_core::inbox::{
    AttachmentRecord, ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId,
    MessageKind, MessageState,
};
use codex_bridge_core::outbox::{Delivery, DeliveryState, Occasion};
use codex_bridge_core::request::{RequestName, RequestRecord, RequestState, WholeChanges};
use codex_bridge_core::store::{
    AuditFilter, AuditLine, CONVERSATIONS_OUTLIVE_MS, Counts, DeliveryFilter, Error, MessageFilter, Prune,
    RequestFilter, Store, StoreFuture, TaskFilter, Write,
};
use codex_bridge_core::task::{Task, TaskId, TimeMs, TurnRecord};
use codex_bridge_core::token::{Token, Used};

/// A store in memory.
#[derive(Debug, Default)]
pub struct Memory {
    state: Mutex<Tables>,
}

#[derive(Debug, Default, Clone)]
struct Tables {
    /// In the order of creation.
    tasks: Vec<Task>,
    turns: BTreeMap<(TaskId, u32), TurnRecord>,
    logs: BTreeMap<TaskId, Log>,
    requests: Vec<RequestRecord>,
    whole_changes: BTreeMap<RequestName, WholeChanges>,
    outbox: Vec<Delivery>,
    audit: Vec<AuditLine>,
    tokens: BTreeMap<String, Token>,
    /// Bytes by task and token.
    handed_over: BTreeMap<(TaskId, String), u64>,
    inbox: Vec<Message>,
    attachments: BTreeMap<(MessageId, u32), AttachmentRecord>,
    conversations: BTreeMap<(ChannelName, ConversationKey), Conversation>,
    channels: BTreeMap<ChannelName, ChannelRecord>,
}

#[derive(Debug, Default, Clone)]
struct Log {
    last_seq: Seq,
    events: Vec<Event>,
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, Tables> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, batch: Vec<Write>) -> Result<Vec<Event>, Error> {
        let mut state = self.state();
        let mut changed = state.clone();
        let mut appended = Vec::new();
        for write in batch {
            match write {
                Write::AddTask(task) => changed.add_task(*task)?,
                Write::SaveTask(task) => changed.save_task(*task)?,
                Write::SaveTurn(turn) => changed.save_turn(*turn)?,
                Write::SaveRequest(request) => changed.save_request(*request)?,
                Write::SaveWholeChanges(whole) => changed.add_whole_changes(*whole)?,
                Write::Append { task_id, events } => appended.extend(changed.append(&task_id, events)?),
                Write::AddDelivery(delivery) => changed.add_delivery(*delivery)?,
                Write::SaveDelivery(delivery) => changed.save_delivery(*delivery)?,
                Write::AddMessage(message) => changed.add_message(*message)?,
                Write::SaveMessage(message) => changed.save_message(*message)?,
                Write::SaveAttachment(one) => changed.save_attachment(*one),
                Write::SaveConversation(one) => {
                    changed.conversations.insert((one.channel.clone(), one.key.clone()), *one);
                }
                Write::SaveChannel(channel) => {
                    changed.channels.insert(channel.name.clone(), *channel);
                }
                Write::SaveToken(token) => changed.save_token(*token)?,
                Write::HandOver { task_id, token, bytes } => changed.hand_over(task_id, token, bytes)?,
                Write::Audit(line) => changed.audit.push(line),
            }
        }
        *state = changed;
        Ok(appended)
    }
}

impl Tables {
    fn add_task(&mut self, task: Task) -> Result<(), Error> {
        let asked = task.client_request_id.as_ref();
        let taken =
            self.tasks.iter().find(|known| asked.is_some() && known.client_request_id.as_ref() == asked);
        if let Some(taken) = taken {
            return Err(Error::Duplicate(taken.id.clone()));
        }
        if self.has(&task.id) {
            return Err(refused("that id is taken"));
        }
        self.logs.insert(task.id.clone(), Log::default());
        self.tasks.push(task);
        Ok(())
    }

    fn save_task(&mut self, task: Task) -> Result<(), Error> {
        let asked = task.client_request_id.as_ref();
        let is_taken = |known: &Task| known.id != task.id && known.client_request_id.as_ref() == asked;
        if asked.is_some() && self.tasks.iter().any(is_taken) {
            return Err(refused("that client request id is taken"));
        }
        let known =
            self.tasks.iter_mut().find(|known| known.id == task.id).ok_or_else(|| unknown(&task.id))?;
        *known = task;
        Ok(())
    }

    fn save_turn(&mut self, turn: TurnRecord) -> Result<(), Error> {
        if !self.has(&turn.task_id) {
            return Err(unknown(&turn.task_id));
        }
        self.turns.insert((turn.task_id.clone(), turn.number), turn);
        Ok(())
    }

    fn save_request(&mut self, request: RequestRecord) -> Result<(), Error> {
        if !self.has(&request.task_id) {
            return Err(unknown(&request.task_id));
        }
        let same_name = |known: &RequestRecord| known.request_id == request.request_id;
        if self.requests.iter().any(|known| known.key == request.key && !same_name(known)) {
            return Err(refused("that key is taken"));
        }
        match self.requests.iter_mut().find(|known| same_name(known)) {
            Some(known) => *known = request,
            None => self.requests.push(request),
        }
        Ok(())
    }

    fn add_delivery(&mut self, delivery: Delivery) -> Result<(), Error> {
        if let Some(task_id) = delivery.task_id.as_ref().filter(|id| !self.has(id)) {
            return Err(unknown(task_id));
        }
        if self.outbox.iter().any(|known| known.id == delivery.id) {
            return Err(refused("that delivery is there already"));
        }
        let joins = |known: &Delivery| known.join_key.is_some() && known.join_key == delivery.join_key;
        if !self.outbox.iter().any(joins) {
            self.outbox.push(delivery);
        }
        Ok(())
    }

    fn save_delivery(&mut self, delivery: Delivery) -> Result<(), Error> {
        let known = self.outbox.iter_mut().find(|known| known.id == delivery.id);
        *known.ok_or_else(|| refused("there is no such delivery"))? = delivery;
        Ok(())
    }

    fn add_whole_changes(&mut self, whole: WholeChanges) -> Result<(), Error> {
        if !self.has(&whole.task_id) {
            return Err(unknown(&whole.task_id));
        }
        self.whole_changes.insert(whole.request_id.clone(), whole);
        Ok(())
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for task in &self.tasks {
            *counts.tasks.entry(task.status).or_default() += 1;
        }
        for request in &self.requests {
            counts.open_requests += u64::from(request.state == RequestState::Open);
        }
        let is_unsent = |delivery: &&Delivery| DeliveryState::UNFINISHED.contains(&delivery.state);
        for delivery in self.outbox.iter().filter(is_unsent) {
            counts.unsent += 1;
            let oldest = counts.oldest_unsent_at.unwrap_or(TimeMs::MAX);
            counts.oldest_unsent_at = Some(oldest.min(delivery.created_at));
        }
        counts
    }

    fn deliveries(&self, filter: &DeliveryFilter) -> Vec<Delivery> {
        let DeliveryFilter { id, task_ids, states, target, target_gone, request_id, since, limit } = filter;
        let fits = |delivery: &&Delivery| {
            id.as_ref().is_none_or(|id| delivery.id == *id)
                && target.as_ref().is_none_or(|target| delivery.target == *target)
                && (!target_gone || delivery.target_gone)
                && request_id.as_ref().is_none_or(|id| delivery.notice.tells_of(id))
                && since.is_none_or(|since| delivery.updated_at >= since)
                && (task_ids.is_empty() || delivery.task_id.as_ref().is_some_and(|id| task_ids.contains(id)))
                && (states.is_empty() || states.contains(&delivery.state))
        };
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        self.outbox.iter().rev().filter(fits).take(limit).cloned().collect()
    }

    fn next_deliveries(&self) -> Vec<Delivery> {
        let unfinished = |delivery: &&Delivery| DeliveryState::UNFINISHED.contains(&delivery.state);
        let mut replies = std::collections::BTreeSet::new();
        let may_go = |one: &&Delivery| {
            one.notice.occasion() != Occasion::Reply
                || replies.insert((one.target.clone(), one.task_id.clone()))
        };
        let mut next: Vec<Delivery> = self.outbox.iter().filter(unfinished).filter(may_go).cloned().collect();
        // The sort is stable: of several with the same time, the oldest comes first.
        next.sort_by_key(|delivery| delivery.next_at);
        let mut seen = std::collections::BTreeSet::new();
        next.retain(|delivery| seen.insert(delivery.target.clone()));
        next
    }

    fn add_message(&mut self, message: Message) -> Result<(), Error> {
        if let Some(task_id) = message.task_id.as_ref().filter(|id| !self.has(id)) {
            return Err(unknown(task_id));
        }
        if self.inbox.iter().any(|known| known.id == message.id) {
            return Err(refused("that message is there already"));
        }
        let is_same =
            |known: &Message| known.channel == message.channel && known.external_id == message.external_id;
        if !self.inbox.iter().any(is_same) {
            self.inbox.push(message);
        }
        Ok(())
    }

    fn save_message(&mut self, message: Message) -> Result<(), Error> {
        if message.sealed_text.is_none() {
            self.attachments.retain(|(id, _), _| *id != message.id);
        }
        let known = self.inbox.iter_mut().find(|known| known.id == message.id);
        *known.ok_or_else(|| refused("there is no such message"))? = message;
        Ok(())
    }

    fn save_attachment(&mut self, one: AttachmentRecord) {
        if self.inbox.iter().any(|message| message.id == one.message_id) {
            self.attachments.insert((one.message_id.clone(), one.number), one);
        }
    }

    fn messages(&self, filter: &MessageFilter) -> Vec<Message> {
        let limit = filter.limit.map_or(usize::MAX, |limit| limit as usize);
        self.messages_of(filter).take(limit).cloned().collect()
    }

    /// Matching messages, the newest first.
    fn messages_of<'a>(&'a self, filter: &'a MessageFilter) -> impl Iterator<Item = &'a Message> {
        let is_fit =
            |message: &&Message| fits(message, filter) && (!filter.done_with || self.is_done_with(message));
        self.inbox.iter().rev().filter(is_fit)
    }

    fn is_done_with(&self, message: &Message) -> bool {
        let is_unsent = |one: &Delivery| {
            Some(&one.id) == message.reply_id.as_ref() && DeliveryState::UNFINISHED.contains(&one.state)
        };
        !matches!(message.state, MessageState::Received | MessageState::Running)
            && !self.outbox.iter().any(is_unsent)
    }

    fn next_messages(&self, channel: &ChannelName) -> Vec<Message> {
        let mut seen = std::collections::BTreeSet::new();
        let is_open = |message: &&Message| {
            message.channel == *channel
                && matches!(message.state, MessageState::Received | MessageState::Running)
        };
        let is_next = |message: &&Message| match message.kind {
            MessageKind::Prompt | MessageKind::Command => seen.insert(message.conversation.clone()),
            MessageKind::UrgentCommand | MessageKind::Steer | MessageKind::Response | MessageKind::Edit => {
                true
            }
        };
        self.inbox.iter().filter(is_open).filter(is_next).cloned().collect()
    }

    fn conversations(&self, channel: &ChannelName, key: Option<&ConversationKey>) -> Vec<Conversation> {
        let fits = |one: &&Conversation| one.channel == *channel && key.is_none_or(|key| one.key == *key);
        let mut found: Vec<Conversation> = self.conversations.values().filter(fits).cloned().collect();
        found.sort_by_key(|one| std::cmp::Reverse(one.updated_at));
        found
    }

    fn save_token(&mut self, token: Token) -> Result<(), Error> {
        if self.tokens.values().any(|known| known.hash == token.hash && known.name != token.name) {
            return Err(refused("that hash is taken"));
        }
        self.tokens.insert(token.name.clone(), token);
        Ok(())
    }

    fn hand_over(&mut self, task_id: TaskId, token: String, bytes: u64) -> Result<(), Error> {
        if !self.has(&task_id) {
            return Err(unknown(&task_id));
        }
        *self.handed_over.entry((task_id, token)).or_default() += bytes;
        Ok(())
    }

    fn used_by(&self, token: &str) -> Used {
        let is_open = |task: &&Task| {
            task.token.as_deref() == Some(token) && (!task.status.is_finished() || task.parked.is_some())
        };
        let of_it = self.handed_over.iter().filter(|((task_id, by), _)| by == token && self.has(task_id));
        Used {
            open_tasks: self.tasks.iter().filter(is_open).count() as u64,
            bytes: of_it.map(|(_, bytes)| bytes).sum(),
        }
    }

    fn append(&mut self, task_id: &TaskId, events: Vec<NewEvent>) -> Result<Vec<Event>, Error> {
        let log = self.logs.get_mut(task_id).ok_or_else(|| unknown(task_id))?;
        let numbered = events.into_iter().zip(log.last_seq + 1..).map(|(event, seq)| Event {
            task_id: Some(task_id.clone()),
            seq,
            at: event.at,
            line: event.line,
        });
        let numbered: Vec<_> = numbered.collect();
        log.last_seq = numbered.last().map_or(log.last_seq, |event| event.seq);
        log.events.extend_from_slice(&numbered);
        Ok(numbered)
    }

    fn prune(&mut self, Prune { ended_before, events_per_task }: Prune) -> u64 {
        let waits = |task: &Task| {
            let is_waiting = |state| matches!(state, RequestState::Open | RequestState::Decided);
            let is_unsent = |one: &Delivery| {
                one.task_id.as_ref() == Some(&task.id) && DeliveryState::UNFINISHED.contains(&one.state)
            };
            self.requests.iter().any(|request| request.task_id == task.id && is_waiting(request.state))
                || self.outbox.iter().any(is_unsent)
        };
        let is_over = |task: &Task| {
            let since = task.updated_at.max(task.completed_at.unwrap_or(task.updated_at));
            task.status.is_finished() && task.parked.is_none() && since < ended_before && !waits(task)
        };
        let (over, kept) = self.tasks.clone().into_iter().partition(is_over);
        let over: Vec<Task> = over;
        self.tasks = kept;
        let is_done = |state| matches!(state, MessageState::Acknowledged | MessageState::Dead);
        self.inbox.retain(|message| !(is_done(message.state) && message.updated_at < ended_before));
        let inbox = &self.inbox;
        self.attachments.retain(|(id, _), _| inbox.iter().any(|message| message.id == *id));
        let is_done = |one: &Delivery| !DeliveryState::UNFINISHED.contains(&one.state);
        self.outbox.retain(|one| one.task_id.is_some() || !is_done(one) || one.updated_at >= ended_before);
        for task in &over {
            for message in self.inbox.iter_mut().filter(|message| message.task_id.as_ref() == Some(&task.id))
            {
                message.task_id = None;
            }
            for one in self.conversations.values_mut().filter(|one| one.task_id.as_ref() == Some(&task.id)) {
                one.task_id = None;
            }
            self.logs.remove(&task.id);
            self.turns.retain(|(task_id, _), _| *task_id != task.id);
            self.requests.retain(|request| request.task_id != task.id);
            self.whole_changes.retain(|_, whole| whole.task_id != task.id);
            self.outbox.retain(|delivery| delivery.task_id.as_ref() != Some(&task.id));
        }
        let outlived = ended_before.saturating_sub(CONVERSATIONS_OUTLIVE_MS);
        let inbox = &self.inbox;
        self.conversations.retain(|_, one| {
            let is_its =
                |message: &Message| message.channel == one.channel && message.conversation == one.key;
            one.task_id.is_some() || one.updated_at >= outlived || inbox.iter().any(is_its)
        });
        for log in self.logs.values_mut() {
            let surplus = log.events.len().saturating_sub(events_per_task as usize);
            log.events.drain(..surplus);
        }
        over.len() as u64
    }

    fn has(&self, id: &TaskId) -> bool {
        self.tasks.iter().any(|task| task.id == *id)
    }

    fn tasks(&self, filter: &TaskFilter) -> Vec<Task> {
        let TaskFilter {
            statuses,
            client_request_id,
            thread_id,
            id_prefix,
            cwd,
            active_since,
            text,
            before,
            limit,
        } = filter;
        let is_told = |task: &Task, text: &str| {
            let told = [Some(&task.id.0), Some(&task.prompt_summary), task.final_text.as_ref()];
            let text = text.to_ascii_lowercase();
            told.into_iter().flatten().any(|told| told.to_ascii_lowercase().contains(&text))
        };
        let older = match before {
            Some(before) => self.tasks.iter().position(|task| task.id == *before).unwrap_or(0),
            None => self.tasks.len(),
        };
        let fits = |task: &&Task| {
            (statuses.is_empty() || statuses.contains(&task.status))
                && (client_request_id.is_none() || task.client_request_id == *client_request_id)
                && thread_id.as_ref().is_none_or(|id| task.thread_id.as_ref().is_some_and(|of| of.0 == *id))
                && id_prefix.as_ref().is_none_or(|prefix| task.id.as_str().starts_with(prefix))
                && cwd.as_ref().is_none_or(|cwd| task.settings.cwd.starts_with(cwd))
                && active_since.is_none_or(|since| !task.status.is_finished() || task.updated_at >= since)
                && text.as_ref().is_none_or(|text| is_told(task, text))
        };
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        self.tasks[..older].iter().rev().filter(fits).take(limit).cloned().collect()
    }

    fn requests(&self, filter: &RequestFilter) -> Vec<RequestRecord> {
        let RequestFilter { task_id, request_id, id_prefix, key, states, limit } = filter;
        let begins = |name: &RequestName, prefix: &String| {
            !prefix.is_empty() && name.as_str().starts_with(prefix.as_str())
        };
        let fits = |request: &&RequestRecord| {
            task_id.as_ref().is_none_or(|id| request.task_id == *id)
                && request_id.as_ref().is_none_or(|id| request.request_id == *id)
                && id_prefix.as_ref().is_none_or(|prefix| begins(&request.request_id, prefix))
                && key.as_ref().is_none_or(|key| request.key == *key)
                && (states.is_empty() || states.contains(&request.state))
        };
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        self.requests.iter().filter(fits).take(limit).cloned().collect()
    }

    fn audit(&self, filter: &AuditFilter) -> Vec<AuditLine> {
        let AuditFilter { task_id_prefix, since, limit } = filter;
        let begins = |line: &AuditLine, prefix: &String| {
            line.task_id.as_ref().is_some_and(|id| id.as_str().starts_with(prefix.as_str()))
        };
        let fits = |line: &&AuditLine| {
            task_id_prefix.as_ref().is_none_or(|prefix| begins(line, prefix))
                && since.is_none_or(|since| line.at >= since)
        };
        let fitting: Vec<AuditLine> = self.audit.iter().filter(fits).cloned().collect();
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        fitting[fitting.len().saturating_sub(limit)..].to_vec()
    }
}

fn fits(message: &Message, filter: &MessageFilter) -> bool {
    fn is<T: PartialEq>(wanted: Option<&T>, is: &T) -> bool {
        wanted.is_none_or(|wanted| wanted == is)
    }
    is(filter.id.as_ref(), &message.id)
        && is(filter.channel.as_ref(), &message.channel)
        && is(filter.conversation.as_ref(), &message.conversation)
        && is(filter.sender_id.as_ref(), &message.sender_id)
        && (filter.external_ids.is_empty() || filter.external_ids.contains(&message.external_id))
        && (filter.task_id.is_none() || filter.task_id == message.task_id)
        && (filter.reply_id.is_none() || filter.reply_id == message.reply_id)
        && (filter.states.is_empty() || filter.states.contains(&message.state))
        && filter.since.is_none_or(|since| message.received_at >= since)
        && (!filter.unacknowledged || message.acknowledged_at.is_none())
}

fn unknown(id: &TaskId) -> Error {
    Error::Other(format!("there is no task {id}"))
}

fn refused(why: &str) -> Error {
    Error::Other(why.to_owned())
}

impl Store for Memory {
    fn commit(&self, batch: Vec<Write>) -> StoreFuture<'_, Vec<Event>> {
        Box::pin(async move { self.apply(batch) })
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(self.state().prune(prune)) })
    }

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn task<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Task>> {
        Box::pin(async move { Ok(self.state().tasks.iter().find(|task| task.id == *id).cloned()) })
    }

    fn tasks<'a>(&'a self, filter: &'a TaskFilter) -> StoreFuture<'a, Vec<Task>> {
        Box::pin(async move { Ok(self.state().tasks(filter)) })
    }

    fn turns<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Vec<TurnRecord>> {
        Box::pin(async move {
            let state = self.state();
            let own = state.turns.range((id.clone(), 0)..=(id.clone(), u32::MAX));
            Ok(own.map(|(_, turn)| turn.clone()).collect())
        })
    }

    fn events<'a>(&'a self, id: &'a TaskId, after: Seq, limit: u32) -> StoreFuture<'a, Vec<Event>> {
        Box::pin(async move {
            let state = self.state();
            let events = state.logs.get(id).into_iter().flat_map(|log| &log.events);
            Ok(events.filter(|event| event.seq > after).take(limit as usize).cloned().collect())
        })
    }

    fn last_events<'a>(&'a self, id: &'a TaskId, limit: u32) -> StoreFuture<'a, Vec<Event>> {
        Box::pin(async move {
            let state = self.state();
            let events = state.logs.get(id).map(|log| log.events.as_slice()).unwrap_or_default();
            Ok(events[events.len().saturating_sub(limit as usize)..].to_vec())
        })
    }

    fn last_diff<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Event>> {
        Box::pin(async move {
            let state = self.state();
            let mut events = state.logs.get(id).into_iter().flat_map(|log| &log.events).rev();
            Ok(events.find(|event| matches!(event.line, Line::Diff(_))).cloned())
        })
    }

    fn was_steered<'a>(&'a self, id: &'a TaskId, client_id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let state = self.state();
            let mut events = state.logs.get(id).into_iter().flat_map(|log| &log.events);
            Ok(events.any(|event| matches!(&event.line, Line::Steered(it) if it.client_id == client_id)))
        })
    }

    fn requests<'a>(&'a self, filter: &'a RequestFilter) -> StoreFuture<'a, Vec<RequestRecord>> {
        Box::pin(async move { Ok(self.state().requests(filter)) })
    }

    fn whole_changes<'a>(&'a self, request_id: &'a RequestName) -> StoreFuture<'a, Option<WholeChanges>> {
        Box::pin(async move { Ok(self.state().whole_changes.get(request_id).cloned()) })
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        Box::pin(async move { Ok(self.state().counts()) })
    }

    fn deliveries<'a>(&'a self, filter: &'a DeliveryFilter) -> StoreFuture<'a, Vec<Delivery>> {
        Box::pin(async move { Ok(self.state().deliveries(filter)) })
    }

    fn next_deliveries(&self) -> StoreFuture<'_, Vec<Delivery>> {
        Box::pin(async move { Ok(self.state().next_deliveries()) })
    }

    fn messages<'a>(&'a self, filter: &'a MessageFilter) -> StoreFuture<'a, Vec<Message>> {
        Box::pin(async move { Ok(self.state().messages(filter)) })
    }

    fn message_count<'a>(&'a self, filter: &'a MessageFilter) -> StoreFuture<'a, u64> {
        Box::pin(async move { Ok(self.state().messages_of(filter).count() as u64) })
    }

    fn next_messages<'a>(&'a self, channel: &'a ChannelName) -> StoreFuture<'a, Vec<Message>> {
        Box::pin(async move { Ok(self.state().next_messages(channel)) })
    }

    fn attachments<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Vec<AttachmentRecord>> {
        Box::pin(async move {
            let state = self.state();
            let own = state.attachments.range((id.clone(), 0)..=(id.clone(), u32::MAX));
            Ok(own.map(|(_, one)| AttachmentRecord { sealed_content: None, ..one.clone() }).collect())
        })
    }

    fn attachment_content<'a>(&'a self, id: &'a MessageId, number: u32) -> StoreFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let state = self.state();
            Ok(state.attachments.get(&(id.clone(), number)).and_then(|one| one.sealed_content.clone()))
        })
    }

    fn conversations<'a>(
        &'a self,
        channel: &'a ChannelName,
        key: Option<&'a ConversationKey>,
    ) -> StoreFuture<'a, Vec<Conversation>> {
        Box::pin(async move { Ok(self.state().conversations(channel, key)) })
    }

    fn channels(&self) -> StoreFuture<'_, Vec<ChannelRecord>> {
        Box::pin(async move { Ok(self.state().channels.values().cloned().collect()) })
    }

    fn tokens(&self) -> StoreFuture<'_, Vec<Token>> {
        Box::pin(async move { Ok(self.state().tokens.values().cloned().collect()) })
    }

    fn used_by<'a>(&'a self, token: &'a str) -> StoreFuture<'a, Used> {
        Box::pin(async move { Ok(self.state().used_by(token)) })
    }

    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> StoreFuture<'a, Vec<AuditLine>> {
        Box::pin(async move { Ok(self.state().audit(filter)) })
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn backup<'a>(&'a self, _file: &'a Path) -> StoreFuture<'a, ()> {
        Box::pin(ready(Err(refused("there is nothing to copy from memory"))))
    }
}
