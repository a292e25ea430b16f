//! The launcher: a service under the hosts' user that starts, reaches and ends hosts for a daemon under another user.
//!
//! A command that escapes Codex's sandbox then runs as the hosts' user, who cannot read the daemon's files or use its
//! socket. The launcher runs as that user too, so the daemon does not trust it more than Codex: every answer has a size
//! limit and a deadline, the daemon itself checks a connection to codex, and it opens no file that the hosts' user
//! could have written.
//!
//! A call is one connection: the daemon sends a line of JSON and receives a line of JSON. The answer to a `connect`
//! also carries a handle on the socket of codex, whose directory only the hosts' user can read. The daemon makes the
//! connection itself over this handle: a connected descriptor that the launcher also holds could be made to block. The
//! launcher has its own programs, environment and homes; a call cannot choose them. It keeps no state outside of the
//! hosts' directory, so it may be restarted at any time.

mod line;
mod service;
mod threads;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::keeper::QUICK_END_IN_ALL;
use super::placement::Identity;
use super::pool::Change;
use super::record::{Exit, Record};
use super::{Error, Host, Reach, Stop, io_error};
use crate::Epoch;
use crate::codex_home::CodexHome;
use crate::escalation::Escalation;
use crate::os::file;
use crate::os::process::{self, Process};

pub use service::{Options, Service};

/// Longer calls are refused.
const CALL_MAX_BYTES: usize = 64 * 1024;
/// Longer answers are not read.
const ANSWER_MAX_BYTES: usize = 4 * 1024 * 1024;
/// How long the launcher may take for calls that do not wait for a host.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long a start may take: it may wait for other starts on the same home, and a failed start is cleaned up.
const LAUNCH_LIMIT: Duration = Duration::from_mins(2);
/// How long a stop may take after the turns have had their time.
const SWEEP_LIMIT: Duration = Duration::from_secs(20);
/// How long to wait for a launcher that is being restarted.
const RESTART_LIMIT: Duration = Duration::from_secs(5);
const TRY_EVERY: Duration = Duration::from_millis(50);
/// A launcher that reports more hosts is not believed.
pub(crate) const MOST_HOSTS: usize = 256;
/// A longer message of the launcher is cut.
const MESSAGE_MAX_CHARS: usize = 4000;
/// The longest name of a host's directory.
const NAME_MAX_BYTES: usize = 36;

/// A call of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
enum Call {
    /// Answered with [`About`].
    About,
    /// Cleans up dead hosts; answered with a [`Report`].
    TakeOver,
    /// Answered with the living hosts in a [`Report`].
    List,
    /// Answered with a [`ListedHost`]. Hanging up before the answer cancels the start.
    Launch { name: String, identity: Identity, config: Vec<String> },
    /// Answered with a handle on the socket and no data.
    Connect { host: HostRef },
    /// Answered with [`LastWords`].
    Look { host: HostRef, stderr_lines: usize },
    /// Stops a host; without `drain_ms`, at once.
    Stop { host: HostRef, drain_ms: Option<u64> },
    /// Cleans up a host that died or has lost its keeper; answered with a [`Report`].
    Clear { host: HostRef },
    /// Answered with a [`CodexHome`].
    Home { dir: PathBuf },
    /// Answered with an [`Escalation`].
    Escalation { rollout: PathBuf, call_id: String },
}

/// Names one start of one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostRef {
    /// The name of its directory.
    name: String,
    epoch: Epoch,
}

/// The settings with which a launcher starts hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The version of codex.
    pub version: String,
    /// The codex executable.
    pub codex: PathBuf,
    /// The directory of its copies of Codex.
    pub packages: PathBuf,
    /// The parent of the hosts' directories.
    pub hosts_dir: PathBuf,
    /// The homes of Codex that hosts may have; the first one is the default.
    pub homes: Vec<PathBuf>,
    /// The home directory of the hosts' user.
    pub user_home: Option<PathBuf>,
    /// Variables that the operator added to the hosts' environment.
    pub variables: Vec<String>,
    /// The launcher's own directories, which no command may read or write.
    pub denied: Vec<PathBuf>,
    /// Sockets of services that would run a program for a command. Commands may not reach them either.
    pub services: Vec<PathBuf>,
    /// The PATH of commands.
    pub command_path: String,
    /// The PATH of hosts themselves, which run programs outside of any sandbox.
    pub host_path: String,
    /// The directory for temporary files of hosts, if it is set.
    pub temp_dir: Option<PathBuf>,
}

