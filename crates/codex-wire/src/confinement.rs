//! The bounds of a thread: the settings that are sent with every start, resume and fork, and the echo that must come
//! back before a turn may begin.
//!
//! codex 0.166 forgets these settings on a resume by a new process and on a fork, and ignores them on the resume of a
//! loaded thread. So they are sent each time, and the echo is compared each time. Which directories are denied, and
//! whether a repository is trusted, is decided elsewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::call::{ThreadOpened, ThreadSettings};
use crate::host::record::MARKER;
use crate::thread::ThreadLimits;

/// The only reviewer of approvals. The user's config could otherwise turn on automatic review.
pub const REVIEWER: &str = "user";

/// Variables that every command sees, if the host has them: Codex's own "core" set, and the mark by which a command
/// that left its host's session is recognised.
const CORE_VARIABLES: [&str; 14] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "USERNAME",
    MARKER,
    NOT_THE_FIRST_SHELL.0,
];

/// Keeps bash from reading `~/.bashrc` before a command. In a sandbox without network, bash takes its stdin for a
/// network connection, because `getpeername` fails with an unexpected error. A shell on a network connection reads that
/// file if `SHLVL` says that it is the first shell (seen: bash 5.2, codex 0.166).
const NOT_THE_FIRST_SHELL: (&str, &str) = ("SHLVL", "1");

/// A directory in which no task works.
const NEUTRAL_DIR: &str = "/";

/// The sandbox of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    /// Read everything, write nothing.
    ReadOnly,
    /// Write below the directory of the thread.
    WorkspaceWrite,
    /// No sandbox. For operators only.
    DangerFullAccess,
}

impl Sandbox {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }
}

/// Whether Codex takes configuration, MCP servers, rules and instructions from the directory of the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectTrust {
    /// Codex takes nothing from the directory.
    Untrusted,
    /// Codex takes the files of the root, and nothing from the directories between the root and the thread's directory:
    /// commands that work in the root may write to those.
    Trusted {
        /// The real path of the trusted directory: the directory of the thread, or one above it.
        root: PathBuf,
    },
}

/// The bounds of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// The real path of the thread's directory. Codex compares real paths with the entries of projects.
    pub cwd: String,
    /// The sandbox of commands.
    pub sandbox: Sandbox,
    /// Whether commands reach the network.
    pub network: bool,
    /// Directories beside `cwd` that commands may write, by their real paths.
    pub writable_roots: BTreeSet<String>,
    /// Real paths that no command may read or write. codex 0.166: a path that is a link makes every command fail, and
    /// for a path that does not exist Codex creates an empty file on the real disk.
    pub denied: BTreeSet<String>,
    /// The paths to deny as the program names them, existing or not.
    pub meant_to_be_denied: BTreeSet<String>,
    /// Real paths of directories that contain a denied path and lie where commands may write. They are read-only:
    /// otherwise a command could move such a directory away and put another one in its place.
    pub guarded: BTreeSet<String>,
    /// Whether the directory is trusted.
    pub project: ProjectTrust,
    /// When Codex asks.
    pub approval_policy: String,
    /// Variables that commands see beside the core set.
    pub variables: BTreeSet<String>,
    /// The PATH of commands; `None` keeps the PATH of Codex. Codex runs programs from its own PATH outside of any
    /// sandbox, so commands must not be able to write to the directories on it.
    pub command_path: Option<String>,
    /// The user's MCP servers without a `cwd`, which Codex would start in the thread's directory. They run outside of
    /// any sandbox, and many load code from their working directory (`npx`, `python -m`).
    pub mcp_servers_without_cwd: BTreeSet<String>,
    /// The CODEX_HOME. Instructions in it are the user's own.
    pub codex_home: Option<String>,
    /// The profile of a running turn, if the same rules made it; see [`Self::keep_profile_of`].
    pub kept_profile: Option<String>,
}

/// A setting that Codex did not apply as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("codex did not apply the {what}: sent {wanted}, in effect is {got}")]
pub struct Difference {
    /// Which setting.
    pub what: &'static str,
    /// What was sent.
    pub wanted: String,
    /// What is in effect.
    pub got: String,
}

impl Confinement {
    /// The name of the permission profile; `None` without a sandbox.
    ///
    /// The name consists of [`Self::rules_id`] and a digest of the profile, so that the user's config cannot have a
    /// profile of the same name: codex 0.166 would merge the two. The echo contains the name, but neither the denied
    /// paths nor the trust. The right name proves that they are in effect, also for a thread that was loaded earlier.
    pub fn profile_id(&self) -> Option<String> {
        let made = || Some(format!("{}_{}", self.rules_id()?, digest(&self.profile()?)));
        self.kept_profile.clone().or_else(made)
    }

    /// The name of the rules that make the profile; `None` without a sandbox. Unlike the profile, the rules do not
    /// depend on which of the paths exist at the moment.
    pub fn rules_id(&self) -> Option<String> {
        let rules = json!([
            self.base_profile()?,
            self.network,
            self.writable_roots,
            self.meant_to_be_denied,
            self.cwd,
            self.project.name()
        ]);
        Some(format!("codex_bridge_{}", digest(&rules)))
    }

