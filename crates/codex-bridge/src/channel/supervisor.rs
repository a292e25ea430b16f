//! Serving one channel for as long as the daemon runs: reading, telling the source what is done with, and beginning again
//! after trouble.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codex_bridge_core::Chats;
use codex_bridge_core::bridge::Error;
use codex_bridge_core::chats::{PendingVerdict, Verdict};
use codex_bridge_core::inbox::{ChannelName, MessageState, Received};
use codex_bridge_core::request::RequestState;
use codex_bridge_core::store::{MessageFilter, RequestFilter};
use futures_util::FutureExt;
use futures_util::future::ready;
use tokio::sync::watch;

use super::registry::{Journal, Standing};
use super::settings::Service;
use super::{Batch, Doing, Receiving, Stranger, Tap, Trouble, progress};

/// The first pause after trouble; then twice as long, and so on.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A platform that let us in before and refuses us so often in a row does not want us any more; once may be its own trouble.
const REFUSALS: u32 = 3;
/// The shortest pause after it refused us.
const REFUSED_PAUSE: Duration = Duration::from_secs(3);
/// Replies that go out within this time are told to the source together.
const GATHER: Duration = Duration::from_millis(50);
/// When a source is told again that could not be told.
const ACKNOWLEDGE_AGAIN: Duration = Duration::from_secs(2);
/// How often it is looked whether a source has to be told, beside when a reply went out.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A channel that is served.
struct Work {
    chats: Chats,
    service: Service,
    journal: Arc<Journal>,
    /// Whether it was read since it was last looked.
    was_read: AtomicBool,
}

