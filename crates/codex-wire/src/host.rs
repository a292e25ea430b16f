//! Hosts. Each host is one `codex app-server` under a keeper process of ours. It listens on a unix socket and outlives
//! the program that started it.
//!
//! A host has a directory of its own. To find a host again, the [`Record`] in that directory and the state of the
//! processes that it names are enough. So a [`Host`] is a plain value: any number of programs may hold one. Nothing
//! here knows Codex's messages; the connection on top of [`Host::connect_stream`] does.
//!
//! Process sessions, the adoption of orphans and the pid of a socket's peer come from [`crate::os`].

pub mod boot_lock;
pub mod environment;
mod find;
pub mod holder;
pub mod keeper;
mod launch;
pub mod launcher;
pub mod lineage;
pub mod origin;
pub mod placement;
pub mod pool;
mod reach;
pub mod record;
pub mod retirement;
mod stderr_log;
mod stop;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_tungstenite::client_async;

pub use environment::EnvPolicy;
pub use find::{Found, find, find_all};
pub use launch::{KeeperCommand, Launch};
pub use placement::Identity;
pub use reach::Reach;
pub use record::{Exit, Record};
pub use stop::{Stop, sweep, sweep_unfinished};

use crate::os::process;
use crate::{Epoch, reason};
use record::{Files, SOCKET_PATH_MAX_BYTES, read_json};

/// Lines of stderr that an error shows.
pub const STDERR_TAIL_LINES: usize = 12;

/// What can go wrong with a host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory's name is too long for a socket in it.
    #[error("the socket path {} has {} bytes, the system allows {SOCKET_PATH_MAX_BYTES}: choose a shorter directory", path.display(), path.as_os_str().len())]
    SocketPathTooLong {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// No CODEX_HOME was given, and the default is unknown without HOME.
    #[error("no home for Codex: set CODEX_HOME or HOME")]
    NoHome,
    /// Other users can read the directory.
    #[error("{} must belong to you and have mode 0700: other users could read the prompts of its host", dir.display())]
    DirNotPrivate {
        /// The directory.
        dir: PathBuf,
    },
    /// A host lives in this directory.
    #[error("host {id} already runs in {}", dir.display())]
    Occupied {
        /// The directory.
        dir: PathBuf,
        /// The host that runs there.
        id: String,
    },
    /// The start was cancelled.
    #[error("the start of codex was cancelled")]
    GivenUp,
    /// A start that several callers waited for failed.
    #[error(transparent)]
    Boot(Arc<Error>),
    /// Other programs kept starting Codex on the same home.
    #[error(transparent)]
    BootLock(#[from] boot_lock::Error),
    /// A file or a process could not be made or read.
    #[error("{what} {}: {}", path.display(), reason(source))]
    Io {
        /// What failed: `cannot write`.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Codex ended before it accepted a connection.
    #[error("codex did not start: {cause}{}", shown_tail(stderr_tail))]
    EndedAtStart {
        /// How it ended.
        cause: String,
        /// The end of its stderr, redacted.
        stderr_tail: Vec<String>,
    },
    /// Codex did not accept a connection in time, and was ended.
    #[error("codex did not answer on its socket within {waited_ms} ms{}", shown_tail(stderr_tail))]
    NotReady {
        /// How long we waited.
        waited_ms: u128,
        /// The end of its stderr, redacted.
        stderr_tail: Vec<String>,
    },
    /// The host's codex no longer runs.
    #[error("host {id} no longer runs")]
    Gone {
        /// The host.
        id: String,
    },
    /// Another process listens on the socket.
    #[error("the socket of host {id} belongs to process {}, not to codex ({expected})", found.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()))]
    WrongPeer {
        /// The host.
        id: String,
        /// Codex's process.
        expected: u32,
        /// The process that listens.
        found: Option<i32>,
    },
    /// The launcher refused or failed.
    #[error("the launcher of hosts: {message}")]
    Launcher {
        /// The launcher's message.
        message: String,
    },
    /// Processes of the host survived SIGKILL.
    #[error("host {id} left processes that could not be ended (orphaned): {}; end them by hand", list(pids))]
    Orphaned {
        /// The host.
        id: String,
        /// The processes that still run.
        pids: Vec<u32>,
    },
}

fn shown_tail(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("; the end of its stderr:\n{}", lines.join("\n")) }
}

fn list(pids: &[u32]) -> String {
    pids.iter().map(|pid| format!("process {pid}")).collect::<Vec<_>>().join(", ")
}

fn io_error(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path: path.clone(), source }
}

/// Runs blocking work outside of the asynchronous threads.
async fn in_thread<T: Send + 'static>(
    what: &'static str,
    path: &Path,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|stopped| Err(io_error(what, path)(stopped.into())))
}

/// A host that was started or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    dir: PathBuf,
    record: Arc<Record>,
    reach: Reach,
}

