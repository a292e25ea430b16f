//! One daemon per state directory, by a lock on a file. The file contains the daemon's pid, for the error of a second one.

use std::fs::File;

use crate::failure::{Code, Failure};
use crate::lock_file;
use crate::paths::Paths;

/// Takes the lock. If another daemon has it, the error names that daemon.
pub fn acquire(paths: &Paths) -> Result<File, Failure> {
    lock_file::acquire(&paths.lock(), &std::process::id().to_string(), |pid| {
        let who =
            if pid.is_empty() { "another daemon".to_owned() } else { format!("the daemon with pid {pid}") };
        Failure::new(Code::DaemonHeld, format!("{who} already uses {}", paths.state_dir.display()))
            .hint("use that daemon, stop it with `codex-bridge stop`, or choose another --state-dir")
    })
}
