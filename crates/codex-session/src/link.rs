//! Ways for a session to reach a Codex: one of its own on stdio, a host that outlives it, or an injected transport.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codex_wire::backing::Backing;
use codex_wire::call::{ThreadLoadedList, ThreadRead};
use codex_wire::connection::{self, Connection, Handshake};
use codex_wire::host::boot_lock::{self, BootLock};
use codex_wire::host::{self, Found, Host, Launch, Reach, Stop};
use codex_wire::peer::Closed;
use codex_wire::transport::stdio::{self, Spawn, StdioChild};
use codex_wire::transport::{DEFAULT_MESSAGE_LIMIT, Error as TransportError, Transport, unix};
use codex_wire::user_config::UserConfig;
use codex_wire::{Epoch, ThreadId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::net::UnixStream;
use tracing::warn;

/// How long a process whose connection ended may take to be seen as ended.
const EXIT_LIMIT: Duration = Duration::from_secs(1);
/// How often it is looked whether that is known.
const EXIT_PAUSE: Duration = Duration::from_millis(10);

/// How often we look whether a host that somebody else has started listens.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long others may take to start Codex on the same home.
const BOOT_LIMIT: Duration = Duration::from_secs(30);
/// How long a server may take to tell how its threads are.
const STATUS_LIMIT: Duration = Duration::from_secs(2);

/// Connects a session, as often as needed.
pub trait Dial: Send + Sync + 'static {
    /// Makes a connection. `initialize_limit` bounds the handshake.
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, Error>>;
}

impl Dial for Arc<dyn Dial> {
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, Error>> {
        self.as_ref().dial(initialize_limit)
    }
}

/// A connection and what stands behind it.
pub struct Link {
    /// The connection.
    pub connection: Connection,
    /// What stands behind it.
    pub behind: Behind,
}

/// What stands behind a connection.
#[derive(Clone)]
pub enum Behind {
    /// A child of ours, which ends with the session.
    Child(Arc<StdioChild>),
    /// A host, which outlives the session.
    Host(Host),
    /// A server of the program's own, which outlives the session for as long as it runs.
    Other(Arc<dyn Backing>),
    /// The program that injected the transport knows.
    Unknown,
}

/// Why no connection could be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The child did not start.
    #[error(transparent)]
    Spawn(#[from] stdio::Error),
    /// The host did not start, or cannot be reached.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// Others were starting Codex on the same home all the while.
    #[error(transparent)]
    Boot(#[from] boot_lock::Error),
    /// A host does not keep its commands within bounds.
    #[error("this codex cannot be used: {why}")]
    Unconfined {
        /// What was seen.
        why: String,
    },
    /// The transport did not come up.
    #[error(transparent)]
    Transport(#[from] codex_wire::transport::Error),
    /// Codex did not shake hands.
    #[error("{error}")]
    Handshake {
        /// Why.
        error: connection::Error,
        /// Its last words, redacted.
        stderr_tail: Vec<String>,
    },
}

/// A Codex of the session's own, on pipes. It ends with the session, and its turns with it.
pub struct OwnCodex(pub Spawn);

/// A Codex under a keeper, on a unix socket: found in its directory, or started there.
pub struct OnHost(pub Launch);

/// A transport made by the program.
pub struct Injected<F>(pub F);

impl Dial for OwnCodex {
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, Error>> {
        async move {
            // Several first starts on one home kill each other on stdio (codex 0.166: 9 of 10).
            let _lock = match codex_home(&self.0.env) {
                Some(home) => Some(BootLock::acquire(&home, Instant::now() + BOOT_LIMIT).await?),
                None => None,
            };
            let (transport, child) = stdio::spawn(&self.0)?;
            let mut guard = KillIfDropped(Some(child.clone()));
            let handshake = Handshake {
                limit: initialize_limit,
                binary: Some(self.0.program.clone()),
                backing: Some(child.clone()),
                ..Handshake::new(fresh_epoch(child.pid()))
            };
            let link = match Connection::open(transport, handshake).await {
                Ok(connection) => Ok(Link { connection, behind: Behind::Child(child) }),
                Err(error) => {
                    let stderr_tail = last_words(&child).await;
                    // It failed to start: nothing of it is worth a wait.
                    if let Err(error) = child.kill().await {
                        warn!(error, "a Codex that failed to start could not be ended");
                    }
                    Err(Error::Handshake { error, stderr_tail })
                }
            };
            guard.0 = None;
            link
        }
        .boxed()
    }
}

/// A child whose handshake nobody waits for any more does not stay.
struct KillIfDropped(Option<Arc<StdioChild>>);

impl Drop for KillIfDropped {
    fn drop(&mut self) {
        // Without a runtime its pipes are closing, and codex leaves at the end of its input.
        if let (Some(child), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                if let Err(error) = child.kill().await {
                    warn!(error, "a Codex whose start was given up could not be ended");
                }
            });
        }
    }
}

