//! The launcher's side: which callers are answered, and how calls are performed.

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
    About, Answer, CALL_MAX_BYTES, Call, Died, HostRef, LastWords, ListedHost, MOST_HOSTS, Report, Why,
    is_name, line, name_of,
};
use crate::codex_home::CodexHome;
use crate::escalation::Escalation;
use crate::host::find::{Found, find, find_all};
use crate::host::launch::{BootOwner, Launch, launch_for};
use crate::host::placement::Identity;
use crate::host::pool::{Change, clear_away, take_over};
use crate::host::{Error, Host, Stop, in_thread, io_error};
use crate::os::file;

/// How long a caller may take to send its call, and to take the answer.
const LINE_LIMIT: Duration = Duration::from_secs(5);
/// Most calls at the same time; further connections are closed.
const MOST_CALLS: usize = 128;
/// The daemon's user is in the group of the hosts' user.
const SOCKET_MODE: u32 = 0o660;
/// Most lines of stderr in one answer.
const MOST_STDERR_LINES: usize = 100;
/// Longest time for turns to finish.
const MOST_DRAIN: Duration = Duration::from_hours(24);
/// Pause after a connection could not be accepted, such as when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The keys of Codex's configuration that a call may set: the permission profile of commands.
const SETTABLE: [&str; 2] = ["default_permissions=", "permissions="];

/// The settings of a launcher.
#[derive(Debug, Clone)]
pub struct Options {
    /// The template for every start. Directory, identity and overrides come with each call.
    pub launch: Launch,
    /// The parent of the hosts' directories.
    pub hosts_dir: PathBuf,
    /// The homes of Codex that hosts may have; the first one is the default.
    pub homes: Vec<PathBuf>,
    /// The directory of copies of Codex.
    pub packages: PathBuf,
    /// The launcher's own directories, which no command may read or write.
    pub denied: Vec<PathBuf>,
    /// Sockets of services that would run a program for a command. Commands may not reach them either.
    pub services: Vec<PathBuf>,
    /// The PATH of commands, which the daemon sends with each thread. The PATH of hosts is in `launch`.
    pub command_path: String,
    /// The user whose calls are answered, beside root.
    pub serves: u32,
}

/// A launcher.
#[derive(Debug, Clone)]
pub struct Service {
    options: Arc<Options>,
    /// A start holds the read lock, a clean-up the write lock: a start that is under way looks like an interrupted one.
    starting: Arc<RwLock<()>>,
}

/// The answer to a call.
struct Response {
    text: Vec<u8>,
    descriptor: Option<OwnedFd>,
}

