//! Ways for a session to reach Codex: its own child on stdio, a host that outlives the session, or an injected
//! transport.

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

/// How long to wait for the exit of a process whose connection ended.
const EXIT_LIMIT: Duration = Duration::from_secs(1);
/// Pause between two checks for the exit.
const EXIT_PAUSE: Duration = Duration::from_millis(10);

/// Pause between two tries to connect to a booting host.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long to wait for other starts of Codex on the same home.
const BOOT_LIMIT: Duration = Duration::from_secs(30);
/// How long a server may take to report the status of its threads.
const STATUS_LIMIT: Duration = Duration::from_secs(2);

/// Connects a session, as often as needed.
pub trait Dial: Send + Sync + 'static {
    /// Connects. `initialize_limit` bounds the handshake.
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, Error>>;
}

impl Dial for Arc<dyn Dial> {
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, Error>> {
        self.as_ref().dial(initialize_limit)
    }
}

/// A connection and its backend.
pub struct Link {
    /// The connection.
    pub connection: Connection,
    /// The process behind it.
    pub backend: Backend,
}

/// The process behind a connection.
#[derive(Clone)]
pub enum Backend {
    /// A child process, which ends with the session.
    Child(Arc<StdioChild>),
    /// A host, which outlives the session.
    Host(Host),
    /// A server of the program itself, which outlives the session.
    Other(Arc<dyn Backing>),
    /// Unknown: the program has injected a transport.
    Unknown,
}

/// Why the connection failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The child did not start.
    #[error(transparent)]
    Spawn(#[from] stdio::Error),
    /// The host did not start, or cannot be reached.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// Other programs kept starting Codex on the same home.
    #[error(transparent)]
    Boot(#[from] boot_lock::Error),
    /// A host does not confine its commands.
    #[error("this codex cannot be used: {why}")]
    Unconfined {
        /// What was seen.
        why: String,
    },
    /// The transport did not come up.
    #[error(transparent)]
    Transport(#[from] codex_wire::transport::Error),
    /// The handshake with Codex failed.
    #[error("{error}")]
    Handshake {
        /// Why.
        error: connection::Error,
        /// The end of its stderr, redacted.
        stderr_tail: Vec<String>,
    },
}

/// The session's own Codex, on pipes. It ends with the session, and so do its turns.
pub struct OwnCodex(pub Spawn);

/// A host: found in its directory, or started there.
pub struct OnHost(pub Launch);

/// A transport made by the program.
pub struct Injected<F>(pub F);

impl Dial for OwnCodex {
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, Error>> {
        async move {
            // Concurrent first starts on one home fail on stdio (codex 0.166: 9 of 10).
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
                Ok(connection) => Ok(Link { connection, backend: Backend::Child(child) }),
                Err(error) => {
                    let stderr_tail = last_words(&child).await;
                    // It failed to start, so it is killed without a grace period.
                    if let Err(error) = child.kill().await {
                        warn!(error, "a codex process that failed to start could not be killed");
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

/// Kills the child if the caller stops waiting for the handshake.
struct KillIfDropped(Option<Arc<StdioChild>>);

impl Drop for KillIfDropped {
    fn drop(&mut self) {
        // Without a runtime the pipes are being closed, and codex exits at the end of its input.
        if let (Some(child), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                if let Err(error) = child.kill().await {
                    warn!(error, "a codex process whose start was cancelled could not be killed");
                }
            });
        }
    }
}

fn codex_home(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let default = || env.get("HOME").map(|home| PathBuf::from(home).join(".codex"));
    env.get("CODEX_HOME").map(PathBuf::from).or_else(default)
}

/// Waits for the exit, since a failing process may still be writing the reason.
async fn last_words(child: &StdioChild) -> Vec<String> {
    child.wait(EXIT_LIMIT).await;
    child.stderr_tail(host::STDERR_TAIL_LINES)
}

/// A new epoch for every start of a child.
fn fresh_epoch(pid: u32) -> Epoch {
    Epoch(format!("stdio:{pid}:{:032x}", rand::random::<u128>()))
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
            // Another program has started the host meanwhile.
            (Err(host::Error::Occupied { .. }), Some(Found::Alive(host) | Found::KeeperGone(host))) => {
                Ok(host)
            }
            (launched, _) => launched,
        }
    }
}

/// Connects to a host. Waits for a booting one.
pub async fn connect(host: Host, initialize_limit: Duration) -> Result<Link, Error> {
    let transport = unix::connect(until_it_listens(&host).await?, DEFAULT_MESSAGE_LIMIT).await?;
    let handshake = Handshake {
        limit: initialize_limit,
        binary: Some(host.record().codex_executable.clone()),
        backing: Some(Arc::new(host.clone())),
        ..Handshake::new(host.epoch().clone())
    };
    match Connection::open(transport, handshake).await {
        Ok(connection) => Ok(Link { connection, backend: Backend::Host(host) }),
        Err(error) => {
            let stderr_tail = host.stderr_tail(host::STDERR_TAIL_LINES).await;
            Err(Error::Handshake { error, stderr_tail })
        }
    }
}

/// Connects as soon as the host listens: it may have been found while it boots.
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
                Ok(connection) => Ok(Link { connection, backend: Backend::Unknown }),
                Err(error) => Err(Error::Handshake { error, stderr_tail: Vec::new() }),
            }
        }
        .boxed()
    }
}

