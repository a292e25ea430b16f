//! Serves one channel until it is paused or fails for good: reads messages, acknowledges finished ones, and restarts the
//! channel after an error.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codex_bridge_core::Chats;
use codex_bridge_core::bridge::{Error, News};
use codex_bridge_core::chats::{PendingVerdict, Verdict};
use codex_bridge_core::inbox::{ChannelName, ChannelRecord, MessageState, Receipt, Received};
use codex_bridge_core::request::RequestState;
use codex_bridge_core::store::{MessageFilter, RequestFilter};
use futures_util::FutureExt;
use futures_util::future::{pending, ready};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::registry::{ChannelStatus, Journal};
use super::settings::Service;
use super::{
    Activity, Batch, Buttons, ChannelError, Keeper, Receiving, Stored, Stranger, Tap, attachments, progress,
    signs,
};

/// The pause after the first error; it doubles with each further one.
const MIN_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// A channel that worked before is stopped after this many fatal errors in a row: a single one may be a fault of the platform.
const MAX_REFUSALS: u32 = 3;
const MIN_REFUSED_BACKOFF: Duration = Duration::from_secs(3);
/// Messages that finish within this time are acknowledged together.
const ACKNOWLEDGE_DELAY: Duration = Duration::from_millis(50);
const ACKNOWLEDGE_RETRY: Duration = Duration::from_secs(2);
/// The pause between two looks at what the channel is working on.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(1);
/// How often finished messages are looked for without news of a reply.
const ACKNOWLEDGE_INTERVAL: Duration = Duration::from_secs(30);

/// Requests that are decided within this time lose their buttons together.
const EDIT_DELAY: Duration = Duration::from_millis(200);
/// How often messages with buttons are looked at without news.
const EDIT_RETRY: Duration = Duration::from_secs(3);
/// The pause before a source is read again that had nothing new; it doubles each time.
const MIN_POLL_PAUSE: Duration = Duration::from_millis(20);
const MAX_POLL_PAUSE: Duration = Duration::from_secs(1);

/// What a batch had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// It had only messages that are known.
    Known,
    /// It had something new, or nothing.
    Other,
}

/// The state of a served channel.
struct Worker {
    chats: Chats,
    service: Service,
    journal: Arc<Journal>,
    /// Whether a batch was read since the last error.
    has_read: AtomicBool,
}

/// Serves the channel until it fails for good.
pub async fn run(chats: Chats, service: Service, journal: Arc<Journal>) {
    let worker = Worker { chats, service, journal, has_read: AtomicBool::new(false) };
    let name = worker.name().clone();
    let mut backoff = MIN_BACKOFF;
    // A channel that never worked is stopped by its first fatal error.
    let mut refusals = MAX_REFUSALS;
    loop {
        let began = tokio::time::Instant::now();
        let span = tracing::error_span!("channel", channel = name.as_str());
        let Err(error) = tracing::Instrument::instrument(worker.serve(), span).await;
        if worker.has_read.swap(false, Ordering::Relaxed) {
            refusals = 0;
        }
        let (after, reason) = match error {
            ChannelError::Fatal(reason) => {
                refusals += 1;
                if refusals >= MAX_REFUSALS {
                    worker.journal.set(name.as_str(), ChannelStatus::Stopped, &reason);
                    worker.chats.close_channel(&name);
                    return;
                }
                (Some(backoff.max(MIN_REFUSED_BACKOFF)), reason)
            }
            ChannelError::Retry { after, reason } => (after, reason),
        };
        if began.elapsed() > MAX_BACKOFF {
            backoff = MIN_BACKOFF;
        }
        worker.journal.set(name.as_str(), ChannelStatus::Retrying, &reason);
        tokio::time::sleep(after.unwrap_or(backoff)).await;
        backoff = (backoff * 2).min(MAX_BACKOFF);
    }
}

impl Worker {
    fn name(&self) -> &ChannelName {
        &self.service.rules.channel
    }

    fn channel(&self) -> &dyn Receiving {
        self.service.channel.as_ref()
    }

