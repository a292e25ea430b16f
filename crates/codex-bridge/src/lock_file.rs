//! A lock on a file that names its holder, held until the file is closed or the process ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::failure::Failure;
use crate::paths::cannot;

/// Takes the lock, and writes the holder's name into the file. If another process has the lock, `held` makes the failure
/// from the name of its holder.
pub fn acquire(path: &Path, holder: &str, held: impl FnOnce(&str) -> Failure) -> Result<File, Failure> {
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let mut file = opened.map_err(|error| cannot("open", path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut other = String::new();
            // The lock is held, even if the holder's name cannot be read.
            file.read_to_string(&mut other).ok();
            return Err(held(other.trim()));
        }
        Err(TryLockError::Error(error)) => return Err(cannot("lock", path, &error)),
    }
    let noted = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{holder}"));
    noted.map_err(|error| cannot("write", path, &error))?;
    Ok(file)
}
