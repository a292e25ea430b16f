//! The log file of a background daemon: its stderr, kept in two files of bounded size.
//!
//! The starting command has opened the file and handed it over as stderr. When the file is too large, the daemon renames it
//! and redirects its descriptors to a new file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A larger file is rotated.
const FILE_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// The path of the rotated log.
pub fn rotated(log: &Path) -> PathBuf {
    log.with_extension("log.1")
}

/// Opens the log for appending, after rotating one that is too large.
pub fn open(log: &Path) -> io::Result<File> {
    rotate(log, FILE_MAX_BYTES)?;
    OpenOptions::new().create(true).append(true).mode(0o600).open(log)
}

/// Our stderr, which is rotated after each batch of lines if it is a file.
pub struct Stderr {
    /// The file; none if stderr belongs to somebody else.
    pub log: Option<PathBuf>,
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write(bytes)
    }

    /// A failure to rotate (a full disk) is retried with the next batch. Until then the old file is used.
    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()?;
        self.log.as_ref().map_or(Ok(()), |log| rotate_and_redirect(log, FILE_MAX_BYTES, redirect))
    }
}

/// Redirects stderr to the file; stdout too, once it is the same as stderr.
fn redirect(file: &File) -> io::Result<()> {
    let (out, err) = (rustix::fs::fstat(io::stdout())?, rustix::fs::fstat(io::stderr())?);
    if (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino) {
        rustix::stdio::dup2_stdout(file)?;
    }
    Ok(rustix::stdio::dup2_stderr(file)?)
}

fn rotate_and_redirect(
    log: &Path,
    max_bytes: u64,
    write_to: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    if rotate(log, max_bytes)? { write_to(&open(log)?) } else { Ok(()) }
}

/// Renames a log that is too large, over the previous one. Returns whether it did.
fn rotate(log: &Path, max_bytes: u64) -> io::Result<bool> {
    match fs::metadata(log) {
        Ok(found) if found.len() > max_bytes => fs::rename(log, rotated(log)).map(|()| true),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::{open, rotate, rotate_and_redirect, rotated};

    #[test]
    fn a_log_that_is_too_long_is_put_aside_and_only_one_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("daemon.log");
        assert!(!rotate(&log, 10).unwrap(), "none is there");
        for round in ["first round", "second round"] {
            fs::write(&log, round).unwrap();
            assert!(!rotate(&log, 100).unwrap(), "it is short");
            assert!(rotate(&log, 10).unwrap());
            assert_eq!(fs::read_to_string(rotated(&log)).unwrap(), round);
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
        rotate_and_redirect(&log, 100, |_| panic!("it is short")).unwrap();
        rotate_and_redirect(&log, 10, |mut file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "new");
        assert_eq!(fs::read_to_string(rotated(&log)).unwrap(), "a few words");
    }
}
