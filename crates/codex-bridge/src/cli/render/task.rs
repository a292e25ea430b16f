//! Renders one task in full, or many as a table.

use codex_bridge_core::id::short;
use codex_bridge_core::task::{ShownStatus, Status};
use jiff::Timestamp;
use redact::plain::plain;

use super::paint::Paint;
use super::request;
use super::width::{columns, cut, pad, wrap};
use crate::amount::{age, duration, tokens};
use crate::view::{ShortTask, Task};

/// Other columns are left out if fewer columns remain for the prompt.
const MIN_PROMPT: usize = 16;
/// In a window narrower than this, ids are shown without `codex-`. Commands accept them in that form.
const NARROW: usize = 60;

/// A task in full.
pub fn task(task: &Task, paint: Paint, width: usize, now_ms: i64) -> Vec<String> {
    let mut lines = vec![format!("{}  {}", paint.strong(short(&task.task_id)), status(task.status, paint))];
    let mut fact = |label: &str, text: &str| lines.extend(fact(label, text, paint, width));
    fact("reason", task.reason.as_deref().unwrap_or_default());
    if let Some(parked) = &task.parked {
        fact("resumes", parked.resume_at.as_deref().unwrap_or("when Codex is logged in"));
    }
    fact("prompt", &task.prompt_summary);
    fact("cwd", &task.cwd);
    fact("model", task.model.as_deref().unwrap_or_default());
    fact("sandbox", &format!("{}, asks: {}", task.sandbox.as_str(), task.approval_policy.as_str()));
    fact("", task.narrowed.as_deref().unwrap_or_default());
    fact("trust", &task.trust.described());
    fact("thread", task.thread_id.as_deref().unwrap_or_default());
    fact("created", &format!("{} ({} ago)", task.created_at, age(since(&task.created_at, now_ms))));
    if let Some(completed_at) = &task.completed_at {
        fact("ended", &format!("{completed_at} (after {})", duration(elapsed_ms(task, now_ms))));
    }
    fact("tokens", &task.usage.map(|usage| tokens(usage.total.total_tokens)).unwrap_or_default());
    if let Some(error) = &task.error {
        fact("error", &format!("{}: {}", error.kind, error.message));
    }
    for pending in &task.pending_requests {
        lines.push(String::new());
        lines.extend(request::request(pending, paint, width));
        lines.push(format!("  {}", paint.faint(short(&pending.request_id))));
    }
    if let Some(answer) = task.final_text.as_deref().filter(|answer| !answer.is_empty()) {
        lines.push(String::new());
        lines.extend(wrap(&plain(answer), width));
    }
    lines
}

fn fact(label: &str, text: &str, paint: Paint, width: usize) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let indent = " ".repeat(10);
    let mut lines = wrap(plain(text).trim_end(), width.saturating_sub(10).max(10)).into_iter();
    let first = format!("  {}{}", paint.faint(&pad(label, 8)), lines.next().unwrap_or_default());
    std::iter::once(first).chain(lines.map(|line| format!("{indent}{line}").trim_end().to_owned())).collect()
}

