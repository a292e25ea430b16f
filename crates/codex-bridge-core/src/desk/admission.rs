//! What a caller may ask for: the same limits at every door.
//!
//! Turns a [`Start`] into settings, or refuses it. No caller can widen a limit; only the operator's configuration can.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use codex_session::{ApprovalMode, Escalations, Sandbox};
use redact::Redactor;
use rustix::process::geteuid;

use super::calls::{Door, Start};
use crate::bridge::{Author, NewTask};
use crate::config::{Config, Profile};
use crate::place::{Overlap, Place, ProtectedDirs};
use crate::refusal::{Refusal, Rule};
use crate::task::{AuthorKind, EscalationRule, Limits, Settings};
use crate::trust::Trust;
use codex_wire::reason;

/// The limit for a caller's instructions.
const INSTRUCTIONS_MAX_BYTES: usize = 64 * 1024;

/// The operator's rules for what callers may ask for.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The directories in which tasks of agents and remote callers may work. Without them, agents work below the user's
    /// home and where they run; remote callers nowhere.
    pub roots: Option<Vec<PathBuf>>,
    /// The operator's named settings.
    pub profiles: BTreeMap<String, Profile>,
    /// CODEX_HOMEs that callers may name.
    pub other_homes: Vec<PathBuf>,
    /// The CODEX_HOME of tasks; `None` means Codex's default.
    pub codex_home: Option<PathBuf>,
    /// Directories in which no task may write and no remote task may work.
    pub protected: ProtectedDirs,
}

