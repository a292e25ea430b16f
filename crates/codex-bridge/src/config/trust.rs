//! `[trust]` in the operator's file: finds errors with their line, and changes entries without touching the rest of the file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use codex_bridge_core::trust::Trust;
use rustix::process::geteuid;
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::{at, edit, line_of, parse};
use crate::failure::{Code, Failure};

/// The trust levels of directories without an entry, in words.
pub const DEFAULT_LEVELS: &str = "instructions for a person at the terminal in a directory of their own, hostile for agents and remote callers";

#[derive(Debug)]
struct Entry {
    path: PathBuf,
    level: Trust,
    key: Range<usize>,
    value: Range<usize>,
}

impl Entry {
    /// Whether the entry is about this directory, by its real path or as written.
    fn is_about(&self, dir: &Path) -> bool {
        self.path == dir || real_path(&self.path) == dir
    }
}

/// The path with links resolved, or the path itself if it does not exist.
pub fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The part of the file that this module reads.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Part {
    trust: BTreeMap<Spanned<String>, Spanned<Trust>>,
}

/// The entries in the order of the file; none if the text cannot be parsed, which the caller has reported already.
fn entries(text: &str) -> Vec<Entry> {
    let part: Part = toml::from_str(text).unwrap_or_default();
    let entry = |(key, value): (Spanned<String>, Spanned<Trust>)| Entry {
        key: key.span(),
        value: value.span(),
        path: key.into_inner().into(),
        level: value.into_inner(),
    };
    let mut entries: Vec<Entry> = part.trust.into_iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.key.start);
    entries
}

