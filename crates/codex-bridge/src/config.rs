//! The operator's configuration file. A missing file counts as an empty one. An error in the file stops the daemon, with one
//! sentence that names the line.
//!
//! Only this file has the operator's own decisions: the codex, its homes and environment, the directories that agents may
//! work in, and profiles with more rights than a caller can ask for.

mod checked;
pub mod edit;
pub mod hosts;
pub mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use codex_bridge_core::config::{OnHostLoss, PROMPT_LIMIT_BYTES, Profile};
use codex_bridge_core::trust::Trust;
use codex_session::Escalations;
use redact::Redactor;
use serde::Deserialize;
use toml::de::{DeTable, Deserializer};

use crate::channel::settings::{self, ConfigError, Context, Settings};
use crate::channel::{self, notify_section};
use crate::failure::{Code, Failure};
use crate::paths::{Paths, cannot};

/// The parsed file. Documented for people in `docs/daemon.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// The codex to run: a path, or a name on the PATH.
    pub codex_bin: Option<PathBuf>,
    /// The CODEX_HOME of tasks; by default the daemon's own CODEX_HOME, else Codex's default.
    #[serde(deserialize_with = "checked::path")]
    pub codex_home: Option<PathBuf>,
    /// Other homes that callers may name.
    #[serde(deserialize_with = "codex_bridge_core::place::absolute_paths")]
    pub other_homes: Vec<PathBuf>,
    /// Where hosts run.
    pub hosts: hosts::Hosts,
    /// The directories that agents may work in; by default the user's home and the agent's own directory.
    #[serde(deserialize_with = "checked::some_paths")]
    pub roots: Option<Vec<PathBuf>>,
    /// The trust level of directories; docs/daemon.md explains the levels.
    pub trust: BTreeMap<PathBuf, Trust>,
    /// The limit of tasks that run at once.
    #[serde(deserialize_with = "checked::at_least_one")]
    pub max_running: usize,
    /// The longest prompt.
    #[serde(deserialize_with = "checked::prompt_limit")]
    pub prompt_limit_bytes: usize,
    /// What happens to a task whose host died.
    pub on_host_loss: OnHostLoss,
    /// Instructions for every thread, instead of our own.
    pub developer_instructions: Option<String>,
    /// Further instructions for every thread.
    pub extra_instructions: Option<String>,
    /// Environment variables for Codex and its commands, besides the built-in list.
    pub env: Env,
    /// Approves every command that stays in its sandbox.
    pub accept_commands: bool,
    /// Approves every file change that stays in the task's directory.
    pub accept_file_changes: bool,
    /// What happens to requests to leave the sandbox. By default, tasks of people at the command line ask, and all others
    /// decline.
    pub escalations: Option<Escalations>,
    /// MCP servers whose tool calls are approved.
    pub trusted_mcp_servers: Vec<String>,
    /// No longer supported: it let people approve a command for good. `false` is still accepted.
    #[serde(deserialize_with = "checked::permanent_rules")]
    pub allow_permanent_rules: (),
    /// When an unanswered request is declined. Without it, requests wait.
    pub answer_limit_s: Option<u64>,
    /// How long finished tasks are kept.
    pub keep_days: u64,
    /// How many events of a task are kept.
    pub keep_events: u32,
    /// Whether our MCP server may be used by a Codex that we run.
    pub allow_nested_mcp: bool,
    /// What is logged, and how.
    pub log: crate::log::Settings,
    /// The TCP listener for callers with a token.
    pub http: Http,
    /// The directories that chats may work in, by name.
    #[serde(deserialize_with = "checked::named_paths")]
    pub workspaces: BTreeMap<String, PathBuf>,
    /// The channels: notifications, and work by chat.
    #[serde(skip)]
    pub channels: BTreeMap<String, Settings>,
    /// The channels of the old section `[notify]`, by target.
    #[serde(skip)]
    pub notify: BTreeMap<String, Settings>,
    /// Named sets of settings.
    pub profiles: BTreeMap<String, Profile>,
}

impl Default for File {
    fn default() -> Self {
        Self {
            codex_bin: None,
            codex_home: None,
            other_homes: Vec::new(),
            hosts: hosts::Hosts::default(),
            roots: None,
            trust: BTreeMap::new(),
            max_running: 8,
            prompt_limit_bytes: PROMPT_LIMIT_BYTES,
            on_host_loss: OnHostLoss::default(),
            developer_instructions: None,
            extra_instructions: None,
            env: Env::default(),
            accept_commands: false,
            accept_file_changes: false,
            escalations: None,
            trusted_mcp_servers: Vec::new(),
            allow_permanent_rules: (),
            answer_limit_s: None,
            keep_days: 30,
            keep_events: 10_000,
            allow_nested_mcp: false,
            log: crate::log::Settings::default(),
            http: Http::default(),
            workspaces: BTreeMap::new(),
            channels: BTreeMap::new(),
            notify: BTreeMap::new(),
            profiles: BTreeMap::new(),
        }
    }
}

