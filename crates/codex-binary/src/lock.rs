//! A lock file that keeps two processes from doing the same work in one folder. Knows nothing about the work.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Waits for the lock `.lock` in `folder`, which is created if it is not there. Dropping the file gives it back, and
/// so does the death of the process: that is why the wait needs no limit of its own.
pub(crate) fn hold(folder: &Path) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    let file = File::options().create(true).append(true).open(folder.join(".lock"))?;
    file.lock()?;
    Ok(file)
}
