//! A copy of a codex package that no update takes away, made of hard links where the file system allows it.
//!
//! codex 0.166: when its package is moved away under a running app-server, every sandboxed command fails from then on.
//! So a copy, once made, is never changed or replaced here: another content under the same version gets another folder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::{Codex, lock, reason};

const BUFFER_BYTES: usize = 64 * 1024;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
#[error("codex could not be linked into {}: {}", into.display(), reason(source))]
pub struct Error {
    /// The folder that was to hold the copies.
    pub into: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// What is to be copied.
struct Tree {
    /// Folders before what is in them.
    entries: Vec<Entry>,
    /// The executable, relative to the root of the copy.
    executable: PathBuf,
}

struct Entry {
    source: PathBuf,
    /// Its place in the copy.
    place: PathBuf,
}

impl Codex {
    /// A copy of this codex at `into/<version>/`, made if it is not there yet. It appears whole or not at all, and any
    /// number of processes may ask for it at once.
    pub fn linked_copy(&self, into: &Path) -> Result<Codex, Error> {
        let copied = copy(self, into).map_err(|source| Error { into: into.to_path_buf(), source });
        copied.map(|(root, executable)| Codex {
            executable: root.join(executable),
            package_root: self.package_root.is_some().then_some(root),
            version: self.version,
        })
    }
}

fn copy(codex: &Codex, into: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let tree = Tree::of(codex)?;
    let _held = lock::hold(into)?;
    let into = fs::canonicalize(into)?;
    let mut number = 0_u32;
    loop {
        let name =
            if number == 0 { codex.version.to_string() } else { format!("{}.{number}", codex.version) };
        let target = into.join(name);
        if !target.exists() {
            build(&tree, &into.join(".building"), &target)?;
            return Ok((target, tree.executable));
        }
        if tree.is_at(&target)? {
            return Ok((target, tree.executable));
        }
        number += 1;
    }
}

/// Builds aside and renames. A file under the temporary name is a leftover of a crashed process, because we hold the lock.
fn build(tree: &Tree, aside: &Path, target: &Path) -> io::Result<()> {
    if aside.exists() {
        fs::remove_dir_all(aside)?;
    }
    fs::create_dir_all(aside)?;
    for entry in &tree.entries {
        put(&entry.source, &aside.join(&entry.place))?;
    }
    fs::rename(aside, target)
}

fn put(source: &Path, target: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(source)?.file_type();
    if kind.is_dir() {
        return fs::create_dir_all(target);
    }
    if kind.is_symlink() {
        return symlink(fs::read_link(source)?, target);
    }
    // Linking fails across file systems, on a file of another user (fs.protected_hardlinks), and on file systems
    // without links; a copy is right in each of these cases, and its own error tells more.
    fs::hard_link(source, target).or_else(|_| fs::copy(source, target).map(drop))
}

impl Tree {
    fn of(codex: &Codex) -> io::Result<Self> {
        let mut entries = Vec::new();
        let executable = if let Some(root) = &codex.package_root {
            collect(root, Path::new(""), &mut entries)?;
            codex.executable.strip_prefix(root).map_err(io::Error::other)?.to_path_buf()
        } else {
            let place = PathBuf::from("codex");
            entries.push(Entry { source: codex.executable.clone(), place: place.clone() });
            place
        };
        Ok(Self { entries, executable })
    }

    /// Whether all of it is in `copy` already.
    fn is_at(&self, copy: &Path) -> io::Result<bool> {
        for entry in &self.entries {
            let target = copy.join(&entry.place);
            if !looks_alike(&entry.source, &target)? {
                return Ok(false);
            }
            if entry.place == self.executable && !has_same_content(&entry.source, &target)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn collect(folder: &Path, place: &Path, entries: &mut Vec<Entry>) -> io::Result<()> {
    for child in fs::read_dir(folder)? {
        let child = child?;
        let entry = Entry { source: child.path(), place: place.join(child.file_name()) };
        let below = child.file_type()?.is_dir().then(|| (entry.source.clone(), entry.place.clone()));
        entries.push(entry);
        if let Some((source, place)) = below {
            collect(&source, &place, entries)?;
        }
    }
    Ok(())
}

/// Same kind, and same length or link target.
fn looks_alike(source: &Path, target: &Path) -> io::Result<bool> {
    let wanted = fs::symlink_metadata(source)?;
    let Ok(found) = fs::symlink_metadata(target) else { return Ok(false) };
    if wanted.file_type() != found.file_type() {
        return Ok(false);
    }
    if wanted.is_symlink() {
        return Ok(fs::read_link(source)? == fs::read_link(target)?);
    }
    Ok(wanted.is_dir() || wanted.len() == found.len())
}

/// A version number is no proof of what is in the file: two builds of one pre-release share it.
fn has_same_content(source: &Path, target: &Path) -> io::Result<bool> {
    let (mut left, mut right) = (File::open(source)?, File::open(target)?);
    let (one, other) = (left.metadata()?, right.metadata()?);
    if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
        return Ok(true);
    }
    let (mut from_left, mut from_right) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    loop {
        let length = left.read(&mut from_left)?;
        if length == 0 {
            return Ok(right.read(&mut from_right)? == 0);
        }
        match right.read_exact(&mut from_right[..length]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            result => result?,
        }
        if from_left[..length] != from_right[..length] {
            return Ok(false);
        }
    }
}