/// Waits until the keeper has recorded how codex ended, as long as the keeper lives.
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
    /// Whether the server goes on without this connection, so that reconnecting is possible.
    pub fn outlives_connection(&self) -> bool {
        match &self.backend {
            Backend::Host(host) => host.is_alive(),
            Backend::Other(server) => server.is_alive(),
            Backend::Child(_) | Backend::Unknown => false,
        }
    }

    /// How files of the server's user are read.
    pub fn reach(&self) -> Reach {
        match &self.backend {
            Backend::Host(host) => host.reach().clone(),
            Backend::Child(_) | Backend::Other(_) | Backend::Unknown => Reach::Own,
        }
    }

    /// The user's configuration in the server's CODEX_HOME; the default if the server has not reported its home.
    pub async fn user_config(&self) -> Result<UserConfig, host::Error> {
        let Some(home) = self.connection.server.codex_home.as_deref().map(Path::new) else {
            return Ok(UserConfig::default());
        };
        match &self.backend {
            Backend::Host(host) => Ok(host.reach().home(home).await?.config),
            Backend::Child(_) | Backend::Other(_) | Backend::Unknown => Ok(UserConfig::read(home)),
        }
    }

    /// A description of how the server ended.
    pub async fn how_it_ended(&self) -> String {
        match &self.backend {
            Backend::Child(child) => drop(child.wait(EXIT_LIMIT).await),
            Backend::Host(host) => exit_recorded(host).await,
            Backend::Other(_) | Backend::Unknown => {}
        }
        let closed = self.connection.peer.closed();
        match (self.connection.exit().await, closed) {
            // This was why we closed the connection; the exit of the server is only its consequence.
            (_, Some(Closed::Transport(error @ TransportError::MessageTooLong { .. }))) => error.to_string(),
            (Some(exit), _) => exit,
            (None, Some(closed)) => closed.to_string(),
            (None, None) => "codex no longer answers".to_owned(),
        }
    }

    /// Ends a server whose turn cannot be stopped, unless another turn runs on it.
    pub async fn end_unless_shared(&self, own_thread: &ThreadId) -> Result<(), String> {
        match &self.backend {
            Backend::Child(child) => child.kill().await,
            Backend::Host(host) if !self.has_other_turns(own_thread).await => {
                host.stop(Stop::Now).await.map_err(|error| error.to_string())
            }
            Backend::Host(_) | Backend::Other(_) | Backend::Unknown => Ok(()),
        }
    }

    /// Whether a turn of another thread runs. A server that does not answer counts as shared.
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

    /// Closes the connection, and ends the session's own Codex.
    pub async fn leave(&self) -> Result<(), String> {
        self.connection.peer.close();
        match &self.backend {
            Backend::Child(child) => child.end().await,
            Backend::Host(_) | Backend::Other(_) | Backend::Unknown => Ok(()),
        }
    }
}
