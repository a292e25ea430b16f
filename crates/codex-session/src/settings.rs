//! How a session and its turns are set up.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use codex_wire::call::ThreadSettings;
pub use codex_wire::confinement::Sandbox;
use codex_wire::confinement::{Confinement, ProjectTrust};
use codex_wire::reason;
use codex_wire::user_config::UserConfig;
use redact::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, FailureKind};
use crate::policy::ApprovalPolicy;
use crate::session_event::SessionEvent;
use crate::turn::{Limits, Millis};

/// Default work limit of a turn.
const DEFAULT_WORK_LIMIT: Duration = Duration::from_mins(10);

/// Commands may write here, whatever TMPDIR says (codex 0.166).
const SHARED_TEMP_DIR: &str = "/tmp";

/// The system-wide configuration of Codex.
const SYSTEM_CONFIG: &str = "/etc/codex";

/// The settings of a session.
#[derive(Clone)]
pub struct SessionConfig {
    /// Where Codex works.
    pub cwd: PathBuf,
    /// The sandbox of commands.
    pub sandbox: Sandbox,
    /// Whether commands reach the network.
    pub network: bool,
    /// Directories beside `cwd` that commands may write under [`Sandbox::WorkspaceWrite`].
    pub writable_roots: Vec<PathBuf>,
    /// Paths that no command may read or write. Codex's own home is always among them.
    pub denied: Vec<PathBuf>,
    /// The directory for temporary files of this Codex, if it is not `/tmp`. Commands may write to it.
    pub temp_dir: Option<PathBuf>,
    /// Directories that commands may not write, even inside of writable ones.
    pub read_only: Vec<PathBuf>,
    /// The PATH of commands; `None` keeps the PATH of Codex.
    pub command_path: Option<String>,
    /// Variables that commands see beside Codex's core set.
    pub command_variables: Vec<String>,
    /// Whether Codex takes configuration, MCP servers and instructions from `cwd`.
    pub project: ProjectTrust,
    /// When Codex asks.
    pub approval_mode: ApprovalMode,
    /// The model; with `None`, Codex's own config decides.
    pub model: Option<String>,
    /// Instructions above the user's.
    pub developer_instructions: Option<String>,
    /// Overrides of Codex's config.toml for this thread.
    pub config: Map<String, Value>,
    /// Tools of the program that the model may call, in Codex's own shape.
    pub dynamic_tools: Vec<Value>,
    /// Which requests are answered without asking.
    pub approvals: ApprovalPolicy,
    /// Whether the program answers requests by [`Session::decide`](crate::Session::decide). If not, and without an
    /// approver, requests are declined.
    pub takes_decisions: bool,
    /// MCP servers of the program itself, whose tools are shown without a prefix.
    pub own_mcp_servers: Vec<String>,
    /// How long calls may take.
    pub call_limits: CallLimits,
    /// Lines of stderr in an error.
    pub stderr_tail_lines: usize,
    /// Hides secrets in all output.
    pub redactor: Redactor,
    /// A listener that misses no event, such as a store: the session waits for it.
    pub journal: Option<mpsc::Sender<SessionEvent>>,
}

impl SessionConfig {
    /// The directories on the PATH of commands that commands may write. A relative one is looked up in the directory
    /// where a command runs.
    pub(crate) fn writable_path(&self) -> Vec<String> {
        let temp = self.temp_dir.clone().unwrap_or_else(|| PathBuf::from("/tmp"));
        let writable: Vec<&PathBuf> = match self.sandbox {
            Sandbox::ReadOnly => Vec::new(),
            _ => self.writable_roots.iter().chain([&self.cwd, &temp]).collect(),
        };
        let is_kept = |dir: &Path| self.read_only.iter().any(|kept| dir.starts_with(kept));
        let is_writable = |dir: &PathBuf| {
            !dir.is_absolute() || (writable.iter().any(|root| dir.starts_with(root)) && !is_kept(dir))
        };
        let path = self.command_path.iter().flat_map(std::env::split_paths);
        path.filter(is_writable)
            .map(|dir| if dir.as_os_str().is_empty() { ".".to_owned() } else { dir.display().to_string() })
            .collect()
    }

