//! A unified diff as it is coloured: files with their lines. Knows no HTML.

use redact::plain::{plain, with_named_breaks};

use super::words;

/// Stands for the path of a file that has none.
const UNNAMED: &str = "(no file is named)";

/// One file of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path, after the change if it has one.
    pub path: String,
    /// What became of it: `new`, `changed`, `deleted`, `moved`.
    pub fate: &'static str,
    /// Lines that came.
    pub added: usize,
    /// Lines that went.
    pub removed: usize,
    /// How many of those are shown, if not all are.
    pub shown: Option<(usize, usize)>,
    /// All lines that are shown.
    pub lines: Vec<Line>,
    /// What is not shown, in a sentence.
    pub missing: Option<String>,
    /// Whether somebody decides on it: then nothing of it is folded away.
    pub is_decided_on: bool,
}

impl File {
    /// The lines that came, in words: `+1,600, 63 shown`.
    pub fn plus(&self) -> String {
        counted('+', self.added, self.shown.map(|(added, _)| added))
    }

    /// The lines that went.
    pub fn minus(&self) -> String {
        counted('−', self.removed, self.shown.map(|(_, removed)| removed))
    }

    /// Lines of one colour that follow each other, as one text: a file of many thousand lines stays light.
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

    /// How many of the lines that are here came, and how many went.
    pub fn changed_here(&self) -> (usize, usize) {
        let count = |class| self.lines.iter().filter(|line| line.class == class).count();
        (count("add"), count("del"))
    }
}

fn counted(sign: char, all: usize, shown: Option<usize>) -> String {
    match shown.filter(|shown| *shown != all) {
        Some(shown) => format!("{sign}{}, {} shown", words::count(all), words::count(shown)),
        None => format!("{sign}{}", words::count(all)),
    }
}

/// One line of a file's diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `add`, `del`, `hunk` or `same`: the name of its colour.
    pub class: &'static str,
    /// The line with its sign.
    pub text: String,
}

/// The files of a diff, in its order. Every line of the text is shown somewhere, whatever it looks like: only a header that
/// says no more than the path and the fate above it is left out. Text without a file's name is of a file without one.
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

/// The lines of a text that may be a diff, coloured by their signs: nothing of it is left out.
pub fn lines(text: &str) -> Vec<Line> {
    shown(text).lines().map(line_of).collect()
}

/// Without what deceives the eye. What some take for the end of a line is named: behind it, a line would have no sign.
fn shown(text: &str) -> String {
    plain(&with_named_breaks(text)).into_owned()
}

/// A diff that is being read.
#[derive(Default)]
struct Reading {
    files: Vec<File>,
    /// Lines of the old and the new file that the current hunk still holds: a removed line may begin with `--`.
    left: (usize, usize),
    /// What git says before the header of a file, from `diff --git` on.
    preamble: Vec<String>,
}

impl Reading {
    /// Takes a line of the current hunk, if it is one.
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

    /// A file by the two lines of its header.
    fn begin(&mut self, before: &str, after: &str) {
        let (old, new) = (path_of(&before[4..]), path_of(&after[4..]));
        let file = file(old, new);
        let says_more = |line: &&str| !is_told_by(&file, line);
        let preamble = std::mem::take(&mut self.preamble);
        let told = preamble.iter().map(String::as_str).chain([before, after]);
        let lines = told.filter(says_more).map(plain_line).collect();
        self.files.push(File { lines, ..file });
    }

    /// A line that is neither of a hunk nor of a header.
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

    /// A file that has no more than a preamble, as one that is binary or was only moved.
    fn end_preamble(&mut self) {
        let lines: Vec<Line> = self.preamble.drain(..).map(|line| plain_line(&line)).collect();
        if !lines.is_empty() {
            self.files.push(File { lines, ..file(None, None) });
        }
    }

    fn push(&mut self, line: &str) {
        if self.files.is_empty() {
            self.files.push(file(None, None));
        }
        let Some(file) = self.files.last_mut() else { return };
        let line = line_of(line);
        file.added += usize::from(line.class == "add");
        file.removed += usize::from(line.class == "del");
        file.lines.push(line);
    }
}

