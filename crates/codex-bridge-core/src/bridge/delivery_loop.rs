//! The outbox loop: claims deliveries that are due, and runs the attempts concurrently, one per target at a time.
//!
//! A delivery that is `attempting` belongs to its attempt. All other changes to deliveries hold [`Outbox::claiming`].

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::{Notify, watch};
use tracing::{error, info, warn};

use super::{Bridge, Error, Inner};
use crate::failpoint;
use crate::outbox::notice::{MOST_REQUESTS, TurnFacts};
use crate::outbox::schedule::{self, Next, Tried};
use crate::outbox::sender::{LOOK_BACK_MS, PartLog, Refusal, Seen};
use crate::outbox::{
    Attempt, Content, Delivery, DeliveryId, DeliveryState, Notice, Occasion, Outcome, Parts, Repeats,
    Subscription,
};
use crate::request::RequestRecord;
use crate::store::{self, DeliveryFilter, RequestFilter, Write};
use crate::task::{Task, TimeMs};

/// How many attempts run at once.
const AT_ONCE: usize = 16;
/// The time limit of an attempt. Senders have shorter limits of their own, but a notice of several messages can exceed
/// this one (Telegram: up to ten messages of 20 s each). An attempt that is cut off is in doubt. Such a sender then
/// continues with the first unsent message.
const ATTEMPT_LIMIT: Duration = Duration::from_mins(1);
/// How long an attempt holds its delivery: longer than the attempt can take, so that no other attempt claims it.
const HOLD_MS: TimeMs = 120_000;
/// How often the result of an attempt is saved, with a pause after each failure. All saves fit within the hold.
const SAVES: u32 = 25;
const SAVE_PAUSE: Duration = Duration::from_secs(2);
/// The pause of the loop when nothing is due or the store fails.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// How long attempts may take when the bridge closes. Attempts that are cut off are in doubt.
const LAST_ATTEMPTS: Duration = Duration::from_secs(3);
/// How long a delivery counts as a twin of another with the same words.
const TWINS_MS: TimeMs = LOOK_BACK_MS + 60 * 60 * 1000;
/// The limit for the stored error of a failed attempt.
const ERROR_CHARS: usize = 400;

/// The state of the outbox that is not stored.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Wakes the loop.
    wake: Arc<Notify>,
    /// Notified when an attempt has ended.
    landed: Notify,
    /// The targets with a running attempt.
    busy: Mutex<HashSet<String>>,
    /// Targets that reported to be gone for good, with the delivery that found out.
    gone: Mutex<BTreeMap<String, DeliveryId>>,
    /// Held while a delivery without a running attempt is changed.
    claiming: tokio::sync::Mutex<Claims>,
    /// Changes whenever a delivery is finished: sent, dead or withdrawn.
    pub(crate) finished: watch::Sender<u64>,
}

/// Whether attempts may begin.
#[derive(Debug, Default, PartialEq, Eq)]
enum Claims {
    #[default]
    Open,
    Closed,
}

impl Outbox {
    /// A delivery is finished.
    pub(super) fn notify_finished(&self) {
        self.finished.send_modify(|count| *count += 1);
    }

    fn busy(&self) -> MutexGuard<'_, HashSet<String>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gone(&self) -> MutexGuard<'_, BTreeMap<String, DeliveryId>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_gone(&self, target: &str) -> bool {
        self.gone().contains_key(target)
    }

    /// Wakes the loop: a delivery may be due.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Begins no further attempts, and waits a little for the running ones.
    pub(super) async fn close(&self) {
        let all_landed = async {
            // Under the time limit too, because a store that hangs keeps this lock.
            *self.claiming.lock().await = Claims::Closed;
            loop {
                let landed = self.landed.notified();
                if self.busy().is_empty() {
                    return;
                }
                landed.await;
            }
        };
        if tokio::time::timeout(LAST_ATTEMPTS, all_landed).await.is_err() {
            warn!(
                "the daemon ends before all deliveries are sent; the next daemon retries them, as in doubt"
            );
        }
    }
}

/// Marks a target as busy, until dropped.
struct Busy {
    inner: Arc<Inner>,
    target: String,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.inner.outbox.busy().remove(&self.target);
        self.inner.outbox.landed.notify_waiters();
        self.inner.outbox.wake();
    }
}