impl Rules {
    /// The rules of this configuration.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            roots: config.roots.clone(),
            profiles: config.profiles.clone(),
            other_homes: config.other_homes.clone(),
            codex_home: config.codex_home.clone(),
            protected: config.protected.clone(),
        }
    }

    /// The new task that this caller may hand over, or why not.
    pub fn admit(&self, start: Start, by: impl Into<Author>) -> Result<NewTask, Refusal> {
        let profile = self.profile(start.profile.as_deref(), start.door)?;
        let cwd = self.directory(&start)?;
        let sandbox = sandbox(start.sandbox.as_deref())?.or(profile.sandbox).unwrap_or(Sandbox::ReadOnly);
        let (sandbox, narrowed) = self.sandbox_for(&cwd, sandbox, start.door)?;
        let settings =
            Settings {
                sandbox,
                narrowed,
                trust_of_turn: None,
                network: profile.network,
                writable_roots: profile.writable_roots,
                trust: default_trust(&cwd, start.door),
                place: Some(Place::of(&cwd).map_err(|error| {
                    Refusal::new(Rule::BadCwd, error.to_string(), "name another directory")
                })?),
                cwd,
                approval_policy: approval_policy(start.approval_policy.as_deref())?
                    .or(profile.approval_policy)
                    .unwrap_or(ApprovalMode::Untrusted),
                model: non_empty(start.model.as_deref()).map(str::to_owned).or(profile.model),
                effort: non_empty(start.effort.as_deref()).map(str::to_owned).or(profile.effort),
                codex_home: self.home(start.codex_home.as_deref())?,
                developer_instructions: instructions(start.developer_instructions)?,
                escalations: EscalationRule {
                    of_profile: profile.escalations,
                    of_origin: default_escalations(start.door),
                },
                turn_given_by: AuthorKind::default(),
            };
        Ok(NewTask {
            prompt: start.prompt,
            settings,
            limits: Limits {
                turns: start.limits.turns,
                work_ms: start.limits.work_s.map(|seconds| seconds.saturating_mul(1000)),
                tokens: start.limits.tokens,
            },
            client_request_id: start.client_request_id.filter(|id| !id.trim().is_empty()),
            notify_target: non_empty(start.notify_target.as_deref()).map(str::to_owned),
            by: by.into(),
        })
    }

    /// The sandbox that is allowed in a directory, and why it is less than was asked for.
    fn sandbox_for(
        &self,
        cwd: &Path,
        wanted: Sandbox,
        door: Door,
    ) -> Result<(Sandbox, Option<String>), Refusal> {
        if door != Door::Cli && wanted != Sandbox::ReadOnly {
            self.check_hidden(cwd)?;
        }
        let Some(overlap) = self.protected.overlap(cwd) else { return Ok((wanted, None)) };
        let refused = |what: &str| {
            let message = format!("{what} in {}: {overlap}", cwd.display());
            Refusal::new(Rule::CwdProtected, message, "choose a directory of the project")
        };
        match (&overlap, door, wanted) {
            (Overlap::Inside(_), ..) => Err(refused("no task may work")),
            (Overlap::AmongTools(_), _, Sandbox::ReadOnly) => Ok((wanted, None)),
            (_, Door::Remote, _) => Err(refused("no task of a remote caller may work")),
            (_, _, Sandbox::ReadOnly) => Ok((wanted, None)),
            (_, Door::Cli, _) => {
                let why = format!("read-only, because tasks may not write in {}: {overlap}", cwd.display());
                Ok((Sandbox::ReadOnly, Some(why)))
            }
            (_, Door::Agent, _) => Err(refused("no task may write")),
        }
    }

    /// Refuses writes in hidden directories of the user's home, such as `.ssh` and `.config`: their files control what
    /// runs under the user's name. Only a person at the terminal may have tasks write there, and callers for whom the
    /// operator lists the directory in `roots`.
    fn check_hidden(&self, cwd: &Path) -> Result<(), Refusal> {
        let home = self.protected.user_home.as_ref().and_then(|home| home.canonicalize().ok());
        let is_hidden = |dir: &Path| {
            let below = home.as_ref().and_then(|home| dir.strip_prefix(home).ok());
            below
                .and_then(|below| below.components().next())
                .is_some_and(|first| first.as_os_str().as_encoded_bytes().starts_with(b"."))
        };
        let roots = self.roots.iter().flatten().filter_map(|root| root.canonicalize().ok());
        if !is_hidden(cwd) || roots.into_iter().any(|root| is_hidden(&root) && cwd.starts_with(root)) {
            return Ok(());
        }
        let message = format!(
            "no task of an agent or a remote caller may write in {}: it is a hidden directory of the user's home",
            cwd.display()
        );
        let hint = "choose a directory of the project, or have the operator name this one in `roots`";
        Err(Refusal::new(Rule::CwdProtected, message, hint))
    }

    /// Whether a caller other than the owner may continue a task in its directory, as if starting it there.
    pub fn admit_place_again(&self, settings: &Settings, door: Door) -> Result<(), Refusal> {
        self.sandbox_for(&settings.cwd, settings.sandbox, door).map(drop)
    }

    /// Whether an agent or a remote caller could have started a task with these settings, and so may continue it.
    pub fn admit_again(&self, settings: &Settings, door: Door) -> Result<(), Refusal> {
        match (&self.roots, door) {
            (Some(_), _) => self.check_roots(&settings.cwd, None)?,
            (None, Door::Remote) => return Err(no_roots()),
            // Without roots an agent also works where it runs, which is not checked again.
            (None, _) => {}
        }
        let is_confined = settings.sandbox != Sandbox::DangerFullAccess;
        let asks = settings.approval_policy != ApprovalMode::Never;
        let is_closed = !settings.network && settings.writable_roots.is_empty();
        let gives = |profile: &Profile| {
            (is_confined || profile.sandbox == Some(settings.sandbox))
                && (asks || profile.approval_policy == Some(settings.approval_policy))
                && (!settings.network || profile.network)
                && settings.writable_roots.iter().all(|root| profile.writable_roots.contains(root))
        };
        let mut for_agents = self.profiles.values().filter(|profile| profile.agents);
        if (is_confined && asks && is_closed) || for_agents.any(gives) {
            return Ok(());
        }
        let message = "this task may do more than its callers can ask for";
        let hint = "an approver can continue it, or its owner on the machine itself";
        Err(Refusal::new(Rule::BeyondReach, message, hint))
    }

    fn profile(&self, name: Option<&str>, door: Door) -> Result<Profile, Refusal> {
        let Some(name) = non_empty(name) else { return Ok(Profile::default()) };
        let unknown = || {
            let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
            let hint = match known.as_slice() {
                [] => "the configuration file defines none".to_owned(),
                known => format!("the configuration file defines {}", known.join(", ")),
            };
            Refusal::new(Rule::UnknownProfile, format!("unknown profile {name:?}"), hint)
        };
        let profile = self.profiles.get(name).ok_or_else(unknown)?;
        if door != Door::Cli && !profile.agents {
            let hint = "the operator allows it with `agents = true` in that profile";
            let message = format!("profile {name:?} is not for agents");
            return Err(Refusal::new(Rule::ProfileRefused, message, hint));
        }
        Ok(profile.clone())
    }

    /// The real path of the directory to work in.
    fn directory(&self, start: &Start) -> Result<PathBuf, Refusal> {
        let named = start.cwd.clone().filter(|cwd| !cwd.as_os_str().is_empty());
        if start.door == Door::Remote {
            return self.remote_directory(named);
        }
        let caller = start.caller_cwd.clone().filter(|cwd| cwd.is_absolute());
        let wanted = match (named, &caller) {
            (Some(cwd), _) if cwd.is_absolute() => cwd,
            (Some(cwd), Some(caller)) => caller.join(cwd),
            (None, Some(caller)) => caller.clone(),
            (Some(cwd), None) => return Err(not_whole(&cwd)),
            (None, None) => return Err(not_named()),
        };
        let real = real_directory(&wanted)?;
        if start.door == Door::Agent {
            self.check_roots(&real, caller.as_deref())?;
        }
        Ok(real)
    }

    /// The directory of a remote caller, who must name one below the operator's roots. Any other path is refused before
    /// it is looked at, so that callers cannot find out which directories exist.
    fn remote_directory(&self, named: Option<PathBuf>) -> Result<PathBuf, Refusal> {
        let wanted = named.ok_or_else(not_named)?;
        if !wanted.is_absolute() {
            return Err(not_whole(&wanted));
        }
        let roots = self.roots.as_ref().ok_or_else(no_roots)?;
        let climbs = wanted.components().any(|part| part == Component::ParentDir);
        if climbs || !roots.iter().any(|root| wanted.starts_with(root)) {
            return Err(outside(&wanted, roots));
        }
        let real = real_directory(&wanted)?;
        self.check_roots(&real, None)?;
        Ok(real)
    }

    /// Checks that a directory is below the roots; by default, below the user's home or where the agent runs.
    fn check_roots(&self, cwd: &Path, caller: Option<&Path>) -> Result<(), Refusal> {
        let roots: Vec<PathBuf> = match &self.roots {
            Some(roots) => roots.clone(),
            None => self
                .protected
                .user_home
                .iter()
                .map(PathBuf::as_path)
                .chain(caller)
                .map(Path::to_path_buf)
                .collect(),
        };
        let is_below = |root: &PathBuf| root.canonicalize().is_ok_and(|root| cwd.starts_with(root));
        if roots.iter().any(is_below) {
            return Ok(());
        }
        Err(outside(cwd, &roots))
    }

    /// A CODEX_HOME that a caller names must be the daemon's own or listed by the operator.
    fn home(&self, wanted: Option<&Path>) -> Result<Option<PathBuf>, Refusal> {
        let Some(wanted) = wanted.filter(|home| !home.as_os_str().is_empty()) else { return Ok(None) };
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if self.codex_home.as_deref().is_some_and(|home| real(home) == real(wanted)) {
            return Ok(None);
        }
        let listed = self.other_homes.iter().find(|home| real(home) == real(wanted));
        listed.cloned().map(Some).ok_or_else(|| {
            let message = format!("codex_home {} is not one of the operator's", wanted.display());
            let hint = "the operator lists it as `other_homes` in the configuration file";
            Refusal::new(Rule::HomeNotListed, message, hint)
        })
    }
}

