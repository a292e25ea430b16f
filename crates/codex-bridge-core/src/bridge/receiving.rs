//! The inbox at work: messages become turns, in order within a conversation and side by side across conversations; what
//! comes of a turn becomes a reply in the outbox, in one piece with the message that it answers.
//!
//! One loop owns every message that was received or runs. A message is changed elsewhere only when it came in (before
//! the loop has seen it) and when its source was told (after the loop is done with it).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio::time::Instant;

use super::{Bridge, Error, Inner, News};
use crate::inbox::{
    ChannelName, ConversationKey, Message, MessageId, MessageKind, Rules, State, WhileRunning,
};
use crate::request::RequestName;
use crate::store::{self, MessageFilter};
use crate::task::TaskId;

mod commanding;
mod deciding;
mod failing;
mod keeping;
mod putting_off;
mod showing;
mod steering;
mod taking;
mod turning;

pub use deciding::{Button, Choice, Pending, Verdict};
pub use keeping::Knock;

use keeping::Knocks;
use putting_off::PutOff;

/// With nothing to wait for, it is looked again after so long.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// Things that are done with messages beside the loop at once.
const AT_ONCE: usize = 64;
/// How long a store that failed is left alone.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// What the inbox knows beyond its rows.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The channels that are served.
    channels: Mutex<BTreeMap<ChannelName, Arc<Rules>>>,
    /// Wakes the loop.
    wake: Arc<Notify>,
    /// Has it look at everything.
    look_at_all: AtomicBool,
    /// Changes whenever a reply has been sent or given up.
    sent: watch::Sender<u64>,
    /// What is being worked on beside the loop.
    in_hand: Mutex<BTreeSet<Piece>>,
    /// Messages whose failure could not be written, and until when they are left alone.
    aside: Mutex<BTreeMap<MessageId, std::time::Instant>>,
    /// Tasks that somebody else has at work, and that a message waits for.
    awaited: Mutex<BTreeSet<TaskId>>,
    /// Who wrote without being allowed to.
    knocks: Mutex<Knocks>,
    /// Held while messages are taken in: what was put off meanwhile.
    taking: tokio::sync::Mutex<PutOff>,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            channels: Mutex::default(),
            wake: Arc::default(),
            look_at_all: AtomicBool::default(),
            sent: watch::Sender::new(0),
            in_hand: Mutex::default(),
            aside: Mutex::default(),
            awaited: Mutex::default(),
            knocks: Mutex::default(),
            taking: tokio::sync::Mutex::default(),
        }
    }
}

impl Inbox {
    fn channels(&self) -> MutexGuard<'_, BTreeMap<ChannelName, Arc<Rules>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rules(&self, channel: &ChannelName) -> Option<Arc<Rules>> {
        self.channels().get(channel).cloned()
    }

    fn in_hand(&self) -> MutexGuard<'_, BTreeSet<Piece>> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn aside(&self) -> MutexGuard<'_, BTreeMap<MessageId, std::time::Instant>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, BTreeSet<TaskId>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Anything may have to be done: the rules have changed.
    fn look_at_all(&self) {
        self.look_at_all.store(true, Ordering::SeqCst);
        self.look();
    }

    /// A message may be ready for its next step.
    fn look(&self) {
        self.wake.notify_one();
    }

    /// A reply has been sent, or given up.
    pub(super) fn reply_is_out(&self) {
        self.sent.send_modify(|count| *count += 1);
    }
}

/// Something that is worked on beside the loop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    /// A message.
    Message(MessageId),
    /// A request.
    Request(RequestName),
    /// What is added to the turn of a conversation.
    Additions(ChannelName, ConversationKey),
}

/// A piece of work beside the loop, which nobody else begins until this is dropped.
struct InHand {
    inner: Arc<Inner>,
    piece: Piece,
}

