//! Adding messages to the turn that runs: recorded before it is tried, once, under the message's own name. Whether Codex
//! took it is known when Codex says so, or else when the turn is over: then it is a part of the turn, by that name, or
//! it waits its turn like any other.

use std::sync::Arc;

use codex_session::SteerOutcome;

use super::super::{Bridge, Error, Giver};
use super::commanding::{TOO_LONG_AGO, is_too_late};
use super::{InHand, Piece};
use crate::failpoint;
use crate::inbox::{Command, Message, MessageId, MessageKind, Party, Rules, State};
use crate::outbox::DeliveryId;
use crate::outbox::notice::{Content, Reply};
use crate::store::MessageFilter;
use crate::task::{GiverKind, Status, Task, TaskId};

/// What somebody hears whose addition was on its way when all went wrong.
const MAY_BE_LOST: &str =
    "It is not known whether Codex took this before it failed. Say it again if it still holds.";

/// What somebody hears whose addition Codex refused.
const WAITS_INSTEAD: &str = "Codex takes nothing into what runs now: this waits its turn instead.";

impl Message {
    /// Whether it is to be added to a turn, and it is not known to be a part of one.
    pub(super) fn is_to_be_added(&self) -> bool {
        self.kind == MessageKind::Steer && self.sealed_text.is_some()
    }

    /// Whether it was received, and keeps its place among the others.
    pub(super) fn waits_in_line(&self) -> bool {
        self.state == State::Received && self.kind != MessageKind::UrgentCommand
    }
}

impl Bridge {
    /// The very next of what waits behind a message that runs is added to its turn, if it is one for that.
    pub(super) async fn steer_with_next(&self, running: &Message) -> Result<(), Error> {
        let runs = running.task_id.as_ref().is_some_and(|task_id| self.inner.runner(task_id).is_some());
        if !runs {
            return Ok(());
        }
        let waiting = MessageFilter {
            channel: Some(running.channel.clone()),
            conversation: Some(running.conversation.clone()),
            states: vec![State::Received],
            ..MessageFilter::default()
        };
        let waiting = self.inner.store.messages(&waiting).await?;
        let is_ordered = |one: &Message| matches!(one.kind, MessageKind::Prompt | MessageKind::Command);
        let Some(mut next) = waiting.into_iter().rev().find(is_ordered) else { return Ok(()) };
        if next.kind == MessageKind::Prompt && !self.is_to_wait(&next) {
            next.kind = MessageKind::Steer;
            self.save_message(&mut next).await?;
            self.inner.inbox.look();
        }
        Ok(())
    }

    /// Whether its sender wants it to wait its turn, or the turn did not take it before, or it cannot be read now.
    fn is_to_wait(&self, message: &Message) -> bool {
        if message.task_id.is_some() {
            return true;
        }
        match self.text(message) {
            Ok(text) => {
                message.party == Party::Person && matches!(Command::parse(&text), Some(Command::Enqueue(_)))
            }
            Err(_) => true,
        }
    }

    /// Adds to the turn that runs, beside the loop; one of a conversation at a time, so that they keep their order.
    pub(super) fn steer_beside(&self, rules: &Arc<Rules>, message: Message) {
        let additions = Piece::Additions(message.channel.clone(), message.conversation.clone());
        let Some(in_hand) = InHand::take(&self.inner, additions) else { return };
        let (bridge, rules) = (self.clone(), Arc::clone(rules));
        self.inner.tasks.spawn(async move {
            if let Err(error) = bridge.add_to_turn(&message.id).await {
                bridge.fail_beside(&rules, &message.id, &error).await;
            }
            drop(in_hand);
        });
    }

    /// One of which it is not known whether Codex took it is looked for when its turn is over, and left alone until then.
    pub(super) async fn find_once_over(&self, rules: &Arc<Rules>, message: Message) -> Result<(), Error> {
        let Some(task_id) = message.task_id.clone() else { return Ok(()) };
        // Before the look, so that no end falls between the two.
        self.inner.inbox.awaited().insert(task_id.clone());
        let task = self.inner.store.task(&task_id).await?;
        if task.is_none_or(|task| task.status.is_at_rest()) {
            self.inner.inbox.awaited().remove(&task_id);
            self.steer_beside(rules, message);
        }
        Ok(())
    }

    async fn add_to_turn(&self, id: &MessageId) -> Result<(), Error> {
        let now = MessageFilter { id: Some(id.clone()), ..MessageFilter::default() };
        let found = self.inner.store.messages(&now).await?.into_iter().next();
        // Unless it was done between the loop's look and ours.
        let Some(message) = found.filter(Message::is_to_be_added) else { return Ok(()) };
        match (message.state, message.task_id.clone()) {
            (State::Received, _) => self.add_first(message).await,
            (State::Running, Some(task_id)) => self.find_added(message, &task_id).await,
            _ => Ok(()),
        }
    }

