//! The launcher's side: who is answered, and what is done for them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{RwLock, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tracing::{debug, error, warn};

use super::{
    About, Answer, CALL_MAX_BYTES, Call, Died, LastWords, MOST_HOSTS, Named, Report, Sighted, Why, is_name,
    line, name_of,
};
use crate::codex_home::CodexHome;
use crate::escalation::Escalation;
use crate::host::find::{Found, find, find_all};
use crate::host::launch::{BootOwner, Launch, launch_for};
use crate::host::placement::Identity;
use crate::host::pool::{Change, clear_away, take_over};
use crate::host::{Error, Host, Stop, in_thread, io_error};
use crate::os::file;

/// How long a caller may take to say what it wants, and to take the answer.
const LINE_LIMIT: Duration = Duration::from_secs(5);
/// Calls that are answered at once; more are hung up on.
const MOST_CALLS: usize = 128;
/// The daemon's user is in the group of the hosts' user.
const SOCKET_MODE: u32 = 0o660;
/// Lines of stderr that are told.
const MOST_STDERR_LINES: usize = 100;
/// The longest that turns are waited for.
const MOST_DRAIN: Duration = Duration::from_hours(24);
/// Pause after a connection that could not be taken, such as when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What of Codex's configuration a call may set: the permission profile that binds commands.
const SETTABLE: [&str; 2] = ["default_permissions=", "permissions="];

/// What a launcher works with.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every host is started with. Its directory, identity and overrides come with each call.
    pub launch: Launch,
    /// Where hosts live.
    pub hosts_dir: PathBuf,
    /// The homes of Codex that hosts may have; the first one is the default.
    pub homes: Vec<PathBuf>,
    /// Where packages of Codex are kept.
    pub packages: PathBuf,
    /// The launcher's own directories, which no command may read or write.
    pub denied: Vec<PathBuf>,
    /// Sockets of services that would run a program for a command. Commands may not reach them either.
    pub services: Vec<PathBuf>,
    /// The PATH of commands, which is the daemon's to send. That of hosts is in `launch`.
    pub command_path: String,
    /// The user whose calls are answered. Root's are too.
    pub serves: u32,
}

/// A launcher at work.
#[derive(Debug, Clone)]
pub struct Service {
    options: Arc<Options>,
    /// Starts hold it to read. Whoever clears up holds it alone: a start that is under way looks like a broken one.
    starting: Arc<RwLock<()>>,
}

/// What is told to a caller.
struct Told {
    text: Vec<u8>,
    descriptor: Option<OwnedFd>,
}

impl Service {
    /// With nothing under way.
    pub fn new(options: Options) -> Self {
        Self { options: Arc::new(options), starting: Arc::default() }
    }

