//! One boot at a time on one CODEX_HOME.
//!
//! codex 0.166: of ten app-servers that start at once on stdio on a fresh home nine exit ("failed to initialize sqlite
//! state runtime"). On unix sockets none did, but both kinds can start on one home. The lock is a file in the home. It
//! is held from the start of codex until codex accepts a connection, and the kernel releases it if the holder dies.
//! Knows nothing of hosts.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::reason;

/// The lock file's name in the home.
pub const FILE_NAME: &str = ".codex-bridge-boot.lock";

const TRY_EVERY: Duration = Duration::from_millis(20);

/// Why the lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The home or the lock file could not be created or opened.
    #[error("cannot lock {}: {}", path.display(), reason(source))]
    Io {
        /// The lock file, or the home itself.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Other programs held the lock until the deadline.
    #[error("another program holds the start lock {} since more than {waited_ms} ms: try again when it has started codex", path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// How long we waited.
        waited_ms: u128,
    },
}

/// The right to start Codex on one home. Dropping it releases the lock.
#[derive(Debug)]
pub struct BootLock {
    // Closing the file is what frees the lock.
    _file: File,
}

impl BootLock {
    /// Waits for the lock until `deadline`. Creates the home with mode 0700 if it is missing.
    pub async fn acquire(codex_home: &Path, deadline: Instant) -> Result<BootLock, Error> {
        let path = codex_home.join(FILE_NAME);
        let file = open(codex_home, &path).map_err(|source| Error::Io { path: path.clone(), source })?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(BootLock { _file: file }),
                Err(TryLockError::Error(source)) => return Err(Error::Io { path, source }),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    return Err(Error::Busy { path, waited_ms: began.elapsed().as_millis() });
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(TRY_EVERY).await,
            }
        }
    }
}

fn open(codex_home: &Path, path: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(codex_home)?;
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(100)
    }

    #[tokio::test]
    async fn the_second_waits_until_the_first_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("a/b");
        let first = BootLock::acquire(&home, soon()).await.unwrap();
        assert!(matches!(BootLock::acquire(&home, soon()).await, Err(Error::Busy { .. })));
        let later = Instant::now() + Duration::from_secs(10);
        let (second, ()) = tokio::join!(BootLock::acquire(&home, later), async { drop(first) });
        second.unwrap();
    }

    #[tokio::test]
    async fn a_new_home_and_its_lock_are_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let _lock = BootLock::acquire(&home, soon()).await.unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&home), 0o700);
        assert_eq!(mode(&home.join(FILE_NAME)), 0o600);
    }

    #[tokio::test]
    async fn a_home_that_cannot_be_made_is_said_so() {
        let error = BootLock::acquire(Path::new("/dev/null/home"), soon()).await.unwrap_err();
        assert!(error.to_string().starts_with("cannot lock /dev/null/home/"), "{error}");
    }
}
