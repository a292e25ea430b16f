//! The loop of the inbox: reads the rows of messages, gathers what the machine has to know of each, and performs what it says.
//! Messages become turns in order within a conversation, and side by side across conversations.
//!
//! The loop owns every message that was received or runs. A message is changed elsewhere only when it came in (before the loop has
//! seen it) and when its source was told (after the loop is done with it). The rules are [`machine`]'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::Instant;
use tracing::error;

use super::Chats;
use crate::bridge::{Error, News};
use crate::desk::Desk;
use crate::inbox::deferred::Deferred;
use crate::inbox::machine::{self, Effect, Outcome};
use crate::inbox::strangers::Strangers;
use crate::inbox::{
    ChannelName, ConversationKey, Message, MessageId, MessageKind, Rules, State, WhileRunning,
};
use crate::request::RequestName;
use crate::store::{self, MessageFilter, Store};
use crate::task::TaskId;

/// With nothing to wait for, the loop looks again after so long.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// Messages and requests that are worked on outside of the loop at once.
const AT_ONCE: usize = 64;
/// How long a store that failed is left alone.
const STORE_PAUSE: Duration = Duration::from_secs(2);
/// A message whose failure cannot even be written is left alone for so long.
const SET_ASIDE: Duration = Duration::from_secs(10);

/// What the inbox knows beyond its rows.
pub(super) struct Inbox {
    pub(super) desk: Desk,
    /// The channels that are served.
    channels: Mutex<BTreeMap<ChannelName, Arc<Rules>>>,
    /// Wakes the loop.
    wake: Arc<Notify>,
    /// Has it look at everything.
    look_at_all: AtomicBool,
    /// What is being worked on outside of the loop.
    in_hand: Mutex<BTreeSet<Piece>>,
    aside: Aside,
    /// Tasks that a message waits for.
    awaited: Mutex<BTreeSet<TaskId>>,
    /// Who wrote without being allowed to.
    strangers: Mutex<Strangers>,
    /// Held while messages are taken in: what was put off meanwhile.
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
            look_at_all: AtomicBool::default(),
            in_hand: Mutex::default(),
            aside: Aside::default(),
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

    /// Has the loop look when this task has changed.
    pub(super) fn await_task(&self, task_id: TaskId) {
        locked(&self.awaited).insert(task_id);
    }

    /// Anything may have to be done: the rules have changed.
    pub(super) fn look_at_all(&self) {
        self.look_at_all.store(true, Ordering::SeqCst);
        self.look();
    }

    /// A message may be ready for its next step.
    pub(super) fn look(&self) {
        self.wake.notify_one();
    }
}

/// Messages whose failure could not be written, and until when they are left alone.
#[derive(Default)]
struct Aside(Mutex<BTreeMap<MessageId, Instant>>);

impl Aside {
    fn set(&self, message: &Message, error: &Error) {
        let Message { id, channel, .. } = message;
        error!(%channel, message_id = %id, %error, "a message waits: its failure could not be saved");
        let mut aside = locked(&self.0);
        let now = Instant::now();
        aside.retain(|_, until| *until > now);
        aside.insert(id.clone(), now + SET_ASIDE);
    }

    /// For how long a message is left alone.
    fn remaining(&self, id: &MessageId) -> Option<Duration> {
        let until = locked(&self.0).get(id).copied()?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }
}

/// What is worked on outside of the loop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Piece {
    /// A message.
    Message(MessageId),
    /// A request.
    Request(RequestName),
    /// The words for the running turn of a conversation: one message at a time, so that they keep their order.
    Additions(ChannelName, ConversationKey),
}

/// A piece of work outside of the loop, which nobody else begins until this is dropped.
pub(super) struct InHand {
    inbox: Arc<Inbox>,
    piece: Piece,
}

impl InHand {
    /// None if somebody else has it, or too much is being done already: it is looked at again when that is over.
    pub(super) fn take(inbox: &Arc<Inbox>, piece: Piece) -> Option<Self> {
        let mut in_hand = locked(&inbox.in_hand);
        let is_free = in_hand.len() < AT_ONCE && in_hand.insert(piece.clone());
        is_free.then(|| Self { inbox: Arc::clone(inbox), piece })
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        locked(&self.inbox.in_hand).remove(&self.piece);
        self.inbox.look();
    }
}

/// What the loop looks at.
#[derive(Debug, Default)]
struct Changed {
    /// Everything: something may have been missed.
    all: bool,
    /// Messages that wait for their next step.
    waiting: bool,
    /// The tasks that changed.
    tasks: BTreeSet<TaskId>,
}

impl Changed {
    fn is_some(&self) -> bool {
        self.all || self.waiting || !self.tasks.is_empty()
    }

