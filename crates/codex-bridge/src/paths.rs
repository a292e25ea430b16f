//! Paths: the state directory with its files, and the configuration file.
//!
//! The path of a unix socket has at most 107 bytes. If the state directory's path is too long, the sockets are in a short
//! directory elsewhere, whose path is stored in the state directory.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use codex_wire::host::record::SOCKET_PATH_MAX_BYTES;
use codex_wire::{os::process::random_id, reason};
use rustix::process::geteuid;

use crate::failure::{Code, Failure};

/// Files with keys that the packaged units read, in the directory of the configuration.
const ENVIRONMENT_FILES: [&str; 3] = ["daemon.env", "hosts.env", ".env"];

/// The longest path below the directory of the sockets: `hosts/`, a host's name of 8, `/s`.
const MAX_SOCKET_SUFFIX: usize = "/hosts/12345678/s".len();

/// The paths of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The state directory, as an absolute path.
    pub state_dir: PathBuf,
    /// The configuration file, which need not exist.
    pub config_file: PathBuf,
    /// Whether the file was named by flag or variable; then it must exist.
    pub is_config_named: bool,
}

impl Paths {
    /// The paths that were given by flags or variables, else the XDG defaults.
    pub fn new(state_dir: Option<PathBuf>, config: Option<PathBuf>) -> Result<Self, Failure> {
        let state_dir = match state_dir {
            Some(dir) => dir,
            None => xdg("XDG_STATE_HOME", ".local/state", "--state-dir")?.join("codex-bridge"),
        };
        let is_config_named = config.is_some();
        let config_file = match config {
            Some(file) => file,
            None => xdg("XDG_CONFIG_HOME", ".config", "--config")?.join("codex-bridge/config.toml"),
        };
        let whole = |path: &Path| std::path::absolute(path).map_err(Failure::internal);
        Ok(Self { state_dir: whole(&state_dir)?, config_file: whole(&config_file)?, is_config_named })
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.state_dir.join("tasks.db")
    }

    /// The key that encrypts sealed columns of the database.
    pub fn seal_key(&self) -> PathBuf {
        self.state_dir.join("seal.key")
    }

    /// The lock file of the daemon.
    pub fn lock(&self) -> PathBuf {
        self.state_dir.join("daemon.lock")
    }

    /// The log of a daemon that was started in the background.
    pub fn log(&self) -> PathBuf {
        self.state_dir.join("daemon.log")
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.sockets_dir().join("daemon.sock")
    }

    /// The directory of hosts.
    pub fn hosts(&self) -> PathBuf {
        self.sockets_dir().join("hosts")
    }

    /// The paths that no command of a task may read or write. If the configuration file was named, only the file is protected,
    /// since its directory may also hold the user's work.
    pub fn protected(&self) -> Vec<PathBuf> {
        let config = match self.config_file.parent() {
            Some(dir) if !self.is_config_named => dir.to_owned(),
            _ => self.config_file.clone(),
        };
        let mut own = vec![self.state_dir.clone(), config, self.sockets_dir()];
        if self.is_config_named {
            own.extend(ENVIRONMENT_FILES.map(|name| self.config_file.with_file_name(name)));
        }
        own.dedup();
        own
    }

    /// Creates the private directories: of the state, the configuration, and the sockets.
    pub fn prepare(&self) -> Result<(), Failure> {
        make_private(&self.state_dir)?;
        self.prepare_config_dir();
        if !self.needs_short_dir() {
            return Ok(());
        }
        if fs::read_to_string(self.short_dir_note()).is_err() {
            let short = short_base().join(random_id().map_err(Failure::internal)?.get(..8).unwrap_or("s"));
            fs::write(self.short_dir_note(), short.as_os_str().as_encoded_bytes())
                .map_err(|error| cannot("write", &self.short_dir_note(), &error))?;
        }
        let short = self.sockets_dir();
        if let Some(base) = short.parent().filter(|base| base.starts_with("/tmp")) {
            make_private(base)?;
        }
        make_private(&short)
    }

