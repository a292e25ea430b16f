//! Starts a host: makes its directory, writes the plan, starts the keeper with a clean environment, and waits until
//! codex accepts a connection.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{self, Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::boot_lock::BootLock;
use super::environment::{EnvPolicy, HostVariables, child_env, names_in_config};
use super::find::{Found, check_private, find};
use super::keeper::{QUICK_END_IN_ALL, remove_socket};
use super::placement::Identity;
use super::record::{Exit, Files, Plan, Record, SOCKET_PATH_MAX_BYTES, read_json, write_json};
use super::{Error, Host, STDERR_TAIL_LINES, in_thread, io_error, lineage, stderr_log, stop};
use crate::os::process::{self, Process};

/// Pause between two tries to connect; codex takes 50 to 400 ms to start.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The program that runs [`super::keeper::run`]; `--plan FILE` is added to its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperCommand {
    /// The executable.
    pub program: PathBuf,
    /// Its leading arguments, such as the name of a hidden subcommand.
    pub args: Vec<OsString>,
}

/// The parameters of a start.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The command that starts a keeper.
    pub keeper: KeeperCommand,
    /// The native codex executable (not the Node shim), at a path that stays valid while the host lives.
    pub codex: PathBuf,
    /// Its version.
    pub version: String,
    /// The identity of the host, with its CODEX_HOME.
    pub identity: Identity,
    /// The host's own directory. It is made if missing; an existing one must have mode 0700. Its path must be short
    /// enough for a socket in it.
    pub dir: PathBuf,
    /// The environment to choose from, usually [`super::environment::of_this_process`].
    pub parent_env: BTreeMap<String, String>,
    /// The operator's additions to the allow-list.
    pub env: EnvPolicy,
    /// `key=value` overrides of Codex's configuration.
    pub config: Vec<String>,
    /// How long codex may take to accept a connection. Waiting for other starts on the same home may take as long
    /// again.
    pub ready_timeout: Duration,
}

/// Leaves out the environment, which holds secrets.
impl fmt::Debug for Launch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Launch")
            .field("codex", &self.codex)
            .field("version", &self.version)
            .field("identity", &self.identity)
            .field("dir", &self.dir)
            .field("env", &self.env)
            .finish_non_exhaustive()
    }
}

/// The caller of a start.
pub(crate) struct BootOwner<'a> {
    /// Called with the keeper as soon as it runs.
    pub(crate) on_keeper: &'a (dyn Fn(Process) + Send + Sync),
    /// Set to cancel the start. A dropped sender cancels it too.
    pub(crate) given_up: watch::Receiver<bool>,
}

impl BootOwner<'_> {
    async fn gives_up(&mut self) {
        self.given_up.wait_for(|given_up| *given_up).await.ok();
    }
}

/// Starts a host. The start cannot be cancelled.
pub(crate) async fn launch(launch: &Launch) -> Result<Host, Error> {
    let (_patient, given_up) = watch::channel(false);
    launch_for(BootOwner { on_keeper: &|_| {}, given_up }, launch).await
}

pub(crate) async fn launch_for(mut owner: BootOwner<'_>, launch: &Launch) -> Result<Host, Error> {
    let launch = &absolute(launch)?;
    let files = Files(&launch.dir);
    if files.socket().as_os_str().len() > SOCKET_PATH_MAX_BYTES {
        return Err(Error::SocketPathTooLong { path: files.socket() });
    }
    let codex_home = effective_codex_home(launch)?;
    let lock = tokio::select! {
        lock = BootLock::acquire(&codex_home, Instant::now() + launch.ready_timeout) => lock?,
        () = owner.gives_up() => return Err(Error::GivenUp),
    };
    // Under the lock: a start of another program in this directory must not be taken for an interrupted one.
    let dir = launch.dir.clone();
    let prepare = move || prepare_dir(&dir).map(|()| lineage::adopters());
    let adopters = in_thread("cannot prepare", &launch.dir, prepare).await?;
    let plan = Plan {
        id: process::random_id().map_err(io_error("cannot create an id for the host in", &launch.dir))?,
        dir: launch.dir.clone(),
        codex: launch.codex.clone(),
        version: launch.version.clone(),
        identity: launch.identity.clone(),
        codex_home,
        config: launch.config.clone(),
        adopters,
    };
    write_json(&files.plan(), &plan).map_err(io_error("cannot write", &files.plan()))?;
    let mut keeper = start_keeper(launch, &plan)?;
    if let Some(process) = keeper.id().and_then(Process::with_pid) {
        (owner.on_keeper)(process);
    }
    let outcome = tokio::select! {
        outcome = until_ready(launch, &mut keeper) => outcome,
        () = owner.gives_up() => Err(StartFailure::Failed(Error::GivenUp)),
    };
    drop(lock);
    match outcome {
        Ok(host) => Ok(host),
        Err(failure) => Err(clean_up_failed_start(&plan, keeper, failure).await),
    }
}

/// Makes all paths absolute: the keeper and Codex run in another directory.
fn absolute(launch: &Launch) -> Result<Launch, Error> {
    let spelt_out =
        |path: &Path| path::absolute(path).map_err(io_error("cannot make an absolute path of", path));
    let mut launch = launch.clone();
    launch.dir = spelt_out(&launch.dir)?;
    launch.codex = spelt_out(&launch.codex)?;
    launch.keeper.program = spelt_out(&launch.keeper.program)?;
    launch.identity.codex_home = launch.identity.codex_home.as_deref().map(spelt_out).transpose()?;
    Ok(launch)
}

