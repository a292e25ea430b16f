//! A few connections that only read. In WAL mode, readers and the writer do not wait for each other.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::fault::DbFile;
use super::file;
use crate::store::Error;

/// More would not help: a read takes microseconds, and there is one disk.
const CONNECTIONS: usize = 4;

/// Connections that only read.
#[derive(Debug)]
pub struct Readers {
    place: DbFile,
    slots: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    /// Opens no connection yet.
    pub fn new(place: DbFile) -> Self {
        Self { place, slots: Arc::new(Semaphore::new(CONNECTIONS)), idle: Arc::default() }
    }

    /// Runs a query on a blocking thread, with a connection of its own.
    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let stopped = |_| Error::Other("the store is closed".into());
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(stopped)?;
        let (place, idle) = (self.place.clone(), Arc::clone(&self.idle));
        let outcome = spawn_blocking(move || {
            let _slot = slot;
            let connection = take(&idle).map_or_else(|| file::open_reader(&place), Ok);
            let outcome = connection.and_then(|connection| {
                let outcome = query(&connection)?;
                // A connection whose query failed is closed instead, because its state is unknown.
                give_back(&idle, connection);
                Ok(outcome)
            });
            outcome.map_err(|error| place.sql(&error))
        });
        outcome.await.map_err(|error| Error::Other(format!("a read was interrupted: {error}")))?
    }
}

fn take(idle: &Mutex<Vec<Connection>>) -> Option<Connection> {
    idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn give_back(idle: &Mutex<Vec<Connection>>, connection: Connection) {
    idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
}
