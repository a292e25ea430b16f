//! How a session and its turns are set up.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use codex_wire::call::{ThreadOpened, ThreadSettings};
use redact::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, FailureKind};
use crate::narration::SessionEvent;
use crate::policy::ApprovalPolicy;
use crate::turn::{Limits, Millis};

/// A turn may work this long unless told otherwise.
const DEFAULT_WORK_LIMIT: Duration = Duration::from_mins(10);

/// How a session is set up.
#[derive(Clone)]
pub struct SessionConfig {
    /// Where Codex works.
    pub cwd: PathBuf,
    /// What commands may touch; none leaves it to Codex's own config.
    pub sandbox: Option<Sandbox>,
    /// When Codex asks; none leaves it to Codex's own config.
    pub approval_mode: Option<ApprovalMode>,
    /// The model; none leaves it to Codex's own config.
    pub model: Option<String>,
    /// Instructions above the user's.
    pub developer_instructions: Option<String>,
    /// Overrides of Codex's config.toml for this thread.
    pub config: Map<String, Value>,
    /// Tools of the program that the model may call, in Codex's own shape.
    pub dynamic_tools: Vec<Value>,
    /// What is answered without asking.
    pub approvals: ApprovalPolicy,
    /// MCP servers of the program itself, shown without their prefix.
    pub own_mcp_servers: Vec<String>,
    /// How long calls may take.
    pub call_limits: CallLimits,
    /// Lines of stderr in an error.
    pub stderr_tail_lines: usize,
    /// Hides secrets in all that comes out.
    pub redactor: Redactor,
    /// A listener that must miss nothing, such as a store: the session waits for it.
    pub journal: Option<mpsc::Sender<SessionEvent>>,
}

impl SessionConfig {
    /// The safe defaults: read-only sandbox, every command asks, nothing is accepted unasked.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self {
            cwd: cwd.into(),
            sandbox: Some(Sandbox::ReadOnly),
            approval_mode: Some(ApprovalMode::Untrusted),
            model: None,
            developer_instructions: None,
            config: Map::new(),
            dynamic_tools: Vec::new(),
            approvals: ApprovalPolicy::default(),
            own_mcp_servers: Vec::new(),
            call_limits: CallLimits::default(),
            stderr_tail_lines: 12,
            redactor: Redactor::default(),
            journal: None,
        }
    }

    /// What is sent with the thread. The reviewer is always named: the user's config could otherwise turn on
    /// automatic review (codex 0.166).
    pub(crate) fn thread_settings(&self) -> ThreadSettings {
        ThreadSettings {
            cwd: Some(self.cwd.to_string_lossy().into_owned()),
            sandbox: self.sandbox.map(|sandbox| sandbox.as_str().to_owned()),
            approval_policy: self.approval_mode.map(|mode| mode.as_str().to_owned()),
            approvals_reviewer: Some("user".to_owned()),
            model: self.model.clone(),
            developer_instructions: self.developer_instructions.clone(),
            config: (!self.config.is_empty()).then(|| self.config.clone()),
        }
    }

    /// Whether Codex took the settings that keep the user safe.
    pub(crate) fn check_echo(&self, opened: &ThreadOpened) -> Result<(), Failure> {
        let nothing = || "nothing".to_owned();
        let sandbox = opened.sandbox.as_ref().and_then(|sandbox| sandbox["type"].as_str());
        if let Some(wanted) = self.sandbox.filter(|wanted| sandbox != Some(wanted.echo())) {
            let got = opened.sandbox.as_ref().map_or_else(nothing, ToString::to_string);
            return Err(not_taken("sandbox", wanted.as_str(), &got));
        }
        let policy = opened.approval_policy.as_ref();
        if let Some(wanted) =
            self.approval_mode.filter(|wanted| policy.and_then(Value::as_str) != Some(wanted.as_str()))
        {
            return Err(not_taken(
                "approval policy",
                wanted.as_str(),
                &policy.map_or_else(nothing, ToString::to_string),
            ));
        }
        let reviewer = opened.approvals_reviewer.as_deref().unwrap_or("nobody");
        if reviewer != "user" {
            return Err(not_taken("approvals reviewer", "user", reviewer));
        }
        let wanted = self.cwd.canonicalize().unwrap_or_else(|_| self.cwd.clone());
        let is_same = |cwd: &str| PathBuf::from(cwd).canonicalize().unwrap_or_else(|_| cwd.into()) == wanted;
        let cwd = opened.cwd.as_deref().unwrap_or("nothing");
        if is_same(cwd) { Ok(()) } else { Err(not_taken("directory", &wanted.to_string_lossy(), cwd)) }
    }
}

fn not_taken(what: &str, wanted: &str, got: &str) -> Failure {
    Failure::new(
        FailureKind::Startup,
        format!("codex did not take the {what}: asked for {wanted}, got {got}"),
    )
}

/// What commands may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    /// Read everything, write nothing.
    ReadOnly,
    /// Write below the working directory.
    WorkspaceWrite,
    /// No sandbox. For operators only.
    DangerFullAccess,
}

impl Sandbox {
    /// As it is sent with a thread.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }

    /// As Codex echoes it.
    fn echo(self) -> &'static str {
        match self {
            Self::ReadOnly => "readOnly",
            Self::WorkspaceWrite => "workspaceWrite",
            Self::DangerFullAccess => "dangerFullAccess",
        }
    }
}

/// When Codex asks before it acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    /// For every command.
    Untrusted,
    /// When the model wants out of the sandbox, or the command is dangerous.
    OnRequest,
    /// Never. For operators only.
    Never,
}

impl ApprovalMode {
    /// As it stands on the wire.
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

/// How one turn is run.
#[derive(Debug, Clone, Default)]
pub struct TurnOptions {
    /// How long it may work, not counting waits for people.
    pub work_limit: WorkLimit,
    /// How long it may be silent, not counting waits for people.
    pub idle_limit: Option<Duration>,
    /// Silence after a tool result that deserves a warning.
    pub quiet_after_tool: Option<Duration>,
    /// The program's own id of this prompt, shown again by Codex. Made up if absent.
    pub client_id: Option<String>,
    /// Set when a prompt with this `client_id` may have been sent by an earlier life of the program: it is looked
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
    /// Shows the milliseconds of work so far, not counting waits for people, whenever something is told.
    pub work_meter: Option<Arc<AtomicU64>>,
}

/// How long a turn may work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WorkLimit {
    /// 600 seconds; with an idle limit, as long as it is active.
    #[default]
    Standard,
    /// So long.
    After(Duration),
    /// As long as it takes.
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
