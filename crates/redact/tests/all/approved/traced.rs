//! What a shell does run of a command: each program is a stand-in that records its name and its arguments.
//!
//! The shell finds nothing else: its path has one directory, of stand-ins, and its own directory is a fresh one. A name that is
//! not found is recorded too.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::commands::PROGRAMS;
use super::is_same_but_for_marks;

/// Records one line of arguments; the separators are in no command.
const RECORD: &str = r#"printf -v line '%s\037' "${0##*/}" "$@"; printf '%s\036' "$line" >> "$TRACE""#;

/// As above for a name that nothing has.
const NOT_FOUND: &str = r#"() { printf -v line '%s\037' "$@"; printf '%s\036' "$line" >> "$TRACE"; }"#;

/// Name and arguments of a program that ran.
type Run = Vec<String>;

/// Whether two commands run the same, but for letters inside of arguments.
pub fn compare(command: &str, other: &str) -> Result<(), String> {
    if command == other {
        return Ok(());
    }
    let (runs, mut others) = (runs_of(command), runs_of(other));
    if runs.len() != others.len() {
        return Err(format!("another number of programs: {runs:?} / {others:?}"));
    }
    for run in runs {
        let Some(at) = others.iter().position(|other| is_same_run(&run, other)) else {
            return Err(format!("ran unseen: {run:?}, not among {others:?}"));
        };
        others.swap_remove(at);
    }
    Ok(())
}

fn is_same_run(run: &Run, other: &Run) -> bool {
    // a program's name must be the same to the letter
    run.len() == other.len()
        && run[0] == other[0]
        && run.iter().zip(other).all(|(word, other)| is_same_but_for_marks(word, other))
}

fn runs_of(command: &str) -> Vec<Run> {
    let place = tempfile::tempdir().unwrap();
    let (programs, work) = (place.path().join("programs"), place.path().join("work"));
    std::fs::create_dir(&programs).unwrap();
    std::fs::create_dir(&work).unwrap();
    for name in PROGRAMS {
        write_program(&programs.join(name), RECORD);
    }
    // A shell in a shell has the same path and finds the same stand-ins.
    for name in ["sh", "bash"] {
        write_program(
            &programs.join(name),
            &format!("{RECORD}\n[[ $1 == -lc ]] && set -- -c \"${{@:2}}\"\nexec /bin/bash \"$@\""),
        );
    }
    let trace = place.path().join("trace");
    std::fs::write(&trace, "").unwrap();
    let done = Command::new("/usr/bin/timeout")
        .args(["20", "/bin/bash", "-c", command])
        .env_clear()
        .env("PATH", &programs)
        .env("TRACE", &trace)
        .env("BASH_FUNC_command_not_found_handle%%", NOT_FOUND)
        .current_dir(&work)
        .stdin(Stdio::null())
        // Whatever still runs in the background has one of the two open: all of it is waited for.
        .output()
        .unwrap();
    assert_ne!(done.status.code(), Some(124), "the command did not end: {command}");
    let trace = std::fs::read(&trace).unwrap();
    let trace = String::from_utf8_lossy(&trace);
    let runs = trace.split_terminator('\u{1e}');
    runs.map(|run| run.split_terminator('\u{1f}').map(str::to_owned).collect()).collect()
}

fn write_program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/bash\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