/// The home that Codex will use, also when the choice is left to Codex. The boot lock is in it.
fn effective_codex_home(launch: &Launch) -> Result<PathBuf, Error> {
    match (&launch.identity.codex_home, launch.parent_env.get("HOME")) {
        (Some(home), _) => Ok(home.clone()),
        (None, Some(home)) => Ok(Path::new(home).join(".codex")),
        (None, None) => Err(Error::NoHome),
    }
}

/// Makes the directory with mode 0700 and removes the files of an earlier host.
fn prepare_dir(dir: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io_error("cannot make", dir))?;
    let found = fs::metadata(dir).map_err(io_error("cannot look at", dir))?;
    // An existing directory may be shared: its mode is checked and not changed.
    check_private(dir, &found)?;
    match find(dir)? {
        Some(Found::Alive(host) | Found::KeeperGone(host)) => {
            return Err(Error::Occupied { dir: dir.to_owned(), id: host.record.id.clone() });
        }
        Some(Found::Dead { record, .. }) => stop::sweep(&record)?,
        Some(Found::Unfinished { id }) => stop::sweep_unfinished(&id)?,
        None => {}
    }
    let files = Files(dir);
    remove_socket(&files.socket());
    let (log, older_log) = stderr_log::files(&files.stderr());
    for path in [files.record(), files.exit(), files.plan(), files.draining(), log, older_log] {
        remove_if_there(&path)?;
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("cannot remove", path)(error)),
        _ => Ok(()),
    }
}

fn start_keeper(launch: &Launch, plan: &Plan) -> Result<Child, Error> {
    let config_file = plan.codex_home.join("config.toml");
    let config_names: BTreeSet<String> =
        fs::read_to_string(config_file).map(|text| names_in_config(&text)).unwrap_or_default();
    let variables = HostVariables {
        host_id: &plan.id,
        codex_home: launch.identity.codex_home.as_deref(),
        config_names: &config_names,
    };
    // No process group of its own: the keeper starts a session, which a group leader cannot do. Dropping the handle
    // leaves the keeper running, and the runtime reaps it at its end.
    Command::new(&launch.keeper.program)
        .args(&launch.keeper.args)
        .arg("--plan")
        .arg(Files(&plan.dir).plan())
        .env_clear()
        .envs(child_env(launch.parent_env.clone(), &launch.env, variables))
        .current_dir(&plan.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(io_error("cannot start", &launch.keeper.program))
}

/// Why a start failed.
enum StartFailure {
    Ended(Option<Exit>),
    TimedOut(Duration),
    Failed(Error),
}

async fn until_ready(launch: &Launch, keeper: &mut Child) -> Result<Host, StartFailure> {
    let files = Files(&launch.dir);
    let began = Instant::now();
    loop {
        let keeper_ended = !matches!(keeper.try_wait(), Ok(None));
        let exit: Option<Exit> = read_json(&files.exit()).ok().flatten();
        if keeper_ended || exit.is_some() {
            return Err(StartFailure::Ended(exit));
        }
        if let Ok(Some(record)) = read_json::<Record>(&files.record()) {
            let host = Host::local(&launch.dir, Arc::new(record));
            let left = launch.ready_timeout.saturating_sub(began.elapsed());
            match timeout(left, host.answers()).await {
                Ok(Ok(())) => return Ok(host),
                Ok(Err(error @ Error::WrongPeer { .. })) => return Err(StartFailure::Failed(error)),
                // Not listening yet, or just ended: the next round finds out.
                Ok(Err(_)) | Err(_) => {}
            }
        }
        if began.elapsed() >= launch.ready_timeout {
            return Err(StartFailure::TimedOut(began.elapsed()));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Ends all processes of a failed start and returns its error.
async fn clean_up_failed_start(plan: &Plan, mut keeper: Child, why: StartFailure) -> Error {
    if let Some(process) = keeper.id().and_then(Process::with_pid) {
        // Processes that do not end are killed below.
        process.signal(Signal::INT).ok();
        timeout(QUICK_END_IN_ALL, keeper.wait()).await.ok();
    }
    let (dir, id) = (plan.dir.clone(), plan.id.clone());
    let swept = in_thread("cannot sweep", &plan.dir, move || match find(&dir)? {
        Some(Found::Alive(host) | Found::KeeperGone(host)) => stop::sweep(&host.record),
        Some(Found::Dead { record, .. }) => stop::sweep(&record),
        Some(Found::Unfinished { .. }) | None => stop::sweep_unfinished(&id),
    });
    if let Err(error) = swept.await {
        return error;
    }
    let stderr_tail = stderr_log::tail(&Files(&plan.dir).stderr(), STDERR_TAIL_LINES);
    match why {
        StartFailure::Failed(error) => error,
        StartFailure::TimedOut(waited) => Error::NotReady { waited_ms: waited.as_millis(), stderr_tail },
        StartFailure::Ended(exit) => {
            let cause = exit.map_or_else(
                || "its keeper ended before codex was started".to_owned(),
                |exit| exit.to_string(),
            );
            Error::EndedAtStart { cause, stderr_tail }
        }
    }
}
