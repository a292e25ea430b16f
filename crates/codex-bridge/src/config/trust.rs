//! `[trust]` in the operator's file: what is wrong in it, with the line; and changing it as its owner would, so that
//! everything else in the file stays as it is.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use codex_bridge_core::trust::Trust;
use rustix::process::geteuid;
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::{at, edit, parse};
use crate::failure::{Code, Failure};

/// What holds where the operator has not decided, in words.
pub const ELSEWHERE: &str = "instructions for a person at the terminal in a directory of theirs, hostile for agents and remote callers";

/// One entry, and where in the text it stands.
#[derive(Debug)]
struct Entry {
    path: PathBuf,
    level: Trust,
    key: Range<usize>,
    value: Range<usize>,
}

impl Entry {
    /// Whether it is about this directory, by its real path or as it is written.
    fn is_about(&self, dir: &Path) -> bool {
        self.path == dir || real(&self.path) == dir
    }
}

/// The path without links, as far as it leads anywhere.
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The part of the file that is read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Part {
    trust: BTreeMap<Spanned<String>, Spanned<Trust>>,
}

/// The entries in the order of the file. A text that cannot be read has none: that is said elsewhere.
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

/// Refuses paths that mean nothing, and two levels for one directory: nobody could say which holds.
pub(super) fn check(text: &str, file: &Path) -> Result<(), Failure> {
    let mut known: BTreeMap<PathBuf, &Entry> = BTreeMap::new();
    let entries = entries(text);
    for entry in &entries {
        let wrong = |what: &str| at(text, file, entry.key.start, &entry.path.to_string_lossy(), what);
        if !entry.path.is_absolute() {
            return Err(wrong("a directory in [trust] must be a whole path, from / on"));
        }
        match known.insert(real(&entry.path), entry) {
            Some(other) if other.level != entry.level => {
                let (line, level) = (line_of(text, other.key.start), other.level);
                return Err(wrong(&format!("line {line} says {level} of the same directory")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or_default().matches('\n').count() + 1
}

/// What is odd about a directory that the operator has decided about, in a sentence without its name.
pub fn oddity(dir: &Path) -> Option<String> {
    let found = match dir.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Some("it does not exist".to_owned());
        }
        Err(error) => return Some(format!("it cannot be looked at: {error}")),
        Ok(found) => found,
    };
    let own = geteuid().as_raw();
    if !found.is_dir() {
        Some("it is no directory".to_owned())
    } else if found.uid() != own {
        Some(format!("it belongs to another user (uid {}), who decides what is in it", found.uid()))
    } else if found.mode() & 0o002 != 0 {
        Some("every user of the machine may write in it".to_owned())
    } else {
        None
    }
}

/// Writes a decision about a directory, given by its real path, into the file; or takes it out of it.
pub fn write(file: &Path, dir: &Path, level: Option<Trust>) -> Result<(), Failure> {
    edit::change(file, |file, old| changed(file, old, dir, level))
}

fn changed(file: &Path, old: &str, dir: &Path, level: Option<Trust>) -> Result<String, Failure> {
    // What is wrong already is said first.
    parse(old, file)?;
    let entries = entries(old);
    let about: Vec<&Entry> = entries.iter().filter(|entry| entry.is_about(dir)).collect();
    let candidates = match level {
        Some(level) if about.is_empty() => additions(old, &entries, dir, level),
        Some(level) => vec![replaced(old, about.iter().map(|it| (it.value.clone(), quoted(level.as_str()))))],
        None => removals(old, &about),
    };
    let known: Vec<&Path> = about.iter().map(|entry| entry.path.as_path()).collect();
    let meant = meant(old, &known, dir, level)?;
    let is_meant = |new: &String| said(new).is_some_and(|said| said == meant) && parse(new, file).is_ok();
    candidates.into_iter().find(is_meant).ok_or_else(|| {
        let what = format!("[trust] in {} cannot be changed without changing more", file.display());
        Failure::new(Code::Config, what)
            .hint("change it by hand, and restart the daemon: `codex-bridge stop`")
    })
}

/// What the file shall say.
fn meant(old: &str, known: &[&Path], dir: &Path, level: Option<Trust>) -> Result<Table, Failure> {
    let mut table = said(old).unwrap_or_default();
    let mut trust = match table.remove("trust") {
        Some(Value::Table(trust)) => trust,
        _ => Table::new(),
    };
    let name = |path: &Path| path.to_str().map(str::to_owned);
    match level {
        Some(level) if known.is_empty() => {
            let unwritable = || {
                let what = format!("{} cannot be written into a file of text", dir.display());
                Failure::new(Code::Config, what).hint("give the directory another name")
            };
            trust.insert(name(dir).ok_or_else(unwritable)?, level.as_str().into());
        }
        Some(level) => {
            for path in known.iter().filter_map(|path| name(path)) {
                trust.insert(path, level.as_str().into());
            }
        }
        None => trust.retain(|path, _| !known.contains(&Path::new(path))),
    }
    if !trust.is_empty() {
        table.insert("trust".to_owned(), Value::Table(trust));
    }
    Ok(table)
}

/// What a text says; an empty `[trust]` says nothing.
fn said(text: &str) -> Option<Table> {
    let mut table: Table = toml::from_str(text).ok()?;
    if table.get("trust").and_then(Value::as_table).is_some_and(Table::is_empty) {
        table.remove("trust");
    }
    Some(table)
}

/// The ways to add an entry, the nicest first. Which of them fits depends on how the file is written.
fn additions(old: &str, entries: &[Entry], dir: &Path, level: Trust) -> Vec<String> {
    let (key, value) = (quoted(&dir.to_string_lossy()), quoted(level.as_str()));
    let line = format!("{key} = {value}\n");
    let mut ways = Vec::new();
    if let Some(last) = entries.last() {
        let end = end_of_line(old, last.value.end);
        ways.push(inserted(old, end, &line));
        ways.push(inserted(old, end, &format!("trust.{line}")));
        ways.push(inserted(old, last.value.end, &format!(", {key} = {value}")));
    }
    let header = old.split_inclusive('\n').scan(0, |end, line| {
        *end += line.len();
        Some((*end, line.trim_start().starts_with("[trust]")))
    });
    ways.extend(header.filter(|(_, is_header)| *is_header).map(|(end, _)| inserted(old, end, &line)));
    let gap = if old.is_empty() { "" } else { "\n" };
    ways.push(inserted(old, old.len(), &format!("{gap}[trust]\n{line}")));
    ways
}

/// The ways to take entries out: with their lines, or out of the one line that they share with others.
fn removals(old: &str, about: &[&Entry]) -> Vec<String> {
    let lines = about.iter().map(|entry| {
        let start = old[..entry.key.start].rfind('\n').map_or(0, |newline| newline + 1);
        (start..end_of_line(old, entry.value.end), String::new())
    });
    let with_comma_behind = about.iter().map(|entry| {
        let behind = &old[entry.value.end..];
        let comma = behind.find(',').filter(|at| behind[..*at].trim().is_empty());
        let end = comma.map_or(entry.value.end, |at| entry.value.end + at + 1);
        (entry.key.start..end, String::new())
    });
    let with_comma_before = about.iter().map(|entry| {
        let before = old[..entry.key.start].trim_end();
        let start = if before.ends_with(',') { before.len() - 1 } else { entry.key.start };
        (start..entry.value.end, String::new())
    });
    vec![replaced(old, lines), replaced(old, with_comma_before), replaced(old, with_comma_behind)]
}

/// Behind the line that this offset lies in.
fn end_of_line(text: &str, offset: usize) -> usize {
    text[offset..].find('\n').map_or(text.len(), |newline| offset + newline + 1)
}

fn inserted(old: &str, at: usize, new: &str) -> String {
    let (before, behind) = old.split_at(at);
    let newline =
        if new.ends_with('\n') && !before.is_empty() && !before.ends_with('\n') { "\n" } else { "" };
    format!("{before}{newline}{new}{behind}")
}

/// The text with these parts replaced, which come in order.
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

/// A string of JSON is one of TOML too.
fn quoted(text: &str) -> String {
    serde_json::json!(text).to_string()
}

#[cfg(test)]
mod tests;
