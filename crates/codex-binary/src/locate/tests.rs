//! What needs a shorter limit than users have; the rest is in the integration tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Error, Search, find_within, last_line};

fn script(folder: &Path, body: &str) -> PathBuf {
    let path = folder.join("codex");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn is_alive(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    std::process::Command::new("kill").args(["-0", pid.trim()]).output().unwrap().status.success()
}

#[test]
fn a_codex_that_does_not_answer_is_killed_and_reaped() {
    let folder = tempfile::tempdir().unwrap();
    let codex = script(folder.path(), "echo $$ > \"$0.pid\"\nexec sleep 60");
    let started = Instant::now();
    let limit = Duration::from_millis(500);
    let error =
        find_within(&Search { explicit: Some(codex.clone()), ..Search::default() }, limit).unwrap_err();
    assert!(
        matches!(&error, Error::TimedOut { path, .. } if *path == codex.canonicalize().unwrap()),
        "{error:?}"
    );
    assert!(error.to_string().contains("did not answer within 0.5 s"), "{error}");
    assert!(error.to_string().contains("npm i -g @openai/codex"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10), "it waited for the child's own end");
    assert!(!is_alive(&folder.path().join("codex.pid")), "the child still exists");
}

#[test]
fn a_grandchild_that_keeps_the_pipe_open_does_not_hold_us_up() {
    let folder = tempfile::tempdir().unwrap();
    let codex = script(folder.path(), "sleep 60 &\necho $! > \"$0.pid\"\necho codex-cli 0.166.0");
    let started = Instant::now();
    let limit = Duration::from_millis(500);
    let found = find_within(&Search { explicit: Some(codex), ..Search::default() }, limit);
    assert!(started.elapsed() < Duration::from_secs(10));
    let pid = fs::read_to_string(folder.path().join("codex.pid")).unwrap();
    std::process::Command::new("kill").arg(pid.trim()).status().unwrap();
    assert!(matches!(found, Err(Error::TimedOut { .. })), "{found:?}");
}

#[test]
fn only_a_short_last_line_of_output_enters_a_message() {
    assert_eq!(last_line(""), "");
    assert_eq!(last_line("one\n  two \n\n"), ", \"two\"");
    assert_eq!(last_line("\u{1b}[31mred"), ", \"\\u{1b}[31mred\"");
    assert!(last_line(&"x".repeat(1000)).len() < 210);
}
