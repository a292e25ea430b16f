use super::LineKind::{Added, Hunk, Removed, Same};
use super::{Fate, File, LineKind, UNNAMED, files, lines};

const DIFF: &str = "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+<b>\n+++ x\n\
    --- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,2 @@ fn\n one\n--- two\n-three\n+2\n\\ No newline at end of file\n";

#[test]
fn a_diff_is_read_by_its_files_and_lines() {
    let read = files(DIFF);
    let told: Vec<(&str, Fate, usize, usize)> =
        read.iter().map(|it| (it.path.as_str(), it.fate, it.added, it.removed)).collect();
    assert_eq!(told, [("n", Fate::New, 2, 0), ("a.rs", Fate::Changed, 1, 2)]);
    let kinds: Vec<LineKind> = read[1].lines.iter().map(|line| line.kind).collect();
    assert_eq!(kinds, [Hunk, Same, Removed, Removed, Added, Same]);
    assert_eq!(read[0].lines[1].text, "+<b>");
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
    assert_eq!((read[1].path.as_str(), read[1].fate), ("new", Fate::Moved));
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
        "--- a/one" => file.path == "one" && file.fate != Fate::Moved,
        "+++ b/one" | "diff --git a/one b/one" => file.path == "one",
        "--- /dev/null" => file.fate == Fate::New,
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
        let read = files(&diff.join("\n"));
        for line in &diff {
            assert!(is_shown(&read, line), "{line:?} of {diff:#?} is not in {read:#?}");
        }
    }
}
