//! The daemon: one per state directory, in the foreground. It holds the bridge, listens on the socket, and leaves its
//! hosts running when it goes.

pub mod channels;
mod connections;
pub mod host_config;
pub(crate) mod lock;
pub(crate) mod notify;
mod port;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use codex_binary::{Codex, Support};
use codex_bridge_core::clock::Clock;
use codex_bridge_core::config::DEVELOPER_INSTRUCTIONS;
use codex_bridge_core::outbox::Sender;
use codex_bridge_core::place::ProtectedDirs;
use codex_bridge_core::random::Random;
use codex_bridge_core::seal;
use codex_bridge_core::store::Store;
use codex_bridge_core::store::sqlite::Sqlite;
use codex_bridge_core::trust::TrustedRoots;
use codex_bridge_core::{Bridge, Config, OnHostLoss, failpoint};
use codex_session::ApprovalPolicy;
use codex_wire::host::retirement;
use codex_wire::host::{self, Found, Host, KeeperCommand, Stop, find_all, launcher};
use redact::Redactor;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::calls;
use crate::channel::registry::Registry;
use crate::client::Report;
use crate::config::{self, File};
use crate::failure::{Code, Failure};
use crate::http::{self, End};
use crate::paths::{Paths, cannot, variable};
use crate::peer::{self, Peer};
use crate::{log, mcp, tool_path, view, web};
use connections::Limits;
use host_config::Hosting;
use port::Port;

/// How long callers that are being answered may take when the daemon stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// How long the tasks that drive turns have to let go.
const LET_GO: Duration = Duration::from_secs(1);
/// How often parked tasks and hosts are looked after.
const UPKEEP_EVERY: Duration = Duration::from_secs(15);
/// Descriptors that the daemon wants. Not all that it could have: hosts inherit the limit, and there are programs that
/// close every descriptor they might have, one by one.
const DESCRIPTORS: u64 = 16 * 1024;
/// Names the place where the program dies; for proofs. See `docs/failpoints.md`.
const FAILPOINT: &str = "CODEX_BRIDGE_FAILPOINT";

/// How the daemon was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// By a person or a service manager, which see what it says.
    Foreground,
    /// On the way, by a command that reads one line of its stdout.
    Detached,
}

/// What the command line says about a start, before the configuration file has its say.
#[derive(Debug, Clone)]
pub struct Orders {
    /// How it is started.
    pub start: Start,
    /// Where to answer by TCP, instead of the configured address.
    pub listen: Option<SocketAddr>,
    /// A proxy in front speaks TLS, whatever the configuration says.
    pub behind_proxy: bool,
    /// A channel to serve beside those that are configured; the daemon ends when it cannot go on.
    pub channel: Option<calls::RunChannel>,
}

/// Runs until it is told to stop.
pub fn serve(paths: &Paths, orders: Orders) -> Result<(), Failure> {
    let start = orders.start;
    if start == Start::Detached {
        // Refused only to the leader of a process group, which a child of ours is not.
        rustix::process::setsid().ok();
    }
    raise_descriptor_limit();
    // Dropped last: whatever ends below may still have something to tell.
    let mut log = None;
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::internal)?;
    let outcome = runtime.block_on(run(paths, orders, &mut log));
    if let Err(failure) = &outcome
        && start == Start::Detached
    {
        report(&Report::Error(failure.clone()));
    }
    // Whatever drives a turn stops here: hosts go on by themselves, and the next daemon takes over.
    runtime.shutdown_timeout(LET_GO);
    match outcome? {
        End::WithHosts => end_hosts(paths),
        End::LeaveHosts | End::Never => Ok(()),
    }
}

/// Shells give a process 1024 descriptors, and let it have more: with hosts, streams and idle connections a busy daemon
/// needs them.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        // It works with fewer as well.
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            debug!(%error, "the limit of descriptors stays as it is");
        }
    }
}

