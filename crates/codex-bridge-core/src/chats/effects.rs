//! Performs the effects of the inbox machine: writes rows, and calls the desk for what a chat asks for.

use std::time::Duration;

use codex_session::Decision;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use tracing::warn;

use super::Chats;
use super::worker::{WorkGuard, WorkItem};
use crate::bridge::{Error, Inner, RequestSelector};
use crate::decision::is_no;
use crate::desk::calls::Fork;
use crate::desk::{Caller, Verb};
use crate::failpoint;
use crate::inbox::machine::decisions::{self, Choice, MAY_NOT, Meant, Verdict};
use crate::inbox::machine::{Effect, Failure, NO_APPROVER, Outcome, Reply};
use crate::inbox::reply::{self, ReplyText};
use crate::inbox::{ChannelName, ConversationKey, Message, MessageState, Party, Rules};
use crate::outbox::notice::{self, Content};
use crate::outbox::{Asked, Delivery, DeliveryId, Notice};
use crate::request::{Button, RequestRecord};
use crate::store::{DeliveryFilter, Write};
use crate::task::TimeMs;
use crate::token::Role;

/// The pause after a decision outside the loop has failed.
const FAILED_PAUSE: Duration = Duration::from_secs(2);

/// The verdict on a choice, once Codex has confirmed it. The choice itself is already stored.
pub type PendingVerdict = BoxFuture<'static, Result<Verdict, Error>>;

impl Error {
    /// Whether the store as a whole failed, so that every other message would fail too.
    pub(super) fn affects_whole_store(&self) -> bool {
        matches!(self, Self::Store(error) if error.affects_whole_store())
    }
}

impl Inner {
    /// What an error means for the message that caused it.
    pub(super) fn failure(&self, error: &Error) -> Failure {
        let why = self.shown_error(&error.to_string());
        match error {
            Error::Forbidden(forbidden) => {
                Failure::Refused(format!("Not allowed: {why}; {}.", forbidden.hint))
            }
            Error::NotAdmitted(refusal) => Failure::Refused(format!("Not allowed: {why}; {}.", refusal.hint)),
            Error::UnknownRequest(_)
            | Error::NoOpenRequest(_)
            | Error::AmbiguousRequest(_)
            | Error::IsQuestion(_)
            | Error::NotShown(_)
            | Error::NeedsReveal(_)
            | Error::NotOpened(_)
            | Error::AnotherRequest(_)
            | Error::BadAnswers(_) => Failure::Refused(format!("{why}.")),
            // A retry would be refused again.
            Error::Refused(_) | Error::EmptyPrompt | Error::PromptTooLong { .. } => Failure::Permanent(why),
            Error::Closing
            | Error::NotThere(_)
            | Error::WrongState { .. }
            | Error::Token(_)
            | Error::Undelivered { .. }
            | Error::Store(_)
            | Error::CutOff
            | Error::Hosts(_)
            // A chat causes none of these.
            | Error::NotSteered(_)
            | Error::TooLate(_)
            | Error::UnknownDecision(_)
            | Error::DigestMissing
            | Error::UnknownTask(_)
            | Error::AmbiguousTask(_)
            | Error::BadRequestName(_)
            | Error::KeyReused(_)
            | Error::BadTarget(_)
            | Error::UnknownTarget(_)
            | Error::UnknownMessage(_)
            | Error::UnknownDelivery(_) => Failure::Transient(why),
        }
    }
}

