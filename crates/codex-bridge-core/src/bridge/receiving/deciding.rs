//! Decisions that are made in a chat: bound to the conversation that was asked and to those who may decide there.

use codex_session::Decision;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use super::super::{Bridge, DecisionOutcome, DecisionReport, Error, Which, answering};
use super::keeping::Knock;
use super::showing::Sight;
use crate::desk::{Caller, Desk, Verb};
use crate::inbox::{ChannelName, ConversationKey, Message, Party, State, answer};
use crate::outbox::notice::{Content, MOST_REQUESTS, Reminder};
use crate::outbox::{self, Delivery, DeliveryId, Notice};
use crate::request::{RequestName, RequestRecord, RequestState};
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
    /// Who said it may not, or there is no such request here, or that is no answer to it.
    Forbidden {
        /// In words.
        text: String,
    },
    /// Whoever said it may not even write, and is told nothing.
    Unheard,
}

impl Verdict {
    /// In words; none for somebody who is told nothing.
    pub fn text(&self) -> &str {
        match self {
            Self::Taken { text } | Self::TooLate { text } | Self::Forbidden { text } => text,
            Self::Unheard => "",
        }
    }
}

/// What somebody chose.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// This.
    Decision(Decision),
    /// The option with this number, counted from 0, of the only question of a request.
    Option(usize),
}

impl From<Decision> for Choice {
    fn from(decision: Decision) -> Self {
        Self::Decision(decision)
    }
}

/// What a button, or what a platform has in its place, is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    /// The request.
    pub request_id: RequestName,
    /// How the digest of what was shown with it begins; empty where none was told.
    pub digest: String,
}

impl Button {
    /// How much of a digest a button has: some platforms leave room for little more.
    pub const DIGEST_CHARS: usize = 16;

    /// Reads `REQUEST.DIGEST`, which is how a request is named where people can see the name; or `REQUEST` alone.
    pub fn named(name: &str) -> Self {
        let (request_id, digest) = name.split_once('.').unwrap_or((name, ""));
        Self { request_id: request_id.into(), digest: digest.to_owned() }
    }

    /// What is said of one that stands below something else.
    fn objection(&self) -> String {
        let id = &self.request_id;
        format!("{id} is not approved: this does not belong to what {id} asks now. /deny {id} denies it.")
    }

    /// Whether it stands below what this request asks.
    fn is_of(&self, request: &RequestRecord) -> bool {
        self.digest.len() >= Self::DIGEST_CHARS && request.digest.starts_with(&self.digest)
    }
}

/// A choice that is recorded, if it counts: what came of it is still to come.
pub type Pending = BoxFuture<'static, Result<Verdict, Error>>;

impl Bridge {
    /// Decides on a request that was put before a conversation, with what stands below it. Only Codex's word makes it
    /// count: what this gives, once the choice is recorded, waits for that.
    pub async fn decide_in_chat(
        &self,
        channel: &ChannelName,
        conversation: &ConversationKey,
        sender_id: &str,
        button: Button,
        choice: Choice,
    ) -> Result<Pending, Error> {
        let caller = match self.decider(channel, conversation, sender_id).await? {
            Ok(caller) => caller,
            Err(verdict) => return Ok(at_once(verdict)),
        };
        let mut found = self.request_of(channel, conversation, &button.request_id).await?;
        if let Ok(request) = &found
            && request.state == RequestState::Open
            && !is_no(&choice)
            && !button.is_of(request)
        {
            found = Err(button.objection());
        }
        self.decide_found(found, choice, &caller).await
    }

    /// The same in words; with no name, on the only request that they can mean. A yes counts only for what was shown where
    /// it was written, before it was.
    pub(super) async fn decide_in_words(
        &self,
        message: &Message,
        request_id: Option<&str>,
        decision: Decision,
    ) -> Result<Pending, Error> {
        let (channel, conversation) = (&message.channel, &message.conversation);
        let caller = match self.decider(channel, conversation, &message.sender_id).await? {
            Ok(caller) => caller,
            Err(verdict) => return Ok(at_once(verdict)),
        };
        let mut found = match request_id.map(Button::named) {
            Some(named) => {
                let found = self.request_of(channel, conversation, &named.request_id).await?;
                let is_it = |request: &RequestRecord| named.digest.is_empty() || named.is_of(request);
                found.and_then(|request| if is_it(&request) { Ok(request) } else { Err(named.objection()) })
            }
            None => self.only_request(message, &decision).await?,
        };
        if let Ok(request) = &found
            && answering::is_yes(&decision)
            && request.state == RequestState::Open
            && !request.ask.is_question()
            && let Some(objection) = self.sight_of(request, message).await?.objection(request)
        {
            found = Err(objection);
        }
        self.decide_found(found, decision.into(), &caller).await
    }