    /// Starts the channel and serves it until an error.
    async fn serve(&self) -> Result<Infallible, ChannelError> {
        let ChannelRecord { cursor, memory, .. } = self.chats.channel(self.name()).await?;
        let keeper = Keeper::new(self.chats.clone(), self.name().clone());
        let sentence = self.channel().start(Stored { cursor, memory, keeper }).await?;
        self.chats.open_channel(self.service.rules.clone()).await?;
        self.journal.set(self.name().as_str(), ChannelStatus::Serving, &sentence);
        Err(tokio::select! {
            error = self.read() => error,
            error = self.acknowledge() => error,
            error = self.report() => error,
            error = self.show_progress() => error,
            error = self.close_buttons() => error,
            error = signs::run(&self.chats, &self.service) => error,
        })
    }

    /// Reports what the channel is working on, on platforms that show it.
    async fn report(&self) -> ChannelError {
        let Some(reports) = self.channel().reports() else { return pending().await };
        // Before the first look, so that no change is missed.
        let news = self.chats.bridge().news();
        let activity = match self.activity().await {
            Ok(activity) => activity,
            Err(error) => return error.into(),
        };
        let (sender, receiver) = watch::channel(activity);
        tokio::select! {
            error = reports.keep_reporting(receiver) => error,
            error = self.watch_activity(news, &sender) => error,
        }
    }

    /// Looks what the channel is working on whenever that may have changed: a message begins to run in one transaction with
    /// its task, and ends in one transaction with its reply.
    async fn watch_activity(
        &self,
        mut news: broadcast::Receiver<News>,
        activity: &watch::Sender<Activity>,
    ) -> ChannelError {
        loop {
            match news.recv().await {
                Ok(News::Task(_) | News::Deliveries) | Err(RecvError::Lagged(_)) => {}
                Ok(News::Event(_) | News::Live { .. }) => continue,
                Err(RecvError::Closed) => return ChannelError::retry("the bridge is closed"),
            }
            match self.activity().await {
                Ok(now) => {
                    activity.send_if_modified(|before| {
                        let is_new = *before != now;
                        *before = now;
                        is_new
                    });
                }
                Err(error) => return error.into(),
            }
            tokio::time::sleep(ACTIVITY_INTERVAL).await;
        }
    }

    async fn show_progress(&self) -> ChannelError {
        match self.channel().progress() {
            Some(display) => progress::run(&self.chats, self.name(), display).await,
            None => pending().await,
        }
        ChannelError::retry("the bridge is closed")
    }

