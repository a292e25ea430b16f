//! Finds the process that has a thread open, to explain Codex's error "already has an active writer".

use std::path::Path;

use redact::Redactor;

use crate::os::process;

/// A longer command line is cut.
const COMMAND_MAX_BYTES: usize = 200;

/// A process that has a thread's file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process id.
    pub pid: u32,
    /// The command line, redacted and cut.
    pub command: String,
}

/// The process that has a file of this thread open, if we may see it.
pub fn holder_of(thread_id: &str) -> Option<Holder> {
    if thread_id.is_empty() {
        return None;
    }
    let mut pids = process::all().into_iter().filter(process::Stat::is_running).map(|stat| stat.process.pid);
    let pid = pids.find(|pid| process::open_files(*pid).any(|file| belongs_to(&file, thread_id)))?;
    let command = process::command_line(pid).unwrap_or_default();
    let mut command = Redactor::default().redact(&command).to_string();
    command.truncate(command.floor_char_boundary(COMMAND_MAX_BYTES));
    Some(Holder { pid, command })
}

/// codex 0.166: a loaded thread has `thread-writer-locks/<thread id>.lock` open and, from its first turn on,
/// `sessions/2026/11/15/rollout-2026-11-15T19-29-23-<thread id>.jsonl`.
fn belongs_to(path: &Path, thread_id: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_rollout = name.starts_with("rollout-") && name.contains(thread_id);
    let is_lock = name.strip_suffix(".lock") == Some(thread_id)
        && path.parent().is_some_and(|dir| dir.ends_with("thread-writer-locks"));
    is_rollout || is_lock
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_process_with_the_file_open_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let thread_id = process::random_id().unwrap();
        let path = dir.path().join(format!("rollout-2026-11-15T19-29-23-{thread_id}.jsonl"));
        assert_eq!(holder_of(&thread_id), None);
        let file = fs::File::create(path).unwrap();
        let holder = holder_of(&thread_id).unwrap();
        assert_eq!(holder.pid, std::process::id());
        assert!(!holder.command.is_empty() && holder.command.len() <= COMMAND_MAX_BYTES);
        drop(file);
        assert_eq!(holder_of(&thread_id), None);
        assert!(belongs_to(Path::new(&format!("/h/thread-writer-locks/{thread_id}.lock")), &thread_id));
        assert!(!belongs_to(Path::new(&format!("/h/{thread_id}.lock")), &thread_id));
        assert_eq!(holder_of(""), None);
    }
}
