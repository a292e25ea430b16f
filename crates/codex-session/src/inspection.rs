//! What is found out about a request before anyone decides on it: whether it asks for more than the sandbox gives, and
//! which files of a patch are more than the task's own.
//!
//! Reads files and follows links, so it stays out of the turn's machine. What follows from it is in [`crate::policy`], and
//! in the words of [`crate::ask`].

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use codex_wire::escalation::Escalation;
use codex_wire::item::{Change, ChangeKind, FileChange};
use codex_wire::request::{CommandApproval, ServerRequest};

/// Directories whose files decide what git, Codex and other agents run.
const RULING: [&str; 3] = [".git", ".codex", ".agents"];

/// What was found out about a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Whether it asks for more than the sandbox gives.
    pub escalation: Escalation,
    /// Files of a patch that need care, in the order of the patch.
    pub reaches: Vec<Reach>,
}

/// A file of a patch that needs care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The file, as the patch names it.
    pub path: String,
    /// Where it lies.
    pub place: ReachPlace,
}

/// Where a file lies that needs care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReachPlace {
    /// Outside the directories that the task may write.
    Outside,
    /// The same, through a link; this is where the file really is.
    Through(String),
    /// In a directory whose files decide what git, Codex or other agents run.
    Ruling,
}

/// Where the answer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the request itself: this is it.
    Request(Inspection),
    /// In the model's own call with this id.
    Call(String),
}

/// The directories that a task may write, whatever its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ground {
    /// The task's own directory: relative paths are meant in it.
    pub cwd: PathBuf,
    /// Further ones that the operator has named.
    pub writable_roots: Vec<PathBuf>,
}

impl Inspection {
    /// Nothing could be found out.
    pub fn unknown() -> Self {
        Self { escalation: Escalation::Unknown, reaches: Vec::new() }
    }

    /// Whether there is something to find out about this request.
    pub fn is_needed(request: &ServerRequest) -> bool {
        matches!(
            request,
            ServerRequest::Command(_)
                | ServerRequest::LegacyCommand(_)
                | ServerRequest::FileChange(_)
                | ServerRequest::LegacyPatch(_)
                | ServerRequest::Permissions(_)
        )
    }

    /// What the request itself tells, or where it is told. Follows links.
    pub(crate) fn of_request(request: &ServerRequest, patch: Option<&FileChange>, ground: &Ground) -> Source {
        Source::Request(match request {
            ServerRequest::Command(command) => return of_command(command),
            ServerRequest::LegacyCommand(command) => return Source::Call(command.call_id.clone()),
            ServerRequest::FileChange(asked) => {
                let changes = patch.map(|patch| patch.changes.as_slice()).unwrap_or_default();
                of_patch(changes, asked.grant_root.is_some(), ground)
            }
            ServerRequest::LegacyPatch(asked) => {
                of_patch(&asked.changes(), asked.grant_root.is_some(), ground)
            }
            ServerRequest::Permissions(_) => Escalation::Asked.into(),
            _ => Self::default(),
        })
    }
}

impl From<Escalation> for Inspection {
    fn from(escalation: Escalation) -> Self {
        Self { escalation, reaches: Vec::new() }
    }
}

fn of_command(command: &CommandApproval) -> Source {
    match command.kind.as_deref() {
        _ if command.is_input() || command.widens_the_sandbox() => Source::Request(Escalation::Asked.into()),
        None | Some("command") => Source::Call(command.item_id.clone()),
        Some(_) => Source::Request(Inspection::unknown()),
    }
}

fn of_patch(changes: &[Change], grants_root: bool, ground: &Ground) -> Inspection {
    let reaches: Vec<Reach> = changes.iter().flat_map(|change| ground.reaches(change)).collect();
    let is_told = |change: &Change| !change.path.is_empty() && !ground.hides(change);
    let is_told = !changes.is_empty() && changes.iter().all(is_told);
    let escalation = match (grants_root || !reaches.is_empty(), is_told) {
        (true, _) => Escalation::Asked,
        (false, true) => Escalation::None,
        // Which files change was not said, or cannot be seen.
        (false, false) => Escalation::Unknown,
    };
    Inspection { escalation, reaches }
}

impl Ground {
    /// Whether a file lies in a directory that is closed to us: a link in it may lead anywhere. Codex may run as another user.
    fn hides(&self, change: &Change) -> bool {
        paths_of(change).any(|path| {
            let found = real(&normal(&self.cwd.join(path))).symlink_metadata();
            found.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        })
    }

    fn reaches(&self, change: &Change) -> Vec<Reach> {
        let paths = paths_of(change);
        let reach = |path: &str| self.place_of(path).map(|place| Reach { path: path.to_owned(), place });
        paths.filter_map(reach).collect()
    }

    /// Why a file of a patch needs care; none if it does not.
    fn place_of(&self, path: &str) -> Option<ReachPlace> {
        let named = normal(&self.cwd.join(path));
        let real = real(&named);
        let below = |path: &Path, root: &Path| path.strip_prefix(root).ok().map(Path::to_path_buf);
        let roots = || std::iter::once(&self.cwd).chain(&self.writable_roots);
        let in_named = roots()
            .find_map(|root| below(&named, &normal(root)).or_else(|| below(&named, &self::real(root))));
        let in_real = roots().find_map(|root| below(&real, &self::real(root)));
        match (in_named, in_real) {
            (Some(named), Some(real)) => (rules(&named) || rules(&real)).then_some(ReachPlace::Ruling),
            (_, None) if real != named => Some(ReachPlace::Through(real.to_string_lossy().into_owned())),
            // Also a link from outside into the directory.
            _ => Some(ReachPlace::Outside),
        }
    }
}

/// The files that a change is about.
fn paths_of(change: &Change) -> impl Iterator<Item = &str> {
    let target = match &change.kind {
        ChangeKind::Update { move_path } => move_path.as_deref(),
        _ => None,
    };
    std::iter::once(change.path.as_str()).chain(target)
}

/// Whether a part of the path is one of the ruling directories. A file system may not tell capital letters.
fn rules(path: &Path) -> bool {
    let is_ruling = |name: &OsStr| RULING.iter().any(|ruling| name.eq_ignore_ascii_case(ruling));
    path.components().any(|part| matches!(part, Component::Normal(name) if is_ruling(name)))
}

/// The path without `.` and `..`, by its words alone.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// The path with every link resolved that exists. A link that leads nowhere is followed too: whoever writes to it makes
/// the file there.
fn real(path: &Path) -> PathBuf {
    real_within(path, MOST_LINKS)
}

/// As many links as Linux follows.
const MOST_LINKS: u8 = 40;

fn real_within(path: &Path, links_left: u8) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return path.to_path_buf() };
    let parent = real_within(parent, links_left);
    let here = parent.join(name);
    match (std::fs::read_link(&here), links_left) {
        (Ok(target), 1..) => real_within(&normal(&parent.join(target)), links_left - 1),
        _ => here,
    }
}

#[cfg(test)]
mod tests;
