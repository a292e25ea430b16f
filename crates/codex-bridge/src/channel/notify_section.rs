//! `[notify]`, the section of targets before `[channels]` existed. Its meaning has not changed: each table is a channel that
//! only sends, under its old target.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::{ConfigError, Kind, Settings, table};
use super::telegram;

/// Tables with a name: `[notify.webhook.NAME]` is the target `webhook:NAME`.
const NAMED: [&str; 3] = ["exec", "feishu-bot", "webhook"];
/// Tables without a name: `[notify.telegram]` is the target `telegram`.
const SINGLE: [&str; 2] = ["feishu", "telegram"];

/// Reads `[notify]`, by targets: `webhook:ci`, `telegram`.
pub fn read(notify: Spanned<DeValue<'_>>) -> Result<BTreeMap<String, Settings>, ConfigError> {
    let mut all = BTreeMap::new();
    for (key, value) in table(notify)?.into_inner() {
        let kind = Kind::named(key.get_ref())
            .filter(|kind| NAMED.contains(&kind.name) || SINGLE.contains(&kind.name));
        let Some(kind) = kind else {
            let known = [NAMED.as_slice(), &SINGLE].concat().join(", ");
            return Err(ConfigError::at(key.span(), format!("unknown key; [notify] can have {known}")));
        };
        let mut own = table(value)?;
        if SINGLE.contains(&kind.name) {
            ignore_telegram_variables(kind.name, own.get_mut());
            all.insert(kind.name.to_owned(), Settings::for_kind(kind, own)?);
            continue;
        }
        for (name, own) in own.into_inner() {
            all.insert(format!("{}:{}", kind.name, name.get_ref()), Settings::for_kind(kind, table(own)?)?);
        }
    }
    Ok(all)
}

/// In `[notify.telegram]` the environment variables of Telegram never counted.
fn ignore_telegram_variables(kind: &str, own: &mut DeTable<'_>) {
    let mut unless = |keys: [&str; 2], value: &'static str| {
        if kind == "telegram" && !keys.iter().any(|key| own.contains_key(*key)) {
            let key = Spanned::new(0..0, keys[0].to_owned().into());
            own.insert(key, Spanned::new(0..0, DeValue::String(value.into())));
        }
    };
    unless(["api_base", "api_base_env"], telegram::API);
    unless(["token", "token_env"], "");
}

/// The table of a target, its kind, and the name that a channel in `[channels]` would have.
fn table_kind_and_name(target: &str) -> (String, &str, &str) {
    let (kind, name) = target.split_once(':').unwrap_or((target, target));
    (format!("[notify.{}]", target.replace(':', ".")), kind, name)
}

/// A table of `[notify]` whose target is also a channel with a `type`, and how to correct that.
pub fn find_duplicate(
    notify: &BTreeMap<String, Settings>,
    channels: &BTreeMap<String, Settings>,
) -> Option<(String, String)> {
    notify.keys().map(|target| table_kind_and_name(target)).find_map(|(table, kind, name)| {
        let both = channels.get(name).filter(|channel| channel.has_type && channel.kind() == Some(kind));
        let what =
            format!("[channels.{name}] is the same target: move what you need there, and remove {table}");
        both.map(|_| (table, what))
    })
}

/// How to rewrite the old spellings, one sentence each.
pub fn hints(notify: &BTreeMap<String, Settings>, channels: &BTreeMap<String, Settings>) -> Vec<String> {
    let of_notify = notify.keys().map(|target| {
        let (table, kind, name) = table_kind_and_name(target);
        let is_shared = notify.keys().filter(|other| table_kind_and_name(other).2 == name).count() > 1;
        let new = match channels.get(name) {
            Some(channel) if channel.kind() == Some(kind) => {
                format!("move its settings to [channels.{name}], with type = {kind:?}; a second bot needs another name")
            }
            None if !is_shared => format!("write [channels.{name}] with type = {kind:?}, and the same settings"),
            _ => format!(
                "write [channels.{name}-{kind}] with type = {kind:?}, since another channel is called {name}; \
                 the target is then {name}-{kind}"
            ),
        };
        format!("{table} is an old spelling: {new}")
    });
    let of_channels = channels.iter().filter_map(|(name, channel)| {
        let kind = channel.kind().filter(|_| channel.has_platform_table)?;
        let table = if kind == "hook" { "webhook" } else { kind };
        Some(format!(
            "[channels.{name}.{table}] is an old spelling: write its settings into [channels.{name}], with type = {kind:?}"
        ))
    });
    let unused = channels.iter().flat_map(|(name, channel)| {
        let table = move |table| {
            format!("[channels.{name}.{table}] is not used, since a channel has one platform: remove it")
        };
        channel.unused_tables.iter().map(table)
    });
    of_notify.chain(of_channels).chain(unused).collect()
}
