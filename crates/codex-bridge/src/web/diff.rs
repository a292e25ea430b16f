//! A unified diff as it is coloured: files with their lines. Knows no HTML.

use redact::plain::plain;

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
    /// All lines that are shown.
    pub lines: Vec<Line>,
    /// What is not shown, in a sentence.
    pub missing: Option<String>,
}

/// One line of a file's diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `add`, `del`, `hunk` or `same`: the name of its colour.
    pub class: &'static str,
    /// The line with its sign.
    pub text: String,
}

/// The files of a diff, in its order. Text that is no diff has none.
pub fn files(diff: &str) -> Vec<File> {
    let diff = plain(diff);
    let mut files: Vec<File> = Vec::new();
    // Lines of the old and the new file that the current hunk still holds: a removed line may begin with `--`.
    let (mut old_left, mut new_left) = (0_usize, 0_usize);
    let mut old_path = None;
    for line in diff.lines() {
        if let (true, Some(file)) = (old_left > 0 || new_left > 0, files.last_mut()) {
            let class = class_of(line);
            match class {
                "add" => (file.added, new_left) = (file.added + 1, new_left.saturating_sub(1)),
                "del" => (file.removed, old_left) = (file.removed + 1, old_left.saturating_sub(1)),
                _ if line.starts_with('\\') => {}
                _ => (old_left, new_left) = (old_left.saturating_sub(1), new_left.saturating_sub(1)),
            }
            file.lines.push(Line { class, text: line.to_owned() });
        } else if let Some(path) = line.strip_prefix("--- ") {
            old_path = Some(path_of(path));
        } else if let (Some(path), Some(old)) = (line.strip_prefix("+++ "), old_path.take()) {
            files.push(file(old, path_of(path)));
        } else if let (Some(lengths), Some(file)) =
            (line.strip_prefix("@@ ").and_then(hunk_lengths), files.last_mut())
        {
            (old_left, new_left) = lengths;
            file.lines.push(Line { class: "hunk", text: line.to_owned() });
        } else if let (true, Some(file)) = (line.starts_with('\\'), files.last_mut()) {
            file.lines.push(Line { class: "same", text: line.to_owned() });
        }
    }
    files
}

/// The lines of a text that may be a diff, coloured by their signs: nothing of it is left out.
pub fn lines(text: &str) -> Vec<Line> {
    plain(text).lines().map(|line| Line { class: class_of(line), text: line.to_owned() }).collect()
}

/// Keeps so many lines in all, and says of each file how many are missing.
pub fn bound(files: &mut [File], mut lines: usize) {
    for file in files {
        let missing = file.lines.len().saturating_sub(lines);
        file.lines.truncate(lines);
        lines -= file.lines.len();
        file.missing = (missing > 0).then(|| format!("{missing} more lines are not shown here"));
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
        (None, None) => (String::new(), "changed"),
    };
    File { path, fate, added: 0, removed: 0, lines: Vec::new(), missing: None }
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
    use super::{bound, files, lines};

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
    }

    #[test]
    fn what_is_no_diff_keeps_its_lines() {
        assert_eq!(files("hello\n--- just a dash line\nworld"), []);
        assert_eq!(lines("hello\n-x").len(), 2);
    }
}