    async fn read(&self) -> ChannelError {
        let mut pause = Duration::ZERO;
        loop {
            match self.read_batch().await {
                Err(error) => return error,
                Ok(Contents::Other) => pause = Duration::ZERO,
                // A source that answers at once with what is known must not be asked again at once.
                Ok(Contents::Known) => {
                    pause = (pause * 2).clamp(MIN_POLL_PAUSE, MAX_POLL_PAUSE);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    async fn read_batch(&self) -> Result<Contents, ChannelError> {
        self.chats.until_room(self.name()).await?;
        let cursor = self.chats.channel(self.name()).await?.cursor;
        let Batch { mut arrivals, taps, knocks, cursor } = self.channel().receive(cursor).await?;
        // Before the messages are stored, since their source may forget the files then.
        if arrivals.iter().any(|arrival| !arrival.attachments.is_empty()) {
            let wanted = self.chats.wanted_files(self.name(), &arrivals).await?;
            attachments::fetch_all(self.channel(), &mut arrivals, &wanted).await;
        }
        let mut contents = Contents::Other;
        let has_others = !taps.is_empty() || !knocks.is_empty();
        // A decision is stored by `decide`. Until then the cursor must not move beyond the tap.
        let (now, mut later) = if taps.is_empty() { (cursor, None) } else { (None, cursor) };
        if !arrivals.is_empty() || now.is_some() {
            let receipts = self.chats.receive(self.name(), arrivals, now).await?;
            let is_new = |one: &Receipt| matches!(one.receipt, Received::Taken { .. });
            if !has_others && !receipts.is_empty() && !receipts.iter().any(is_new) {
                contents = Contents::Known;
            }
            // Messages that were put off must be read again.
            later = later.filter(|_| receipts.iter().all(|one| one.receipt != Received::NoRoom));
            self.channel().received(receipts).await;
        }
        for Stranger { conversation, id, name } in knocks {
            self.chats.note_tap(self.name(), &conversation, &id, &name).await?;
        }
        for tap in taps {
            let verdict = self.decide(&tap).await?;
            let channel = Arc::clone(&self.service.channel);
            // Not awaited here: Codex may take a while, and people must be able to stop the turn meanwhile.
            tokio::spawn(async move {
                let late = |error: Error| Verdict::TooLate { text: error.to_string() };
                // The outcome is shown after Codex has answered, never before.
                let verdict = verdict.await.unwrap_or_else(late);
                if let Some(buttons) = channel.buttons() {
                    buttons.decided(&tap, &verdict).await;
                }
            });
        }
        if later.is_some() {
            self.chats.receive(self.name(), Vec::new(), later).await?;
        }
        self.has_read.store(true, Ordering::Relaxed);
        Ok(contents)
    }

    /// Stores a decision. The returned future waits for its outcome.
    async fn decide(&self, tap: &Tap) -> Result<PendingVerdict, Error> {
        let (name, choice) = (self.name(), tap.choice.clone());
        let (conversation, sender_id) = (&tap.conversation, &tap.sender_id);
        let begun =
            self.chats.decide_in_chat(name, conversation, sender_id, tap.button.clone(), choice).await;
        match begun {
            Err(error @ Error::Store(_)) => Err(error),
            // A tap that can never be decided must not be read again and again.
            Err(error) => Ok(ready(Ok(Verdict::TooLate { text: error.to_string() })).boxed()),
            Ok(pending) => Ok(pending),
        }
    }

    /// Removes the buttons of requests that were decided at another door or are no longer open.
    async fn close_buttons(&self) -> ChannelError {
        let Some(buttons) = self.channel().buttons() else { return pending().await };
        loop {
            let mut news = self.chats.bridge().news();
            if let Err(error) = self.close_decided_requests(buttons).await {
                return error.into();
            }
            // A message that could not be edited is tried again without news.
            let timeout = if buttons.shown_requests().is_empty() { Duration::MAX } else { EDIT_RETRY };
            let change =
                async { while matches!(news.recv().await, Ok(News::Event(_) | News::Live { .. })) {} };
            tokio::time::timeout(timeout, change).await.ok();
            tokio::time::sleep(EDIT_DELAY).await;
        }
    }

    async fn close_decided_requests(&self, buttons: &dyn Buttons) -> Result<(), Error> {
        for request_id in buttons.shown_requests() {
            let named = RequestFilter { request_id: Some(request_id), ..RequestFilter::default() };
            let found = self.chats.bridge().store().requests(&named).await?;
            let closed = found.into_iter().find(|request| request.state != RequestState::Open);
            if let Some(mut request) = closed {
                if let Some(by) = request.decided_by.as_mut() {
                    *by = self.chats.name_of(by).await?;
                }
                buttons.close_request(&request).await;
            }
        }
        Ok(())
    }

    /// Acknowledges finished messages to the platform.
    async fn acknowledge(&self) -> ChannelError {
        let mut replies = self.chats.replies();
        // A failure that lasts is logged once.
        let mut last_reason = None;
        loop {
            match self.acknowledge_once().await {
                Ok(()) => last_reason = None,
                // Only the acknowledgement waits; messages are still read.
                Err(ChannelError::Retry { after, reason }) => {
                    if last_reason.as_ref() != Some(&reason) {
                        let channel = self.name().as_str();
                        tracing::warn!(
                            channel,
                            reason,
                            "finished messages cannot be acknowledged; it is retried"
                        );
                        last_reason = Some(reason);
                    }
                    tokio::time::sleep(after.unwrap_or(ACKNOWLEDGE_RETRY)).await;
                    continue;
                }
                Err(error) => return error,
            }
            // A timeout means no news; finished messages are looked for anyway.
            tokio::time::timeout(ACKNOWLEDGE_INTERVAL, replies.changed()).await.ok();
            tokio::time::sleep(ACKNOWLEDGE_DELAY).await;
        }
    }

    async fn acknowledge_once(&self) -> Result<(), ChannelError> {
        let done = self.chats.settled(self.name()).await?;
        if done.is_empty() {
            return Ok(());
        }
        if let Some(reports) = self.channel().reports() {
            reports.acknowledge(&done).await?;
        }
        Ok(self.chats.acknowledged(done).await?)
    }

    async fn activity(&self) -> Result<Activity, Error> {
        let running = MessageFilter {
            channel: Some(self.name().clone()),
            states: vec![MessageState::Running],
            ..MessageFilter::default()
        };
        let running = self.chats.messages(&running).await?;
        let summary = running.last().map(|message| message.summary.clone()).unwrap_or_default();
        Ok(Activity { running: running.len(), summary })
    }
}