impl Service {
    /// A launcher without running calls.
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
                    error!(%error, "the launcher could not accept a connection; it tries again");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let user = stream.peer_cred().map(|peer| peer.uid()).ok();
            // Other users get no answer.
            if !user.is_some_and(|user| self.serves(user)) {
                warn!(user, "a call of a user whom this launcher does not serve was refused");
                continue;
            }
            let Ok(seat) = Arc::clone(&seats).try_acquire_owned() else {
                warn!("a call was refused: too many are under way");
                continue;
            };
            let service = self.clone();
            tokio::spawn(async move {
                // The caller was too slow or has hung up.
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
        let response = match serde_json::from_slice::<Call>(&text) {
            Ok(call) => self.perform(call, stream).await,
            Err(error) => response(Err::<(), _>(refused(format!(
                "this launcher does not know the call ({error}): daemon and launcher must have the same version"
            )))),
        }?;
        let descriptor = response.descriptor.as_ref().map(AsFd::as_fd);
        timeout(LINE_LIMIT, line::write(stream, &response.text, descriptor)).await?
    }

    async fn perform(&self, call: Call, caller: &UnixStream) -> io::Result<Response> {
        match call {
            Call::About => response(Ok(self.about())),
            Call::TakeOver => response(self.take_over().await),
            Call::List => response(self.list().await),
            Call::Launch { name, identity, config } => {
                response(self.launch(&name, identity, config, caller).await)
            }
            Call::Connect { host } => connected(self.connect(&host).await),
            Call::Look { host, stderr_lines } => response(self.look(&host, stderr_lines).await),
            Call::Stop { host, drain_ms } => response(self.stop(&host, drain_ms).await),
            Call::Clear { host } => response(self.clear(&host).await),
            Call::Home { dir } => response(self.home(&dir)),
            Call::Escalation { rollout, call_id } => response(self.escalation(rollout, call_id).await),
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
    ) -> Result<ListedHost, Error> {
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
        Ok(ListedHost { name: name.to_owned(), record: host.record().clone() })
    }

    /// The start for a call, after the values in the call were checked.
    fn planned(&self, name: &str, identity: Identity, config: Vec<String>) -> Result<Launch, Error> {
        let options = &self.options;
        let is_settable = |pair: &String| SETTABLE.iter().any(|key| pair.starts_with(key));
        if !is_name(name) {
            return Err(refused("a host's name must consist of lower-case letters, digits and dashes"));
        }
        if !identity.codex_home.as_deref().is_some_and(|home| self.has_home(home)) {
            return Err(refused("the home is not one of the launcher's"));
        }
        if let Some(pair) = config.iter().find(|pair| !is_settable(pair)) {
            let key = pair.split('=').next().unwrap_or_default();
            return Err(refused(format!("a call may not set {key:?} of Codex's configuration")));
        }
        if fs::read_dir(&options.hosts_dir).is_ok_and(|dirs| dirs.count() >= MOST_HOSTS) {
            return Err(refused(format!("there are {MOST_HOSTS} hosts already")));
        }
        Ok(Launch { dir: options.hosts_dir.join(name), identity, config, ..options.launch.clone() })
    }

    /// A handle on codex's socket, over which the daemon can connect. The socket's folder stays closed to other users.
    async fn connect(&self, host_ref: &HostRef) -> Result<OwnedFd, Error> {
        let host = self.find(host_ref).await?;
        if !host.is_alive() {
            return Err(Error::Gone { id: host_ref.name.clone() });
        }
        let socket = host.record().socket.clone();
        let failed = io_error("cannot open", &socket);
        let real = socket.canonicalize().map_err(&failed)?;
        let handle = file::socket_handle(&real).map_err(&failed)?;
        let mode = fs::Permissions::from_mode(SOCKET_MODE);
        fs::set_permissions(file::path_of(&handle), mode).map_err(failed)?;
        Ok(handle)
    }

    async fn look(&self, host_ref: &HostRef, stderr_lines: usize) -> Result<LastWords, Error> {
        let host = self.find(host_ref).await?;
        Ok(LastWords {
            exit: host.exit().await,
            stderr_tail: host.stderr_tail(stderr_lines.min(MOST_STDERR_LINES)).await,
        })
    }

    async fn stop(&self, host_ref: &HostRef, drain_ms: Option<u64>) -> Result<(), Error> {
        let host = self.find(host_ref).await?;
        let how = match drain_ms.map(Duration::from_millis) {
            Some(grace) => Stop::Drain { grace: grace.min(MOST_DRAIN) },
            None => Stop::Now,
        };
        // Completed even if the caller hangs up.
        let stopping = tokio::spawn(async move { host.stop(how).await });
        stopping.await.unwrap_or_else(|stopped| Err(refused(stopped.to_string())))
    }

    async fn clear(&self, host_ref: &HostRef) -> Result<Report, Error> {
        let host = self.find(host_ref).await?;
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

    /// Only rollouts in the homes of the launcher are read: a caller must not learn what is in other files.
    async fn escalation(&self, rollout: PathBuf, call_id: String) -> Result<Escalation, Error> {
        let homes = self.options.homes.clone();
        in_thread("cannot read", &rollout.clone(), move || {
            let Ok(path) = rollout.canonicalize() else { return Ok(Escalation::Unknown) };
            let is_of_a_home = homes.iter().any(|home| path.starts_with(real(home)));
            Ok(if is_of_a_home { Escalation::of_call(&path, &call_id) } else { Escalation::Unknown })
        })
        .await
    }

    /// Whether a path leads to one of the homes, also through links.
    fn has_home(&self, dir: &Path) -> bool {
        self.options.homes.iter().any(|home| real(home) == real(dir))
    }

    /// The host with this name and epoch, dead or alive.
    async fn find(&self, host_ref: &HostRef) -> Result<Host, Error> {
        let gone = || Error::Gone { id: host_ref.name.clone() };
        if !is_name(&host_ref.name) {
            return Err(gone());
        }
        let dir = self.options.hosts_dir.join(&host_ref.name);
        let look = move |dir: PathBuf| {
            Ok(match find(&dir)? {
                Some(Found::Alive(host) | Found::KeeperGone(host)) => Some(host),
                Some(Found::Dead { record, .. }) => Some(Host::local(&dir, record)),
                Some(Found::Unfinished { .. }) | None => None,
            })
        };
        let place = dir.clone();
        let found = in_thread("cannot look into", &dir, move || look(place)).await?;
        found.filter(|host| *host.epoch() == host_ref.epoch).ok_or_else(gone)
    }
}

/// The real path of a file or directory; of one that does not exist, the path itself.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns when the caller has hung up. A caller that sends more than its one line counts as gone too.
async fn hung_up(caller: &UnixStream) {
    line::read(caller, 0).await.ok();
}

fn refused(message: impl Into<String>) -> Error {
    Error::Launcher { message: message.into() }
}

fn response<T: Serialize>(outcome: Result<T, Error>) -> io::Result<Response> {
    Ok(Response { text: serde_json::to_vec(&answer(outcome))?, descriptor: None })
}

fn connected(outcome: Result<OwnedFd, Error>) -> io::Result<Response> {
    let (answer, descriptor) = match outcome {
        Ok(descriptor) => (Answer::Done(()), Some(descriptor)),
        Err(error @ Error::Io { .. }) => {
            (Answer::Refused { why: Why::NotListening, message: error.to_string() }, None)
        }
        Err(error) => (answer(Err(error)), None),
    };
    Ok(Response { text: serde_json::to_vec(&answer)?, descriptor })
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
    let listed = |host: &Host| ListedHost { name: name_of(host.dir()), record: host.record().clone() };
    report.hosts = hosts.iter().map(listed).filter(|listed| is_name(&listed.name)).collect();
    for change in changes {
        match change {
            Change::Died { record, exit } => report.died.push(Died { record: (*record).clone(), exit }),
            Change::Failed(error) => report.failed.push(error.to_string()),
            Change::Retiring { .. } | Change::Retired { .. } => {}
        }
    }
    report
}
