//! `[channels]` in the operator's file: reads the settings of each channel, and opens channels.
//!
//! `[channels.NAME]` has a `type`, the settings common to all channels, and those of its platform. In the old spelling
//! without a `type`, the platform's settings have a table of their own, `[channels.NAME.PLATFORM]`. Both are read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codex_bridge_core::config::Profile;
use codex_bridge_core::inbox::{Allowed, Rules, WhileRunning};
use codex_session::{ApprovalMode, Sandbox};
use redact::Redactor;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error, ValueDeserializer};

use super::secret::Env;
use super::{Channel, KINDS, Platform, Receiving, transcribe};
use crate::failure::{Code, Failure, parser_message};

/// A kind of channel.
#[derive(Debug)]
pub struct Kind {
    /// The `type` in the configuration.
    pub name: &'static str,
    /// The environment variables that are read for settings that are absent.
    pub variables: &'static [&'static str],
    /// Whether channels of this kind can receive.
    pub receives: bool,
    /// Whether channels of other kinds may have its name.
    pub shares_name: bool,
    read: fn(ValueDeserializer<'_>) -> Result<Arc<dyn Platform>, Error>,
}

impl Kind {
    /// A kind that receives and reads no variables.
    pub const fn of<S: Platform + DeserializeOwned>(name: &'static str) -> Self {
        Self {
            name,
            variables: &[],
            receives: true,
            shares_name: false,
            read: |table| Ok(Arc::new(S::deserialize(table)?)),
        }
    }

    /// The same kind, reading these variables.
    pub const fn reading(self, variables: &'static [&'static str]) -> Self {
        Self { variables, ..self }
    }

    /// The same kind, which never receives.
    pub const fn only_sending(self) -> Self {
        Self { receives: false, ..self }
    }

    /// The same kind, whose name others may have: channels had it before there was the kind.
    pub const fn sharing_its_name(self) -> Self {
        Self { shares_name: true, ..self }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// The names of all kinds, for people.
    pub fn names() -> String {
        KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    }
}

/// One channel of the operator's file. Documented for people in `docs/channels.md`.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The settings common to all channels.
    pub common: Common,
    /// The kind and its settings; none if neither `type`, an old table nor the name gives the kind.
    platform: Option<(&'static Kind, Arc<dyn Platform>)>,
    /// Whether the channel has a `type`.
    pub has_type: bool,
    /// Whether the platform's settings have a table of their own (the old spelling).
    pub has_platform_table: bool,
    /// Further platform tables, which are ignored.
    pub unused_tables: Vec<&'static str>,
}

/// The settings common to all channels. All of them are about received messages.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Common {
    /// Who may write: `ID`, or `ID:approver` for people who may also decide requests. A `*` at the end of an ID matches
    /// anything.
    pub allow: Vec<String>,
    /// Who may write in one place only, by place: a group or a channel of the platform.
    pub allow_in: BTreeMap<String, Vec<String>>,
    /// Whether strangers are told a code by which the operator can allow them.
    pub pairing: bool,
    /// Whether messages in groups are only for the bot if they name it, reply to it or are commands; true by default.
    pub mention_only: Option<bool>,
    /// Whether a short line tells people that their message waits, where the platform has no signs for that; true by default.
    pub receipts: Option<bool>,
    /// The models that people may choose with `/model`.
    pub models: Vec<String>,
    /// The default workspace of a conversation: a name of `[workspaces]`.
    pub workspace: Option<String>,
    /// A profile of the operator's, for sandbox, approvals, model and effort.
    pub profile: Option<String>,
    /// The sandbox of commands; read-only by default.
    pub sandbox: Option<Sandbox>,
    /// When Codex asks for approval; on-request by default.
    pub approval_policy: Option<ApprovalMode>,
    /// The model.
    pub model: Option<String>,
    /// The reasoning effort.
    pub effort: Option<String>,
    /// `queue` or `steer`: what happens to a message while a turn runs.
    pub while_running: WhileRunning,
    /// How long a turn may work, not counting waits for people. Ten minutes by default; 0 is unlimited.
    pub turn_limit_s: Option<u64>,
    /// Messages that are older than this on arrival are not worked on.
    pub max_age_s: Option<u64>,
    /// How many attempts a message gets.
    pub attempts: Option<u32>,
    /// Messages that have passed this many bridges are not answered.
    pub max_hops: Option<u32>,
    /// The limit of messages of one agent per hour.
    pub agent_turns_per_hour: Option<u32>,
    /// The limit of consecutive messages of agents in one conversation.
    pub agent_turns_in_a_row: Option<u32>,
    /// A program that makes text of speech: `{file}` in an argument is the recording, what it prints are the words. No shell.
    pub transcribe: Vec<String>,
    /// How long that program may take; two minutes by default.
    pub transcribe_limit_s: Option<u64>,
    /// Whether the channel is served only when somebody runs it.
    pub manual: bool,
}

