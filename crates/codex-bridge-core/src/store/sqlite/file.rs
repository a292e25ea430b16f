//! The database file: its lock, its permissions, and how to open it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use super::fault::DbFile;
use super::migrate::{self, Found};
use crate::store::Error;

/// How long to wait for another program in the file, such as a shell or a backup tool.
const BUSY: Duration = Duration::from_millis(500);

/// A database up to this size is checked completely when it is opened (about 0.2 s). Of a larger one, only the tables
/// in [`STEERING_TABLES`] are checked; `check` covers the rest.
const LOOKED_THROUGH_BYTES: u64 = 64 * 1024 * 1024;

/// The tables that decide what happens next. They are small, and read at each start.
const STEERING_TABLES: [&str; 4] = ["tasks", "turns", "logs", "requests"];

/// Locks the database for as long as the returned file is open.
///
/// The lock is on a separate file: POSIX drops all of a process's locks on a file when the process closes any handle to
/// it, so a second open of the database itself would lose SQLite's own locks.
pub fn own(place: &DbFile) -> Result<File, Error> {
    let io = |error| place.io(&error);
    create_folder(place.path()).map_err(io)?;
    let path = place.path().with_added_extension("lock");
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { place: place.name() }),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

/// The only connection that writes, with the tables of this version.
pub fn open_writer(place: &DbFile) -> Result<Connection, Error> {
    create_private(place.path()).map_err(|error| place.io(&error))?;
    let sql = |error| place.sql(&error);
    let mut connection = open(place, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(sql)?;
    if connection.is_readonly(MAIN_DB).map_err(sql)? {
        return Err(Error::ReadOnly { place: place.name() });
    }
    if migrate::inspect(&connection, place)? == Found::Nothing {
        // Must be set before the first page is written. It lets a prune return free pages to the disk.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(sql)?;
    }
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(sql)?;
    if mode != "wal" {
        return Err(Error::Other(format!(
            "{}: this file system cannot hold a write-ahead log",
            place.name()
        )));
    }
    look_through(&connection, place)?;
    configure_writer(&connection).map_err(sql)?;
    migrate::apply(&mut connection).map_err(sql)?;
    Ok(connection)
}

/// A connection that only reads.
pub fn open_reader(place: &DbFile) -> rusqlite::Result<Connection> {
    let connection = open(place, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // In KiB. Small, because there are several readers, and an idle daemon should be small.
    connection.pragma_update(None, "cache_size", -1024)?;
    Ok(connection)
}

fn open(place: &DbFile, how: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(place.path(), how | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Keeps the plan of a prepared statement for all values. Otherwise SQLite prepares the statement anew for new
    // values, which takes longer than reading a task.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn configure_writer(connection: &Connection) -> rusqlite::Result<()> {
    // Batches are grouped, so this costs no more than NORMAL, which can lose the last commits in a power failure.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // Shrinks the write-ahead log again after a long read has made it grow.
    connection.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024)?;
    Ok(())
}

/// Looks for damage now, rather than in the middle of a turn.
fn look_through(connection: &Connection, place: &DbFile) -> Result<(), Error> {
    let size = fs::metadata(place.path()).map_err(|error| place.io(&error))?.len();
    let finding = |table: Option<&str>| -> rusqlite::Result<String> {
        let query =
            table.map_or_else(|| "PRAGMA quick_check(1)".into(), |it| format!("PRAGMA quick_check({it})"));
        connection.query_row(&query, [], |row| row.get(0))
    };
    let tables: Vec<_> =
        if size <= LOOKED_THROUGH_BYTES { vec![None] } else { STEERING_TABLES.map(Some).to_vec() };
    for table in tables {
        let found = finding(table).map_err(|error| place.sql(&error))?;
        if found != "ok" {
            return Err(place.corrupt(found));
        }
    }
    Ok(())
}

fn create_folder(path: &Path) -> io::Result<()> {
    let folder = folder_of(path);
    if folder.exists() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    sync_folder_of(folder)
}

/// Syncs the folder of a file, so that the file's name is durable.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates the file with private permissions. SQLite gives its other files the same ones.
fn create_private(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut rights = fs::metadata(path)?.permissions();
            if rights.mode() & 0o077 != 0 {
                rights.set_mode(0o600);
                fs::set_permissions(path, rights)?;
            }
            Ok(())
        }
        created => created.and_then(|_| sync_folder_of(path)),
    }
}