    /// Answers calls for as long as it is polled.
    pub async fn run(&self, listener: UnixListener) {
        let seats = Arc::new(Semaphore::new(MOST_CALLS));
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    error!(%error, "no call can be taken");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let user = stream.peer_cred().map(|peer| peer.uid()).ok();
            // Whoever is not served gets no word, whatever they say.
            if !user.is_some_and(|user| self.serves(user)) {
                warn!(user, "a caller that this launcher does not serve was refused");
                continue;
            }
            let Ok(seat) = Arc::clone(&seats).try_acquire_owned() else {
                warn!("a call was refused: too many are under way");
                continue;
            };
            let service = self.clone();
            tokio::spawn(async move {
                // A caller that is late, or has gone, is told nothing.
                if let Err(error) = service.answer(&stream).await {
                    debug!(%error, "a call was not answered");
                }
                drop(seat);
            });
        }
    }

    fn serves(&self, user: u32) -> bool {
        user == self.options.serves || user == 0
    }

    async fn answer(&self, stream: &UnixStream) -> io::Result<()> {
        let (text, _) = timeout(LINE_LIMIT, line::read(stream, CALL_MAX_BYTES)).await??;
        let told = match serde_json::from_slice::<Call>(&text) {
            Ok(call) => self.perform(call, stream).await,
            Err(error) => told(Err::<(), _>(refused(format!("not a call of this launcher: {error}")))),
        }?;
        let descriptor = told.descriptor.as_ref().map(AsFd::as_fd);
        timeout(LINE_LIMIT, line::write(stream, &told.text, descriptor)).await?
    }

    async fn perform(&self, call: Call, caller: &UnixStream) -> io::Result<Told> {
        match call {
            Call::About => told(Ok(self.about())),
            Call::TakeOver => told(self.take_over().await),
            Call::List => told(self.list().await),
            Call::Launch { name, identity, config } => {
                told(self.launch(&name, identity, config, caller).await)
            }
            Call::Connect { host } => connected(self.connect(&host).await),
            Call::Look { host, stderr_lines } => told(self.look(&host, stderr_lines).await),
            Call::Stop { host, drain_ms } => told(self.stop(&host, drain_ms).await),
            Call::Clear { host } => told(self.clear(&host).await),
            Call::Home { dir } => told(self.home(&dir)),
            Call::Escalation { rollout, call_id } => told(self.escalation(rollout, call_id).await),
        }
    }

    fn about(&self) -> About {
        let options = &self.options;
        let env = &options.launch.env;
        let variables: BTreeSet<&String> = env.pass.iter().chain(env.set.keys()).collect();
        let value = |name: &str| env.set.get(name).or_else(|| options.launch.parent_env.get(name)).cloned();
        About {
            version: options.launch.version.clone(),
            codex: options.launch.codex.clone(),
            packages: options.packages.clone(),
            hosts_dir: options.hosts_dir.clone(),
            homes: options.homes.clone(),
            user_home: options.launch.parent_env.get("HOME").map(PathBuf::from),
            variables: variables.into_iter().cloned().collect(),
            denied: options.denied.clone(),
            services: options.services.clone(),
            command_path: options.command_path.clone(),
            host_path: value("PATH").unwrap_or_default(),
            temp_dir: value("TMPDIR").map(PathBuf::from),
        }
    }

    async fn take_over(&self) -> Result<Report, Error> {
        let _alone = self.starting.write().await;
        let root = self.options.hosts_dir.clone();
        let place = root.clone();
        let (hosts, changes) = in_thread("cannot look into", &root, move || Ok(take_over(&place))).await?;
        Ok(report(&hosts, changes))
    }

    async fn list(&self) -> Result<Report, Error> {
        let root = self.options.hosts_dir.clone();
        let place = root.clone();
        let found = in_thread("cannot look into", &root, move || Ok(find_all(&place))).await?;
        let alive = found.into_iter().filter_map(|(_, found)| match found {
            Ok(Found::Alive(host) | Found::KeeperGone(host)) => Some(host),
            _ => None,
        });
        Ok(report(&alive.collect::<Vec<_>>(), Vec::new()))
    }

    async fn launch(
        &self,
        name: &str,
        identity: Identity,
        config: Vec<String>,
        caller: &UnixStream,
    ) -> Result<Sighted, Error> {
        let launch = self.planned(name, identity, config)?;
        let _starting = self.starting.read().await;
        let (patience, given_up) = watch::channel(false);
        let owner = BootOwner { on_keeper: &|_| {}, given_up };
        let launched = launch_for(owner, &launch);
        tokio::pin!(launched);
        let host = tokio::select! {
            launched = &mut launched => launched?,
            () = hung_up(caller) => {
                patience.send_replace(true);
                launched.await?
            }
        };
        Ok(Sighted { name: name.to_owned(), record: host.record().clone() })
    }

    /// What is started for a call, of which the call itself decides little.
    fn planned(&self, name: &str, identity: Identity, config: Vec<String>) -> Result<Launch, Error> {
        let options = &self.options;
        let is_settable = |pair: &String| SETTABLE.iter().any(|key| pair.starts_with(key));
        if !is_name(name) {
            return Err(refused("a host's name has small letters, digits and dashes"));
        }
        if !identity.codex_home.as_deref().is_some_and(|home| self.has_home(home)) {
            return Err(refused("the home is not one of the launcher's"));
        }
        if let Some(pair) = config.iter().find(|pair| !is_settable(pair)) {
            let key = pair.split('=').next().unwrap_or_default();
            return Err(refused(format!("{key:?} of Codex's configuration is not for callers to set")));
        }
        if fs::read_dir(&options.hosts_dir).is_ok_and(|dirs| dirs.count() >= MOST_HOSTS) {
            return Err(refused(format!("there are {MOST_HOSTS} hosts already")));
        }
        Ok(Launch { dir: options.hosts_dir.join(name), identity, config, ..options.launch.clone() })
    }

    /// A handle on codex's socket, over which the daemon's group may connect. Its folder stays closed to everyone else.
    async fn connect(&self, named: &Named) -> Result<OwnedFd, Error> {
        let host = self.find(named).await?;
        if !host.is_alive() {
            return Err(Error::Gone { id: named.name.clone() });
        }
        let socket = host.record().socket.clone();
        let failed = io_error("cannot open", &socket);
        let real = socket.canonicalize().map_err(&failed)?;
        let handle = file::socket_handle(&real).map_err(&failed)?;
        let mode = fs::Permissions::from_mode(SOCKET_MODE);
        fs::set_permissions(file::path_of(&handle), mode).map_err(failed)?;
        Ok(handle)
    }

    async fn look(&self, named: &Named, stderr_lines: usize) -> Result<LastWords, Error> {
        let host = self.find(named).await?;
        Ok(LastWords {
            exit: host.exit().await,
            stderr_tail: host.stderr_tail(stderr_lines.min(MOST_STDERR_LINES)).await,
        })
    }

    async fn stop(&self, named: &Named, drain_ms: Option<u64>) -> Result<(), Error> {
        let host = self.find(named).await?;
        let how = match drain_ms.map(Duration::from_millis) {
            Some(grace) => Stop::Drain { grace: grace.min(MOST_DRAIN) },
            None => Stop::Now,
        };
        // Carried out to its end, whoever hangs up meanwhile.
        let stopping = tokio::spawn(async move { host.stop(how).await });
        stopping.await.unwrap_or_else(|stopped| Err(refused(stopped.to_string())))
    }

    async fn clear(&self, named: &Named) -> Result<Report, Error> {
        let host = self.find(named).await?;
        if host.is_alive() && host.has_keeper() {
            return Err(refused("the host lives: stop it first"));
        }
        let dir = host.dir().to_owned();
        let changes = in_thread("cannot clear", &dir, move || Ok(clear_away(&host))).await?;
        Ok(report(&[], changes))
    }

    fn home(&self, dir: &Path) -> Result<CodexHome, Error> {
        if !self.has_home(dir) {
            return Err(refused("the home is not one of the launcher's"));
        }
        Ok(CodexHome::read(dir))
    }

    /// Of a rollout elsewhere nothing is told: a caller shall not learn what other files say.
    async fn escalation(&self, rollout: PathBuf, call_id: String) -> Result<Escalation, Error> {
        let homes = self.options.homes.clone();
        in_thread("cannot read", &rollout.clone(), move || {
            let Ok(path) = rollout.canonicalize() else { return Ok(Escalation::Unknown) };
            let is_of_a_home = homes.iter().any(|home| path.starts_with(real(home)));
            Ok(if is_of_a_home { Escalation::of_call(&path, &call_id) } else { Escalation::Unknown })
        })
        .await
    }

    /// Whether a path is that of a home, also by another name.
    fn has_home(&self, dir: &Path) -> bool {
        self.options.homes.iter().any(|home| real(home) == real(dir))
    }

    /// The host of this name in this very life, dead or alive.
    async fn find(&self, named: &Named) -> Result<Host, Error> {
        let gone = || Error::Gone { id: named.name.clone() };
        if !is_name(&named.name) {
            return Err(gone());
        }
        let dir = self.options.hosts_dir.join(&named.name);
        let look = move |dir: PathBuf| {
            Ok(match find(&dir)? {
                Some(Found::Alive(host) | Found::KeeperGone(host)) => Some(host),
                Some(Found::Dead { record, .. }) => Some(Host::of_ours(&dir, record)),
                Some(Found::Unfinished { .. }) | None => None,
            })
        };
        let place = dir.clone();
        let found = in_thread("cannot look into", &dir, move || look(place)).await?;
        found.filter(|host| *host.epoch() == named.epoch).ok_or_else(gone)
    }
}

