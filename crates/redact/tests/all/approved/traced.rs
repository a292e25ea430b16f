//! What a shell does run of a command: each program is a stand-in that records its name and its arguments.
//!
//! The shell finds nothing else: its path has one directory, of stand-ins, and its own directory is a fresh one. A name that is
//! not found is recorded too.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::commands::PROGRAMS;
use super::is_same_but_for_marks;

/// Records one line of arguments; the separators are in no command. Each process has a file of its own: bash writes at each
/// newline of an argument, so that two programs of one pipe would break up each other's lines in a common file.
const RECORD: &str =
    r#"printf -v line '%s\037' "${0##*/}" "$@"; printf '%s\036' "$line" >> "$TRACE/$BASHPID""#;

/// As above for a name that nothing has.
const NOT_FOUND: &str =
    r#"() { printf -v line '%s\037' "$@"; printf '%s\036' "$line" >> "$TRACE/$BASHPID"; }"#;

/// Name and arguments of a program that ran.
type Run = Vec<String>;

/// Whether two commands run the same, but for letters inside of arguments.
pub fn compare(command: &str, other: &str) -> Result<(), String> {
    if command == other {
        return Ok(());
    }
    // Both run in the same place, since a command may say where it runs.
    let place = tempfile::tempdir().unwrap();
    let (runs, mut others) = (runs_of(command, place.path()), runs_of(other, place.path()));
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

fn runs_of(command: &str, place: &Path) -> Vec<Run> {
    let [programs, work, trace] = ["programs", "work", "trace"].map(|name| place.join(name));
    for dir in [&programs, &work, &trace] {
        drop(std::fs::remove_dir_all(dir));
        std::fs::create_dir(dir).unwrap();
    }
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
    let files = std::fs::read_dir(&trace).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    let lines = files.map(|file| String::from_utf8_lossy(&file).into_owned()).collect::<String>();
    let runs = lines.split_terminator('\u{1e}');
    runs.map(|run| run.split_terminator('\u{1f}').map(str::to_owned).collect()).collect()
}

fn write_program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/bash\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
