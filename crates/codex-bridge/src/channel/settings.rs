//! `[channels]` in the operator's file: how it is read, and what becomes of it.
//!
//! `[channels.NAME]` has a `type`, what holds for every channel, and the settings of its platform. Before there was a
//! `type`, those stood in a table of their own, `[channels.NAME.PLATFORM]`, which is still read.

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
use super::{Channel, KINDS, Platform, Receiving};
use crate::failure::{Code, Failure};

/// A kind of channel.
#[derive(Debug)]
pub struct Kind {
    /// As it stands in the configuration.
    pub name: &'static str,
    /// What it reads from the environment where its settings say nothing.
    pub variables: &'static [&'static str],
    /// Whether people and agents can write to a channel of it.
    pub receives: bool,
    read: fn(ValueDeserializer<'_>) -> Result<Arc<dyn Platform>, Error>,
}

impl Kind {
    /// The kind with these settings.
    pub const fn of<S: Platform + DeserializeOwned>(name: &'static str) -> Self {
        Self { name, variables: &[], receives: true, read: |table| Ok(Arc::new(S::deserialize(table)?)) }
    }

    /// The same, which reads these variables.
    pub const fn reading(self, variables: &'static [&'static str]) -> Self {
        Self { variables, ..self }
    }

    /// The same, by which nothing ever comes in.
    pub const fn only_sending(self) -> Self {
        Self { receives: false, ..self }
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
    /// What every channel has.
    pub common: Common,
    /// Its kind, and what it says about that; none if neither its name nor anything else tells the kind.
    platform: Option<(&'static Kind, Arc<dyn Platform>)>,
    /// Whether its kind stands there as `type`.
    pub has_type: bool,
    /// Whether the settings of its platform stand in a table of their own.
    pub has_own_table: bool,
    /// Further tables of platforms, which were never used.
    pub unused_tables: Vec<&'static str>,
}

/// What every channel has. All but `manual` is about what comes in.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Common {
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
}

/// The names of these.
const COMMON: &str = "allow workspace profile sandbox approval_policy model effort while_running turn_limit_s max_age_s \
    attempts max_hops agent_turns_per_hour agent_turns_in_a_row manual";
/// Tables of platforms from before there was a `type`, and the kind that each stands for.
const OLD_TABLES: [(&str, &str); 4] =
    [("molecule", "molecule"), ("plugin", "plugin"), ("telegram", "telegram"), ("webhook", "hook")];

/// A mistake in the file, and where it stands.
#[derive(Debug)]
pub struct Mistake {
    /// Where, in bytes.
    pub span: Option<Range<usize>>,
    /// What.
    pub message: String,
}

impl Mistake {
    /// This is wrong with what stands here.
    pub fn at(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span: Some(span), message: message.into() }
    }
}

impl From<Error> for Mistake {
    fn from(error: Error) -> Self {
        Self { span: error.span(), message: error.message().replace('\n', " ") }
    }
}

/// A table of the file, as it is read.
type Table<'i> = Spanned<DeTable<'i>>;

/// The table that a value is.
pub(super) fn table(value: Spanned<DeValue<'_>>) -> Result<Table<'_>, Mistake> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => Ok(Spanned::new(span, table)),
        other => Err(Mistake::at(span, format!("invalid type: {}, expected a table", other.type_str()))),
    }
}

/// `token_env = "NAME"` is `token = { env = "NAME" }`, as a `Secret` is read. What stands in the file itself counts first.
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
) -> Result<T, Mistake> {
    let value = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
    read(ValueDeserializer::from(value)).map_err(Mistake::from)
}

/// What stands under `[channels]`.
pub fn read(channels: Spanned<DeValue<'_>>) -> Result<BTreeMap<String, Settings>, Mistake> {
    let each = table(channels)?.into_inner().into_iter().map(|(name, value)| {
        let name = name.into_inner().into_owned();
        let settings = Settings::read(&name, table(value)?)?;
        Ok((name, settings))
    });
    each.collect()
}

impl Settings {
    /// A channel of which the file says nothing: of the kind that it is called after.
    pub fn unsaid(name: &str) -> Self {
        Self::read(name, Spanned::new(0..0, DeTable::new())).unwrap_or_default()
    }