fn codex_home(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let default = || env.get("HOME").map(|home| PathBuf::from(home).join(".codex"));
    env.get("CODEX_HOME").map(PathBuf::from).or_else(default)
}

/// A process that is about to end may still be writing its reason.
async fn last_words(child: &StdioChild) -> Vec<String> {
    child.wait(EXIT_LIMIT).await;
    child.stderr_tail(host::STDERR_TAIL_LINES)
}

/// Every start of a child is a start of its own.
fn fresh_epoch(pid: u32) -> Epoch {
    Epoch(format!("stdio:{pid}:{}", crate::session::random_id()))
}

impl Dial for OnHost {
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, Error>> {
        async move { connect(self.find_or_launch().await?, initialize_limit).await }.boxed()
    }
}

impl OnHost {
    async fn find_or_launch(&self) -> Result<Host, host::Error> {
        if let Some(Found::Alive(host) | Found::KeeperGone(host)) = host::find(&self.0.dir)? {
            return Ok(host);
        }
        let launched = Host::launch(&self.0).await;
        match (launched, host::find(&self.0.dir)?) {
            // Somebody else was quicker.
            (Err(host::Error::Occupied { .. }), Some(Found::Alive(host) | Found::KeeperGone(host))) => {
                Ok(host)
            }
            (launched, _) => launched,
        }
    }
}

/// Connects to a host. One that was found while it boots is waited for.
pub async fn connect(host: Host, initialize_limit: Duration) -> Result<Link, Error> {
    let transport = unix::connect(until_it_listens(&host).await?, DEFAULT_MESSAGE_LIMIT).await?;
    let handshake = Handshake {
        limit: initialize_limit,
        binary: Some(host.record().codex_executable.clone()),
        backing: Some(Arc::new(host.clone())),
        ..Handshake::new(host.epoch().clone())
    };
    match Connection::open(transport, handshake).await {
        Ok(connection) => Ok(Link { connection, behind: Behind::Host(host) }),
        Err(error) => {
            let stderr_tail = host.stderr_tail(host::STDERR_TAIL_LINES).await;
            Err(Error::Handshake { error, stderr_tail })
        }
    }
}

/// Whoever started the host may have died before it listened.
async fn until_it_listens(host: &Host) -> Result<UnixStream, host::Error> {
    let give_up_at = Instant::now() + BOOT_LIMIT;
    loop {
        match host.connect_stream().await {
            Err(host::Error::Io { .. }) if host.is_alive() && Instant::now() < give_up_at => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            outcome => return outcome,
        }
    }
}

impl<F, T> Dial for Injected<F>
where
    F: Fn() -> T + Send + Sync + 'static,
    T: Future<Output = Result<Transport, codex_wire::transport::Error>> + Send,
{
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, Error>> {
        async move {
            let transport = (self.0)().await?;
            let handshake = Handshake { limit: initialize_limit, ..Handshake::new(fresh_epoch(0)) };
            match Connection::open(transport, handshake).await {
                Ok(connection) => Ok(Link { connection, behind: Behind::Unknown }),
                Err(error) => Err(Error::Handshake { error, stderr_tail: Vec::new() }),
            }
        }
        .boxed()
    }
}

