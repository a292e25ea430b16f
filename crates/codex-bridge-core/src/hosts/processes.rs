//! Hosts that are processes of the daemon's user, or of the launcher's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codex_session::link::{self, Link};
use codex_session::{Dial, link::Error as DialError};
use codex_wire::Epoch;
use codex_wire::host::origin::Origin;
use codex_wire::host::pool::{Change, Placed, Pool};
use codex_wire::host::{self, Host, Identity, Launch, Reach, Stop};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tracing::{debug, error, warn};

use crate::config::Config;
use crate::host_rules::HostRules;
use crate::task::{Task, TaskId};

use super::Hosts;

/// How long Codex may take to boot.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// A task that was running when this many hosts died may be the cause. From then on it gets a host of its own.
const LOSSES_BEFORE_ALONE: u32 = 2;
/// The pause before a full home is asked again.
const ROOM_PAUSE: Duration = Duration::from_millis(500);

/// The hosts of this bridge.
#[derive(Clone)]
pub(crate) struct Processes {
    pool: Pool,
    /// The launch of every host, apart from what depends on the task.
    template: Arc<Launch>,
    /// The CODEX_HOME of tasks that name none.
    default_home: PathBuf,
    /// The rules of every host.
    rules: HostRules,
    /// Whether hosts are no longer started.
    closed: Arc<AtomicBool>,
}

impl Processes {
    /// Attaches to the hosts that are alive. Hosts with other rules are stopped.
    pub(crate) async fn attach(config: &Config, rules: HostRules) -> Result<Self, host::Error> {
        let (dir, limits) = (&config.hosts_dir, config.host_limits);
        let (pool, _) = match &config.reach {
            Reach::Own => Pool::attach(dir, limits).await?,
            Reach::Launcher(launcher) => Pool::attach_through(launcher, dir, limits).await?,
        };
        // A host with today's rules resumes their threads.
        for host in pool.hosts().iter().filter(|host| !rules.are_of(host)) {
            if let Err(error) = host.stop(Stop::Now).await {
                warn!(host = host.id(), %error, "a host with other rules could not be stopped");
            }
        }
        let template = Launch {
            keeper: config.keeper.clone(),
            codex: config.codex.clone(),
            version: config.codex_version.clone(),
            identity: Identity {
                codex_home: config.codex_home.clone(),
                environment: rules.name(),
                ..Identity::default()
            },
            dir: PathBuf::new(),
            parent_env: config.parent_env.clone(),
            env: config.env.clone(),
            config: rules.overrides(),
            ready_timeout: READY_LIMIT,
        };
        Ok(Self {
            pool,
            template: Arc::new(template),
            default_home: config.home_of(None),
            rules,
            closed: Arc::default(),
        })
    }

    /// A host with room, started if necessary.
    async fn place(&self, codex_home: Option<&PathBuf>, alone: Option<&TaskId>) -> Result<Host, DialError> {
        loop {
            let mut wanted = (*self.template).clone();
            // The default home, given by its path, is still the default home and has the same host.
            let home = codex_home.filter(|home| **home != self.default_home);
            if let Some(home) = home {
                wanted.identity.codex_home = Some(home.clone());
            }
            // Read each time: people log in and out while hosts run.
            wanted.identity.exclusive_home =
                self.pool.reach().home(home.unwrap_or(&self.default_home)).await?.login.is_chatgpt;
            // On a ChatGPT login, only one host may refresh the tokens. That matters more.
            let alone = alone.filter(|_| !wanted.identity.exclusive_home);
            wanted.identity.alone = alone.map(|task_id| task_id.0.clone()).unwrap_or_default();
            let placed = if self.are_closed() { None } else { Some(self.pool.host_for(&wanted).await) };
            let Some(placed) = placed.filter(|_| !self.are_closed()) else {
                // The bridge is stopping. It drops this future, and the next bridge resumes the task.
                std::future::pending::<()>().await;
                continue;
            };
            match placed? {
                Placed::On(host) => return Ok(host),
                // The home may have one host only, and that host is full.
                Placed::Wait => tokio::time::sleep(ROOM_PAUSE).await,
            }
        }
    }
}

