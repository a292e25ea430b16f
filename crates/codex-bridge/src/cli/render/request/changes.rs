//! Renders the diffs of a patch that needs approval.

use codex_bridge_core::id::short;
use redact::plain::plain;

use super::continued;
use crate::amount::counted;
use crate::cli::render::paint::Paint;
use crate::view::Request;

/// The number of diff lines that are shown before the rest is folded.
const MAX_LINES: usize = 40;

/// How much of the diffs is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Diffs {
    /// The beginning, with a note where to read the rest.
    Folded,
    /// All lines.
    Whole,
}

/// The files that would change, each with its diff.
pub(super) fn changes(request: &Request, diffs: Diffs, paint: Paint, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut shown, mut hidden) = (0_usize, 0_usize);
    for change in request.changes.iter().flatten() {
        // Every file is named, even if its diff is folded.
        let name = match &change.moved_to {
            Some(target) => format!("{} {} → {target}", change.kind.as_str(), change.path),
            None => format!("{} {}", change.kind.as_str(), change.path),
        };
        lines.extend(indented(&plain(&name), 2, width).map(|line| format!("  {}", paint.strong(&line))));
        let diff = plain(&change.diff);
        // The two header lines only repeat the file's name.
        for line in diff.lines().skip(2) {
            if diffs == Diffs::Folded && shown >= MAX_LINES {
                hidden += 1;
                continue;
            }
            shown += 1;
            lines.extend(indented(line, 4, width).map(|part| format!("    {}", painted(line, &part, paint))));
        }
        if change.cut_bytes > 0 {
            let note = match request.whole_changes_bytes {
                Some(_) => format!(
                    "cut: {} more bytes; `codex-bridge requests {}` shows all",
                    change.cut_bytes,
                    short(&request.task_id)
                ),
                None => format!("cut: {} more bytes of this diff were not stored", change.cut_bytes),
            };
            lines.extend(indented(&note, 4, width).map(|line| format!("    {}", paint.waiting(&line))));
        }
    }
    if hidden > 0 {
        let more = counted(hidden, "more line");
        let note = format!("… {more}; `codex-bridge requests {}` shows all", short(&request.task_id));
        lines.extend(indented(&note, 4, width).map(|line| format!("    {}", paint.waiting(&line))));
    }
    lines
}

fn indented(text: &str, indent: usize, width: usize) -> impl Iterator<Item = String> {
    continued(text, width.saturating_sub(indent)).into_iter()
}

fn painted(line: &str, part: &str, paint: Paint) -> String {
    match line.as_bytes().first() {
        Some(b'+') => paint.good(part),
        Some(b'-') => paint.bad(part),
        Some(b'@' | b'\\') => paint.faint(part),
        _ => part.to_owned(),
    }
}