/// Stores how many messages of a delivery have arrived, while its attempt runs.
struct StoredParts {
    /// Weak, since a sender may keep its attempt for longer than the bridge lives.
    inner: Weak<Inner>,
    delivery: Delivery,
    sent: AtomicU32,
}

impl StoredParts {
    fn of(inner: &Arc<Inner>, delivery: &Delivery) -> Self {
        let sent = AtomicU32::new(delivery.parts_sent);
        Self { inner: Arc::downgrade(inner), delivery: delivery.clone(), sent }
    }
}

impl PartLog for StoredParts {
    fn sent(&self, parts: u32) -> BoxFuture<'_, Result<(), String>> {
        self.sent.store(parts, Ordering::SeqCst);
        let Some(inner) = self.inner.upgrade() else {
            return ready(Err("the daemon is ending".to_owned())).boxed();
        };
        let delivery = Delivery { parts_sent: parts, updated_at: inner.now(), ..self.delivery.clone() };
        async move {
            let saved = inner.commit(vec![Write::SaveDelivery(Box::new(delivery))]).await;
            saved.map(drop).map_err(|error| error.to_string())
        }
        .boxed()
    }
}

/// Runs until the bridge is dropped.
pub(super) async fn run(bridge: Weak<Inner>) {
    let Some(wake) = bridge.upgrade().map(|inner| Arc::clone(&inner.outbox.wake)) else { return };
    loop {
        let Some(inner) = bridge.upgrade() else { return };
        let pause = inner.begin_attempts().await.unwrap_or_else(|error| {
            error!(%error, "cannot begin the deliveries that are due; retrying in a minute");
            LOOK_AGAIN
        });
        drop(inner);
        tokio::time::timeout(pause, wake.notified()).await.ok();
    }
}

impl Inner {
    /// Retries deliveries that were being sent when the last bridge ended. Loads the targets that are gone.
    pub(super) async fn recover_outbox(&self) -> Result<(), store::Error> {
        let now = self.now();
        let cut_off = DeliveryFilter { states: vec![DeliveryState::Attempting], ..DeliveryFilter::default() };
        let cut_off = self.store.deliveries(&cut_off).await?.into_iter();
        // The store has one owner, so no other attempt holds them.
        let due = |one: Delivery| Delivery { next_at: one.next_at.min(now), ..one };
        let due = cut_off.map(|one| Write::SaveDelivery(Box::new(due(one))));
        self.store.commit(due.collect()).await?;
        let states = vec![DeliveryState::Dead];
        let gone = DeliveryFilter { states, target_gone: true, ..DeliveryFilter::default() };
        let gone = self.store.deliveries(&gone).await?.into_iter();
        self.outbox.gone().extend(gone.map(|one| (one.target, one.id)));
        Ok(())
    }

    /// Begins the deliveries that are due. Returns the pause until the next one is.
    async fn begin_attempts(self: &Arc<Self>) -> Result<Duration, store::Error> {
        let claims = self.outbox.claiming.lock().await;
        let now = self.now();
        let mut pause = LOOK_AGAIN;
        for delivery in self.store.next_deliveries().await? {
            let due_in = u64::try_from(delivery.next_at - now).unwrap_or_default();
            let is_free = *claims == Claims::Open && self.outbox.busy().len() < AT_ONCE;
            if self.outbox.busy().contains(&delivery.target) || !is_free {
                // The end of the attempt wakes the loop.
                continue;
            }
            if due_in > 0 {
                pause = pause.min(Duration::from_millis(due_in));
                continue;
            }
            if let Some(claimed) = self.claim(delivery, now).await? {
                self.outbox.busy().insert(claimed.target.clone());
                let busy = Busy { inner: Arc::clone(self), target: claimed.target.clone() };
                self.tasks.spawn(async move { busy.inner.attempt(claimed).await });
            } else {
                pause = Duration::ZERO;
            }
        }
        Ok(pause)
    }

