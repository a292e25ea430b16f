//! Carrying out what people command in a chat. Each command may be carried out twice, if we die before its reply is
//! written: so each is one that does no harm then.

use std::sync::Arc;

use codex_session::Decision;

use super::super::{Bridge, Error};
use super::{InHand, Piece};
use crate::desk::{Caller, Desk};
use crate::event::{Diff, Line};
use crate::inbox::command::HELP;
use crate::inbox::{Command, Conversation, Message, Rules, State, answer};
use crate::request::RequestRecord;
use crate::store::{MessageFilter, Write};
use crate::task::{Task, TimeMs};
use crate::token::Role;

/// What is about this moment is not carried out later than this.
const MOMENT_MS: TimeMs = 10 * 60 * 1000;
/// What its sender hears instead.
pub(super) const TOO_LONG_AGO: &str =
    "That was said too long ago to be carried out now. Say it again if it still holds.";
/// The most of a diff that is shown.
const DIFF_CHARS: usize = 6_000;

/// What is said to a command.
struct Said {
    text: String,
    /// The task that it is taken from.
    of: Option<Task>,
}

impl From<String> for Said {
    fn from(text: String) -> Self {
        Self { text, of: None }
    }
}

impl Bridge {
    /// A command that keeps its place among the messages.
    pub(super) async fn carry_out(&self, rules: &Rules, message: Message) -> Result<(), Error> {
        let Said { text, of } = match self.text(&message) {
            Ok(text) => self.outcome_of(rules, &message, &text).await?,
            Err(error) => error.to_string().into(),
        };
        self.reply(message, of.as_ref(), &text).await
    }

    /// A command that does not wait, beside the loop: some take as long as Codex takes.
    pub(super) fn carry_out_beside(&self, rules: &Arc<Rules>, message: Message) {
        let Some(in_hand) = InHand::take(&self.inner, Piece::Message(message.id.clone())) else { return };
        let (bridge, rules) = (self.clone(), Arc::clone(rules));
        self.inner.tasks.spawn(async move {
            let id = message.id.clone();
            if let Err(error) = bridge.carry_out_open(&rules, message).await {
                bridge.fail_beside(&rules, &id, &error).await;
            }
            drop(in_hand);
        });
    }

    /// Unless it was done between the loop's look and ours.
    async fn carry_out_open(&self, rules: &Rules, message: Message) -> Result<(), Error> {
        let now = MessageFilter { id: Some(message.id.clone()), ..MessageFilter::default() };
        match self.inner.store.messages(&now).await?.into_iter().next() {
            Some(message) if message.state == State::Received => self.carry_out(rules, message).await,
            _ => Ok(()),
        }
    }

    async fn outcome_of(&self, rules: &Rules, message: &Message, text: &str) -> Result<Said, Error> {
        let Some(command) = Command::parse(text) else { return Ok(HELP.to_owned().into()) };
        if is_too_late(&command, message, self.inner.now()) {
            return Ok(TOO_LONG_AGO.to_owned().into());
        }
        let known = self.conversation(&message.channel, &message.conversation).await?;
        let new = || Conversation::new(&message.channel, &message.conversation, self.inner.now());
        let conversation = known.unwrap_or_else(new);
        let task = match &conversation.task_id {
            Some(task_id) => self.inner.store.task(task_id).await?,
            None => None,
        };
        let text = match command {
            // Texts for Codex are messages, and never come here.
            Command::Help | Command::Steer(_) | Command::Enqueue(_) => HELP.to_owned(),
            Command::Unknown(what) => format!("{}.\n\n{HELP}", capitalised(&what)),
            Command::Status => self.status(rules, &conversation, task.as_ref()).await?,
            Command::Queue => self.waiting(&conversation).await?,
            Command::Stop => self.stop(rules, message, task.as_ref()).await?,
            Command::Approve(id) => self.decided(message, id, Decision::Accept).await?,
            Command::Deny(id) => self.decided(message, id, Decision::Decline).await?,
            Command::Answer { request_id, text } => match self.answers_to(message, &request_id, &text).await?
            {
                Ok(decision) => self.decided(message, Some(request_id.0), decision).await?,
                Err(wrong) => wrong,
            },
            Command::New => self.begin_anew(conversation).await?,
            Command::Projects => projects(rules, &conversation),
            Command::Project(name) => self.move_to(rules, conversation, &name).await?,
            // Of its task: what is too long for the platform is read there.
            Command::Diff => {
                let text = self.changes_of(task.as_ref()).await?;
                return Ok(Said { text, of: task });
            }
            Command::Usage => task.as_ref().map_or_else(nothing_yet, usage),
        };
        Ok(text.into())
    }

    async fn status(
        &self,
        rules: &Rules,
        conversation: &Conversation,
        task: Option<&Task>,
    ) -> Result<String, Error> {
        let Some(task) = task else { return Ok(nothing_yet()) };
        let view = self.show(task.id.as_str()).await?;
        let workspace = conversation.workspace.as_ref().unwrap_or(&rules.workspace);
        let mut lines = vec![format!("{} in {workspace}: {}", view.task.id, view.status())];
        lines.extend(view.task.reason.clone());
        lines.push(format!("Last asked: {}", view.task.prompt_summary));
        for request in &view.open_requests {
            let title = &request.ask.title;
            lines.push(format!("Waits for a decision: {title} – {}", how_to_decide(request)));
        }
        let waiting = self.waiting_messages(conversation).await?.len();
        if waiting > 0 {
            lines.push(format!("{waiting} more in the queue"));
        }
        Ok(lines.join("\n"))
    }

