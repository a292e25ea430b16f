//! `codex-bridge launcher`: runs hosts for a daemon of another user. Started by the service manager as the hosts' user.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use codex_wire::host::launcher::{Options, Service};
use codex_wire::host::{Identity, KeeperCommand, Launch};
use nix::unistd::User;
use redact::Redactor;
use rustix::process::geteuid;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use super::Globals;
use crate::config::hosts::{self, HostsFile};
use crate::daemon::host_config::{env_policy, environment, path_of_commands};
use crate::daemon::{lock, notify, raise_descriptor_limit};
use crate::failure::{Code, Failure};
use crate::paths::variable;
use crate::paths::{Paths, cannot};
use crate::{codex, log, peer, services};

/// How long Codex may take to boot.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// The daemon is in the group of the socket; nobody else gets that far.
const SOCKET_MODE: u32 = 0o660;

#[derive(clap::Args)]
pub struct Args {
    /// Where to listen, in a directory that only the hosts' user can write
    #[arg(long, value_name = "SOCKET")]
    listen: PathBuf,
    /// The user of the daemon, by name or number; nobody else but root is answered
    #[arg(long = "for", value_name = "USER")]
    serves: String,
}

#[tokio::main]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    if peer::is_below_a_host(std::process::id()) {
        return Err(Failure::new(Code::PeerRefused, "a launcher cannot be started by what Codex runs"));
    }
    raise_descriptor_limit();
    let serves = user_number(&args.serves)?;
    if serves == geteuid().as_raw() || geteuid().is_root() {
        let message = "hosts need a user of their own: neither root nor the user of the daemon";
        return Err(
            Failure::new(Code::Launcher, message).hint("docs/security.md has the set-up with two users")
        );
    }
    let paths = globals.paths()?;
    paths.prepare()?;
    let _held = lock::hold(&paths)?;
    let file = hosts::load(&paths)?;
    let _log = log::start(&file.log.without_spans(), &Redactor::default());
    let service = Service::new(options(&paths, &file, &args.listen, serves)?);
    let listener = listen(&args.listen)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::internal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
    info!("codex-bridge {} launches hosts on {}", env!("CARGO_PKG_VERSION"), args.listen.display());
    notify::tell("READY=1");
    tokio::select! {
        () = service.run(listener) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    notify::tell("STOPPING=1");
    // Hosts go on; the next launcher finds them.
    if let Err(error) = fs::remove_file(&args.listen) {
        warn!(%error, "the socket could not be removed");
    }
    Ok(ExitCode::SUCCESS)
}

fn user_number(name: &str) -> Result<u32, Failure> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let found = User::from_name(name).map_err(Failure::internal)?;
    let missing = || {
        Failure::new(Code::Launcher, format!("there is no user {name:?}")).hint("make it, or correct --for")
    };
    Ok(found.ok_or_else(missing)?.uid.as_raw())
}

fn options(paths: &Paths, file: &HostsFile, socket: &Path, serves: u32) -> Result<Options, Failure> {
    let codex = codex::for_daemon(file.codex_bin.clone())?;
    let hosts_dir = paths.hosts();
    let sockets = socket.parent().map(Path::to_owned);
    Ok(Options {
        launch: Launch {
            keeper: KeeperCommand {
                program: std::env::current_exe().map_err(Failure::internal)?,
                args: vec!["host".into()],
            },
            codex: codex.executable,
            version: codex.version.to_string(),
            identity: Identity::default(),
            dir: PathBuf::new(),
            parent_env: environment(&file.env),
            env: env_policy(&file.env),
            config: Vec::new(),
            ready_timeout: READY_LIMIT,
        },
        hosts_dir: made(&hosts_dir)?,
        homes: homes(file)?,
        packages: codex::data_dir().map_err(|error| Failure::new(Code::NoHome, error))?,
        denied: paths.own().into_iter().chain(sockets).collect(),
        command_path: path_of_commands(&file.env),
        services: services::that_obey(&[geteuid().as_raw(), serves], variable),
        serves,
    })
}

/// All homes of Codex, by their real paths; the default one first.
fn homes(file: &HostsFile) -> Result<Vec<PathBuf>, Failure> {
    let variable = || std::env::var_os("CODEX_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let default = || std::env::home_dir().map(|home| home.join(".codex"));
    let first = file.codex_home.clone().or_else(variable).or_else(default);
    let first =
        first.ok_or_else(|| Failure::new(Code::NoHome, "no CODEX_HOME was given and HOME is not set"))?;
    [first].iter().chain(&file.other_homes).map(|home| made(home)).collect()
}

/// A directory for its owner alone, made if it is missing; its real path.
fn made(dir: &Path) -> Result<PathBuf, Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.and_then(|()| dir.canonicalize()).map_err(|error| cannot("make", dir, &error))
}

fn listen(socket: &Path) -> Result<UnixListener, Failure> {
    let dir = socket.parent().unwrap_or(Path::new("/"));
    let found = fs::symlink_metadata(dir).map_err(|error| cannot("look at", dir, &error))?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        let message =
            format!("{} must belong to the hosts' user, and nobody else may write there", dir.display());
        return Err(Failure::new(Code::DirNotPrivate, message)
            .hint("systemd makes it so: RuntimeDirectory, mode 0750"));
    }
    // What lies there is of a launcher that died: we hold the lock. A file that stays is told of by `bind`.
    fs::remove_file(socket).ok();
    let listener = UnixListener::bind(socket).map_err(|error| cannot("listen on", socket, &error))?;
    let opened = fs::set_permissions(socket, fs::Permissions::from_mode(SOCKET_MODE));
    opened.map_err(|error| cannot("open", socket, &error))?;
    Ok(listener)
}