    /// Claims a delivery for an attempt. `None` if the delivery has to wait or is given up instead.
    async fn claim(&self, mut delivery: Delivery, now: TimeMs) -> Result<Option<Delivery>, store::Error> {
        delivery.taken_up_at = Some(schedule::since(delivery.since(), delivery.next_at, now));
        delivery.join_key = None;
        delivery.updated_at = now;
        if delivery.state == DeliveryState::Attempting {
            self.break_off(&mut delivery, now);
        }
        let gone = self.outbox.gone().get(&delivery.target).cloned();
        if let Some(id) = gone {
            delivery.state = DeliveryState::Dead;
            delivery.last_error =
                Some(format!("the target was gone when {id} was sent; a retry tries it again"));
        }
        let is_ours = delivery.state == DeliveryState::Pending && delivery.next_at <= now;
        if is_ours {
            (delivery.state, delivery.next_at) = (DeliveryState::Attempting, now + HOLD_MS);
        }
        self.commit(vec![Write::SaveDelivery(Box::new(delivery.clone()))]).await?;
        Ok(is_ours.then_some(delivery))
    }

    /// Records that the last attempt ended without a result, as when the daemon was killed.
    fn break_off(&self, delivery: &mut Delivery, now: TimeMs) {
        self.counters.lose_lease();
        delivery.in_doubt = true;
        let (since, chance) = (delivery.since(), self.config.random.number());
        let tried = Tried { attempts: delivery.broken_off, since, now, chance };
        if let Some(at) = schedule::after_break(tried) {
            (delivery.state, delivery.next_at) = (DeliveryState::Pending, at);
        } else {
            delivery.state = DeliveryState::Dead;
            delivery.last_error = Some("every attempt was cut off; the message may have arrived".to_owned());
        }
        delivery.broken_off = delivery.broken_off.saturating_add(1);
    }

    /// Makes one attempt and stores its result. If the store fails, the delivery is later retried as in doubt.
    async fn attempt(self: &Arc<Self>, mut delivery: Delivery) {
        match self.is_still_wanted(&mut delivery).await {
            Ok(true) => {}
            Ok(false) => {
                delivery.state = DeliveryState::Withdrawn;
                return self.save_delivery(delivery).await;
            }
            Err(error) => {
                let (delivery, target) = (&delivery.id, &delivery.target);
                return error!(%delivery, target, %error, "the store failed; the delivery waits");
            }
        }
        failpoint::hit("delivery.before_send");
        let parts = Arc::new(StoredParts::of(self, &delivery));
        let outcome = in_time(self.send(&delivery, Arc::clone(&parts))).await;
        failpoint::hit("delivery.sent");
        let parts_sent = parts.sent.load(Ordering::SeqCst);
        if parts_sent > delivery.parts_sent {
            // An earlier doubt was about a message that has arrived meanwhile.
            (delivery.parts_sent, delivery.in_doubt) = (parts_sent, false);
        }
        self.settle(&mut delivery, outcome);
        self.save_delivery(delivery).await;
    }

    /// Updates a notice that asks for decisions. False if none of its requests is open any more.
    async fn is_still_wanted(&self, delivery: &mut Delivery) -> Result<bool, store::Error> {
        let (task_id, is_reminder) = match &delivery.notice.content {
            Content::Asks(asks) => (asks.task.id.clone(), false),
            Content::Reminder(reminder) => (reminder.task.id.clone(), true),
            Content::Finished(_) | Content::Reply(_) | Content::Test => return Ok(true),
        };
        let mut open = self.store.requests(&RequestFilter::open_of(task_id.clone())).await?;
        let is_told = |request: &RequestRecord| delivery.notice.tells_of(&request.request_id);
        // A wait that the target asked for is no attempt, but may come after the first of several messages.
        let was_tried = delivery.tried() > 0 || delivery.in_doubt || delivery.last_error.is_some();
        // A retry repeats the same words, so only a first attempt is updated.
        let is_wanted = open.iter().any(is_told);
        if is_reminder {
            if was_tried || !is_wanted {
                return Ok(is_wanted);
            }
            // Remind only of requests that are still open.
            open.retain(is_told);
            return self.ask_for(delivery, &open).await;
        }
        let occasion = delivery.notice.occasion();
        open.retain(|request| Occasion::of_request(request) == occasion && !(was_tried && is_told(request)));
        let target = Some(delivery.target.clone());
        let of_task = DeliveryFilter { task_ids: vec![task_id], target, ..DeliveryFilter::default() };
        let mut others = self.store.deliveries(&of_task).await?;
        others.retain(|other| other.id != delivery.id);
        // A notice from before the request was opened again does not count.
        let tells_of = |other: &Delivery, request: &RequestRecord| {
            other.updated_at >= request.created_at && other.notice.tells_of(&request.request_id)
        };
        open.retain(|request| !others.iter().any(|other| tells_of(other, request)));
        if was_tried {
            // Requests that joined this notice before the daemon died, and were never sent.
            self.commit(self.another_notice(delivery, &open).into_iter().collect()).await?;
            return Ok(is_wanted);
        }
        self.ask_for(delivery, &open).await
    }