async fn run(paths: &Paths, orders: Orders, log: &mut Option<log::Log>) -> Result<End, Failure> {
    if peer::is_below_a_host(std::process::id()) {
        let message = "a daemon cannot be started by what Codex runs";
        return Err(Failure::new(Code::PeerRefused, message).hint("start it from a shell of your own"));
    }
    if let Ok(point) = std::env::var(FAILPOINT) {
        failpoint::arm(&point);
    }
    paths.prepare()?;
    let _held = lock::hold(paths)?;
    let mut file = config::load(paths)?;
    let redactor = Redactor::knowing(file.secrets(&variable));
    *log = Some(log::start(&file.log, &redactor));
    let port = Port::open(&orders, &file.http).await?;
    let hosting = Hosting::of(paths, &mut file).await?;
    let codex = hosting.codex.clone();
    let codex_home = codex_home(&file);
    let about = about(paths, &hosting, codex_home.as_deref(), port.as_ref());
    // Known before anything is sent: what is for a channel that is not served yet waits, and is not given up.
    let channels = Registry::new(&file.channels, &file.notify, file.around(&variable, None, &redactor));
    let channels = Arc::new(channels);
    let config = core_config(&file, codex_home, &hosting, Arc::<Registry>::clone(&channels), redactor)?;
    let (trusted_roots, hints) = (config.trusted_roots.clone(), file.hints());
    let bridge = open_bridge(paths, config, &channels).await?;
    let (ending, ended) = watch::channel(End::Never);
    let app = http::App::new(
        bridge.clone(),
        file,
        trusted_roots,
        about,
        ending,
        Arc::clone(&channels),
        paths.clone(),
    );
    let listener = listen(paths)?;
    end_on_signals(Arc::clone(&app.ending))?;
    let stopped = channels::serve(&app, orders.channel.as_ref()).await?;
    announce(orders.start, paths, &codex, port.as_ref(), &hints);
    let router = http::router(app.clone(), web::routes().merge(mcp::routes(&app)));
    let on_port = port.map(|port| port.answer(bridge.clone(), router.clone(), ended.clone()));
    let on_port = futures_util::future::OptionFuture::from(on_port);
    let router = http::on_socket(router, app);
    let who = |stream: &UnixStream, _: &_| Peer::of(stream, || bridge.origins());
    let on_socket = connections::answer(listener, router, Limits::default(), who, ended.clone());
    tokio::join!(on_socket, on_port);
    notify::tell("STOPPING=1");
    bridge.abandon().await;
    // The next daemon makes its own; a file without a listener only says less clearly that nobody is there.
    if let Err(error) = fs::remove_file(paths.socket()) {
        warn!(%error, "the socket could not be removed");
    }
    info!("the daemon ends");
    if let Some(failure) = stopped.get() {
        return Err(failure.clone());
    }
    let end = *ended.borrow();
    Ok(end)
}

async fn open_bridge(paths: &Paths, config: Config, channels: &Registry) -> Result<Bridge, Failure> {
    let store = Sqlite::open(&paths.database())?;
    let key = seal::Key::load_or_create(&paths.seal_key())
        .map_err(|error| Failure::new(Code::SealKey, error.to_string()))?;
    store.channels().await?.iter().for_each(|record| channels.know(record.name.as_str()));
    Ok(Bridge::open(config, Arc::new(store), key).await?)
}

fn listen(paths: &Paths) -> Result<UnixListener, Failure> {
    let socket = paths.socket();
    // What lies there is of a daemon that died: we hold the lock. A file that stays is told of by `bind`.
    fs::remove_file(&socket).ok();
    let listener = UnixListener::bind(&socket).map_err(|error| cannot("listen on", &socket, &error))?;
    let closed = fs::set_permissions(&socket, fs::Permissions::from_mode(0o600));
    closed.map_err(|error| cannot("close", &socket, &error))?;
    Ok(listener)
}

fn end_on_signals(ending: Arc<watch::Sender<End>>) -> Result<(), Failure> {
    let on = |kind| signal(kind).map_err(Failure::internal);
    let (mut terminate, mut interrupt) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // An error would mean that nobody is left who could end.
        ending.send(End::LeaveHosts).ok();
    });
    Ok(())
}

/// Comes back when the end is told.
async fn told(mut ended: watch::Receiver<End>) {
    // Without a sender the daemon has ended.
    ended.wait_for(|end| *end != End::Never).await.ok();
}

fn announce(start: Start, paths: &Paths, codex: &Codex, port: Option<&Port>, hints: &[String]) {
    for hint in hints {
        warn!("{}: {hint}", paths.config_file.display());
    }
    if codex.version.support() == Support::Newer {
        warn!("codex {} is newer than what was tested ({})", codex.version, codex_binary::TESTED);
    }
    info!("codex-bridge {} listens on {}", env!("CARGO_PKG_VERSION"), paths.socket().display());
    if let Some(port) = port {
        info!("and on http://{}, for whoever has a token", port.address());
        if let Some(page) = port.page() {
            info!("the page: {page}");
        }
    }
    info!("codex {} at {}", codex.version, codex.executable.display());
    if start == Start::Detached {
        report(&Report::Ready);
        // Nobody reads the pipe any more; what is written from here on belongs to the log.
        if let Err(error) = rustix::stdio::dup2_stdout(std::io::stderr()) {
            warn!(%error, "stdout does not lead to the log");
        }
        tokio::spawn(log::file::keep_short(paths.log()));
    }
    notify::tell("READY=1");
}

/// Says how the start went, to whoever started us.
fn report(report: &Report) {
    let line = serde_json::to_string(report).unwrap_or_default();
    // A caller that has gone needs no report.
    writeln!(std::io::stdout(), "{line}").ok();
}

