//! The store of a simulated run: in memory, with failures, and deaf to a bridge that has died.

use std::path::Path;
use std::sync::Arc;

use codex_bridge_core::event::{Event, Seq};
use codex_bridge_core::inbox::{
    AttachmentRecord, ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId,
};
use codex_bridge_core::outbox::Delivery;
use codex_bridge_core::request::{RequestName, RequestRecord, RequestState, WholeChanges};
use codex_bridge_core::store::{
    AuditFilter, AuditLine, Counts, DeliveryFilter, Error, MessageFilter, Prune, RequestFilter, Store,
    StoreFuture, TaskFilter, Write,
};
use codex_bridge_core::task::{Task, TaskId, TurnRecord};
use codex_bridge_core::token::{Token, Used};
use futures_util::FutureExt;

use crate::memory_store::Memory;

use super::world::{Life, World};

/// The store as one life of the bridge sees it.
#[derive(Clone)]
pub struct Gated {
    pub rows: Arc<Memory>,
    pub world: Arc<World>,
    pub life: Arc<Life>,
}

impl Gated {
    /// Reads, unless the store fails or the bridge is dead.
    fn read<'a, T: Send + 'a>(&'a self, read: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        async move {
            if self.life.is_dead() {
                std::future::pending::<()>().await;
            }
            self.check()?;
            read.await
        }
        .boxed()
    }

    async fn carry_out(self, batch: Vec<Write>) -> Result<Vec<Event>, Error> {
        let name = named(&batch);
        self.world.effect(&self.life, &format!("the commit of [{name}]")).await;
        self.world.pause(2).await;
        if self.life.is_dead() {
            std::future::pending::<()>().await;
        }
        self.check().inspect_err(|_| self.world.note(format!("refused [{name}]")))?;
        self.watch_requests(&batch).await;
        let committed = self.rows.commit(batch).await;
        self.world.note(format!("committed [{name}] {}", committed.is_ok()));
        self.world.effect(&self.life, &format!("the answer to [{name}]")).await;
        if self.world.fails(2) {
            self.world.note(format!("the answer to [{name}] is lost"));
            return Err(Error::Other("the answer was lost".to_owned()));
        }
        committed
    }

    /// A decision that is recorded stays, and so does who made it.
    async fn watch_requests(&self, batch: &[Write]) {
        for write in batch {
            let Write::SaveRequest(new) = write else { continue };
            // Between this and the end of the turn is where a crash hurts, and where chance rarely hits.
            if new.state == RequestState::Orphaned && self.world.fails(30) {
                self.world.die_after(1 + self.world.below(3));
            }
            let of_name =
                RequestFilter { request_id: Some(new.request_id.clone()), ..RequestFilter::default() };
            let Some(old) = self.rows.requests(&of_name).await.unwrap().pop() else { continue };
            // One that was given up with its turn and is asked again is decided anew.
            let is_same = old.key == new.key && old.state != RequestState::Orphaned;
            let is_forgotten = is_same && old.decided_by != new.decided_by;
            if let Some(decider) = old.decided_by.filter(|_| is_forgotten) {
                let what = format!("{}: {decider} had decided, and it is forgotten", new.request_id);
                self.world.note(&what);
                self.world.ledger().broken.push(what);
            }
        }
    }

    fn check(&self) -> Result<(), Error> {
        let failure = || Error::Locked { place: "the simulated store".to_owned() };
        if self.world.store_fails() { Err(failure()) } else { Ok(()) }
    }
}

/// What a batch writes, in a few words for the trace.
fn named(batch: &[Write]) -> String {
    let name = |write: &Write| match write {
        Write::AddTask(task) => format!("+{} {}", task.id, task.status),
        Write::SaveTask(task) => format!("{} {}", task.id, task.status),
        Write::SaveTurn(turn) => format!("turn {}/{} {:?}", turn.task_id, turn.number, turn.progress),
        Write::SaveRequest(request) => format!("{} {:?}", request.request_id, request.state),
        Write::AddDelivery(one) => format!("+{}", one.id),
        Write::SaveDelivery(one) => format!("{} {}", one.id, one.state.as_str()),
        Write::AddMessage(one) => format!("+{}", one.external_id),
        Write::SaveMessage(one) => format!("{} {}", one.external_id, one.state.as_str()),
        Write::Append { events, .. } => format!("{} lines", events.len()),
        Write::Audit(line) => format!("audit {}", line.action),
        _ => "…".to_owned(),
    };
    batch.iter().map(name).collect::<Vec<_>>().join(", ")
}

