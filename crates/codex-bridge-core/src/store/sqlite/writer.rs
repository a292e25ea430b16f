//! The only thread that writes. It puts all waiting batches, up to a limit, into one transaction, because the sync at
//! its end is what costs. Callers get their replies after that sync.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tracing::{debug, error, warn};

use super::ballast::Ballast;
use super::fault::DbFile;
use super::group;
use super::prune::{Pruning, Slice};
use super::weight;
use crate::event::{Event, Seq};
use crate::store::{Error, Prune, Write};

/// How many batches may wait for the writer.
const QUEUED_BATCHES: usize = 1024;
/// How many units of [`UNIT`] bytes may wait. Further callers wait for room.
const QUEUED_UNITS: usize = 32 * 1024;
const UNIT: usize = 1024;
/// How many batches and units go into one transaction. This limits how long a reply can take.
const GROUP_BATCHES: usize = 512;
const GROUP_UNITS: usize = 8 * 1024;

/// An order to the writer.
#[derive(Debug)]
enum Order {
    /// Apply a batch.
    Commit(Job),
    /// Report whether new work could be written.
    Probe(oneshot::Sender<Result<(), Error>>),
    /// Delete old data.
    Prune(Prune, PruneReply),
}

/// Gets the number of deleted tasks.
type PruneReply = oneshot::Sender<Result<u64, Error>>;

/// A batch, with its reply channel.
#[derive(Debug)]
pub struct Job {
    /// The changes.
    pub writes: Vec<Write>,
    /// The JSON bodies of its events, built by the caller to save the writer's time.
    pub bodies: Vec<String>,
    room: OwnedSemaphorePermit,
    reply: oneshot::Sender<Result<Done, Error>>,
}

/// The result of a job. It returns the changes, so that events need not be copied.
#[derive(Debug)]
struct Done {
    writes: Vec<Write>,
    /// The first number of each `Append`.
    first_seqs: Vec<Seq>,
}

/// The writer's queue and thread.
#[derive(Debug)]
pub struct Writer {
    queue: Option<mpsc::Sender<Order>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    pub fn start(connection: Connection, place: DbFile, ballast: Ballast) -> Result<Self, Error> {
        let (queue, orders) = mpsc::channel(QUEUED_BATCHES);
        let owner = Owner { connection, place, ballast, pruning: VecDeque::new() };
        let thread = thread::Builder::new().name("store-writer".into()).spawn(move || owner.run(orders));
        let thread =
            thread.map_err(|error| Error::Other(format!("cannot start the writer's thread: {error}")))?;
        Ok(Self { queue: Some(queue), room: Arc::new(Semaphore::new(QUEUED_UNITS)), thread: Some(thread) })
    }

    /// Queues a batch and waits until it is durable. Once queued it is applied, even if the caller goes away.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Event>, Error> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let bodies = bodies(&writes)?;
        let units = (weight::of(&writes, &bodies) / UNIT).clamp(1, QUEUED_UNITS);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(units).await.map_err(|_| stopped())?;
        self.order(|reply| Order::Commit(Job { writes, bodies, room, reply })).await.map(Done::into_events)
    }

    /// Asks the writer, in order, whether new work could be written.
    pub async fn probe(&self) -> Result<(), Error> {
        self.order(Order::Probe).await
    }

    /// Deletes old data between other writes. Returns how many tasks were deleted.
    pub async fn prune(&self, prune: Prune) -> Result<u64, Error> {
        self.order(|reply| Order::Prune(prune, reply)).await
    }

    async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Order,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(order(reply)).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

impl Drop for Writer {
    /// Returns once everything queued is written and the file is closed.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been logged, and its callers got an error.
            thread.join().ok();
        }
    }
}

impl Job {
    /// The approximate size.
    pub fn bytes(&self) -> usize {
        self.room.num_permits() * UNIT
    }

    fn answer(self, outcome: Result<Vec<Seq>, Error>) {
        let Self { writes, reply, .. } = self;
        // The caller may be gone.
        reply.send(outcome.map(|first_seqs| Done { writes, first_seqs })).ok();
    }
}

impl Done {
    fn into_events(self) -> Vec<Event> {
        let mut first_seqs = self.first_seqs.into_iter();
        let mut events = Vec::new();
        for write in self.writes {
            let Write::Append { task_id, events: appended } = write else { continue };
            let seqs = first_seqs.next().unwrap_or_default()..;
            events.extend(seqs.zip(appended).map(|(seq, event)| Event {
                task_id: Some(task_id.clone()),
                seq,
                at: event.at,
                line: event.line,
            }));
        }
        events
    }
}

fn bodies(writes: &[Write]) -> Result<Vec<String>, Error> {
    let appended = writes.iter().filter_map(|write| match write {
        Write::Append { events, .. } => Some(events),
        _ => None,
    });
    let bodies = appended.flatten().map(|event| event.line.data());
    bodies.collect::<Result<_, _>>().map_err(|error| Error::Other(error.to_string()))
}

