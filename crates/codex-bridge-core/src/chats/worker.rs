//! The inbox loop: reads messages, gathers facts, runs the machine and performs its effects. Messages become turns in
//! order within a conversation, and in parallel across conversations.
//!
//! The loop owns every received or running message. Other code changes a message only when it arrives, before the loop
//! has seen it, and when its source is told, after the loop is done with it. The rules are in [`machine`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::error;

use super::Chats;
use crate::bridge::{Error, News};
use crate::desk::Desk;
use crate::inbox::deferred::Deferred;
use crate::inbox::machine::{self, Effect, Outcome};
use crate::inbox::strangers::Strangers;
use crate::inbox::{
    Attached, ChannelName, ConversationKey, Message, MessageId, MessageKind, MessageState, Rules,
    WhileRunning,
};
use crate::request::RequestName;
use crate::store::{self, MessageFilter, Store};
use crate::task::TaskId;

/// The loop looks at everything at least this often.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// How many messages and requests are worked on outside the loop at once.
const AT_ONCE: usize = 64;
/// The pause after the store has failed.
const STORE_PAUSE: Duration = Duration::from_secs(2);
/// How long a message is skipped whose failure could not be stored.
const SKIP_FOR: Duration = Duration::from_secs(10);

/// The state of the inbox that is not stored.
pub(super) struct Inbox {
    pub(super) desk: Desk,
    /// The open channels.
    channels: Mutex<BTreeMap<ChannelName, Arc<Rules>>>,
    /// Wakes the loop.
    wake: Arc<Notify>,
    /// Counts the changes of messages.
    pub(super) changes: watch::Sender<u64>,
    /// Makes the loop look at every message.
    wake_for_all: AtomicBool,
    /// The messages and requests that spawned tasks work on.
    in_progress: Mutex<BTreeSet<WorkItem>>,
    skipped: Skipped,
    /// Tasks that messages wait for.
    awaited: Mutex<BTreeSet<TaskId>>,
    /// People who wrote without being allowed to.
    strangers: Mutex<Strangers>,
    /// The deferred messages. Held while messages are taken in.
    pub(super) taking: tokio::sync::Mutex<Deferred>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    pub(super) fn new(desk: Desk) -> Self {
        Self {
            desk,
            channels: Mutex::default(),
            wake: Arc::default(),
            changes: watch::Sender::default(),
            wake_for_all: AtomicBool::default(),
            in_progress: Mutex::default(),
            skipped: Skipped::default(),
            awaited: Mutex::default(),
            strangers: Mutex::default(),
            taking: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn channels(&self) -> MutexGuard<'_, BTreeMap<ChannelName, Arc<Rules>>> {
        locked(&self.channels)
    }

    pub(super) fn rules(&self, channel: &ChannelName) -> Option<Arc<Rules>> {
        self.channels().get(channel).cloned()
    }

    pub(super) fn strangers(&self) -> MutexGuard<'_, Strangers> {
        locked(&self.strangers)
    }

    /// Wakes the loop when this task changes.
    pub(super) fn await_task(&self, task_id: TaskId) {
        locked(&self.awaited).insert(task_id);
    }

    /// Wakes the loop to look at every message, because rules have changed.
    pub(super) fn wake_for_all(&self) {
        self.wake_for_all.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Tells whoever shows what becomes of messages that something has changed.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Wakes the loop, and whoever shows what becomes of messages: one may be ready for its next step.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
        self.changed();
    }
}

/// Messages whose failure could not be stored, and until when they are skipped.
#[derive(Default)]
struct Skipped(Mutex<BTreeMap<MessageId, Instant>>);

impl Skipped {
    fn set(&self, message: &Message, error: &Error) {
        let Message { id, channel, .. } = message;
        error!(%channel, message_id = %id, %error, "the failure of a message could not be stored; retrying in a moment");
        let mut skipped = locked(&self.0);
        let now = Instant::now();
        skipped.retain(|_, until| *until > now);
        skipped.insert(id.clone(), now + SKIP_FOR);
    }

    /// How long a message is still skipped.
    fn remaining(&self, id: &MessageId) -> Option<Duration> {
        let until = locked(&self.0).get(id).copied()?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }
}

/// A message or a request that a spawned task works on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WorkItem {
    /// A message.
    Message(MessageId),
    /// A request.
    Request(RequestName),
    /// The steers of a conversation: one message at a time, so that they keep their order.
    Additions(ChannelName, ConversationKey),
}