/// The real path of a file or directory; of one that does not exist, the path itself.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Comes back when a caller has nothing more to say. One that says more than its one line has gone too.
async fn hung_up(caller: &UnixStream) {
    line::read(caller, 0).await.ok();
}

fn refused(message: impl Into<String>) -> Error {
    Error::Launcher { message: message.into() }
}

fn told<T: Serialize>(outcome: Result<T, Error>) -> io::Result<Told> {
    Ok(Told { text: serde_json::to_vec(&answer(outcome))?, descriptor: None })
}

fn connected(outcome: Result<OwnedFd, Error>) -> io::Result<Told> {
    let (answer, descriptor) = match outcome {
        Ok(descriptor) => (Answer::Done(()), Some(descriptor)),
        Err(error @ Error::Io { .. }) => {
            (Answer::Refused { why: Why::NotListening, message: error.to_string() }, None)
        }
        Err(error) => (answer(Err(error)), None),
    };
    Ok(Told { text: serde_json::to_vec(&answer)?, descriptor })
}

fn answer<T>(outcome: Result<T, Error>) -> Answer<T> {
    match outcome {
        Ok(value) => Answer::Done(value),
        Err(error @ Error::Gone { .. }) => Answer::Refused { why: Why::Gone, message: error.to_string() },
        Err(error) => Answer::Refused { why: Why::Failed, message: error.to_string() },
    }
}

fn report(hosts: &[Host], changes: Vec<Change>) -> Report {
    let mut report = Report::default();
    let sighted = |host: &Host| Sighted { name: name_of(host.dir()), record: host.record().clone() };
    report.hosts = hosts.iter().map(sighted).filter(|sighted| is_name(&sighted.name)).collect();
    for change in changes {
        match change {
            Change::Died { record, exit } => report.died.push(Died { record: (*record).clone(), exit }),
            Change::Failed(error) => report.failed.push(error.to_string()),
            Change::Retiring { .. } | Change::Retired { .. } => {}
        }
    }
    report
}