    /// Rewrites a notice for the open requests, with another notice for those that do not fit. False if none is open.
    async fn ask_for(&self, delivery: &mut Delivery, open: &[RequestRecord]) -> Result<bool, store::Error> {
        let (first, rest) = open.split_at(open.len().min(MOST_REQUESTS));
        delivery.notice = delivery.notice.asking_for(first);
        let saved = Write::SaveDelivery(Box::new(delivery.clone()));
        self.commit(std::iter::once(saved).chain(self.another_notice(delivery, rest)).collect()).await?;
        Ok(!open.is_empty())
    }

    async fn send(&self, delivery: &Delivery, parts: Arc<StoredParts>) -> Outcome {
        let sender = &self.config.sender;
        let mut attempt = Attempt::first(delivery.id.clone(), &delivery.target, delivery.notice.clone());
        attempt.number = delivery.tried().saturating_add(1);
        attempt.parts = Parts::new(delivery.parts_sent, parts);
        if delivery.in_doubt {
            match sender.repeats(&attempt) {
                Repeats::Idempotent { within } => {
                    let age = u64::try_from(self.now() - delivery.created_at).unwrap_or_default();
                    attempt.may_be_duplicate =
                        within.is_some_and(|within| u128::from(age) >= within.as_millis());
                }
                Repeats::LookFirst => {
                    attempt.twins = self.twins(delivery).await;
                    match sender.look(&attempt).await {
                        Ok(Seen::Yes { message_id, shown }) => {
                            return Outcome::Delivered { message_id, shown };
                        }
                        Ok(Seen::No) => {}
                        Err(error) => return Outcome::failed(Refusal::Later, error),
                    }
                }
                Repeats::MayDouble => attempt.may_be_duplicate = true,
            }
        }
        sender.send(attempt).await
    }

    /// How many deliveries with the same words the target got within the last day and a little more. One too many
    /// repeats a message; one too few loses it.
    async fn twins(&self, delivery: &Delivery) -> usize {
        let since = Some(self.now() - TWINS_MS);
        let delivered =
            DeliveryFilter { since, ..DeliveryFilter::to(&delivery.target, DeliveryState::Delivered) };
        let delivered = match self.store.deliveries(&delivered).await {
            Ok(delivered) => delivered,
            Err(error) => {
                error!(delivery = %delivery.id, %error, "cannot look up deliveries with the same words");
                return usize::MAX;
            }
        };
        let own = delivery.notice.words();
        let is_twin = |one: &&Delivery| one.notice.words() == own;
        delivered.iter().filter(is_twin).count()
    }

    /// Applies the result of an attempt to its delivery.
    fn settle(&self, delivery: &mut Delivery, outcome: Outcome) {
        let (since, now, chance) = (delivery.since(), self.now(), self.config.random.number());
        let tried = Tried { attempts: delivery.attempts, since, now, chance };
        match schedule::next(tried, &outcome) {
            Next::Delivered => delivery.state = DeliveryState::Delivered,
            Next::Again { at, attempts } => {
                (delivery.state, delivery.next_at, delivery.attempts) =
                    (DeliveryState::Pending, at, attempts);
            }
            Next::Dead { target_gone } => {
                (delivery.state, delivery.target_gone) = (DeliveryState::Dead, target_gone);
                delivery.attempts += 1;
                if target_gone {
                    self.outbox.gone().insert(delivery.target.clone(), delivery.id.clone());
                }
            }
        }
        match outcome {
            Outcome::Delivered { message_id, shown } => {
                delivery.notice.note_shown(&shown, &self.config.redactor);
                (delivery.message_id, delivery.last_error, delivery.in_doubt) = (message_id, None, false);
                delivery.attempts += 1;
            }
            Outcome::Failed { in_doubt, error, .. } => {
                delivery.in_doubt |= in_doubt;
                delivery.last_error = Some(self.shown_error(&error));
            }
        }
    }