/// A host in a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ListedHost {
    /// The name of its directory.
    name: String,
    record: Record,
}

/// A host that ended, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Died {
    record: Record,
    exit: Option<Exit>,
}

/// The hosts that live, those that were cleaned up, and the errors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    #[serde(default)]
    hosts: Vec<ListedHost>,
    #[serde(default)]
    died: Vec<Died>,
    #[serde(default)]
    failed: Vec<String>,
}

/// How a host ended, and the end of its stderr.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LastWords {
    exit: Option<Exit>,
    stderr_tail: Vec<String>,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<T> {
    Done(T),
    Refused { why: Why, message: String },
}

/// Why a call was refused, where that makes a difference to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Why {
    /// The host no longer exists.
    Gone,
    /// Codex is not listening, because it is starting or ending.
    NotListening,
    #[serde(other)]
    Failed,
}

/// Whether this is a valid name for a host's directory: it must not lead out of the parent directory.
fn is_name(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    !name.is_empty() && name.len() <= NAME_MAX_BYTES && name.chars().all(is_plain)
}

/// The daemon's client of a launcher. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    socket: Arc<Path>,
}

/// The unread answer to a call.
struct Exchange {
    text: Vec<u8>,
    /// The user id of the launcher.
    user: u32,
    /// The connection, and the descriptor that came with the text.
    rest: Rest,
}

type Rest = (UnixStream, Option<OwnedFd>);

/// Splits an answer into the wanted part and what must be dropped on the expendable thread.
fn split_answer<T>(
    exchanged: Result<Exchange, Error>,
    wanted: impl FnOnce(Vec<u8>, u32) -> T,
) -> (Result<T, Error>, Option<Rest>) {
    match exchanged {
        Ok(Exchange { text, user, rest }) => (Ok(wanted(text, user)), Some(rest)),
        Err(error) => (Err(error), None),
    }
}

/// How long to wait for a call with this limit: its thread may be blocked for good.
fn with_margin(limit: Duration) -> Duration {
    limit + RESTART_LIMIT + Duration::from_secs(1)
}