impl Host {
    /// A host that runs as our own user.
    fn local(dir: &Path, record: Arc<Record>) -> Host {
        Host { dir: dir.to_owned(), record, reach: Reach::Own }
    }

    /// Starts a host and waits until its codex accepts a connection. Dropping the future earlier may leave a running
    /// host, which [`find`] finds in its directory.
    pub async fn launch(launch: &Launch) -> Result<Host, Error> {
        launch::launch(launch).await
    }

    /// The host's id.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// The epoch: one start of this host.
    pub fn epoch(&self) -> &Epoch {
        &self.record.epoch
    }

    /// The record in the host's directory.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The host's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How the host is reached.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Whether codex runs.
    pub fn is_alive(&self) -> bool {
        find::is_this_boot(&self.record) && self.record.codex.is_alive()
    }

    /// Whether the keeper runs. Without a keeper Codex goes on, but its orphans can no longer be told from unrelated
    /// processes: [`pool::Pool`] ends such a host at once.
    pub fn has_keeper(&self) -> bool {
        find::is_this_boot(&self.record) && self.record.keeper.is_alive()
    }

    /// How codex ended, as recorded by the keeper. `None` while codex runs, or when its keeper was killed.
    pub async fn exit(&self) -> Option<Exit> {
        if self.is_alive() {
            return None;
        }
        match &self.reach {
            Reach::Own => self.exit_written(),
            Reach::Launcher(launcher) => launcher.last_words(self, 0).await.ok()?.0,
        }
    }

    fn exit_written(&self) -> Option<Exit> {
        read_json(&Files(&self.dir).exit()).ok().flatten()
    }

    /// The last lines that codex wrote on stderr, redacted.
    pub async fn stderr_tail(&self, lines: usize) -> Vec<String> {
        match &self.reach {
            Reach::Own => stderr_log::tail(&Files(&self.dir).stderr(), lines),
            Reach::Launcher(launcher) => {
                launcher.last_words(self, lines).await.map(|(_, tail)| tail).unwrap_or_default()
            }
        }
    }

    /// Codex's resident memory; `None` when it does not run.
    pub fn rss_bytes(&self) -> Option<u64> {
        if self.is_alive() { process::rss_bytes(self.record.codex.pid) } else { None }
    }

    /// How long ago codex was started.
    pub fn age(&self) -> Duration {
        Duration::from_millis(
            process::uptime_ms().unwrap_or_default().saturating_sub(self.record.started_uptime_ms),
        )
    }

    /// Opens a connection to codex. The process at the other end is checked to be the codex of this host.
    pub async fn connect_stream(&self) -> Result<UnixStream, Error> {
        let failed = io_error("cannot connect to", &self.record.socket);
        if !self.is_alive() {
            return Err(Error::Gone { id: self.record.id.clone() });
        }
        if let Reach::Launcher(launcher) = &self.reach {
            return launcher.connect(self).await;
        }
        let stream = UnixStream::connect(&self.record.socket).await.map_err(&failed)?;
        self.check_peer(&stream, rustix::process::geteuid().as_raw())?;
        Ok(stream)
    }

    /// Checks that the process at the other end is codex, run by `user`.
    fn check_peer(&self, stream: &UnixStream, user: u32) -> Result<(), Error> {
        let expected = self.record.codex.pid;
        let peer = stream
            .peer_cred()
            .map_err(io_error("cannot find out which process listens on", &self.record.socket))?;
        let found = peer.pid();
        if peer.uid() != user || found.and_then(|pid| u32::try_from(pid).ok()) != Some(expected) {
            return Err(Error::WrongPeer { id: self.record.id.clone(), expected, found });
        }
        Ok(())
    }

    /// Whether codex accepts a connection within `limit`.
    pub async fn is_healthy(&self, limit: Duration) -> bool {
        matches!(timeout(limit, self.answers()).await, Ok(Ok(())))
    }

    /// Returns when codex itself has accepted a connection, and not only the kernel for it. codex 0.166 serves no
    /// `/healthz` on a socket, only WebSocket handshakes.
    async fn answers(&self) -> Result<(), Error> {
        let stream = self.connect_stream().await?;
        let refused =
            |error| io_error("no WebSocket handshake on", &self.record.socket)(io::Error::other(error));
        let (mut socket, _) = client_async("ws://localhost/", stream).await.map_err(refused)?;
        // The handshake was the proof; an error at the close changes nothing.
        socket.close(None).await.ok();
        Ok(())
    }

    /// Ends codex, the keeper and every process below them. The error names processes that could not be ended.
    pub async fn stop(&self, how: Stop) -> Result<(), Error> {
        match &self.reach {
            Reach::Own => stop::stop(self, how).await,
            Reach::Launcher(launcher) => launcher.stop(self, how).await,
        }
    }
}