/// Marks something as being worked on outside the loop, until dropped.
pub(super) struct WorkGuard {
    inbox: Arc<Inbox>,
    item: WorkItem,
}

impl WorkGuard {
    /// `None` if it is already being worked on, or too much else is. The loop is woken when that ends.
    pub(super) fn take(inbox: &Arc<Inbox>, item: WorkItem) -> Option<Self> {
        let mut in_progress = locked(&inbox.in_progress);
        let is_free = in_progress.len() < AT_ONCE && in_progress.insert(item.clone());
        is_free.then(|| Self { inbox: Arc::clone(inbox), item })
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        locked(&self.inbox.in_progress).remove(&self.item);
        self.inbox.wake();
    }
}

/// What the loop has to look at.
#[derive(Debug, Default)]
struct Changed {
    /// Every message, because news may have been missed.
    all: bool,
    /// Messages that are ready for their next step.
    waiting: bool,
    /// The tasks that changed.
    tasks: BTreeSet<TaskId>,
}

impl Changed {
    fn is_some(&self) -> bool {
        self.all || self.waiting || !self.tasks.is_empty()
    }

    /// Takes in news. `None` means that news were missed.
    fn note(&mut self, told: Option<News>) {
        match told {
            Some(News::Task(task_id)) => drop(self.tasks.insert(task_id)),
            Some(_) => {}
            None => self.all = true,
        }
    }
}