    /// The safe defaults: a read-only sandbox, and every command needs an approval.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self {
            cwd: cwd.into(),
            sandbox: Sandbox::ReadOnly,
            network: false,
            writable_roots: Vec::new(),
            denied: Vec::new(),
            temp_dir: None,
            read_only: Vec::new(),
            command_path: None,
            command_variables: Vec::new(),
            project: ProjectTrust::Untrusted,
            approval_mode: ApprovalMode::Untrusted,
            model: None,
            developer_instructions: None,
            config: Map::new(),
            dynamic_tools: Vec::new(),
            approvals: ApprovalPolicy::default(),
            takes_decisions: false,
            own_mcp_servers: Vec::new(),
            call_limits: CallLimits::default(),
            stderr_tail_lines: 12,
            redactor: Redactor::default(),
            journal: None,
        }
    }

    /// The settings that are sent with the thread.
    pub(crate) fn thread_settings(&self, confinement: &Confinement) -> ThreadSettings {
        let mut settings = ThreadSettings {
            model: self.model.clone(),
            developer_instructions: self.developer_instructions.clone(),
            config: Some(self.config.clone()),
            ..ThreadSettings::default()
        };
        confinement.apply(&mut settings);
        settings
    }

    /// The bounds of a thread on a server with this home and user configuration. Codex compares real paths, so every
    /// path is resolved here.
    pub fn confinement(&self, codex_home: Option<&str>, users: &UserConfig) -> Result<Confinement, Failure> {
        let cwd = self.cwd.canonicalize().map_err(|error| {
            let message = format!("the directory {} cannot be used: {}", self.cwd.display(), reason(&error));
            Failure::new(FailureKind::Startup, message)
        })?;
        let codex_home = codex_home.map(|home| real_path(Path::new(home)));
        let of_machine = UserConfig::read(Path::new(SYSTEM_CONFIG)).mcp_servers_without_cwd;
        let denied: Vec<PathBuf> =
            self.denied.iter().map(|path| real_path(path)).chain(codex_home.clone()).collect();
        // A path inside another denied path is left out: codex 0.166 would fail every command for it.
        let is_outermost =
            |path: &&PathBuf| !denied.iter().any(|other| other != *path && path.starts_with(other));
        let denied: Vec<PathBuf> = denied.iter().filter(is_outermost).cloned().collect();
        let writable_roots: Vec<PathBuf> = self.writable_roots.iter().map(|path| real_path(path)).collect();
        let temporary =
            [Path::new(SHARED_TEMP_DIR)].into_iter().chain(self.temp_dir.as_deref()).map(real_path);
        let writable: Vec<PathBuf> =
            temporary.chain(writable_roots.iter().cloned()).chain([cwd.clone()]).collect();
        let read_only: Vec<PathBuf> = self.read_only.iter().map(|path| real_path(path)).collect();
        let is_below = |path: &&PathBuf| writable.iter().any(|top| path.starts_with(top) && *path != top);
        let read_only: Vec<PathBuf> = read_only.iter().filter(is_below).cloned().collect();
        let read_only = guarded(&read_only, &writable).chain(read_only.iter().map(PathBuf::as_path));
        let guarded: BTreeSet<String> = guarded(&denied, &writable).chain(read_only).map(text).collect();
        let variables = self.command_variables.iter().cloned();
        Ok(Confinement {
            cwd: text(&cwd),
            sandbox: self.sandbox,
            network: self.network,
            writable_roots: writable_roots.iter().map(|path| text(path)).collect(),
            denied: denied.iter().filter(|path| !is_missing(path)).map(|path| text(path)).collect(),
            meant_to_be_denied: self.denied.iter().chain(&codex_home).map(|path| text(path)).collect(),
            guarded,
            project: self.project.clone(),
            approval_policy: self.approval_mode.as_str().to_owned(),
            mcp_servers_without_cwd: users
                .mcp_servers_without_cwd
                .iter()
                .cloned()
                .chain(of_machine)
                .collect(),
            command_path: self.command_path.clone().filter(|_| !users.command_variables.contains("PATH")),
            variables: variables.chain(users.command_variables.iter().cloned()).collect(),
            codex_home: codex_home.as_deref().map(text),
            kept_profile: None,
        })
    }
}

impl SessionConfig {
    /// A message if neither the user nor the program has configured this MCP server. Its code runs outside of any
    /// sandbox.
    pub(crate) fn unknown_mcp_server(
        &self,
        name: &str,
        confinement: &Confinement,
        of_user: impl FnOnce() -> bool,
    ) -> Option<String> {
        let of_program = self.config.get("mcp_servers").and_then(|servers| servers.get(name)).is_some();
        let of_machine = || UserConfig::read(Path::new(SYSTEM_CONFIG)).mcp_servers.contains(name);
        let is_known = confinement.project.is_trusted() || of_program || of_machine() || of_user();
        (!is_known).then(|| unknown_mcp_server(name))
    }
}