    pub(crate) fn shown_error(&self, error: &str) -> String {
        let error = self.config.redactor.redact(error);
        redact::plain::plain(&error).chars().take(ERROR_CHARS).collect()
    }

    /// Saves the result of an attempt. Retries as long as the attempt holds the delivery: a message must not be sent
    /// twice because the disk was full for a moment. A result that cannot be saved leaves the delivery in doubt.
    async fn save_delivery(&self, mut delivery: Delivery) {
        let (id, target, state) = (delivery.id.clone(), delivery.target.clone(), delivery.state.as_str());
        info!(delivery = %id, target, state, error = delivery.last_error, "a delivery attempt ended");
        for save in 1..=SAVES {
            delivery.updated_at = self.now();
            match self.commit(vec![Write::SaveDelivery(Box::new(delivery.clone()))]).await {
                Ok(()) => return,
                Err(error) if save == 1 => {
                    error!(delivery = %id, target, %error, "cannot save the result of a delivery attempt; retrying");
                }
                Err(_) => {}
            }
            tokio::time::sleep(SAVE_PAUSE).await;
        }
        error!(delivery = %id, target, "the result of a delivery attempt was not saved: the delivery is in doubt");
    }
}

impl Inner {
    /// The deliveries that announce a finished task.
    pub(crate) fn deliveries_for_finished(
        &self,
        task: &Task,
        turn: TurnFacts<'_>,
        now: TimeMs,
    ) -> Vec<Write> {
        Notice::of_finished(task, turn, now)
            .map(|notice| self.deliveries_for(task, &notice, now))
            .unwrap_or_default()
    }

    /// One delivery for each of the task's targets that wants this notice.
    pub(crate) fn deliveries_for(&self, task: &Task, notice: &Notice, now: TimeMs) -> Vec<Write> {
        let subscriptions = Subscription::of(task);
        let wanted = subscriptions.iter().filter(|one| !one.is_local() && one.wants(notice.occasion()));
        let delivery = |one: &Subscription| {
            let mut notice = notice.clone();
            if let Content::Asks(asks) = &mut notice.content {
                asks.in_conversation = task.asks_in.as_ref() == Some(&one.target);
            }
            self.new_delivery(&one.target, notice, now)
        };
        wanted.map(delivery).collect()
    }

    fn new_delivery(&self, target: &str, notice: Notice, now: TimeMs) -> Write {
        let id = self.new_delivery_id();
        Write::AddDelivery(Box::new(Delivery::new(id, target, notice, now)))
    }

    fn new_delivery_id(&self) -> DeliveryId {
        DeliveryId(format!("dlv-{}", self.random_hex()))
    }

    /// A further notice of the same kind for these requests, if there are any.
    fn another_notice(&self, delivery: &Delivery, open: &[RequestRecord]) -> Option<Write> {
        let notice = (!open.is_empty()).then(|| delivery.notice.asking_for(open))?;
        Some(self.new_delivery(&delivery.target, notice, self.now()))
    }
}

impl Bridge {
    /// Deliveries, the newest first.
    pub async fn deliveries(&self, filter: &DeliveryFilter) -> Result<Vec<Delivery>, Error> {
        Ok(self.inner.store.deliveries(filter).await?)
    }

    /// Retries a delivery that was given up or waits: now, and with all its attempts again. Also retries its target if
    /// that was gone. A reply stays in order: replies before it are sent first, also now.
    pub async fn retry_delivery(&self, id: &str, by: &str) -> Result<Delivery, Error> {
        let (id, by) = (id.to_owned(), by.to_owned());
        self.to_completion(|bridge| async move {
            let (inner, outbox) = (&bridge.inner, &bridge.inner.outbox);
            let _claiming = outbox.claiming.lock().await;
            let filter = DeliveryFilter { id: Some(id.as_str().into()), ..DeliveryFilter::default() };
            let found = inner.store.deliveries(&filter).await?.into_iter().next();
            let mut delivery = found.ok_or_else(|| Error::UnknownDelivery(id.clone()))?;
            if !matches!(delivery.state, DeliveryState::Dead | DeliveryState::Pending) {
                let state = delivery.state.as_str();
                return Err(Error::Refused(format!(
                    "delivery {id} is {state}: only dead or pending deliveries can be retried"
                )));
            }
            let now = inner.now();
            (delivery.state, delivery.target_gone) = (DeliveryState::Pending, false);
            (delivery.attempts, delivery.broken_off) = (0, 0);
            if !delivery.notice.requests().is_empty() {
                // Who decides must see all of it, and nobody knows what is still to be seen there.
                delivery.parts_sent = 0;
            }
            (delivery.next_at, delivery.updated_at, delivery.taken_up_at) = (now, now, Some(now));
            let mut batch = bridge.reopened(&delivery.target).await?;
            batch.extend(bridge.before(&delivery, now).await?);
            batch.push(Write::SaveDelivery(Box::new(delivery.clone())));
            batch.push(inner.audit(&by, "retry delivery", delivery.task_id.as_ref(), delivery.id.as_str()));
            inner.commit(batch).await?;
            outbox.gone().remove(&delivery.target);
            outbox.wake();
            Ok(delivery)
        })
        .await
    }