const COMMON: &str = "allow allow_in pairing mention_only receipts models workspace profile sandbox approval_policy model effort \
    while_running turn_limit_s max_age_s attempts max_hops agent_turns_per_hour agent_turns_in_a_row transcribe \
    transcribe_limit_s manual";
/// The platform tables of the old spelling, and the kind of each.
const OLD_TABLES: [(&str, &str); 4] =
    [("molecule", "molecule"), ("plugin", "plugin"), ("telegram", "telegram"), ("webhook", "hook")];

/// An error in the file, with its position.
#[derive(Debug)]
pub struct ConfigError {
    /// The position, in bytes.
    pub span: Option<Range<usize>>,
    /// What is wrong.
    pub message: String,
}

impl ConfigError {
    /// An error at this position.
    pub fn at(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span: Some(span), message: message.into() }
    }
}

impl From<Error> for ConfigError {
    fn from(error: Error) -> Self {
        Self { span: error.span(), message: parser_message(&error.message().replace('\n', " ")) }
    }
}

/// A table of the file, with its position.
type Table<'i> = Spanned<DeTable<'i>>;

/// The value as a table.
pub(super) fn table(value: Spanned<DeValue<'_>>) -> Result<Table<'_>, ConfigError> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => Ok(Spanned::new(span, table)),
        other => {
            Err(ConfigError::at(span, format!("must be a table, not a value of type {}", other.type_str())))
        }
    }
}