impl InHand {
    /// None if somebody else has it, or too much is being done already: it is looked at again when that is over.
    fn take(inner: &Arc<Inner>, piece: Piece) -> Option<Self> {
        let mut in_hand = inner.inbox.in_hand();
        let is_free = in_hand.len() < AT_ONCE && in_hand.insert(piece.clone());
        is_free.then(|| Self { inner: Arc::clone(inner), piece })
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.inner.inbox.in_hand().remove(&self.piece);
        self.inner.inbox.look();
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
}

/// When to look again, if nothing happens before.
struct Alarm {
    /// Everything is looked at then, however much happens before.
    all: Instant,
    /// A message may be ready for its next step then.
    next: Instant,
}

/// Runs for as long as the bridge does.
pub(super) async fn run(bridge: Weak<Inner>) {
    let Some(inner) = bridge.upgrade() else { return };
    let (wake, mut news) = (Arc::clone(&inner.inbox.wake), inner.news.subscribe());
    drop(inner);
    let mut changed = Changed { all: true, ..Changed::default() };
    let mut alarm = Alarm { all: Instant::now(), next: Instant::now() };
    loop {
        let Some(inner) = bridge.upgrade() else { return };
        changed.all |= inner.inbox.look_at_all.swap(false, Ordering::SeqCst);
        let Ok(looked) = (Bridge { inner }).look_at_inbox(&changed).await else {
            tokio::time::sleep(STORE_PAUSE).await;
            changed = Changed { all: true, ..Changed::default() };
            continue;
        };
        let now = Instant::now();
        if changed.all {
            alarm.all = now + LOOK_AGAIN;
        }
        if let Some(pause) = looked {
            alarm.next = now + pause;
        }
        changed = Changed::default();
        while !changed.is_some() {
            tokio::select! {
                biased;
                () = wake.notified() => changed.waiting = true,
                () = tokio::time::sleep_until(alarm.all.min(alarm.next)) => changed.waiting = true,
                told = news.recv() => note(told, &mut changed),
            }
        }
        while let Some(told) = more(&mut news) {
            note(told, &mut changed);
        }
        changed.all |= Instant::now() >= alarm.all;
    }
}

fn more(news: &mut broadcast::Receiver<News>) -> Option<Result<News, broadcast::error::RecvError>> {
    match news.try_recv() {
        Ok(told) => Some(Ok(told)),
        Err(broadcast::error::TryRecvError::Lagged(count)) => {
            Some(Err(broadcast::error::RecvError::Lagged(count)))
        }
        Err(_) => None,
    }
}

fn note(told: Result<News, broadcast::error::RecvError>, changed: &mut Changed) {
    match told {
        Ok(News::Task(task_id)) => drop(changed.tasks.insert(task_id)),
        Ok(_) => {}
        Err(_) => changed.all = true,
    }
}

impl Bridge {
    /// Takes every message one step further that can be; says after how long another one may be, if it looked.
    async fn look_at_inbox(&self, changed: &Changed) -> Result<Option<Duration>, Error> {
        let channels: Vec<Arc<Rules>> = self.inner.inbox.channels().values().cloned().collect();
        if channels.is_empty() {
            return Ok(Some(LOOK_AGAIN));
        }
        let mut is_due = changed.all || changed.waiting;
        for task_id in &changed.tasks {
            is_due |= self.inner.inbox.awaited().remove(task_id);
            is_due |= self.settle_alone(task_id).await?;
        }
        if !is_due {
            return Ok(None);
        }
        let mut pause = LOOK_AGAIN;
        for rules in channels {
            // What is to be added to a turn stands before what follows, until it is known what becomes of it. What is
            // urgent waits for nothing: the turn may wait for it.
            let mut held = BTreeSet::new();
            for message in self.inner.store.next_messages(&rules.channel).await? {
                if message.is_to_be_added() {
                    held.insert(message.conversation.clone());
                } else if message.waits_in_line() && held.contains(&message.conversation) {
                    continue;
                }
                if changed.all && message.state == State::Running {
                    self.take_up(&message).await?;
                }
                pause = pause.min(self.step_alone(&rules, message).await?);
            }
        }
        Ok(Some(pause))
    }

    /// What runs may have ended unheard.
    async fn take_up(&self, message: &Message) -> Result<(), Error> {
        match &message.task_id {
            Some(task_id) => self.settle_alone(task_id).await.map(drop),
            None => Ok(()),
        }
    }

    /// Settles a task's messages. If that goes wrong, its message is tried again later; says whether it did.
    async fn settle_alone(&self, task_id: &TaskId) -> Result<bool, Error> {
        let error = match self.settle(task_id).await {
            Err(error) if !error.is_of_all() => error,
            settled => return settled.map(|()| false),
        };
        let filter = MessageFilter {
            task_id: Some(task_id.clone()),
            states: vec![State::Running],
            ..MessageFilter::default()
        };
        let running = self.inner.store.messages(&filter).await?;
        for message in running.iter().filter(|message| message.kind == MessageKind::Prompt) {
            if let Some(rules) = self.inner.inbox.rules(&message.channel) {
                self.fail(&rules, &message.id, &error).await?;
            }
        }
        Ok(true)
    }

    /// One message, one step further, whatever goes wrong with it; says after how long to look at it again.
    async fn step_alone(&self, rules: &Arc<Rules>, message: Message) -> Result<Duration, Error> {
        let wait = u64::try_from(message.next_at - self.inner.now()).unwrap_or_default();
        if wait > 0 {
            return Ok(Duration::from_millis(wait));
        }
        if let Some(wait) = self.inner.inbox.is_aside_for(&message.id) {
            return Ok(wait);
        }
        let id = message.id.clone();
        match self.step(rules, message).await {
            Ok(()) => Ok(LOOK_AGAIN),
            Err(error) if error.is_of_all() => Err(error),
            Err(error) => self.fail(rules, &id, &error).await,
        }
    }

    async fn step(&self, rules: &Arc<Rules>, message: Message) -> Result<(), Error> {
        match (message.state, message.kind) {
            (State::Received, MessageKind::Prompt) => self.begin(rules, &message).await?,
            (State::Received, MessageKind::Command) => self.carry_out(rules, message).await?,
            (State::Received, MessageKind::UrgentCommand) => self.carry_out_beside(rules, message),
            // Its end could not be written.
            (State::Running, MessageKind::Prompt) if message.attempts > 0 => self.take_up(&message).await?,
            (State::Running, MessageKind::Prompt) if rules.while_running == WhileRunning::Steer => {
                self.steer_with_next(&message).await?;
            }
            (State::Received, MessageKind::Steer) if message.is_to_be_added() => {
                self.steer_beside(rules, message);
            }
            (State::Running, MessageKind::Steer) if message.is_to_be_added() => {
                self.find_once_over(rules, message).await?;
            }
            // The turn that it was added to may have ended before that was known.
            (State::Running, MessageKind::Steer) => self.take_up(&message).await?,
            _ => {}
        }
        Ok(())
    }

    async fn save_message(&self, message: &mut Message) -> Result<(), store::Error> {
        message.updated_at = self.inner.now();
        self.inner.commit(vec![store::Write::SaveMessage(Box::new(message.clone()))]).await?;
        Ok(())
    }
}
