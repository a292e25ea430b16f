//! Deletes old data in slices. A slice is a transaction of a few milliseconds; after each, the store is sound.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, Result, Transaction, TransactionBehavior};

use super::messages;
use super::query::finished_statuses;
use crate::event::Seq;
use crate::store::{AUDIT_LINES, Prune};
use crate::task::TimeMs;

/// About how long a slice may keep writers waiting.
const SLICE: Duration = Duration::from_millis(10);

/// How much a slice may do.
#[derive(Debug, Clone, Copy)]
pub enum Slice {
    /// As much as writers do not notice.
    Usual,
    /// One step, because deletions need space in the write-ahead log too, and there is hardly any.
    Smallest,
}

/// How many rows are deleted between two looks at the clock.
const STRIDE: Seq = 200;
/// How many free pages are returned between two looks at the clock.
const PAGES: i64 = 64;
/// How many free pages are never returned.
const SPARE_PAGES: i64 = 256;

/// Tasks that may be deleted: finished, not parked, unchanged since before the time, without open or decided requests
/// and without unfinished deliveries.
static NEXT_TASK: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT ord, id FROM tasks WHERE ord > ?1 AND status IN ({}) AND parked IS NULL \
         AND max(updated_at, coalesce(completed_at, updated_at)) < ?2 \
         AND NOT EXISTS (SELECT 1 FROM requests WHERE task_id = tasks.id AND state IN ('open', 'decided')) \
         AND NOT EXISTS (SELECT 1 FROM outbox WHERE task_id = tasks.id AND state IN ('pending', 'attempting')) \
         ORDER BY ord LIMIT 1",
        finished_statuses()
    )
});

/// The state of a prune.
#[derive(Debug)]
pub struct Pruning {
    ended_before: TimeMs,
    events_per_task: u32,
    progress: Progress,
}

#[derive(Debug, Clone)]
struct Progress {
    stage: Stage,
    pruned_tasks: u64,
}

/// The stage of a prune. The cursors make sure that each row is looked at once.
#[derive(Debug, Clone)]
enum Stage {
    /// Looks at tasks created after this one.
    Tasks { after_ord: i64 },
    /// Looks at the logs of tasks with a greater id.
    Logs { after_id: String },
    /// Deletes messages that are done.
    Messages,
    /// Deletes old lines of the audit log.
    Audit,
    /// Returns free pages to the disk.
    Space,
    /// Done.
    Done,
}

impl Pruning {
    /// A prune that has not begun.
    pub fn new(Prune { ended_before, events_per_task }: Prune) -> Self {
        let progress = Progress { stage: Stage::Tasks { after_ord: 0 }, pruned_tasks: 0 };
        Self { ended_before, events_per_task, progress }
    }

    /// How many tasks have been deleted so far.
    pub fn pruned_tasks(&self) -> u64 {
        self.progress.pruned_tasks
    }

    /// Runs one slice. Returns whether there is more to do. A slice that fails has no effect and can be repeated.
    pub fn run_slice(&mut self, connection: &mut Connection, slice: Slice) -> Result<bool> {
        let begun = Instant::now();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut progress = self.progress.clone();
        loop {
            self.step(&transaction, &mut progress)?;
            let is_over = matches!(slice, Slice::Smallest) || begun.elapsed() >= SLICE;
            if is_over || matches!(progress.stage, Stage::Done) {
                break;
            }
        }
        transaction.commit()?;
        self.progress = progress;
        Ok(!matches!(self.progress.stage, Stage::Done))
    }

