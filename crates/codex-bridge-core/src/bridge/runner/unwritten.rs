//! Lines of the log that found no space on the disk, kept for when there is some. Bounded: Codex has the items too.

use tracing::warn;

use super::Runner;
use super::journal::LoggedItem;
use crate::bridge::append;
use crate::event::{Line, NewEvent, Warning};
use crate::store::{self, Write};

/// So many bytes are kept for a task, roughly.
const KEPT_BYTES: usize = 1024 * 1024;
/// So many are written at once: a large batch is refused while space is scarce.
const AT_ONCE: usize = 16;

/// Lines that found no space, the oldest first.
#[derive(Default)]
pub(super) struct Unwritten {
    lines: Vec<NewEvent>,
    bytes: usize,
    /// How many were too many to keep.
    dropped: u64,
}

impl Unwritten {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0
    }

    fn keep(&mut self, line: NewEvent) {
        let bytes = line.line.data().map_or(0, |data| data.len());
        if self.bytes + bytes > KEPT_BYTES {
            self.dropped += 1;
            if self.dropped == 1 {
                warn!(
                    "lines of the task's log are dropped: the disk is full, and no more are kept in memory"
                );
            }
        } else {
            self.bytes += bytes;
            self.lines.push(line);
        }
    }
}

impl Runner<'_> {
    pub(super) fn keep_unwritten(&mut self, line: Line) {
        self.unwritten.keep(NewEvent { at: self.inner.now(), line });
    }

    /// Writes what found no space before, as far as there is some now. Says whether nothing is left.
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
            let message =
                format!("{} lines found no space on the disk; Codex has them", self.unwritten.dropped);
            let line = append(&self.task.id, self.inner.now(), Warning { message });
            if !self.commit_lines(line).await? {
                return Ok(false);
            }
        }
        self.unwritten = Unwritten::default();
        Ok(true)
    }

    /// Whether there was space for them.
    pub(super) async fn commit_lines(&self, lines: Write) -> Result<bool, store::Error> {
        match self.inner.commit(vec![lines]).await {
            Ok(()) => Ok(true),
            // A full disk keeps what little room there is for states and decisions.
            Err(store::Error::DiskFull { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }
}
