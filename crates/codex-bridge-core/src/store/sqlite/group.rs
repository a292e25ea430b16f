//! Commits many batches in one transaction. Each succeeds or fails by itself, and one sync makes all durable.

use rusqlite::{Connection, TransactionBehavior};

use super::apply;
use super::fault::DbFile;
use super::writer::Job;
use crate::event::Seq;
use crate::store::{Error, Write};

/// The largest batch while space is scarce. The reserved space holds dozens of these, and thousands of usual ones.
const SCARCE_BYTES: usize = 128 * 1024;

/// Commits a group. An error means that no batch was applied. Else each has the first number of each `Append`.
///
/// While space is `scarce`, only changes to existing work are applied.
pub fn commit(
    connection: &mut Connection,
    place: &DbFile,
    group: &[Job],
    scarce: bool,
) -> Result<Vec<Result<Vec<Seq>, Error>>, Error> {
    let sql = |error| place.sql(&error);
    let mut transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    let mut outcomes = Vec::with_capacity(group.len());
    for job in group {
        if scarce && !is_let_through(job) {
            outcomes.push(Err(Error::DiskFull { place: place.name() }));
            continue;
        }
        let savepoint = transaction.savepoint().map_err(sql)?;
        match apply::batch(&savepoint, &job.writes, &job.bodies) {
            Ok(first_seqs) => {
                savepoint.commit().map_err(sql)?;
                outcomes.push(Ok(first_seqs));
            }
            // Dropping the savepoint rolls the batch back.
            Err(error) if error.affects_only_batch() => outcomes.push(Err(place.explain(error))),
            Err(error) => return Err(place.explain(error)),
        }
    }
    transaction.commit().map_err(sql)?;
    Ok(outcomes)
}

/// Whether a batch is applied while space is scarce. Not new work. Not events alone, because Codex has their items, and
/// they can be read again later. Not large batches, which would use up the space.
fn is_let_through(job: &Job) -> bool {
    let is_new = |write: &Write| {
        matches!(write, Write::AddTask(_) | Write::AddMessage(_) | Write::SaveWholeChanges(_))
    };
    let adds = job.writes.iter().any(is_new);
    let only_tells = job.writes.iter().all(|write| matches!(write, Write::Append { .. }));
    !adds && !only_tells && job.bytes() <= SCARCE_BYTES
}
