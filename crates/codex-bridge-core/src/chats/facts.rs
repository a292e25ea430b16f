//! Gathers the facts that the inbox machine needs about a message, from the store and the file system. Changes nothing.

use std::path::PathBuf;
use std::sync::Arc;

use codex_wire::reason;

use super::Chats;
use super::message_turn::{began_at, is_asked_for};
use crate::bridge::{Error, Inner};
use crate::event::{Diff, Line};
use crate::inbox::machine::decisions::{Named, Visibility, bare};
use crate::inbox::machine::{self, Facts, Failure, KnownTask, LISTED, Outcome};
use crate::inbox::{
    Attached, ChannelName, Command, Conversation, ConversationKey, Message, MessageKind, MessageState, Rules,
    WhileRunning,
};
use crate::outbox::{self, Delivery};
use crate::place::Place;
use crate::request::{Button, RequestName, RequestRecord, RequestState};
use crate::store::{DeliveryFilter, MessageFilter};
use crate::task::{Task, TaskId};

/// How many messages of a conversation are looked at for its tasks and its last prompt.
const LOOKED_BACK: u32 = 200;

impl Inner {
    /// The text of a message, if it is still stored and the key opens it.
    fn text(&self, message: &Message) -> Option<String> {
        let opened = self.key.open(message.sealed_text.as_deref()?, message.id.as_str()).ok()?;
        String::from_utf8(opened).ok()
    }
}

impl Chats {
    /// The facts for a message in its present state.
    pub(super) async fn facts(
        &self,
        rules: &Arc<Rules>,
        message: &Message,
        outcome: Option<Outcome>,
    ) -> Result<Facts, Error> {
        let inner = &self.inner();
        let (rules, keep_tasks) = (Arc::clone(rules), inner.config.keep_tasks);
        let text = inner.text(message);
        let mut facts = Facts { rules, keep_tasks, text, outcome, ..Facts::default() };
        if matches!(facts.outcome, Some(Outcome::Failed(_) | Outcome::Stopped(_))) {
            return Ok(facts);
        }
        if matches!(facts.outcome, Some(Outcome::Decided(_))) && message.state == MessageState::Received {
            return Ok(facts);
        }
        let state = machine::NextStep::of(message, facts.text.as_deref());
        if let Some(about) = &message.about {
            facts.named = self.request_of(&message.channel, &message.conversation, about.request()).await?;
        }
        if message.state == MessageState::Received {
            facts.conversation = self.conversation(&message.channel, &message.conversation).await?;
            let own = facts.conversation.as_ref().and_then(|one| one.task_id.as_ref());
            facts.task = match &facts.named {
                // People may be asked here on behalf of a task of another conversation.
                Named::One(request) if message.is_comment() => self.task_of(Some(&request.task_id)).await?,
                _ => self.task_of(own).await?,
            };
        } else {
            facts.task = self.task_of(message.task_id.as_ref()).await?;
        }
        facts.is_driven = facts.task.as_ref().is_some_and(|task| inner.has_runner(&task.id));
        let is_over = facts.task.as_ref().is_some_and(|task| task.status.is_finished());
        match state {
            machine::NextStep::Prompt(_) => {
                if message.attached == Attached::Files {
                    facts.files = inner.files_of(&message.id).await?;
                }
                facts.workspace = Some(workspace(&facts.rules, facts.conversation.as_ref()));
            }
            machine::NextStep::Command(command) => {
                self.add_for_command(&mut facts, message, &command).await?;
            }
            machine::NextStep::Respond(_) => self.add_for_response(&mut facts, message).await?,
            machine::NextStep::Edit(_) => facts.edited = self.edited(message).await?.map(Box::new),
            machine::NextStep::Running(task_id) => self.add_for_turn(&mut facts, message, task_id).await?,
            machine::NextStep::InDoubt(task_id) if is_over => {
                facts.was_steered = inner.store.was_steered(&task_id, message.id.as_str()).await?;
            }
            machine::NextStep::Added(task_id) if is_over => {
                facts.of_task = self.running_messages(&task_id).await?;
                let of_task = MessageFilter { task_id: Some(task_id), ..MessageFilter::default() };
                facts.reply_id =
                    inner.store.messages(&of_task).await?.into_iter().find_map(|one| one.reply_id);
            }
            _ => {}
        }
        Ok(facts)
    }

