//! The input and output of the inbox machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codex_session::{Decision, SteerOutcome};

use super::decisions::{Named, Verdict, Visibility};
use crate::inbox::attachment::StoredFile;
use crate::inbox::{Conversation, Message, MessageId, Rules};
use crate::outbox::DeliveryId;
use crate::outbox::notice::{Suggestion, TextFormat};
use crate::place::Place;
use crate::request::{RequestName, RequestRecord};
use crate::task::{Settings, Task, TaskId, TimeMs};

/// What the machine needs to know beside the message. What the message's state does not need stays empty.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The operator's rules for the channel.
    pub rules: Arc<Rules>,
    /// How long tasks are kept.
    pub keep_tasks: Duration,
    /// The text; `None` if the message was acted on, or cannot be decrypted.
    pub text: Option<String>,
    /// The files of a message that waits for its turn.
    pub files: Vec<StoredFile>,
    /// The outcome of the last effect, if the machine needs it.
    pub outcome: Option<Outcome>,
    /// The conversation, if it is stored.
    pub conversation: Option<Conversation>,
    /// The message's task; while the message has none, the conversation's task, or that of the request of a comment.
    pub task: Option<Task>,
    /// Whether a turn of that task is running.
    pub is_driven: bool,
    /// When the turn of a running message began, if a failure has changed `updated_at` since.
    pub begun_at: Option<TimeMs>,
    /// The directory in which the conversation works.
    pub workspace: Option<Result<(PathBuf, Place), Failure>>,
    /// For a running message: all requests of the task. For a command: the open ones.
    pub requests: Vec<RequestRecord>,
    /// What the request name in a command means.
    pub named: Named,
    /// How much of each request had been shown where and when the message was written.
    pub visibilities: BTreeMap<RequestName, Visibility>,
    /// The requests that people were notified of.
    pub told: Vec<RequestName>,
    /// The waiting messages of the conversation, the oldest first.
    pub waiting: Vec<Message>,
    /// The text of the [`next_in_line`](super::next_in_line).
    pub next_text: Option<String>,
    /// The running messages of the task.
    pub of_task: Vec<Message>,
    /// Whether the task's log has the message as a steer.
    pub was_steered: bool,
    /// The reply of the turn that the message was added to, if it was written.
    pub reply_id: Option<DeliveryId>,
    /// The last diff of the task.
    pub diff: Option<String>,
    /// The message that this one edits, with its present text, if it is stored.
    pub edited: Option<Box<(Message, Option<String>)>>,
    /// The last prompt of the conversation that can be retried, with its text.
    pub failed: Option<Box<(Message, String)>>,
    /// The tasks that this conversation had, the last one first.
    pub tasks: Vec<KnownTask>,
    /// For `/resume`: the task that is meant, if there is one.
    pub resumed: Option<KnownTask>,
    /// For `/status`: the beginning of the last prompt that somebody wrote to the task, redacted.
    pub last_prompt: Option<String>,
}

/// A task that a conversation may continue.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownTask {
    /// The task.
    pub task: Task,
    /// The workspace of the channel that is its directory.
    pub workspace: Option<String>,
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

/// The outcome of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The effect failed.
    Failed(Failure),
    /// What Codex did with a steer.
    Steered(SteerOutcome),
    /// The desk does not let this sender steer the running turn, for this reason.
    NotAddable(String),
    /// The files of the message, after its text files were written into the workspace.
    Placed(Vec<StoredFile>),
    /// The task after it was interrupted; `None` if nothing was running.
    Stopped(Option<Box<Task>>),
    /// What became of a decision.
    Decided(Verdict),
    /// The branch of a task, or why there is none.
    Forked(Result<Box<Task>, String>),
}

/// Why an effect failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A retry may succeed.
    Transient(String),
    /// A retry cannot succeed.
    Permanent(String),
    /// The desk refuses it. This is the reply.
    Refused(String),
}

/// What the loop has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Skip the message until then.
    Wait(TimeMs),
    /// Look again when this task changes.
    Await(TaskId),
    /// Write this row.
    Save(Box<Message>),
    /// Answer a message, in one transaction.
    Reply(Box<Reply>),
    /// Write this row, with this text sealed anew, and with the files of another message if one is named.
    Rewrite(Box<Message>, String, Option<MessageId>),
    /// Make text of the recordings of the message, and store it.
    Transcribe,
    /// Write the text files among these into the workspace. The loop reports an [`Outcome`].
    Place(PathBuf, Place, Vec<StoredFile>),
    /// Send an interim notice, about a task if there is one, once under this id.
    Tell(DeliveryId, Option<Box<Task>>, String),
    /// Have the desk start or continue a task, in one transaction with the message.
    Begin(Box<ChatTurn>),
    /// Save the message, then have the desk add this text to the running turn. The loop reports an [`Outcome`].
    Steer(Box<Message>, String),
    /// Have the desk interrupt a task. The loop reports an [`Outcome`].
    Stop(TaskId),
    /// Have the desk fork a task, once for this message. The loop reports an [`Outcome`].
    Fork(TaskId),
    /// Have the desk decide. The loop reports an [`Outcome`], unless the message is running.
    Decide(Box<RequestRecord>, Decision),
    /// Decline a request, because nobody may decide.
    Decline(Box<RequestRecord>),
}

/// The reply to a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The message, as it is to be saved.
    pub message: Message,
    /// The task that the reply is about.
    pub task: Option<Task>,
    /// The text.
    pub text: String,
    /// What the text is written in.
    pub format: TextFormat,
    /// Other messages that the reply answers.
    pub added: Vec<Message>,
    /// The conversation, if it changes.
    pub conversation: Option<Conversation>,
    /// A message that gets this text instead of its own.
    pub rewritten: Option<(Message, String)>,
    /// Commands that may help, for buttons.
    pub suggestions: Vec<Suggestion>,
}

impl Reply {
    /// A reply in plain words, about no task. The message is as it is to be saved.
    pub(super) fn new(message: Message, text: String) -> Self {
        Self {
            message,
            task: None,
            text,
            format: TextFormat::Plain,
            added: Vec::new(),
            conversation: None,
            rewritten: None,
            suggestions: Vec::new(),
        }
    }
}

/// A turn for a message.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatTurn {
    /// The message, as it is to be saved; its task is filled in later.
    pub message: Message,
    /// The conversation. If it has a task, that is continued.
    pub conversation: Conversation,
    /// The prompt.
    pub prompt: String,
    /// Whether the images of the message are given to Codex with it.
    pub has_images: bool,
    /// The settings, from the operator's rules for the channel.
    pub settings: Settings,
    /// The limit for the turn's work time.
    pub limit: Option<Duration>,
    /// The target where people are asked; `None` if nobody there may decide.
    pub asks_in: Option<String>,
    /// Whether to tell the sender that the earlier history is gone.
    pub is_forgotten: bool,
}
