//! The daemon: one per state directory. It owns the bridge, listens on a socket and optionally a TCP port, and leaves its
//! hosts running when it stops.

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
use codex_bridge_core::{Bridge, Config, failpoint};
use codex_session::ApprovalPolicy;
use codex_wire::host::{self, Found, Host, KeeperCommand, Stop, find_all, launcher, retirement};
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
use crate::http::{self, Shutdown};
use crate::paths::{Paths, cannot, path_variable, variable};
use crate::socket_access::{self, SocketCaller};
use crate::{log, mcp, tool_path, view, web};
use connections::Limits;
use host_config::Hosting;
use port::Port;

/// How long open calls may take when the daemon stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
const UPKEEP_INTERVAL: Duration = Duration::from_secs(15);
/// The file descriptor limit that the daemon sets. Not the maximum: hosts inherit the limit, and some programs close every
/// possible descriptor one by one.
const DESCRIPTOR_LIMIT: u64 = 16 * 1024;
/// The variable that names a failpoint, at which the daemon dies; for tests. See `docs/failpoints.md`.
const FAILPOINT: &str = "CODEX_BRIDGE_FAILPOINT";

/// How the daemon was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// By a person or a service manager, who read its output.
    Foreground,
    /// By a command that needed a daemon. The command reads one line of its stdout.
    Detached,
}

/// The options of the command line, which take precedence over the configuration.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// How the daemon was started.
    pub start: Start,
    /// The TCP address, instead of the configured one.
    pub listen: Option<SocketAddr>,
    /// Whether a proxy with TLS is in front, whatever the configuration says.
    pub behind_proxy: bool,
    /// A channel to serve besides the configured ones. The daemon stops when this channel stops.
    pub channel: Option<calls::RunChannel>,
}

/// Runs the daemon until it is stopped.
pub fn serve(paths: &Paths, options: StartOptions) -> Result<(), Failure> {
    let start = options.start;
    if start == Start::Detached {
        // Fails only for the leader of a process group, which a child of ours is not.
        rustix::process::setsid().ok();
    }
    raise_descriptor_limit();
    // Dropped last, so that the shutdown below is logged.
    let mut log = None;
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::internal)?;
    let outcome = runtime.block_on(run(paths, options, &mut log));
    if let Err(failure) = &outcome
        && start == Start::Detached
    {
        report(&Err(failure.clone()));
    }
    // Turns continue on their hosts; the next daemon takes over.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    match outcome? {
        Shutdown::StopHosts => end_hosts(paths),
        Shutdown::LeaveHosts | Shutdown::No => Ok(()),
    }
}

/// Raises the soft limit of file descriptors. Shells set it to 1024, which is too few for many hosts, streams and
/// connections.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTOR_LIMIT, |most| most.min(DESCRIPTOR_LIMIT));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        // Not fatal: the daemon works with fewer descriptors too.
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            debug!(%error, "the limit of file descriptors could not be raised");
        }
    }
}

async fn run(paths: &Paths, options: StartOptions, log: &mut Option<log::Log>) -> Result<Shutdown, Failure> {
    if socket_access::is_below_a_host(std::process::id()) {
        let message = "a command of Codex cannot start a daemon";
        return Err(Failure::new(Code::PeerRefused, message).hint("start it from a shell of your own"));
    }
    if let Ok(point) = std::env::var(FAILPOINT) {
        failpoint::arm(&point);
    }
    paths.prepare()?;
    let _lock = lock::acquire(paths)?;
    let mut file = config::load(paths)?;
    let redactor = Redactor::knowing(file.secrets(&variable));
    let log_file = (options.start == Start::Detached).then(|| paths.log());
    *log = Some(log::start(&file.log, &redactor, log_file));
    let port = Port::open(&options, &file.http).await?;
    let hosting = Hosting::read(paths, &mut file).await?;
    let codex = hosting.codex.clone();
    let codex_home = codex_home(&file);
    let about = about(paths, &hosting, codex_home.as_deref(), port.as_ref());
    // Built before the outbox starts, so that deliveries to channels that are not served yet wait instead of failing.
    let channels =
        Registry::new(&file.channels, &file.notify, file.channel_context(&variable, None, &redactor));
    let channels = Arc::new(channels);
    let config = core_config(&file, codex_home, &hosting, Arc::<Registry>::clone(&channels), redactor)?;
    let (trusted_roots, hints) = (config.trusted_roots.clone(), file.hints());
    let bridge = open_bridge(paths, config, &channels).await?;
    let (ending, ended) = watch::channel(Shutdown::No);
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
    end_on_signals(Arc::clone(&app.shutdown))?;
    let stopped = channels::serve(&app, options.channel.as_ref()).await?;
    announce(options.start, paths, &codex, port.as_ref(), &hints);
    let router = http::router(app.clone(), web::routes().merge(mcp::routes(&app)));
    let on_port = port.map(|port| port.serve(bridge.clone(), router.clone(), ended.clone()));
    let on_port = futures_util::future::OptionFuture::from(on_port);
    let router = http::on_socket(router, app);
    let who = |stream: &UnixStream, _: &_| SocketCaller::of(stream, || bridge.origins());
    let on_socket = connections::serve(listener, router, Limits::default(), who, ended.clone());
    tokio::join!(on_socket, on_port);
    notify::systemd("STOPPING=1");
    bridge.abandon().await;
    // Without the file, clients see at once that no daemon listens.
    if let Err(error) = fs::remove_file(paths.socket()) {
        warn!(%error, "the daemon's socket could not be removed");
    }
    info!("the daemon stops");
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
    store.channels().await?.iter().for_each(|record| channels.mark_served(record.name.as_str()));
    Ok(Bridge::open(config, Arc::new(store), key).await?)
}

