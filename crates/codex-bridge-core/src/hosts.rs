//! The hosts of this bridge, for its tasks: a connection to the right one, started if need be.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codex_session::link::{self, Link};
use codex_session::{Dial, link::Error as DialError};
use codex_wire::Epoch;
use codex_wire::host::pool::{Change, Placed, Pool};
use codex_wire::host::{Host, Identity, Launch, Stop};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use crate::config::Config;

/// How long Codex may take to boot.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How often a full home is asked again.
const ROOM_PAUSE: Duration = Duration::from_millis(500);

/// The hosts of this bridge.
#[derive(Clone)]
pub(crate) struct Hosts {
    pool: Arc<Mutex<Pool>>,
    template: Arc<Launch>,
}

impl Hosts {
    /// Takes over the hosts that live, and says what became of the others.
    pub(crate) async fn attach(config: &Config) -> Result<(Self, Vec<Change>), codex_wire::host::Error> {
        let (pool, changes) = Pool::attach(&config.hosts_dir, config.host_limits).await?;
        let template = Launch {
            keeper: config.keeper.clone(),
            codex: config.codex.clone(),
            version: config.codex_version.clone(),
            identity: Identity { codex_home: config.codex_home.clone(), ..Identity::default() },
            dir: PathBuf::new(),
            parent_env: config.parent_env.clone(),
            env: config.env.clone(),
            config: Vec::new(),
            ready_timeout: READY_LIMIT,
        };
        Ok((Self { pool: Arc::new(Mutex::new(pool)), template: Arc::new(template) }, changes))
    }

    /// The living host of an epoch.
    pub(crate) async fn find(&self, epoch: &Epoch) -> Option<Host> {
        let pool = self.pool.lock().await;
        pool.hosts().find(|host| host.epoch() == epoch && host.is_alive()).cloned()
    }

    /// All of them.
    pub(crate) async fn all(&self) -> Vec<Host> {
        self.pool.lock().await.hosts().cloned().collect()
    }

    /// A way for one task to a host: the one that its thread is on, else any with room.
    pub(crate) fn dial(&self, codex_home: Option<PathBuf>, prefer: Option<Epoch>) -> HostDial {
        HostDial { hosts: self.clone(), codex_home, prefer: Mutex::new(prefer) }
    }

    pub(crate) async fn thread_opened(&self, host: &str, thread_id: &str) {
        let mut pool = self.pool.lock().await;
        pool.thread_opened(host, thread_id);
        pool.turn_started(host);
    }

    pub(crate) async fn thread_closed(&self, host: &str, thread_id: &str) {
        let mut pool = self.pool.lock().await;
        pool.turn_ended(host);
        pool.thread_closed(host, thread_id);
    }

    /// Looks after the hosts.
    pub(crate) async fn maintain(&self) -> Vec<Change> {
        self.pool.lock().await.maintain(&self.template.version).await
    }

    /// Ends all of them.
    pub(crate) async fn stop_all(&self) -> Vec<String> {
        let mut failed = Vec::new();
        for host in self.all().await {
            if let Err(error) = host.stop(Stop::Now).await {
                failed.push(error.to_string());
            }
        }
        failed
    }

    async fn place(&self, codex_home: Option<&PathBuf>) -> Result<Host, DialError> {
        loop {
            let mut wanted = (*self.template).clone();
            if let Some(home) = codex_home {
                wanted.identity.codex_home = Some(home.clone());
            }
            match self.pool.lock().await.host_for(&wanted).await? {
                Placed::On(host) => return Ok(host),
                // A home that may have one host only, and that one is full: its turn comes.
                Placed::Wait => tokio::time::sleep(ROOM_PAUSE).await,
            }
        }
    }
}

/// A way for one task to a host.
pub(crate) struct HostDial {
    hosts: Hosts,
    codex_home: Option<PathBuf>,
    /// The host that the thread is on: only there it can be taken up while that host lives.
    prefer: Mutex<Option<Epoch>>,
}

impl Dial for HostDial {
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, DialError>> {
        async move {
            let mut prefer = self.prefer.lock().await;
            let known = match &*prefer {
                Some(epoch) => self.hosts.find(epoch).await,
                None => None,
            };
            let host = match known {
                Some(host) => host,
                None => self.hosts.place(self.codex_home.as_ref()).await?,
            };
            *prefer = Some(host.epoch().clone());
            link::connect(host, initialize_limit).await
        }
        .boxed()
    }
}