    /// The channel of a kind, from the platform's own settings.
    pub(super) fn of_kind(kind: &'static Kind, own: Table<'_>) -> Result<Self, Mistake> {
        let own = Spanned::new(own.span(), with_variables(own.into_inner()));
        let platform = Some((kind, read_table(own, kind.read)?));
        Ok(Self { platform, ..Self::default() })
    }

    fn read(name: &str, all: Table<'_>) -> Result<Self, Mistake> {
        let span = all.span();
        let (mut common, mut own) = (DeTable::new(), DeTable::new());
        for (key, value) in all.into_inner() {
            let is_common = COMMON.split(' ').any(|common| common == key.get_ref());
            if is_common { &mut common } else { &mut own }.insert(key, value);
        }
        let common = read_table(Spanned::new(span.clone(), common), Common::deserialize)?;
        let told = own.remove("type").map(|told| kind_of(&told)).transpose()?;
        let old = OLD_TABLES.into_iter().find(|(key, _)| told.is_none() && own.contains_key(*key));
        let in_its_own = old.and_then(|(key, kind)| Some((Kind::named(kind)?, own.remove(key)?)));
        let (has_type, has_own_table) = (told.is_some(), in_its_own.is_some());
        // Of several, the first one always counted.
        let further = OLD_TABLES.into_iter().filter(|_| has_own_table);
        let unused_tables = further.filter_map(|(key, _)| own.remove(key).map(|_| key)).collect();
        let of_kind = match (in_its_own, told.or_else(|| Kind::named(name))) {
            (None, Some(kind)) => Self::of_kind(kind, Spanned::new(span, own))?,
            (_, None) | (Some(_), _) if !own.is_empty() => {
                let at = own.keys().next().map(Spanned::span).unwrap_or_default();
                return Err(Mistake::at(
                    at,
                    format!("unknown field; a channel has a `type`: {}", Kind::names()),
                ));
            }
            (Some((kind, old)), _) => Self::of_kind(kind, table(old)?)?,
            (None, None) => Self::default(),
        };
        Ok(Self { common, has_type, has_own_table, unused_tables, ..of_kind })
    }

    /// The name of its kind, if it has one.
    pub fn kind(&self) -> Option<&'static str> {
        self.platform.as_ref().map(|(kind, _)| kind.name)
    }

    /// What has to be hidden wherever it shows up.
    pub fn secrets(&self, env: Env<'_>) -> Vec<String> {
        self.platform.as_ref().map(|(_, platform)| platform.secrets(env)).unwrap_or_default()
    }

    /// A channel as configured, or what has to be put right. Nothing is reached yet.
    pub fn open(&self, name: &str, around: Surroundings<'_>) -> Result<Way, Failure> {
        self.way(name, around).map_err(|what| {
            Failure::new(Code::ChannelConfig, format!("channel {name}: {what}"))
                .hint("docs/channels.md lists what it needs")
        })
    }

    /// The same, or only what has to be put right.
    pub(super) fn way(&self, name: &str, around: Surroundings<'_>) -> Result<Way, String> {
        let Some((kind, platform)) = &self.platform else {
            return Err(format!("there is no platform {name}: set its `type`, one of {}", Kind::names()));
        };
        let is_of_another = Kind::named(name).is_some_and(|named| named.name != kind.name);
        if name == LOCAL || (self.has_type && is_of_another) {
            return Err("that name is taken: targets begin with it. Choose another".to_owned());
        }
        let read = RefCell::new(BTreeMap::new());
        let env = |variable: &str| {
            let value = (around.env)(variable);
            read.borrow_mut().insert(variable.to_owned(), value.clone());
            value
        };
        let opening = Opening { name, common: &self.common, around: Surroundings { env: &env, ..around } };
        let mut way = platform.open(&opening)?;
        match &mut way {
            Way::Sends(_) if self.common.allow.is_empty() => {}
            Way::Sends(_) => return Err("it only sends, so it takes no `allow`".to_owned()),
            Way::Receives(service) => service.mark = mark(platform.as_ref(), &read.borrow()),
        }
        Ok(way)
    }

    /// The same for somebody who wants it to be served.
    pub fn service(&self, name: &str, around: Surroundings<'_>) -> Result<Service, Failure> {
        match self.open(name, around)? {
            Way::Receives(service) => Ok(*service),
            Way::Sends(_) => {
                let message = format!("channel {name} only sends: nobody may write to it");
                Err(Failure::new(Code::ChannelConfig, message).hint(format!(
                    "`codex-bridge deliveries test {name}` tries it; people write to one that has `allow`"
                )))
            }
        }
    }
}

