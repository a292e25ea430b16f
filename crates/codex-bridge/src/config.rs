//! The operator's configuration file. No file is the same as an empty one; a wrong one stops the daemon with one
//! sentence that names the line.
//!
//! What only the operator may decide is here and nowhere else: which Codex, which homes, which environment, which
//! directories agents may work in, and profiles that may do more than a caller could ask for.

mod checked;
pub mod edit;
pub mod hosts;
pub mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use codex_bridge_core::config::PROMPT_LIMIT_BYTES;
use codex_bridge_core::config::Profile;
use codex_bridge_core::trust::Trust;
use codex_session::Escalations;
use redact::Redactor;
use serde::Deserialize;
use toml::de::{DeTable, Deserializer};

use crate::channel::settings::{self, Mistake, Settings, Surroundings};
use crate::channel::{self, old};
use crate::failure::{Code, Failure};
use crate::paths::{Paths, cannot};

/// What the operator wrote. Documented for people in `docs/daemon.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// The codex to run: a path, or a name on the PATH.
    pub codex_bin: Option<PathBuf>,
    /// The CODEX_HOME of tasks; by default the daemon's own variable, else Codex's default.
    #[serde(deserialize_with = "checked::path")]
    pub codex_home: Option<PathBuf>,
    /// Other homes that callers may name.
    #[serde(deserialize_with = "codex_bridge_core::place::absolute_paths")]
    pub other_homes: Vec<PathBuf>,
    /// Where hosts run.
    pub hosts: hosts::Hosts,
    /// Where agents may work; by default the user's home and the directory that the agent runs in.
    #[serde(deserialize_with = "checked::some_paths")]
    pub roots: Option<Vec<PathBuf>>,
    /// How far directories are trusted; docs/daemon.md says what each level means.
    pub trust: BTreeMap<PathBuf, Trust>,
    /// How many tasks work at once.
    #[serde(deserialize_with = "checked::at_least_one")]
    pub max_running: usize,
    /// The longest prompt that is taken.
    #[serde(deserialize_with = "checked::prompt_limit")]
    pub prompt_limit_bytes: usize,
    /// What happens to a task whose host died.
    pub on_host_loss: OnHostLoss,
    /// Told to every thread instead of our own words.
    pub developer_instructions: Option<String>,
    /// Told to every thread after that.
    pub extra_instructions: Option<String>,
    /// What Codex and its commands see of the environment, beyond the built-in list.
    pub env: Env,
    /// Accept every command without asking that stays in its sandbox.
    pub accept_commands: bool,
    /// Accept every file change without asking that stays in the task's directory.
    pub accept_file_changes: bool,
    /// What becomes of wishes to leave the sandbox; without it, tasks of people at the command line ask and all others
    /// decline.
    pub escalations: Option<Escalations>,
    /// MCP servers whose tool approvals are accepted.
    pub trusted_mcp_servers: Vec<String>,
    /// Once allowed a person to allow a command for good. Files from then are still read, if they say `false`.
    #[serde(deserialize_with = "checked::permanent_rules")]
    pub allow_permanent_rules: (),
    /// How long a person may take to answer; then it is a no. Without it requests wait.
    pub answer_limit_s: Option<u64>,
    /// How long tasks at rest are remembered.
    pub keep_days: u64,
    /// How many events of a task are remembered.
    pub keep_events: u32,
    /// Whether an MCP server of ours may run below a Codex of ours.
    pub allow_nested_mcp: bool,
    /// What is logged, and how.
    pub log: crate::log::Settings,
    /// Where callers with a token are answered.
    pub http: Http,
    /// Where chats may have Codex work, by name.
    #[serde(deserialize_with = "checked::named_paths")]
    pub workspaces: BTreeMap<String, PathBuf>,
    /// Who is told, and where work arrives by chat.
    #[serde(skip)]
    pub channels: BTreeMap<String, Settings>,
    /// What the old section of `channels` says, by its targets.
    #[serde(skip)]
    pub notify: BTreeMap<String, Settings>,
    /// Settings under a name.
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
            on_host_loss: OnHostLoss::Ask,
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

/// What happens to a task whose host died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnHostLoss {
    /// It waits for a person.
    Ask,
    /// It goes on on a new host, twice at most.
    Resume,
}

/// Additions to the environment of Codex.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Env {
    /// Names to pass on from the daemon's own environment.
    #[serde(deserialize_with = "checked::variables")]
    pub pass: BTreeSet<String>,
    /// Variables to set.
    pub set: BTreeMap<String, String>,
}

/// The door by TCP. Closed unless there is an address.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// The address, such as `127.0.0.1:7777`. Beyond this machine only with `behind_proxy`.
    pub listen: Option<SocketAddr>,
    /// A proxy in front speaks TLS.
    pub behind_proxy: bool,
    /// The names under which the proxy is reached, with a port or for any.
    pub allowed_hosts: Vec<String>,
}

/// Reads the file. One that was named must be there.
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
    let wrong = |mistake: Mistake| wrong(text, file, mistake);
    let mut table = DeTable::parse(text).map_err(|error| wrong(error.into()))?;
    // A table of these is read when its `type` is known.
    let [channels, notify] = ["channels", "notify"].map(|key| table.get_mut().remove(key));
    let mut parsed = File::deserialize(Deserializer::from(table)).map_err(|error| wrong(error.into()))?;
    parsed.channels = channels.map(settings::read).transpose().map_err(wrong)?.unwrap_or_default();
    parsed.notify = notify.map(old::read).transpose().map_err(wrong)?.unwrap_or_default();
    if let Some((key, what)) = old::twice(&parsed.notify, &parsed.channels) {
        return Err(at(text, file, offset_of(text, &key), &key, &what));
    }
    trust::check(text, file)?;
    hosts::check(&parsed).map_err(|(key, what)| at(text, file, offset_of(text, key), key, &what))?;
    Ok(parsed)
}

