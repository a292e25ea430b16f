//! The hosts of this bridge, for its tasks: a connection to the right one, started if need be.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codex_session::link::{self, Link};
use codex_session::{Dial, link::Error as DialError};
use codex_wire::Epoch;
use codex_wire::codex_home::CodexHome;
use codex_wire::host::origin::Origin;
use codex_wire::host::pool::{Change, Placed, Pool};
use codex_wire::host::{self, Host, Identity, Launch, Reach, Stop};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use crate::config::Config;
use crate::host_rules::HostRules;
use crate::login;
use crate::task::{Task, TaskId};

/// How long Codex may take to boot.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// A task that was at work when so many hosts died may be why: from then on it takes nobody with it.
const LOSSES_BEFORE_ALONE: u32 = 2;
/// How often a full home is asked again.
const ROOM_PAUSE: Duration = Duration::from_millis(500);

/// The hosts of this bridge.
#[derive(Clone)]
pub(crate) struct Hosts {
    pool: Pool,
    template: Arc<Launch>,
    /// The home of tasks that name none.
    default_home: PathBuf,
    /// What every host is started with.
    rules: HostRules,
    /// Whether they are being ended for good.
    closed: Arc<AtomicBool>,
}

impl Hosts {
    /// Takes over the hosts that live.
    pub(crate) async fn attach(config: &Config, rules: HostRules) -> Result<Self, host::Error> {
        let (dir, limits) = (&config.hosts_dir, config.host_limits);
        let (pool, _) = match &config.reach {
            Reach::Own => Pool::attach(dir, limits).await?,
            Reach::Launcher(launcher) => Pool::attach_through(launcher, dir, limits).await?,
        };
        // Their threads are taken up by hosts with the rules of today.
        for host in pool.hosts().iter().filter(|host| !rules.are_of(host)) {
            let _ = host.stop(Stop::Now).await;
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
            default_home: login::home(config, None),
            rules,
            closed: Arc::default(),
        })
    }

    /// The living host of an epoch. One that is just being ended is waited for.
    pub(crate) async fn find(&self, epoch: &Epoch) -> Option<Host> {
        self.pool.find(epoch).await
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Host> {
        self.pool.hosts()
    }

    /// By what the processes of all hosts are known. Waits for nobody.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        self.pool.origins()
    }

    /// What the files of a home of Codex say.
    pub(crate) async fn home(&self, dir: &Path) -> Result<CodexHome, host::Error> {
        self.pool.reach().home(dir).await
    }

    /// A way for one task to a host: the one that its thread is on, else any with room, else, if it saw too many of
    /// them die, one of its own.
    pub(crate) fn dial(&self, task: &Task) -> HostDial {
        let is_alone = task.used.host_losses >= LOSSES_BEFORE_ALONE;
        HostDial {
            hosts: self.clone(),
            codex_home: task.settings.codex_home.clone(),
            alone: is_alone.then(|| task.id.clone()),
            prefer: Mutex::new(task.epoch.clone()),
        }
    }

    pub(crate) fn thread_opened(&self, host: &str, thread_id: &str) {
        self.pool.thread_opened(host, thread_id);
        self.pool.turn_started(host);
    }

    pub(crate) fn thread_closed(&self, host: &str, thread_id: &str) {
        self.pool.turn_ended(host);
        self.pool.thread_closed(host, thread_id);
    }

    /// Looks after the hosts.
    pub(crate) async fn maintain(&self) -> Vec<Change> {
        self.pool.maintain(&self.template.version).await
    }

    /// Gives up every start that is under way, and starts none any more.
    pub(crate) async fn start_none(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.pool.give_up_boots().await;
    }

    /// Whether no host is started any more.
    pub(crate) fn are_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Ends all of them, and starts none any more.
    pub(crate) async fn stop_all(&self) -> Vec<String> {
        self.start_none().await;
        let mut failed = Vec::new();
        for host in self.all() {
            if let Err(error) = host.stop(Stop::Now).await {
                failed.push(error.to_string());
            }
        }
        failed
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
                self.home(home.unwrap_or(&self.default_home)).await?.login.is_chatgpt;
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

/// A way for one task to a host.
pub(crate) struct HostDial {
    hosts: Hosts,
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
                let _ = link.leave().await;
                let _ = host.stop(Stop::Now).await;
                return Err(error);
            }
            Ok(link)
        }
        .boxed()
    }
}