/// Additions to Codex's environment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Env {
    /// Variables to copy from the daemon's own environment.
    #[serde(deserialize_with = "checked::variables")]
    pub pass: BTreeSet<String>,
    /// Variables to set.
    pub set: BTreeMap<String, String>,
}

/// The TCP listener. Closed unless an address is set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// The address, such as `127.0.0.1:7777`. Other than loopback only with `behind_proxy`.
    pub listen: Option<SocketAddr>,
    /// Whether a proxy with TLS is in front.
    pub behind_proxy: bool,
    /// The host names of the proxy, with a port or for any port.
    pub allowed_hosts: Vec<String>,
}

/// Reads the file. A file that was named by flag or variable must exist.
pub fn load(paths: &Paths) -> Result<File, Failure> {
    parse(&read(paths)?, &paths.config_file)
}

fn read(paths: &Paths) -> Result<String, Failure> {
    let file = &paths.config_file;
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound && !paths.is_config_named => Ok(String::new()),
        Err(error) => {
            let failure = cannot("read", file, &error);
            Err(Failure::new(Code::Config, failure.message).hint("check --config and CODEX_BRIDGE_CONFIG"))
        }
    }
}

fn parse(text: &str, file: &Path) -> Result<File, Failure> {
    let failure = |error: ConfigError| config_failure(text, file, error);
    let mut table = DeTable::parse(text).map_err(|error| failure(error.into()))?;
    // The keys of a channel depend on its `type`, so these two are read separately.
    let [channels, notify] = ["channels", "notify"].map(|key| table.get_mut().remove(key));
    let mut parsed = File::deserialize(Deserializer::from(table)).map_err(|error| failure(error.into()))?;
    parsed.channels = channels.map(settings::read).transpose().map_err(failure)?.unwrap_or_default();
    parsed.notify = notify.map(notify_section::read).transpose().map_err(failure)?.unwrap_or_default();
    if let Some((key, what)) = notify_section::find_duplicate(&parsed.notify, &parsed.channels) {
        return Err(at(text, file, offset_of(text, &key), &key, &what));
    }
    trust::check(text, file)?;
    hosts::check(&parsed).map_err(|(key, what)| at(text, file, offset_of(text, key), key, &what))?;
    Ok(parsed)
}

/// The position of a top-level key or a table header; 0 if it is written in an unusual way.
fn offset_of(text: &str, key: &str) -> usize {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let rest = line.trim_start().strip_prefix(key);
        if rest.is_some_and(|rest| !rest.starts_with(|char: char| char.is_alphanumeric() || char == '_')) {
            return offset;
        }
        offset += line.len();
    }
    0
}

/// The failure for an error, with the line and the key.
fn config_failure(text: &str, file: &Path, error: impl Into<ConfigError>) -> Failure {
    let ConfigError { span, message } = error.into();
    let offset = span.map_or(0, |span| span.start.min(text.len()));
    let key = text.lines().nth(line_of(text, offset) - 1).unwrap_or_default();
    // A path is in quotes and may contain any character.
    let key = match key.trim_start().strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => key.split('=').next().unwrap_or_default().trim(),
    };
    at(text, file, offset, key, &message)
}

/// The failure for an error at this position, with the line and the key.
fn at(text: &str, file: &Path, offset: usize, key: &str, message: &str) -> Failure {
    let line = line_of(text, offset);
    let key = if key.is_empty() { String::new() } else { format!(", {key:?}") };
    Failure::new(Code::Config, format!("{}, line {line}{key}: {message}", file.display()))
        .hint("correct the line; docs/daemon.md lists every key")
}

fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or_default().matches('\n').count() + 1
}

impl File {
    /// How to rewrite old spellings in the file, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        notify_section::hints(&self.notify, &self.channels)
    }

    /// The secrets of all channels, for the redactor.
    pub fn secrets(&self, env: channel::Env<'_>) -> Vec<String> {
        settings::secrets(self.channels.values().chain(self.notify.values()), env)
    }

    /// The settings that opening a channel needs. `cwd` is the directory of the caller who runs a channel.
    pub fn channel_context<'a>(
        &'a self,
        env: channel::Env<'a>,
        cwd: Option<&'a PathBuf>,
        redactor: &'a Redactor,
    ) -> Context<'a> {
        Context { workspaces: &self.workspaces, profiles: &self.profiles, env, cwd, redactor }
    }

    /// The operator's decisions about directories, by their real paths.
    pub fn trusted_roots(&self) -> BTreeMap<PathBuf, Trust> {
        self.trust.iter().map(|(path, level)| (trust::real_path(path), *level)).collect()
    }
}

