//! A diff in short: which files, how many lines came and went. Reads unified diffs; draws nothing.

/// One file of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSummary {
    /// Its path, after the change if it has one.
    pub path: String,
    /// What became of it.
    pub fate: Fate,
    /// Lines that came.
    pub added: usize,
    /// Lines that went.
    pub removed: usize,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is new.
    Added,
    /// It is changed.
    Changed,
    /// It is gone.
    Deleted,
}

/// The files of a diff, in its order.
pub fn summary(diff: &str) -> Vec<FileSummary> {
    let mut files: Vec<FileSummary> = Vec::new();
    // Lines of the old and the new file that the current hunk still holds: a removed line may begin with `--`.
    let (mut old_left, mut new_left) = (0_usize, 0_usize);
    let mut old_path = None;
    for line in diff.lines() {
        if old_left > 0 || new_left > 0 {
            match (line.as_bytes().first(), files.last_mut()) {
                (Some(b'+'), Some(file)) => {
                    file.added += 1;
                    new_left = new_left.saturating_sub(1);
                }
                (Some(b'-'), Some(file)) => {
                    file.removed += 1;
                    old_left = old_left.saturating_sub(1);
                }
                (Some(b'\\'), _) => {}
                _ => {
                    old_left = old_left.saturating_sub(1);
                    new_left = new_left.saturating_sub(1);
                }
            }
        } else if let Some(path) = line.strip_prefix("--- ") {
            old_path = Some(path_of(path));
        } else if let (Some(path), Some(old)) = (line.strip_prefix("+++ "), old_path.take()) {
            files.push(file(old, path_of(path)));
        } else if let Some((old, new)) = line.strip_prefix("@@ ").and_then(hunk_lengths) {
            (old_left, new_left) = (old, new);
        }
    }
    files
}

fn file(old: Option<String>, new: Option<String>) -> FileSummary {
    let (path, fate) = match (old, new) {
        (None, Some(path)) => (path, Fate::Added),
        (Some(path), None) => (path, Fate::Deleted),
        (_, Some(path)) => (path, Fate::Changed),
        (None, None) => (String::new(), Fate::Changed),
    };
    FileSummary { path, fate, added: 0, removed: 0 }
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
    let mut ranges = header.split(' ');
    let old = range_length(ranges.next()?.strip_prefix('-')?)?;
    let new = range_length(ranges.next()?.strip_prefix('+')?)?;
    Some((old, new))
}

fn range_length(range: &str) -> Option<usize> {
    range.split_once(',').map_or(Some(1), |(_, length)| length.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::{Fate, FileSummary, summary};

    const DIFF: &str = "\
diff --git a/note.txt b/note.txt
new file mode 100644
index 0000000..ce01362
--- /dev/null
+++ b/note.txt
@@ -0,0 +1,2 @@
+hello
+++ not a header
diff --git a/src/a.rs b/src/a.rs
--- a/src/a.rs
+++ b/src/a.rs
@@ -1,4 +1,3 @@ fn main() {
 one
--- two
-three
+2
 four
@@ -10 +9 @@
-x
+y
\\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
";

    #[test]
    fn a_diff_is_told_by_its_files() {
        let file = |path: &str, fate, added, removed| FileSummary { path: path.into(), fate, added, removed };
        assert_eq!(
            summary(DIFF),
            [
                file("note.txt", Fate::Added, 2, 0),
                file("src/a.rs", Fate::Changed, 2, 3),
                file("gone", Fate::Deleted, 0, 1),
            ]
        );
    }

    #[test]
    fn what_is_no_diff_has_no_files() {
        assert_eq!(summary("hello\n--- just a dash line\nworld"), []);
        assert_eq!(summary(""), []);
    }
}
