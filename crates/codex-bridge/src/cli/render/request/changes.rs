//! The diffs of a patch that waits for an answer, line by line.

use codex_bridge_core::id::short;
use redact::plain::plain;

use super::continued;
use crate::amount::counted;
use crate::cli::render::paint::Paint;
use crate::view::Request;

/// So many lines of diffs are shown before the rest is folded.
const MAX_LINES: usize = 40;

/// How much of the diffs is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Diffs {
    /// The beginning, and where to read the rest.
    Folded,
    /// All that there is.
    Whole,
}

/// The files that would change, each with its diff.
pub(super) fn changes(request: &Request, diffs: Diffs, paint: Paint, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut shown, mut hidden) = (0_usize, 0_usize);
    for change in request.changes.iter().flatten() {
        // A file is named even if nothing of it is shown.
        let name = match &change.moved_to {
            Some(target) => format!("{} {} → {target}", change.kind.as_str(), change.path),
            None => format!("{} {}", change.kind.as_str(), change.path),
        };
        lines.extend(indented(&plain(&name), 2, room).map(|line| format!("  {}", paint.strong(&line))));
        let diff = plain(&change.diff);
        // The name of the file says what the two lines of header do.
        for line in diff.lines().skip(2) {
            if diffs == Diffs::Folded && shown >= MAX_LINES {
                hidden += 1;
                continue;
            }
            shown += 1;
            lines.extend(indented(line, 4, room).map(|part| format!("    {}", painted(line, &part, paint))));
        }
        if change.cut_bytes > 0 {
            let said = match request.whole_changes_bytes {
                Some(_) => format!(
                    "cut: {} more bytes; `codex-bridge requests {}` shows all",
                    change.cut_bytes,
                    short(&request.task_id)
                ),
                None => format!("cut: {} more bytes of this diff were not kept", change.cut_bytes),
            };
            lines.extend(indented(&said, 4, room).map(|line| format!("    {}", paint.waiting(&line))));
        }
    }
    if hidden > 0 {
        let more = counted(hidden, "more line");
        let said = format!("… {more}; `codex-bridge requests {}` shows all", short(&request.task_id));
        lines.extend(indented(&said, 4, room).map(|line| format!("    {}", paint.waiting(&line))));
    }
    lines
}

fn indented(text: &str, indent: usize, room: usize) -> impl Iterator<Item = String> {
    continued(text, room.saturating_sub(indent)).into_iter()
}

fn painted(line: &str, part: &str, paint: Paint) -> String {
    match line.as_bytes().first() {
        Some(b'+') => paint.good(part),
        Some(b'-') => paint.bad(part),
        Some(b'@' | b'\\') => paint.faint(part),
        _ => part.to_owned(),
    }
}
