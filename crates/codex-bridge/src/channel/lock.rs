//! One daemon per workspace or bot, across all state directories: two daemons would both answer every message.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::failure::{Code, Failure};
use crate::paths::cannot;

/// The lock of an identity, held until this is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Takes the lock of an identity. If another daemon has it, the error names that daemon by its `holder` text.
pub fn acquire(dir: &Path, identity: &str, holder: &str) -> Result<Lock, Failure> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| cannot("create", dir, &error))?;
    let digest = Sha256::digest(identity.as_bytes());
    let name = u64::from_be_bytes(digest.as_slice().first_chunk().copied().unwrap_or_default());
    let path = dir.join(format!("{name:016x}.lock"));
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = opened.map_err(|error| cannot("open", &path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held_by(&mut file, identity)),
        Err(TryLockError::Error(error)) => return Err(cannot("lock", &path, &error)),
    }
    let noted = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{holder}"));
    noted.map_err(|error| cannot("write", &path, &error))?;
    Ok(Lock { _file: file })
}

fn held_by(file: &mut File, identity: &str) -> Failure {
    let mut holder = String::new();
    // The lock is held, even if the holder's name cannot be read.
    file.read_to_string(&mut holder).ok();
    let who = if holder.trim().is_empty() { "another daemon" } else { holder.trim() };
    Failure::new(
        Code::ChannelHeld,
        format!("{identity} is served by {who}; two daemons would both answer every message"),
    )
    .hint("stop that daemon, or use it")
}

#[cfg(test)]
mod tests {
    use super::acquire;
    use crate::failure::Code;

    #[test]
    fn the_second_is_told_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = acquire(dir.path(), "workspace w", "the daemon with pid 7").unwrap();
        let second = acquire(dir.path(), "workspace w", "the daemon with pid 8").unwrap_err();
        assert_eq!(second.code, Code::ChannelHeld);
        assert!(second.message.contains("workspace w is served by the daemon with pid 7"), "{second}");
        acquire(dir.path(), "workspace x", "the daemon with pid 8").unwrap();
        drop(first);
        acquire(dir.path(), "workspace w", "the daemon with pid 8").unwrap();
    }
}
