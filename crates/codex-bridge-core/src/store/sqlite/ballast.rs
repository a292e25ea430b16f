//! Reserved disk space. It is given up when the disk is full, so that running work can still be stored to its end.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracing::{error, warn};

use super::file::folder_of;

/// Enough for thousands of status changes.
const BYTES: usize = 4 * 1024 * 1024;
const BLOCK: usize = 64 * 1024;

/// The pause after an attempt that failed although there seemed to be room, as with a quota.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reserved disk space.
#[derive(Debug)]
pub struct Ballast {
    file: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    Held,
    Spent { retry_at: Instant },
}

impl Ballast {
    /// The ballast of a database, created now if missing. Without room for it, it counts as spent.
    pub fn of(database: &Path) -> Self {
        let file = database.with_added_extension("ballast");
        let held = fs::metadata(&file).is_ok_and(|found| found.len() == BYTES as u64);
        let state = if held { State::Held } else { State::Spent { retry_at: Instant::now() } };
        let mut ballast = Self { file, state };
        ballast.restore();
        ballast
    }

    /// Whether the space has been given up.
    pub fn is_spent(&self) -> bool {
        matches!(self.state, State::Spent { .. })
    }

    /// Gives the space up. False if there was none.
    pub fn spend(&mut self) -> bool {
        let was_held = !self.is_spent();
        // Even if this fails, there is nothing left to give up.
        fs::remove_file(&self.file).ok();
        self.state = State::Spent { retry_at: Instant::now() };
        if was_held {
            error!(file = %self.file.display(), "the disk is full: the space reserved for running work is now used");
        }
        was_held
    }

    /// Reserves the space again, if there is room for twice as much.
    pub fn restore(&mut self) {
        let State::Spent { retry_at } = self.state else { return };
        if Instant::now() < retry_at || !has_room_for(&self.file, 2 * BYTES as u64) {
            return;
        }
        self.state = match fill(&self.file) {
            Ok(()) => State::Held,
            Err(error) => {
                warn!(file = %self.file.display(), %error, "no disk space could be reserved for running work");
                fs::remove_file(&self.file).ok();
                State::Spent { retry_at: Instant::now() + PATIENCE }
            }
        };
    }
}

/// Asks the file system, without writing. True if it cannot say: then the attempt finds out.
fn has_room_for(file: &Path, bytes: u64) -> bool {
    rustix::fs::statvfs(folder_of(file))
        .map_or(true, |system| system.f_bavail.saturating_mul(system.f_frsize) >= bytes)
}

/// Fills the file with bytes without a pattern, because some file systems store zeros as nothing.
fn fill(file: &Path) -> io::Result<()> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut block = Vec::with_capacity(BLOCK);
    while block.len() < BLOCK {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        block.extend_from_slice(&state.to_le_bytes());
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    for _ in 0..BYTES / BLOCK {
        file.write_all(&block)?;
    }
    file.sync_all()
}