/// Tasks in a table. In a narrow window the other columns give way to the prompt.
pub fn table(tasks: &[ShortTask], paint: Paint, width: usize, now_ms: i64) -> Vec<String> {
    let id = |task: &ShortTask| {
        let id = short(&task.task_id);
        id.strip_prefix("codex-").filter(|_| width < NARROW).unwrap_or(id).to_owned()
    };
    let id_width = tasks.iter().map(|task| columns(&id(task))).max().unwrap_or(0).max(4);
    let status_width = tasks.iter().map(|task| columns(task.status.word())).max().unwrap_or(0).max(6);
    let with_age = width >= id_width + status_width + 8 + 6 + MIN_PROMPT;
    let with_cwd = width >= id_width + status_width + 8 + 24 + 8 + 2 * MIN_PROMPT;
    let row = |id: &str, status: String, age: &str, cwd: &str, prompt: &str| {
        let mut row = format!("{}  {status}", pad(id, id_width));
        if with_age {
            row = format!("{row}  {}", pad(age, 6));
        }
        if with_cwd {
            row = format!("{row}  {}", pad(&cut_front(cwd, 24), 24));
        }
        let used = id_width + status_width + 4 + if with_age { 8 } else { 0 } + if with_cwd { 26 } else { 0 };
        format!("{row}  {}", cut(prompt, width.saturating_sub(used))).trim_end().to_owned()
    };
    let mut lines = vec![paint.faint(&row("TASK", pad("STATUS", status_width), "AGE", "CWD", "PROMPT"))];
    for task in tasks {
        let shown = task.status.word();
        let status =
            format!("{}{}", painted(task.status, shown, paint), " ".repeat(status_width - columns(shown)));
        let age = age(since(&task.created_at, now_ms));
        lines.push(row(&id(task), status, &age, &plain(&task.cwd), &plain(&task.prompt_summary)));
    }
    lines
}

/// Cuts the beginning of a path, because its end says more.
fn cut_front(path: &str, width: usize) -> String {
    let excess = columns(path).saturating_sub(width);
    if excess == 0 {
        return path.to_owned();
    }
    let mut dropped = 0;
    let kept: String = path
        .chars()
        .skip_while(|char| {
            let is_dropped = dropped <= excess;
            dropped += super::width::char_columns(*char);
            is_dropped
        })
        .collect();
    format!("…{kept}")
}

/// A status in words, in its colour.
pub fn status(status: ShownStatus, paint: Paint) -> String {
    painted(status, status.word(), paint)
}

fn painted(status: ShownStatus, shown: &str, paint: Paint) -> String {
    let ShownStatus::Stored(status) = status else { return paint.waiting(shown) };
    match status {
        Status::Completed => paint.good(shown),
        Status::Failed | Status::Lost => paint.bad(shown),
        Status::Paused => paint.waiting(shown),
        Status::Cancelled | Status::Queued => paint.faint(shown),
        Status::Starting | Status::Working | Status::Interrupting => paint.busy(shown),
    }
}

/// The time from a task's creation to its end, or to now if it has not ended.
pub fn elapsed_ms(task: &Task, now_ms: i64) -> u64 {
    let end = task.completed_at.as_deref().map_or(now_ms, time_ms);
    u64::try_from(end - time_ms(&task.created_at)).unwrap_or(0)
}

/// Parses a time of the daemon into milliseconds since 1970; 0 if it cannot be parsed.
pub fn time_ms(text: &str) -> i64 {
    text.parse().map_or(0, Timestamp::as_millisecond)
}

fn since(time: &str, now_ms: i64) -> u64 {
    u64::try_from(now_ms - time_ms(time)).unwrap_or(0)
}

/// A task's status with its duration, tokens and id: one line, or two in a narrow window.
pub fn ending(task: &Task, took_ms: u64, paint: Paint, width: usize) -> Vec<String> {
    let sign = match task.status {
        ShownStatus::Stored(Status::Completed) => paint.good("✓"),
        ShownStatus::Stored(Status::Failed | Status::Lost) => paint.bad("✗"),
        _ => paint.waiting("■"),
    };
    let status = task.status.word();
    let mut facts = vec![duration(took_ms)];
    facts.extend(task.usage.map(|usage| format!("{} tokens", tokens(usage.total.total_tokens))));
    let facts = facts.join(" · ");
    let line = format!("{sign} {} · {facts}", painted(task.status, status, paint));
    let id = short(&task.task_id);
    let used = columns(status) + columns(&facts) + columns(id) + 8;
    let id = paint.faint(id);
    if used <= width { vec![format!("{line} · {id}")] } else { vec![line, format!("  {id}")] }
}

#[cfg(test)]
mod tests;
