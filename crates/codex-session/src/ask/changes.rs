//! A patch, in one line (`2 add, 1 update: a, b, c, +4 more`) and as a diff of each file.

use codex_wire::item::{Change, ChangeKind};
use redact::approval::TextKind;
use redact::plain::with_named_breaks;

use super::clean::Cleaner;
use super::{ShownChange, ShownChangeKind};

/// How many files a summary names.
const MAX_NAMED: usize = 3;
/// Most bytes of all diffs of a patch together.
const MAX_DIFF_BYTES: usize = 8 * 1024 * 1024;

/// The summary of a patch; `1 change pending` when its item is unknown or names no file.
pub(super) fn summary(changes: &[Change], cleaner: &mut Cleaner<'_>) -> String {
    if changes.is_empty() {
        return "1 change pending".to_owned();
    }
    let count = |kind| changes.iter().filter(|change| shown_kind(&change.kind) == kind).count();
    let counts: Vec<String> = ShownChangeKind::ALL
        .into_iter()
        .map(|kind| (kind, count(kind)))
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {}", kind.as_str()))
        .collect();
    let mut names: Vec<String> = changes.iter().take(MAX_NAMED).map(|change| name(change, cleaner)).collect();
    if changes.len() > MAX_NAMED {
        names.push(format!("+{} more", changes.len() - MAX_NAMED));
    }
    format!("{}: {}", counts.join(", "), names.join(", "))
}

fn shown_kind(kind: &ChangeKind) -> ShownChangeKind {
    match kind {
        ChangeKind::Add => ShownChangeKind::Add,
        ChangeKind::Update { .. } => ShownChangeKind::Update,
        ChangeKind::Delete => ShownChangeKind::Delete,
        ChangeKind::Other(_) => ShownChangeKind::Other,
    }
}

fn name(change: &Change, cleaner: &mut Cleaner<'_>) -> String {
    let path = if change.path.is_empty() { "(unnamed)".to_owned() } else { cleaner.place(&change.path) };
    match &change.kind {
        ChangeKind::Update { move_path: Some(target) } => format!("{path} → {}", cleaner.place(target)),
        _ => path,
    }
}

/// The `---` and `+++` lines.
const HEADER_LINES: usize = 2;

/// The files of a patch with their diffs, whole up to the bound.
pub(super) fn shown(changes: &[Change], cleaner: &mut Cleaner<'_>) -> Vec<ShownChange> {
    let mut shown: Vec<ShownChange> = changes.iter().map(|change| whole(change, cleaner)).collect();
    cut(&mut shown, MAX_DIFF_BYTES);
    shown
}

/// Cuts diffs to `bytes` in total.
pub(super) fn cut(shown: &mut [ShownChange], bytes: usize) {
    // Small diffs stay whole; the large ones share the rest.
    let mut by_size: Vec<usize> = (0..shown.len()).collect();
    by_size.sort_by_key(|&index| shown[index].diff.len());
    let mut room = bytes;
    for (place, index) in by_size.into_iter().enumerate() {
        let share = room / (shown.len() - place);
        shown[index].cut_to(share);
        room = room.saturating_sub(shown[index].diff.len());
    }
}

fn whole(change: &Change, cleaner: &mut Cleaner<'_>) -> ShownChange {
    // Secrets in the names were counted in the summary.
    let mut names = cleaner.uncounted();
    let path = names.place(&change.path);
    let moved_to = match &change.kind {
        ChangeKind::Update { move_path } => move_path.as_deref().map(|target| names.place(target)),
        _ => None,
    };
    let text = cleaner.verbatim(&with_named_breaks(&change.diff), TextKind::Excerpt);
    let after = moved_to.as_deref().unwrap_or(&path);
    let diff = match &change.kind {
        // codex 0.166 sends the content of these two, and hunks for the others.
        ChangeKind::Add => format!("--- /dev/null\n+++ {path}\n{}", all_lines(&text, '+')),
        ChangeKind::Delete => format!("--- {path}\n+++ /dev/null\n{}", all_lines(&text, '-')),
        ChangeKind::Update { .. } | ChangeKind::Other(_) => format!("--- {path}\n+++ {after}\n{text}"),
    };
    let lines = diff.lines().skip(HEADER_LINES);
    let count = |sign: char| lines.clone().filter(|line| line.starts_with(sign)).count();
    let (added_lines, removed_lines) = (Some(count('+')), Some(count('-')));
    ShownChange {
        path,
        kind: shown_kind(&change.kind),
        moved_to,
        diff,
        added_lines,
        removed_lines,
        cut_bytes: 0,
    }
}

/// One hunk that adds or removes every line of a text.
fn all_lines(text: &str, sign: char) -> String {
    if text.is_empty() {
        return String::new();
    }
    let count = text.lines().count();
    let header = match sign {
        '+' => format!("@@ -0,0 +1,{count} @@\n"),
        _ => format!("@@ -1,{count} +0,0 @@\n"),
    };
    let mut hunk = header;
    for line in text.lines() {
        hunk.push(sign);
        hunk.push_str(line);
        hunk.push('\n');
    }
    if !text.ends_with('\n') {
        hunk.push_str("\\ No newline at end of file\n");
    }
    hunk
}

impl ShownChange {
    /// Cuts the diff at the end of a line, if it is longer than `bytes`.
    fn cut_to(&mut self, bytes: usize) {
        if self.diff.len() <= bytes {
            return;
        }
        let kept = self.diff.floor_char_boundary(bytes);
        // A very long line is cut inside, so that its beginning is shown.
        let whole_lines = self.diff[..kept].rfind('\n').map_or(0, |end| end + 1);
        let kept = if whole_lines >= kept / 2 { whole_lines } else { kept };
        self.cut_bytes += self.diff.len() - kept;
        self.diff.truncate(kept);
    }
}
