//! Tasks as people read them: one in full, many in a table.

use codex_bridge_core::id::short;
use codex_bridge_core::task::{ShownStatus, Status};
use jiff::Timestamp;
use redact::plain::plain;

use super::paint::Paint;
use super::request;
use super::width::{columns, cut, pad, wrap};
use crate::amount::{age, duration, tokens};
use crate::view::{ShortTask, Task};

/// The columns of a prompt below which other columns give way.
const LEAST_PROMPT: usize = 16;
/// In a window narrower than this, ids lose the word that all of them begin with. They are understood without.
const NARROW: usize = 60;

/// A task in full.
pub fn task(task: &Task, paint: Paint, room: usize, now_ms: i64) -> Vec<String> {
    let mut lines = vec![format!("{}  {}", paint.strong(short(&task.task_id)), status(task.status, paint))];
    let mut fact = |label: &str, said: &str| lines.extend(fact(label, said, paint, room));
    fact("reason", task.reason.as_deref().unwrap_or_default());
    if let Some(parked) = &task.parked {
        fact("goes on", parked.resume_at.as_deref().unwrap_or("when Codex is logged in"));
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
    for asked in &task.pending_requests {
        lines.push(String::new());
        lines.extend(request::request(asked, paint, room));
        lines.push(format!("  {}", paint.faint(short(&asked.request_id))));
    }
    if let Some(answer) = task.final_text.as_deref().filter(|answer| !answer.is_empty()) {
        lines.push(String::new());
        lines.extend(wrap(&plain(answer), room));
    }
    lines
}

fn fact(label: &str, said: &str, paint: Paint, room: usize) -> Vec<String> {
    if said.is_empty() {
        return Vec::new();
    }
    let indent = " ".repeat(10);
    let mut lines = wrap(plain(said).trim_end(), room.saturating_sub(10).max(10)).into_iter();
    let first = format!("  {}{}", paint.faint(&pad(label, 8)), lines.next().unwrap_or_default());
    std::iter::once(first).chain(lines.map(|line| format!("{indent}{line}").trim_end().to_owned())).collect()
}

/// Tasks in a table. In a narrow window the prompt stays and the rest goes.
pub fn table(tasks: &[ShortTask], paint: Paint, room: usize, now_ms: i64) -> Vec<String> {
    let id = |task: &ShortTask| {
        let id = short(&task.task_id);
        id.strip_prefix("codex-").filter(|_| room < NARROW).unwrap_or(id).to_owned()
    };
    let id_width = tasks.iter().map(|task| columns(&id(task))).max().unwrap_or(0).max(4);
    let status_width = tasks.iter().map(|task| columns(task.status.word())).max().unwrap_or(0).max(6);
    let with_age = room >= id_width + status_width + 8 + 6 + LEAST_PROMPT;
    let with_cwd = room >= id_width + status_width + 8 + 24 + 8 + 2 * LEAST_PROMPT;
    let row = |id: &str, status: String, age: &str, cwd: &str, prompt: &str| {
        let mut row = format!("{}  {status}", pad(id, id_width));
        if with_age {
            row = format!("{row}  {}", pad(age, 6));
        }
        if with_cwd {
            row = format!("{row}  {}", pad(&cut_front(cwd, 24), 24));
        }
        let used = id_width + status_width + 4 + if with_age { 8 } else { 0 } + if with_cwd { 26 } else { 0 };
        format!("{row}  {}", cut(prompt, room.saturating_sub(used))).trim_end().to_owned()
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

/// The end of a path says more than its beginning.
fn cut_front(path: &str, room: usize) -> String {
    let excess = columns(path).saturating_sub(room);
    if excess == 0 {
        return path.to_owned();
    }
    let mut dropped = 0;
    let kept: String = path
        .chars()
        .skip_while(|char| {
            let drops = dropped <= excess;
            dropped += super::width::char_columns(*char);
            drops
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

/// From a task's hand-over to its end, or to now if it has none.
pub fn elapsed_ms(task: &Task, now_ms: i64) -> u64 {
    let end = task.completed_at.as_deref().map_or(now_ms, time_ms);
    u64::try_from(end - time_ms(&task.created_at)).unwrap_or(0)
}

/// A time as the daemon writes it, in milliseconds since 1970; 0 if it is none.
pub fn time_ms(text: &str) -> i64 {
    text.parse().map_or(0, Timestamp::as_millisecond)
}

fn since(time: &str, now_ms: i64) -> u64 {
    u64::try_from(now_ms - time_ms(time)).unwrap_or(0)
}

/// How a task stands after so much time: one line, or two where there is no room.
pub fn ending(task: &Task, took_ms: u64, paint: Paint, room: usize) -> Vec<String> {
    let sign = match task.status {
        ShownStatus::Stored(Status::Completed) => paint.good("✓"),
        ShownStatus::Stored(Status::Failed | Status::Lost) => paint.bad("✗"),
        _ => paint.waiting("■"),
    };
    let words = task.status.word();
    let mut said = vec![duration(took_ms)];
    said.extend(task.usage.map(|usage| format!("{} tokens", tokens(usage.total.total_tokens))));
    let said = said.join(" · ");
    let line = format!("{sign} {} · {said}", painted(task.status, words, paint));
    let id = short(&task.task_id);
    let used = columns(words) + columns(&said) + columns(id) + 8;
    let id = paint.faint(id);
    if used <= room { vec![format!("{line} · {id}")] } else { vec![line, format!("  {id}")] }
}

#[cfg(test)]
mod tests;