/// The kind that a `type` names.
fn kind_of(told: &Spanned<DeValue<'_>>) -> Result<&'static Kind, Mistake> {
    let named = told.get_ref().as_str().and_then(Kind::named);
    named.ok_or_else(|| Mistake::at(told.span(), format!("a type is one of {}", Kind::names())))
}

/// A name that means something else where a target is named.
const LOCAL: &str = "local";

/// A channel that is being opened.
pub struct Opening<'a> {
    /// Its name.
    pub name: &'a str,
    /// What every channel has.
    pub common: &'a Common,
    /// What is known there.
    pub around: Surroundings<'a>,
}

impl Opening<'_> {
    /// One that receives; these may write unless the operator says otherwise.
    pub fn receives(&self, channel: Arc<dyn Receiving>, allow: &[&str]) -> Result<Way, String> {
        let rules = self.common.rules(self.name, allow, self.around)?;
        let rules = Rules { acknowledges: channel.has_watermark(), when_full: channel.when_full(), ..rules };
        let works_here = self.around.workspaces.is_empty();
        Ok(Way::Receives(Box::new(Service { channel, rules, mark: Mark::default(), works_here })))
    }
}

/// What becomes of a channel of the file.
pub enum Way {
    /// It only sends.
    Sends(Arc<dyn Channel>),
    /// It can be served.
    Receives(Box<Service>),
}

impl Way {
    /// The channel, to send by.
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
    /// The way to its platform.
    pub channel: Arc<dyn Receiving>,
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

/// Of the settings of a platform, and of what was read from the environment for them.
fn mark(platform: &dyn Platform, read: &BTreeMap<String, Option<String>>) -> Mark {
    let secrets = platform.secrets(&|name| read.get(name).cloned().flatten());
    Mark(Sha256::digest(format!("{platform:?} {secrets:?} {read:?}")).into())
}

/// What is known where a channel is opened.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Where chats may have Codex work, by name.
    pub workspaces: &'a BTreeMap<String, PathBuf>,
    /// The operator's profiles.
    pub profiles: &'a BTreeMap<String, Profile>,
    /// How variables are looked up.
    pub env: Env<'a>,
    /// Where whoever runs it is: the workspace if none is registered.
    pub cwd: Option<&'a PathBuf>,
    /// What hides every secret that is known here, those that become known later too.
    pub redactor: &'a Redactor,
}

impl Common {
    fn rules(&self, name: &str, allowed: &[&str], around: Surroundings<'_>) -> Result<Rules, String> {
        let given = self.allow.iter().map(String::as_str);
        let allow: Vec<&str> = if self.allow.is_empty() { allowed.to_vec() } else { given.collect() };
        let allow = allow.into_iter().map(Allowed::parse).collect::<Result<Vec<_>, _>>()?;
        if allow.is_empty() {
            return Err("nobody may write: set `allow`".to_owned());
        }
        let mut workspaces: BTreeMap<String, PathBuf> = around.workspaces.clone();
        if workspaces.is_empty() {
            let cwd = around.cwd.cloned().ok_or("no workspace is registered: set [workspaces]")?;
            workspaces.insert("here".to_owned(), cwd);
        }
        if let Some(workspace) = self.workspace.as_ref().filter(|name| !workspaces.contains_key(*name)) {
            return Err(format!("workspace {workspace} is not in [workspaces]"));
        }
        let profile = match &self.profile {
            Some(profile) => {
                around.profiles.get(profile).ok_or(format!("there is no profile {profile}"))?.clone()
            }
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

/// All secrets of these channels, and those that platforms read from the environment, to be hidden wherever they show up.
pub fn secrets<'a>(all: impl IntoIterator<Item = &'a Settings>, env: Env<'_>) -> Vec<String> {
    let read = KINDS.iter().flat_map(|kind| kind.variables).filter(|name| name.ends_with("_TOKEN"));
    let configured = all.into_iter().flat_map(|channel| channel.secrets(env));
    configured.chain(read.filter_map(|name| env(name))).collect()
}