/// Waits until the keeper of a codex that has ended has written down how, while there is a keeper that can.
async fn exit_recorded(host: &Host) {
    let given_up = tokio::time::Instant::now() + EXIT_LIMIT;
    while !host.is_alive()
        && host.exit().await.is_none()
        && host.record().keeper.is_alive()
        && tokio::time::Instant::now() < given_up
    {
        tokio::time::sleep(EXIT_PAUSE).await;
    }
}

impl Link {
    /// Whether the server goes on without this connection, so that it can be reached again.
    pub fn outlives_connection(&self) -> bool {
        match &self.behind {
            Behind::Host(host) => host.is_alive(),
            Behind::Other(server) => server.is_alive(),
            Behind::Child(_) | Behind::Unknown => false,
        }
    }

    /// How files of its user are read.
    pub fn reach(&self) -> Reach {
        match &self.behind {
            Behind::Host(host) => host.reach().clone(),
            Behind::Child(_) | Behind::Other(_) | Behind::Unknown => Reach::Own,
        }
    }

    /// What the user has configured in the home of this server; nothing if it has not told its home.
    pub async fn user_config(&self) -> Result<UserConfig, host::Error> {
        let Some(home) = self.connection.server.codex_home.as_deref().map(Path::new) else {
            return Ok(UserConfig::default());
        };
        match &self.behind {
            Behind::Host(host) => Ok(host.reach().home(home).await?.config),
            Behind::Child(_) | Behind::Other(_) | Behind::Unknown => Ok(UserConfig::read(home)),
        }
    }

    /// How the server ended, in words.
    pub async fn how_it_ended(&self) -> String {
        match &self.behind {
            Behind::Child(child) => drop(child.wait(EXIT_LIMIT).await),
            Behind::Host(host) => exit_recorded(host).await,
            Behind::Other(_) | Behind::Unknown => {}
        }
        let closed = self.connection.peer.closed();
        match (self.connection.exit().await, closed) {
            // We left it for this; that it then went by itself is no reason.
            (_, Some(Closed::Transport(error @ TransportError::MessageTooLong { .. }))) => error.to_string(),
            (Some(exit), _) => exit,
            (None, Some(closed)) => closed.to_string(),
            (None, None) => "it no longer answers".to_owned(),
        }
    }

    /// Ends a server that does not let go of a turn, unless another turn lives on it.
    pub async fn end_unless_shared(&self, own_thread: &ThreadId) -> Result<(), String> {
        match &self.behind {
            Behind::Child(child) => child.kill().await,
            Behind::Host(host) if !self.has_other_turns(own_thread).await => {
                host.stop(Stop::Now).await.map_err(|error| error.to_string())
            }
            Behind::Host(_) | Behind::Other(_) | Behind::Unknown => Ok(()),
        }
    }

    /// Whether a turn of another thread runs. A server that does not say counts as shared.
    async fn has_other_turns(&self, own_thread: &ThreadId) -> bool {
        let peer = &self.connection.peer;
        let Ok(loaded) = peer.call(&ThreadLoadedList {}, STATUS_LIMIT).await else { return true };
        for thread_id in loaded.data.into_iter().filter(|thread_id| thread_id != own_thread) {
            let read = peer.call(&ThreadRead { thread_id, include_turns: false }, STATUS_LIMIT).await;
            let is_quiet = read.is_ok_and(|read| read.thread.status.kind != "active");
            if !is_quiet {
                return true;
            }
        }
        false
    }

    /// Leaves: closes the connection, and ends what is the session's own.
    pub async fn leave(&self) -> Result<(), String> {
        self.connection.peer.close();
        match &self.behind {
            Behind::Child(child) => child.end().await,
            Behind::Host(_) | Behind::Other(_) | Behind::Unknown => Ok(()),
        }
    }
}
