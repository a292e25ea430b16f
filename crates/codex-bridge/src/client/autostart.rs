//! Starting the daemon on the way: a process of its own session that shares nothing with the caller.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::failure::{Code, Failure};
use crate::log;
use crate::paths::{Paths, cannot};

/// How long a daemon may take until it listens; copying Codex aside can take its time on a slow disk.
const START_LIMIT: Duration = Duration::from_mins(1);
/// How often the socket of a daemon that somebody else starts is tried.
const TRY_EVERY: Duration = Duration::from_millis(20);
/// How long it is tried before it is seen whether there still is one.
const TRY_FOR: Duration = Duration::from_secs(1);
/// The first descriptor that is none of the three standard ones.
const FIRST_INHERITED: i32 = 3;

/// What a detached daemon says on its stdout, once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// It listens.
    Ready,
    /// It could not start.
    Error(Failure),
}

/// Starts a daemon and connects to it. If another caller was faster, to theirs.
pub(super) async fn start(paths: &Paths) -> Result<UnixStream, Failure> {
    paths.prepare()?;
    let began = Instant::now();
    loop {
        match spawned(paths).await {
            Ok(()) => {}
            // Somebody else's is coming up, or is about to be gone: the socket will tell.
            Err(failure) if failure.code == Code::DaemonHeld => {}
            Err(failure) => return Err(failure),
        }
        match connected(paths).await {
            Ok(stream) => return Ok(stream),
            // If it has gone, nobody comes unless one is started again.
            Err(_) if began.elapsed() < START_LIMIT => {}
            Err(error) => {
                let message = format!("the daemon was started but does not listen: {error}");
                return Err(Failure::new(Code::DaemonFailed, message).hint(look_at(paths)));
            }
        }
    }
}

/// Tries the socket for a while.
async fn connected(paths: &Paths) -> io::Result<UnixStream> {
    let began = Instant::now();
    loop {
        match UnixStream::connect(paths.socket()).await {
            Err(_) if began.elapsed() < TRY_FOR => sleep(TRY_EVERY).await,
            tried => return tried,
        }
    }
}

async fn spawned(paths: &Paths) -> Result<(), Failure> {
    let log = log::file::open(&paths.log()).map_err(|error| cannot("open", &paths.log(), &error))?;
    // What the caller's shell left open for us would otherwise stay open for as long as the daemon lives.
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
    let mut command = Command::new(std::env::current_exe().map_err(Failure::internal)?);
    command.arg("--state-dir").arg(&paths.state_dir);
    if paths.is_config_named {
        command.arg("--config").arg(&paths.config_file);
    }
    command.args(["serve", "--detached"]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::from(log));
    let mut child = command.spawn().map_err(|error| Failure::new(Code::DaemonFailed, error.to_string()))?;
    let stdout = child.stdout.take().ok_or_else(|| Failure::internal("the daemon has no stdout"))?;
    let mut line = String::new();
    let said = timeout(START_LIMIT, BufReader::new(stdout).read_line(&mut line)).await;
    match (said, serde_json::from_str(&line)) {
        (Ok(Ok(_)), Ok(Report::Ready)) => Ok(()),
        (Ok(Ok(_)), Ok(Report::Error(failure))) => Err(failure),
        _ => Err(Failure::new(Code::DaemonFailed, "the daemon did not start").hint(look_at(paths))),
    }
}

fn look_at(paths: &Paths) -> String {
    format!("its words are in {}", paths.log().display())
}
