//! One run of `codex --version`, bounded in time and in what it may print. Knows nothing about where codex comes from.

use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::Version;

/// Far more than a version line; what comes after it is not read.
const OUTPUT_LIMIT_BYTES: u64 = 64 * 1024;
/// The standard library can wait for a child for ever or not at all, so its end is looked for this often.
const POLL: Duration = Duration::from_millis(5);

/// Why the version is not known.
#[derive(Debug)]
pub(crate) enum Failure {
    NotRunnable(io::Error),
    TimedOut,
    Exited { status: ExitStatus, stderr: String },
    Unparsable { stdout: String },
}

/// Asks the executable for its version. At the limit the child is killed and reaped.
pub(crate) fn version(executable: &Path, limit: Duration) -> Result<Version, Failure> {
    let deadline = Instant::now() + limit;
    let mut child = spawn(executable, deadline).map_err(Failure::NotRunnable)?;
    let stdout = read_aside(child.stdout.take());
    let stderr = read_aside(child.stderr.take());
    let status = wait_until(&mut child, deadline).map_err(Failure::NotRunnable)?.ok_or(Failure::TimedOut)?;
    let stdout = received_until(&stdout, deadline).ok_or(Failure::TimedOut)?;
    if !status.success() {
        let stderr = received_until(&stderr, deadline).unwrap_or_default();
        return Err(Failure::Exited { status, stderr });
    }
    Version::parse_cli_output(&stdout).ok_or(Failure::Unparsable { stdout })
}

fn spawn(executable: &Path, deadline: Instant) -> io::Result<Child> {
    loop {
        let spawned = Command::new(executable)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match spawned {
            // A file that was just written is busy for as long as some child, forked meanwhile by another thread,
            // still holds the writer's descriptor: until that child's exec.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                thread::sleep(POLL);
            }
            other => return other,
        }
    }
}

fn wait_until(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// Reads on a thread of its own, because a grandchild may hold the pipe open for longer than we are ready to wait.
fn read_aside(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(pipe) = pipe {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before an error is still worth having; the receiver may be gone by now.
            let _ = pipe.take(OUTPUT_LIMIT_BYTES).read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    receiver
}

fn received_until(receiver: &Receiver<String>, deadline: Instant) -> Option<String> {
    receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
}