    /// The message that another one edits, with its present text.
    async fn edited(&self, message: &Message) -> Result<Option<(Message, Option<String>)>, Error> {
        let Some(original) = &message.edits else { return Ok(None) };
        Ok(self.message_named(&message.channel, original).await?.map(|original| {
            let text = self.inner().text(&original);
            (original, text)
        }))
    }

    /// The stored message to which its source gave this id.
    pub(super) async fn message_named(
        &self,
        channel: &ChannelName,
        external_id: &str,
    ) -> Result<Option<Message>, Error> {
        let named = MessageFilter {
            channel: Some(channel.clone()),
            external_ids: vec![external_id.to_owned()],
            ..MessageFilter::default()
        };
        Ok(self.inner().store.messages(&named).await?.into_iter().next())
    }

    async fn add_for_response(&self, facts: &mut Facts, message: &Message) -> Result<(), Error> {
        if let Named::One(request) = facts.named.clone() {
            return self.add_visibility(facts, message, &request).await;
        }
        if message.about.is_some() {
            return Ok(());
        }
        let own = facts.task.as_ref().map(|task| task.id.clone());
        for request in self.bridge().open_requests(None).await? {
            let is_own = own.as_ref() == Some(&request.task_id);
            if is_own || self.is_told_in(&message.channel, &message.conversation, &request).await? {
                facts.requests.push(request);
            }
        }
        Ok(())
    }

    /// How much of a request had been shown where and when the message was written.
    async fn add_visibility(
        &self,
        facts: &mut Facts,
        message: &Message,
        request: &RequestRecord,
    ) -> Result<(), Error> {
        let told = self.told_of(&request.task_id, &request.request_id, None).await?;
        facts.visibilities.insert(request.request_id.clone(), Visibility::of(&told, request, message));
        Ok(())
    }

    /// The last prompt of a conversation, with its text, if it failed and its text is still stored.
    async fn failed(&self, message: &Message) -> Result<Option<(Message, String)>, Error> {
        let here = MessageFilter {
            channel: Some(message.channel.clone()),
            conversation: Some(message.conversation.clone()),
            limit: Some(LOOKED_BACK),
            ..MessageFilter::default()
        };
        let is_answered = |one: &Message| {
            one.kind == MessageKind::Prompt
                && matches!(one.state, MessageState::Answered | MessageState::Acknowledged)
        };
        let last = self.inner().store.messages(&here).await?.into_iter().find(is_answered);
        // Nobody has another one's words tried again in their own name, an agent's least of all.
        let last = last.filter(|one| one.sender_id == message.sender_id);
        Ok(last.and_then(|failed| {
            let text = self.inner().text(&failed)?;
            Some((failed, text))
        }))
    }

    /// The tasks that a conversation had, the last one first.
    async fn tasks_of(&self, rules: &Rules, message: &Message) -> Result<Vec<KnownTask>, Error> {
        let here = MessageFilter {
            channel: Some(message.channel.clone()),
            conversation: Some(message.conversation.clone()),
            limit: Some(LOOKED_BACK),
            ..MessageFilter::default()
        };
        let mut ids: Vec<TaskId> = Vec::new();
        let found = self.inner().store.messages(&here).await?.into_iter();
        // The task of a comment may belong to another conversation.
        for id in found.filter(|one| !one.is_comment()).filter_map(|one| one.task_id) {
            if !ids.contains(&id) && ids.len() < LISTED {
                ids.push(id);
            }
        }
        let mut tasks = Vec::new();
        for id in ids {
            tasks.extend(self.task_of(Some(&id)).await?.map(|task| known(rules, task)));
        }
        Ok(tasks)
    }