    /// The sender as a caller who may decide, or what they hear who may not.
    async fn decider(
        &self,
        channel: &ChannelName,
        conversation: &ConversationKey,
        sender_id: &str,
    ) -> Result<Result<Caller, Verdict>, Error> {
        let rules = self.inner.inbox.rules(channel);
        let Some(role) = rules.and_then(|rules| rules.role(sender_id, Party::Person)) else {
            self.note_tap(channel, conversation, sender_id, sender_id).await?;
            return Ok(Err(Verdict::Unheard));
        };
        let caller = Caller::in_chat(format!("{channel}:{sender_id}"), role);
        let forbidden = |_| Verdict::Forbidden { text: "You may not decide on what Codex asks.".to_owned() };
        Ok(caller.may(Verb::Decide).map(|()| caller.clone()).map_err(forbidden))
    }

    async fn decide_found(
        &self,
        found: Result<RequestRecord, String>,
        choice: Choice,
        by: &Caller,
    ) -> Result<Pending, Error> {
        let decided = found.and_then(|request| Ok((decision_of(&request, choice)?, request)));
        let (decision, request) = match decided {
            Ok(decided) => decided,
            Err(text) => return Ok(at_once(Verdict::Forbidden { text })),
        };
        let task_id = request.task_id.as_str();
        let which = Which::Shown { request_id: request.request_id.as_str(), digest: &request.digest };
        let which =
            if answering::is_no(&decision) { Which::Named(request.request_id.as_str()) } else { which };
        let pending = Desk::new(self.clone()).begin_to_decide(by, task_id, which, decision).await?;
        Ok(async move { Ok(verdict(&request, &pending.await?)) }.boxed())
    }

    /// Somebody who may not even write tapped on a button.
    pub async fn note_tap(
        &self,
        channel: &ChannelName,
        conversation: &ConversationKey,
        sender_id: &str,
        sender_name: &str,
    ) -> Result<(), Error> {
        let knock = Knock {
            channel: channel.clone(),
            sender_id: sender_id.to_owned(),
            sender_name: self.inner.summary(sender_name),
            conversation: conversation.clone(),
            count: 1,
            last_at: self.inner.now(),
        };
        if let Some(note) = self.inner.inbox.knock(knock, "a button") {
            self.to_its_end(|bridge| async move { Ok(bridge.inner.commit(vec![note]).await?) }).await?;
        }
        Ok(())
    }