/// Runs until the inbox is dropped.
pub(super) async fn run(inbox: Weak<Inbox>) {
    let Some(held) = inbox.upgrade() else { return };
    let (wake, mut news) = (Arc::clone(&held.wake), held.desk.bridge().inner.news.subscribe());
    drop(held);
    let mut changed = Changed { all: true, ..Changed::default() };
    // When to look at every message, and when one may be ready.
    let (mut all_at, mut next_at) = (Instant::now(), Instant::now());
    loop {
        let Some(inbox) = inbox.upgrade() else { return };
        changed.all |= inbox.wake_for_all.swap(false, Ordering::SeqCst);
        let looked = match (Chats { inbox }).process_inbox(&changed).await {
            Ok(looked) => looked,
            Err(error) => {
                error!(%error, "the store failed; messages wait");
                tokio::time::sleep(STORE_PAUSE).await;
                changed = Changed { all: true, ..Changed::default() };
                continue;
            }
        };
        let now = Instant::now();
        if changed.all {
            all_at = now + LOOK_AGAIN;
        }
        if let Some(pause) = looked {
            next_at = now + pause;
        }
        changed = Changed::default();
        while !changed.is_some() {
            tokio::select! {
                biased;
                () = wake.notified() => changed.waiting = true,
                () = tokio::time::sleep_until(all_at.min(next_at)) => changed.waiting = true,
                told = news.recv() => changed.note(told.ok()),
            }
        }
        loop {
            match news.try_recv() {
                Ok(told) => changed.note(Some(told)),
                Err(TryRecvError::Lagged(_)) => changed.note(None),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        changed.all |= Instant::now() >= all_at;
    }
}

impl Chats {
    /// Takes every message that is ready one step further. Returns the pause until the next one, if it looked.
    async fn process_inbox(&self, changed: &Changed) -> Result<Option<Duration>, Error> {
        let inbox = &self.inbox;
        let channels: Vec<Arc<Rules>> = inbox.channels().values().cloned().collect();
        if channels.is_empty() {
            return Ok(Some(LOOK_AGAIN));
        }
        let mut is_due = changed.all || changed.waiting;
        for task_id in &changed.tasks {
            is_due |= locked(&inbox.awaited).remove(task_id);
            // A short pause means that the step failed and must be retried.
            is_due |= self.task_changed(task_id).await? < LOOK_AGAIN;
        }
        if !is_due {
            return Ok(None);
        }
        let mut pause = LOOK_AGAIN;
        for rules in channels {
            // A steer holds back the messages behind it until its outcome is known. Urgent commands are not held back,
            // because the turn may wait for them.
            let mut held = BTreeSet::new();
            for message in self.inner().store.next_messages(&rules.channel).await? {
                if message.holds_others() {
                    held.insert(message.conversation.clone());
                } else if message.waits_in_line() && held.contains(&message.conversation) {
                    continue;
                }
                pause = pause.min(self.process_message(&rules, message, changed.all).await?);
            }
        }
        Ok(Some(pause))
    }

    /// Takes the message that a task works on one step further.
    async fn task_changed(&self, task_id: &TaskId) -> Result<Duration, Error> {
        let running = self.running_messages(task_id).await?;
        let is_main = |message: &&Message| message.kind == MessageKind::Prompt;
        let Some(main) = running.iter().find(is_main).or(running.last()) else { return Ok(LOOK_AGAIN) };
        // No rules mean that the channel is closed.
        let Some(rules) = self.inbox.rules(&main.channel) else { return Ok(LOOK_AGAIN) };
        if self.is_being_added(main) {
            return Ok(LOOK_AGAIN);
        }
        self.drive(&rules, main).await
    }

    /// The messages that a task works on, the newest first.
    pub(super) async fn running_messages(&self, task_id: &TaskId) -> Result<Vec<Message>, Error> {
        let filter = MessageFilter {
            task_id: Some(task_id.clone()),
            states: vec![MessageState::Running],
            ..MessageFilter::default()
        };
        Ok(self.inner().store.messages(&filter).await?)
    }

    /// Takes a message one step further if it is due, in the loop or outside it. Returns the pause until the next look.
    async fn process_message(
        &self,
        rules: &Arc<Rules>,
        message: Message,
        at_all: bool,
    ) -> Result<Duration, Error> {
        let is_running = message.state == MessageState::Running;
        let wait = u64::try_from(message.next_at - self.inner().now()).unwrap_or_default();
        if wait > 0 && !(is_running && at_all) {
            return Ok(Duration::from_millis(wait));
        }
        if let Some(wait) = self.inbox.skipped.remaining(&message.id) {
            return Ok(wait);
        }
        let is_steer = rules.while_running == WhileRunning::Steer;
        match (message.kind, is_running) {
            // Some commands and answers take as long as Codex takes.
            (MessageKind::UrgentCommand | MessageKind::Command | MessageKind::Response, false) => {
                self.spawn_drive(rules, &message, WorkItem::Message(message.id.clone()));
            }
            // So does making text of speech.
            (MessageKind::Prompt, false) if message.attached == Attached::Speech => {
                self.spawn_drive(rules, &message, WorkItem::Message(message.id.clone()));
            }
            (MessageKind::Steer, false) => self.spawn_drive(rules, &message, additions(&message)),
            (MessageKind::Steer, true) if self.is_being_added(&message) => {}
            // Its change comes as news. It is still looked at if news may have been missed, if its end could not be
            // stored, or if messages behind it may be added to its turn.
            (MessageKind::Prompt, true) if !at_all && message.attempts == 0 && !is_steer => {}
            _ => return self.drive(rules, &message).await,
        }
        Ok(LOOK_AGAIN)
    }

    /// Whether a steer of the message's conversation is on its way to Codex.
    fn is_being_added(&self, message: &Message) -> bool {
        message.is_to_be_added() && locked(&self.inbox.in_progress).contains(&additions(message))
    }

    /// Takes a message further outside the loop. The loop is woken at the end.
    fn spawn_drive(&self, rules: &Arc<Rules>, message: &Message, item: WorkItem) {
        let Some(in_progress) = WorkGuard::take(&self.inbox, item) else { return };
        let (chats, rules, message) = (self.clone(), Arc::clone(rules), message.clone());
        self.inner().spawn(async move {
            if let Err(error) = chats.drive(&rules, &message).await {
                chats.inbox.skipped.set(&message, &error);
            }
            drop(in_progress);
        });
    }

    pub(super) async fn message(&self, id: &MessageId) -> Result<Option<Message>, Error> {
        Ok(stored(&*self.inner().store, id).await?)
    }

    /// Takes a message as far as it goes now, and records its failure if a step fails. Returns the pause until the next
    /// look. Returns an error only if the store as a whole failed.
    async fn drive(&self, rules: &Arc<Rules>, seen: &Message) -> Result<Duration, Error> {
        let id = &seen.id;
        let driven = async {
            match as_seen(&*self.inner().store, seen).await? {
                Some(message) => self.take_steps(rules, message, None).await,
                None => Ok(LOOK_AGAIN),
            }
        };
        let error = match driven.await {
            Err(error) if !error.affects_whole_store() => error,
            taken => return taken,
        };
        if matches!(error, Error::Store(_)) {
            error!(channel = %seen.channel, message_id = %id, %error, "a step of a message failed because of the store");
        }
        let failed = Outcome::Failed(self.inner().failure(&error));
        let noted = async {
            // Read again, because the failed step may have done part of its work.
            match self.message(id).await? {
                Some(message) => self.take_steps(rules, message, Some(failed)).await,
                None => Ok(LOOK_AGAIN),
            }
        };
        match noted.await {
            Err(error) if !error.affects_whole_store() => {
                self.inbox.skipped.set(seen, &error);
                Ok(SKIP_FOR)
            }
            noted => noted,
        }
    }

    async fn take_steps(
        &self,
        rules: &Arc<Rules>,
        mut message: Message,
        mut outcome: Option<Outcome>,
    ) -> Result<Duration, Error> {
        loop {
            let facts = self.facts(rules, &message, outcome.take()).await?;
            let (now, mut pause) = (self.inner().now(), LOOK_AGAIN);
            for effect in machine::step(&message, &facts, now) {
                match effect {
                    Effect::Wait(until) => pause = Duration::from_millis((until - now).unsigned_abs()),
                    effect => outcome = self.perform(rules, &message, effect, now).await?.or(outcome),
                }
            }
            if outcome.is_none() {
                return Ok(pause);
            }
            let Some(now) = self.message(&message.id).await? else { return Ok(pause) };
            message = now;
        }
    }
}

fn additions(message: &Message) -> WorkItem {
    WorkItem::Additions(message.channel.clone(), message.conversation.clone())
}

async fn stored(store: &dyn Store, id: &MessageId) -> Result<Option<Message>, store::Error> {
    let named = MessageFilter { id: Some(id.clone()), ..MessageFilter::default() };
    Ok(store.messages(&named).await?.into_iter().next())
}

/// The message, unless its row has changed since it was read. The step was chosen by the old row, so a changed message
/// is skipped; the change wakes the loop.
async fn as_seen(store: &dyn Store, seen: &Message) -> Result<Option<Message>, store::Error> {
    Ok(stored(store, &seen.id).await?.filter(|now| now == seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Write;
    use crate::store::conformance::samples;
    use crate::store::sqlite::Sqlite;

    #[test]
    fn what_breaks_one_change_off_is_not_of_all() {
        assert!(!Error::CutOff.affects_whole_store());
    }

    #[test]
    fn a_message_that_is_set_aside_is_told_with_its_channel_and_the_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(file.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        let message = samples::message(1, "room");
        let skipped = Skipped::default();
        tracing::subscriber::with_default(subscriber, || skipped.set(&message, &Error::CutOff));
        assert!(skipped.remaining(&message.id).is_some());
        let log = std::fs::read_to_string(file.path()).unwrap();
        let told = [format!("channel=chat message_id={}", message.id), format!("error={}", Error::CutOff)];
        assert!(log.contains("ERROR") && told.iter().all(|one| log.contains(one)), "{log}");
    }

    #[tokio::test]
    async fn a_message_that_changed_since_it_was_read_is_left_alone() {
        let in_doubt =
            Message { state: MessageState::Running, kind: MessageKind::Steer, ..samples::message(1, "room") };
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("bridge.sqlite3")).unwrap();
        assert_eq!(as_seen(&store, &in_doubt).await.unwrap(), None);
        store.commit(vec![Write::AddMessage(Box::new(in_doubt.clone()))]).await.unwrap();
        assert_eq!(as_seen(&store, &in_doubt).await.unwrap().as_ref(), Some(&in_doubt));
        // Codex refused the words, somebody answered them, or Codex took them: the last within the same millisecond.
        let refused = Message {
            state: MessageState::Received,
            kind: MessageKind::Prompt,
            updated_at: 1,
            ..in_doubt.clone()
        };
        let answered = Message { state: MessageState::Answered, updated_at: 2, ..in_doubt.clone() };
        let taken = Message { sealed_text: None, ..in_doubt.clone() };
        for changed in [refused, answered, taken] {
            store.commit(vec![Write::SaveMessage(Box::new(changed))]).await.unwrap();
            assert_eq!(as_seen(&store, &in_doubt).await.unwrap(), None);
        }
    }
}