fn listen(paths: &Paths) -> Result<UnixListener, Failure> {
    let socket = paths.socket();
    // We hold the lock, so an existing socket is from a daemon that died. If it cannot be removed, `bind` fails.
    fs::remove_file(&socket).ok();
    let listener = UnixListener::bind(&socket).map_err(|error| cannot("listen on", &socket, &error))?;
    let closed = fs::set_permissions(&socket, fs::Permissions::from_mode(0o600));
    closed.map_err(|error| cannot("restrict the permissions of", &socket, &error))?;
    Ok(listener)
}

fn end_on_signals(ending: Arc<watch::Sender<Shutdown>>) -> Result<(), Failure> {
    let on = |kind| signal(kind).map_err(Failure::internal);
    let (mut terminate, mut interrupt) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // An error means that the daemon has stopped already.
        ending.send(Shutdown::LeaveHosts).ok();
    });
    Ok(())
}

/// Waits until the daemon is told to stop.
async fn until_stopped(mut ended: watch::Receiver<Shutdown>) {
    // An error means that the daemon has stopped already.
    ended.wait_for(|end| *end != Shutdown::No).await.ok();
}

fn announce(start: Start, paths: &Paths, codex: &Codex, port: Option<&Port>, hints: &[String]) {
    for hint in hints {
        warn!("{}: {hint}", paths.config_file.display());
    }
    if codex.version.support() == Support::Newer {
        warn!("codex {} is newer than the tested versions ({})", codex.version, codex_binary::TESTED);
    }
    info!("codex-bridge {} listens on {}", env!("CARGO_PKG_VERSION"), paths.socket().display());
    if let Some(port) = port {
        info!("and on http://{}, for callers with a token", port.address());
        if let Some(page) = port.page() {
            info!("web page: {page}");
        }
    }
    info!("codex {} at {}", codex.version, codex.executable.display());
    if start == Start::Detached {
        report(&Ok(()));
        // The starting command has read its line, so stdout goes to the log from now on.
        if let Err(error) = rustix::stdio::dup2_stdout(std::io::stderr()) {
            warn!(%error, "stdout could not be redirected to the log");
        }
    }
    notify::systemd("READY=1");
}

/// Reports the outcome of the start to the command that started the daemon.
fn report(report: &Report) {
    let line = serde_json::to_string(report).unwrap_or_default();
    // The command may have exited.
    writeln!(std::io::stdout(), "{line}").ok();
}

/// The CODEX_HOME of tasks: the configured one, else that of the daemon's environment.
pub(crate) fn codex_home(file: &File) -> Option<PathBuf> {
    file.codex_home.clone().or_else(|| path_variable("CODEX_HOME"))
}

/// The directories that no task may write in.
fn protected_dirs(file: &File, codex_home: Option<&Path>, hosting: &Hosting) -> ProtectedDirs {
    let user_home = hosting.user_home.clone();
    let default_home =
        codex_home.map(Path::to_path_buf).or(user_home.as_ref().map(|home| home.join(".codex")));
    let ours = hosting.protected.iter().cloned().chain(default_home).chain(file.other_homes.clone());
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
        on_host_loss: file.on_host_loss,
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
        upkeep_every: UPKEEP_INTERVAL,
        sender,
        redactor,
        clock: Clock::system(),
        random: Random::from_system().map_err(Failure::internal)?,
    })
}

/// Stops all hosts, after everything that could start a new one has ended.
fn end_hosts(paths: &Paths) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    let failed = |error: host::Error| Failure::new(Code::Hosts, error.to_string());
    runtime.block_on(async {
        let hosts = match config::load(paths)?.hosts.launcher {
            Some(socket) => launcher::Client::new(&socket).hosts().await.map_err(failed)?,
            None => running_hosts(paths),
        };
        for host in hosts {
            host.stop(Stop::Now).await.map_err(failed)?;
        }
        Ok(())
    })
}

fn running_hosts(paths: &Paths) -> Vec<Host> {
    let found = find_all(&paths.hosts()).into_iter().filter_map(|(_, found)| found.ok());
    let is_running = |found| match found {
        Found::Alive(host) | Found::KeeperGone(host) => Some(host),
        Found::Dead { .. } | Found::Unfinished { .. } => None,
    };
    found.filter_map(is_running).collect()
}
