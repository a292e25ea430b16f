//! The store for one machine: a SQLite file, one thread that writes, a few connections that read.
//!
//! No other module knows SQL.

mod apply;
mod attachments;
mod backup;
mod ballast;
mod cell;
mod check;
mod count;
mod deliveries;
mod fault;
mod file;
mod group;
mod messages;
mod migrate;
mod prune;
mod query;
mod readers;
mod rows;
mod weight;
mod writer;

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;

use self::ballast::Ballast;
use self::fault::DbFile;
use self::readers::Readers;
use self::writer::Writer;
use super::{
    AuditFilter, AuditLine, Counts, DeliveryFilter, Error, MessageFilter, Prune, RequestFilter, Store,
    StoreFuture, TaskFilter, WithOpen, Write,
};
use crate::event::{Event, Seq};
use crate::inbox::{
    AttachmentRecord, ChannelName, ChannelRecord, Conversation, ConversationKey, Message, MessageId,
};
use crate::outbox::Delivery;
use crate::request::{RequestName, RequestRecord, WholeChanges};
use crate::task::{Task, TaskId, TurnRecord};
use crate::token::{Token, Used};

/// An open SQLite file. Dropping it writes everything queued, then closes the file.
#[derive(Debug)]
pub struct Sqlite {
    // Fields drop in this order: the last connection tidies up the write-ahead log, then the lock is released.
    readers: Readers,
    writer: Writer,
    place: DbFile,
    _owner: File,
}

impl Sqlite {
    /// Opens or creates the file, readable only by its owner; the same for its folder if that is created. Blocks while
    /// it looks through the file for damage.
    ///
    /// Beside the file are a lock (`.lock`), reserved disk space (`.ballast`) and SQLite's own files. Only one program
    /// can have it open; any other gets [`Error::Locked`] at once.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let place = DbFile::new(path);
        let owner = file::own(&place)?;
        let mut ballast = Ballast::of(path);
        let connection = match file::open_writer(&place) {
            // Even on a full disk, committed data must be readable, and running work must be able to end.
            Err(Error::DiskFull { .. }) if ballast.spend() => file::open_writer(&place)?,
            opened => opened?,
        };
        let writer = Writer::start(connection, place.clone(), ballast)?;
        Ok(Self { readers: Readers::new(place.clone()), writer, place, _owner: owner })
    }

    fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.readers.read(query))
    }
}

/// Looks for damage in a file that is not open as a store. Returns findings; none means sound. Changes nothing.
pub fn inspect(path: &Path) -> Result<Vec<String>, Error> {
    let place = DbFile::new(path);
    let look = || check::findings(&file::open_reader(&place)?);
    damage_as_finding(look().map_err(|error| place.sql(&error)))
}

/// Damage that prevents any look is a finding too.
fn damage_as_finding(found: Result<Vec<String>, Error>) -> Result<Vec<String>, Error> {
    match found {
        Err(Error::Corrupt { detail, .. }) => Ok(vec![detail]),
        found => found,
    }
}

