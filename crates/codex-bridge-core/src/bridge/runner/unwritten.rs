//! Log lines for which the disk had no space, kept until it has some. Bounded, because Codex has the items too.

use tracing::warn;

use super::Runner;
use super::journal::LoggedItem;
use crate::bridge::append;
use crate::event::{NewEvent, Warning};
use crate::store::{self, Write};

/// About how many bytes are kept for a task.
const KEPT_BYTES: usize = 1024 * 1024;
/// How many lines are written at once. A large batch is refused while space is scarce.
const AT_ONCE: usize = 16;

/// Log lines for which the disk had no space, the oldest first.
#[derive(Default)]
pub(super) struct Unwritten {
    lines: Vec<NewEvent>,
    bytes: usize,
    /// How many lines were dropped beyond the limit.
    dropped: u64,
}

impl Unwritten {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0
    }

    pub(super) fn keep(&mut self, line: NewEvent) {
        let bytes = line.line.data().map_or(0, |data| data.len());
        if self.bytes + bytes > KEPT_BYTES {
            self.dropped += 1;
            if self.dropped == 1 {
                warn!(
                    "lines of the task's log are dropped: the disk is full, and no more lines are kept in memory"
                );
            }
        } else {
            self.bytes += bytes;
            self.lines.push(line);
        }
    }
}

impl Runner<'_> {
    /// Writes the kept lines, as far as there is space. Returns whether none is left.
    pub(super) async fn write_unwritten(&mut self) -> Result<bool, store::Error> {
        while !self.unwritten.lines.is_empty() {
            let count = self.unwritten.lines.len().min(AT_ONCE);
            let events: Vec<NewEvent> = self.unwritten.lines.iter().take(count).cloned().collect();
            let items: Vec<_> = events.iter().filter_map(|event| LoggedItem::of(&event.line)).collect();
            if !self.commit_lines(Write::Append { task_id: self.task.id.clone(), events }).await? {
                return Ok(false);
            }
            self.unwritten.lines.drain(..count);
            self.logged.extend(items);
        }
        if self.unwritten.dropped > 0 {
            let message = format!(
                "{} log lines were dropped because the disk was full; Codex has them",
                self.unwritten.dropped
            );
            let line = append(&self.task.id, self.inner.now(), Warning { message });
            if !self.commit_lines(line).await? {
                return Ok(false);
            }
        }
        self.unwritten = Unwritten::default();
        Ok(true)
    }

    /// Commits lines. Returns whether there was space.
    pub(super) async fn commit_lines(&self, lines: Write) -> Result<bool, store::Error> {
        match self.inner.commit(vec![lines]).await {
            Ok(()) => Ok(true),
            // The store reserves the last space of a full disk for statuses and decisions.
            Err(store::Error::DiskFull { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
