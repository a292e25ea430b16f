//! Finds hosts again after a restart of ours: what the directory says, checked against what the machine says.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::geteuid;
use serde::de::DeserializeOwned;

use super::record::{Exit, Files, Plan, Record, read_json};
use super::{Error, Host, io_error};
use crate::os::process;

/// What is in a host's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Codex and its keeper run.
    Alive(Host),
    /// Codex runs, its keeper does not: somebody killed it. Turns go on; [`Host::stop`] ends it from here, and a
    /// [`super::pool::Pool`] does so at once.
    KeeperGone(Host),
    /// Codex does not run. Children of it may: [`super::sweep`] ends them.
    Dead {
        /// What ran.
        record: Arc<Record>,
        /// How it ended, if its keeper saw it.
        exit: Option<Exit>,
    },
    /// A start that did not come to a record: still under way, or broken off together with its launcher.
    Unfinished {
        /// The host's id.
        id: String,
    },
}

impl Found {
    /// Whether its keeper was killed, so that processes may be left of it that nobody can tell from others.
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

/// Looks into one directory; `None` when it is not a host's. One that is not private is refused: whoever could have
/// written the record would get our prompts.
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
    let host = Host::of_ours(dir, Arc::new(record));
    Ok(Some(match (host.is_alive(), host.has_keeper()) {
        (true, true) => Found::Alive(host),
        (true, false) => Found::KeeperGone(host),
        (false, _) => Found::Dead { exit: read(&files.exit())?, record: host.record },
    }))
}

/// Looks into every directory below `root`. One that cannot be read does not hide the others.
pub fn find_all(root: &Path) -> Vec<(PathBuf, Result<Found, Error>)> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut dirs: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    dirs.sort();
    dirs.into_iter().filter_map(|dir| Some((dir.clone(), find(&dir).transpose()?))).collect()
}

/// Whether a directory is ours and nobody else's.
pub(crate) fn check_private(dir: &Path, found: &fs::Metadata) -> Result<(), Error> {
    let others_may = found.mode() & 0o077 != 0;
    if found.uid() != geteuid().as_raw() || others_may {
        return Err(Error::DirNotPrivate { dir: dir.to_owned() });
    }
    Ok(())
}

/// Whether the numbers in a record mean something now.
pub(crate) fn is_this_boot(record: &Record) -> bool {
    process::boot_id().is_ok_and(|boot_id| boot_id == record.boot_id)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    read_json(path).map_err(io_error("cannot read", path))
}
