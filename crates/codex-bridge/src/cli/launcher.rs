//! `codex-bridge launcher`: runs hosts for a daemon of another user. The service manager starts it as the hosts' user.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use codex_wire::host::launcher::{Options, Service};
use codex_wire::host::{Identity, KeeperCommand, Launch};
use codex_wire::reason;
use nix::unistd::User;
use redact::Redactor;
use rustix::process::geteuid;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use super::Globals;
use crate::config::hosts::{self, HostsFile};
use crate::daemon::host_config::{command_path, env_policy, environment};
use crate::daemon::{lock, notify, raise_descriptor_limit};
use crate::failure::{Code, Failure};
use crate::paths::{Paths, cannot, path_variable, variable};
use crate::{codex, log, services, socket_access};

/// How long Codex may take to start.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// Only the hosts' user and the socket's group, which the daemon is in, can connect.
const SOCKET_MODE: u32 = 0o660;

#[derive(clap::Args)]
pub struct Args {
    /// The socket to listen on, in a directory that only the hosts' user can write
    #[arg(long, value_name = "SOCKET")]
    listen: PathBuf,
    /// The daemon's user, by name or number; only this user and root are served
    #[arg(long = "for", value_name = "USER")]
    serves: String,
}

#[tokio::main]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    if socket_access::is_below_a_host(std::process::id()) {
        return Err(Failure::new(Code::PeerRefused, "a command that Codex runs cannot start a launcher"));
    }
    raise_descriptor_limit();
    let serves = user_number(&args.serves)?;
    if serves == geteuid().as_raw() || geteuid().is_root() {
        let message = "hosts need their own user: neither root nor the daemon's user";
        return Err(
            Failure::new(Code::Launcher, message).hint("docs/security.md describes the setup with two users")
        );
    }
    let paths = globals.paths()?;
    paths.prepare()?;
    let _lock = lock::acquire(&paths)?;
    let file = hosts::load(&paths)?;
    let _log = log::start(&file.log.without_spans(), &Redactor::default(), None);
    let service = Service::new(options(&paths, &file, &args.listen, serves)?);
    let listener = listen(&args.listen)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::internal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
    info!("codex-bridge {} launches hosts on {}", env!("CARGO_PKG_VERSION"), args.listen.display());
    notify::systemd("READY=1");
    tokio::select! {
        () = service.run(listener) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    notify::systemd("STOPPING=1");
    // Hosts continue; the next launcher finds them.
    if let Err(error) = fs::remove_file(&args.listen) {
        warn!(error = reason(&error), "cannot remove the socket");
    }
    Ok(ExitCode::SUCCESS)
}

fn user_number(name: &str) -> Result<u32, Failure> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let found = User::from_name(name).map_err(Failure::internal)?;
    let missing = || {
        Failure::new(Code::Launcher, format!("there is no user {name:?}"))
            .hint("create the user, or correct --for")
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
        hosts_dir: create_private(&hosts_dir)?,
        homes: homes(file)?,
        packages: codex::data_dir()?,
        denied: paths.protected().into_iter().chain(sockets).collect(),
        command_path: command_path(&file.env),
        services: services::command_running_sockets(&[geteuid().as_raw(), serves], variable),
        serves,
    })
}

/// The real paths of all Codex homes, the default home first.
fn homes(file: &HostsFile) -> Result<Vec<PathBuf>, Failure> {
    let default = || std::env::home_dir().map(|home| home.join(".codex"));
    let first = file.codex_home.clone().or_else(|| path_variable("CODEX_HOME")).or_else(default);
    let first = first.ok_or_else(|| Failure::new(Code::NoHome, "neither CODEX_HOME nor HOME is set"))?;
    [first].iter().chain(&file.other_homes).map(|home| create_private(home)).collect()
}

/// Creates a directory that only its owner can use, if it is missing. Returns its real path.
fn create_private(dir: &Path) -> Result<PathBuf, Failure> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    created.and_then(|()| dir.canonicalize()).map_err(|error| cannot("create", dir, &error))
}

fn listen(socket: &Path) -> Result<UnixListener, Failure> {
    let dir = socket.parent().unwrap_or(Path::new("/"));
    let found = fs::symlink_metadata(dir).map_err(|error| cannot("examine", dir, &error))?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        let message =
            format!("{} must belong to the hosts' user, and no other user may write to it", dir.display());
        return Err(Failure::new(Code::DirNotPrivate, message)
            .hint("let systemd create it: RuntimeDirectory, mode 0750"));
    }
    // We hold the lock, so an existing socket belongs to a dead launcher. If it cannot be removed, `bind` fails.
    fs::remove_file(socket).ok();
    let listener = UnixListener::bind(socket).map_err(|error| cannot("listen on", socket, &error))?;
    let opened = fs::set_permissions(socket, fs::Permissions::from_mode(SOCKET_MODE));
    opened.map_err(|error| cannot("open", socket, &error))?;
    Ok(listener)
}