/// Whether a line says no more than what stands above the file's lines.
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
        "new" if line == "--- /dev/null" || line == "new file mode 100644" => true,
        "deleted" if line == "+++ /dev/null" || line == "deleted file mode 100644" => true,
        "moved" => is_index() || line.strip_prefix("+++ b/").or(line.strip_prefix("+++ ")) == Some(path),
        _ => is_index() || (file.path != UNNAMED && ours.iter().any(|own| own == line)),
    }
}

fn line_of(line: &str) -> Line {
    Line { class: class_of(line), text: line.to_owned() }
}

fn plain_line(line: &str) -> Line {
    Line { class: "same", text: line.to_owned() }
}

/// Keeps so many lines in all, and says of each file how many are missing.
pub fn bound(files: &mut [File], mut lines: usize) {
    for file in files {
        let missing = file.lines.len().saturating_sub(lines);
        file.lines.truncate(lines);
        lines -= file.lines.len();
        file.missing = (missing > 0).then(|| format!("{missing} more lines are not shown here"));
        file.shown = (missing > 0).then(|| file.changed_here());
    }
}

fn class_of(line: &str) -> &'static str {
    match line.as_bytes().first() {
        Some(b'+') => "add",
        Some(b'-') => "del",
        Some(b'@') => "hunk",
        _ => "same",
    }
}

fn file(old: Option<String>, new: Option<String>) -> File {
    let (path, fate) = match (old, new) {
        (None, Some(path)) => (path, "new"),
        (Some(path), None) => (path, "deleted"),
        (Some(old), Some(path)) if old != path => (path, "moved"),
        (_, Some(path)) => (path, "changed"),
        (None, None) => (UNNAMED.to_owned(), "changed"),
    };
    File {
        path,
        fate,
        added: 0,
        removed: 0,
        shown: None,
        lines: Vec::new(),
        missing: None,
        is_decided_on: false,
    }
}

fn path_of(text: &str) -> Option<String> {
    let path = text.split('\t').next().unwrap_or(text).trim_end();
    if path == "/dev/null" {
        return None;
    }
    let path = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path);
    Some(path.to_owned())
}

/// `-1,3 +1,4 @@ …` in lines of the old and the new file.
fn hunk_lengths(header: &str) -> Option<(usize, usize)> {
    let length = |range: &str| range.split_once(',').map_or(Some(1), |(_, length)| length.parse().ok());
    let mut ranges = header.split(' ');
    let old = length(ranges.next()?.strip_prefix('-')?)?;
    let new = length(ranges.next()?.strip_prefix('+')?)?;
    Some((old, new))
}

#[cfg(test)]
mod tests {
    use super::{File, UNNAMED, bound, files, lines};

    const DIFF: &str = "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+<b>\n+++ x\n\
        --- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,2 @@ fn\n one\n--- two\n-three\n+2\n\\ No newline at end of file\n";

    #[test]
    fn a_diff_is_read_by_its_files_and_lines() {
        let read = files(DIFF);
        let told: Vec<(&str, &str, usize, usize)> =
            read.iter().map(|it| (it.path.as_str(), it.fate, it.added, it.removed)).collect();
        assert_eq!(told, [("n", "new", 2, 0), ("a.rs", "changed", 1, 2)]);
        let classes: Vec<&str> = read[1].lines.iter().map(|line| line.class).collect();
        assert_eq!(classes, ["hunk", "same", "del", "del", "add", "same"]);
        assert_eq!(read[0].lines[1].text, "+<b>");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let mut read = files(DIFF);
        bound(&mut read, 4);
        assert_eq!((read[0].lines.len(), read[1].lines.len()), (3, 1));
        assert_eq!(read[0].missing, None);
        assert_eq!(read[1].missing.as_deref(), Some("5 more lines are not shown here"));
        assert_eq!([read[1].plus(), read[1].minus()], ["+1, 0 shown", "−2, 0 shown"]);
        assert_eq!([read[0].plus(), read[0].minus()], ["+2", "−0"]);
    }

    #[test]
    fn lines_of_one_colour_are_one_text() {
        let runs = files("--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n+a\n+b\n-c\n d\n")[0].runs();
        let told: Vec<(&str, &str)> = runs.iter().map(|run| (run.class, run.text.as_str())).collect();
        assert_eq!(told, [("hunk", "@@ -1,2 +1,2 @@"), ("add", "+a\n+b"), ("del", "-c"), ("same", " d")]);
    }

