//! Finds running hosts after a restart of the program: reads their directories and checks the processes named there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::geteuid;
use serde::de::DeserializeOwned;

use super::record::{Exit, Files, Plan, Record, read_json};
use super::{Error, Host, io_error};
use crate::os::process;

/// What was found in a host's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Codex and its keeper run.
    Alive(Host),
    /// Codex runs, but its keeper was killed. Turns go on. [`Host::stop`] ends the host; a [`super::pool::Pool`] does
    /// so at once.
    KeeperGone(Host),
    /// Codex does not run. Its children may: [`super::sweep`] ends them.
    Dead {
        /// The record of the host.
        record: Arc<Record>,
        /// How codex ended, if the keeper recorded it.
        exit: Option<Exit>,
    },
    /// A start without a record: still under way, or interrupted by the death of the program that started it.
    Unfinished {
        /// The host's id.
        id: String,
    },
}

impl Found {
    /// Whether the keeper was killed. Then processes of the host may be left that cannot be told from unrelated ones.
    pub fn has_lost_its_keeper(&self) -> bool {
        match self {
            Found::KeeperGone(_) => true,
            Found::Dead { record, exit } => {
                is_this_boot(record) && !exit.as_ref().is_some_and(Exit::is_clean)
            }
            Found::Alive(_) | Found::Unfinished { .. } => false,
        }
    }
}

/// Looks into one directory; `None` when it is not a host's. A directory that other users can write is refused: a
/// forged record would lead our prompts to them.
pub fn find(dir: &Path) -> Result<Option<Found>, Error> {
    let found = look_into(dir)?;
    if found.is_some() {
        check_private(dir, &fs::metadata(dir).map_err(io_error("cannot look at", dir))?)?;
    }
    Ok(found)
}

fn look_into(dir: &Path) -> Result<Option<Found>, Error> {
    let files = Files(dir);
    let Some(record) = read::<Record>(&files.record())? else {
        let plan = read::<Plan>(&files.plan())?;
        return Ok(plan.map(|plan| Found::Unfinished { id: plan.id }));
    };
    let host = Host::local(dir, Arc::new(record));
    Ok(Some(match (host.is_alive(), host.has_keeper()) {
        (true, true) => Found::Alive(host),
        (true, false) => Found::KeeperGone(host),
        (false, _) => Found::Dead { exit: read(&files.exit())?, record: host.record },
    }))
}

/// Looks into every directory below `root`. An unreadable one is reported beside the others.
pub fn find_all(root: &Path) -> Vec<(PathBuf, Result<Found, Error>)> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut dirs: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    dirs.sort();
    dirs.into_iter().filter_map(|dir| Some((dir.clone(), find(&dir).transpose()?))).collect()
}

/// Checks that a directory belongs to our user and is closed to others.
pub(crate) fn check_private(dir: &Path, found: &fs::Metadata) -> Result<(), Error> {
    let others_may = found.mode() & 0o077 != 0;
    if found.uid() != geteuid().as_raw() || others_may {
        return Err(Error::DirNotPrivate { dir: dir.to_owned() });
    }
    Ok(())
}

/// Whether a record is from this boot of the machine. The pids of an earlier boot mean nothing.
pub(crate) fn is_this_boot(record: &Record) -> bool {
    process::boot_id().is_ok_and(|boot_id| boot_id == record.boot_id)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    read_json(path).map_err(io_error("cannot read", path))
}
