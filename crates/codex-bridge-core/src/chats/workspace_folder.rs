//! Writes files that people send into a workspace. The workspace may belong to a hostile repository, or be written to by a
//! command at the same moment: every step goes by a handle on a directory, no link is followed, and nothing that is there
//! already is opened.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use codex_wire::reason;
use rustix::fs::{AtFlags, Mode, OFlags, fchmod, mkdirat, open, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::inbox::attachment::FOLDER;
use crate::place::Place;

/// Who reads the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Only the user that the bridge runs as.
    Owner,
    /// Also the user of the hosts.
    All,
}

impl Readers {
    fn modes(self) -> (Mode, Mode) {
        let (file, folder) = (Mode::RUSR | Mode::WUSR, Mode::RWXU);
        match self {
            Self::Owner => (file, folder),
            Self::All => {
                let (read, enter) = (Mode::RGRP | Mode::ROTH, Mode::XGRP | Mode::XOTH);
                (file | read, folder | read | enter)
            }
        }
    }
}

const A_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Writes a file into the folder for files of a workspace, under one path component. A file of that name is replaced. The
/// file is durable when this returns. The error is a sentence about the file.
pub fn write(cwd: &Path, place: Place, name: &str, content: &[u8], readers: Readers) -> Result<(), String> {
    let folder = open_folder(cwd, place, readers)?;
    let draft = format!(".{name}.part");
    replace(&folder, &draft, name, content, readers)
        .map_err(|error| format!("it cannot be written to {FOLDER}/ of the workspace: {}", reason(&error)))
}

fn open_folder(cwd: &Path, place: Place, readers: Readers) -> Result<OwnedFd, String> {
    let unusable = |error: Errno| format!("the workspace cannot be used: {}", reason(&error.into()));
    let workspace = File::from(open(cwd, A_DIRECTORY, Mode::empty()).map_err(unusable)?);
    let found = workspace.metadata().map_err(|error| reason(&error))?;
    if (found.dev(), found.ino()) != (place.device, place.inode) {
        return Err("the workspace was replaced by another directory".to_owned());
    }
    let (_, mode) = readers.modes();
    let is_new = match mkdirat(&workspace, FOLDER, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => {
            let why = reason(&error.into());
            return Err(format!("{FOLDER}/ cannot be made in the workspace: {why}"));
        }
    };
    let folder = openat(&workspace, FOLDER, A_DIRECTORY, Mode::empty()).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => {
            format!("{FOLDER} in the workspace is a link or a file, so nothing is written there")
        }
        error => format!("{FOLDER}/ of the workspace cannot be opened: {}", reason(&error.into())),
    })?;
    if is_new {
        // The umask may have taken rights away. A failure shows when the file is read.
        fchmod(&folder, mode).ok();
    }
    Ok(folder)
}

/// Writes a draft and renames it: nobody sees half a file, and what had the name, link or not, is replaced and never opened.
fn replace(folder: &OwnedFd, draft: &str, name: &str, content: &[u8], readers: Readers) -> io::Result<()> {
    let (mode, _) = readers.modes();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat(folder, draft, flags, mode) {
        Err(Errno::EXIST) => {
            // A crash left it.
            unlinkat(folder, draft, AtFlags::empty())?;
            openat(folder, draft, flags, mode)?
        }
        opened => opened?,
    };
    let mut file = File::from(opened);
    fchmod(&file, mode)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| Ok(renameat(folder, draft, folder, name)?));
    if renamed.is_err() {
        unlinkat(folder, draft, AtFlags::empty()).ok();
    }
    renamed?;
    rustix::fs::fsync(folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;

    fn workspace() -> (tempfile::TempDir, PathBuf, Place) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let place = Place::of(&path).unwrap();
        (dir, path, place)
    }

    #[test]
    fn a_file_is_written_again_under_its_name_and_only_its_owner_reads_it() {
        let (_dir, path, place) = workspace();
        for text in ["one", "two"] {
            write(&path, place, "a.txt", text.as_bytes(), Readers::Owner).unwrap();
            assert_eq!(fs::read_to_string(path.join("inbox/a.txt")).unwrap(), text);
        }
        let mode = |path: &str, of: &Path| fs::metadata(of.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("inbox/a.txt", &path), mode("inbox", &path)), (0o600, 0o700));
        write(&path, place, "b.txt", b"three", Readers::All).unwrap();
        assert_eq!(mode("inbox/b.txt", &path), 0o644);
        fs::write(path.join("inbox/.c.txt.part"), "left by a crash").unwrap();
        write(&path, place, "c.txt", b"four", Readers::Owner).unwrap();
        assert_eq!(fs::read_dir(path.join("inbox")).unwrap().count(), 3);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let (_dir, path, place) = workspace();
        let (_other, elsewhere, _) = workspace();
        symlink(&elsewhere, path.join("inbox")).unwrap();
        let refused = write(&path, place, "a.txt", b"x", Readers::Owner).unwrap_err();
        assert!(refused.contains("is a link or a file"), "{refused}");
        fs::remove_file(path.join("inbox")).unwrap();
        fs::write(path.join("inbox"), "a file").unwrap();
        assert!(write(&path, place, "a.txt", b"x", Readers::Owner).is_err());
        fs::remove_file(path.join("inbox")).unwrap();
        fs::create_dir(path.join("inbox")).unwrap();
        let target = elsewhere.join("target");
        fs::write(&target, "mine").unwrap();
        for name in ["a.txt", ".a.txt.part"] {
            symlink(&target, path.join("inbox").join(name)).unwrap();
        }
        write(&path, place, "a.txt", b"x", Readers::Owner).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine", "the link was replaced and not followed");
        assert!(fs::symlink_metadata(path.join("inbox/a.txt")).unwrap().is_file());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
        let swapped = write(&elsewhere, place, "a.txt", b"x", Readers::Owner).unwrap_err();
        assert!(swapped.contains("replaced by another directory"), "{swapped}");
        fs::create_dir(path.join("inbox/d")).unwrap();
        assert!(write(&path, place, "d", b"x", Readers::Owner).is_err());
        assert!(!path.join("inbox/.d.part").exists());
    }
}