impl Chats {
    /// Performs an effect. Returns its outcome if the machine needs it.
    pub(super) async fn perform(
        &self,
        rules: &Rules,
        message: &Message,
        effect: Effect,
        now: TimeMs,
    ) -> Result<Option<Outcome>, Error> {
        let role = rules.role_of(message).unwrap_or(Role::Viewer);
        let caller = Caller::in_chat(message.author(), role, message.party);
        let desk = self.desk();
        match effect {
            // The loop handles waits.
            Effect::Wait(_) => {}
            Effect::Await(task_id) => self.inbox.await_task(task_id),
            Effect::Save(message) => {
                self.inner().commit(vec![Write::SaveMessage(message)]).await?;
                self.inbox.wake();
            }
            Effect::Reply(reply) => self.reply(*reply, now).await?,
            Effect::Rewrite(message, text, files_of) => {
                let mut batch = match files_of.filter(|_| !message.attached.is_nothing()) {
                    Some(from) => self.copied_files(&from, &message.id).await?,
                    None => Vec::new(),
                };
                batch.push(self.rewritten(*message, &text)?);
                self.inner().commit(batch).await?;
                self.inbox.wake();
            }
            Effect::Transcribe => self.transcribe(rules, message).await?,
            Effect::Place(cwd, place, files) => {
                let placed = self.place_files(message, &cwd, place, files).await?;
                return Ok(Some(Outcome::Placed(placed)));
            }
            Effect::Tell(id, task, text) => {
                let text = self.inner().config.redactor.redact(&text);
                let content = Content::Reply(notice::Reply::new(task.as_deref(), &text));
                self.say_once(id, &message.reply_to, content, now).await?;
            }
            Effect::Begin(turn) => match desk.take_message(&caller, *turn).await {
                // Another caller began a turn first.
                Err(Error::WrongState { task_id, .. }) => self.inbox.await_task(task_id),
                taken => {
                    taken?;
                    self.inbox.changed();
                }
            },
            Effect::Steer(message, text) => return self.steer_once(&caller, *message, &text).await,
            Effect::Stop(task_id) => {
                return match desk.interrupt(&caller, task_id.as_str(), None).await {
                    Ok(view) => Ok(Some(Outcome::Stopped(Some(Box::new(view.task))))),
                    Err(Error::WrongState { .. }) => Ok(Some(Outcome::Stopped(None))),
                    Err(error) => Err(error),
                };
            }
            Effect::Fork(task_id) => {
                let client_request_id = Some(message.id.0.clone());
                let fork = Fork { prompt: None, client_request_id };
                let forked = match desk.fork(&caller, task_id.as_str(), fork).await {
                    Ok(view) => Ok(Box::new(view.task)),
                    Err(error @ (Error::WrongState { .. } | Error::Refused(_))) => {
                        Err(self.inner().shown_error(&error.to_string()))
                    }
                    Err(error) => return Err(error),
                };
                return Ok(Some(Outcome::Forked(forked)));
            }
            // The loop itself may carry this out, and must not wait for Codex.
            Effect::Decide(request, decision) if message.state == MessageState::Running => {
                let (chats, asked) = (self.clone(), request.clone());
                self.decide_outside(message, &request, async move {
                    chats.decide_as(&caller, *asked, decision).await?.await.map(drop)
                });
            }
            Effect::Decide(request, decision) => {
                let verdict = self.decide_as(&caller, *request, decision).await?.await?;
                return Ok(Some(Outcome::Decided(verdict)));
            }
            Effect::Decline(request) => self.decline(message, &request),
        }
        Ok(None)
    }

    /// Writes a reply, in one transaction with the messages that it answers.
    async fn reply(&self, reply: Reply, now: TimeMs) -> Result<(), Error> {
        let Reply { message, task, text, format, added, conversation, rewritten, suggestions } = reply;
        let id = message.reply_id.clone().unwrap_or_else(|| message.own_reply_id());
        let text = self.inner().config.redactor.redact(&text);
        let said = ReplyText { text: text.into_owned(), format, suggestions };
        let delivery = reply::delivery(&message, id, task.as_ref(), said, now);
        let mut batch = vec![Write::AddDelivery(Box::new(delivery))];
        batch.extend([message].into_iter().chain(added).map(|one| Write::SaveMessage(Box::new(one))));
        batch.extend(conversation.map(|one| Write::SaveConversation(Box::new(one))));
        batch.extend(rewritten.map(|(message, text)| self.rewritten(message, &text)).transpose()?);
        failpoint::hit("inbox.before_reply");
        self.inner().commit(batch).await?;
        failpoint::hit("inbox.reply_recorded");
        self.inbox.wake();
        Ok(())
    }

    /// A message with this text instead of its own.
    fn rewritten(&self, message: Message, text: &str) -> Result<Write, Error> {
        let sealed = self.inner().key.seal(text.as_bytes(), message.id.as_str())?;
        Ok(Write::SaveMessage(Box::new(Message { sealed_text: Some(sealed), ..message })))
    }

    /// Writes a short line about a message of a person, once for each `what`.
    pub async fn say_of(&self, message: &Message, what: &str, text: &str) -> Result<(), Error> {
        let id = DeliveryId(format!("{}-{what}", message.own_reply_id()));
        let content = Content::Reply(notice::Reply {
            in_reply_to: Some(message.external_id.clone()),
            ..notice::Reply::new(None, text)
        });
        let (target, now) = (message.reply_to.clone(), self.inner().now());
        self.to_completion(|chats| async move { chats.say_once(id, &target, content, now).await }).await
    }

    /// Writes a notice, unless one with this id exists.
    pub(super) async fn say_once(
        &self,
        id: DeliveryId,
        target: &str,
        content: Content,
        now: TimeMs,
    ) -> Result<(), Error> {
        let known = DeliveryFilter { id: Some(id.clone()), ..DeliveryFilter::default() };
        if !self.inner().store.deliveries(&known).await?.is_empty() {
            return Ok(());
        }
        let delivery = Delivery::new(id, target, Notice { at: now, content }, now);
        self.inner().commit(vec![Write::AddDelivery(Box::new(delivery))]).await?;
        Ok(())
    }

