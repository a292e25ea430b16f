//! Tasks on a disk without space: what the log could not take is in it once there is space again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use codex_bridge_core::Bridge;
use codex_bridge_core::event::{Event, Seq};
use codex_bridge_core::inbox::{ChannelRecord, Conversation, Message};
use codex_bridge_core::outbox::Delivery;
use codex_bridge_core::request::RequestRecord;
use codex_bridge_core::seal::Key;
use codex_bridge_core::store::sqlite::Sqlite;
use codex_bridge_core::store::{
    AuditFilter, AuditLine, Committed, DeliveryFilter, Error, MessageFilter, RequestFilter, Store,
    TaskFilter, Write,
};
use codex_bridge_core::task::{Status, Task, TaskId, TurnRecord};
use codex_bridge_core::token::Token;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scripted_model::Scenario;

use crate::workbench::{Workbench, at_rest};

/// A store that refuses events alone while it has no space, as the real one does.
struct Scarce {
    store: Sqlite,
    is_full: AtomicBool,
}

impl Store for Scarce {
    fn commit(&self, batch: Vec<Write>) -> BoxFuture<'_, Result<Committed, Error>> {
        let only_tells = batch.iter().all(|write| matches!(write, Write::Append { .. }));
        if only_tells && self.is_full.load(Ordering::SeqCst) {
            let full = Error::DiskFull { place: "here".to_owned() };
            return std::future::ready(Err(full)).boxed();
        }
        self.store.commit(batch)
    }

    fn task<'a>(&'a self, id: &'a TaskId) -> BoxFuture<'a, Result<Option<Task>, Error>> {
        self.store.task(id)
    }

    fn tasks<'a>(&'a self, filter: &'a TaskFilter) -> BoxFuture<'a, Result<Vec<Task>, Error>> {
        self.store.tasks(filter)
    }

    fn turns<'a>(&'a self, id: &'a TaskId) -> BoxFuture<'a, Result<Vec<TurnRecord>, Error>> {
        self.store.turns(id)
    }

    fn events<'a>(
        &'a self,
        id: &'a TaskId,
        after: Seq,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<Event>, Error>> {
        self.store.events(id, after, limit)
    }

    fn last_events<'a>(&'a self, id: &'a TaskId, limit: u32) -> BoxFuture<'a, Result<Vec<Event>, Error>> {
        self.store.last_events(id, limit)
    }

    fn requests<'a>(&'a self, filter: &'a RequestFilter) -> BoxFuture<'a, Result<Vec<RequestRecord>, Error>> {
        self.store.requests(filter)
    }

    fn deliveries<'a>(&'a self, filter: &'a DeliveryFilter) -> BoxFuture<'a, Result<Vec<Delivery>, Error>> {
        self.store.deliveries(filter)
    }

    fn next_deliveries(&self) -> BoxFuture<'_, Result<Vec<Delivery>, Error>> {
        self.store.next_deliveries()
    }

    fn messages<'a>(&'a self, filter: &'a MessageFilter) -> BoxFuture<'a, Result<Vec<Message>, Error>> {
        self.store.messages(filter)
    }

    fn next_messages<'a>(&'a self, channel: &'a str) -> BoxFuture<'a, Result<Vec<Message>, Error>> {
        self.store.next_messages(channel)
    }

    fn conversations<'a>(
        &'a self,
        channel: &'a str,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<Conversation>, Error>> {
        self.store.conversations(channel, key)
    }

    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRecord>, Error>> {
        self.store.channels()
    }

    fn tokens(&self) -> BoxFuture<'_, Result<Vec<Token>, Error>> {
        self.store.tokens()
    }

    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> BoxFuture<'a, Result<Vec<AuditLine>, Error>> {
        self.store.audit(filter)
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<String>, Error>> {
        self.store.check()
    }

    fn backup<'a>(&'a self, file: &'a Path) -> BoxFuture<'a, Result<(), Error>> {
        self.store.backup(file)
    }
}

#[tokio::test]
async fn lines_that_found_no_space_are_in_the_log_once_when_there_is_some() {
    let bench = Workbench::new().await;
    let scenario = Scenario::new().stall("begin").say("one").exec("true").then().stall("space").say("two");
    bench.model.script("talk", scenario);
    let mut config = bench.config();
    config.approvals.accept_commands = true;
    let store = Sqlite::open(&bench.home.dir().join("state/tasks.db")).unwrap();
    let store = Arc::new(Scarce { store, is_full: AtomicBool::new(false) });
    let key = Key::load_or_create(&bench.home.dir().join("state/seal.key")).unwrap();
    let bridge = Bridge::open(config, Arc::clone(&store) as Arc<dyn Store>, key).await.unwrap();
    let id = bridge.start(bench.task("talk")).await.unwrap().task.id;
    bench.model.wait_for_stall("begin").await;
    store.is_full.store(true, Ordering::SeqCst);
    bench.model.release("begin");
    bench.model.wait_for_stall("space").await;
    let texts = |events: &[Event]| -> Vec<String> {
        let messages = events.iter().filter(|event| event.kind == "message");
        messages.map(|event| event.body["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts(&bridge.events(&id, 0, 100).await.unwrap()), [""; 0], "there was no space");
    store.is_full.store(false, Ordering::SeqCst);
    bench.model.release("space");
    assert_eq!(at_rest(&bridge, id.as_str()).await.task.status, Status::Completed);
    let events = bridge.events(&id, 0, 100).await.unwrap();
    assert_eq!(texts(&events), ["one", "two"]);
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    for kind in ["tool_started", "tool_completed"] {
        assert_eq!(kinds.iter().filter(|known| **known == kind).count(), 1, "{kinds:?}");
    }
    bench.tidy(bridge).await;
}
