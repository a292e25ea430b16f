//! Many batches, one transaction: each stands or falls by itself, and all are durable at once.

use rusqlite::{Connection, TransactionBehavior};

use super::apply;
use super::fault::Place;
use super::writer::Job;
use crate::event::Seq;
use crate::store::{Error, Write};

/// The largest batch while space is scarce: the ballast holds some dozens of these, and thousands of the usual ones.
const SCARCE_BYTES: usize = 128 * 1024;

/// Commits a group. An error means that nothing of any batch was applied; otherwise each has its own outcome: the first
/// number of each `Append`.
///
/// While space is `scarce`, only what brings begun work to its end is let through.
pub fn commit(
    connection: &mut Connection,
    place: &Place,
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
            // Dropped, the savepoint takes back what was begun.
            Err(trouble) if trouble.is_of_the_batch_alone() => outcomes.push(Err(place.explain(trouble))),
            Err(trouble) => return Err(place.explain(trouble)),
        }
    }
    transaction.commit().map_err(sql)?;
    Ok(outcomes)
}

/// New work is refused, and so are events alone: Codex has their items, and they can be read back later. What is large
/// would leave no space for the others, the whole diffs of a request first of all.
fn is_let_through(job: &Job) -> bool {
    let is_new = |write: &Write| {
        matches!(write, Write::AddTask(_) | Write::AddMessage(_) | Write::SaveWholeChanges(_))
    };
    let adds = job.writes.iter().any(is_new);
    let only_tells = job.writes.iter().all(|write| matches!(write, Write::Append { .. }));
    !adds && !only_tells && job.bytes() <= SCARCE_BYTES
}