    /// Adds a message to the running turn, under the message's id. The intent is stored first.
    async fn steer_once(
        &self,
        caller: &Caller,
        message: Message,
        text: &str,
    ) -> Result<Option<Outcome>, Error> {
        let (id, channel, task_id) = (message.id.clone(), message.channel.clone(), message.task_id.clone());
        let is_comment = message.is_comment();
        let Some(task_id) = task_id else { return Ok(None) };
        failpoint::hit("steer.before_record");
        self.inner().commit(vec![Write::SaveMessage(Box::new(message))]).await?;
        failpoint::hit("steer.recorded");
        let outcome = self.desk().steer_as(caller, task_id.as_str(), text, Some(id.0.clone())).await;
        failpoint::hit("steer.given");
        match outcome {
            Ok(outcome) => Ok(Some(Outcome::Steered(outcome))),
            Err(Error::NotAdmitted(refusal)) => Ok(Some(Outcome::NotAddable(refusal.message))),
            Err(error @ (Error::Forbidden(_) | Error::EmptyPrompt | Error::PromptTooLong { .. })) => {
                // The request is declined all the same.
                if is_comment { Ok(Some(Outcome::NotAddable(error.to_string()))) } else { Err(error) }
            }
            // Codex may have taken the text. That is known once the turn has ended.
            Err(error) => {
                warn!(%channel, message_id = %id, task = %task_id, %error, "unknown whether Codex took a message; checked when the turn ends");
                Ok(None)
            }
        }
    }

    /// Declines a request at once, because nobody in this conversation may decide.
    fn decline(&self, message: &Message, request: &RequestRecord) {
        let (bridge, asked) = (self.bridge().clone(), request.clone());
        self.decide_outside(message, request, async move {
            let which = RequestSelector::Named(asked.request_id.as_str());
            bridge.decide(asked.task_id.as_str(), which, Decision::Decline, NO_APPROVER).await.map(drop)
        });
    }

    /// Decides on a request outside the loop. The loop is woken at the end.
    fn decide_outside(
        &self,
        message: &Message,
        request: &RequestRecord,
        decided: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) {
        let item = WorkItem::Request(request.request_id.clone());
        let Some(in_progress) = WorkGuard::take(&self.inbox, item) else { return };
        let (channel, message_id) = (message.channel.clone(), message.id.clone());
        let (task_id, request_id) = (request.task_id.clone(), request.request_id.clone());
        self.inner().spawn(async move {
            if let Err(error) = decided.await {
                warn!(%channel, %message_id, task = %task_id, request = %request_id, %error, "a request could not be declined yet");
                // Otherwise the loop would try again at once.
                tokio::time::sleep(FAILED_PAUSE).await;
            }
            drop(in_progress);
        });
    }

    /// Decides on a request by the button that a conversation was shown. Returns once the choice is stored. The
    /// returned future waits until Codex has confirmed it.
    pub async fn decide_in_chat(
        &self,
        channel: &ChannelName,
        conversation: &ConversationKey,
        sender_id: &str,
        button: Button,
        choice: Choice,
    ) -> Result<PendingVerdict, Error> {
        let rules = self.inbox.rules(channel);
        let Some(role) = rules.and_then(|rules| rules.role(sender_id, Party::Person, conversation)) else {
            self.note_tap(channel, conversation, sender_id, sender_id).await?;
            return Ok(at_once(Verdict::NotAllowed));
        };
        let caller = Caller::in_chat(format!("{channel}:{sender_id}"), role, Party::Person);
        if caller.may(Verb::Decide).is_err() {
            return Ok(at_once(Verdict::Forbidden { text: MAY_NOT.to_owned() }));
        }
        let named = self.request_of(channel, conversation, &button.request_id).await?;
        match decisions::by_button(&named, &button, choice) {
            Ok(Meant::Decision(request, decision)) => self.decide_as(&caller, *request, decision).await,
            Ok(Meant::Next(request, chosen)) => {
                Ok(at_once(Verdict::Next { asked: Box::new(Asked::of(&request)), chosen }))
            }
            Ok(Meant::Comment) => Ok(at_once(Verdict::Comment)),
            Err(text) => Ok(at_once(Verdict::Forbidden { text })),
        }
    }

    async fn decide_as(
        &self,
        caller: &Caller,
        request: RequestRecord,
        decision: Decision,
    ) -> Result<PendingVerdict, Error> {
        let request_id = request.request_id.as_str();
        let shown = RequestSelector::Shown { request_id, digest: &request.digest };
        let which = if is_no(&decision) { RequestSelector::Named(request_id) } else { shown };
        let pending = self.desk().record_decision(caller, request.task_id.as_str(), which, decision).await?;
        let chats = self.clone();
        let verdict = async move {
            let mut report = pending.await?;
            if let Some(by) = report.decided_by.as_mut() {
                *by = chats.name_of(by).await?;
            }
            Ok(Verdict::of(report))
        };
        Ok(verdict.boxed())
    }
}

fn at_once(verdict: Verdict) -> PendingVerdict {
    ready(Ok(verdict)).boxed()
}
