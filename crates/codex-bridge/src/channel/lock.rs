//! One daemon per workspace or bot, whatever state directory it has: two that served the same would both answer.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::failure::{Code, Failure};
use crate::paths::cannot;

/// Held until it is dropped or the process ends.
#[derive(Debug)]
pub struct Held {
    _file: File,
}

/// Takes the lock of an identity, or says who has it. `holder` is noted for the one who comes second.
pub fn hold(dir: &Path, identity: &str, holder: &str) -> Result<Held, Failure> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| cannot("make", dir, &error))?;
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
    Ok(Held { _file: file })
}

fn held_by(file: &mut File, identity: &str) -> Failure {
    let mut holder = String::new();
    // Without the name of its holder, it is held all the same.
    file.read_to_string(&mut holder).ok();
    let who = if holder.trim().is_empty() { "another daemon" } else { holder.trim() };
    Failure::new(Code::ChannelHeld, format!("{identity} is served by {who}: both would answer every message"))
        .hint("stop that one, or use it as it is")
}

#[cfg(test)]
mod tests {
    use super::hold;
    use crate::failure::Code;

    #[test]
    fn the_second_is_told_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = hold(dir.path(), "workspace w", "the daemon with pid 7").unwrap();
        let second = hold(dir.path(), "workspace w", "the daemon with pid 8").unwrap_err();
        assert_eq!(second.code, Code::ChannelHeld);
        assert!(second.message.contains("workspace w is served by the daemon with pid 7"), "{second}");
        hold(dir.path(), "workspace x", "the daemon with pid 8").unwrap();
        drop(first);
        hold(dir.path(), "workspace w", "the daemon with pid 8").unwrap();
    }
}
