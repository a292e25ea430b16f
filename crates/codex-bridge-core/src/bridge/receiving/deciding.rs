//! Decisions that are made in a chat: bound to the conversation that was asked and to those who may decide there.

use codex_session::Decision;

use super::super::{Bridge, DecisionOutcome, DecisionReport, Error, now_ms};
use crate::inbox::{Conversation, Message, Party, Role, State};
use crate::outbox::{self, Delivery, Notice};
use crate::request::RequestRecord;
use crate::store::{DeliveryFilter, MessageFilter, RequestFilter, Write};
use crate::task::Task;

/// Who says no where nobody may say yes.
pub(super) const NOBODY_MAY: &str = "nobody here may decide";

/// What came of a decision in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Codex took it.
    Taken {
        /// In words.
        text: String,
    },
    /// It does not count: too late, or somebody was first.
    TooLate {
        /// In words.
        text: String,
    },
    /// Who said it may not, or there is no such request here.
    Forbidden {
        /// In words.
        text: String,
    },
}

impl Verdict {
    /// In words.
    pub fn text(&self) -> &str {
        match self {
            Self::Taken { text } | Self::TooLate { text } | Self::Forbidden { text } => text,
        }
    }
}

impl Bridge {
    /// Decides on a request that was put before a conversation. Only Codex's word makes it count.
    pub async fn decide_in_chat(
        &self,
        channel: &str,
        conversation: &str,
        sender_id: &str,
        request_id: Option<&str>,
        decision: Decision,
    ) -> Result<Verdict, Error> {
        let rules = self.inner.inbox.rules(channel);
        let may = rules.and_then(|rules| rules.role(sender_id, Party::Person)) == Some(Role::Approver);
        if !may {
            return Ok(Verdict::Forbidden { text: "You may not decide on what Codex asks.".to_owned() });
        }
        let found = self.request_of(channel, conversation, request_id).await?;
        let request = match found {
            Ok(request) => request,
            Err(text) => return Ok(Verdict::Forbidden { text }),
        };
        let by = format!("{channel}:{sender_id}");
        let task_id = request.task_id.as_str();
        let report = self.decide(task_id, Some(&request.request_id), decision, &by).await?;
        Ok(verdict(&request, &report))
    }

    /// A request of this conversation and of no other.
    async fn request_of(
        &self,
        channel: &str,
        key: &str,
        request_id: Option<&str>,
    ) -> Result<Result<RequestRecord, String>, Error> {
        let conversation = self.conversation(channel, key).await?;
        let Some(request_id) = request_id else { return self.only_request(conversation).await };
        let named = RequestFilter { request_id: Some(request_id.to_owned()), ..RequestFilter::default() };
        let found = self.inner.store.requests(&named).await?.into_iter().next();
        let unknown = || Ok(Err(format!("There is no request {request_id} in this conversation.")));
        let Some(request) = found else { return unknown() };
        let of_task = MessageFilter {
            channel: Some(channel.to_owned()),
            task_id: Some(request.task_id.clone()),
            ..MessageFilter::default()
        };
        // A conversation may be a part of what people see as one place.
        let is_part =
            |one: &Message| one.conversation.strip_prefix(key).is_some_and(|rest| rest.starts_with('/'));
        let is_here = |one: &Message| one.conversation == key || is_part(one);
        let is_here = self.inner.store.messages(&of_task).await?.iter().any(is_here);
        if is_here { Ok(Ok(request)) } else { unknown() }
    }

    async fn only_request(
        &self,
        conversation: Option<Conversation>,
    ) -> Result<Result<RequestRecord, String>, Error> {
        let Some(task_id) = conversation.and_then(|one| one.task_id) else {
            return Ok(Err("Nothing is asked here.".to_owned()));
        };
        let mut open = self.open_requests(Some(task_id)).await?;
        Ok(match open.len() {
            0 => Err("Nothing is asked here.".to_owned()),
            1 => Ok(open.remove(0)),
            _ => {
                let ids: Vec<&str> = open.iter().map(|request| request.request_id.as_str()).collect();
                Err(format!("Several requests are open, say which one: {}", ids.join(", ")))
            }
        })
    }

