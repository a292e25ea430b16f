//! Runs the tests on our terminal and notes which of them passed. Knows the output of nextest and of `cargo test`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::program::Program;
use crate::workspace;

/// Which program runs the tests.
#[derive(Debug, Clone, Copy)]
pub enum Runner {
    /// Each test in its own process, with limits. Preferred.
    Nextest,
    /// What every Rust has.
    CargoTest,
}

/// A test that ran and passed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Passed {
    /// Where it belongs, if the runner said so.
    pub package: Option<String>,
    /// The path of the test function in its crate: `module::name`.
    pub path: String,
}

/// One run of the tests.
#[derive(Debug)]
pub struct Tests {
    program: Program,
    runner: Runner,
}

impl Runner {
    /// The better one of those that are installed.
    pub fn installed() -> Self {
        if Program::cargo("nextest --version").succeeds() { Self::Nextest } else { Self::CargoTest }
    }

    /// All tests of the workspace. Random tests try the same cases each time, so that a change is judged by what it changes; new
    /// ones are tried by `prove`.
    pub fn tests(self) -> Tests {
        self.all().env("PROPTEST_RNG_SEED", "1")
    }

    fn all(self) -> Tests {
        let program = match self {
            Self::Nextest => Program::cargo("nextest run --workspace --status-level pass --color never")
                .args(&[format!("--test-threads={}", threads())]),
            // Benches are left out: they measure, and have no test harness that would know `--list` and the like.
            Self::CargoTest => Program::cargo(
                "test --workspace --lib --bins --tests --examples --no-fail-fast --color never",
            ),
        };
        Tests { program, runner: self }
    }

    /// All tests of the workspace, those included that take too long for every day, with time for full-length runs.
    pub fn proof(self) -> Tests {
        self.all().args(match self {
            Self::Nextest => &["--profile=prove", "--run-ignored=all"],
            Self::CargoTest => &["--", "--include-ignored"],
        })
    }

    fn passed(self, line: &str) -> Option<Passed> {
        match self {
            Self::Nextest => nextest_passed(line),
            Self::CargoTest => cargo_test_passed(line),
        }
    }
}

impl Tests {
    fn args(self, more: &[&str]) -> Self {
        let more: Vec<_> = more.iter().map(ToString::to_string).collect();
        Self { program: self.program.args(&more), ..self }
    }

    /// The same with one more variable set.
    pub fn env(self, name: &'static str, value: &str) -> Self {
        Self { program: self.program.env(name, value), ..self }
    }

    /// Runs the tests, shows their output as it comes, and keeps the names of those that passed for `promises`.
    pub fn run(&self) -> Result<BTreeSet<Passed>, String> {
        let file = workspace::passed_tests();
        let unwritable = |error: io::Error| format!("{} could not be written ({error})", file.display());
        forget(&file).map_err(unwritable)?;
        let (passed, outcome) =
            self.stream().map_err(|error| format!("cargo could not be started ({error})"))?;
        save(&file, &passed).map_err(unwritable)?;
        outcome.map(|()| passed)
    }

    fn stream(&self) -> io::Result<(BTreeSet<Passed>, Result<(), String>)> {
        let mut command = self.program.command();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (sender, lines) = channel();
        let show_stdout = show(child.stdout.take(), io::stdout(), sender.clone());
        let show_stderr = show(child.stderr.take(), io::stderr(), sender);
        let passed = lines.iter().filter_map(|line| self.runner.passed(&line)).collect();
        let status = child.wait()?;
        for shown in [show_stdout, show_stderr] {
            shown.join().map_err(|_| io::Error::other("the output could not be shown"))??;
        }
        let outcome = if status.success() { Ok(()) } else { Err(format!("it ended with {status}")) };
        Ok((passed, outcome))
    }
}

impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}

/// Two for each core: most tests wait for a Codex, a browser or a clock.
fn threads() -> usize {
    2 * thread::available_parallelism().map_or(1, usize::from)
}

/// Copies a stream to the terminal line by line, and hands each line on.
fn show(
    from: Option<impl Read + Send + 'static>,
    mut to: impl Write + Send + 'static,
    lines: Sender<String>,
) -> thread::JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        let Some(from) = from else { return Ok(()) };
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line)? > 0 {
            to.write_all(&line)?;
            to.flush()?;
            // The other end is gone only when we are being torn down.
            let _ = lines.send(String::from_utf8_lossy(&line).into_owned());
            line.clear();
        }
        Ok(())
    })
}

/// nextest 0.9.143: `        PASS [   0.012s] ( 3/47) codex-binary::all find::a_name`; older ones have no counter. One that
/// was tried again begins with `TRY 2 PASS [`.
fn nextest_passed(line: &str) -> Option<Passed> {
    let line = line.trim();
    let line =
        line.strip_prefix("TRY ").and_then(|tried| tried.split_once(' ')).map_or(line, |(_, rest)| rest);
    let rest = line.strip_prefix("PASS [")?;
    let (_, rest) = rest.split_once(']')?;
    let rest = rest.trim_start();
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1 } else { rest };
    let (binary, path) = rest.trim_start().split_once(' ')?;
    let package = binary.split("::").next().unwrap_or(binary);
    Some(Passed { package: Some(package.to_owned()), path: path.trim().to_owned() })
}

/// `test find::a_name ... ok`, or `test find::a_name - should panic ... ok`.
fn cargo_test_passed(line: &str) -> Option<Passed> {
    let path = line.trim_end().strip_prefix("test ")?.strip_suffix(" ... ok")?;
    let path = path.strip_suffix(" - should panic").unwrap_or(path);
    Some(Passed { package: None, path: path.to_owned() })
}

/// So that a run that is broken off leaves no old names behind.
fn forget(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn save(file: &Path, passed: &BTreeSet<Passed>) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let line = |test: &Passed| format!("{} {}\n", test.package.as_deref().unwrap_or("?"), test.path);
    fs::write(file, passed.iter().map(line).collect::<String>())
}

/// What the last run saved.
pub fn last_run() -> Result<BTreeSet<Passed>, String> {
    let text = fs::read_to_string(workspace::passed_tests())
        .map_err(|_| "no test run is on record: run `cargo xtask test` first".to_owned())?;
    Ok(text.lines().filter_map(saved).collect())
}

fn saved(line: &str) -> Option<Passed> {
    let (package, path) = line.split_once(' ')?;
    Some(Passed { package: (package != "?").then(|| package.to_owned()), path: path.to_owned() })
}

#[cfg(test)]
mod tests;
