//! Reads the `AGENTS.md` files of a directory whose instructions count, from the root of its repository down.
//!
//! Codex itself would follow a link to any file of the machine and send its text to the model (codex 0.166). Here every
//! part of the path is opened by itself, below the one before it, and no link is followed. Only plain files count, those
//! of the directory's owner, and only so much of them. What is left out is told.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use codex_wire::os::file::NAME_ONLY;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

/// Bytes of all files together, as Codex allows by default.
const MOST_BYTES: u64 = 32 * 1024;

/// The names of such a file; the first one that counts is taken.
const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// What the files of a directory say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// Their text, each with where it comes from; none if there is none.
    pub(crate) text: Option<String>,
    /// What does not count, each in a sentence with the reason.
    pub(crate) left_out: Vec<String>,
}

/// The instructions for work in `dir`, which is a real path.
pub(crate) fn instructions_of(dir: &Path) -> Instructions {
    match open_from_the_root(dir) {
        Ok(dirs) => read_all(&dirs),
        Err(error) => {
            let why = format!("no instructions of {} count: {error}", dir.display());
            Instructions { text: None, left_out: vec![why] }
        }
    }
}

/// An open directory, with its path for people.
struct Dir {
    path: PathBuf,
    handle: OwnedFd,
}

/// Opens every directory from `/` down to this one. Each is opened below the one before it and none by a link: whoever
/// renames directories meanwhile cannot lead us elsewhere.
fn open_from_the_root(dir: &Path) -> io::Result<Vec<Dir>> {
    let flags = NAME_ONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut path = PathBuf::from("/");
    let mut handle = openat(CWD, &path, flags, Mode::empty())?;
    let mut dirs = Vec::new();
    for part in dir.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => {
                let next = openat(&handle, name, flags, Mode::empty())?;
                dirs.push(Dir { path: path.clone(), handle: std::mem::replace(&mut handle, next) });
                path.push(name);
            }
            _ => return Err(io::Error::other("it is not a real path")),
        }
    }
    dirs.push(Dir { path, handle });
    Ok(dirs)
}

fn read_all(dirs: &[Dir]) -> Instructions {
    // Without a repository only the directory itself counts, as for Codex.
    let is_root = |dir: &Dir| statat(&dir.handle, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let first = dirs.iter().rposition(is_root).unwrap_or(dirs.len().saturating_sub(1));
    let owner = dirs.last().and_then(|dir| statat(&dir.handle, "", AtFlags::EMPTY_PATH).ok());
    let owner = owner.map(|found| found.st_uid);
    let mut instructions = Instructions::default();
    let (mut parts, mut left_bytes) = (Vec::new(), MOST_BYTES);
    for dir in dirs.iter().skip(first) {
        for name in NAMES {
            let path = dir.path.join(name);
            match read_plain(&dir.handle, name, owner, left_bytes) {
                Ok(None) => continue,
                Ok(Some(read)) => {
                    left_bytes = left_bytes.saturating_sub(read.bytes);
                    parts.push(read.told(&path));
                    instructions.left_out.extend(read.cut(&path));
                }
                Err(why) => {
                    instructions.left_out.push(format!("{} does not count: {why}", path.display()));
                    continue;
                }
            }
            break;
        }
    }
    instructions.text = (!parts.is_empty()).then(|| parts.join("\n\n"));
    instructions
}

/// The beginning of a file.
struct Beginning {
    text: String,
    /// How much was read.
    bytes: u64,
    /// How much there is.
    of_bytes: u64,
}

impl Beginning {
    fn is_cut(&self) -> bool {
        self.of_bytes > self.bytes
    }

    /// As the model is told it.
    fn told(&self, path: &Path) -> String {
        let cut = if self.is_cut() {
            format!("\n\n[The rest of this file is left out: {} of {} bytes.]", self.bytes, self.of_bytes)
        } else {
            String::new()
        };
        format!("Instructions from {}:\n\n{}{cut}", path.display(), self.text.trim_end())
    }

    /// As people are told that not all of it counts.
    fn cut(&self, path: &Path) -> Option<String> {
        let (path, bytes, of_bytes) = (path.display(), self.bytes, self.of_bytes);
        let limit = MOST_BYTES / 1024;
        self.is_cut().then(|| {
            format!("{path} is too long: its first {bytes} of {of_bytes} bytes count, and {limit} KiB of all such files")
        })
    }
}

/// The beginning of a plain file with one name; none if there is no such file or nothing in it, and otherwise why it does
/// not count.
fn read_plain(
    dir: &OwnedFd,
    name: &str,
    owner: Option<u32>,
    most: u64,
) -> Result<Option<Beginning>, &'static str> {
    // Looked at before it is opened: opening a device can do something by itself.
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        Err(_) => return Err("it cannot be looked at"),
        Ok(found) => check_type(FileType::from_raw_mode(found.st_mode))?,
    }
    // A pipe that has come in its place opens at once, too, and is told by what was opened.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(dir, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err("it is a link"),
        Err(_) => return Err("it cannot be opened"),
    };
    let found = file.metadata().map_err(|_| "it cannot be looked at")?;
    check_file(&found, owner)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(|_| "it cannot be read")?;
    if bytes.contains(&0) {
        return Err("it is not text");
    }
    let of_bytes = found.len().max(bytes.len() as u64);
    if of_bytes > bytes.len() as u64 {
        bytes.truncate(whole_characters(&bytes));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let is_empty = text.trim().is_empty() && of_bytes == bytes.len() as u64;
    Ok((!is_empty).then_some(Beginning { text, bytes: bytes.len() as u64, of_bytes }))
}

fn check_type(kind: FileType) -> Result<(), &'static str> {
    match kind {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err("it is a link"),
        _ => Err("it is no plain file"),
    }
}

/// What was opened. A file with several names may be somebody's secret, put here under another one; and in a directory
/// that others may write to, such as `/tmp`, a file above ours may be somebody else's.
fn check_file(found: &Metadata, owner: Option<u32>) -> Result<(), &'static str> {
    if !found.is_file() {
        return Err("it is no plain file");
    }
    if found.nlink() != 1 {
        return Err("it has several names (hard links)");
    }
    if found.uid() != 0 && Some(found.uid()) != owner {
        return Err("it belongs to another user than the directory of the task");
    }
    Ok(())
}

/// How many of these bytes end with a whole character.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        // What is wrong within the text stays as it is; what is cut at its end goes.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests;