impl Client {
    /// A client for the launcher that listens on `socket`.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.into() }
    }

    /// The settings with which the launcher starts hosts.
    pub async fn about(&self) -> Result<About, Error> {
        self.call(&Call::About, ANSWER_LIMIT).await
    }

    /// The user id of the launcher.
    pub async fn user(&self) -> Result<u32, Error> {
        let client = self.clone();
        let exchanged = threads::run(with_margin(ANSWER_LIMIT), async move {
            split_answer(client.exchange(&Call::About, ANSWER_LIMIT).await, |_, user| user)
        });
        exchanged.await.map_err(io_error("cannot use the launcher at", &self.socket))?
    }

    /// The living hosts.
    pub async fn hosts(&self) -> Result<Vec<Host>, Error> {
        let root = self.about().await?.hosts_dir;
        self.list(&root).await
    }

    /// Reads the configuration and the login of a home.
    pub(crate) async fn home(&self, dir: &Path) -> Result<CodexHome, Error> {
        let call = Call::Home { dir: dir.to_owned() };
        self.call(&call, ANSWER_LIMIT).await
    }

    /// Whether a pending call asks to leave the sandbox, by the rollout of its thread.
    pub(crate) async fn escalation(&self, rollout: &Path, call_id: &str) -> Result<Escalation, Error> {
        let call = Call::Escalation { rollout: rollout.to_owned(), call_id: call_id.to_owned() };
        self.call(&call, ANSWER_LIMIT).await
    }

    pub(crate) async fn list(&self, root: &Path) -> Result<Vec<Host>, Error> {
        let report = self.call(&Call::List, ANSWER_LIMIT).await?;
        Ok(self.found(root, report).0)
    }

    /// Has dead hosts cleaned up, and returns the living ones.
    pub(crate) async fn take_over(&self, root: &Path) -> Result<(Vec<Host>, Vec<Change>), Error> {
        let report = self.call(&Call::TakeOver, LAUNCH_LIMIT).await?;
        Ok(self.found(root, report))
    }

    /// Starts a host in `dir`, unless the start is cancelled.
    pub(crate) async fn launch(
        &self,
        dir: &Path,
        identity: &Identity,
        config: &[String],
        mut given_up: watch::Receiver<bool>,
    ) -> Result<Host, Error> {
        let call = Call::Launch { name: name_of(dir), identity: identity.clone(), config: config.to_vec() };
        let listed: ListedHost = tokio::select! {
            answered = self.call(&call, LAUNCH_LIMIT) => answered?,
            // Dropping the call hangs up, which cancels the start.
            _ = given_up.wait_for(|given_up| *given_up) => return Err(Error::GivenUp),
        };
        Ok(self.host(dir, listed.record))
    }

    /// A connection to codex, with the process at the other end checked.
    pub(crate) async fn connect(&self, host: &Host) -> Result<UnixStream, Error> {
        let host_ref = HostRef { name: name_of(host.dir()), epoch: host.epoch().clone() };
        let (client, of, limit) = (self.clone(), host.clone(), ANSWER_LIMIT);
        let connected = threads::run(with_margin(limit), async move {
            match client.exchange(&Call::Connect { host: host_ref }, limit).await {
                Ok(exchanged) => (client.connect_by(&exchanged, &of).await, Some(exchanged)),
                Err(error) => (Err(error), None),
            }
        });
        let failed = io_error("cannot connect to codex through the launcher at", &self.socket);
        match connected.await.map_err(&failed)? {
            Err(Error::Gone { .. }) => Err(Error::Gone { id: host.id().to_owned() }),
            stream => UnixStream::from_std(stream?).map_err(failed),
        }
    }

    /// Connects over a handle from the launcher. To be awaited on an expendable thread.
    async fn connect_by(&self, exchanged: &Exchange, host: &Host) -> Result<StdUnixStream, Error> {
        let failed = io_error("cannot connect to codex by", &self.socket);
        self.read_answer::<()>(&exchanged.text)?;
        let (_, handle) = &exchanged.rest;
        let handle = handle.as_ref().ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let stream = UnixStream::connect(file::path_of(handle)).await;
        let stream = stream.map_err(&failed)?;
        host.check_peer(&stream, exchanged.user)?;
        threads::relayed(stream).map_err(failed)
    }

    pub(crate) async fn last_words(
        &self,
        host: &Host,
        stderr_lines: usize,
    ) -> Result<(Option<Exit>, Vec<String>), Error> {
        let call = |host| Call::Look { host, stderr_lines };
        let words: LastWords = self.about_host(host, call, ANSWER_LIMIT).await?;
        let tail = words.stderr_tail.iter().take(stderr_lines).map(|line| shown(line)).collect();
        Ok((words.exit.map(plain), tail))
    }

    pub(crate) async fn stop(&self, host: &Host, how: Stop) -> Result<(), Error> {
        let grace = match how {
            Stop::Drain { grace } => Some(grace),
            Stop::Now => None,
        };
        let drain_ms = grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        let limit = grace.unwrap_or_default().saturating_add(QUICK_END_IN_ALL + SWEEP_LIMIT);
        let stopped = self.about_host::<()>(host, |host| Call::Stop { host, drain_ms }, limit).await;
        match stopped {
            Err(Error::Gone { .. }) => Ok(()),
            stopped => stopped.map(drop),
        }
    }

    /// Has all remaining processes of a host ended and its directory removed.
    pub(crate) async fn clear(&self, host: &Host) -> Result<Vec<Change>, Error> {
        let limit = QUICK_END_IN_ALL + SWEEP_LIMIT;
        let report = self.about_host(host, |host| Call::Clear { host }, limit).await?;
        Ok(self.found(host.dir().parent().unwrap_or(host.dir()), report).1)
    }

    async fn about_host<T: DeserializeOwned>(
        &self,
        host: &Host,
        call: impl FnOnce(HostRef) -> Call,
        limit: Duration,
    ) -> Result<T, Error> {
        let host_ref = HostRef { name: name_of(host.dir()), epoch: host.epoch().clone() };
        match self.call(&call(host_ref), limit).await {
            Err(Error::Gone { .. }) => Err(Error::Gone { id: host.id().to_owned() }),
            answered => answered,
        }
    }

    fn host(&self, dir: &Path, record: Record) -> Host {
        Host { dir: dir.to_owned(), record: Arc::new(record), reach: Reach::Launcher(self.clone()) }
    }

    fn found(&self, root: &Path, report: Report) -> (Vec<Host>, Vec<Change>) {
        let hosts = report.hosts.into_iter().filter(|listed| is_name(&listed.name)).take(MOST_HOSTS);
        let hosts = hosts.map(|listed| self.host(&root.join(&listed.name), listed.record)).collect();
        let died = report.died.into_iter();
        let died = died
            .map(|Died { record, exit }| Change::Died { record: Arc::new(record), exit: exit.map(plain) });
        let failed = report.failed.iter().map(|message| Error::Launcher { message: shown(message) });
        (hosts, died.chain(failed.map(Change::Failed)).collect())
    }

    async fn call<T: DeserializeOwned>(&self, call: &Call, limit: Duration) -> Result<T, Error> {
        let (client, call) = (self.clone(), call.clone());
        let exchanged = threads::run(with_margin(limit), async move {
            split_answer(client.exchange(&call, limit).await, |text, _| text)
        });
        let text = exchanged.await.map_err(io_error("cannot use the launcher at", &self.socket))??;
        self.read_answer(&text)
    }

    /// Makes a call and receives its answer. To be awaited on an expendable thread.
    async fn exchange(&self, call: &Call, limit: Duration) -> Result<Exchange, Error> {
        let failed = io_error("cannot use the launcher at", &self.socket);
        let stream = self.connect_with_retry().await.map_err(&failed)?;
        let user = self.checked_owner(&stream).map_err(&failed)?;
        let answered = timeout(limit, async {
            // A launcher may answer and hang up before it has read all of the call.
            let written = line::write(&stream, &serde_json::to_vec(call)?, None).await;
            let answer = line::read(&stream, ANSWER_MAX_BYTES).await;
            answer.map_err(|error| written.err().unwrap_or(error))
        });
        let late = |_| failed(io::ErrorKind::TimedOut.into());
        let (text, descriptor) = answered.await.map_err(late)?.map_err(&failed)?;
        Ok(Exchange { text, user, rest: (stream, descriptor) })
    }

    fn read_answer<T: DeserializeOwned>(&self, text: &[u8]) -> Result<T, Error> {
        let failed = io_error("cannot use the launcher at", &self.socket);
        match serde_json::from_slice(text).map_err(|error| failed(error.into()))? {
            Answer::Done(value) => Ok(value),
            Answer::Refused { why: Why::Gone, .. } => Err(Error::Gone { id: String::new() }),
            Answer::Refused { why: Why::NotListening, message } => {
                Err(failed(io::Error::other(shown(&message))))
            }
            Answer::Refused { why: Why::Failed, message } => {
                Err(Error::Launcher { message: shown(&message) })
            }
        }
    }

    async fn connect_with_retry(&self) -> io::Result<UnixStream> {
        let give_up_at = Instant::now() + RESTART_LIMIT;
        loop {
            match UnixStream::connect(&self.socket).await {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
                        && Instant::now() < give_up_at =>
                {
                    sleep(TRY_EVERY).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// The user id of the launcher. It must be the owner of the socket's directory, and nobody else may write there.
    fn checked_owner(&self, stream: &UnixStream) -> io::Result<u32> {
        let peer = stream.peer_cred()?;
        let dir = self.socket.parent().unwrap_or(Path::new("/"));
        let found = fs::symlink_metadata(dir)?;
        if !found.is_dir() || found.mode() & 0o022 != 0 || found.uid() != peer.uid() {
            let message = format!(
                "{} must belong to the launcher's user, and no one else may write there",
                dir.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        // The daemon must be able to see whether hosts live.
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        if pid.and_then(Process::with_pid).is_none() {
            return Err(io::Error::other(format!(
                "the launcher's process is not visible: {}",
                process::SEEING_OTHERS
            )));
        }
        Ok(peer.uid())
    }
}

/// A message of the launcher without control characters.
fn shown(message: &str) -> String {
    let is_plain = |char: &char| !char.is_control() || *char == '\n';
    message.chars().filter(is_plain).take(MESSAGE_MAX_CHARS).collect()
}

fn plain(exit: Exit) -> Exit {
    Exit { error: exit.error.as_deref().map(shown), ..exit }
}

fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