    fn step(&self, transaction: &Transaction<'_>, progress: &mut Progress) -> Result<()> {
        match &progress.stage {
            Stage::Tasks { after_ord } => match self.next_task(transaction, *after_ord)? {
                Some((ord, id)) => {
                    if shorten(transaction, &id, 0)? {
                        transaction.prepare_cached("DELETE FROM tasks WHERE id = ?1")?.execute([id])?;
                        progress.pruned_tasks += 1;
                        progress.stage = Stage::Tasks { after_ord: ord };
                    }
                }
                None => progress.stage = Stage::Logs { after_id: String::new() },
            },
            Stage::Logs { after_id } => match self.next_log(transaction, after_id)? {
                Some(id) => {
                    if shorten(transaction, &id, self.events_per_task.into())? {
                        progress.stage = Stage::Logs { after_id: id };
                    }
                }
                None => progress.stage = Stage::Messages,
            },
            Stage::Messages => {
                if !messages::forget(transaction, self.ended_before, STRIDE)? {
                    progress.stage = Stage::Audit;
                }
            }
            Stage::Audit => {
                if !shorten_audit(transaction, AUDIT_LINES.into())? {
                    progress.stage = Stage::Space;
                }
            }
            Stage::Space => {
                if !give_back(transaction)? {
                    progress.stage = Stage::Done;
                }
            }
            Stage::Done => {}
        }
        Ok(())
    }

    /// Queried anew in each slice, because a task may be continued in between.
    fn next_task(&self, transaction: &Transaction<'_>, after_ord: i64) -> Result<Option<(i64, String)>> {
        let mut statement = transaction.prepare_cached(&NEXT_TASK)?;
        statement.query_row((after_ord, self.ended_before), |row| Ok((row.get(0)?, row.get(1)?))).optional()
    }

    fn next_log(&self, transaction: &Transaction<'_>, after_id: &str) -> Result<Option<String>> {
        let mut statement = transaction.prepare_cached(
            "SELECT task_id FROM logs WHERE task_id > ?1 AND last_seq - first_seq >= ?2 ORDER BY task_id LIMIT 1",
        )?;
        statement.query_row((after_id, self.events_per_task), |row| row.get(0)).optional()
    }
}

/// Deletes some of the oldest events of a task. True once at most `keep` are left.
fn shorten(transaction: &Transaction<'_>, id: &str, keep: Seq) -> Result<bool> {
    let (first, last): (Seq, Seq) = transaction
        .prepare_cached("SELECT first_seq, last_seq FROM logs WHERE task_id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let goal = last + 1 - keep;
    let reached = goal.min(first + STRIDE).max(first);
    transaction
        .prepare_cached("DELETE FROM events WHERE task_id = ?1 AND seq < ?2")?
        .execute((id, reached))?;
    transaction
        .prepare_cached("UPDATE logs SET first_seq = ?2 WHERE task_id = ?1")?
        .execute((id, reached))?;
    Ok(reached >= goal)
}

/// Deletes some of the oldest lines of the audit log. False once at most `keep` are left.
fn shorten_audit(transaction: &Transaction<'_>, keep: i64) -> Result<bool> {
    let taken = transaction
        .prepare_cached(
            "DELETE FROM audit WHERE ord IN \
             (SELECT ord FROM audit WHERE ord <= (SELECT max(ord) FROM audit) - ?1 ORDER BY ord LIMIT ?2)",
        )?
        .execute((keep, STRIDE))?;
    Ok(taken > 0)
}

/// Returns some free pages to the disk. False once few enough are left: an eighth of the file and a little more. That
/// means moving pages, and most free pages are soon used again.
fn give_back(transaction: &Transaction<'_>) -> Result<bool> {
    let number = |name| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (all, free) = (number("page_count")?, number("freelist_count")?);
    if free <= all / 8 + SPARE_PAGES {
        return Ok(false);
    }
    let mut statement = transaction.prepare_cached(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    // In a file that another program created, no page can be returned.
    Ok(number("freelist_count")? < free)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{STRIDE, shorten_audit};

    #[test]
    fn of_the_audit_log_the_newest_lines_are_kept() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../migrations/0001_first.sql")).unwrap();
        let transaction = connection.transaction().unwrap();
        for at in 1..=2 * STRIDE + 30 {
            let sql = "INSERT INTO audit (at, actor, action, detail) VALUES (?1, 'a', 'b', 'c')";
            transaction.execute(sql, [at]).unwrap();
        }
        let mut strides = 0;
        while shorten_audit(&transaction, 20).unwrap() {
            strides += 1;
        }
        assert_eq!(strides, 3, "a little at a time");
        let sql = "SELECT min(at), max(at), count(*) FROM audit";
        let left: (i64, i64, i64) =
            transaction.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        assert_eq!(left, (2 * STRIDE + 11, 2 * STRIDE + 30, 20));
    }
}