/// What happens to requests to leave the sandbox where the operator has no rule. A person at the command line can judge
/// them. What others hand over may have come from anyone.
fn default_escalations(door: Door) -> Escalations {
    match door {
        Door::Cli => Escalations::Ask,
        Door::Agent | Door::Remote => Escalations::Decline,
    }
}

/// The trust level where the operator has set none. A person trusts the instructions in their own directory.
pub fn default_trust(cwd: &Path, door: Door) -> Trust {
    let is_theirs = || cwd.metadata().is_ok_and(|found| found.uid() == geteuid().as_raw());
    if door == Door::Cli && is_theirs() { Trust::Instructions } else { Trust::Hostile }
}

fn not_named() -> Refusal {
    Refusal::new(Rule::BadCwd, "no cwd was given", "say where Codex should work")
}

fn no_roots() -> Refusal {
    let message = "no directories are set in which tasks of remote callers may work";
    Refusal::new(Rule::NoRoots, message, "the operator sets `roots` in the configuration file")
}

fn not_whole(cwd: &Path) -> Refusal {
    let message = format!("cwd {} is not an absolute path", cwd.display());
    Refusal::new(Rule::BadCwd, message, "give an absolute path, such as /home/me/work")
}

fn outside(cwd: &Path, roots: &[PathBuf]) -> Refusal {
    let list: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
    let message = format!("cwd {} lies outside the directories that agents may work in", cwd.display());
    let hint = format!("they are {}; the operator sets them as `roots`", list.join(", "));
    Refusal::new(Rule::CwdOutsideRoots, message, hint)
}

