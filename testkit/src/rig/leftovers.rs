//! Finding and ending the processes that a test left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long processes have to end by themselves.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL_EVERY: Duration = Duration::from_millis(10);
const LEFT_BEHIND: &str = "processes were left behind and killed:";

/// Watches over a directory: when dropped, no process may have anything to do with it.
///
/// Codex gives its MCP servers and commands a cleaned environment, so a process belongs to the directory if
/// it shows up in its environment, its command line, its program, its working directory or its open files.
#[derive(Debug)]
pub struct Leftovers {
    dir: PathBuf,
}

/// A process that should be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Leftover {
    pid: i32,
    command: String,
    because: &'static str,
    kin: String,
}

impl Leftovers {
    /// Watches over this directory.
    pub fn below(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf() }
    }

    /// Waits for the processes of the directory to end; those that do not are killed and fail the test.
    pub async fn assert_none(&self) {
        let began = Instant::now();
        while !self.find().is_empty() {
            assert!(began.elapsed() < PATIENCE, "{LEFT_BEHIND}\n{}", self.kill().join("\n"));
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Kills what is there, again and again since the dying may have children, and says what it was.
    fn kill(&self) -> Vec<String> {
        let mut killed: Vec<String> = Vec::new();
        let began = Instant::now();
        loop {
            let found = self.find();
            if found.is_empty() || began.elapsed() > PATIENCE {
                return killed;
            }
            for leftover in found {
                if let Some(pid) = Pid::from_raw(leftover.pid) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                let said = format!(
                    "{} {} ({}) [{}]",
                    leftover.pid, leftover.command, leftover.because, leftover.kin
                );
                if !killed.contains(&said) {
                    killed.push(said);
                }
            }
            std::thread::sleep(POLL_EVERY);
        }
    }

    fn find(&self) -> Vec<Leftover> {
        let this = i32::try_from(std::process::id()).ok();
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| Some(*pid) != this).filter_map(|pid| self.examine(pid)).collect()
    }

    fn examine(&self, pid: i32) -> Option<Leftover> {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let because = self.connection(&proc)?;
        let command = fs::read(proc.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned();
        // state, parent, group and session: how it came to be left behind
        let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
        let stat = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let kin: Vec<&str> = stat.split_whitespace().take(4).collect();
        let kin = kin.join(" ");
        // what has become a zombie in between has no command line any more
        (!command.is_empty()).then_some(Leftover { pid, command, because, kin })
    }

    fn connection(&self, proc: &Path) -> Option<&'static str> {
        if is_zombie(proc) {
            return None;
        }
        let names_it = |file: &str| self.is_named_in(&fs::read(proc.join(file)).unwrap_or_default());
        let leads_to_it = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(&self.dir));
        if names_it("cmdline") || leads_to_it(&proc.join("exe")) {
            Some("command line")
        } else if names_it("environ") {
            Some("environment")
        } else if leads_to_it(&proc.join("cwd")) {
            Some("working directory")
        } else {
            let mut files = fs::read_dir(proc.join("fd")).into_iter().flatten().flatten();
            files.any(|file| leads_to_it(&file.path())).then_some("open file")
        }
    }

    fn is_named_in(&self, bytes: &[u8]) -> bool {
        let dir = self.dir.as_os_str().as_encoded_bytes();
        bytes.windows(dir.len()).any(|window| window == dir)
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        let began = Instant::now();
        while !self.find().is_empty() {
            if std::thread::panicking() {
                self.kill();
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{LEFT_BEHIND}\n{}", self.kill().join("\n"));
            std::thread::sleep(POLL_EVERY);
        }
    }
}

fn is_zombie(proc: &Path) -> bool {
    let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
    // pid (name) state …; the name may hold anything, parentheses too
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}