    #[test]
    fn what_is_no_diff_keeps_its_lines() {
        let read = files("hello\n--- just a dash line\nworld");
        assert_eq!((read.len(), read[0].path.as_str(), read[0].lines.len()), (1, UNNAMED, 3));
        assert_eq!(lines("hello\n-x").len(), 2);
        assert_eq!(files(""), []);
    }

    #[test]
    fn what_git_says_of_a_file_is_shown_if_the_head_does_not() {
        let diff = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\nindex 1a..2b\n--- a/run\n+++ b/run\n\
            @@ -1 +1 @@\n-a\n+b\ndiff --git a/i.png b/i.png\nBinary files a/i.png and b/i.png differ\n\
            --- a/old\n+++ b/new\n";
        let texts = |file: &File| file.lines.iter().map(|line| line.text.clone()).collect::<Vec<_>>();
        let read = files(diff);
        assert_eq!(texts(&read[0]), ["old mode 100644", "new mode 100755", "@@ -1 +1 @@", "-a", "+b"]);
        assert_eq!((read[1].path.as_str(), read[1].fate), ("new", "moved"));
        assert_eq!(
            texts(&read[1]),
            ["diff --git a/i.png b/i.png", "Binary files a/i.png and b/i.png differ", "--- a/old"]
        );
        let moved = files("diff --git a/x b/y\nrename from x\nrename to y\n");
        assert_eq!((moved.len(), texts(&moved[0]).len()), (1, 3));
    }

    #[test]
    fn what_some_take_for_the_end_of_a_line_is_named() {
        let read = files("--- a/a\n+++ b/a\n@@ -0,0 +1 @@\n+// x\u{2028}rm\u{b}-rf\u{85}y\rz\r\n");
        assert_eq!(read[0].lines[1].text, "+// x⟨U+2028⟩rm⟨U+000B⟩-rf⟨U+0085⟩y⟨U+000D⟩z");
        assert_eq!(lines("+a\u{c}b\u{2029}c")[0].text, "+a⟨U+000C⟩b⟨U+2029⟩c");
    }

    /// Lines that are one thing in one place and another elsewhere. Each is another one, so that none stands for another.
    const NASTY: [&str; 13] = [
        "--- a/one",
        "+++ b/one",
        "--- /dev/null",
        "+++ two\tand more",
        "@@ -1,2 +1 @@",
        "@@ -0,0 +1,99 @@ fn",
        "@@ no hunk",
        "+added",
        "-removed",
        "\\ No newline",
        "just words",
        "diff --git a/one b/one",
        "index 1a2b..3c4d 100755",
    ];

    /// Whether a line is shown: as it is, or as the head of a file.
    fn is_shown(files: &[File], line: &str) -> bool {
        let as_head = |file: &File| match line {
            "--- a/one" => file.path == "one" && file.fate != "moved",
            "+++ b/one" | "diff --git a/one b/one" => file.path == "one",
            "--- /dev/null" => file.fate == "new",
            _ => false,
        };
        files.iter().any(|file| as_head(file) || file.lines.iter().any(|shown| shown.text == line))
    }

    #[test]
    fn no_line_of_any_diff_is_hidden() {
        let kinds = NASTY.len();
        for number in 0..kinds.pow(5) {
            let picked = (0..5).map(|place| NASTY[number / kinds.pow(place) % kinds]);
            let diff: Vec<&str> = picked.collect();
            let mut read = files(&diff.join("\n"));
            for line in &diff {
                assert!(is_shown(&read, line), "{line:?} of {diff:#?} is not in {read:#?}");
            }
            let all: usize = read.iter().map(|file| file.lines.len()).sum();
            bound(&mut read, 1);
            let told = read.iter().filter_map(|file| file.missing.as_deref());
            let missing: usize =
                told.map(|said| said.split(' ').next().unwrap().parse::<usize>().unwrap()).sum();
            let kept: usize = read.iter().map(|file| file.lines.len()).sum();
            assert_eq!(kept + missing, all, "{diff:?}");
        }
    }
}
