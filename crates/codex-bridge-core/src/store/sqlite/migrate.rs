//! Migrates a database to the tables of this version, one numbered file at a time.

use rusqlite::{Connection, TransactionBehavior};

use super::fault::DbFile;
use crate::store::Error;

/// One file per version; the first is version 1. A released file never changes: add another one.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_first.sql"),
    include_str!("../migrations/0002_tokens.sql"),
    include_str!("../migrations/0003_outbox.sql"),
    include_str!("../migrations/0004_inbox.sql"),
    include_str!("../migrations/0005_changes.sql"),
    include_str!("../migrations/0006_channels.sql"),
    include_str!("../migrations/0007_open_requests.sql"),
    include_str!("../migrations/0008_broken_off.sql"),
    include_str!("../migrations/0009_digests.sql"),
    include_str!("../migrations/0010_quotas.sql"),
    include_str!("../migrations/0011_turns.sql"),
    include_str!("../migrations/0012_parts.sql"),
    include_str!("../migrations/0013_chats.sql"),
    include_str!("../migrations/0014_attachments.sql"),
];

/// The same value as in the first migration.
const APPLICATION_ID: i64 = 0x6362_7267;

/// What is in a file that may be opened.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing yet.
    Nothing,
    /// Tables of a known version.
    Ours,
}

/// Checks that the file is ours and not of a later version. Changes nothing.
pub fn inspect(connection: &Connection, place: &DbFile) -> Result<Found, Error> {
    let sql = |error| place.sql(&error);
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(sql)?;
    if tables > 0 && number("application_id").map_err(sql)? != APPLICATION_ID {
        return Err(Error::Other(format!("{} is a database of another program", place.name())));
    }
    let found = number("user_version").map_err(sql)?;
    if found > known() {
        return Err(Error::TooNew { place: place.name(), found, known: known() });
    }
    Ok(if tables == 0 { Found::Nothing } else { Found::Ours })
}

/// Applies the missing migrations, each in its own transaction.
pub fn apply(connection: &mut Connection) -> rusqlite::Result<()> {
    apply_all(connection, MIGRATIONS)
}

fn apply_all(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<()> {
    for (version, migration) in (1_i64..).zip(migrations) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let present: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if present < version {
            transaction.execute_batch(migration)?;
            transaction.pragma_update(None, "user_version", version)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

fn known() -> i64 {
    MIGRATIONS.len().try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
