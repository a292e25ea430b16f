//! What goes into the machine of the inbox, and what comes out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codex_session::{Decision, SteerOutcome};

use super::decisions::Sight;
use crate::inbox::{Conversation, Message, Rules};
use crate::outbox::DeliveryId;
use crate::place::Place;
use crate::request::{RequestName, RequestRecord};
use crate::task::{Settings, Task, TaskId, TimeMs};

/// What the machine has to know beside the message. The loop gathers what the message's state needs; the rest stays empty.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The operator's rules of the channel.
    pub rules: Arc<Rules>,
    /// How long tasks are kept.
    pub keep_tasks: Duration,
    /// What the message says; none if it was acted on, or cannot be opened.
    pub text: Option<String>,
    /// What came of the effect before, if the machine has to know.
    pub outcome: Option<Outcome>,
    /// The conversation, if it is known.
    pub conversation: Option<Conversation>,
    /// The task of the message; the task of its conversation as long as the message has none.
    pub task: Option<Task>,
    /// Whether a turn of that task runs.
    pub is_driven: bool,
    /// When the turn of a running message began, where a failure has changed `updated_at` since.
    pub begun_at: Option<TimeMs>,
    /// Where the conversation works.
    pub workspace: Option<Result<(PathBuf, Place), Failure>>,
    /// Running: all requests of the task. A command: the open ones.
    pub requests: Vec<RequestRecord>,
    /// The request of this conversation that a command names.
    pub named: Option<RequestRecord>,
    /// What had been seen of requests where the message was written, when it was.
    pub sights: BTreeMap<RequestName, Sight>,
    /// Which of the requests were put before people.
    pub told: Vec<RequestName>,
    /// What waits in the conversation, the oldest first.
    pub waiting: Vec<Message>,
    /// What [`next_in_line`](super::next_in_line) of them says.
    pub next_text: Option<String>,
    /// The running messages of the task.
    pub of_task: Vec<Message>,
    /// Whether the log of the task has the message.
    pub was_steered: bool,
    /// The reply of the turn that the message was added to, if that turn was answered.
    pub reply_id: Option<DeliveryId>,
    /// The last changes of the task.
    pub diff: Option<String>,
}

impl Facts {
    /// When the turn of a running message began.
    pub(crate) fn begun_at(&self, message: &Message) -> TimeMs {
        self.begun_at.unwrap_or(message.updated_at)
    }

    pub(super) fn conversation_of(&self, message: &Message, now: TimeMs) -> Conversation {
        let new = || Conversation::new(&message.channel, &message.conversation, now);
        self.conversation.clone().unwrap_or_else(new)
    }
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Something went wrong on the way.
    Failed(Failure),
    /// Codex was given words for the running turn.
    Steered(SteerOutcome),
    /// The rules about who may do what keep the words from the running turn, for this reason.
    NotAddable(String),
    /// The task after it was stopped; none if nothing ran.
    Stopped(Option<Box<Task>>),
    /// A decision was made, or not, in words.
    Decided(String),
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It may be possible later.
    Transient(String),
    /// It will never be possible.
    Permanent(String),
    /// The desk does not allow it: that is the answer.
    Refused(String),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Leave the message alone until then.
    Wait(TimeMs),
    /// Look again when this task has changed.
    Await(TaskId),
    /// Write this row.
    Save(Box<Message>),
    /// Answer a message, in one transaction.
    Reply(Box<Reply>),
    /// Tell the sender something about a task on the way, once under this name.
    Tell(DeliveryId, Box<Task>, String),
    /// Have the desk start a task, or continue it, in one transaction with the message.
    Begin(Box<ChatTurn>),
    /// Write the row; then have the desk add these words to the running turn. What comes of it is an [`Outcome`].
    Steer(Box<Message>, String),
    /// Have the desk stop a task. What comes of it is an [`Outcome`].
    Stop(TaskId),
    /// Have the desk decide. What comes of it is an [`Outcome`].
    Decide(Box<RequestRecord>, Decision),
    /// Decline a request, since nobody may decide.
    Decline(Box<RequestRecord>),
}

/// The reply to a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The message as it is from then on.
    pub message: Message,
    /// The task that the reply is taken from.
    pub task: Option<Task>,
    /// The words.
    pub text: String,
    /// Other messages that the reply answers.
    pub added: Vec<Message>,
    /// The conversation, if it changes.
    pub conversation: Option<Conversation>,
}

/// A turn that a message asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatTurn {
    /// The message as it is from then on, but for its task.
    pub message: Message,
    /// The conversation. Its task is continued, if it has one.
    pub conversation: Conversation,
    /// What to do.
    pub prompt: String,
    /// How Codex runs it: the operator's rules of the channel.
    pub settings: Settings,
    /// How long the turn may work.
    pub limit: Option<Duration>,
    /// Where people are asked; none if nobody there may decide.
    pub asks_in: Option<String>,
    /// Whether the sender is told that what was said before is forgotten.
    pub is_forgotten: bool,
}