/// The CODEX_HOME of tasks: the operator's, or that of the daemon's own environment.
fn codex_home(file: &File) -> Option<PathBuf> {
    let own_home = std::env::var_os("CODEX_HOME").filter(|home| !home.is_empty()).map(Into::into);
    file.codex_home.clone().or(own_home)
}

/// The directories in which no task may write.
fn protected_dirs(file: &File, codex_home: Option<&Path>, hosting: &Hosting) -> ProtectedDirs {
    let user_home = hosting.user_home.clone();
    let default_home =
        codex_home.map(Path::to_path_buf).or(user_home.as_ref().map(|home| home.join(".codex")));
    let ours = hosting.grounds.iter().cloned().chain(default_home).chain(file.other_homes.clone());
    let tools = tool_path::directories(hosting.host_path()).collect();
    ProtectedDirs { ours: ours.collect(), user_home, tools }
}

fn about(paths: &Paths, hosting: &Hosting, codex_home: Option<&Path>, port: Option<&Port>) -> view::About {
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let codex = &hosting.codex;
    view::About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        state_dir: text(&paths.state_dir),
        config_file: text(&paths.config_file),
        codex: text(&codex.executable),
        codex_version: codex.version.to_string(),
        codex_home: codex_home.map(text),
        path: hosting.command_path.clone(),
        http: port.map(|port| format!("http://{}", port.address())),
    }
}

fn core_config(
    file: &File,
    codex_home: Option<PathBuf>,
    hosting: &Hosting,
    sender: Arc<dyn Sender>,
    redactor: Redactor,
) -> Result<Config, Failure> {
    let trusted_roots = TrustedRoots::default();
    trusted_roots.replace(file.trusted_roots());
    let own = file.developer_instructions.clone().unwrap_or_else(|| DEVELOPER_INSTRUCTIONS.to_owned());
    let instructions: Vec<String> =
        [Some(own), file.extra_instructions.clone()].into_iter().flatten().collect();
    let day = Duration::from_hours(24);
    Ok(Config {
        reach: hosting.reach.clone(),
        hosts_dir: hosting.hosts_dir.clone(),
        codex: hosting.codex.executable.clone(),
        codex_version: hosting.codex.version.to_string(),
        keeper: KeeperCommand {
            program: std::env::current_exe().map_err(Failure::internal)?,
            args: vec!["host".into()],
        },
        parent_env: hosting.environment.clone(),
        env: host_config::env_policy(&file.env),
        command_path: Some(hosting.command_path.clone()),
        protected: protected_dirs(file, codex_home.as_deref(), hosting),
        codex_home,
        other_homes: file.other_homes.clone(),
        roots: file.roots.clone(),
        profiles: file.profiles.clone(),
        denied: hosting.denied.clone(),
        trusted_roots,
        max_running: file.max_running,
        prompt_limit_bytes: file.prompt_limit_bytes,
        host_limits: retirement::Limits::default(),
        on_host_loss: match file.on_host_loss {
            config::OnHostLoss::Ask => OnHostLoss::Ask,
            config::OnHostLoss::Resume => OnHostLoss::Resume,
        },
        skills: hosting.skills.clone(),
        developer_instructions: instructions.join("\n\n"),
        approvals: ApprovalPolicy {
            accept_commands: file.accept_commands,
            accept_file_changes: file.accept_file_changes,
            trusted_mcp_servers: file.trusted_mcp_servers.clone(),
            allow_permanent_rules: false,
            answer_limit: file.answer_limit_s.map(Duration::from_secs),
            ..ApprovalPolicy::default()
        },
        escalations: file.escalations,
        keep_tasks: day.saturating_mul(u32::try_from(file.keep_days).unwrap_or(u32::MAX)),
        keep_events: file.keep_events,
        upkeep_every: UPKEEP_EVERY,
        sender,
        redactor,
        clock: Clock::system(),
        random: Random::from_system().map_err(Failure::internal)?,
    })
}

/// Ends every host that still runs, after everything that could start a new one has gone.
fn end_hosts(paths: &Paths) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    let failed = |error: host::Error| Failure::new(Code::Hosts, error.to_string());
    runtime.block_on(async {
        let hosts = match config::load(paths)?.hosts.launcher {
            Some(socket) => launcher::Client::new(&socket).hosts().await.map_err(failed)?,
            None => living(paths),
        };
        for host in hosts {
            host.stop(Stop::Now).await.map_err(failed)?;
        }
        Ok(())
    })
}

fn living(paths: &Paths) -> Vec<Host> {
    let found = find_all(&paths.hosts()).into_iter().filter_map(|(_, found)| found.ok());
    let is_living = |found| match found {
        Found::Alive(host) | Found::KeeperGone(host) => Some(host),
        Found::Dead { .. } | Found::Unfinished { .. } => None,
    };
    found.filter_map(is_living).collect()
}