impl Hosts for Processes {
    fn dial(&self, task: &Task) -> Arc<dyn Dial> {
        let is_alone = task.used.host_losses >= LOSSES_BEFORE_ALONE;
        Arc::new(HostDial {
            hosts: self.clone(),
            codex_home: task.settings.codex_home.clone(),
            alone: is_alone.then(|| task.id.clone()),
            prefer: Mutex::new(task.epoch.clone()),
        })
    }

    fn is_alive<'a>(&'a self, epoch: &'a Epoch) -> BoxFuture<'a, bool> {
        async move { self.pool.find(epoch).await.is_some() }.boxed()
    }

    fn connect<'a>(
        &'a self,
        epoch: &'a Epoch,
        limit: Duration,
    ) -> BoxFuture<'a, Option<Result<Link, DialError>>> {
        async move { Some(link::connect(self.pool.find(epoch).await?, limit).await) }.boxed()
    }

    fn login<'a>(&'a self, home: &'a Path) -> BoxFuture<'a, Option<String>> {
        async move {
            let read = self.pool.reach().home(home).await;
            let read = read.inspect_err(
                |error| warn!(home = %home.display(), %error, "the login of this CODEX_HOME cannot be read"),
            );
            read.ok().map(|home| home.login.fingerprint)
        }
        .boxed()
    }

    fn thread_opened(&self, host: &str, thread_id: &str) {
        self.pool.thread_opened(host, thread_id);
        self.pool.turn_started(host);
    }

    fn thread_closed(&self, host: &str, thread_id: &str) {
        self.pool.turn_ended(host);
        self.pool.thread_closed(host, thread_id);
    }

    fn maintain(&self) -> BoxFuture<'_, Vec<Change>> {
        self.pool.maintain(&self.template.version).boxed()
    }

    fn all(&self) -> Vec<Host> {
        self.pool.hosts()
    }

    fn ends(&self) -> u64 {
        self.pool.ends()
    }

    fn origins(&self) -> Vec<Origin> {
        self.pool.origins()
    }

    fn stop_starting(&self) -> BoxFuture<'_, ()> {
        async {
            self.closed.store(true, Ordering::SeqCst);
            self.pool.give_up_boots().await;
        }
        .boxed()
    }

    fn are_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn stop_all(&self) -> BoxFuture<'_, Vec<String>> {
        async {
            self.stop_starting().await;
            let mut failed = Vec::new();
            for host in self.all() {
                if let Err(error) = host.stop(Stop::Now).await {
                    error!(host = host.id(), %error, "a host could not be stopped");
                    failed.push(error.to_string());
                }
            }
            failed
        }
        .boxed()
    }
}

/// A dialer for one task.
struct HostDial {
    hosts: Processes,
    codex_home: Option<PathBuf>,
    /// The task, if it needs a host of its own.
    alone: Option<TaskId>,
    /// The host of the thread. While that host is alive, only it can resume the thread.
    prefer: Mutex<Option<Epoch>>,
}

impl Dial for HostDial {
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, DialError>> {
        async move {
            let mut prefer = self.prefer.lock().await;
            let known = match &*prefer {
                Some(epoch) => self.hosts.pool.find(epoch).await,
                None => None,
            };
            let host = match known {
                Some(host) => host,
                None => self.hosts.place(self.codex_home.as_ref(), self.alone.as_ref()).await?,
            };
            *prefer = Some(host.epoch().clone());
            let link = link::connect(host.clone(), initialize_limit).await?;
            if let Err(error) = self.hosts.rules.prove(&host, &link.connection).await {
                // A host whose commands can read everything must not be used.
                error!(host = host.id(), %error, "the sandbox of this host does not deny the bridge's paths; the host is stopped");
                if let Err(error) = link.leave().await {
                    debug!(host = host.id(), error, "the connection to this host did not close");
                }
                if let Err(error) = host.stop(Stop::Now).await {
                    error!(host = host.id(), %error, "the host could not be stopped");
                }
                return Err(error);
            }
            Ok(link)
        }
        .boxed()
    }
}
