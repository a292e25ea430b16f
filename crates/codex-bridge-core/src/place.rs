//! The directory of a task, pinned by device and inode.
//!
//! A task's command may swap the directory for a link, or for another directory, between two turns. Codex works by
//! path. So at each open and before each turn, the bridge compares the path with the directory that it led to when the
//! task was handed over.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use codex_wire::os::file::NAME_ONLY;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Deserializer, Serialize};

use codex_wire::reason;

/// The directory to which a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The device that holds it.
    pub device: u64,
    /// The inode on that device.
    pub inode: u64,
}

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory is missing or cannot be entered.
    #[error("the directory {} cannot be used: {}", path.display(), reason(source))]
    Unusable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A link has replaced the directory.
    #[error("the directory {} has become a link to {}: it was swapped after the task was handed over", path.display(), now.display())]
    Link {
        /// The path.
        path: PathBuf,
        /// Where the link leads.
        now: PathBuf,
    },
    /// Another directory has replaced the directory.
    #[error("the directory {} is not the one that the task was handed over for: another directory has replaced it", path.display())]
    Swapped {
        /// The path.
        path: PathBuf,
    },
}

impl Place {
    /// The directory to which a path leads now. No part of the path may be a link.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let unusable = |source: std::io::Error| Error::Unusable { path: path.to_owned(), source };
        let flags = NAME_ONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let real = path.canonicalize().map_err(unusable)?;
        if real != path {
            return Err(Error::Link { path: path.to_owned(), now: real });
        }
        let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| unusable(error.into()))?;
        let found = std::fs::File::from(dir).metadata().map_err(unusable)?;
        Ok(Self { device: found.dev(), inode: found.ino() })
    }

    /// Checks that the path still leads to the pinned directory. `pinned` is `None` for tasks of older versions.
    pub fn check(path: &Path, pinned: Option<Self>) -> Result<Self, Error> {
        let now = Self::of(path)?;
        match pinned {
            Some(pinned) if pinned != now => Err(Error::Swapped { path: path.to_owned() }),
            _ => Ok(now),
        }
    }
}

/// Directories in which tasks must not write: the bridge's own, the CODEX_HOMEs, and the user's home as a whole. A
/// command that writes there controls what runs next, without any approval.
#[derive(Debug, Clone, Default)]
pub struct ProtectedDirs {
    /// State, configuration, sockets, packages, homes of Codex.
    pub ours: Vec<PathBuf>,
    /// The user's home.
    pub user_home: Option<PathBuf>,
    /// Directories of programs that run outside any sandbox: those on the PATH of hosts.
    pub tools: Vec<PathBuf>,
}

/// How a directory overlaps with the [`ProtectedDirs`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Overlap {
    /// The directory is inside one of ours.
    #[error("it lies in {}, where codex-bridge or Codex keeps its own files", .0.display())]
    Inside(PathBuf),
    /// The directory contains one of ours.
    #[error("it holds {}, where codex-bridge or Codex keeps its own files", .0.display())]
    Holds(PathBuf),
    /// The directory contains programs that run outside any sandbox.
    #[error("it lies in {}, whose programs Codex and MCP servers run outside of any sandbox", .0.display())]
    AmongTools(PathBuf),
    /// The directory is the user's home or contains it.
    #[error("it holds the whole home directory {}, with the files that shells and programs run", .0.display())]
    HoldsHome(PathBuf),
}

impl ProtectedDirs {
    /// How a directory overlaps with protected ones. `dir` is a real path.
    pub fn overlap(&self, dir: &Path) -> Option<Overlap> {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let ours: Vec<PathBuf> = self.ours.iter().map(real).collect();
        let inside = ours.iter().find(|own| dir.starts_with(own)).cloned().map(Overlap::Inside);
        let home = self.user_home.iter().map(real).find(|home| home.starts_with(dir));
        let holds = ours.iter().find(|own| own.starts_with(dir)).cloned().map(Overlap::Holds);
        let tools = self.tools.iter().map(real).find(|tools| dir.starts_with(tools)).map(Overlap::AmongTools);
        inside.or_else(|| home.map(Overlap::HoldsHome)).or(holds).or(tools)
    }
}

/// Reads a list of paths that must be absolute.
pub fn absolute_paths<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<PathBuf>, D::Error> {
    let paths = Vec::<PathBuf>::deserialize(input)?;
    match paths.iter().find(|path| !path.is_absolute()) {
        None => Ok(paths),
        Some(relative) => Err(serde::de::Error::custom(not_absolute(relative))),
    }
}

/// The message about a path that is not absolute.
pub fn not_absolute(path: &Path) -> String {
    format!("{} must be an absolute path, such as /home/me/work", path.display())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_that_was_swapped_is_told_from_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (work, other) = (top.join("work"), top.join("other"));
        fs::create_dir(&work).unwrap();
        fs::create_dir(&other).unwrap();
        let place = Place::of(&work).unwrap();
        assert_eq!(Place::check(&work, Some(place)).unwrap(), place);
        assert_eq!(Place::check(&work, None).unwrap(), place, "a task from before");

        fs::rename(&work, top.join("away")).unwrap();
        let gone = Place::check(&work, Some(place)).unwrap_err();
        assert!(matches!(gone, Error::Unusable { .. }), "{gone}");
        symlink(&other, &work).unwrap();
        let linked = Place::check(&work, Some(place)).unwrap_err().to_string();
        assert!(linked.contains("has become a link to") && linked.contains("other"), "{linked}");
        assert!(Place::check(&work, None).is_err(), "a link is never followed");
        fs::remove_file(&work).unwrap();
        fs::rename(&other, &work).unwrap();
        let swapped = Place::check(&work, Some(place)).unwrap_err();
        assert!(matches!(swapped, Error::Swapped { .. }), "{swapped}");
    }

    #[test]
    fn a_directory_may_neither_hold_what_is_ours_nor_lie_in_it() {
        let protected = ProtectedDirs {
            ours: vec!["/home/ada/.local/state/codex-bridge".into(), "/srv/codex".into()],
            user_home: Some("/home/ada".into()),
            tools: vec!["/home/ada/.cargo/bin".into()],
        };
        let overlap = |dir: &str| protected.overlap(Path::new(dir));
        for free in ["/home/ada/project", "/home/ada/.local/state/other", "/srv/other", "/srv/codex2"] {
            assert_eq!(overlap(free), None, "{free}");
        }
        let state = PathBuf::from("/home/ada/.local/state/codex-bridge");
        assert_eq!(overlap("/home/ada/.local/state"), Some(Overlap::Holds(state.clone())));
        assert_eq!(overlap("/home/ada/.local/state/codex-bridge/hosts"), Some(Overlap::Inside(state)));
        assert_eq!(overlap("/srv"), Some(Overlap::Holds("/srv/codex".into())));
        let tools = PathBuf::from("/home/ada/.cargo/bin");
        assert_eq!(overlap("/home/ada/.cargo/bin/x"), Some(Overlap::AmongTools(tools)));
        assert_eq!(overlap("/home/ada/.cargo"), None, "they are read-only there");
        for home in ["/home/ada", "/home", "/"] {
            assert_eq!(overlap(home), Some(Overlap::HoldsHome("/home/ada".into())), "{home}");
        }
    }

    #[test]
    fn a_link_above_the_directory_counts_too() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/work")).unwrap();
        let place = Place::of(&top.join("a/work")).unwrap();
        fs::rename(top.join("a"), top.join("b")).unwrap();
        symlink(top.join("b"), top.join("a")).unwrap();
        assert!(matches!(Place::check(&top.join("a/work"), Some(place)), Err(Error::Link { .. })));
    }
}