    async fn waiting(&self, conversation: &Conversation) -> Result<String, Error> {
        let waiting = self.waiting_messages(conversation).await?;
        if waiting.is_empty() {
            return Ok("Nothing waits.".to_owned());
        }
        let line = |(number, message): (usize, &Message)| {
            let start: String = message.summary.chars().take(80).collect();
            format!("{}. {} ({})", number + 1, start, message.sender_name)
        };
        Ok(waiting.iter().enumerate().map(line).collect::<Vec<_>>().join("\n"))
    }

    /// Prompts that wait behind the one that runs, the oldest first.
    async fn waiting_messages(&self, conversation: &Conversation) -> Result<Vec<Message>, Error> {
        let waiting = MessageFilter {
            channel: Some(conversation.channel.clone()),
            conversation: Some(conversation.key.clone()),
            states: vec![State::Received],
            ..MessageFilter::default()
        };
        let mut waiting = self.inner.store.messages(&waiting).await?;
        waiting.retain(|message| message.kind == crate::inbox::MessageKind::Prompt);
        waiting.reverse();
        Ok(waiting)
    }

    async fn stop(&self, rules: &Rules, message: &Message, task: Option<&Task>) -> Result<String, Error> {
        let Some(task) = task else { return Ok(nothing_yet()) };
        let role = rules.role(&message.sender_id, message.party).unwrap_or(Role::Viewer);
        let caller = Caller::in_chat(message.author(), role);
        match Desk::new(self.clone()).interrupt(&caller, task.id.as_str(), None).await {
            Ok(view) if view.task.status.is_at_rest() => {
                Ok(format!("{} is {}.", view.task.id, view.task.status))
            }
            // A message that waited is taken up already.
            Ok(view) => Ok(format!("{} was stopped; what waited begins.", view.task.id)),
            Err(Error::WrongState { .. }) => Ok("Nothing runs.".to_owned()),
            Err(error) => Err(error),
        }
    }

    async fn decided(
        &self,
        message: &Message,
        id: Option<String>,
        decision: Decision,
    ) -> Result<String, Error> {
        let pending = self.decide_in_words(message, id.as_deref(), decision).await?;
        Ok(pending.await?.text().to_owned())
    }

    async fn begin_anew(&self, mut conversation: Conversation) -> Result<String, Error> {
        conversation.task_id = None;
        self.save_conversation(conversation).await?;
        Ok("The next message begins a new conversation with Codex.".to_owned())
    }

    async fn move_to(
        &self,
        rules: &Rules,
        mut conversation: Conversation,
        name: &str,
    ) -> Result<String, Error> {
        if !rules.workspaces.contains_key(name) {
            return Ok(format!("There is no workspace {name}.\n{}", projects(rules, &conversation)));
        }
        // A thread belongs to where it works.
        (conversation.workspace, conversation.task_id) = (Some(name.to_owned()), None);
        self.save_conversation(conversation).await?;
        Ok(format!("From here on Codex works in {name}, in a new conversation."))
    }

    async fn save_conversation(&self, mut conversation: Conversation) -> Result<(), Error> {
        conversation.updated_at = self.inner.now();
        self.inner.commit(vec![Write::SaveConversation(Box::new(conversation))]).await?;
        Ok(())
    }

    async fn changes_of(&self, task: Option<&Task>) -> Result<String, Error> {
        let Some(task) = task else { return Ok(nothing_yet()) };
        let last = self.inner.store.last_diff(&task.id).await?;
        let Some(Line::Diff(Diff { diff })) = last.map(|event| event.line) else {
            return Ok("The last turn changed nothing.".to_owned());
        };
        let shown: String = diff.chars().take(DIFF_CHARS).collect();
        let is_cut = shown.len() < diff.len();
        Ok(if is_cut { format!("{shown}\n… (cut; the task is {})", task.id) } else { shown })
    }
}

/// Whether a command is about a moment that is over.
pub(super) fn is_too_late(command: &Command, message: &Message, now: TimeMs) -> bool {
    command.ages() && now - message.sent_at > MOMENT_MS
}

fn how_to_decide(request: &RequestRecord) -> String {
    let id = &request.request_id;
    if request.ask.is_question() {
        answer::how(&request.task_id, id, &request.ask)
    } else {
        format!("/approve {id} or /deny {id}")
    }
}

fn nothing_yet() -> String {
    "Codex has done nothing here yet.".to_owned()
}

fn usage(task: &Task) -> String {
    let tokens = task.usage.map_or(0, |usage| usage.total.total);
    format!("{} turns, {} s of work, {tokens} tokens", task.used.turns, task.used.work_ms / 1000)
}

fn projects(rules: &Rules, conversation: &Conversation) -> String {
    let own = conversation.workspace.as_ref().unwrap_or(&rules.workspace);
    let line = |name: &String| if name == own { format!("{name} (here)") } else { name.clone() };
    format!("Codex can work in: {}", rules.workspaces.keys().map(line).collect::<Vec<_>>().join(", "))
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
