//! The files of messages as SQL.

use rusqlite::{Connection, OptionalExtension, Result};

use crate::inbox::MessageId;
use crate::inbox::attachment::AttachmentRecord;

/// The files of a message, by number, without their content.
pub fn of(connection: &Connection, message_id: &MessageId) -> Result<Vec<AttachmentRecord>> {
    let mut statement = connection.prepare_cached(
        "SELECT message_id, number, sealed_about FROM attachments WHERE message_id = ?1 ORDER BY number",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(AttachmentRecord {
            message_id: row.get(0)?,
            number: row.get(1)?,
            sealed_about: row.get(2)?,
            sealed_content: None,
        })
    };
    statement.query_map([message_id], read)?.collect()
}

/// The sealed content of one file.
pub fn content(connection: &Connection, message_id: &MessageId, number: u32) -> Result<Option<Vec<u8>>> {
    let mut statement = connection
        .prepare_cached("SELECT sealed_content FROM attachments WHERE message_id = ?1 AND number = ?2")?;
    let content = statement.query_row((message_id, number), |row| row.get(0)).optional()?;
    Ok(content.flatten())
}

/// Adds or replaces a file of a message. Does nothing if there is no such message: its channel had brought it before.
pub fn save(connection: &Connection, one: &AttachmentRecord) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO attachments (message_id, number, sealed_about, sealed_content) SELECT ?1, ?2, ?3, ?4 \
             WHERE EXISTS (SELECT 1 FROM inbox WHERE id = ?1) ON CONFLICT (message_id, number) \
             DO UPDATE SET sealed_about = excluded.sealed_about, sealed_content = excluded.sealed_content",
        )?
        .execute((&one.message_id, one.number, &one.sealed_about, &one.sealed_content))?;
    Ok(())
}

/// Deletes the files of a message.
pub fn delete(connection: &Connection, message_id: &MessageId) -> Result<()> {
    connection.prepare_cached("DELETE FROM attachments WHERE message_id = ?1")?.execute([message_id])?;
    Ok(())
}
