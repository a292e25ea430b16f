//! A store that can be told to misbehave: to have no space for the log, and to answer late.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use codex_bridge_core::event::{Event, Seq};
use codex_bridge_core::inbox::{
    AttachmentRecord, ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId,
};
use codex_bridge_core::outbox::Delivery;
use codex_bridge_core::request::{RequestName, RequestRecord, WholeChanges};
use codex_bridge_core::store::sqlite::Sqlite;
use codex_bridge_core::store::{
    AuditFilter, AuditLine, Counts, DeliveryFilter, Error, MessageFilter, Prune, RequestFilter, Store,
    StoreFuture, TaskFilter, Write,
};
use codex_bridge_core::task::{Task, TaskId, TurnRecord};
use codex_bridge_core::token::{Token, Used};
use codex_bridge_core::{Bridge, Config};
use futures_util::FutureExt;
use tokio::sync::watch;

use crate::workbench::{PATIENCE, Workbench};

/// What is refused.
type Cursed = Box<dyn Fn(&Write) -> bool + Send + Sync>;

/// A store that does as the real one does, until it is told otherwise.
pub struct Stubborn {
    store: Sqlite,
    /// Whether events alone are refused, as for want of space.
    pub is_full: AtomicBool,
    /// Whether nothing can be written.
    pub is_read_only: AtomicBool,
    /// What it takes no batch with, for reasons of its own, and how often it did not.
    cursed: Mutex<Option<Cursed>>,
    pub refusals: AtomicUsize,
    /// How often it was asked which messages are next.
    pub looks: AtomicUsize,
    /// Whether nobody is told what was committed.
    is_silent: watch::Sender<bool>,
    /// How many commits were applied and not answered, ever.
    unanswered: watch::Sender<usize>,
    /// Whether a look for a request by its key is answered late, and how many are waited for.
    pub holds_requests: watch::Sender<bool>,
    pub held_requests: watch::Sender<usize>,
}

impl Stubborn {
    pub async fn new(bench: &Workbench) -> Arc<Self> {
        Arc::new(Self {
            store: bench.store().await,
            is_full: AtomicBool::new(false),
            is_read_only: AtomicBool::new(false),
            cursed: Mutex::default(),
            refusals: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
            is_silent: watch::Sender::new(false),
            unanswered: watch::Sender::new(0),
            holds_requests: watch::Sender::new(false),
            held_requests: watch::Sender::new(0),
        })
    }

    /// A bridge on such a store.
    pub async fn open(bench: &Workbench, config: Config) -> (Bridge, Arc<Self>) {
        let store = Self::new(bench).await;
        (store.bridge(bench, config).await, store)
    }

    pub async fn bridge(self: &Arc<Self>, bench: &Workbench, config: Config) -> Bridge {
        Bridge::open(config, Arc::clone(self) as Arc<dyn Store>, bench.key()).await.unwrap()
    }

    /// Takes no batch with such a write from here on.
    pub fn curse(&self, is_cursed: impl Fn(&Write) -> bool + Send + Sync + 'static) {
        *self.cursed.lock().unwrap() = Some(Box::new(is_cursed));
    }

    fn is_cursed(&self, batch: &[Write]) -> bool {
        let cursed = self.cursed.lock().unwrap();
        cursed.as_ref().is_some_and(|is_cursed| batch.iter().any(is_cursed))
    }

    /// Makes a call whose first commit is applied but not answered, and hangs up on it there.
    pub async fn hang_up_on<T: Send + 'static>(&self, call: impl Future<Output = T> + Send + 'static) {
        self.is_silent.send_replace(true);
        let mut unanswered = self.unanswered.subscribe();
        unanswered.mark_unchanged();
        let call = tokio::spawn(call);
        tokio::time::timeout(PATIENCE, unanswered.changed()).await.expect("it commits nothing").unwrap();
        call.abort();
        assert!(call.await.is_err_and(|error| error.is_cancelled()), "it was answered");
        self.is_silent.send_replace(false);
    }

    async fn answer(&self) {
        let mut is_silent = self.is_silent.subscribe();
        if *is_silent.borrow() {
            self.unanswered.send_modify(|count| *count += 1);
        }
        let _ = is_silent.wait_for(|is_silent| !is_silent).await;
    }
}

