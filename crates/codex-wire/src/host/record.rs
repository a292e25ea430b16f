//! The files in a host's directory: the plan of a start, the record of the running host, and how it ended.
//!
//! Plain data; whether the processes still live is checked elsewhere. Unknown fields are skipped, and missing fields
//! have defaults unless they are needed to find the host. So a newer program finds the hosts of an older one, and the
//! other way round.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::placement::Identity;
use crate::Epoch;
use crate::os::process::Process;

/// The longest path that fits in a socket address (108 bytes with the closing zero).
pub const SOCKET_PATH_MAX_BYTES: usize = 107;

/// The name of the variable that every process of a host carries in its environment, with the host's id as its value.
pub const MARKER: &str = "CODEX_BRIDGE_HOST";

/// The epoch of a host, from the boot of the machine and its codex process.
pub fn epoch_of(boot_id: &str, codex: Process) -> Epoch {
    Epoch(format!("{boot_id}:{}:{}", codex.pid, codex.start_ticks))
}

/// What a keeper is to run. It holds no secrets: they are in the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The new host's id.
    pub id: String,
    /// The host's directory, where everything about it is written.
    pub dir: PathBuf,
    /// The native codex executable.
    pub codex: PathBuf,
    /// Its version.
    pub version: String,
    /// The identity of the host.
    #[serde(default)]
    pub identity: Identity,
    /// The absolute path of the home that Codex will use.
    pub codex_home: PathBuf,
    /// `key=value` overrides of Codex's configuration.
    #[serde(default)]
    pub config: Vec<String>,
    /// The ancestors that may adopt the host's processes if its keeper is killed; see [`super::lineage::adopters`].
    #[serde(default)]
    pub adopters: Vec<Process>,
}

/// A running host. The keeper writes it as soon as codex has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The host's id, also the value of [`MARKER`] in the environment of all its processes.
    pub id: String,
    /// The epoch of this start.
    pub epoch: Epoch,
    /// The keeper. Its pid is also the session id of all processes that did not start a session of their own.
    pub keeper: Process,
    /// The codex process.
    pub codex: Process,
    /// The boot of the machine in which the pids above are valid.
    pub boot_id: String,
    /// Where codex listens.
    pub socket: PathBuf,
    /// Codex's version, as known at the start.
    #[serde(default)]
    pub codex_version: String,
    /// The executable that was started.
    #[serde(default)]
    pub codex_executable: PathBuf,
    /// Codex's home.
    #[serde(default)]
    pub codex_home: PathBuf,
    /// The identity of the host.
    #[serde(default)]
    pub identity: Identity,
    /// When codex was started, in milliseconds since 1970.
    #[serde(default)]
    pub started_at_ms: u64,
    /// When codex was started, in milliseconds of the machine's uptime, from which its age is computed.
    #[serde(default)]
    pub started_uptime_ms: u64,
    /// The ancestors that may adopt the host's processes if its keeper is killed; see [`super::lineage::adopters`].
    #[serde(default)]
    pub adopters: Vec<Process>,
    /// The login session of all its processes, as the kernel's audit counts them.
    #[serde(default)]
    pub audit_session: Option<u32>,
}

/// How a host ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Codex's exit code, if it exited.
    #[serde(default)]
    pub code: Option<i32>,
    /// The signal that killed it.
    #[serde(default)]
    pub signal: Option<i32>,
    /// When it ended, in milliseconds since 1970.
    #[serde(default)]
    pub at_ms: u64,
    /// Why codex could not be started, or why the host was ended.
    #[serde(default)]
    pub error: Option<String>,
    /// Processes of the host that could not be ended.
    #[serde(default)]
    pub orphaned: Vec<u32>,
    /// Whether the keeper has ended every process below it. Keepers of older versions did not record this.
    #[serde(default)]
    pub cleared: Option<bool>,
}

impl Exit {
    /// Whether the keeper has ended all processes of the host.
    pub fn is_clean(&self) -> bool {
        self.cleared.unwrap_or(true)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.error, self.code, self.signal) {
            (Some(error), _, _) => formatter.write_str(error),
            (None, Some(code), _) => write!(formatter, "codex exited with code {code}"),
            (None, None, Some(signal)) => write!(formatter, "codex was ended by signal {signal}"),
            (None, None, None) => formatter.write_str("codex ended"),
        }
    }
}

/// The paths of the files in a host's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files<'a>(pub &'a Path);

impl Files<'_> {
    /// The [`Plan`].
    pub fn plan(&self) -> PathBuf {
        self.0.join("plan.json")
    }

    /// The [`Record`].
    pub fn record(&self) -> PathBuf {
        self.0.join("host.json")
    }

    /// The [`Exit`].
    pub fn exit(&self) -> PathBuf {
        self.0.join("exit.json")
    }

    /// The newest part of codex's stderr, redacted.
    pub fn stderr(&self) -> PathBuf {
        self.0.join("stderr.log")
    }

    /// Exists once codex was asked to finish its turns and end.
    pub fn draining(&self) -> PathBuf {
        self.0.join("draining")
    }

    /// The socket of codex.
    pub fn socket(&self) -> PathBuf {
        self.0.join("s")
    }
}

/// Writes a value as JSON, atomically, with mode 0600.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(&serde_json::to_vec_pretty(value)?)?;
    fs::rename(&part, path)
}

/// Reads what [`write_json`] wrote; `None` when there is no such file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| invalid_json(&error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn invalid_json(error: &serde_json::Error) -> io::Error {
    let place = format!("line {}, column {}", error.line(), error.column());
    io::Error::new(io::ErrorKind::InvalidData, format!("the file is damaged or of another version ({place})"))
}

/// The wall clock in milliseconds UTC.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
