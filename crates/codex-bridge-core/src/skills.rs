//! The user's skills: a list for the model, and copies that commands can read.
//!
//! Codex's own list would include the skills of the repository (codex 0.166). So Codex's list is switched off, and this
//! one replaces it. Commands cannot read the CODEX_HOME, so skills in there are copied.

mod copies;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use copies::Copies;

/// How many skills are listed. More would crowd out the prompt.
const MOST_SKILLS: usize = 64;
/// How much of a `SKILL.md` is read to find its name and description.
const HEAD_BYTES: u64 = 8 * 1024;
/// How many characters of a description the model sees.
const DESCRIPTION_CHARS: usize = 500;

/// The beginning of the list.
const INTRODUCTION: &str = "The user has these skills: instructions for particular kinds of work. When the user names one as \
    `$name`, or when one clearly fits the work, read its file first and follow it. Paths in it are relative to its directory.";

/// Where the user's skills are.
#[derive(Debug, Clone, Default)]
pub struct SkillPlaces {
    /// Directories that contain skills.
    pub dirs: Vec<PathBuf>,
    /// Where skills are copied that commands cannot read; `None` leaves those skills out.
    pub copies: Option<PathBuf>,
}

/// A skill, as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Skill {
    name: String,
    description: String,
    /// The `SKILL.md`, at a path that commands can read.
    file: PathBuf,
}

/// The list of the user's skills for the model; `None` if there are none. `denied` are the paths that commands cannot
/// read. Without a `codex_home`, its skills are left out.
pub(crate) fn listed(places: &SkillPlaces, codex_home: Option<&Path>, denied: &[PathBuf]) -> Option<String> {
    let of_codex = codex_home.map(|home| home.join("skills"));
    let of_codex = of_codex.into_iter().flat_map(|dir| [dir.join(".system"), dir]);
    let dirs = of_codex.chain(places.dirs.iter().cloned());
    let mut copies = places.copies.as_deref().map(Copies::in_dir);
    let mut skills: Vec<Skill> = Vec::new();
    for dir in dirs.flat_map(|dir| directories_in(&dir)) {
        if skills.len() >= MOST_SKILLS {
            break;
        }
        let is_denied = denied.iter().any(|path| dir.starts_with(real(path)));
        let readable =
            if is_denied { copies.as_mut().and_then(|copies| copies.of(&dir)) } else { Some(dir.clone()) };
        let found = readable.and_then(|readable| Skill::in_dir(&dir, &readable));
        // Of several skills with one name the first is used, as in Codex.
        skills.extend(found.filter(|skill| skills.iter().all(|known| known.name != skill.name)));
    }
    (!skills.is_empty()).then(|| {
        let lines = skills.iter().map(|Skill { name, description, file }| {
            format!("\n- {name}: {description} (file: {})", file.display())
        });
        [INTRODUCTION.to_owned()].into_iter().chain(lines).collect()
    })
}

/// The real paths of the directories in a directory, in the order of their names.
fn directories_in(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut dirs: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .filter_map(|entry| entry.path().canonicalize().ok())
        .filter(|path| path.is_dir())
        .collect();
    dirs.sort();
    dirs
}

impl Skill {
    /// Reads the skill in `dir`. Commands find it in `readable`.
    fn in_dir(dir: &Path, readable: &Path) -> Option<Self> {
        let mut head = Vec::new();
        let file = fs::File::open(dir.join("SKILL.md")).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
        let head = String::from_utf8_lossy(&head);
        let name = field(&head, "name").or_else(|| dir.file_name()?.to_str().map(str::to_owned))?;
        let description: String = field(&head, "description")?.chars().take(DESCRIPTION_CHARS).collect();
        Some(Self { name, description, file: readable.join("SKILL.md") })
    }
}

/// Reads one field of the YAML between the two `---` lines, joined to one line. Understands what skills use: plain
/// values, quoted values, and values that continue in indented lines.
fn field(head: &str, name: &str) -> Option<String> {
    let body = head.trim_start_matches('\u{feff}').strip_prefix("---")?;
    let mut lines = body.lines().skip(1).take_while(|line| line.trim_end() != "---");
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim();
    let first = if value.starts_with(['>', '|']) { "" } else { value };
    let more = lines.take_while(|line| line.starts_with([' ', '\t']) || line.is_empty()).map(str::trim);
    let words: Vec<&str> = [first].into_iter().chain(more).filter(|line| !line.is_empty()).collect();
    let joined = words.join(" ");
    let unquoted = ['"', '\''].iter().find_map(|mark| joined.strip_prefix(*mark)?.strip_suffix(*mark));
    let value = unquoted.unwrap_or(&joined).trim().to_owned();
    (!value.is_empty()).then_some(value)
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
