//! Hosts: one `codex app-server` each, under a keeper of ours, on a unix socket, outliving the program that started it.
//!
//! A host lives in a directory of its own. What is written there ([`Record`]) together with what the machine says about
//! the processes named in it is all that is needed to find it again, so a [`Host`] is a plain value: any number of
//! programs may hold one. Nothing here knows Codex's messages; the connection on top of [`Host::connect_stream`] does.
//!
//! Sessions, adoption of orphans and the pid of a socket's peer are used throughout: [`crate::os`] has them.

pub mod boot_lock;
mod ending;
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

use crate::Epoch;
use crate::os::process;
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
    /// Neither a home for Codex was given nor can its default be told without HOME.
    #[error("no CODEX_HOME was given and HOME is not set")]
    NoHome,
    /// A directory that others can look into is no place for a host.
    #[error("{} must belong to you and be closed to others (mode 0700)", dir.display())]
    DirNotPrivate {
        /// The directory.
        dir: PathBuf,
    },
    /// A host lives in this directory.
    #[error("host {id} already runs in {}", dir.display())]
    Occupied {
        /// The directory.
        dir: PathBuf,
        /// Who is there.
        id: String,
    },
    /// The start was given up by those who wanted it.
    #[error("the start of codex was given up")]
    GivenUp,
    /// The start that several waited for failed.
    #[error(transparent)]
    Boot(Arc<Error>),
    /// Others were starting Codex on the same home all the while.
    #[error(transparent)]
    BootLock(#[from] boot_lock::Error),
    /// A file or a process could not be made or read.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What we were about to do.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It ended before it answered.
    #[error("codex did not start: {cause}{}", shown_tail(stderr_tail))]
    EndedAtStart {
        /// How it ended.
        cause: String,
        /// The end of its stderr, redacted.
        stderr_tail: Vec<String>,
    },
    /// It did not answer in time. It has been ended.
    #[error("codex did not answer on its socket within {waited_ms} ms{}", shown_tail(stderr_tail))]
    NotReady {
        /// How long we waited.
        waited_ms: u128,
        /// The end of its stderr, redacted.
        stderr_tail: Vec<String>,
    },
    /// The host's codex does not run any more.
    #[error("host {id} does not run any more")]
    Gone {
        /// The host.
        id: String,
    },
    /// Somebody else listens on the socket.
    #[error("the socket of host {id} belongs to process {}, not to codex ({expected})", found.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()))]
    WrongPeer {
        /// The host.
        id: String,
        /// Codex's process.
        expected: u32,
        /// Whose socket it is.
        found: Option<i32>,
    },
    /// The launcher could not do it.
    #[error("the launcher of hosts: {message}")]
    Launcher {
        /// In its own words.
        message: String,
    },
    /// Processes of the host survived everything.
    #[error("could not end all of host {id}: orphaned: {}", list(pids))]
    Orphaned {
        /// The host.
        id: String,
        /// Who still runs.
        pids: Vec<u32>,
    },
}

fn shown_tail(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("; its last words:\n{}", lines.join("\n")) }
}

fn list(pids: &[u32]) -> String {
    pids.iter().map(|pid| format!("process {pid}")).collect::<Vec<_>>().join(", ")
}

fn io_error(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path: path.clone(), source }
}

/// Runs what waits for processes and files away from the asynchronous threads.
async fn in_thread<T: Send + 'static>(
    what: &'static str,
    path: &Path,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|stopped| Err(io_error(what, path)(stopped.into())))
}

/// One host that was started or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    dir: PathBuf,
    record: Arc<Record>,
    reach: Reach,
}

impl Host {
    /// One that runs as our own user.
    fn of_ours(dir: &Path, record: Arc<Record>) -> Host {
        Host { dir: dir.to_owned(), record, reach: Reach::Own }
    }

    /// Starts a host and waits until its codex answers. Whoever drops the future before that may leave a host behind,
    /// to be found in its directory.
    pub async fn launch(launch: &Launch) -> Result<Host, Error> {
        launch::launch(launch).await
    }

    /// The host's id.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// This life of the host.
    pub fn epoch(&self) -> &Epoch {
        &self.record.epoch
    }

    /// All that is written about it.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Where it is written.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How it is reached.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Whether its codex runs.
    pub fn is_alive(&self) -> bool {
        find::is_this_boot(&self.record) && self.record.codex.is_alive()
    }

    /// Whether its keeper runs. Without one, Codex works on, but what it leaves behind cannot be told from anybody else's
    /// processes: [`pool::Pool`] ends such a host at once.
    pub fn has_keeper(&self) -> bool {
        find::is_this_boot(&self.record) && self.record.keeper.is_alive()
    }

    /// How codex ended, as its keeper saw it. `None` while it runs, or when no keeper was there to see.
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

    /// Opens a connection to codex, and to nobody else: the process on the other side is checked.
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

    /// Whether codex, run by this user, is at the other end.
    fn check_peer(&self, stream: &UnixStream, user: u32) -> Result<(), Error> {
        let expected = self.record.codex.pid;
        let peer = stream.peer_cred().map_err(io_error("cannot tell who listens on", &self.record.socket))?;
        let found = peer.pid();
        if peer.uid() != user || found.and_then(|pid| u32::try_from(pid).ok()) != Some(expected) {
            return Err(Error::WrongPeer { id: self.record.id.clone(), expected, found });
        }
        Ok(())
    }

    /// Whether codex takes a connection in time.
    pub async fn is_healthy(&self, limit: Duration) -> bool {
        matches!(timeout(limit, self.answers()).await, Ok(Ok(())))
    }

    /// Comes back once codex itself, and not only the kernel on its behalf, has taken a connection. codex 0.166: a
    /// socket knows no `/healthz`, it takes WebSocket handshakes alone.
    async fn answers(&self) -> Result<(), Error> {
        let stream = self.connect_stream().await?;
        let refused = |error| io_error("no WebSocket on", &self.record.socket)(io::Error::other(error));
        let (mut socket, _) = client_async("ws://localhost/", stream).await.map_err(refused)?;
        // A courtesy; that it answered is all we wanted.
        socket.close(None).await.ok();
        Ok(())
    }

    /// Ends codex, the keeper and every process below them. Says who could not be ended.
    pub async fn stop(&self, how: Stop) -> Result<(), Error> {
        match &self.reach {
            Reach::Own => stop::stop(self, how).await,
            Reach::Launcher(launcher) => launcher.stop(self, how).await,
        }
    }
}