/// Refuses relative paths, and two different levels for one directory.
pub(super) fn check(text: &str, file: &Path) -> Result<(), Failure> {
    let mut seen: BTreeMap<PathBuf, &Entry> = BTreeMap::new();
    let entries = entries(text);
    for entry in &entries {
        let error_at = |what: &str| at(text, file, entry.key.start, &entry.path.to_string_lossy(), what);
        if !entry.path.is_absolute() {
            return Err(error_at("a directory in [trust] must be an absolute path, such as /home/me/work"));
        }
        match seen.insert(real_path(&entry.path), entry) {
            Some(other) if other.level != entry.level => {
                let (line, level) = (line_of(text, other.key.start), other.level);
                return Err(error_at(&format!("line {line} has {level} for the same directory")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What is wrong with a directory in `[trust]`, in a sentence without its name.
pub fn problem_with(dir: &Path) -> Option<String> {
    let found = match dir.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Some("the directory does not exist".to_owned());
        }
        Err(error) => return Some(format!("the directory cannot be read: {}", codex_wire::reason(&error))),
        Ok(found) => found,
    };
    let own = geteuid().as_raw();
    if !found.is_dir() {
        Some("this is not a directory".to_owned())
    } else if found.uid() != own {
        Some(format!(
            "the directory belongs to another user (uid {}), who decides what is in it",
            found.uid()
        ))
    } else if found.mode() & 0o002 != 0 {
        Some("every user of the machine can write in the directory".to_owned())
    } else {
        None
    }
}

/// Sets the level of a directory, given by its real path, in the file; without a level, removes the entry.
pub fn write(file: &Path, dir: &Path, level: Option<Trust>) -> Result<(), Failure> {
    edit::change(file, |file, old| changed(file, old, dir, level))
}

fn changed(file: &Path, old: &str, dir: &Path, level: Option<Trust>) -> Result<String, Failure> {
    // Errors that are there already are reported first.
    parse(old, file)?;
    let entries = entries(old);
    let matching: Vec<&Entry> = entries.iter().filter(|entry| entry.is_about(dir)).collect();
    let candidates = match level {
        Some(level) if matching.is_empty() => additions(old, &entries, dir, level),
        Some(level) => {
            vec![replaced(old, matching.iter().map(|entry| (entry.value.clone(), quoted(level.as_str()))))]
        }
        None => removals(old, &matching),
    };
    let paths: Vec<&Path> = matching.iter().map(|entry| entry.path.as_path()).collect();
    let expected = expected_settings(old, &paths, dir, level)?;
    let is_expected =
        |new: &String| settings(new).is_some_and(|settings| settings == expected) && parse(new, file).is_ok();
    candidates.into_iter().find(is_expected).ok_or_else(|| {
        let what = format!("[trust] in {} cannot be changed automatically", file.display());
        Failure::new(Code::Config, what)
            .hint("edit the file by hand, and restart the daemon: `codex-bridge stop`")
    })
}

fn expected_settings(old: &str, paths: &[&Path], dir: &Path, level: Option<Trust>) -> Result<Table, Failure> {
    let mut table = settings(old).unwrap_or_default();
    let mut trust = match table.remove("trust") {
        Some(Value::Table(trust)) => trust,
        _ => Table::new(),
    };
    let name = |path: &Path| path.to_str().map(str::to_owned);
    match level {
        Some(level) if paths.is_empty() => {
            let unwritable = || {
                let what = format!("{} is not UTF-8, so it cannot be written into the file", dir.display());
                Failure::new(Code::Config, what).hint("rename the directory")
            };
            trust.insert(name(dir).ok_or_else(unwritable)?, level.as_str().into());
        }
        Some(level) => {
            for path in paths.iter().filter_map(|path| name(path)) {
                trust.insert(path, level.as_str().into());
            }
        }
        None => trust.retain(|path, _| !paths.contains(&Path::new(path))),
    }
    if !trust.is_empty() {
        table.insert("trust".to_owned(), Value::Table(trust));
    }
    Ok(table)
}

/// The settings in a text, without an empty `[trust]`.
fn settings(text: &str) -> Option<Table> {
    let mut table: Table = toml::from_str(text).ok()?;
    if table.get("trust").and_then(Value::as_table).is_some_and(Table::is_empty) {
        table.remove("trust");
    }
    Some(table)
}

/// Texts with the entry added, the nicest first. Which one is valid depends on how the file is written.
fn additions(old: &str, entries: &[Entry], dir: &Path, level: Trust) -> Vec<String> {
    let (key, value) = (quoted(&dir.to_string_lossy()), quoted(level.as_str()));
    let line = format!("{key} = {value}\n");
    let mut texts = Vec::new();
    if let Some(last) = entries.last() {
        let end = end_of_line(old, last.value.end);
        texts.push(inserted(old, end, &line));
        texts.push(inserted(old, end, &format!("trust.{line}")));
        texts.push(inserted(old, last.value.end, &format!(", {key} = {value}")));
    }
    let header = old.split_inclusive('\n').scan(0, |end, line| {
        *end += line.len();
        Some((*end, line.trim_start().starts_with("[trust]")))
    });
    texts.extend(header.filter(|(_, is_header)| *is_header).map(|(end, _)| inserted(old, end, &line)));
    let gap = if old.is_empty() { "" } else { "\n" };
    texts.push(inserted(old, old.len(), &format!("{gap}[trust]\n{line}")));
    texts
}

/// Texts with the entries removed: with their lines, or out of a line that they share with others.
fn removals(old: &str, matching: &[&Entry]) -> Vec<String> {
    let lines = matching.iter().map(|entry| {
        let start = old[..entry.key.start].rfind('\n').map_or(0, |newline| newline + 1);
        (start..end_of_line(old, entry.value.end), String::new())
    });
    let with_comma_behind = matching.iter().map(|entry| {
        let behind = &old[entry.value.end..];
        let comma = behind.find(',').filter(|at| behind[..*at].trim().is_empty());
        let end = comma.map_or(entry.value.end, |at| entry.value.end + at + 1);
        (entry.key.start..end, String::new())
    });
    let with_comma_before = matching.iter().map(|entry| {
        let before = old[..entry.key.start].trim_end();
        let start = if before.ends_with(',') { before.len() - 1 } else { entry.key.start };
        (start..entry.value.end, String::new())
    });
    vec![replaced(old, lines), replaced(old, with_comma_before), replaced(old, with_comma_behind)]
}

fn end_of_line(text: &str, offset: usize) -> usize {
    text[offset..].find('\n').map_or(text.len(), |newline| offset + newline + 1)
}

fn inserted(old: &str, at: usize, new: &str) -> String {
    let (before, behind) = old.split_at(at);
    let newline =
        if new.ends_with('\n') && !before.is_empty() && !before.ends_with('\n') { "\n" } else { "" };
    format!("{before}{newline}{new}{behind}")
}

fn replaced(old: &str, parts: impl Iterator<Item = (Range<usize>, String)>) -> String {
    let mut parts: Vec<(Range<usize>, String)> = parts.collect();
    parts.sort_by_key(|(range, _)| range.start);
    let mut new = String::new();
    let mut done = 0;
    for (range, with) in parts {
        new.push_str(old.get(done..range.start).unwrap_or_default());
        new.push_str(&with);
        done = range.end.max(done);
    }
    new.push_str(old.get(done..).unwrap_or_default());
    new
}

/// A TOML string; a JSON string is one.
fn quoted(text: &str) -> String {
    serde_json::json!(text).to_string()
}

#[cfg(test)]
mod tests;
