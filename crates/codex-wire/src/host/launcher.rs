//! The launcher: a service under the hosts' user that starts, reaches and ends hosts for a daemon under another user.
//!
//! What breaks out of Codex's sandbox then runs as the hosts' user, and the daemon's files and socket are closed to it. The
//! launcher runs as that user too, so the daemon believes it no more than it believes Codex: every answer has a limit in
//! bytes and a deadline, a connection to codex is checked by the daemon itself, and the daemon opens no file that the
//! hosts' user could have put there.
//!
//! A call is one connection: a line of JSON there, a line of JSON back, and with the answer to a `connect` a handle on
//! the socket of codex, which lies where only the hosts' user can look. Over it the daemon connects by itself, so that it
//! shares its connection with nobody: whoever has a descriptor too could make it block. Programs, environment and homes are the launcher's own; a call cannot choose them. The launcher
//! remembers nothing: all it knows is in the hosts' directory, so it may be restarted at any time.

mod aside;
mod line;
mod service;

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
use super::record::{Exit, Record};
use super::{Error, Host, Reach, Stop, io_error};
use crate::Epoch;
use crate::codex_home::CodexHome;
use crate::escalation::Escalation;
use crate::os::file;
use crate::os::process::{self, Process};

pub use service::{Options, Service};

/// A longer call is refused.
const CALL_MAX_BYTES: usize = 64 * 1024;
/// A longer answer is not read.
const ANSWER_MAX_BYTES: usize = 4 * 1024 * 1024;
/// How long the launcher may take for what waits for nobody.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long a start may take: others may boot on the same home before, and a start that failed is cleared away.
const LAUNCH_LIMIT: Duration = Duration::from_mins(2);
/// What an end may take beyond the time that turns are given.
const SWEEP_LIMIT: Duration = Duration::from_secs(20);
/// How long a launcher that is being restarted is waited for.
const RESTART_LIMIT: Duration = Duration::from_secs(5);
const TRY_EVERY: Duration = Duration::from_millis(50);
/// More hosts than this are not believed in.
pub(crate) const MOST_HOSTS: usize = 256;
/// More of what a launcher says is not shown.
const MESSAGE_MAX_CHARS: usize = 4000;
/// The longest name of a host's directory.
const NAME_MAX_BYTES: usize = 36;

/// What a daemon asks of the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
enum Call {
    /// Answered with [`About`].
    About,
    /// Clears away what does not live any more; answered with a [`Report`].
    TakeOver,
    /// Answered with the living hosts in a [`Report`].
    List,
    /// Answered with a [`Sighted`]. Whoever hangs up before gives the start up.
    Launch { name: String, identity: Identity, config: Vec<String> },
    /// Answered with nothing but a handle on the socket.
    Connect { host: Named },
    /// Answered with [`LastWords`].
    Look { host: Named, stderr_lines: usize },
    /// Ends a host; without `drain_ms` at once.
    Stop { host: Named, drain_ms: Option<u64> },
    /// Clears away a host that died or has lost its keeper; answered with a [`Report`].
    Clear { host: Named },
    /// Answered with a [`CodexHome`].
    Home { dir: PathBuf },
    /// Answered with an [`Escalation`].
    Escalation { rollout: PathBuf, call_id: String },
}

/// One life of one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    /// The name of its directory.
    name: String,
    epoch: Epoch,
}

/// What a launcher starts hosts with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The version of its codex.
    pub version: String,
    /// Its codex.
    pub codex: PathBuf,
    /// Where it keeps packages of Codex.
    pub packages: PathBuf,
    /// Where its hosts live.
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

/// A host, as the launcher sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Sighted {
    /// The name of its directory.
    name: String,
    record: Record,
}

/// How a host ended, as its keeper saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Died {
    record: Record,
    exit: Option<Exit>,
}

/// What the launcher found, cleared away, and could not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    #[serde(default)]
    hosts: Vec<Sighted>,
    #[serde(default)]
    died: Vec<Died>,
    #[serde(default)]
    failed: Vec<String>,
}

/// What a host has left for people to read.
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

/// Why a call was not done, where the caller goes on differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Why {
    /// There is no such host any more.
    Gone,
    /// codex does not listen, yet or any more.
    NotListening,
    #[serde(other)]
    Failed,
}

/// Whether a name can be that of a host's directory, and nothing else.
fn is_name(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    !name.is_empty() && name.len() <= NAME_MAX_BYTES && name.chars().all(is_plain)
}

