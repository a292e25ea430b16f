//! What went wrong, in the store's words. Knows SQLite's codes; decides nothing about what to do next.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::store::Error;

/// What is written to see whether anything can be: as much as some state changes need.
const PROBE_BYTES: usize = 64 * 1024;

/// Why a batch was not applied.
#[derive(Debug)]
pub enum Trouble {
    /// It asks for something that may not be.
    Refused(Error),
    /// SQLite could not do it.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Trouble {
    /// Refused, with a sentence.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused(Error::Other(why.into()))
    }

    /// Whether it lies in what was asked, so that others in the same transaction are not touched by it.
    pub fn is_of_the_batch_alone(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Sql(rusqlite::Error::ToSqlConversionFailure(_)) => true,
            Self::Sql(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
            ),
        }
    }
}

/// The file that errors are about.
#[derive(Debug, Clone)]
pub struct Place(Arc<Path>);

impl Place {
    /// Errors are about this file.
    pub fn new(path: &Path) -> Self {
        Self(path.into())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// As people read it.
    pub fn name(&self) -> String {
        self.0.display().to_string()
    }

    /// Trouble in the store's words.
    pub fn explain(&self, trouble: Trouble) -> Error {
        match trouble {
            Trouble::Refused(error) => error,
            Trouble::Sql(error) => self.sql(&error),
        }
    }

    /// SQLite's error in the store's words.
    pub fn sql(&self, error: &rusqlite::Error) -> Error {
        let place = self.name();
        let rusqlite::Error::SqliteFailure(failure, _) = error else {
            return match error {
                // A value that SQLite gives and we cannot read was not written by us.
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
            // SQLite says "full" only for one cause of several: a quota, a limit on the size of files and a shared-memory
            // file without room are plain I/O errors to it.
            ErrorCode::SystemIoFailure if is_shortage(failure.extended_code) && self.probe().is_err() => {
                Error::DiskFull { place }
            }
            _ => Error::Other(format!("{place}: {error}")),
        }
    }

    /// The system's error in the store's words.
    pub fn io(&self, error: &io::Error) -> Error {
        let place = self.name();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::DiskFull { place }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Error::ReadOnly { place },
            _ => Error::Other(format!("{place}: {error}")),
        }
    }

    /// Damaged.
    pub fn corrupt(&self, detail: impl Into<String>) -> Error {
        Error::Corrupt { place: self.name(), detail: detail.into() }
    }

    /// Writes a small file here and takes it away again. It has a name of its own: others may look at the same time.
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
    // Some file systems find out only then that there is no room.
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
