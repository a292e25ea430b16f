//! One daemon per state directory, by a lock on a file. The file contains the daemon's pid, for the error of a second one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;

use crate::failure::{Code, Failure};
use crate::paths::{Paths, cannot};

/// The lock, held until it is dropped or the process ends.
pub struct Lock {
    _file: File,
}

/// Takes the lock. If another daemon has it, the error names that daemon.
pub fn acquire(paths: &Paths) -> Result<Lock, Failure> {
    let path = paths.lock();
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = opened.map_err(|error| cannot("open", &path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held_by(&mut file, paths)),
        Err(TryLockError::Error(error)) => return Err(cannot("lock", &path, &error)),
    }
    let noted =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    noted.map_err(|error| cannot("write", &path, &error))?;
    Ok(Lock { _file: file })
}

fn held_by(file: &mut File, paths: &Paths) -> Failure {
    let mut pid = String::new();
    // The lock is held, even if the pid cannot be read.
    file.read_to_string(&mut pid).ok();
    let who = match pid.trim() {
        "" => "another daemon".to_owned(),
        pid => format!("the daemon with pid {pid}"),
    };
    Failure::new(Code::DaemonHeld, format!("{who} already uses {}", paths.state_dir.display()))
        .hint("use that daemon, stop it with `codex-bridge stop`, or choose another --state-dir")
}
