//! Reads unified diffs into files and lines.

use redact::plain::{plain, with_named_breaks};

/// The path of a file that the diff does not name.
pub const UNNAMED: &str = "(no file is named)";

/// One file of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The path, after the change if there is one; [`UNNAMED`] if the diff names none.
    pub path: String,
    /// What happened to the file.
    pub fate: Fate,
    /// How many lines were added.
    pub added: usize,
    /// How many lines were removed.
    pub removed: usize,
    /// The lines.
    pub lines: Vec<Line>,
}

impl File {
    /// Whether the diff names the file.
    pub fn is_named(&self) -> bool {
        self.path != UNNAMED
    }
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The file was created.
    New,
    /// The file was changed.
    Changed,
    /// The file was deleted.
    Deleted,
    /// The file was renamed.
    Moved,
}

/// One line of a file's diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The kind of the line.
    pub kind: LineKind,
    /// The line with its sign.
    pub text: String,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// An added line.
    Added,
    /// A removed line.
    Removed,
    /// A hunk header.
    Hunk,
    /// Anything else.
    Same,
}

/// The files of a diff, in its order. Every line of the text is in one of them. Only a header that says no more than
/// path and fate is left out. Text before any file's name belongs to a file without a name.
///
/// ```
/// use codex_bridge_core::diff::{Fate, files};
///
/// let read = files("--- /dev/null\n+++ b/note.txt\n@@ -0,0 +1 @@\n+hello\n");
/// assert_eq!((read[0].path.as_str(), read[0].fate, read[0].added), ("note.txt", Fate::New, 1));
/// ```
pub fn files(diff: &str) -> Vec<File> {
    let shown = shown(diff);
    let mut reading = Reading::default();
    let mut lines = shown.lines().peekable();
    while let Some(line) = lines.next() {
        if reading.takes(line) {
            continue;
        }
        let after = line.strip_prefix("--- ").and(lines.peek()).filter(|next| next.starts_with("+++ "));
        if let Some(after) = after {
            reading.begin(line, after);
            lines.next();
        } else {
            reading.outside(line);
        }
    }
    reading.end_preamble();
    reading.files
}

/// The lines of a text that may be a diff, by their signs. No line is left out.
pub fn lines(text: &str) -> Vec<Line> {
    shown(text).lines().map(line_of).collect()
}

/// Removes deceptive characters. Unusual line breaks become words: the text behind one would have no sign.
fn shown(text: &str) -> String {
    plain(&with_named_breaks(text)).into_owned()
}

/// The state of reading a diff.
#[derive(Default)]
struct Reading {
    files: Vec<File>,
    /// How many lines of the old and the new file the current hunk still has. A removed line may begin with `--`.
    left: (usize, usize),
    /// What git writes before a file's header, from `diff --git` on.
    preamble: Vec<String>,
}

impl Reading {
    /// Takes the line if it belongs to the current hunk.
    fn takes(&mut self, line: &str) -> bool {
        let is_of_hunk = matches!(line.as_bytes().first(), None | Some(b' ' | b'+' | b'-' | b'\\'));
        if self.left == (0, 0) || !is_of_hunk {
            self.left = (0, 0);
            return false;
        }
        let (old, new) = self.left;
        self.left = match line.as_bytes().first() {
            Some(b'+') => (old, new.saturating_sub(1)),
            Some(b'-') => (old.saturating_sub(1), new),
            Some(b'\\') => (old, new),
            _ => (old.saturating_sub(1), new.saturating_sub(1)),
        };
        self.push(line);
        true
    }

    /// Begins a file by the two lines of its header.
    fn begin(&mut self, before: &str, after: &str) {
        let (old, new) = (path_of(&before[4..]), path_of(&after[4..]));
        let file = file(old, new);
        let says_more = |line: &&str| !is_told_by(&file, line);
        let preamble = std::mem::take(&mut self.preamble);
        let told = preamble.iter().map(String::as_str).chain([before, after]);
        let lines = told.filter(says_more).map(plain_line).collect();
        self.files.push(File { lines, ..file });
    }