impl Store for Sqlite {
    fn commit(&self, batch: Vec<Write>) -> StoreFuture<'_, Vec<Event>> {
        Box::pin(self.writer.commit(batch))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        Box::pin(self.writer.prune(prune))
    }

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.probe())
    }

    fn task<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Task>> {
        let id = id.clone();
        self.read(move |connection| query::task(connection, &id))
    }

    fn task_with_open<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<WithOpen>> {
        let id = id.clone();
        self.read(move |connection| {
            let Some(task) = query::task(connection, &id)? else { return Ok(None) };
            let open = query::requests(connection, &RequestFilter::open_of(id))?;
            Ok(Some((task, open)))
        })
    }

    fn tasks<'a>(&'a self, filter: &'a TaskFilter) -> StoreFuture<'a, Vec<Task>> {
        let filter = filter.clone();
        self.read(move |connection| query::tasks(connection, &filter))
    }

    fn turns<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Vec<TurnRecord>> {
        let id = id.clone();
        self.read(move |connection| query::turns(connection, &id))
    }

    fn events<'a>(&'a self, id: &'a TaskId, after: Seq, limit: u32) -> StoreFuture<'a, Vec<Event>> {
        let id = id.clone();
        self.read(move |connection| query::events(connection, &id, after, limit))
    }

    fn last_events<'a>(&'a self, id: &'a TaskId, limit: u32) -> StoreFuture<'a, Vec<Event>> {
        let id = id.clone();
        self.read(move |connection| query::last_events(connection, &id, limit))
    }

    fn last_diff<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Event>> {
        let id = id.clone();
        self.read(move |connection| query::last_diff(connection, &id))
    }

    fn was_steered<'a>(&'a self, id: &'a TaskId, client_id: &'a str) -> StoreFuture<'a, bool> {
        let (id, client_id) = (id.clone(), client_id.to_owned());
        self.read(move |connection| query::was_steered(connection, &id, &client_id))
    }

    fn requests<'a>(&'a self, filter: &'a RequestFilter) -> StoreFuture<'a, Vec<RequestRecord>> {
        let filter = filter.clone();
        self.read(move |connection| query::requests(connection, &filter))
    }

    fn whole_changes<'a>(&'a self, request_id: &'a RequestName) -> StoreFuture<'a, Option<WholeChanges>> {
        let request_id = request_id.clone();
        self.read(move |connection| query::whole_changes(connection, &request_id))
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.read(count::counts)
    }

    fn deliveries<'a>(&'a self, filter: &'a DeliveryFilter) -> StoreFuture<'a, Vec<Delivery>> {
        let filter = filter.clone();
        self.read(move |connection| deliveries::find(connection, &filter))
    }

    fn next_deliveries(&self) -> StoreFuture<'_, Vec<Delivery>> {
        self.read(deliveries::next)
    }

    fn messages<'a>(&'a self, filter: &'a MessageFilter) -> StoreFuture<'a, Vec<Message>> {
        let filter = filter.clone();
        self.read(move |connection| messages::find(connection, &filter))
    }

    fn message_count<'a>(&'a self, filter: &'a MessageFilter) -> StoreFuture<'a, u64> {
        let filter = filter.clone();
        self.read(move |connection| messages::count(connection, &filter))
    }

    fn next_messages<'a>(&'a self, channel: &'a ChannelName) -> StoreFuture<'a, Vec<Message>> {
        let channel = channel.clone();
        self.read(move |connection| messages::next(connection, &channel))
    }

    fn attachments<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Vec<AttachmentRecord>> {
        let id = id.clone();
        self.read(move |connection| attachments::of(connection, &id))
    }

    fn attachment_content<'a>(&'a self, id: &'a MessageId, number: u32) -> StoreFuture<'a, Option<Vec<u8>>> {
        let id = id.clone();
        self.read(move |connection| attachments::content(connection, &id, number))
    }

    fn conversations<'a>(
        &'a self,
        channel: &'a ChannelName,
        key: Option<&'a ConversationKey>,
    ) -> StoreFuture<'a, Vec<Conversation>> {
        let (channel, key) = (channel.clone(), key.cloned());
        self.read(move |connection| messages::conversations(connection, &channel, key.as_ref()))
    }

    fn channels(&self) -> StoreFuture<'_, Vec<ChannelRecord>> {
        self.read(messages::channels)
    }

    fn tokens(&self) -> StoreFuture<'_, Vec<Token>> {
        self.read(query::tokens)
    }

    fn used_by<'a>(&'a self, token: &'a str) -> StoreFuture<'a, Used> {
        let token = token.to_owned();
        self.read(move |connection| count::used(connection, &token))
    }

    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> StoreFuture<'a, Vec<AuditLine>> {
        let filter = filter.clone();
        self.read(move |connection| query::audit(connection, &filter))
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(async { damage_as_finding(self.readers.read(check::findings).await) })
    }

    fn backup<'a>(&'a self, file: &'a Path) -> StoreFuture<'a, ()> {
        let (source, target) = (self.place.clone(), file.to_owned());
        Box::pin(async move {
            let copied = tokio::task::spawn_blocking(move || backup::write(&source, &target)).await;
            copied.map_err(|error| Error::Other(format!("the backup was interrupted: {error}")))?
        })
    }
}