/// The message about an MCP server that is not configured.
pub(crate) fn unknown_mcp_server(name: &str) -> String {
    format!("codex started the MCP server {name:?}, which is not in the user's own configuration")
}

/// The parent directories of denied paths, up to the writable directory that contains them.
fn guarded<'a>(denied: &'a [PathBuf], writable: &'a [PathBuf]) -> impl Iterator<Item = &'a Path> {
    let between = |path: &'a PathBuf, top: &'a PathBuf| {
        path.ancestors().skip(1).take_while(move |dir| dir.starts_with(top) && *dir != top)
    };
    let above = denied.iter().flat_map(move |path| writable.iter().flat_map(move |top| between(path, top)));
    above.filter(move |dir| !is_missing(dir) && !writable.iter().any(|writable| writable == dir))
}

/// Whether the path certainly does not exist. A path that we may not read may exist: Codex may run as another user.
fn is_missing(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// The real path of a file or directory. Of a missing one, the existing part is resolved.
fn real_path(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(real), ..) => real,
        (Err(_), Some(parent), Some(name)) => real_path(parent).join(name),
        (Err(_), ..) => path.to_path_buf(),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// When Codex asks before it acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    /// For every command.
    Untrusted,
    /// When the model asks to leave the sandbox, or the command is dangerous.
    OnRequest,
    /// Never. For operators only.
    Never,
}

impl ApprovalMode {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::OnRequest => "on-request",
            Self::Never => "never",
        }
    }
}

/// How long calls may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// `initialize`.
    pub initialize: Duration,
    /// `thread/start` and `thread/fork`.
    pub thread_start: Duration,
    /// `thread/resume`, which may have a long history to read.
    pub thread_resume: Duration,
    /// `turn/start`, `turn/steer` and the like.
    pub turn_start: Duration,
    /// `turn/interrupt`.
    pub interrupt: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            initialize: seconds(10),
            thread_start: seconds(15),
            thread_resume: seconds(90),
            turn_start: seconds(10),
            interrupt: seconds(5),
        }
    }
}

/// The options of one turn.
#[derive(Debug, Clone, Default)]
pub struct TurnOptions {
    /// How long it may work, without waits for people.
    pub work_limit: WorkLimit,
    /// How long it may be silent, without waits for people.
    pub idle_limit: Option<Duration>,
    /// Silence after a tool result that deserves a warning.
    pub quiet_after_tool: Option<Duration>,
    /// The program's id of this prompt, which Codex reports back. A random one if absent.
    pub client_id: Option<String>,
    /// Whether a prompt with this `client_id` may have been sent before a restart of the program. Then it is searched
    /// for before it is sent.
    pub may_have_been_sent: bool,
    /// The model from this turn on.
    pub model: Option<String>,
    /// The reasoning effort from this turn on.
    pub effort: Option<String>,
    /// A JSON schema for the final message.
    pub output_schema: Option<Value>,
    /// Interrupts the turn when cancelled, also before it has begun.
    pub cancel: Option<CancellationToken>,
    /// Receives the milliseconds of work so far, without waits for people, with every event.
    pub work_meter: Option<Arc<AtomicU64>>,
}

/// How long a turn may work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WorkLimit {
    /// 600 seconds; with an idle limit, no limit as long as the turn is active.
    #[default]
    Standard,
    /// This duration.
    After(Duration),
    /// No limit.
    Never,
}

impl TurnOptions {
    pub(crate) fn limits(&self) -> Result<Limits, Failure> {
        let work_limit = match (self.work_limit, self.idle_limit) {
            (WorkLimit::Standard, None) => Some(DEFAULT_WORK_LIMIT),
            (WorkLimit::Standard, Some(_)) | (WorkLimit::Never, _) => None,
            (WorkLimit::After(limit), _) => Some(limit),
        };
        if work_limit == Some(Duration::ZERO) || self.idle_limit == Some(Duration::ZERO) {
            let message =
                "a limit of zero stops every turn at once: use WorkLimit::Never or leave the limit out";
            return Err(Failure::new(FailureKind::Configuration, message));
        }
        Ok(Limits {
            work_ms: work_limit.map(millis),
            idle_ms: self.idle_limit.map(millis),
            quiet_after_tool_ms: self.quiet_after_tool.map(millis),
        })
    }
}

fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
