//! What is written in a host's directory: the plan of a start, the record of the running host, and how it ended.
//!
//! Plain data and files. Whether the processes named here still live is asked elsewhere. Readers are tolerant: unknown
//! fields are skipped and missing ones that nobody needs to find the host have defaults, so that a newer program finds
//! the hosts of an older one and the other way round.

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

/// The life of a host whose codex runs as `codex` in this run of the machine.
pub fn epoch_of(boot_id: &str, codex: Process) -> Epoch {
    Epoch(format!("{boot_id}:{}:{}", codex.pid, codex.start_ticks))
}

/// What a keeper is told to run. It holds no secret: those travel in the environment.
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
    /// Whom the host serves.
    #[serde(default)]
    pub identity: Identity,
    /// The home that Codex will use, spelt out.
    pub codex_home: PathBuf,
    /// `key=value` overrides of Codex's configuration.
    #[serde(default)]
    pub config: Vec<String>,
    /// Who would adopt the host's processes if its keeper were killed; see [`super::lineage::adopters`].
    #[serde(default)]
    pub adopters: Vec<Process>,
}

/// A running host, written by its keeper as soon as codex is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The host's id, also the value of [`MARKER`] in the environment of all its processes.
    pub id: String,
    /// This life of the host.
    pub epoch: Epoch,
    /// The keeper; its number is also the session of all that did not begin one of their own.
    pub keeper: Process,
    /// The codex process.
    pub codex: Process,
    /// The run of the machine in which the numbers above mean something.
    pub boot_id: String,
    /// Where codex listens.
    pub socket: PathBuf,
    /// Codex's version, as the launcher knew it.
    #[serde(default)]
    pub codex_version: String,
    /// The executable that was started.
    #[serde(default)]
    pub codex_executable: PathBuf,
    /// Codex's home.
    #[serde(default)]
    pub codex_home: PathBuf,
    /// Whom the host serves.
    #[serde(default)]
    pub identity: Identity,
    /// When codex was started, for people.
    #[serde(default)]
    pub started_at_ms: u64,
    /// When codex was started, in the machine's uptime: ages are counted with this.
    #[serde(default)]
    pub started_uptime_ms: u64,
    /// Who would adopt the host's processes if its keeper were killed; see [`super::lineage::adopters`].
    #[serde(default)]
    pub adopters: Vec<Process>,
    /// The login session of all its processes, as the kernel's audit counts them.
    #[serde(default)]
    pub audit_session: Option<u32>,
}

/// How a host ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Codex's exit code, if it ended by itself.
    #[serde(default)]
    pub code: Option<i32>,
    /// The signal that ended it.
    #[serde(default)]
    pub signal: Option<i32>,
    /// When it ended.
    #[serde(default)]
    pub at_ms: u64,
    /// Why codex was never started.
    #[serde(default)]
    pub error: Option<String>,
    /// Processes of the host that could not be ended.
    #[serde(default)]
    pub orphaned: Vec<u32>,
    /// Whether the keeper has seen the end of every process below it. A keeper of an older version did not say.
    #[serde(default)]
    pub cleared: Option<bool>,
}

impl Exit {
    /// Whether nothing of the host is left, as far as its keeper knew.
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

/// Names in a host's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files<'a>(pub &'a Path);

impl Files<'_> {
    /// What the keeper is to run.
    pub fn plan(&self) -> PathBuf {
        self.0.join("plan.json")
    }

    /// The running host.
    pub fn record(&self) -> PathBuf {
        self.0.join("host.json")
    }

    /// How it ended.
    pub fn exit(&self) -> PathBuf {
        self.0.join("exit.json")
    }

    /// What codex wrote on stderr, redacted, newest part.
    pub fn stderr(&self) -> PathBuf {
        self.0.join("stderr.log")
    }

    /// There when somebody has asked codex to finish its turns and end.
    pub fn draining(&self) -> PathBuf {
        self.0.join("draining")
    }

    /// Where codex listens.
    pub fn socket(&self) -> PathBuf {
        self.0.join("s")
    }
}

/// Writes a value as JSON so that a reader sees all of it or nothing. Mode 0600.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(&serde_json::to_vec_pretty(value)?)?;
    fs::rename(&part, path)
}

/// Reads what [`write_json`] wrote; `None` when there is no such file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The wall clock in milliseconds UTC.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