#[cfg(test)]
mod tests {
    use codex_session::{ApprovalMode, Sandbox};

    use super::*;

    fn message(text: &str) -> String {
        parse(text, Path::new("/etc/config.toml")).unwrap_err().message
    }

    #[test]
    fn an_empty_file_has_the_defaults() {
        let file = parse("", Path::new("c")).unwrap();
        assert_eq!((file.max_running, file.keep_days, file.keep_events), (8, 30, 10_000));
        assert_eq!(file.on_host_loss, OnHostLoss::Ask);
        assert!(!file.accept_commands && !file.accept_file_changes);
    }

    #[test]
    fn the_first_configuration_is_still_read_and_means_the_same() {
        let file = parse(include_str!("../tests/data/config-1.toml"), Path::new("c")).unwrap();
        assert_eq!((file.max_running, file.keep_days, file.answer_limit_s), (4, 14, Some(3600)));
        assert_eq!(file.roots, Some(vec!["/home/me/work".into()]));
        assert_eq!(file.profiles["container"].approval_policy, Some(ApprovalMode::Never));
        assert!(file.accept_file_changes && !file.accept_commands && file.allow_nested_mcp);
        assert_eq!(file.channels.keys().collect::<Vec<_>>(), ["ci", "echo", "telegram", "work"]);
    }

    #[test]
    fn a_mistake_is_named_with_its_line_and_key() {
        let unknown = message("max_running = 2\n\nmax_runing = 3\n");
        assert!(unknown.starts_with("/etc/config.toml, line 3, \"max_runing\": unknown field"), "{unknown}");
        let kind = message("keep_days = \"long\"\n");
        assert!(kind.starts_with("/etc/config.toml, line 1, \"keep_days\": invalid type"), "{kind}");
        assert!(kind.ends_with("expected a whole number"), "{kind}");
        let value = message("[profiles.x]\nsandbox = \"open\"\n");
        assert!(value.contains("line 2") && value.contains("open"), "{value}");
        for (file, line) in [("escalations = \"maybe\"\n", 1), ("[profiles.x]\nescalations = \"maybe\"\n", 2)]
        {
            let place = format!("/etc/config.toml, line {line}, \"escalations\": unknown variant `maybe`");
            let value = message(file);
            assert!(value.starts_with(&place) && value.contains("`ask` or `decline`"), "{value}");
        }
    }

    #[test]
    fn a_channel_has_a_type_and_its_mistakes_are_named_where_they_stand() {
        let head = "[channels.ci]\ntype = \"webhook\"\n";
        assert_eq!(parse(&format!("{head}url = \"http://x\"\n"), Path::new("c")).unwrap().hints(), [""; 0]);
        for (text, wanted) in [
            (format!("{head}colour = 1\n"), "line 3, \"colour\": unknown field `colour`"),
            (format!("{head}url = 7\n"), "line 3, \"url\": must be text in quotes"),
            (format!("{head}attempts = \"x\"\n"), "line 3, \"attempts\": invalid type"),
            (
                "[channels.x]\ntype = \"pigeon\"\n".to_owned(),
                "line 2, \"type\": unknown type; use one of discord, exec, feishu, feishu-bot, hook, molecule, plugin, slack, telegram, webhook",
            ),
            (
                "[channels.x]\nurl = \"u\"\n".to_owned(),
                "line 2, \"url\": unknown key; the channel needs a `type`",
            ),
            ("channels = 3\n".to_owned(), "line 1, \"channels\": must be a table"),
            ("[notify.slack]\ntoken = \"x\"\n".to_owned(), "line 1"),
            ("[notify.exec.mail]\ncommand = \"x\"\n".to_owned(), "line 2, \"command\": unknown field"),
        ] {
            let refused = message(&text);
            assert!(refused.contains(wanted), "{refused}");
        }
    }

    #[test]
    fn an_old_spelling_is_read_with_a_hint_and_never_beside_the_new_one() {
        let old = "[notify.webhook.ci]\nurl = \"http://x\"\n";
        let hints = |text: &str| parse(text, Path::new("c")).unwrap().hints().join("\n");
        let new = "[channels.ci] with type = \"webhook\"";
        assert!(hints(old).contains(new), "{}", hints(old));
        let hook = "[channels.ci.webhook]\nsecret_env = \"S\"\n";
        let both = hints(&format!("{old}{hook}"));
        assert!(both.contains("[channels.ci-webhook] with type = \"webhook\""), "its name is taken: {both}");
        assert!(both.contains("[channels.ci.webhook] is an old spelling"), "{both}");
        assert!(both.contains("with type = \"hook\""), "{both}");
        let twice = message(&format!("{old}[channels.ci]\ntype = \"webhook\"\nurl = \"http://y\"\n"));
        assert!(
            twice.contains("line 1, \"[notify.webhook.ci]\": [channels.ci] is the same target"),
            "{twice}"
        );
        assert!(twice.contains("remove [notify.webhook.ci]"), "{twice}");
        let telegram = message("[notify.telegram]\nchat = 1\n[channels.telegram]\ntype = \"telegram\"\n");
        assert!(telegram.contains("[channels.telegram] is the same target"), "{telegram}");
    }

