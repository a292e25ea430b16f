//! The log of a daemon that was started on the way: its stderr, kept in two files of bounded size.
//!
//! The daemon writes to its descriptors directly, so there is no line to count: the file is looked at now and then, and when it
//! is too long the descriptors are led to a new one. Knows nothing of what is written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file that is longer makes room for a new one.
const FILE_MAX_BYTES: u64 = 10 * 1024 * 1024;
/// How often it is looked at. Seldom, since an idle daemon shall sleep.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// The file before the one that is written to.
pub fn older(log: &Path) -> PathBuf {
    log.with_extension("log.1")
}

/// Opens the log for writing at its end, a new one if it is too long.
pub fn open(log: &Path) -> io::Result<File> {
    rotate(log, FILE_MAX_BYTES)?;
    OpenOptions::new().create(true).append(true).mode(0o600).open(log)
}

/// Keeps our own stdout and stderr, which lead to this log, in bounds for as long as we run.
pub async fn keep_short(log: PathBuf) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let turned = turn_over(&log, FILE_MAX_BYTES, |file| {
            rustix::stdio::dup2_stdout(file)?;
            Ok(rustix::stdio::dup2_stderr(file)?)
        });
        // What fails now (a full disk) is tried again at the next look; until then the old file is written to.
        if let Err(error) = turned {
            tracing::warn!(%error, "the log could not be rotated");
        }
    }
}

fn turn_over(log: &Path, max_bytes: u64, write_to: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    if rotate(log, max_bytes)? { write_to(&open(log)?) } else { Ok(()) }
}

/// Puts a log that is too long aside; what was aside before is gone. Says whether it did.
fn rotate(log: &Path, max_bytes: u64) -> io::Result<bool> {
    match fs::metadata(log) {
        Ok(found) if found.len() > max_bytes => fs::rename(log, older(log)).map(|()| true),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::{older, open, rotate, turn_over};

    #[test]
    fn a_log_that_is_too_long_is_put_aside_and_only_one_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("daemon.log");
        assert!(!rotate(&log, 10).unwrap(), "none is there");
        for round in ["first round", "second round"] {
            fs::write(&log, round).unwrap();
            assert!(!rotate(&log, 100).unwrap(), "it is short");
            assert!(rotate(&log, 10).unwrap());
            assert_eq!(fs::read_to_string(older(&log)).unwrap(), round);
            assert!(!log.exists());
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(open(&log).unwrap());
        assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn whoever_writes_is_led_to_the_new_file_only_when_there_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("daemon.log");
        fs::write(&log, "a few words").unwrap();
        turn_over(&log, 100, |_| panic!("it is short")).unwrap();
        turn_over(&log, 10, |mut file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "new");
        assert_eq!(fs::read_to_string(older(&log)).unwrap(), "a few words");
    }
}