/// Turns `token_env = "NAME"` into `token = { env = "NAME" }`, which a `Secret` reads. A `token` in the file takes precedence.
fn with_variables(own: DeTable<'_>) -> DeTable<'_> {
    let mut read = DeTable::new();
    for (key, value) in own {
        let (key_span, span) = (key.span(), value.span());
        match key.get_ref().strip_suffix("_env") {
            None => drop(read.insert(key, value)),
            Some(name) if read.contains_key(name) => {}
            Some(name) => {
                let variable = DeTable::from_iter([(Spanned::new(key_span.clone(), "env".into()), value)]);
                let name = Spanned::new(key_span, name.to_owned().into());
                read.insert(name, Spanned::new(span, DeValue::Table(variable)));
            }
        }
    }
    read
}

fn read_table<'i, T>(
    table: Table<'i>,
    read: impl FnOnce(ValueDeserializer<'i>) -> Result<T, Error>,
) -> Result<T, ConfigError> {
    let value = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
    read(ValueDeserializer::from(value)).map_err(ConfigError::from)
}

/// Reads `[channels]`.
pub fn read(channels: Spanned<DeValue<'_>>) -> Result<BTreeMap<String, Settings>, ConfigError> {
    let each = table(channels)?.into_inner().into_iter().map(|(name, value)| {
        let name = name.into_inner().into_owned();
        let settings = Settings::read(&name, table(value)?)?;
        Ok((name, settings))
    });
    each.collect()
}

impl Settings {
    /// The settings of a channel that the file does not mention: its name is its kind.
    pub fn unconfigured(name: &str) -> Self {
        Self::read(name, Spanned::new(0..0, DeTable::new())).unwrap_or_default()
    }

    /// A channel of this kind with the platform's own settings.
    pub(super) fn for_kind(kind: &'static Kind, own: Table<'_>) -> Result<Self, ConfigError> {
        let own = Spanned::new(own.span(), with_variables(own.into_inner()));
        let platform = Some((kind, read_table(own, kind.read)?));
        Ok(Self { platform, ..Self::default() })
    }

    fn read(name: &str, all: Table<'_>) -> Result<Self, ConfigError> {
        let span = all.span();
        let (mut common, mut own) = (DeTable::new(), DeTable::new());
        for (key, value) in all.into_inner() {
            let is_common = COMMON.split(' ').any(|common| common == key.get_ref());
            if is_common { &mut common } else { &mut own }.insert(key, value);
        }
        let common = read_table(Spanned::new(span.clone(), common), Common::deserialize)?;
        let declared = own.remove("type").map(|declared| parse_kind(&declared)).transpose()?;
        let old = OLD_TABLES.into_iter().find(|(key, _)| declared.is_none() && own.contains_key(*key));
        let old_table = old.and_then(|(key, kind)| Some((Kind::named(kind)?, own.remove(key)?)));
        let (has_type, has_platform_table) = (declared.is_some(), old_table.is_some());
        // Of several old tables, the first one has always counted.
        let further = OLD_TABLES.into_iter().filter(|_| has_platform_table);
        let unused_tables = further.filter_map(|(key, _)| own.remove(key).map(|_| key)).collect();
        let of_kind = match (old_table, declared.or_else(|| Kind::named(name))) {
            (None, Some(kind)) => Self::for_kind(kind, Spanned::new(span, own))?,
            (_, None) | (Some(_), _) if !own.is_empty() => {
                let at = own.keys().next().map(Spanned::span).unwrap_or_default();
                return Err(ConfigError::at(
                    at,
                    format!("unknown key; the channel needs a `type`: {}", Kind::names()),
                ));
            }
            (Some((kind, old)), _) => Self::for_kind(kind, table(old)?)?,
            (None, None) => Self::default(),
        };
        Ok(Self { common, has_type, has_platform_table, unused_tables, ..of_kind })
    }

    /// The name of the channel's kind, if it has one.
    pub fn kind(&self) -> Option<&'static str> {
        self.platform.as_ref().map(|(kind, _)| kind.name)
    }

    /// The channel's secrets, for the redactor.
    pub fn secrets(&self, env: Env<'_>) -> Vec<String> {
        self.platform.as_ref().map(|(_, platform)| platform.secrets(env)).unwrap_or_default()
    }

    /// Opens the channel without connecting, or says what has to be corrected.
    pub fn open(&self, name: &str, context: Context<'_>) -> Result<OpenedChannel, Failure> {
        self.try_open(name, context).map_err(|what| {
            Failure::new(Code::ChannelConfig, format!("channel {name}: {what}"))
                .hint("docs/channels.md lists the settings of each type")
        })
    }

    /// The same, with a bare error message.
    pub(super) fn try_open(&self, name: &str, context: Context<'_>) -> Result<OpenedChannel, String> {
        let Some((kind, platform)) = &self.platform else {
            return Err(format!(
                "the type of the channel is not known: set `type` to one of {}",
                Kind::names()
            ));
        };
        let is_of_another =
            Kind::named(name).is_some_and(|named| !named.shares_name && named.name != kind.name);
        if name == LOCAL || (self.has_type && is_of_another) {
            return Err("the name is reserved: other targets begin with it; choose another name".to_owned());
        }
        let read = RefCell::new(BTreeMap::new());
        let env = |variable: &str| {
            let value = (context.env)(variable);
            read.borrow_mut().insert(variable.to_owned(), value.clone());
            value
        };
        let opening = Opening { name, common: &self.common, context: Context { env: &env, ..context } };
        let mut opened = platform.open(&opening)?;
        match &mut opened {
            OpenedChannel::Sends(_) if !self.common.receives() => {}
            OpenedChannel::Sends(_) => return Err("the channel only sends: remove `allow`".to_owned()),
            OpenedChannel::Receives(service) => {
                service.fingerprint = fingerprint(platform.as_ref(), &read.borrow());
            }
        }
        Ok(opened)
    }

    /// Opens the channel to be served.
    pub fn service(&self, name: &str, context: Context<'_>) -> Result<Service, Failure> {
        match self.open(name, context)? {
            OpenedChannel::Receives(service) => Ok(*service),
            OpenedChannel::Sends(_) => {
                let message = format!("channel {name} only sends, so it cannot be served");
                Err(Failure::new(Code::ChannelConfig, message).hint(format!(
                    "`codex-bridge deliveries test {name}` tests it; set `allow` if people shall write to it"
                )))
            }
        }
    }
}

fn parse_kind(declared: &Spanned<DeValue<'_>>) -> Result<&'static Kind, ConfigError> {
    let named = declared.get_ref().as_str().and_then(Kind::named);
    named.ok_or_else(|| {
        ConfigError::at(declared.span(), format!("unknown type; use one of {}", Kind::names()))
    })
}

/// A name with another meaning in targets.
const LOCAL: &str = "local";

/// A channel that is being opened.
pub struct Opening<'a> {
    /// The channel's name.
    pub name: &'a str,
    /// The settings common to all channels.
    pub common: &'a Common,
    /// The operator's other settings.
    pub context: Context<'a>,
}

impl Opening<'_> {
    /// A receiving channel; `allow` is the default for who may write.
    pub fn receives(&self, channel: Arc<dyn Receiving>, allow: &[&str]) -> Result<OpenedChannel, String> {
        let rules = self.common.rules(self.name, allow, self.context)?;
        let rules =
            Rules { acknowledges: channel.reports().is_some(), when_full: channel.when_full(), ..rules };
        let uses_caller_dir = self.context.workspaces.is_empty();
        let says_receipts = channel.says_receipts() && self.common.receipts.unwrap_or(true);
        Ok(OpenedChannel::Receives(Box::new(Service {
            channel,
            rules,
            says_receipts,
            fingerprint: Fingerprint::default(),
            uses_caller_dir,
        })))
    }
}

