//! Copies the database to a new file while the store stays in use.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use tracing::warn;

use super::fault::DbFile;
use super::{check, file};
use crate::store::Error;

/// Copies the database of `source` to a new file, and checks the copy for damage.
pub fn write(source: &DbFile, target: &Path) -> Result<(), Error> {
    let to = DbFile::new(target);
    reserve(&to, target)?;
    let partial = target.with_added_extension("partial");
    let outcome = copy(source, &partial).and_then(|()| {
        fs::rename(&partial, target)
            .and_then(|()| file::sync_folder_of(target))
            .map_err(|error| to.io(&error))
    });
    if outcome.is_err() {
        // A failed backup must not leave a file that looks like a backup.
        for file in [&partial, target] {
            if let Err(error) = fs::remove_file(file)
                && error.kind() != io::ErrorKind::NotFound
            {
                warn!(file = %file.display(), %error, "cannot remove the incomplete file of a failed backup");
            }
        }
    }
    outcome
}

/// Creates the file, so that no existing file is ever overwritten.
fn reserve(to: &DbFile, file: &Path) -> Result<(), Error> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::Other(format!("{} exists already", to.name())))
        }
        Err(error) => Err(to.io(&error)),
    }
}

fn copy(source: &DbFile, partial: &Path) -> Result<(), Error> {
    let to = DbFile::new(partial);
    // An earlier backup that was killed may have left this. If it cannot be removed, `reserve` fails.
    fs::remove_file(partial).ok();
    reserve(&to, partial)?;
    let from = file::open_reader(source).map_err(|error| source.sql(&error))?;
    let mut copy = Connection::open(partial).map_err(|error| to.sql(&error))?;
    // All pages in one step: a copy in several steps would start again with each write.
    let copied = Backup::new(&from, &mut copy).and_then(|backup| backup.step(-1));
    match copied.map_err(|error| to.sql(&error))? {
        StepResult::Done => {}
        _ => return Err(Error::Locked { place: source.name() }),
    }
    finish(&copy, &to)
}

/// Makes the copy a single file without a write-ahead log, and checks it for damage.
fn finish(copy: &Connection, to: &DbFile) -> Result<(), Error> {
    let sql = |error| to.sql(&error);
    copy.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).map_err(sql)?;
    let findings = check::findings(copy).map_err(sql)?;
    match findings.first() {
        None => Ok(()),
        Some(first) => Err(to.corrupt(first.as_str())),
    }
}