impl Store for Gated {
    fn check_writable(&self) -> StoreFuture<'_, ()> {
        self.read(self.rows.check_writable())
    }

    fn commit(&self, batch: Vec<Write>) -> StoreFuture<'_, Vec<Event>> {
        // As with a real store, what was handed over is carried out, whoever still waits for it.
        let committed = tokio::spawn(self.clone().carry_out(batch));
        async move { committed.await.unwrap() }.boxed()
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.read(self.rows.prune(prune))
    }

    fn task<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Task>> {
        self.read(self.rows.task(id))
    }

    fn tasks<'a>(&'a self, filter: &'a TaskFilter) -> StoreFuture<'a, Vec<Task>> {
        self.read(self.rows.tasks(filter))
    }

    fn turns<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Vec<TurnRecord>> {
        self.read(self.rows.turns(id))
    }

    fn events<'a>(&'a self, id: &'a TaskId, after: Seq, limit: u32) -> StoreFuture<'a, Vec<Event>> {
        self.read(self.rows.events(id, after, limit))
    }

    fn last_events<'a>(&'a self, id: &'a TaskId, limit: u32) -> StoreFuture<'a, Vec<Event>> {
        self.read(self.rows.last_events(id, limit))
    }

    fn last_diff<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Event>> {
        self.read(self.rows.last_diff(id))
    }

    fn was_steered<'a>(&'a self, id: &'a TaskId, client_id: &'a str) -> StoreFuture<'a, bool> {
        self.read(self.rows.was_steered(id, client_id))
    }

    fn requests<'a>(&'a self, filter: &'a RequestFilter) -> StoreFuture<'a, Vec<RequestRecord>> {
        self.read(self.rows.requests(filter))
    }

    fn whole_changes<'a>(&'a self, request_id: &'a RequestName) -> StoreFuture<'a, Option<WholeChanges>> {
        self.read(self.rows.whole_changes(request_id))
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.read(self.rows.counts())
    }

    fn deliveries<'a>(&'a self, filter: &'a DeliveryFilter) -> StoreFuture<'a, Vec<Delivery>> {
        self.read(self.rows.deliveries(filter))
    }

    fn next_deliveries(&self) -> StoreFuture<'_, Vec<Delivery>> {
        self.read(self.rows.next_deliveries())
    }

    fn messages<'a>(&'a self, filter: &'a MessageFilter) -> StoreFuture<'a, Vec<Message>> {
        self.read(self.rows.messages(filter))
    }

    fn message_count<'a>(&'a self, filter: &'a MessageFilter) -> StoreFuture<'a, u64> {
        self.read(self.rows.message_count(filter))
    }

    fn next_messages<'a>(&'a self, channel: &'a ChannelName) -> StoreFuture<'a, Vec<Message>> {
        self.read(self.rows.next_messages(channel))
    }

    fn attachments<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Vec<AttachmentRecord>> {
        self.read(self.rows.attachments(id))
    }

    fn attachment_content<'a>(&'a self, id: &'a MessageId, number: u32) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.read(self.rows.attachment_content(id, number))
    }

    fn conversations<'a>(
        &'a self,
        channel: &'a ChannelName,
        key: Option<&'a ConversationKey>,
    ) -> StoreFuture<'a, Vec<Conversation>> {
        self.read(self.rows.conversations(channel, key))
    }

    fn channels(&self) -> StoreFuture<'_, Vec<ChannelRecord>> {
        self.read(self.rows.channels())
    }

    fn tokens(&self) -> StoreFuture<'_, Vec<Token>> {
        self.read(self.rows.tokens())
    }

    fn used_by<'a>(&'a self, token: &'a str) -> StoreFuture<'a, Used> {
        self.read(self.rows.used_by(token))
    }

    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> StoreFuture<'a, Vec<AuditLine>> {
        self.read(self.rows.audit(filter))
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        self.read(self.rows.check())
    }

    fn backup<'a>(&'a self, file: &'a Path) -> StoreFuture<'a, ()> {
        self.read(self.rows.backup(file))
    }
}
