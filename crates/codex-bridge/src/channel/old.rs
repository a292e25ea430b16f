//! `[notify]`, the section of targets from before there was one section for all channels. It means what it meant: each of its
//! tables is a channel that only sends, under the targets that it always had.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::{Kind, Mistake, Settings, table};
use super::telegram;

/// Tables with names: `webhook:NAME`.
const NAMED: [&str; 3] = ["exec", "feishu-bot", "webhook"];
/// Tables that stand for themselves: `telegram`.
const ALONE: [&str; 2] = ["feishu", "telegram"];

/// What stands under `[notify]`, by its targets: `webhook:ci`, `telegram`.
pub fn read(notify: Spanned<DeValue<'_>>) -> Result<BTreeMap<String, Settings>, Mistake> {
    let mut all = BTreeMap::new();
    for (key, value) in table(notify)?.into_inner() {
        let kind = Kind::named(key.get_ref())
            .filter(|kind| NAMED.contains(&kind.name) || ALONE.contains(&kind.name));
        let Some(kind) = kind else {
            let known = [NAMED.as_slice(), &ALONE].concat().join(", ");
            return Err(Mistake::at(key.span(), format!("unknown field, expected one of {known}")));
        };
        let mut own = table(value)?;
        if ALONE.contains(&kind.name) {
            as_before(kind.name, own.get_mut());
            all.insert(kind.name.to_owned(), Settings::of_kind(kind, own)?);
            continue;
        }
        for (name, own) in own.into_inner() {
            all.insert(format!("{}:{}", kind.name, name.get_ref()), Settings::of_kind(kind, table(own)?)?);
        }
    }
    Ok(all)
}

/// The variables of Telegram's held only for chats.
fn as_before(kind: &str, own: &mut DeTable<'_>) {
    let mut unless = |keys: [&str; 2], value: &'static str| {
        if kind == "telegram" && !keys.iter().any(|key| own.contains_key(*key)) {
            let key = Spanned::new(0..0, keys[0].to_owned().into());
            own.insert(key, Spanned::new(0..0, DeValue::String(value.into())));
        }
    };
    unless(["api_base", "api_base_env"], telegram::API);
    unless(["token", "token_env"], "");
}

/// Where a target of `[notify]` stands: its table, its kind and the name that a channel in its place would have.
fn parts(target: &str) -> (String, &str, &str) {
    let (kind, name) = target.split_once(':').unwrap_or((target, target));
    (format!("[notify.{}]", target.replace(':', ".")), kind, name)
}

/// The table of `[notify]` that says the same as a channel with a `type`, and what to do about it.
pub fn twice(
    notify: &BTreeMap<String, Settings>,
    channels: &BTreeMap<String, Settings>,
) -> Option<(String, String)> {
    notify.keys().map(|target| parts(target)).find_map(|(table, kind, name)| {
        let both = channels.get(name).filter(|channel| channel.has_type && channel.kind() == Some(kind));
        let what =
            format!("[channels.{name}] is the same target: move what you need there, and take {table} out");
        both.map(|_| (table, what))
    })
}

/// How the old spellings are written now, one sentence each.
pub fn hints(notify: &BTreeMap<String, Settings>, channels: &BTreeMap<String, Settings>) -> Vec<String> {
    let of_notify = notify.keys().map(|target| {
        let (table, kind, name) = parts(target);
        let is_shared = notify.keys().filter(|other| parts(other).2 == name).count() > 1;
        let new = match channels.get(name) {
            Some(channel) if channel.kind() == Some(kind) => {
                format!("move its settings to [channels.{name}], with type = {kind:?}; another bot gets another name")
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
        let kind = channel.kind().filter(|_| channel.has_own_table)?;
        let table = if kind == "hook" { "webhook" } else { kind };
        Some(format!(
            "[channels.{name}.{table}] is an old spelling: write its settings into [channels.{name}], with type = {kind:?}"
        ))
    });
    let unused = channels.iter().flat_map(|(name, channel)| {
        let table = move |table| {
            format!("[channels.{name}.{table}] is not used: a channel has one platform; take it out")
        };
        channel.unused_tables.iter().map(table)
    });
    of_notify.chain(of_channels).chain(unused).collect()
}