/// A channel that was opened.
pub enum OpenedChannel {
    /// The channel only sends.
    Sends(Arc<dyn Channel>),
    /// The channel can be served.
    Receives(Box<Service>),
}

impl OpenedChannel {
    /// The channel as a sender.
    pub fn channel(&self) -> Arc<dyn Channel> {
        match self {
            Self::Sends(channel) => Arc::clone(channel),
            Self::Receives(service) => service.channel.clone(),
        }
    }
}

/// A channel that can be served.
#[derive(Clone)]
pub struct Service {
    /// The channel itself.
    pub channel: Arc<dyn Receiving>,
    /// The operator's rules for it.
    pub rules: Rules,
    /// Whether a short line tells people that their message waits.
    pub says_receipts: bool,
    /// Differs whenever the platform's settings differ, secrets included.
    pub fingerprint: Fingerprint,
    /// Whether the channel works in its caller's directory, since no workspace is registered.
    pub uses_caller_dir: bool,
}

/// A digest of a platform's settings, which reveals none of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// The digest of a platform's settings and of the variables that were read for them.
fn fingerprint(platform: &dyn Platform, read: &BTreeMap<String, Option<String>>) -> Fingerprint {
    let secrets = platform.secrets(&|name| read.get(name).cloned().flatten());
    Fingerprint(Sha256::digest(format!("{platform:?} {secrets:?} {read:?}")).into())
}

/// The operator's other settings, which opening a channel needs.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The directories that chats may work in, by name.
    pub workspaces: &'a BTreeMap<String, PathBuf>,
    /// The operator's profiles.
    pub profiles: &'a BTreeMap<String, Profile>,
    /// Looks up environment variables.
    pub env: Env<'a>,
    /// The caller's directory, which is the workspace if none is registered.
    pub cwd: Option<&'a PathBuf>,
    /// Hides all known secrets, also those that it learns later.
    pub redactor: &'a Redactor,
}

impl Common {
    /// Whether anybody may write, or may be allowed to.
    pub fn receives(&self) -> bool {
        self.pairing || !self.allow.is_empty() || !self.allow_in.is_empty()
    }

    /// All entries of `allow` and `allow_in`, as written.
    pub fn allowed(&self) -> Vec<String> {
        self.allow.iter().chain(self.allow_in.values().flatten()).cloned().collect()
    }

    fn rules(&self, name: &str, allowed: &[&str], context: Context<'_>) -> Result<Rules, String> {
        let given = self.allow.iter().map(String::as_str);
        let allow: Vec<&str> = if self.receives() { given.collect() } else { allowed.to_vec() };
        let mut allow = allow.into_iter().map(Allowed::parse).collect::<Result<Vec<_>, _>>()?;
        for (place, entries) in &self.allow_in {
            for entry in entries {
                allow.push(Allowed::parse(entry)?.only_in(place));
            }
        }
        if allow.is_empty() && !self.pairing {
            return Err("`allow` is empty: set who may write".to_owned());
        }
        let mut workspaces: BTreeMap<String, PathBuf> = context.workspaces.clone();
        if workspaces.is_empty() {
            let cwd = context.cwd.cloned().ok_or("no workspace is registered: set [workspaces]")?;
            workspaces.insert("here".to_owned(), cwd);
        }
        if let Some(workspace) = self.workspace.as_ref().filter(|name| !workspaces.contains_key(*name)) {
            return Err(format!("workspace {workspace} is not in [workspaces]"));
        }
        let profile = match &self.profile {
            Some(profile) => context
                .profiles
                .get(profile)
                .ok_or(format!("profile {profile} is not in [profiles]"))?
                .clone(),
            None => Profile::default(),
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
            transcriber: transcribe::open(&self.transcribe, self.transcribe_limit_s)?,
            pairing: self.pairing,
            mention_only: self.mention_only.unwrap_or(rules.mention_only),
            models: self.models.clone(),
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

/// The secrets of these channels, and the tokens that platforms read from the environment.
pub fn secrets<'a>(all: impl IntoIterator<Item = &'a Settings>, env: Env<'_>) -> Vec<String> {
    let read = KINDS.iter().flat_map(|kind| kind.variables).filter(|name| name.ends_with("_TOKEN"));
    let configured = all.into_iter().flat_map(|channel| channel.secrets(env));
    configured.chain(read.filter_map(|name| env(name))).collect()
}
