//! The `[channels]` and `[workspaces]` tables of the operator's file, and what becomes of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codex_bridge_core::inbox::{Allowed, Rules, WhenFull, WhileRunning};
use codex_session::{ApprovalMode, Sandbox};
use redact::Redactor;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Channel, hook, molecule, plugin, telegram};
use crate::config::File;
use crate::deliver::{Env, found, told_by_name};
use crate::failure::{Code, Failure};

/// One channel of the operator's file. Documented for people in `docs/channels.md`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Who may write: `ID`, or `ID:approver` for those who may decide on what Codex asks; `*` at the end of an ID stands
    /// for anything.
    pub allow: Vec<String>,
    /// Where Codex works unless a conversation chose another: a name of `[workspaces]`.
    pub workspace: Option<String>,
    /// A profile of the operator's, for sandbox, approvals, model and effort.
    pub profile: Option<String>,
    /// What commands may touch; read-only by default.
    pub sandbox: Option<Sandbox>,
    /// When Codex asks; on-request by default.
    pub approval_policy: Option<ApprovalMode>,
    /// The model.
    pub model: Option<String>,
    /// The reasoning effort.
    pub effort: Option<String>,
    /// `queue` or `steer`: what happens to a message while a turn runs.
    pub while_running: WhileRunning,
    /// How long a turn may work, not counting waits for people; 0 is without end. Ten minutes by default.
    pub turn_limit_s: Option<u64>,
    /// Messages that are older when they come in are not worked on.
    pub max_age_s: Option<u64>,
    /// How often a message is tried before it is given up.
    pub attempts: Option<u32>,
    /// What has passed this many bridges is not answered.
    pub max_hops: Option<u32>,
    /// At most so many messages of one agent are worked on in an hour.
    pub agent_turns_per_hour: Option<u32>,
    /// At most so many messages of agents are worked on one after the other in one conversation.
    pub agent_turns_in_a_row: Option<u32>,
    /// Whether it is served only when somebody runs it.
    pub manual: bool,
    /// A workspace of Molecule's.
    pub molecule: Option<molecule::Settings>,
    /// A program of the operator's.
    pub plugin: Option<plugin::Settings>,
    /// A bot of Telegram's.
    pub telegram: Option<telegram::Settings>,
    /// What arrives by POST to `/hooks/NAME`.
    pub webhook: Option<hook::Settings>,
}

/// A channel that can be served.
#[derive(Clone)]
pub struct Opened {
    /// The way to its platform.
    pub channel: Arc<dyn Channel>,
    /// What the operator decides about it.
    pub rules: Rules,
    /// What tells its platform's settings from others, secrets included, and gives none of them away.
    pub mark: Mark,
    /// Whether it works where whoever ran it was, for want of a workspace.
    pub works_here: bool,
}

/// The same for the same settings of a platform.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark([u8; 32]);

/// What is known where a channel is opened.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The operator's file.
    pub file: &'a File,
    /// How variables are looked up.
    pub env: Env<'a>,
    /// Where whoever runs it is: the workspace if none is registered.
    pub cwd: Option<&'a PathBuf>,
    /// What hides every secret that is known here, those that become known later too.
    pub redactor: &'a Redactor,
}

impl Settings {
    /// A channel as configured, or what has to be put right. Nothing is reached yet.
    pub fn open(&self, name: &str, around: Surroundings<'_>) -> Result<Opened, Failure> {
        let read = RefCell::new(BTreeMap::new());
        let env = |variable: &str| {
            let value = (around.env)(variable);
            read.borrow_mut().insert(variable.to_owned(), value.clone());
            value
        };
        let (channel, rules) = self.open_with(name, Surroundings { env: &env, ..around })?;
        let works_here = around.file.workspaces.is_empty();
        Ok(Opened { channel, rules, mark: self.mark(&read.borrow()), works_here })
    }

    /// Of the settings of its platform, and of what was read from the environment for them.
    fn mark(&self, read: &BTreeMap<String, Option<String>>) -> Mark {
        let secrets = secrets_of(self, &|name| read.get(name).cloned().flatten());
        let platforms = (&self.molecule, &self.plugin, &self.telegram, &self.webhook);
        Mark(Sha256::digest(format!("{platforms:?} {secrets:?} {read:?}")).into())
    }

    fn open_with(&self, name: &str, around: Surroundings<'_>) -> Result<(Arc<dyn Channel>, Rules), Failure> {
        let wrong = |what: String| {
            Failure::new(Code::ChannelConfig, format!("channel {name}: {what}"))
                .hint("docs/channels.md lists what it needs")
        };
        if TAKEN.contains(&name) {
            return Err(wrong("that name is taken: targets begin with it. Choose another".to_owned()));
        }
        let (channel, defaults): (Arc<dyn Channel>, &[&str]) = match self.platform(name) {
            "molecule" => {
                let settings = self.molecule.clone().unwrap_or_default();
                let channel =
                    molecule::Molecule::new(name, &settings, &self.allow, around.env).map_err(wrong)?;
                (Arc::new(channel), &molecule::ALLOWED)
            }
            "plugin" => {
                let settings =
                    self.plugin.as_ref().ok_or_else(|| wrong("it has no [plugin] table".to_owned()))?;
                let channel = plugin::Plugin::new(name, settings, around.env, around.redactor);
                (Arc::new(channel.map_err(wrong)?), &[])
            }
            "webhook" if !self.allow.is_empty() => {
                return Err(wrong("whoever has its secret may write, so it takes no `allow`".to_owned()));
            }
            "webhook" => {
                let settings = self.webhook.clone().unwrap_or_default();
                (Arc::new(hook::Hook::new(name, &settings, around.env).map_err(wrong)?), &hook::ALLOWED)
            }
            "telegram" => {
                let settings = self.telegram.clone().unwrap_or_default();
                let channel =
                    telegram::Telegram::new(name, &settings, &self.allow, around.env).map_err(wrong)?;
                (Arc::new(channel), &[])
            }
            other => {
                return Err(wrong(format!("there is no platform {other}"))
                    .hint(format!("it can be one of {}", PLATFORMS.join(", "))));
            }
        };
        let rules = self.rules(name, defaults, around).map_err(wrong)?;
        let when_full = match self.platform(name) {
            "plugin" | "webhook" => WhenFull::PutOff,
            _ => WhenFull::ReadLater,
        };
        let rules = Rules { acknowledges: channel.has_watermark(), when_full, ..rules };
        Ok((channel, rules))
    }