    /// Puts what is still open before people again: what they saw may be far up, or its buttons dead.
    pub(super) async fn remind(&self, channel: &str) -> Result<(), Error> {
        let running = MessageFilter {
            channel: Some(channel.to_owned()),
            states: vec![State::Running],
            ..MessageFilter::default()
        };
        for message in self.inner.store.messages(&running).await? {
            let Some(task_id) = message.task_id.clone() else { continue };
            let mut open = Vec::new();
            let Some(task) = self.inner.store.task(&task_id).await? else { continue };
            for request in self.open_requests(Some(task_id)).await? {
                if self.was_told(&task, &request.request_id).await? {
                    open.push(request);
                }
            }
            if !open.is_empty() {
                let id = format!("{}-again-{}", message.own_reply_id(), now_ms());
                self.say_in(id, &message.reply_to, &task, "This still waits for a decision.", Some(&open))
                    .await?;
            }
        }
        Ok(())
    }

    /// Whether a request was put before people.
    pub(super) async fn was_told(&self, task: &Task, request_id: &str) -> Result<bool, Error> {
        let of_task = DeliveryFilter { task_ids: vec![task.id.clone()], ..DeliveryFilter::default() };
        let deliveries = self.inner.store.deliveries(&of_task).await?;
        let told = |one: &Delivery| one.state == outbox::State::Delivered && one.notice.tells_of(request_id);
        Ok(deliveries.iter().any(told))
    }

    /// Writes a message of our own, once under its name.
    pub(super) async fn say_in(
        &self,
        id: String,
        target: &str,
        task: &Task,
        text: &str,
        asked: Option<&[RequestRecord]>,
    ) -> Result<(), Error> {
        let known = DeliveryFilter { id: Some(id.clone()), ..DeliveryFilter::default() };
        if !self.inner.store.deliveries(&known).await?.is_empty() {
            return Ok(());
        }
        let now = now_ms();
        let mut notice = Notice::reply(Some(task), text, None, now);
        notice.ask(asked.unwrap_or_default());
        let delivery = Delivery::reply(id, Some(task.id.clone()), target, notice, now);
        self.inner.commit(vec![Write::AddDelivery(Box::new(delivery))]).await?;
        Ok(())
    }

    /// The decision that words in a chat are, for a request with one question.
    pub(super) async fn answers_to(
        &self,
        message: &Message,
        request_id: &str,
        text: &str,
    ) -> Result<Option<Decision>, Error> {
        let found = self.request_of(&message.channel, &message.conversation, Some(request_id)).await?;
        let Ok(request) = found else { return Ok(None) };
        let question = request.ask["questions"][0]["id"].as_str().map(str::to_owned);
        Ok(question.map(|id| Decision::Answers([(id, vec![text.to_owned()])].into())))
    }
}

fn verdict(request: &RequestRecord, report: &DecisionReport) -> Verdict {
    let id = &request.request_id;
    let by = report.decided_by.as_deref().unwrap_or("somebody");
    let what = report.decision.as_deref().unwrap_or("answered");
    match report.outcome {
        DecisionOutcome::Resolved => Verdict::Taken { text: format!("{id}: {what}; Codex has taken it.") },
        DecisionOutcome::Sent => Verdict::Taken { text: format!("{id}: {what}; it is on its way to Codex.") },
        DecisionOutcome::AlreadyResolved => {
            Verdict::TooLate { text: format!("{id} was already answered: {what}, by {by}.") }
        }
        DecisionOutcome::Expired => {
            Verdict::TooLate { text: format!("{id} has expired: nobody answered in time.") }
        }
        DecisionOutcome::Orphaned => {
            Verdict::TooLate { text: format!("{id} is no longer open: what asked has ended.") }
        }
    }
}