    async fn add_first(&self, mut message: Message) -> Result<(), Error> {
        if self.is_stale_steer(&message)? {
            return self.reply(message, None, TOO_LONG_AGO).await;
        }
        let text = self.prompt(&message)?;
        self.inner.check_prompt(&text)?;
        let conversation = self.conversation(&message.channel, &message.conversation).await?;
        let task_id = conversation.and_then(|one| one.task_id);
        let running = task_id.filter(|task_id| self.inner.runner(task_id).is_some());
        let Some(task_id) = running else { return self.wait_its_turn(message, None).await };
        (message.state, message.task_id) = (State::Running, Some(task_id.clone()));
        failpoint::hit("steer.before_record");
        self.save_message(&mut message).await?;
        failpoint::hit("steer.recorded");
        let by = Giver { name: message.author(), token: None, kind: GiverKind::Other };
        let outcome = self.steer_as(task_id.as_str(), &text, &by, message.id.0.clone()).await;
        failpoint::hit("steer.given");
        match outcome {
            Ok(SteerOutcome::Accepted) => {
                message.sealed_text = None;
                Ok(self.save_message(&mut message).await?)
            }
            // Refused in so many words. Not so the others: a turn that is over may have taken it with its last breath.
            Ok(SteerOutcome::NotSteerable) => self.queue_instead(message, task_id).await,
            _ => Ok(()),
        }
    }

    /// It waits its turn, since the one that runs takes nothing; whoever wanted it added hears so.
    async fn queue_instead(&self, message: Message, task_id: TaskId) -> Result<(), Error> {
        // An agent would answer it.
        let is_told = message.party == Party::Person;
        if let Some(task) = self.inner.store.task(&task_id).await?.filter(|_| is_told) {
            let id = DeliveryId(format!("{}-queued", message.own_reply_id()));
            let content = Content::Reply(Reply::new(Some(&task), WAITS_INSTEAD));
            self.say_in(id, &message.reply_to, content).await?;
        }
        self.wait_its_turn(message, Some(task_id)).await
    }

    /// Whether it was to be added to what ran long ago. A message that is added for being the next one does not age.
    fn is_stale_steer(&self, message: &Message) -> Result<bool, Error> {
        let is_ordered = message.party == Party::Person;
        let command = Command::parse(&self.text(message)?).filter(|_| is_ordered);
        Ok(command.is_some_and(|command| is_too_late(&command, message, self.inner.now())))
    }

    /// Looks for one of which it is not known whether Codex took it, once its turn is over: what Codex took under a name
    /// is in the log by then, live or read back.
    async fn find_added(&self, mut message: Message, task_id: &TaskId) -> Result<(), Error> {
        let task = self.inner.store.task(task_id).await?;
        let Some(task) = task else { return self.wait_its_turn(message, None).await };
        if !task.status.is_at_rest() {
            return Ok(());
        }
        if self.inner.store.was_steered(task_id, message.id.as_str()).await? {
            message.sealed_text = None;
            return Ok(self.save_message(&mut message).await?);
        }
        match task.status {
            // Not all of such a turn may have been seen.
            Status::Failed | Status::Lost => self.reply(message, Some(&task), MAY_BE_LOST).await,
            _ => self.wait_its_turn(message, None).await,
        }
    }

    /// It is a prompt like any other; or one that is not added again, if it names the task whose turn refused it.
    async fn wait_its_turn(&self, mut message: Message, refused_by: Option<TaskId>) -> Result<(), Error> {
        (message.state, message.kind, message.task_id) = (State::Received, MessageKind::Prompt, refused_by);
        message.next_at = self.inner.now();
        self.save_message(&mut message).await?;
        self.inner.inbox.look();
        Ok(())
    }

    /// Messages that were added to a turn which was answered before that was known.
    pub(super) async fn close_added(&self, running: Vec<Message>, task: &Task) -> Result<(), Error> {
        let of_task = MessageFilter { task_id: Some(task.id.clone()), ..MessageFilter::default() };
        let answered = self.inner.store.messages(&of_task).await?;
        let reply_id = answered.into_iter().find_map(|message| message.reply_id);
        for mut added in running {
            if added.sealed_text.is_none() {
                (added.state, added.reply_id) = (State::Answered, reply_id.clone());
                self.save_message(&mut added).await?;
            }
        }
        Ok(())
    }
}
