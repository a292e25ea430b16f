//! Translates errors of SQLite and the system into the store's errors. Decides nothing about what to do next.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::store::Error;
use codex_wire::reason;

/// How much a probe writes: as much as a few status changes need.
const PROBE_BYTES: usize = 64 * 1024;

/// Why a batch was not applied.
#[derive(Debug)]
pub enum BatchError {
    /// The batch asks for something that is not allowed.
    Refused(Error),
    /// SQLite failed.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for BatchError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl BatchError {
    /// A refusal with a message.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused(Error::Other(why.into()))
    }

    /// Whether the batch itself is at fault, so that others in the same transaction are not affected.
    pub fn affects_only_batch(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Sql(rusqlite::Error::ToSqlConversionFailure(_)) => true,
            Self::Sql(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
            ),
        }
    }
}

/// The database file that errors name.
#[derive(Debug, Clone)]
pub struct DbFile(Arc<Path>);

impl DbFile {
    /// The file at this path.
    pub fn new(path: &Path) -> Self {
        Self(path.into())
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path for people.
    pub fn name(&self) -> String {
        self.0.display().to_string()
    }

    /// Translates a failure of a batch.
    pub fn explain(&self, error: BatchError) -> Error {
        match error {
            BatchError::Refused(error) => error,
            BatchError::Sql(error) => self.sql(&error),
        }
    }

    /// Translates an error of SQLite.
    pub fn sql(&self, error: &rusqlite::Error) -> Error {
        let place = self.name();
        let rusqlite::Error::SqliteFailure(failure, _) = error else {
            return match error {
                // A value that cannot be read was not written by us.
                rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..) => {
                    self.corrupt(error.to_string())
                }
                _ => Error::Other(error.to_string()),
            };
        };
        match failure.code {
            ErrorCode::DiskFull => Error::DiskFull { place },
            ErrorCode::ReadOnly => Error::ReadOnly { place },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                Error::Locked { place }
            }
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => self.corrupt(error.to_string()),
            // SQLite reports a full disk for one cause only. A quota, a limit on file sizes, and a shared-memory file
            // without room are plain I/O errors to it.
            ErrorCode::SystemIoFailure if is_shortage(failure.extended_code) && self.probe().is_err() => {
                Error::DiskFull { place }
            }
            _ => Error::Other(format!("{place}: {error}")),
        }
    }

    /// Translates an error of the system.
    pub fn io(&self, error: &io::Error) -> Error {
        let place = self.name();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::DiskFull { place }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Error::ReadOnly { place },
            _ => Error::Other(format!("{place}: {}", reason(error))),
        }
    }

    /// The error for damage.
    pub fn corrupt(&self, detail: impl Into<String>) -> Error {
        Error::Corrupt { place: self.name(), detail: detail.into() }
    }

    /// Writes a small file beside the database and removes it. Several probes may run at once.
    pub fn probe(&self) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let probe = self.0.with_added_extension(format!("probe.{}.{number}", std::process::id()));
        let written = write_new(&probe);
        let removed = std::fs::remove_file(&probe);
        written.and(removed)
    }
}

fn write_new(file: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(&vec![0xa5; PROBE_BYTES])?;
    // Some file systems report a full disk only at the sync.
    file.sync_data()
}

fn is_shortage(extended_code: i32) -> bool {
    matches!(
        extended_code,
        ffi::SQLITE_IOERR_WRITE
            | ffi::SQLITE_IOERR_FSYNC
            | ffi::SQLITE_IOERR_TRUNCATE
            | ffi::SQLITE_IOERR_SHMSIZE
            | ffi::SQLITE_IOERR_SHMOPEN
    )
}
