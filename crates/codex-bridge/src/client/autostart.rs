//! Starts the daemon in the background, as a process in its own session that shares nothing with the caller.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use codex_wire::reason;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::failure::{Code, Failure};
use crate::log;
use crate::paths::{Paths, cannot};

/// How long a daemon may take until it listens. Copying Codex can be slow on a slow disk.
const START_LIMIT: Duration = Duration::from_mins(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// How long to try before another daemon is started.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// The first file descriptor after stdin, stdout and stderr.
const FIRST_INHERITED: i32 = 3;

/// What a detached daemon reports on its stdout, once: it listens, or why it could not start.
pub type Report = Result<(), Failure>;

/// Starts a daemon and connects to it. If another caller was faster, connects to that daemon.
pub(super) async fn start(paths: &Paths) -> Result<UnixStream, Failure> {
    paths.prepare()?;
    let began = Instant::now();
    loop {
        match spawn_daemon(paths).await {
            Ok(()) => {}
            // Another daemon is starting or stopping. Connecting shows which.
            Err(failure) if failure.code == Code::DaemonHeld => {}
            Err(failure) => return Err(failure),
        }
        match connect_with_retry(paths).await {
            Ok(stream) => return Ok(stream),
            // The other daemon has stopped, so a new one must be started.
            Err(_) if began.elapsed() < START_LIMIT => {}
            Err(error) => {
                let message = format!("the daemon was started but does not listen: {}", reason(&error));
                return Err(Failure::new(Code::DaemonFailed, message).hint(log_hint(paths)));
            }
        }
    }
}

async fn connect_with_retry(paths: &Paths) -> io::Result<UnixStream> {
    let began = Instant::now();
    loop {
        match UnixStream::connect(paths.socket()).await {
            Err(_) if began.elapsed() < CONNECT_LIMIT => sleep(RETRY_INTERVAL).await,
            outcome => return outcome,
        }
    }
}

async fn spawn_daemon(paths: &Paths) -> Result<(), Failure> {
    let log = log::file::open(&paths.log()).map_err(|error| cannot("open", &paths.log(), &error))?;
    // Files that the caller's shell left open must not stay open in the daemon.
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
    let mut command = Command::new(std::env::current_exe().map_err(Failure::internal)?);
    command.arg("--state-dir").arg(&paths.state_dir);
    if paths.is_config_named {
        command.arg("--config").arg(&paths.config_file);
    }
    command.args(["serve", "--detached"]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::from(log));
    let mut child = command.spawn().map_err(|error| {
        Failure::new(Code::DaemonFailed, format!("cannot start the daemon: {}", reason(&error)))
    })?;
    let stdout = child.stdout.take().ok_or_else(|| Failure::internal("the daemon has no stdout"))?;
    let mut line = String::new();
    let read = timeout(START_LIMIT, BufReader::new(stdout).read_line(&mut line)).await;
    match (read, serde_json::from_str::<Report>(&line)) {
        (Ok(Ok(_)), Ok(report)) => report,
        _ => Err(Failure::new(Code::DaemonFailed, "the daemon did not start").hint(log_hint(paths))),
    }
}

fn log_hint(paths: &Paths) -> String {
    format!("the reason is in {}", paths.log().display())
}
