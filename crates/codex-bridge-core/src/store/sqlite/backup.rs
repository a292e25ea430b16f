//! A copy in a new file, made while everything goes on.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use tracing::warn;

use super::fault::Place;
use super::{check, file};
use crate::store::Error;

/// Copies the database of `source` to a new file, and looks through the copy.
pub fn write(source: &Place, target: &Path) -> Result<(), Error> {
    let to = Place::new(target);
    reserve(&to, target)?;
    let partial = target.with_added_extension("partial");
    let outcome = copy(source, &partial).and_then(|()| {
        fs::rename(&partial, target)
            .and_then(|()| file::sync_folder_of(target))
            .map_err(|error| to.io(&error))
    });
    if outcome.is_err() {
        // Nothing that looks like a backup and is none may stay.
        for file in [&partial, target] {
            if let Err(error) = fs::remove_file(file)
                && error.kind() != io::ErrorKind::NotFound
            {
                warn!(file = %file.display(), %error, "what a failed backup left could not be removed");
            }
        }
    }
    outcome
}

/// Takes the name, so that no file of anybody is ever written over.
fn reserve(to: &Place, file: &Path) -> Result<(), Error> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::Other(format!("{} exists already", to.name())))
        }
        Err(error) => Err(to.io(&error)),
    }
}

fn copy(source: &Place, partial: &Path) -> Result<(), Error> {
    let to = Place::new(partial);
    // What an earlier attempt left when it was killed. A file that stays is told of by the next line.
    fs::remove_file(partial).ok();
    reserve(&to, partial)?;
    let from = file::open_reader(source).map_err(|error| source.sql(&error))?;
    let mut copy = Connection::open(partial).map_err(|error| to.sql(&error))?;
    // All pages in one step, as of one moment: a copy in steps would begin again with each write.
    let copied = Backup::new(&from, &mut copy).and_then(|backup| backup.step(-1));
    match copied.map_err(|error| to.sql(&error))? {
        StepResult::Done => {}
        _ => return Err(Error::Locked { place: source.name() }),
    }
    finish(&copy, &to)
}

/// One file that stands for itself, and is sound.
fn finish(copy: &Connection, to: &Place) -> Result<(), Error> {
    let sql = |error| to.sql(&error);
    copy.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).map_err(sql)?;
    let findings = check::findings(copy).map_err(sql)?;
    match findings.first() {
        None => Ok(()),
        Some(first) => Err(to.corrupt(first.as_str())),
    }
}