    #[test]
    fn what_the_documents_show_is_read_without_a_hint() {
        let documents = [
            include_str!("../../../docs/channels.md"),
            include_str!("../../../docs/channels/discord.md"),
            include_str!("../../../docs/channels/molecule.md"),
            include_str!("../../../docs/channels/plugins.md"),
            include_str!("../../../docs/channels/slack.md"),
            include_str!("../../../docs/channels/telegram.md"),
            include_str!("../../../docs/channels/webhook.md"),
            include_str!("../../../docs/daemon.md"),
            include_str!("../../../docs/notifications.md"),
        ];
        let shown = documents.iter().flat_map(|text| text.split("```toml\n").skip(1));
        let shown: Vec<&str> = shown.filter_map(|text| text.split("```").next()).collect();
        assert!(shown.len() > 8, "{shown:?}");
        for text in shown {
            let file = parse(text, Path::new("c")).unwrap_or_else(|failure| panic!("{failure}\n{text}"));
            assert_eq!(file.hints(), [""; 0], "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let places = [
            ("max_running = 0", "line 1, \"max_running\": must be at least 1"),
            ("\nroots = [\"work\"]", "line 2, \"roots\": work must be an absolute path"),
            (
                "[profiles.x]\nwritable_roots = [\"/a\", \"b\"]",
                "line 2, \"writable_roots\": b must be an absolute path",
            ),
            ("[workspaces]\nsite = \"site\"", "line 2, \"site\": site must be an absolute path"),
            ("[env]\npass = [\"A=B\"]", "line 2, \"pass\": \"A=B\" is not the name of a variable"),
            ("[log]\nfilter = \"a=b=c\"", "line 2, \"filter\": \"a=b=c\" is not a filter"),
            ("[log]\nformat = \"xml\"", "line 2, \"format\": unknown variant `xml`"),
            ("[log]\notlp = \"localhost:4318\"", "line 2, \"otlp\": \"localhost:4318\" is not an address"),
            (
                "allow_permanent_rules = true",
                "line 1, \"allow_permanent_rules\": permanent rules are no longer supported",
            ),
        ];
        for (text, wanted) in places {
            let refused = message(text);
            assert!(refused.contains(wanted), "{refused}");
        }
        assert!(parse("allow_permanent_rules = false", Path::new("c")).is_ok(), "a file from before");
        for limit in ["0", "1023", "1048577"] {
            let refused = message(&format!("\nprompt_limit_bytes = {limit}"));
            assert!(refused.contains("line 2, \"prompt_limit_bytes\": must be 1024 to"), "{refused}");
        }
        let address = message("[http]\nlisten = \"7777\"\n");
        assert!(address.contains("line 2") && address.contains("socket address"), "{address}");
    }

    #[test]
    fn with_a_launcher_what_belongs_to_codex_is_set_there() {
        let launcher = "[hosts]\nlauncher = \"/run/codex-bridge-hosts/launcher.sock\"\n";
        assert!(parse(launcher, Path::new("c")).unwrap().hosts.launcher.is_some());
        for (key, name) in [
            ("codex_bin = \"/bin/codex\"", "codex_bin"),
            ("codex_home = \"/h\"", "codex_home"),
            ("other_homes = [\"/h\"]", "other_homes"),
            ("[env]\npass = [\"A\"]", "[env]"),
        ] {
            let refused = message(&format!("keep_days = 3\n{key}\n{launcher}"));
            assert!(refused.contains(&format!("line 2, {name:?}")), "{refused}");
            assert!(refused.contains("the launcher's file"), "{refused}");
        }
        let relative = message("[hosts]\nlauncher = \"launcher.sock\"\n");
        assert!(
            relative.contains("line 2, \"launcher\": launcher.sock must be an absolute path"),
            "{relative}"
        );
    }

    #[test]
    fn only_a_profile_may_be_dangerous() {
        let file = parse(
            "[profiles.open]\nsandbox = \"danger-full-access\"\napproval_policy = \"never\"\n",
            Path::new("c"),
        );
        let profile = &file.unwrap().profiles["open"];
        assert_eq!(profile.sandbox, Some(Sandbox::DangerFullAccess));
        assert!(!profile.agents);
    }
}
