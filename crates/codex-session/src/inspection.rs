//! The inspection of a request before a decision: whether it asks for more than the sandbox allows, and which files of
//! a patch are sensitive.
//!
//! Reads files and follows links, so it is not part of the turn machine. `policy` decides by the result, and
//! `ask` puts it into words.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use codex_wire::escalation::Escalation;
use codex_wire::item::{Change, ChangeKind, FileChange};
use codex_wire::request::{CommandApproval, ServerRequest};

/// Directories whose files decide what git, Codex and other agents run.
const CONTROL_DIRS: [&str; 3] = [".git", ".codex", ".agents"];

/// The result of an inspection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Whether it asks for more than the sandbox allows.
    pub escalation: Escalation,
    /// Sensitive files of a patch, in the order of the patch.
    pub sensitive_files: Vec<SensitiveFile>,
}

/// A sensitive file of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SensitiveFile {
    /// The file, as the patch names it.
    pub path: String,
    /// Why it is sensitive.
    pub place: SensitivePlace,
}

/// Why a file is sensitive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SensitivePlace {
    /// It is outside of the directories that the task may write.
    Outside,
    /// It is outside through a link; this is its real path.
    ThroughLink(String),
    /// It is in a directory whose files decide what git, Codex or other agents run.
    ControlDir,
}

/// Where the result comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// From the request itself.
    Request(Inspection),
    /// From the model's tool call with this id.
    Call(String),
}

/// The directories that a task may write, whatever its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WritableDirs {
    /// The task's own directory, which relative paths refer to.
    pub cwd: PathBuf,
    /// Further directories that the operator has named.
    pub writable_roots: Vec<PathBuf>,
}

impl Inspection {
    /// The inspection failed.
    pub fn unknown() -> Self {
        Self { escalation: Escalation::Unknown, sensitive_files: Vec::new() }
    }

    /// Whether this kind of request is inspected.
    pub fn is_needed(request: &ServerRequest) -> bool {
        match request {
            ServerRequest::Command(_) | ServerRequest::FileChange(_) | ServerRequest::Permissions(_) => true,
            ServerRequest::UserInput(_)
            | ServerRequest::Elicitation(_)
            | ServerRequest::ToolCall(_)
            | ServerRequest::CurrentTime
            | ServerRequest::Unknown { .. } => false,
        }
    }

    /// Inspects the request, or names the tool call to read. Follows links.
    pub(crate) fn of_request(
        request: &ServerRequest,
        patch: Option<&FileChange>,
        dirs: &WritableDirs,
    ) -> Source {
        Source::Request(match request {
            ServerRequest::Command(command) => return of_command(command),
            ServerRequest::FileChange(asked) => {
                let changes = patch.map(|patch| patch.changes.as_slice()).unwrap_or_default();
                of_patch(changes, asked.grant_root.is_some(), dirs)
            }
            ServerRequest::Permissions(_) => Escalation::Asked.into(),
            // Not inspected: see `is_needed`.
            _ => Self::default(),
        })
    }
}

impl From<Escalation> for Inspection {
    fn from(escalation: Escalation) -> Self {
        Self { escalation, sensitive_files: Vec::new() }
    }
}

fn of_command(command: &CommandApproval) -> Source {
    match command.kind.as_deref() {
        _ if command.is_input() || command.widens_the_sandbox() => Source::Request(Escalation::Asked.into()),
        None | Some("command") => Source::Call(command.item_id.clone()),
        Some(_) => Source::Request(Inspection::unknown()),
    }
}

fn of_patch(changes: &[Change], grants_root: bool, dirs: &WritableDirs) -> Inspection {
    let sensitive_files: Vec<SensitiveFile> =
        changes.iter().flat_map(|change| dirs.sensitive_files(change)).collect();
    let is_told = |change: &Change| !change.path.is_empty() && !dirs.hides(change);
    let is_told = !changes.is_empty() && changes.iter().all(is_told);
    let escalation = match (grants_root || !sensitive_files.is_empty(), is_told) {
        (true, _) => Escalation::Asked,
        (false, true) => Escalation::None,
        // The changed files are unknown or unreadable.
        (false, false) => Escalation::Unknown,
    };
    Inspection { escalation, sensitive_files }
}

impl WritableDirs {
    /// Whether a file is in a directory that we may not read: a link in it may lead anywhere. Codex may run as another
    /// user.
    fn hides(&self, change: &Change) -> bool {
        paths_of(change).any(|path| {
            let found = real(&normal(&self.cwd.join(path))).symlink_metadata();
            found.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        })
    }

    fn sensitive_files(&self, change: &Change) -> Vec<SensitiveFile> {
        let paths = paths_of(change);
        let file =
            |path: &str| self.place_of(path).map(|place| SensitiveFile { path: path.to_owned(), place });
        paths.filter_map(file).collect()
    }

    /// Why a file of a patch is sensitive; `None` if it is not.
    fn place_of(&self, path: &str) -> Option<SensitivePlace> {
        let named = normal(&self.cwd.join(path));
        let real = real(&named);
        let below = |path: &Path, root: &Path| path.strip_prefix(root).ok().map(Path::to_path_buf);
        let roots = || std::iter::once(&self.cwd).chain(&self.writable_roots);
        let in_named = roots()
            .find_map(|root| below(&named, &normal(root)).or_else(|| below(&named, &self::real(root))));
        let in_real = roots().find_map(|root| below(&real, &self::real(root)));
        match (in_named, in_real) {
            (Some(named), Some(real)) => {
                (is_in_control_dir(&named) || is_in_control_dir(&real)).then_some(SensitivePlace::ControlDir)
            }
            (_, None) if real != named => {
                Some(SensitivePlace::ThroughLink(real.to_string_lossy().into_owned()))
            }
            // Also for a link from outside into the directory.
            _ => Some(SensitivePlace::Outside),
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

/// Whether the path leads through a control directory. The case is ignored, since file systems may ignore it.
fn is_in_control_dir(path: &Path) -> bool {
    let is_control_dir = |name: &OsStr| CONTROL_DIRS.iter().any(|dir| name.eq_ignore_ascii_case(dir));
    path.components().any(|part| matches!(part, Component::Normal(name) if is_control_dir(name)))
}

/// The path without `.` and `..`, without reading the disk.
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

/// The path with all existing links resolved. A dangling link is followed too: writing to it creates its target.
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