/// Where a key of the top, or the head of a table, stands; the beginning if it is written in an unusual way.
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

/// One sentence with the line and the key.
fn wrong(text: &str, file: &Path, mistake: impl Into<Mistake>) -> Failure {
    let Mistake { span, message } = mistake.into();
    let offset = span.map_or(0, |span| span.start.min(text.len()));
    let line = text.get(..offset).unwrap_or_default().matches('\n').count();
    let key = text.lines().nth(line).unwrap_or_default();
    // A path may have any character, and stands in quotes.
    let key = match key.trim_start().strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => key.split('=').next().unwrap_or_default().trim(),
    };
    at(text, file, offset, key, &message)
}

/// A mistake at this offset, in one sentence with the line and the key.
fn at(text: &str, file: &Path, offset: usize, key: &str, message: &str) -> Failure {
    let line = text.get(..offset).unwrap_or_default().matches('\n').count() + 1;
    let key = if key.is_empty() { String::new() } else { format!(", {key:?}") };
    Failure::new(Code::Config, format!("{}, line {line}{key}: {message}", file.display()))
        .hint("correct it; docs/daemon.md lists every key")
}

impl File {
    /// How the old spellings in it are written now, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        old::hints(&self.notify, &self.channels)
    }

    /// All secrets of channels, to be hidden wherever they show up.
    pub fn secrets(&self, env: channel::Env<'_>) -> Vec<String> {
        settings::secrets(self.channels.values().chain(self.notify.values()), env)
    }

    /// What channels are opened in. `cwd` is where whoever runs one is.
    pub fn around<'a>(
        &'a self,
        env: channel::Env<'a>,
        cwd: Option<&'a PathBuf>,
        redactor: &'a Redactor,
    ) -> Surroundings<'a> {
        Surroundings { workspaces: &self.workspaces, profiles: &self.profiles, env, cwd, redactor }
    }

    /// The operator's decisions about directories, by their real paths.
    pub fn trusted_roots(&self) -> BTreeMap<PathBuf, Trust> {
        self.trust.iter().map(|(path, level)| (trust::real(path), *level)).collect()
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
            (format!("{head}url = 7\n"), "line 3, \"url\": it must be a text"),
            (format!("{head}attempts = \"x\"\n"), "line 3, \"attempts\": invalid type"),
            (
                "[channels.x]\ntype = \"pigeon\"\n".to_owned(),
                "line 2, \"type\": a type is one of exec, feishu, feishu-bot, hook, molecule, plugin, telegram, webhook",
            ),
            (
                "[channels.x]\nurl = \"u\"\n".to_owned(),
                "line 2, \"url\": unknown field; a channel has a `type`",
            ),
            ("channels = 3\n".to_owned(), "line 1, \"channels\": invalid type"),
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
        assert!(twice.contains("take [notify.webhook.ci] out"), "{twice}");
        let telegram = message("[notify.telegram]\nchat = 1\n[channels.telegram]\ntype = \"telegram\"\n");
        assert!(telegram.contains("[channels.telegram] is the same target"), "{telegram}");
    }

    #[test]
    fn what_the_documents_show_is_read_without_a_hint() {
        let documents = [
            include_str!("../../../docs/channels.md"),
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
            ("max_running = 0", "line 1, \"max_running\": it must be at least 1"),
            ("\nroots = [\"work\"]", "line 2, \"roots\": work must be a whole path"),
            (
                "[profiles.x]\nwritable_roots = [\"/a\", \"b\"]",
                "line 2, \"writable_roots\": b must be a whole path",
            ),
            ("[workspaces]\nsite = \"site\"", "line 2, \"site\": site must be a whole path"),
            ("[env]\npass = [\"A=B\"]", "line 2, \"pass\": \"A=B\" is not the name of a variable"),
            ("[log]\nfilter = \"a=b=c\"", "line 2, \"filter\": \"a=b=c\" is not a filter"),
            ("[log]\nformat = \"xml\"", "line 2, \"format\": unknown variant `xml`"),
            ("[log]\notlp = \"localhost:4318\"", "line 2, \"otlp\": \"localhost:4318\" is not an address"),
            (
                "allow_permanent_rules = true",
                "line 1, \"allow_permanent_rules\": rules for good cannot be allowed",
            ),
        ];
        for (text, wanted) in places {
            let refused = message(text);
            assert!(refused.contains(wanted), "{refused}");
        }
        assert!(parse("allow_permanent_rules = false", Path::new("c")).is_ok(), "a file from before");
        for limit in ["0", "1023", "1048577"] {
            let refused = message(&format!("\nprompt_limit_bytes = {limit}"));
            assert!(
                refused.contains("line 2, \"prompt_limit_bytes\": a prompt may be limited to 1024"),
                "{refused}"
            );
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
            assert!(refused.contains("the launcher's own file"), "{refused}");
        }
        let relative = message("[hosts]\nlauncher = \"launcher.sock\"\n");
        assert!(relative.contains("line 2, \"launcher\": launcher.sock must be a whole path"), "{relative}");
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