    /// Keeps the profile of a running turn if the same rules made it while other paths existed. The running turn goes
    /// on as it began; the next turn gets a new profile.
    pub fn keep_profile_of(&mut self, opened: &ThreadOpened) {
        let active = opened.active_permission_profile.as_ref().map(|profile| profile.id.as_str());
        let rules = active.and_then(|id| id.rsplit_once('_')).map(|(rules, _)| rules);
        if rules.is_some() && rules == self.rules_id().as_deref() {
            self.kept_profile = active.map(str::to_owned);
        }
    }

    fn base_profile(&self) -> Option<&'static str> {
        match self.sandbox {
            Sandbox::ReadOnly => Some(":read-only"),
            Sandbox::WorkspaceWrite => Some(":workspace"),
            Sandbox::DangerFullAccess => None,
        }
    }

    /// The permission profile; `None` without a sandbox. With at least one denied path, codex 0.166 runs no command
    /// without a sandbox: not after an accept, not by a rule, not by an escalation.
    fn profile(&self) -> Option<Value> {
        let base = self.base_profile()?;
        let when_writing = |paths: &BTreeSet<String>, access: &str| -> Vec<(String, Value)> {
            let paths = paths.iter().filter(|_| self.sandbox == Sandbox::WorkspaceWrite);
            paths.map(|path| (path.clone(), json!(access))).collect()
        };
        let mut filesystem: Map<String, Value> = when_writing(&self.guarded, "read").into_iter().collect();
        filesystem.extend(when_writing(&self.writable_roots, "write"));
        filesystem.extend(self.denied.iter().map(|path| (path.clone(), json!("deny"))));
        let network = json!({"enabled": self.network});
        Some(json!({"extends": base, "filesystem": filesystem, "network": network}))
    }

    /// The profile as an override on the command line of the app-server, under the name that [`Self::rules_id`] gives.
    pub fn as_process_overrides(&self) -> Vec<String> {
        let (Some(id), Some(profile)) = (self.rules_id(), self.profile()) else { return Vec::new() };
        let profiles = json!({ id.as_str(): profile });
        vec![format!("default_permissions={}", json!(id)), format!("permissions={}", inline_toml(&profiles))]
    }

    /// Adds these bounds to the settings of a thread, overriding what is there.
    pub fn apply(&self, settings: &mut ThreadSettings) {
        settings.cwd = Some(self.cwd.clone());
        settings.approval_policy = Some(self.approval_policy.clone());
        settings.approvals_reviewer = Some(REVIEWER.to_owned());
        settings.permissions = self.profile_id();
        settings.sandbox = settings.permissions.is_none().then(|| self.sandbox.as_str().to_owned());
        settings.runtime_workspace_roots = Some(vec![self.cwd.clone()]);
        merge(settings.config.get_or_insert_default(), self.config());
    }

    fn config(&self) -> Map<String, Value> {
        let mut config = self.rules();
        if let (Some(id), Some(profile)) = (self.profile_id(), self.profile()) {
            config.insert("default_permissions".to_owned(), json!(id));
            config.insert("permissions".to_owned(), json!({ id: profile }));
        }
        config
    }

    /// The parts of Codex's configuration that bound a thread, without the permission profile.
    fn rules(&self) -> Map<String, Value> {
        let variables: BTreeSet<&str> =
            CORE_VARIABLES.into_iter().chain(self.variables.iter().map(String::as_str)).collect();
        let mut features = json!({"shell_snapshot": false, "write_stdin_approval": true});
        let mut rules = Map::new();
        rules.insert("projects".to_owned(), Value::Object(self.projects()));
        rules.insert("allow_login_shell".to_owned(), json!(false));
        // No variable is excluded for looking like a secret: the operator has named it on purpose.
        let mut set = json!({NOT_THE_FIRST_SHELL.0: NOT_THE_FIRST_SHELL.1});
        if let Some(path) = &self.command_path {
            set["PATH"] = json!(path);
        }
        let policy = json!({
            "inherit": "all", "ignore_default_excludes": true, "include_only": variables, "set": set,
        });
        rules.insert("shell_environment_policy".to_owned(), policy);
        if !self.project.is_trusted() {
            for feature in ["hooks", "plugins", "apps"] {
                features[feature] = json!(false);
            }
            // Otherwise Codex would read the configuration of every directory from the project's root down.
            rules.insert("project_root_markers".to_owned(), json!([]));
            let elsewhere = |name: &String| (name.clone(), json!({"cwd": NEUTRAL_DIR}));
            let servers: Map<String, Value> = self.mcp_servers_without_cwd.iter().map(elsewhere).collect();
            if !servers.is_empty() {
                rules.insert("mcp_servers".to_owned(), Value::Object(servers));
            }
            // Names and descriptions of the repository's skills would reach the model.
            rules.insert("skills".to_owned(), json!({"include_instructions": false}));
        }
        rules.insert("features".to_owned(), features);
        rules
    }

    /// The trust level of every directory that Codex looks up. Codex decides for each directory on its own.
    fn projects(&self) -> Map<String, Value> {
        let level = |level: &str| json!({ "trust_level": level });
        let cwd = Path::new(&self.cwd);
        let root = self.project.root().filter(|root| cwd.starts_with(root));
        let below = cwd.ancestors().take_while(|dir| Some(*dir) != root);
        // Without a root above the thread's directory, only that directory counts.
        let below: Vec<&Path> = if root.is_some() { below.collect() } else { vec![cwd] };
        let untrusted = below.iter().map(|dir| (text(dir), level("untrusted")));
        untrusted.chain(root.map(|root| (text(root), level("trusted")))).collect()
    }

    /// Checks that a thread was opened within these bounds.
    pub fn check_opened(&self, opened: &ThreadOpened) -> Result<(), Difference> {
        self.check_limits(&ThreadLimits {
            cwd: opened.cwd.clone(),
            approval_policy: opened.approval_policy.clone(),
            approvals_reviewer: opened.approvals_reviewer.clone(),
            sandbox_policy: opened.sandbox.clone(),
            active_permission_profile: opened.active_permission_profile.clone(),
        })?;
        let roots = json!([self.cwd]);
        let found = opened.runtime_workspace_roots.as_ref().map_or(Value::Null, |roots| json!(roots));
        same("workspace roots", &roots, &found)?;
        if self.project.is_trusted() {
            return Ok(());
        }
        // Only instructions in the CODEX_HOME may be in effect.
        let is_users = |source: &&String| {
            self.codex_home.as_ref().is_some_and(|home| Path::new(source).starts_with(home))
        };
        match opened.instruction_sources.iter().find(|source| !is_users(source)) {
            Some(source) => Err(difference("instructions", "no instructions of the repository", source)),
            None => Ok(()),
        }
    }

    /// Checks that these settings are in effect now.
    pub fn check_limits(&self, limits: &ThreadLimits) -> Result<(), Difference> {
        let reviewer = limits.approvals_reviewer.as_deref().unwrap_or("nobody");
        if reviewer != REVIEWER {
            return Err(difference("approvals reviewer", REVIEWER, reviewer));
        }
        let policy = limits.approval_policy.clone().unwrap_or_default();
        same("approval policy", &json!(self.approval_policy), &policy)?;
        let id = limits.active_permission_profile.as_ref().map(|profile| &profile.id);
        same("permission profile", &json!(self.profile_id()), &json!(id))?;
        let mut sandbox = limits.sandbox_policy.clone().unwrap_or_default();
        if let Some(roots) = sandbox.get_mut("writableRoots").and_then(Value::as_array_mut) {
            roots.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
        same("sandbox", &self.sandbox_echo(), &sandbox)?;
        let cwd = limits.cwd.as_deref().unwrap_or("nothing");
        if cwd == self.cwd { Ok(()) } else { Err(difference("directory", &self.cwd, cwd)) }
    }

    /// The sandbox as Codex reports it, with every field.
    fn sandbox_echo(&self) -> Value {
        match self.sandbox {
            Sandbox::DangerFullAccess => json!({"type": "dangerFullAccess"}),
            Sandbox::ReadOnly => json!({"type": "readOnly", "networkAccess": self.network}),
            Sandbox::WorkspaceWrite => json!({
                "type": "workspaceWrite", "writableRoots": self.writable_roots, "networkAccess": self.network,
                "excludeTmpdirEnvVar": false, "excludeSlashTmp": false,
            }),
        }
    }
}