    /// Creates the default directory of the configuration. A directory that does not exist cannot be denied to commands, which
    /// could then write the first configuration.
    fn prepare_config_dir(&self) {
        let dir = self.config_file.parent().filter(|dir| !self.is_config_named && !dir.exists());
        if let Some(dir) = dir {
            // A directory that the daemon cannot create, its commands cannot create either.
            DirBuilder::new().recursive(true).mode(0o700).create(dir).ok();
        }
    }

    /// The directory of the sockets: the state directory itself, unless its path is too long.
    fn sockets_dir(&self) -> PathBuf {
        if !self.needs_short_dir() {
            return self.state_dir.clone();
        }
        let stored = fs::read_to_string(self.short_dir_note()).map(|text| PathBuf::from(text.trim_end()));
        stored.unwrap_or_else(|_| self.state_dir.clone())
    }

    fn needs_short_dir(&self) -> bool {
        self.state_dir.as_os_str().len() + MAX_SOCKET_SUFFIX > SOCKET_PATH_MAX_BYTES
    }

    fn short_dir_note(&self) -> PathBuf {
        self.state_dir.join("sockets-are-in")
    }
}

/// An XDG base directory: the variable if it is set, else below the home.
fn xdg(variable: &str, below_home: &str, flag: &str) -> Result<PathBuf, Failure> {
    match (path_variable(variable), std::env::home_dir().filter(|home| !home.as_os_str().is_empty())) {
        (Some(dir), _) => Ok(dir),
        (None, Some(home)) => Ok(home.join(below_home)),
        (None, None) => Err(Failure::new(Code::NoHome, format!("neither HOME nor {variable} is set"))
            .hint(format!("set one of them, or use {flag}"))),
    }
}

fn short_base() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty() && dir.len() < 60) {
        Some(dir) => PathBuf::from(dir).join("codex-bridge"),
        None => PathBuf::from(format!("/tmp/codex-bridge-{}", geteuid().as_raw())),
    }
}

/// Creates a private directory. An existing one must belong to us, and is made private.
fn make_private(dir: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| cannot("create", dir, &error))?;
    // Links in /tmp are not followed: other users can create them.
    let found = fs::symlink_metadata(dir).map_err(|error| cannot("inspect", dir, &error))?;
    let found = if found.is_symlink() && !dir.starts_with("/tmp") {
        fs::metadata(dir).map_err(|error| cannot("inspect", dir, &error))?
    } else {
        found
    };
    if !found.is_dir() || found.uid() != geteuid().as_raw() {
        let message = format!("{} does not belong to you", dir.display());
        return Err(Failure::new(Code::DirNotPrivate, message)
            .hint("remove the directory, or choose another with --state-dir"));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
            .map_err(|error| cannot("restrict the permissions of", dir, &error))?;
    }
    Ok(())
}

/// The failure of a file operation, with a hint for the usual causes.
pub fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot {what} {}: {}", path.display(), reason(error));
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Failure::new(Code::NoSpace, message).hint("free some space on that file system, then try again")
        }
        ErrorKind::PermissionDenied => {
            Failure::new(Code::NoPermission, message).hint("check its owner and its permissions")
        }
        ErrorKind::ReadOnlyFilesystem => {
            Failure::new(Code::ReadOnly, message).hint("choose another state directory with --state-dir")
        }
        _ => Failure::new(Code::Io, message),
    }
}

/// A path in a variable of our own environment; none if the variable is empty.
pub fn path_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// A variable of our own environment.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_the_configuration_is_there_to_be_denied_unless_somebody_named_the_file() {
        let base = tempfile::tempdir().unwrap();
        let paths = |is_config_named| Paths {
            state_dir: base.path().join("state"),
            config_file: base.path().join("config/codex-bridge/config.toml"),
            is_config_named,
        };
        let dir = base.path().join("config/codex-bridge");
        paths(true).prepare().unwrap();
        assert!(!dir.exists());
        paths(false).prepare().unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert!(paths(false).protected().contains(&dir));
    }
}