impl Store for Stubborn {
    fn check_writable(&self) -> StoreFuture<'_, ()> {
        self.store.check_writable()
    }

    fn commit(&self, batch: Vec<Write>) -> StoreFuture<'_, Vec<Event>> {
        let only_tells = batch.iter().all(|write| matches!(write, Write::Append { .. }));
        if only_tells && self.is_full.load(Ordering::SeqCst) {
            let full = Error::DiskFull { place: "here".to_owned() };
            return std::future::ready(Err(full)).boxed();
        }
        if self.is_read_only.load(Ordering::SeqCst) {
            self.refusals.fetch_add(1, Ordering::SeqCst);
            let refused = Error::ReadOnly { place: "here".to_owned() };
            return std::future::ready(Err(refused)).boxed();
        }
        if self.is_cursed(&batch) {
            self.refusals.fetch_add(1, Ordering::SeqCst);
            return std::future::ready(Err(Error::Other("it is cursed".to_owned()))).boxed();
        }
        async move {
            let committed = self.store.commit(batch).await;
            self.answer().await;
            committed
        }
        .boxed()
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.store.prune(prune)
    }

    fn task<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Task>> {
        self.store.task(id)
    }

    fn tasks<'a>(&'a self, filter: &'a TaskFilter) -> StoreFuture<'a, Vec<Task>> {
        self.store.tasks(filter)
    }

    fn turns<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Vec<TurnRecord>> {
        self.store.turns(id)
    }

    fn events<'a>(&'a self, id: &'a TaskId, after: Seq, limit: u32) -> StoreFuture<'a, Vec<Event>> {
        self.store.events(id, after, limit)
    }

    fn last_events<'a>(&'a self, id: &'a TaskId, limit: u32) -> StoreFuture<'a, Vec<Event>> {
        self.store.last_events(id, limit)
    }

    fn last_diff<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Event>> {
        self.store.last_diff(id)
    }

    fn was_steered<'a>(&'a self, id: &'a TaskId, client_id: &'a str) -> StoreFuture<'a, bool> {
        self.store.was_steered(id, client_id)
    }

    fn requests<'a>(&'a self, filter: &'a RequestFilter) -> StoreFuture<'a, Vec<RequestRecord>> {
        async move {
            let found = self.store.requests(filter).await;
            let mut holds = self.holds_requests.subscribe();
            if filter.key.is_some() && *holds.borrow_and_update() {
                self.held_requests.send_modify(|held| *held += 1);
                let _ = holds.wait_for(|holds| !holds).await;
            }
            found
        }
        .boxed()
    }

    fn whole_changes<'a>(&'a self, request_id: &'a RequestName) -> StoreFuture<'a, Option<WholeChanges>> {
        self.store.whole_changes(request_id)
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.store.counts()
    }

    fn deliveries<'a>(&'a self, filter: &'a DeliveryFilter) -> StoreFuture<'a, Vec<Delivery>> {
        self.store.deliveries(filter)
    }

    fn next_deliveries(&self) -> StoreFuture<'_, Vec<Delivery>> {
        self.store.next_deliveries()
    }

    fn messages<'a>(&'a self, filter: &'a MessageFilter) -> StoreFuture<'a, Vec<Message>> {
        self.store.messages(filter)
    }

    fn message_count<'a>(&'a self, filter: &'a MessageFilter) -> StoreFuture<'a, u64> {
        self.store.message_count(filter)
    }

    fn next_messages<'a>(&'a self, channel: &'a ChannelName) -> StoreFuture<'a, Vec<Message>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.store.next_messages(channel)
    }

    fn attachments<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Vec<AttachmentRecord>> {
        self.store.attachments(id)
    }

    fn attachment_content<'a>(&'a self, id: &'a MessageId, number: u32) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.store.attachment_content(id, number)
    }

    fn conversations<'a>(
        &'a self,
        channel: &'a ChannelName,
        key: Option<&'a ConversationKey>,
    ) -> StoreFuture<'a, Vec<Conversation>> {
        self.store.conversations(channel, key)
    }

    fn channels(&self) -> StoreFuture<'_, Vec<ChannelRecord>> {
        self.store.channels()
    }

    fn tokens(&self) -> StoreFuture<'_, Vec<Token>> {
        self.store.tokens()
    }

    fn used_by<'a>(&'a self, token: &'a str) -> StoreFuture<'a, Used> {
        self.store.used_by(token)
    }

    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> StoreFuture<'a, Vec<AuditLine>> {
        self.store.audit(filter)
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        self.store.check()
    }

    fn backup<'a>(&'a self, file: &'a Path) -> StoreFuture<'a, ()> {
        self.store.backup(file)
    }
}
