//! Reads the `AGENTS.md` files that apply to a directory, from the root of its repository down.
//!
//! Codex itself would follow a link to any file of the machine and send its text to the model (codex 0.166). Here each
//! component of the path is opened below its parent, and no link is followed. Only plain files of the directory's owner
//! are used, up to a limit in bytes. The caller is told which files were left out.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use codex_wire::os::file::NAME_ONLY;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use codex_wire::reason;

/// The limit for all files together, which is Codex's default.
const MOST_BYTES: u64 = 32 * 1024;

/// The names of such a file. In each directory the first usable one is read.
const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// The text of all files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// The text, each file with its path; `None` if there is no file.
    pub(crate) text: Option<String>,
    /// What was left out, each with the reason in a sentence.
    pub(crate) left_out: Vec<String>,
}

/// The instructions that apply to `dir`, which is a real path.
pub(crate) fn instructions_of(dir: &Path) -> Instructions {
    match open_from_the_root(dir) {
        Ok(dirs) => read_all(&dirs),
        Err(error) => {
            let why = format!("the instructions in {} are not read: {}", dir.display(), reason(&error));
            Instructions { text: None, left_out: vec![why] }
        }
    }
}

/// An open directory, with its path for people.
struct Dir {
    path: PathBuf,
    handle: OwnedFd,
}

/// Opens every directory from `/` down to `dir`, each below its parent, and none by a link. So renaming directories in
/// the meantime cannot lead to another place.
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
    // Without a repository only the directory itself is read, as in Codex.
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
    /// How many bytes were read.
    bytes: u64,
    /// How many bytes the file has.
    of_bytes: u64,
}

impl Beginning {
    fn is_cut(&self) -> bool {
        self.of_bytes > self.bytes
    }

    /// The text for the model.
    fn told(&self, path: &Path) -> String {
        let cut = if self.is_cut() {
            format!("\n\n[The rest of this file is left out: {} of {} bytes.]", self.bytes, self.of_bytes)
        } else {
            String::new()
        };
        format!("Instructions from {}:\n\n{}{cut}", path.display(), self.text.trim_end())
    }

    /// The message that part of the file was left out.
    fn cut(&self, path: &Path) -> Option<String> {
        let (path, bytes, of_bytes) = (path.display(), self.bytes, self.of_bytes);
        let limit = MOST_BYTES / 1024;
        self.is_cut().then(|| {
            format!("{path} is too long: its first {bytes} of {of_bytes} bytes count, and {limit} KiB of all such files")
        })
    }
}

/// The beginning of a plain file; `None` if the file is missing or empty. The error says why the file is not used.
fn read_plain(
    dir: &OwnedFd,
    name: &str,
    owner: Option<u32>,
    most: u64,
) -> Result<Option<Beginning>, &'static str> {
    // Checked before it is opened: opening a device can have an effect.
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        Err(_) => return Err("it cannot be looked at"),
        Ok(found) => check_type(FileType::from_raw_mode(found.st_mode))?,
    }
    // Should a pipe replace the file now, `NONBLOCK` opens it at once, and `check_file` refuses it.
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
        _ => Err("it is not a plain file"),
    }
}

/// Checks an opened file. A file with several hard links may be somebody's secret under another name. In a directory
/// that others can write, such as `/tmp`, a file above ours may belong to another user.
fn check_file(found: &Metadata, owner: Option<u32>) -> Result<(), &'static str> {
    if !found.is_file() {
        return Err("it is not a plain file");
    }
    if found.nlink() != 1 {
        return Err("it has several names (hard links)");
    }
    if found.uid() != 0 && Some(found.uid()) != owner {
        return Err("it belongs to another user than the directory of the task");
    }
    Ok(())
}

/// The length of the bytes without a character that was cut at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        // Invalid bytes within the text stay; a character that is cut at the end goes.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests;