/// Serves it until it cannot go on.
pub async fn run(chats: Chats, service: Service, journal: Arc<Journal>) {
    let work = Work { chats, service, journal, was_read: AtomicBool::new(false) };
    let name = work.name().clone();
    let mut pause = FIRST_PAUSE;
    // One that was never read is not tried again.
    let mut refusals = REFUSALS;
    loop {
        let began = tokio::time::Instant::now();
        let span = tracing::error_span!("channel", channel = name.as_str());
        let trouble = tracing::Instrument::instrument(work.serve(), span).await;
        if work.was_read.swap(false, Ordering::Relaxed) {
            refusals = 0;
        }
        let (after, why) = match trouble {
            Trouble::Stop(why) => {
                refusals += 1;
                if refusals >= REFUSALS {
                    work.journal.set(name.as_str(), Standing::Stopped, &why);
                    work.chats.close_channel(&name);
                    return;
                }
                (Some(pause.max(REFUSED_PAUSE)), why)
            }
            Trouble::Again { after, why } => (after, why),
        };
        if began.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        work.journal.set(name.as_str(), Standing::Retrying, &why);
        tokio::time::sleep(after.unwrap_or(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Work {
    fn name(&self) -> &ChannelName {
        &self.service.rules.channel
    }

    fn channel(&self) -> &dyn Receiving {
        self.service.channel.as_ref()
    }

    /// Until there is trouble.
    async fn serve(&self) -> Trouble {
        let cursor = match self.chats.channel(self.name()).await {
            Ok(record) => record.cursor,
            Err(error) => return Trouble::again(error.to_string()),
        };
        let sentence = match self.channel().start(cursor).await {
            Ok(sentence) => sentence,
            Err(trouble) => return trouble,
        };
        if let Err(error) = self.chats.open_channel(self.service.rules.clone()).await {
            return Trouble::again(error.to_string());
        }
        self.journal.set(self.name().as_str(), Standing::Serving, &sentence);
        let (doing, told) = watch::channel(Doing::default());
        tokio::select! {
            trouble = self.read() => trouble,
            trouble = self.acknowledge(&doing) => trouble,
            trouble = self.channel().beside(told) => trouble,
            () = progress::show(&self.chats, self.name(), self.channel()), if self.channel().shows_progress() => {
                Trouble::again("the bridge is closed")
            }
        }
    }

    async fn read(&self) -> Trouble {
        loop {
            if let Err(trouble) = self.read_once().await {
                return trouble;
            }
        }
    }

    /// One batch.
    async fn read_once(&self) -> Result<(), Trouble> {
        let store = |error: Error| Trouble::again(error.to_string());
        self.chats.until_room(self.name()).await.map_err(store)?;
        let cursor = self.chats.channel(self.name()).await.map_err(store)?.cursor;
        let Batch { arrivals, taps, knocks, cursor } = self.channel().receive(cursor).await?;
        // A decision is no row until Codex was asked to take it: until then the source must not forget the tap.
        let (now, mut later) = if taps.is_empty() { (cursor, None) } else { (None, cursor) };
        if !arrivals.is_empty() || now.is_some() {
            let receipts = self.chats.receive(self.name(), arrivals, now).await.map_err(store)?;
            // What was put off is not read.
            later = later.filter(|_| receipts.iter().all(|one| one.receipt != Received::NoRoom));
            self.channel().received(receipts).await;
        }
        for Stranger { conversation, id, name } in knocks {
            self.chats.note_tap(self.name(), &conversation, &id, &name).await.map_err(store)?;
        }
        for tap in taps {
            let verdict = self.decide(&tap).await.map_err(store)?;
            let channel = Arc::clone(&self.service.channel);
            // Beside the reading: what Codex makes of it may take its time, and somebody may want to stop it meanwhile.
            tokio::spawn(async move {
                let late = |error: Error| Verdict::TooLate { text: error.to_string() };
                // Shown after Codex has spoken, never before.
                let verdict = verdict.await.unwrap_or_else(late);
                channel.decided(&tap, &verdict).await;
            });
        }
        if later.is_some() {
            self.chats.receive(self.name(), Vec::new(), later).await.map_err(store)?;
        }
        self.close_answered().await.map_err(store)?;
        self.was_read.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Records what was chosen; what it gives waits for what comes of it.
    async fn decide(&self, tap: &Tap) -> Result<PendingVerdict, Error> {
        let (name, choice) = (self.name(), tap.choice.clone());
        let (conversation, sender_id) = (&tap.conversation, &tap.sender_id);
        let begun =
            self.chats.decide_in_chat(name, conversation, sender_id, tap.button.clone(), choice).await;
        match begun {
            Err(error @ Error::Store(_)) => Err(error),
            // A tap that cannot be decided on must not come again and again.
            Err(error) => Ok(ready(Ok(Verdict::TooLate { text: error.to_string() })).boxed()),
            Ok(pending) => Ok(pending),
        }
    }

    /// What was answered at another door, or can be answered no more, is no longer put before people.
    async fn close_answered(&self) -> Result<(), Error> {
        for request_id in self.channel().asked() {
            let named = RequestFilter { request_id: Some(request_id), ..RequestFilter::default() };
            let found = self.chats.bridge().store().requests(&named).await?;
            if let Some(request) = found.first().filter(|request| request.state != RequestState::Open) {
                self.channel().close_asked(request).await;
            }
        }
        Ok(())
    }

    /// Tells the source what is done with, whenever something is.
    async fn acknowledge(&self, doing: &watch::Sender<Doing>) -> Trouble {
        let mut replies = self.chats.replies();
        // Each reason is told once, however often it is tried again.
        let mut told = None;
        loop {
            match self.acknowledge_once(doing).await {
                Ok(()) => told = None,
                // Only the telling waits: messages go on coming in.
                Err(Trouble::Again { after, why }) => {
                    if told.as_ref() != Some(&why) {
                        let channel = self.name().as_str();
                        tracing::warn!(
                            channel,
                            why,
                            "the source cannot be told what is done with; it is tried again"
                        );
                        told = Some(why);
                    }
                    tokio::time::sleep(after.unwrap_or(ACKNOWLEDGE_AGAIN)).await;
                    continue;
                }
                Err(trouble) => return trouble,
            }
            // Without news it is looked all the same.
            tokio::time::timeout(LOOK_AGAIN, replies.changed()).await.ok();
            tokio::time::sleep(GATHER).await;
        }
    }

    async fn acknowledge_once(&self, doing: &watch::Sender<Doing>) -> Result<(), Trouble> {
        let store = |error: Error| Trouble::again(error.to_string());
        doing.send_replace(self.doing().await.map_err(store)?);
        let done = self.chats.settled(self.name()).await.map_err(store)?;
        if done.is_empty() {
            return Ok(());
        }
        self.channel().acknowledge(&done).await?;
        self.chats.acknowledged(done).await.map_err(store)
    }

    async fn doing(&self) -> Result<Doing, Error> {
        let running = MessageFilter {
            channel: Some(self.name().clone()),
            states: vec![MessageState::Running],
            ..MessageFilter::default()
        };
        let running = self.chats.messages(&running).await?;
        let summary = running.last().map(|message| message.summary.clone()).unwrap_or_default();
        Ok(Doing { running: running.len(), summary })
    }
}
