//! Copies of skills that are in directories commands cannot read.
//!
//! A copy is named by the digest of its content. Each use compares content and name, and replaces a copy that was
//! changed. Only plain files are copied, no links, so that no other file of the CODEX_HOME leaks.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// The limit for all copies together.
const MOST_BYTES: u64 = 4 << 20;
/// The limit for files of one skill.
const MOST_FILES: usize = 200;
/// How many copies are kept, those of earlier versions included.
const MOST_COPIES: usize = 128;

/// The copies in a directory.
pub(super) struct Copies<'a> {
    dir: &'a Path,
    left_bytes: u64,
}

/// A file of a skill.
struct Part {
    /// The path within the skill.
    path: PathBuf,
    bytes: Vec<u8>,
    is_program: bool,
}

impl<'a> Copies<'a> {
    pub(super) fn in_dir(dir: &'a Path) -> Self {
        Self { dir, left_bytes: MOST_BYTES }
    }

    /// A current copy of a skill; `None` if the skill is too large or cannot be copied.
    pub(super) fn of(&mut self, skill: &Path) -> Option<PathBuf> {
        let parts = self.read(skill).ok()?;
        let copy = self.dir.join(digest(&parts));
        let is_whole = || self.read(&copy).is_ok_and(|found| copy.ends_with(digest(&found)));
        if !is_whole() {
            self.write(&copy, &parts).ok()?;
        }
        self.left_bytes = self.left_bytes.saturating_sub(size(&parts));
        Some(copy)
    }

    /// All plain files below a directory, sorted by path.
    fn read(&self, top: &Path) -> io::Result<Vec<Part>> {
        let mut parts: Vec<Part> = Vec::new();
        let mut dirs = vec![PathBuf::new()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(top.join(&dir))? {
                let entry = entry?;
                let (path, kind) = (dir.join(entry.file_name()), entry.file_type()?);
                if kind.is_dir() {
                    dirs.push(path);
                } else if kind.is_file() {
                    let left = self.left_bytes.saturating_sub(size(&parts));
                    parts.push(Part::read(top, path, left)?);
                }
                if parts.len() + dirs.len() > MOST_FILES {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
            }
        }
        parts.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(parts)
    }

    fn write(&self, copy: &Path, parts: &[Part]) -> io::Result<()> {
        fs::create_dir_all(self.dir)?;
        self.forget_old()?;
        let new = tempfile::Builder::new().prefix("new-").tempdir_in(self.dir)?;
        for part in parts {
            let file = new.path().join(&part.path);
            fs::create_dir_all(file.parent().unwrap_or(new.path()))?;
            fs::write(&file, &part.bytes)?;
            let mode = if part.is_program { 0o755 } else { 0o644 };
            fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
        }
        fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755))?;
        if copy.exists() {
            fs::remove_dir_all(copy)?;
        }
        fs::rename(new.keep(), copy)
    }

    /// Removes the oldest copies to make room for one more.
    fn forget_old(&self) -> io::Result<()> {
        let age = |entry: &fs::DirEntry| {
            entry.metadata().and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let mut copies: Vec<fs::DirEntry> = fs::read_dir(self.dir)?.filter_map(Result::ok).collect();
        copies.sort_by_key(age);
        let too_many = (copies.len() + 1).saturating_sub(MOST_COPIES);
        copies.iter().take(too_many).try_for_each(|copy| fs::remove_dir_all(copy.path()))
    }
}

impl Part {
    fn read(top: &Path, path: PathBuf, most_bytes: u64) -> io::Result<Self> {
        let file = fs::File::open(top.join(&path))?;
        let is_program = file.metadata()?.permissions().mode() & 0o100 != 0;
        let mut bytes = Vec::new();
        file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Self { path, bytes, is_program })
    }
}

fn size(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.bytes.len() as u64).sum()
}

/// The digest of all files.
fn digest(parts: &[Part]) -> String {
    let mut whole = Sha256::new();
    for part in parts {
        let path = part.path.as_os_str().as_encoded_bytes();
        whole.update((path.len() as u64).to_le_bytes());
        whole.update(path);
        whole.update([u8::from(part.is_program)]);
        whole.update((part.bytes.len() as u64).to_le_bytes());
        whole.update(&part.bytes);
    }
    let start = whole.finalize().iter().take(16).fold(0_u128, |start, byte| start << 8 | u128::from(*byte));
    format!("{start:032x}")
}