    /// A request of this conversation and of no other.
    async fn request_of(
        &self,
        channel: &ChannelName,
        key: &ConversationKey,
        request_id: &RequestName,
    ) -> Result<Result<RequestRecord, String>, Error> {
        let named = RequestFilter { request_id: Some(request_id.clone()), ..RequestFilter::default() };
        let found = self.inner.store.requests(&named).await?.into_iter().next();
        let unknown = || Ok(Err(format!("There is no request {request_id} in this conversation.")));
        let Some(request) = found else { return unknown() };
        let of_task = MessageFilter {
            channel: Some(channel.clone()),
            task_id: Some(request.task_id.clone()),
            ..MessageFilter::default()
        };
        // A conversation may be a part of what people see as one place.
        let is_part = |one: &Message| {
            one.conversation.as_str().strip_prefix(key.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let is_here = |one: &Message| one.conversation == *key || is_part(one);
        let is_here = self.inner.store.messages(&of_task).await?.iter().any(is_here);
        let is_here = is_here || self.was_told_at(&request, channel, key).await?;
        if is_here { Ok(Ok(request)) } else { unknown() }
    }

    /// Whether somebody had a request told to this place, though its task does not belong there.
    async fn was_told_at(
        &self,
        request: &RequestRecord,
        channel: &ChannelName,
        key: &ConversationKey,
    ) -> Result<bool, Error> {
        let of_task = DeliveryFilter { task_ids: vec![request.task_id.clone()], ..DeliveryFilter::default() };
        let is_there = |target: &str| {
            let place = target.strip_prefix("plugin:").unwrap_or(target).strip_prefix(channel.as_str());
            place.and_then(|place| place.strip_prefix(':')) == Some(key.as_str())
        };
        let told = |one: &Delivery| is_there(&one.target) && one.notice.tells_of(&request.request_id);
        Ok(self.inner.store.deliveries(&of_task).await?.iter().any(told))
    }

    /// The request that words without a name can mean.
    async fn only_request(
        &self,
        message: &Message,
        decision: &Decision,
    ) -> Result<Result<RequestRecord, String>, Error> {
        let conversation = self.conversation(&message.channel, &message.conversation).await?;
        let Some(task_id) = conversation.and_then(|one| one.task_id) else {
            return Ok(Err("Nothing is asked here.".to_owned()));
        };
        let mut open = self.open_requests(Some(task_id)).await?;
        if answering::is_yes(decision) {
            open = self.agreeable(open, message).await?;
        }
        Ok(match open.len() {
            0 => Err("Nothing is asked here.".to_owned()),
            1 => Ok(open.remove(0)),
            _ => {
                let ids: Vec<&str> = open.iter().map(|request| request.request_id.as_str()).collect();
                Err(format!("Several requests are open, say which one: {}", ids.join(", ")))
            }
        })
    }

    /// Those that a yes can mean: never a question, and of the others first what was shown.
    async fn agreeable(
        &self,
        mut open: Vec<RequestRecord>,
        message: &Message,
    ) -> Result<Vec<RequestRecord>, Error> {
        if open.iter().any(|request| !request.ask.is_question()) {
            open.retain(|request| !request.ask.is_question());
        }
        let mut shown = Vec::new();
        for request in &open {
            if self.sight_of(request, message).await? == Sight::Whole {
                shown.push(request.clone());
            }
        }
        Ok(if shown.is_empty() { open } else { shown })
    }

    /// Puts what is still open before people again: what they saw may be far up, or its buttons dead.
    pub(super) async fn remind(&self, channel: &ChannelName) -> Result<(), Error> {
        let running = MessageFilter {
            channel: Some(channel.clone()),
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
            for (number, some) in open.chunks(MOST_REQUESTS).enumerate() {
                let id =
                    DeliveryId(format!("{}-again-{}-{number}", message.own_reply_id(), self.inner.now()));
                let content = Content::Reminder(Reminder::new(&task, some));
                self.say_in(id, &message.reply_to, content).await?;
            }
        }
        Ok(())
    }

    /// Whether a request was put before people.
    pub(super) async fn was_told(&self, task: &Task, request_id: &RequestName) -> Result<bool, Error> {
        let told = DeliveryFilter {
            task_ids: vec![task.id.clone()],
            states: vec![outbox::State::Delivered],
            request_id: Some(request_id.clone()),
            limit: Some(1),
            ..DeliveryFilter::default()
        };
        Ok(!self.inner.store.deliveries(&told).await?.is_empty())
    }

    /// Writes a message of our own, once under its name.
    pub(super) async fn say_in(&self, id: DeliveryId, target: &str, content: Content) -> Result<(), Error> {
        let known = DeliveryFilter { id: Some(id.clone()), ..DeliveryFilter::default() };
        if !self.inner.store.deliveries(&known).await?.is_empty() {
            return Ok(());
        }
        let now = self.inner.now();
        let delivery = Delivery::new(id, target, Notice { at: now, content }, now);
        self.inner.commit(vec![Write::AddDelivery(Box::new(delivery))]).await?;
        Ok(())
    }

    /// The decision that words in a chat are, or what is wrong with them.
    pub(super) async fn answers_to(
        &self,
        message: &Message,
        request_id: &RequestName,
        text: &str,
    ) -> Result<Result<Decision, String>, Error> {
        let found = self.request_of(&message.channel, &message.conversation, request_id).await?;
        let read =
            |request: RequestRecord| answer::decision(&request.task_id, request_id, &request.ask, text);
        Ok(found.and_then(read))
    }
}

fn at_once(verdict: Verdict) -> Pending {
    ready(Ok(verdict)).boxed()
}

fn is_no(choice: &Choice) -> bool {
    matches!(choice, Choice::Decision(decision) if answering::is_no(decision))
}

fn is_yes(choice: &Choice) -> bool {
    matches!(choice, Choice::Decision(decision) if answering::is_yes(decision))
}

/// What a choice means for this request. A question takes no yes, since nobody would have answered it; nor does what was
/// not shown.
fn decision_of(request: &RequestRecord, choice: Choice) -> Result<Decision, String> {
    let id = &request.request_id;
    let instead = |wrong: &str| answer::instead(wrong, &request.task_id, id, &request.ask);
    if request.ask.is_question() && is_yes(&choice) {
        return Err(instead(&format!("{id} is a question, which takes no yes.")));
    }
    if is_yes(&choice) && request.ask.needs_reveal {
        let task = &request.task_id;
        return Err(format!(
            "{id} holds a secret that cannot be shown here, and is not approved here. On the machine, \
             `codex-bridge requests {task} --reveal` shows it and `codex-bridge approve {task} {id}` approves it; \
             /deny {id} denies it."
        ));
    }
    if is_yes(&choice) && !request.fits_a_chat() {
        let task = &request.task_id;
        return Err(format!(
            "{id} is too long to be shown in a chat, and is not approved in one. `codex-bridge requests {task}` shows \
             all of it, `codex-bridge approve {task} {id}` approves it."
        ));
    }
    match choice {
        Choice::Decision(decision) => Ok(decision),
        Choice::Option(number) => {
            answer::option(&request.ask, number).ok_or_else(|| instead(&format!("{id} has no such choice.")))
        }
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