    /// Notes what was told; none is more than could be followed.
    fn note(&mut self, told: Option<News>) {
        match told {
            Some(News::Task(task_id)) => drop(self.tasks.insert(task_id)),
            Some(_) => {}
            None => self.all = true,
        }
    }
}

/// Runs for as long as the bridge does.
pub(super) async fn run(inbox: Weak<Inbox>) {
    let Some(held) = inbox.upgrade() else { return };
    let (wake, mut news) = (Arc::clone(&held.wake), held.desk.bridge().inner.news.subscribe());
    drop(held);
    let mut changed = Changed { all: true, ..Changed::default() };
    // When everything is looked at, and when a message may be ready, however much happens before.
    let (mut all_at, mut next_at) = (Instant::now(), Instant::now());
    loop {
        let Some(inbox) = inbox.upgrade() else { return };
        changed.all |= inbox.look_at_all.swap(false, Ordering::SeqCst);
        let looked = match (Chats { inbox }).look_at_inbox(&changed).await {
            Ok(looked) => looked,
            Err(error) => {
                error!(%error, "messages wait: the store failed");
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
    /// Takes every message one step further that can be; says after how long another one may be, if it looked.
    async fn look_at_inbox(&self, changed: &Changed) -> Result<Option<Duration>, Error> {
        let inbox = &self.inbox;
        let channels: Vec<Arc<Rules>> = inbox.channels().values().cloned().collect();
        if channels.is_empty() {
            return Ok(Some(LOOK_AGAIN));
        }
        let mut is_due = changed.all || changed.waiting;
        for task_id in &changed.tasks {
            is_due |= locked(&inbox.awaited).remove(task_id);
            // One that failed is looked at again.
            is_due |= self.task_changed(task_id).await? < LOOK_AGAIN;
        }
        if !is_due {
            return Ok(None);
        }
        let mut pause = LOOK_AGAIN;
        for rules in channels {
            // What is to be added to a turn stands before what follows, until it is known what becomes of it. What is
            // urgent waits for nothing: the turn may wait for it.
            let mut held = BTreeSet::new();
            for message in self.inner().store.next_messages(&rules.channel).await? {
                if message.is_to_be_added() {
                    held.insert(message.conversation.clone());
                } else if message.waits_in_line() && held.contains(&message.conversation) {
                    continue;
                }
                pause = pause.min(self.look_at_message(&rules, message, changed.all).await?);
            }
        }
        Ok(Some(pause))
    }

    /// Steps on with the message that a task works on.
    async fn task_changed(&self, task_id: &TaskId) -> Result<Duration, Error> {
        let running = self.running_messages(task_id).await?;
        let is_main = |message: &&Message| message.kind == MessageKind::Prompt;
        let Some(main) = running.iter().find(is_main).or(running.last()) else { return Ok(LOOK_AGAIN) };
        // None if it is not served now.
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
            states: vec![State::Running],
            ..MessageFilter::default()
        };
        Ok(self.inner().store.messages(&filter).await?)
    }

    /// Steps on with a message, if it is time, in the loop or outside of it; says after how long to look at it again.
    async fn look_at_message(
        &self,
        rules: &Arc<Rules>,
        message: Message,
        at_all: bool,
    ) -> Result<Duration, Error> {
        let is_running = message.state == State::Running;
        let wait = u64::try_from(message.next_at - self.inner().now()).unwrap_or_default();
        if wait > 0 && !(is_running && at_all) {
            return Ok(Duration::from_millis(wait));
        }
        if let Some(wait) = self.inbox.aside.remaining(&message.id) {
            return Ok(wait);
        }
        let is_steer = rules.while_running == WhileRunning::Steer;
        match (message.kind, is_running) {
            // Some commands take as long as Codex takes.
            (MessageKind::UrgentCommand, false) => {
                self.drive_beside(rules, &message, Piece::Message(message.id.clone()));
            }
            (MessageKind::Steer, false) => self.drive_beside(rules, &message, additions(&message)),
            (MessageKind::Steer, true) if self.is_being_added(&message) => {}
            // Its change is heard of, unless something may have been missed, or its end could not be written, or what waits
            // behind it may be added to it.
            (MessageKind::Prompt, true) if !at_all && message.attempts == 0 && !is_steer => {}
            _ => return self.drive(rules, &message).await,
        }
        Ok(LOOK_AGAIN)
    }

    /// Whether words for the running turn of a message's conversation are on their way to Codex.
    fn is_being_added(&self, message: &Message) -> bool {
        message.is_to_be_added() && locked(&self.inbox.in_hand).contains(&additions(message))
    }

    /// Steps on with a message outside of the loop. The loop is woken when this is over, and must find nothing to do at once.
    fn drive_beside(&self, rules: &Arc<Rules>, message: &Message, piece: Piece) {
        let Some(in_hand) = InHand::take(&self.inbox, piece) else { return };
        let (chats, rules, message) = (self.clone(), Arc::clone(rules), message.clone());
        self.inner().spawn(async move {
            if let Err(error) = chats.drive(&rules, &message).await {
                chats.inbox.aside.set(&message, &error);
            }
            drop(in_hand);
        });
    }

    pub(super) async fn message(&self, id: &MessageId) -> Result<Option<Message>, Error> {
        Ok(stored(&*self.inner().store, id).await?)
    }

    /// Steps on with a message as far as it goes now, whatever goes wrong with it; says after how long to look at it again. Only
    /// an error of the store as a whole is one.
    async fn drive(&self, rules: &Arc<Rules>, seen: &Message) -> Result<Duration, Error> {
        let id = &seen.id;
        let driven = async {
            match as_seen(&*self.inner().store, seen).await? {
                Some(message) => self.take_steps(rules, message, None).await,
                None => Ok(LOOK_AGAIN),
            }
        };
        let error = match driven.await {
            Err(error) if !error.is_of_all() => error,
            taken => return taken,
        };
        if matches!(error, Error::Store(_)) {
            error!(channel = %seen.channel, message_id = %id, %error, "a step of a message failed in the store");
        }
        let failed = Outcome::Failed(self.inner().failure(&error));
        let noted = async {
            // As it stands: some of what was to be done may have been.
            match self.message(id).await? {
                Some(message) => self.take_steps(rules, message, Some(failed)).await,
                None => Ok(LOOK_AGAIN),
            }
        };
        match noted.await {
            Err(error) if !error.is_of_all() => {
                self.inbox.aside.set(seen, &error);
                Ok(SET_ASIDE)
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

fn additions(message: &Message) -> Piece {
    Piece::Additions(message.channel.clone(), message.conversation.clone())
}

async fn stored(store: &dyn Store, id: &MessageId) -> Result<Option<Message>, store::Error> {
    let named = MessageFilter { id: Some(id.clone()), ..MessageFilter::default() };
    Ok(store.messages(&named).await?.into_iter().next())
}

/// A message, unless its row changed since it was read. What to do with it was chosen by the old row, so that the message is
/// left alone; whoever changed it wakes the loop.
async fn as_seen(store: &dyn Store, seen: &Message) -> Result<Option<Message>, store::Error> {
    Ok(stored(store, &seen.id).await?.filter(|now| now == seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Write;
    use crate::store::conformance::samples;
    use crate::store::memory::Memory;

    #[test]
    fn what_breaks_one_change_off_is_not_of_all() {
        assert!(!Error::CutOff.is_of_all());
    }

    #[test]
    fn a_message_that_is_set_aside_is_told_with_its_channel_and_the_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(file.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        let message = samples::message(1, "room");
        let aside = Aside::default();
        tracing::subscriber::with_default(subscriber, || aside.set(&message, &Error::CutOff));
        assert!(aside.remaining(&message.id).is_some());
        let log = std::fs::read_to_string(file.path()).unwrap();
        let told = [format!("channel=chat message_id={}", message.id), format!("error={}", Error::CutOff)];
        assert!(log.contains("ERROR") && told.iter().all(|one| log.contains(one)), "{log}");
    }

    #[tokio::test]
    async fn a_message_that_changed_since_it_was_read_is_left_alone() {
        let in_doubt =
            Message { state: State::Running, kind: MessageKind::Steer, ..samples::message(1, "room") };
        let store = Memory::default();
        assert_eq!(as_seen(&store, &in_doubt).await.unwrap(), None);
        store.commit(vec![Write::AddMessage(Box::new(in_doubt.clone()))]).await.unwrap();
        assert_eq!(as_seen(&store, &in_doubt).await.unwrap().as_ref(), Some(&in_doubt));
        // Codex refused the words, somebody answered them, or Codex took them: the last within the same millisecond.
        let refused =
            Message { state: State::Received, kind: MessageKind::Prompt, updated_at: 1, ..in_doubt.clone() };
        let answered = Message { state: State::Answered, updated_at: 2, ..in_doubt.clone() };
        let taken = Message { sealed_text: None, ..in_doubt.clone() };
        for changed in [refused, answered, taken] {
            store.commit(vec![Write::SaveMessage(Box::new(changed))]).await.unwrap();
            assert_eq!(as_seen(&store, &in_doubt).await.unwrap(), None);
        }
    }
}