    /// The writes that mark a target as no longer gone.
    async fn reopened(&self, target: &str) -> Result<Vec<Write>, Error> {
        let gone = DeliveryFilter { target_gone: true, ..DeliveryFilter::to(target, DeliveryState::Dead) };
        let gone = self.inner.store.deliveries(&gone).await?.into_iter();
        let reopened = gone.map(|one| Delivery { target_gone: false, ..one });
        Ok(reopened.map(|one| Write::SaveDelivery(Box::new(one))).collect())
    }

    /// The writes that make earlier replies of the same task due now.
    async fn before(&self, delivery: &Delivery, now: TimeMs) -> Result<Vec<Write>, Error> {
        let waiting = DeliveryFilter::to(&delivery.target, DeliveryState::Pending);
        let is_reply = |one: &Delivery| one.notice.occasion() == Occasion::Reply;
        let holds_up = |one: &Delivery| is_reply(one) && one.task_id == delivery.task_id;
        let waiting = self.inner.store.deliveries(&waiting).await?.into_iter();
        let before = waiting.rev().take_while(|one| one.id != delivery.id).filter(holds_up);
        let due = before.map(|one| Write::SaveDelivery(Box::new(Delivery { next_at: now, ..one })));
        Ok(if is_reply(delivery) { due.collect() } else { Vec::new() })
    }

    /// Commits incoming messages. A target from which a message came is no longer gone.
    pub(crate) async fn commit_from(&self, places: &[String], mut batch: Vec<Write>) -> Result<(), Error> {
        let outbox = &self.inner.outbox;
        if !places.iter().any(|place| outbox.is_gone(place)) {
            return Ok(self.inner.commit(batch).await?);
        }
        let _claiming = outbox.claiming.lock().await;
        for place in places {
            batch.extend(self.reopened(place).await?);
        }
        self.inner.commit(batch).await?;
        outbox.gone().retain(|place, _| !places.contains(place));
        Ok(())
    }

    /// Checks that the target exists.
    pub fn check_target(&self, target: &str) -> Result<(), Error> {
        Ok(self.inner.config.sender.check(target)?)
    }

    /// Sends one test notice to a target. Only the audit log records it.
    pub async fn try_target(&self, target: &str, by: &str) -> Result<Option<String>, Error> {
        let (target, by) = (target.to_owned(), by.to_owned());
        self.to_completion(|bridge| async move {
            let inner = &bridge.inner;
            inner.config.sender.check(&target)?;
            inner.commit(vec![inner.audit(&by, "test delivery", None, &target)]).await?;
            let notice = Notice { at: inner.now(), content: Content::Test };
            let attempt = Attempt::first(inner.new_delivery_id(), &target, notice);
            match in_time(inner.config.sender.send(attempt)).await {
                Outcome::Delivered { message_id, .. } => Ok(message_id),
                Outcome::Failed { error, .. } => {
                    Err(Error::Undelivered { target, why: inner.shown_error(&error) })
                }
            }
        })
        .await
    }
}

/// Limits the time of an attempt.
async fn in_time(attempt: impl Future<Output = Outcome>) -> Outcome {
    let outcome = tokio::time::timeout(ATTEMPT_LIMIT, attempt).await;
    outcome.unwrap_or_else(|_| Outcome::in_doubt("the target did not answer in time"))
}