    /// Takes a line that belongs neither to a hunk nor to a header.
    fn outside(&mut self, line: &str) {
        if line.starts_with("diff --git ") {
            self.end_preamble();
            self.preamble.push(line.to_owned());
        } else if let Some(lengths) = line.strip_prefix("@@ ").and_then(hunk_lengths) {
            self.end_preamble();
            self.left = lengths;
            self.push(line);
        } else if self.preamble.is_empty() {
            self.push(line);
        } else {
            self.preamble.push(line.to_owned());
        }
    }

    /// Ends a file that has only a preamble, such as a binary file or one that was only renamed.
    fn end_preamble(&mut self) {
        let names = self.preamble.first().and_then(|line| names_of(line));
        let lines: Vec<Line> = self.preamble.drain(..).map(|line| plain_line(&line)).collect();
        if !lines.is_empty() {
            let (old, new) = names.unzip();
            self.files.push(File { lines, ..file(old, new) });
        }
    }

    fn push(&mut self, line: &str) {
        if self.files.is_empty() {
            self.files.push(file(None, None));
        }
        let Some(file) = self.files.last_mut() else { return };
        let line = line_of(line);
        file.added += usize::from(line.kind == LineKind::Added);
        file.removed += usize::from(line.kind == LineKind::Removed);
        file.lines.push(line);
    }
}

/// Whether a line says no more than the file's path and fate.
fn is_told_by(file: &File, line: &str) -> bool {
    let path = &file.path;
    let is_object = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_index = || {
        let objects = line.strip_prefix("index ").and_then(|rest| rest.split(' ').next()?.split_once(".."));
        let is_plain =
            line.split(' ').nth(2).is_none_or(|mode| mode == "100644") && line.split(' ').count() <= 3;
        is_plain && objects.is_some_and(|(old, new)| is_object(old) && is_object(new))
    };
    let ours = [
        format!("--- a/{path}"),
        format!("--- {path}"),
        format!("+++ b/{path}"),
        format!("+++ {path}"),
        format!("diff --git a/{path} b/{path}"),
    ];
    match file.fate {
        Fate::New if line == "--- /dev/null" || line == "new file mode 100644" => true,
        Fate::Deleted if line == "+++ /dev/null" || line == "deleted file mode 100644" => true,
        Fate::Moved => is_index() || line.strip_prefix("+++ b/").or(line.strip_prefix("+++ ")) == Some(path),
        _ => is_index() || (file.is_named() && ours.iter().any(|own| own == line)),
    }
}

fn line_of(line: &str) -> Line {
    let kind = match line.as_bytes().first() {
        Some(b'+') => LineKind::Added,
        Some(b'-') => LineKind::Removed,
        Some(b'@') => LineKind::Hunk,
        _ => LineKind::Same,
    };
    Line { kind, text: line.to_owned() }
}

fn plain_line(line: &str) -> Line {
    Line { kind: LineKind::Same, text: line.to_owned() }
}

fn file(old: Option<String>, new: Option<String>) -> File {
    let (path, fate) = match (old, new) {
        (None, Some(path)) => (path, Fate::New),
        (Some(path), None) => (path, Fate::Deleted),
        (Some(old), Some(path)) if old != path => (path, Fate::Moved),
        (_, Some(path)) => (path, Fate::Changed),
        (None, None) => (UNNAMED.to_owned(), Fate::Changed),
    };
    File { path, fate, added: 0, removed: 0, lines: Vec::new() }
}

/// The names in `diff --git a/old b/new`.
fn names_of(line: &str) -> Option<(String, String)> {
    let (old, new) = line.strip_prefix("diff --git a/")?.split_once(" b/")?;
    Some((old.to_owned(), new.to_owned()))
}

fn path_of(text: &str) -> Option<String> {
    let path = text.split('\t').next().unwrap_or(text).trim_end();
    if path == "/dev/null" {
        return None;
    }
    let path = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path);
    Some(path.to_owned())
}

/// The lengths of the old and the new range in `-1,3 +1,4 @@ …`.
fn hunk_lengths(header: &str) -> Option<(usize, usize)> {
    let length = |range: &str| range.split_once(',').map_or(Some(1), |(_, length)| length.parse().ok());
    let mut ranges = header.split(' ');
    let old = length(ranges.next()?.strip_prefix('-')?)?;
    let new = length(ranges.next()?.strip_prefix('+')?)?;
    Some((old, new))
}

#[cfg(test)]
mod tests;