    /// The task that `/resume` names: not one of another conversation, whose people wrote it to be read there.
    async fn resumed(
        &self,
        rules: &Rules,
        message: &Message,
        name: &str,
    ) -> Result<Option<KnownTask>, Error> {
        let task = match self.bridge().find(name).await {
            Ok(task) => task,
            Err(Error::UnknownTask(_) | Error::AmbiguousTask(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        // A few digits could be guessed.
        if name.len() < task.id.short().len() {
            return Ok(None);
        }
        let of_task = MessageFilter { task_id: Some(task.id.clone()), ..MessageFilter::default() };
        let is_elsewhere =
            |one: &Message| (&one.channel, &one.conversation) != (&message.channel, &message.conversation);
        let is_another_ones = self.inner().store.messages(&of_task).await?.iter().any(is_elsewhere);
        Ok(Some(task).filter(|_| !is_another_ones).map(|task| known(rules, task)))
    }

    async fn task_of(&self, task_id: Option<&TaskId>) -> Result<Option<Task>, Error> {
        match task_id {
            Some(task_id) => Ok(self.inner().store.task(task_id).await?),
            None => Ok(None),
        }
    }

    async fn add_for_turn(&self, facts: &mut Facts, message: &Message, task_id: TaskId) -> Result<(), Error> {
        facts.of_task = self.running_messages(&task_id).await?;
        facts.requests = self.bridge().requests(task_id.clone()).await?;
        // `updated_at` is when the turn began, unless a failure has changed it since.
        if message.attempts > 0 {
            let turns = self.inner().store.turns(&task_id).await?;
            facts.begun_at = began_at(&turns, message);
        }
        let begun_at = facts.begun_at(message);
        let is_closed = |request: &&RequestRecord| {
            matches!(request.state, RequestState::Orphaned | RequestState::Expired)
                && request.created_at >= begun_at
        };
        for request in facts.requests.iter().filter(is_closed) {
            if self.was_told(&task_id, &request.request_id).await? {
                facts.told.push(request.request_id.clone());
            }
        }
        if facts.is_driven && facts.rules.while_running == WhileRunning::Steer {
            facts.waiting = self.waiting(message).await?;
            let next = machine::next_in_line(&facts.waiting);
            facts.next_text = next.and_then(|next| self.inner().text(next));
        }
        Ok(())
    }

    async fn add_for_command(
        &self,
        facts: &mut Facts,
        message: &Message,
        command: &Command,
    ) -> Result<(), Error> {
        let task_id = facts.task.as_ref().map(|task| task.id.clone());
        if matches!(command, Command::Status | Command::Queue) {
            facts.waiting = self.waiting(message).await?;
        }
        if let (Command::Diff, Some(task_id)) = (command, &task_id) {
            let last = self.inner().store.last_diff(task_id).await?;
            facts.diff = last.and_then(|event| match event.line {
                Line::Diff(Diff { diff }) => Some(diff),
                _ => None,
            });
        }
        if let (Command::Status, Some(task_id)) = (command, &task_id) {
            let turns = self.inner().store.turns(task_id).await?;
            // The prompt of a turn that the bridge resumed is the bridge's own.
            let last = turns.into_iter().rfind(is_asked_for);
            facts.last_prompt = last.map(|turn| turn.prompt_summary);
        }
        match command {
            Command::Retry => facts.failed = self.failed(message).await?.map(Box::new),
            Command::List | Command::Switch(_) => facts.tasks = self.tasks_of(&facts.rules, message).await?,
            Command::Resume(name) => facts.resumed = self.resumed(&facts.rules, message, name).await?,
            _ => {}
        }
        let decides = matches!(command, Command::Approve(_) | Command::Deny(_));
        if let Some(task_id) = task_id.filter(|_| decides || *command == Command::Status) {
            facts.requests = self.bridge().open_requests(Some(task_id)).await?;
        }
        let named = match command {
            Command::Approve(Some(name)) | Command::Deny(Some(name)) => Some(Button::named(name).request_id),
            Command::Answer { request_id, .. } => Some(request_id.clone()),
            _ => None,
        };
        if let Some(request_id) = named {
            facts.named = self.request_of(&message.channel, &message.conversation, &request_id).await?;
        }
        if matches!(command, Command::Approve(_)) {
            let named = if let Named::One(request) = &facts.named { Some((**request).clone()) } else { None };
            for request in facts.requests.clone().into_iter().chain(named) {
                self.add_visibility(facts, message, &request).await?;
            }
        }
        Ok(())
    }

    /// The received messages in a message's conversation, the oldest first.
    async fn waiting(&self, message: &Message) -> Result<Vec<Message>, Error> {
        let conversation = Some(message.conversation.clone());
        let waiting =
            MessageFilter { conversation, ..MessageFilter::of(&message.channel, MessageState::Received) };
        let mut waiting = self.inner().store.messages(&waiting).await?;
        waiting.reverse();
        Ok(waiting)
    }

    /// The request that a name means in this conversation. Requests of other conversations are not found.
    pub(super) async fn request_of(
        &self,
        channel: &ChannelName,
        key: &ConversationKey,
        name: &RequestName,
    ) -> Result<Named, Error> {
        let found = match self.bridge().requests_named(None, name.as_str()).await {
            Err(Error::AmbiguousRequest(_)) => return Ok(Named::Several),
            found => found?,
        };
        let mut named = Named::Nothing;
        for request in found {
            if self.is_asked_in(channel, key, &request).await? {
                let is_first = named == Named::Nothing;
                named = if is_first { Named::One(Box::new(request)) } else { Named::Several };
            }
        }
        Ok(named)
    }

    /// Whether a request is one of a conversation.
    async fn is_asked_in(
        &self,
        channel: &ChannelName,
        key: &ConversationKey,
        request: &RequestRecord,
    ) -> Result<bool, Error> {
        let of_task = MessageFilter {
            channel: Some(channel.clone()),
            task_id: Some(request.task_id.clone()),
            ..MessageFilter::default()
        };
        // Several conversations, such as the threads of a chat (`chat/thread`), may be one place to people.
        let is_here = |one: &Message| {
            let rest = one.conversation.as_str().strip_prefix(key.as_str());
            !one.is_comment() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if self.inner().store.messages(&of_task).await?.iter().any(is_here) {
            return Ok(true);
        }
        self.is_told_in(channel, key, request).await
    }

    /// Whether a conversation was told of a request. The task may belong to another conversation.
    async fn is_told_in(
        &self,
        channel: &ChannelName,
        key: &ConversationKey,
        request: &RequestRecord,
    ) -> Result<bool, Error> {
        let of_task = DeliveryFilter { task_ids: vec![request.task_id.clone()], ..DeliveryFilter::default() };
        let place = format!("{channel}:{key}");
        let told = |one: &Delivery| bare(&one.target) == place && one.notice.tells_of(&request.request_id);
        Ok(self.inner().store.deliveries(&of_task).await?.iter().any(told))
    }

    /// Whether a notice about a request was delivered.
    pub(super) async fn was_told(&self, task_id: &TaskId, request_id: &RequestName) -> Result<bool, Error> {
        Ok(!self.told_of(task_id, request_id, Some(1)).await?.is_empty())
    }

    /// Delivered notices about a request.
    async fn told_of(
        &self,
        task_id: &TaskId,
        request_id: &RequestName,
        limit: Option<u32>,
    ) -> Result<Vec<Delivery>, Error> {
        let told = DeliveryFilter {
            task_ids: vec![task_id.clone()],
            states: vec![outbox::DeliveryState::Delivered],
            request_id: Some(request_id.clone()),
            limit,
            ..DeliveryFilter::default()
        };
        Ok(self.inner().store.deliveries(&told).await?)
    }
}

fn known(rules: &Rules, task: Task) -> KnownTask {
    let cwd = &task.settings.cwd;
    let is_its = |path: &PathBuf| path == cwd || path.canonicalize().is_ok_and(|path| path == *cwd);
    let workspace = rules.workspaces.iter().find(|(_, path)| is_its(path)).map(|(name, _)| name.clone());
    KnownTask { task, workspace }
}

/// The directory in which a conversation works.
fn workspace(rules: &Rules, conversation: Option<&Conversation>) -> Result<(PathBuf, Place), Failure> {
    let name = conversation.and_then(|one| one.workspace.as_ref()).unwrap_or(&rules.workspace);
    let missing = || Failure::Permanent(format!("there is no workspace {name:?}; /project lists them"));
    let cwd = rules.workspaces.get(name).ok_or_else(missing)?;
    if !cwd.is_dir() {
        // It may not be mounted yet.
        return Err(Failure::Transient(format!("the directory of workspace {name} does not exist")));
    }
    let cwd = cwd
        .canonicalize()
        .map_err(|error| Failure::Transient(format!("workspace {name}: {}", reason(&error))))?;
    let place = Place::of(&cwd).map_err(|error| Failure::Transient(error.to_string()))?;
    Ok((cwd, place))
}
