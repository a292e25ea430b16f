//! One daemon per workspace or bot, across all state directories: two daemons would both answer every message.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::failure::{Code, Failure};
use crate::lock_file;
use crate::paths::cannot;

/// Takes the lock of an identity. If another daemon has it, the error names that daemon by its `holder` text.
pub fn acquire(dir: &Path, identity: &str, holder: &str) -> Result<File, Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| cannot("create", dir, &error))?;
    let digest = Sha256::digest(identity.as_bytes());
    let name = u64::from_be_bytes(digest.as_slice().first_chunk().copied().unwrap_or_default());
    lock_file::acquire(&dir.join(format!("{name:016x}.lock")), holder, |other| {
        let who = if other.is_empty() { "another daemon" } else { other };
        let message = format!("{identity} is served by {who}; two daemons would both answer every message");
        Failure::new(Code::ChannelHeld, message).hint("stop that daemon, or use it")
    })
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
