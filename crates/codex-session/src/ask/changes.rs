//! A patch in one line: `2 add, 1 update: a, b, c, +4 more`.

use codex_wire::item::{Change, ChangeKind};

use super::clean::Cleaner;

/// How many files a summary names.
const MAX_NAMED: usize = 3;

/// The summary of a patch; `1 change pending` when its item is unknown or names no file.
pub(super) fn summary(changes: &[Change], cleaner: &mut Cleaner<'_>) -> String {
    if changes.is_empty() {
        return "1 change pending".to_owned();
    }
    let count = |kind: &str| changes.iter().filter(|change| word(&change.kind) == kind).count();
    let counts: Vec<String> = ["add", "update", "delete", "other"]
        .into_iter()
        .map(|kind| (kind, count(kind)))
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let mut names: Vec<String> = changes.iter().take(MAX_NAMED).map(|change| name(change, cleaner)).collect();
    if changes.len() > MAX_NAMED {
        names.push(format!("+{} more", changes.len() - MAX_NAMED));
    }
    format!("{}: {}", counts.join(", "), names.join(", "))
}

fn word(kind: &ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Add => "add",
        ChangeKind::Update { .. } => "update",
        ChangeKind::Delete => "delete",
        ChangeKind::Other(_) => "other",
    }
}

fn name(change: &Change, cleaner: &mut Cleaner<'_>) -> String {
    let path = if change.path.is_empty() { "(unnamed)".to_owned() } else { cleaner.line(&change.path) };
    match &change.kind {
        ChangeKind::Update { move_path: Some(target) } => format!("{path} → {}", cleaner.line(target)),
        _ => path,
    }
}