impl ProjectTrust {
    /// Whether Codex takes anything from the directory.
    pub fn is_trusted(&self) -> bool {
        self.root().is_some()
    }

    fn root(&self) -> Option<&Path> {
        match self {
            Self::Untrusted => None,
            Self::Trusted { root } => Some(root),
        }
    }

    /// A text that is unique for each value.
    fn name(&self) -> String {
        self.root().map_or_else(|| "untrusted".to_owned(), |root| format!("trusted {}", root.display()))
    }
}

/// The beginning of the digest of a value, long enough to be unique.
fn digest(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string());
    let start = digest.iter().take(8).fold(0_u64, |start, byte| start << 8 | u64::from(*byte));
    format!("{start:016x}")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn same(what: &'static str, wanted: &Value, got: &Value) -> Result<(), Difference> {
    if wanted == got { Ok(()) } else { Err(difference(what, &words(wanted), &words(got))) }
}

fn difference(what: &'static str, wanted: &str, got: &str) -> Difference {
    Difference { what, wanted: wanted.to_owned(), got: got.to_owned() }
}

fn words(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Adds `more` to a table, overriding existing values.
fn merge(table: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        match (table.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more),
            (_, value) => drop(table.insert(key, value)),
        }
    }
}

/// A value as TOML in one line. Strings are written as in JSON, which is valid TOML.
fn inline_toml(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let pairs: Vec<String> =
                table.iter().map(|(key, value)| format!("{}={}", json!(key), inline_toml(value))).collect();
            format!("{{{}}}", pairs.join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