/// Rewrites a value with itself: one page of the write-ahead log, and a sync.
fn write_the_same(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    transaction.pragma_update(None, "user_version", version)?;
    transaction.commit()
}

fn stopped() -> Error {
    Error::Other("the store is closed".into())
}

/// The state of the writer's thread.
struct Owner {
    connection: Connection,
    place: DbFile,
    ballast: Ballast,
    pruning: VecDeque<(Pruning, PruneReply)>,
}

impl Owner {
    fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        loop {
            let first = if self.pruning.is_empty() {
                // Nothing to do: waits for an order.
                match orders.blocking_recv() {
                    Some(order) => Some(order),
                    None => return,
                }
            } else {
                match orders.try_recv() {
                    Ok(order) => Some(order),
                    Err(mpsc::error::TryRecvError::Empty) => None,
                    // Nobody waits for the prune any more; the next one continues it.
                    Err(mpsc::error::TryRecvError::Disconnected) => return,
                }
            };
            let group = self.gather(first, &mut orders);
            self.serve(group);
            self.prune_a_little();
        }
    }

    fn gather(&mut self, first: Option<Order>, orders: &mut mpsc::Receiver<Order>) -> Vec<Job> {
        let mut group = Vec::new();
        let (mut taken, mut units) = (0, 0);
        let mut next = first;
        while let Some(order) = next {
            taken += 1;
            match order {
                Order::Commit(job) => {
                    units += job.room.num_permits();
                    group.push(job);
                }
                // The caller may be gone.
                Order::Probe(reply) => drop(reply.send(self.probe())),
                Order::Prune(prune, reply) => self.pruning.push_back((Pruning::new(prune), reply)),
            }
            let is_full = taken >= GROUP_BATCHES || units >= GROUP_UNITS;
            next = if is_full { None } else { orders.try_recv().ok() };
        }
        group
    }

    fn serve(&mut self, group: Vec<Job>) {
        if group.is_empty() {
            return;
        }
        self.ballast.restore();
        match self.commit(&group) {
            Ok(outcomes) => group.into_iter().zip(outcomes).for_each(|(job, outcome)| job.answer(outcome)),
            Err(error @ Error::DiskFull { .. }) => {
                debug!(%error, "the disk is full; batches are written one by one");
                self.ballast.spend();
                self.tidy_log();
                for job in group {
                    self.serve_alone(job);
                }
            }
            Err(error) => {
                error!(%error, batches = group.len(), "the store failed; no batch of this group was written");
                for job in group {
                    job.answer(Err(error.clone()));
                }
            }
        }
    }

    /// Whether new work could be stored: there is space beyond the reserved one, and the file accepts a change.
    fn probe(&mut self) -> Result<(), Error> {
        self.ballast.restore();
        if self.ballast.is_spent() {
            return Err(Error::DiskFull { place: self.place.name() });
        }
        self.place.probe().map_err(|error| self.place.io(&error))?;
        write_the_same(&mut self.connection).map_err(|error| self.place.sql(&error))
    }

    /// While space is scarce, a batch that is too large must not make others fail.
    fn serve_alone(&mut self, job: Job) {
        let outcome = self.commit(std::slice::from_ref(&job));
        job.answer(outcome.and_then(|mut only| only.pop().unwrap_or_else(|| Err(stopped()))));
    }

    fn commit(&mut self, group: &[Job]) -> Result<Vec<Result<Vec<Seq>, Error>>, Error> {
        let scarce = self.ballast.is_spent();
        group::commit(&mut self.connection, &self.place, group, scarce)
    }

    /// Moves the write-ahead log into the database, so that the log is reused from its beginning. If this fails nothing
    /// is lost: the next commit tries again.
    fn tidy_log(&self) {
        if let Err(error) = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            warn!(%error, "the store's write-ahead log could not be moved into the database");
        }
    }

    /// Runs one slice, so that writers are not held up.
    fn prune_a_little(&mut self) {
        let Some((mut pruning, reply)) = self.pruning.pop_front() else { return };
        let slice = if self.ballast.is_spent() { Slice::Smallest } else { Slice::Usual };
        let outcome = pruning.run_slice(&mut self.connection, slice).map_err(|error| self.place.sql(&error));
        if matches!(slice, Slice::Smallest) || matches!(outcome, Ok(false)) {
            // Keeps the log short where space is scarce. And only a checkpoint makes the file shorter after a prune.
            self.tidy_log();
        }
        // The caller may be gone.
        match outcome {
            Ok(true) => self.pruning.push_front((pruning, reply)),
            Ok(false) => drop(reply.send(Ok(pruning.pruned_tasks()))),
            // Deleting frees space, but needs some first.
            Err(Error::DiskFull { .. }) if self.ballast.spend() => self.pruning.push_front((pruning, reply)),
            Err(error) => drop(reply.send(Err(error))),
        }
    }
}
