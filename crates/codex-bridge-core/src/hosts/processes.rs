//! Hosts that are processes: of our own user, or of the launcher's.

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
/// A task that was at work when so many hosts died may be why: from then on it takes nobody with it.
const LOSSES_BEFORE_ALONE: u32 = 2;
/// How often a full home is asked again.
const ROOM_PAUSE: Duration = Duration::from_millis(500);

/// The hosts of this bridge.
#[derive(Clone)]
pub(crate) struct Processes {
    pool: Pool,
    template: Arc<Launch>,
    /// The home of tasks that name none.
    default_home: PathBuf,
    /// What every host is started with.
    rules: HostRules,
    /// Whether they are being ended for good.
    closed: Arc<AtomicBool>,
}

impl Processes {
    /// Takes over the hosts that live.
    pub(crate) async fn attach(config: &Config, rules: HostRules) -> Result<Self, host::Error> {
        let (dir, limits) = (&config.hosts_dir, config.host_limits);
        let (pool, _) = match &config.reach {
            Reach::Own => Pool::attach(dir, limits).await?,
            Reach::Launcher(launcher) => Pool::attach_through(launcher, dir, limits).await?,
        };
        // Their threads are taken up by hosts with the rules of today.
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

    /// The living host of an epoch. One that is just being ended is waited for.
    async fn find(&self, epoch: &Epoch) -> Option<Host> {
        self.pool.find(epoch).await
    }

    async fn place(&self, codex_home: Option<&PathBuf>, alone: Option<&TaskId>) -> Result<Host, DialError> {
        loop {
            let mut wanted = (*self.template).clone();
            // The default home by its name is the same home, and the same host.
            let home = codex_home.filter(|home| **home != self.default_home);
            if let Some(home) = home {
                wanted.identity.codex_home = Some(home.clone());
            }
            // Asked each time: people log in and out while hosts run.
            wanted.identity.exclusive_home =
                self.pool.reach().home(home.unwrap_or(&self.default_home)).await?.login.is_chatgpt;
            // One refresher of its tokens matters more there than who dies with whom.
            let alone = alone.filter(|_| !wanted.identity.exclusive_home);
            wanted.identity.alone = alone.map(|task_id| task_id.0.clone()).unwrap_or_default();
            let placed = if self.are_closed() { None } else { Some(self.pool.host_for(&wanted).await) };
            let Some(placed) = placed.filter(|_| !self.are_closed()) else {
                // Whoever waits here is given up with the bridge, unsent, and taken up by the next one.
                std::future::pending::<()>().await;
                continue;
            };
            match placed? {
                Placed::On(host) => return Ok(host),
                // A home that may have one host only, and that one is full: its turn comes.
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

    fn lives<'a>(&'a self, epoch: &'a Epoch) -> BoxFuture<'a, bool> {
        async move { self.find(epoch).await.is_some() }.boxed()
    }

    fn connect<'a>(
        &'a self,
        epoch: &'a Epoch,
        limit: Duration,
    ) -> BoxFuture<'a, Option<Result<Link, DialError>>> {
        async move { Some(link::connect(self.find(epoch).await?, limit).await) }.boxed()
    }

    fn login<'a>(&'a self, home: &'a Path) -> BoxFuture<'a, Option<String>> {
        async move {
            let read = self.pool.reach().home(home).await;
            let read = read
                .inspect_err(|error| warn!(home = %home.display(), %error, "its login cannot be looked at"));
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

    fn start_none(&self) -> BoxFuture<'_, ()> {
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
            self.start_none().await;
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

/// A way for one task to a host.
struct HostDial {
    hosts: Processes,
    codex_home: Option<PathBuf>,
    /// Set for a task that gets a host of its own.
    alone: Option<TaskId>,
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
                None => self.hosts.place(self.codex_home.as_ref(), self.alone.as_ref()).await?,
            };
            *prefer = Some(host.epoch().clone());
            let link = link::connect(host.clone(), initialize_limit).await?;
            if let Err(error) = self.hosts.rules.prove(&host, &link.connection).await {
                // A host that lets its commands read everything serves nobody.
                error!(host = host.id(), %error, "a host does not keep its commands within bounds; it is stopped");
                if let Err(error) = link.leave().await {
                    debug!(host = host.id(), error, "its connection did not close");
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
