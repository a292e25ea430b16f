//! The rules that every host is started with, and the proof that a host follows them.
//!
//! The echo of a thread does not say which paths are denied to commands (codex 0.166). So each host is started with a
//! permission profile that denies those paths. Before first use, a command must fail to read such a path.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codex_session::link::Error;
use codex_session::{Failure, FailureKind, SessionConfig};
use codex_wire::Epoch;
use codex_wire::call::CommandExec;
use codex_wire::confinement::Confinement;
use codex_wire::connection::Connection;
use codex_wire::host::record::Files;
use codex_wire::host::{Host, Reach};
use codex_wire::user_config::UserConfig;

use crate::config::Config;
use codex_wire::reason;

/// How long the proof's command may take. A sandbox starts in 0.1 s.
const PROOF_LIMIT: Duration = Duration::from_secs(20);
/// What the proof's command prints before it tries to read.
const RAN: &str = "ran";
/// How much longer the call may take than its command.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How many proofs are remembered; more than there are hosts.
const MOST_PROOFS: usize = 1024;

/// The rules of every host of this bridge.
#[derive(Clone)]
pub(crate) struct HostRules {
    confinement: Arc<Confinement>,
    /// The hosts that have proven that they follow the rules.
    proven: Arc<Mutex<BTreeSet<Epoch>>>,
}

impl HostRules {
    pub(crate) fn new(config: &Config) -> Result<Self, Failure> {
        // Codex denies only paths that exist. A launcher creates its own directory.
        if config.reach == Reach::Own {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&config.hosts_dir);
            made.map_err(|error| {
                let message = format!("cannot create {}: {}", config.hosts_dir.display(), reason(&error));
                Failure::new(FailureKind::Startup, message)
            })?;
        }
        // A directory that always exists; the proof reads by absolute path.
        let mut session = SessionConfig::new("/");
        session.denied = config.denied_paths();
        Ok(Self {
            confinement: Arc::new(session.confinement(None, &UserConfig::default())?),
            proven: Arc::default(),
        })
    }

    /// The name of the rules, a digest. Other rules have another name.
    pub(crate) fn name(&self) -> String {
        self.confinement.rules_id().unwrap_or_default()
    }

    /// The rules as arguments for the app-server.
    pub(crate) fn overrides(&self) -> Vec<String> {
        self.confinement.as_process_overrides()
    }

    /// Whether a host was started with these rules.
    pub(crate) fn are_of(&self, host: &Host) -> bool {
        host.record().identity.environment == self.name()
    }

    /// Has a host prove, once per epoch, that commands cannot read a denied path.
    pub(crate) async fn prove(&self, host: &Host, connection: &Connection) -> Result<(), Error> {
        if self.proven().contains(host.epoch()) {
            return Ok(());
        }
        let record = Files(host.dir()).record();
        // The `echo` shows that commands run at all: a command that cannot start reads nothing either.
        let script = format!("echo {RAN}; exec cat \"$1\"");
        let command = CommandExec {
            command: vec!["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned(), text(&record)],
            cwd: self.confinement.cwd.clone(),
            permission_profile: self.name(),
            timeout_ms: u64::try_from(PROOF_LIMIT.as_millis()).unwrap_or(u64::MAX),
        };
        let ran = connection.peer.call(&command, PROOF_LIMIT + ANSWER_LIMIT).await;
        let ran =
            ran.map_err(|error| unproven(format!("the command that has to fail did not run: {error}")))?;
        let Some(read) = ran.stdout.strip_prefix(RAN) else {
            return Err(unproven(format!("its commands do not run: {}", ran.stderr.trim())));
        };
        if ran.exit_code == 0 || !read.trim().is_empty() {
            return Err(unproven(format!(
                "its commands can read {}, which is denied to them",
                record.display()
            )));
        }
        let mut proven = self.proven();
        if proven.len() >= MOST_PROOFS {
            proven.clear();
        }
        proven.insert(host.epoch().clone());
        Ok(())
    }

    fn proven(&self) -> std::sync::MutexGuard<'_, BTreeSet<Epoch>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unproven(why: String) -> Error {
    Error::Unconfined { why }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