fn real_directory(wanted: &Path) -> Result<PathBuf, Refusal> {
    let missing = |what: String| Refusal::new(Rule::BadCwd, what, "create it first, or name another");
    let real = wanted
        .canonicalize()
        .map_err(|error| missing(format!("cwd {}: {}", wanted.display(), reason(&error))))?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(missing(format!("cwd {} is not a directory", wanted.display())))
    }
}

/// Checks a caller's instructions. They are stored in plain text, so they may not contain a secret.
fn instructions(text: Option<String>) -> Result<Option<String>, Refusal> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let refused = |message: String| {
        Refusal::new(Rule::InstructionsRefused, message, "put it into the prompt, or a file in cwd")
    };
    if text.len() > INSTRUCTIONS_MAX_BYTES {
        return Err(refused(format!(
            "developer instructions have {} bytes, and may have {INSTRUCTIONS_MAX_BYTES}",
            text.len()
        )));
    }
    let (_, secrets) = Redactor::default().count_and_redact(&text);
    if secrets > 0 {
        return Err(refused(
            "developer instructions are stored in plain text, and these contain a secret".to_owned(),
        ));
    }
    Ok(Some(text))
}

/// A text that is not empty. An empty one means the default.
pub fn non_empty(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

fn sandbox(name: Option<&str>) -> Result<Option<Sandbox>, Refusal> {
    match non_empty(name) {
        None => Ok(None),
        Some("read-only") => Ok(Some(Sandbox::ReadOnly)),
        Some("workspace-write") => Ok(Some(Sandbox::WorkspaceWrite)),
        Some("danger-full-access") => {
            let hint =
                "use read-only or workspace-write; only a profile of the configuration file can go beyond";
            Err(Refusal::new(Rule::SandboxRefused, "sandbox danger-full-access is refused", hint))
        }
        Some(other) => {
            let message = format!("unknown sandbox {other:?}");
            Err(Refusal::new(Rule::UnknownSandbox, message, "use read-only or workspace-write"))
        }
    }
}

fn approval_policy(name: Option<&str>) -> Result<Option<ApprovalMode>, Refusal> {
    match non_empty(name) {
        None => Ok(None),
        Some("untrusted") => Ok(Some(ApprovalMode::Untrusted)),
        Some("on-request") => Ok(Some(ApprovalMode::OnRequest)),
        Some("never") => {
            let hint = "use untrusted or on-request; only a profile of the configuration file can go beyond";
            Err(Refusal::new(Rule::ApprovalPolicyRefused, "approval policy never is refused", hint))
        }
        Some(other) => {
            let message = format!("unknown approval policy {other:?}");
            Err(Refusal::new(Rule::UnknownApprovalPolicy, message, "use untrusted or on-request"))
        }
    }
}

#[cfg(test)]
mod tests;
