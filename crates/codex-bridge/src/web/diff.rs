//! A diff for a page: files with coloured lines, and how much of them is not shown. Knows no HTML.

use codex_bridge_core::diff::{self, Fate, LineKind};

use super::words;

/// One file of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The path, after the change if the file still exists.
    pub path: String,
    /// What the diff does to the file: `new`, `changed`, `deleted`, `moved`.
    pub fate: &'static str,
    /// Added lines.
    pub added: usize,
    /// Removed lines.
    pub removed: usize,
    /// How many added and removed lines are shown, if not all are.
    pub shown: Option<(usize, usize)>,
    /// The shown lines.
    pub lines: Vec<Line>,
    /// A sentence about what is not shown.
    pub missing: Option<String>,
    /// Whether the file is part of a request. Then it is not folded.
    pub is_in_request: bool,
}

impl File {
    /// The number of added lines, such as `+1,600, 63 shown`.
    pub fn plus(&self) -> String {
        count('+', self.added, self.shown.map(|(added, _)| added))
    }

    /// The number of removed lines.
    pub fn minus(&self) -> String {
        count('−', self.removed, self.shown.map(|(_, removed)| removed))
    }

    /// The lines, with neighbours of one colour joined: a file of many thousand lines needs few elements.
    pub fn runs(&self) -> Vec<Line> {
        let mut runs: Vec<Line> = Vec::new();
        for line in &self.lines {
            match runs.last_mut() {
                Some(run) if run.class == line.class => run.text.extend(["\n", &line.text]),
                _ => runs.push(line.clone()),
            }
        }
        runs
    }

    /// How many added and removed lines are shown.
    pub fn shown_changes(&self) -> (usize, usize) {
        let count = |class| self.lines.iter().filter(|line| line.class == class).count();
        (count("add"), count("del"))
    }
}

fn count(sign: char, all: usize, shown: Option<usize>) -> String {
    match shown.filter(|shown| *shown != all) {
        Some(shown) => format!("{sign}{}, {} shown", words::count(all), words::count(shown)),
        None => format!("{sign}{}", words::count(all)),
    }
}

/// One line of a file's diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The CSS class: `add`, `del`, `hunk` or `same`.
    pub class: &'static str,
    /// The line with its sign.
    pub text: String,
}

/// The files of a diff, in the order of the diff.
pub fn files(diff: &str) -> Vec<File> {
    diff::files(diff).into_iter().map(File::from).collect()
}

/// All lines of a text, coloured as those of a diff.
pub fn lines(text: &str) -> Vec<Line> {
    diff::lines(text).into_iter().map(Line::from).collect()
}

impl From<diff::File> for File {
    fn from(file: diff::File) -> Self {
        Self {
            fate: match file.fate {
                Fate::New => "new",
                Fate::Changed => "changed",
                Fate::Deleted => "deleted",
                Fate::Moved => "moved",
            },
            path: file.path,
            added: file.added,
            removed: file.removed,
            shown: None,
            lines: file.lines.into_iter().map(Line::from).collect(),
            missing: None,
            is_in_request: false,
        }
    }
}

impl From<diff::Line> for Line {
    fn from(line: diff::Line) -> Self {
        let class = match line.kind {
            LineKind::Added => "add",
            LineKind::Removed => "del",
            LineKind::Hunk => "hunk",
            LineKind::Same => "same",
        };
        Self { class, text: line.text }
    }
}

/// Cuts the diff to `lines` lines and notes per file how many are hidden.
pub fn bound(files: &mut [File], mut lines: usize) {
    for file in files {
        let missing = file.lines.len().saturating_sub(lines);
        file.lines.truncate(lines);
        lines -= file.lines.len();
        file.missing = (missing > 0).then(|| format!("{missing} more lines are not shown here"));
        file.shown = (missing > 0).then(|| file.shown_changes());
    }
}

#[cfg(test)]
mod tests {
    use super::{bound, files};

    const DIFF: &str = "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+<b>\n+++ x\n\
        --- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,2 @@ fn\n one\n--- two\n-three\n+2\n\\ No newline at end of file\n";

    #[test]
    fn missing_lines_are_counted() {
        let mut read = files(DIFF);
        bound(&mut read, 4);
        assert_eq!((read[0].lines.len(), read[1].lines.len()), (3, 1));
        assert_eq!(read[0].missing, None);
        assert_eq!(read[1].missing.as_deref(), Some("5 more lines are not shown here"));
        assert_eq!([read[1].plus(), read[1].minus()], ["+1, 0 shown", "−2, 0 shown"]);
        assert_eq!([read[0].plus(), read[0].minus()], ["+2", "−0"]);
    }

    #[test]
    fn neighbours_of_one_colour_are_joined() {
        let runs = files("--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n+a\n+b\n-c\n d\n")[0].runs();
        let found: Vec<(&str, &str)> = runs.iter().map(|run| (run.class, run.text.as_str())).collect();
        assert_eq!(found, [("hunk", "@@ -1,2 +1,2 @@"), ("add", "+a\n+b"), ("del", "-c"), ("same", " d")]);
    }
}