    /// The platform: the one that is configured, else the one that it is called after.
    pub fn platform<'a>(&self, name: &'a str) -> &'a str {
        let set = [
            ("molecule", self.molecule.is_some()),
            ("plugin", self.plugin.is_some()),
            ("telegram", self.telegram.is_some()),
            ("webhook", self.webhook.is_some()),
        ];
        set.into_iter().find(|(_, is_set)| *is_set).map_or(name, |(platform, _)| platform)
    }

    fn rules(&self, name: &str, allowed: &[&str], around: Surroundings<'_>) -> Result<Rules, String> {
        let given = self.allow.iter().map(String::as_str);
        let allow: Vec<&str> = if self.allow.is_empty() { allowed.to_vec() } else { given.collect() };
        let allow = allow.into_iter().map(Allowed::parse).collect::<Result<Vec<_>, _>>()?;
        if self.platform(name) == "molecule" {
            allow.iter().try_for_each(molecule::check_allowed)?;
        }
        if allow.is_empty() {
            return Err("nobody may write: set `allow`".to_owned());
        }
        let mut workspaces: BTreeMap<String, PathBuf> = around.file.workspaces.clone();
        if workspaces.is_empty() {
            let cwd = around.cwd.cloned().ok_or("no workspace is registered: set [workspaces]")?;
            workspaces.insert("here".to_owned(), cwd);
        }
        if let Some(workspace) = self.workspace.as_ref().filter(|name| !workspaces.contains_key(*name)) {
            return Err(format!("workspace {workspace} is not in [workspaces]"));
        }
        let profile = match &self.profile {
            Some(profile) => {
                around.file.profiles.get(profile).ok_or(format!("there is no profile {profile}"))?.clone()
            }
            None => codex_bridge_core::desk::Profile::default(),
        };
        let rules = Rules::new(name, allow, workspaces);
        let turn_limit = self.turn_limit_s.map_or(rules.turn_limit, |seconds| {
            Some(seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs)
        });
        Ok(Rules {
            workspace: self.workspace.clone().unwrap_or_else(|| rules.workspace.clone()),
            sandbox: self.sandbox.or(profile.sandbox).unwrap_or(rules.sandbox),
            approval_policy: self
                .approval_policy
                .or(profile.approval_policy)
                .unwrap_or(rules.approval_policy),
            network: profile.network,
            writable_roots: profile.writable_roots,
            escalations: profile.escalations,
            model: self.model.clone().or(profile.model),
            effort: self.effort.clone().or(profile.effort),
            while_running: self.while_running,
            turn_limit,
            max_age: self.max_age_s.map(Duration::from_secs),
            attempts: self.attempts.unwrap_or(rules.attempts).max(1),
            max_hops: self.max_hops.unwrap_or(rules.max_hops),
            agent_turns_per_hour: self.agent_turns_per_hour.unwrap_or(rules.agent_turns_per_hour),
            agent_turns_in_a_row: self.agent_turns_in_a_row.unwrap_or(rules.agent_turns_in_a_row),
            ..rules
        })
    }
}

/// Where platforms put their tokens by default.
const TOKEN_VARIABLES: [&str; 2] = ["MOLECULE_WORKSPACE_TOKEN", "TELEGRAM_BOT_TOKEN"];

/// All secrets of channels, to be hidden wherever they show up.
pub fn secrets(file: &File, env: Env<'_>) -> Vec<String> {
    let configured = file.channels.values().flat_map(|channel| secrets_of(channel, env));
    configured.chain(TOKEN_VARIABLES.into_iter().filter_map(env)).collect()
}

/// Those of one channel.
fn secrets_of(channel: &Settings, env: Env<'_>) -> Vec<String> {
    let of_plugin = channel.plugin.iter().flat_map(|one| {
        let passed = one.pass.iter().filter_map(|name| env(name));
        let told = told_by_name(&json!([one.config, one.argv]));
        one.env.values().map(|secret| secret.reveal().to_owned()).chain(passed).chain(told)
    });
    let of_molecule = channel.molecule.iter().map(|one| (&one.token, &one.token_env));
    let pairs = of_molecule
        .chain(channel.telegram.iter().map(|one| (&one.token, &one.token_env)))
        .chain(channel.webhook.iter().map(|one| (&one.secret, &one.secret_env)));
    let configured =
        pairs.filter_map(|(direct, variable)| found(direct.as_ref(), variable.as_deref(), env).ok()?);
    configured.chain(of_plugin).collect()
}

/// The platforms that there are.
pub const PLATFORMS: [&str; 4] = ["molecule", "plugin", "telegram", "webhook"];
/// Names that mean something else where a target is named.
const TAKEN: [&str; 6] = ["exec", "feishu", "feishu-bot", "local", "plugin", "webhook"];