/// What a launcher found and cleared away.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) hosts: Vec<Host>,
    pub(crate) died: Vec<(Record, Option<Exit>)>,
    pub(crate) failed: Vec<Error>,
}

/// The way to a launcher. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    socket: Arc<Path>,
}

/// The answer to a call as it came.
struct Exchanged {
    text: Vec<u8>,
    /// As whom the launcher runs.
    user: u32,
    /// The connection, and what came over it beside the text.
    rest: Rest,
}

type Rest = (UnixStream, Option<OwnedFd>);

/// What is wanted of an answer, and what is left of it.
fn parted<T>(
    exchanged: Result<Exchanged, Error>,
    wanted: impl FnOnce(Vec<u8>, u32) -> T,
) -> (Result<T, Error>, Option<Rest>) {
    match exchanged {
        Ok(Exchanged { text, user, rest }) => (Ok(wanted(text, user)), Some(rest)),
        Err(error) => (Err(error), None),
    }
}

/// How long somebody waits for a call that may take so long, if its thread is lost.
fn within(limit: Duration) -> Duration {
    limit + RESTART_LIMIT + Duration::from_secs(1)
}

impl Client {
    /// To the launcher that listens there.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.into() }
    }

    /// What the launcher starts hosts with.
    pub async fn about(&self) -> Result<About, Error> {
        self.call(&Call::About, ANSWER_LIMIT).await
    }

    /// As whom the launcher runs.
    pub async fn user(&self) -> Result<u32, Error> {
        let client = self.clone();
        let exchanged = aside::run(within(ANSWER_LIMIT), async move {
            parted(client.exchange(&Call::About, ANSWER_LIMIT).await, |_, user| user)
        });
        exchanged.await.map_err(io_error("cannot use the launcher at", &self.socket))?
    }

    /// The hosts that live.
    pub async fn hosts(&self) -> Result<Vec<Host>, Error> {
        let root = self.about().await?.hosts_dir;
        Ok(self.list(&root).await?.hosts)
    }

    /// What the files of a home say.
    pub(crate) async fn home(&self, dir: &Path) -> Result<CodexHome, Error> {
        let call = Call::Home { dir: dir.to_owned() };
        self.call(&call, ANSWER_LIMIT).await
    }

    /// What a pending call asks for, by the rollout of its thread.
    pub(crate) async fn escalation(&self, rollout: &Path, call_id: &str) -> Result<Escalation, Error> {
        let call = Call::Escalation { rollout: rollout.to_owned(), call_id: call_id.to_owned() };
        self.call(&call, ANSWER_LIMIT).await
    }

    pub(crate) async fn list(&self, root: &Path) -> Result<Findings, Error> {
        let report = self.call(&Call::List, ANSWER_LIMIT).await?;
        Ok(self.found(root, report))
    }

    /// Has what does not live cleared away, and says what does.
    pub(crate) async fn take_over(&self, root: &Path) -> Result<Findings, Error> {
        let report = self.call(&Call::TakeOver, LAUNCH_LIMIT).await?;
        Ok(self.found(root, report))
    }

    /// Starts a host in `dir`, until it is given up.
    pub(crate) async fn launch(
        &self,
        dir: &Path,
        identity: &Identity,
        config: &[String],
        mut given_up: watch::Receiver<bool>,
    ) -> Result<Host, Error> {
        let call = Call::Launch { name: name_of(dir), identity: identity.clone(), config: config.to_vec() };
        let sighted: Sighted = tokio::select! {
            answered = self.call(&call, LAUNCH_LIMIT) => answered?,
            // Hanging up tells the launcher.
            _ = given_up.wait_for(|given_up| *given_up) => return Err(Error::GivenUp),
        };
        Ok(self.host(dir, sighted.record))
    }

    /// A connection to codex, and to nobody else.
    pub(crate) async fn connect(&self, host: &Host) -> Result<UnixStream, Error> {
        let named = Named { name: name_of(host.dir()), epoch: host.epoch().clone() };
        let (client, of, limit) = (self.clone(), host.clone(), ANSWER_LIMIT);
        let connected = aside::run(within(limit), async move {
            match client.exchange(&Call::Connect { host: named }, limit).await {
                Ok(exchanged) => (client.connect_by(&exchanged, &of).await, Some(exchanged)),
                Err(error) => (Err(error), None),
            }
        });
        let failed = io_error("cannot connect to codex by", &self.socket);
        match connected.await.map_err(&failed)? {
            Err(Error::Gone { .. }) => Err(Error::Gone { id: host.id().to_owned() }),
            stream => UnixStream::from_std(stream?).map_err(failed),
        }
    }

    /// Connects over a handle that the launcher gave. To be awaited on a thread that may be lost.
    async fn connect_by(&self, exchanged: &Exchanged, host: &Host) -> Result<StdUnixStream, Error> {
        let failed = io_error("cannot connect to codex by", &self.socket);
        self.read_answer::<()>(&exchanged.text)?;
        let (_, handle) = &exchanged.rest;
        let handle = handle.as_ref().ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let stream = UnixStream::connect(file::path_of(handle)).await;
        let stream = stream.map_err(&failed)?;
        host.check_peer(&stream, exchanged.user)?;
        aside::relayed(stream).map_err(failed)
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

    /// Has all that is left of a host ended and its directory removed.
    pub(crate) async fn clear(&self, host: &Host) -> Result<Findings, Error> {
        let limit = QUICK_END_IN_ALL + SWEEP_LIMIT;
        let report = self.about_host(host, |host| Call::Clear { host }, limit).await?;
        Ok(self.found(host.dir().parent().unwrap_or(host.dir()), report))
    }

    async fn about_host<T: DeserializeOwned>(
        &self,
        host: &Host,
        call: impl FnOnce(Named) -> Call,
        limit: Duration,
    ) -> Result<T, Error> {
        let named = Named { name: name_of(host.dir()), epoch: host.epoch().clone() };
        match self.call(&call(named), limit).await {
            Err(Error::Gone { .. }) => Err(Error::Gone { id: host.id().to_owned() }),
            answered => answered,
        }
    }

    fn host(&self, dir: &Path, record: Record) -> Host {
        Host { dir: dir.to_owned(), record: Arc::new(record), reach: Reach::Launcher(self.clone()) }
    }

    fn found(&self, root: &Path, report: Report) -> Findings {
        let named = report.hosts.into_iter().filter(|sighted| is_name(&sighted.name)).take(MOST_HOSTS);
        Findings {
            hosts: named.map(|sighted| self.host(&root.join(&sighted.name), sighted.record)).collect(),
            died: report.died.into_iter().map(|died| (died.record, died.exit.map(plain))).collect(),
            failed: report.failed.iter().map(|message| Error::Launcher { message: shown(message) }).collect(),
        }
    }

    async fn call<T: DeserializeOwned>(&self, call: &Call, limit: Duration) -> Result<T, Error> {
        let (client, call) = (self.clone(), call.clone());
        let exchanged =
            aside::run(
                within(limit),
                async move { parted(client.exchange(&call, limit).await, |text, _| text) },
            );
        let text = exchanged.await.map_err(io_error("cannot use the launcher at", &self.socket))??;
        self.read_answer(&text)
    }

    /// A call and the text of its answer. To be awaited on a thread that may be lost.
    async fn exchange(&self, call: &Call, limit: Duration) -> Result<Exchanged, Error> {
        let failed = io_error("cannot use the launcher at", &self.socket);
        let stream = self.reached().await.map_err(&failed)?;
        let user = self.checked_owner(&stream).map_err(&failed)?;
        let answered = timeout(limit, async {
            // Whoever has answered and gone need not have read all of the call.
            let written = line::write(&stream, &serde_json::to_vec(call)?, None).await;
            let answer = line::read(&stream, ANSWER_MAX_BYTES).await;
            answer.map_err(|error| written.err().unwrap_or(error))
        });
        let late = |_| failed(io::ErrorKind::TimedOut.into());
        let (text, descriptor) = answered.await.map_err(late)?.map_err(&failed)?;
        Ok(Exchanged { text, user, rest: (stream, descriptor) })
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

    async fn reached(&self) -> io::Result<UnixStream> {
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

    /// As whom the launcher runs. Only who owns the directory of the socket may be one, and nobody else may write there.
    fn checked_owner(&self, stream: &UnixStream) -> io::Result<u32> {
        let peer = stream.peer_cred()?;
        let dir = self.socket.parent().unwrap_or(Path::new("/"));
        let found = fs::symlink_metadata(dir)?;
        if !found.is_dir() || found.mode() & 0o022 != 0 || found.uid() != peer.uid() {
            let message = format!("{} must belong to the user of the launcher alone", dir.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        // By what else would we know whether its hosts live?
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        if pid.and_then(Process::with_pid).is_none() {
            return Err(io::Error::other(format!("its process cannot be seen: {}", process::SEEING_OTHERS)));
        }
        Ok(peer.uid())
    }
}

/// What the launcher says, without what a terminal would act on.
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
