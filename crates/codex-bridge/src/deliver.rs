//! The ways to the targets of tasks, as the operator configured them: one file per platform.
//!
//! Each tries once and says how it went; rows, repetitions and schedules are the outbox's. Secrets stay in here.

pub mod exec;
mod feishu;
mod feishu_bot;
pub mod http;
pub mod telegram;
pub mod text;
pub mod webhook;

use std::collections::BTreeMap;

use codex_bridge_core::outbox::notice::NO_TASK;
use codex_bridge_core::outbox::sender::{Refusal, Unknown};
use codex_bridge_core::outbox::{Attempt, Notice, Outcome, Repeats, Sender};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::config::notify::{Notify, Secret};

use exec::Exec;
use feishu::Feishu;
use feishu_bot::FeishuBot;
use telegram::Telegram;
use webhook::Webhook;

/// How variables are looked up.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Something configured, or why it cannot be used.
type Ready<T> = Result<T, String>;

/// The ways to all targets.
#[derive(Debug)]
pub struct Deliver {
    webhooks: BTreeMap<String, Ready<Webhook>>,
    execs: BTreeMap<String, Ready<Exec>>,
    telegram: Option<Ready<Telegram>>,
    feishu: Option<Ready<Feishu>>,
    feishu_bots: BTreeMap<String, Ready<FeishuBot>>,
}

/// One way, and where it leads.
enum Way<'a> {
    Webhook(&'a Webhook),
    Exec(&'a Exec),
    Telegram(&'a Telegram, telegram::Place),
    Feishu(&'a Feishu, feishu::Place),
    FeishuBot(&'a FeishuBot),
}

impl Deliver {
    /// As configured. What cannot be used is no mistake until somebody wants to use it.
    pub fn new(notify: &Notify, env: Env<'_>) -> Self {
        Self {
            webhooks: each(&notify.webhook, |settings| Webhook::new(settings, env)),
            execs: each(&notify.exec, Exec::new),
            telegram: notify.telegram.as_ref().map(|settings| Telegram::new(settings, env)),
            feishu: notify.feishu.as_ref().map(|settings| Feishu::new(settings, env)),
            feishu_bots: each(&notify.feishu_bot, |settings| FeishuBot::new(settings, env)),
        }
    }

    fn way(&self, target: &str) -> Result<Way<'_>, String> {
        let (platform, rest) =
            target.split_once(':').map_or((target, None), |(platform, rest)| (platform, Some(rest)));
        let name = || rest.filter(|rest| !rest.is_empty()).ok_or("it needs a name after the colon");
        match platform {
            "webhook" => Ok(Way::Webhook(of_name(&self.webhooks, name()?)?)),
            "exec" => Ok(Way::Exec(of_name(&self.execs, name()?)?)),
            "feishu-bot" => Ok(Way::FeishuBot(of_name(&self.feishu_bots, name()?)?)),
            "telegram" => {
                let telegram = ready(self.telegram.as_ref())?;
                Ok(Way::Telegram(telegram, telegram.place(rest)?))
            }
            "feishu" => {
                let feishu = ready(self.feishu.as_ref())?;
                Ok(Way::Feishu(feishu, feishu.place(rest)?))
            }
            "molecule" | "plugin" => Err(NOT_CONFIGURED.to_owned()),
            _ => Err("there is no such platform".to_owned()),
        }
    }

    /// What is configured and cannot be used, and why.
    pub fn unusable(&self) -> Vec<(String, String)> {
        let webhooks = wrong("webhook", &self.webhooks);
        let all = webhooks.chain(wrong("exec", &self.execs)).chain(wrong("feishu-bot", &self.feishu_bots));
        let telegram = self.telegram.iter().filter_map(|one| one.as_ref().err()).map(|why| ("telegram", why));
        let feishu = self.feishu.iter().filter_map(|one| one.as_ref().err()).map(|why| ("feishu", why));
        all.chain(telegram.chain(feishu).map(|(name, why)| (name.to_owned(), why.clone()))).collect()
    }

    /// The targets that can be used.
    pub fn known(&self) -> Vec<String> {
        let webhooks = names("webhook", &self.webhooks);
        let all = webhooks.chain(names("exec", &self.execs)).chain(names("feishu-bot", &self.feishu_bots));
        let telegram = self.telegram.iter().flatten().flat_map(Telegram::targets);
        all.chain(telegram).chain(self.feishu.iter().flatten().flat_map(Feishu::targets)).collect()
    }
}

/// The shortest path of an address that is taken for a secret.
const SECRET_PATH_BYTES: usize = 16;
/// What is said of a platform of which the configuration says nothing.
const NOT_CONFIGURED: &str = "it is not configured";

impl Sender for Deliver {
    fn check(&self, target: &str) -> Result<(), Unknown> {
        let unknown = |why| Unknown { target: target.to_owned(), why, known: self.known() };
        self.way(target).map(drop).map_err(unknown)
    }

    fn repeats(&self, attempt: &Attempt) -> Repeats {
        match self.way(&attempt.target) {
            Ok(Way::Webhook(webhook)) => webhook.repeats(),
            Ok(Way::Feishu(..)) => Feishu::repeats(),
            _ => Repeats::MayDouble,
        }
    }

    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome> {
        async move {
            match self.way(&attempt.target) {
                Ok(Way::Webhook(webhook)) => webhook.send(&attempt).await,
                Ok(Way::Exec(exec)) => exec.send(&attempt).await,
                Ok(Way::Telegram(telegram, place)) => telegram.send(&place, &attempt).await,
                Ok(Way::Feishu(feishu, place)) => feishu.send(&place, &attempt).await,
                Ok(Way::FeishuBot(bot)) => bot.send(&attempt).await,
                // The configuration has changed since; once it is put right, somebody can retry it.
                Err(why) => Outcome::failed(Refusal::Never, why),
            }
        }
        .boxed()
    }
}

fn each<S, T>(settings: &BTreeMap<String, S>, new: impl Fn(&S) -> Ready<T>) -> BTreeMap<String, Ready<T>> {
    settings.iter().map(|(name, settings)| (name.clone(), new(settings))).collect()
}

fn of_name<'a, T>(all: &'a BTreeMap<String, Ready<T>>, name: &str) -> Result<&'a T, String> {
    ready(all.get(name))
}

fn ready<T>(configured: Option<&Ready<T>>) -> Result<&T, String> {
    configured.ok_or(NOT_CONFIGURED)?.as_ref().map_err(Clone::clone)
}

fn names<'a, T>(platform: &'a str, all: &'a BTreeMap<String, Ready<T>>) -> impl Iterator<Item = String> + 'a {
    let usable = all.iter().filter(|(_, configured)| configured.is_ok());
    usable.map(move |(name, _)| format!("{platform}:{name}"))
}

fn wrong<'a, T>(
    platform: &'a str,
    all: &'a BTreeMap<String, Ready<T>>,
) -> impl Iterator<Item = (String, String)> + 'a {
    let wrong = all.iter().filter_map(|(name, configured)| Some((name, configured.as_ref().err()?)));
    wrong.map(move |(name, why)| (format!("{platform}:{name}"), why.clone()))
}

/// A text of the configuration: as it stands there, or from the variable that it names.
pub fn found(
    direct: Option<&Secret>,
    variable: Option<&str>,
    env: Env<'_>,
) -> Result<Option<String>, String> {
    match (direct, variable) {
        (Some(secret), _) => Ok(Some(secret.reveal().to_owned())),
        (None, Some(name)) => {
            let value = env(name).filter(|value| !value.is_empty());
            value.map(Some).ok_or_else(|| format!("the variable {name} is not set"))
        }
        (None, None) => Ok(None),
    }
}

/// All secrets that the configuration holds or names, to be hidden wherever they show up.
pub fn secrets(notify: &Notify, env: Env<'_>) -> Vec<String> {
    let mut pairs = Vec::new();
    let mut addresses = Vec::new();
    for webhook in notify.webhook.values() {
        addresses.push((&webhook.url, &webhook.url_env));
        pairs.push((&webhook.secret, &webhook.secret_env));
        pairs.push((&webhook.token, &webhook.token_env));
    }
    for bot in notify.feishu_bot.values() {
        addresses.push((&bot.url, &bot.url_env));
        pairs.push((&bot.secret, &bot.secret_env));
    }
    pairs.extend(notify.telegram.iter().map(|telegram| (&telegram.token, &telegram.token_env)));
    pairs.extend(notify.feishu.iter().map(|feishu| (&feishu.app_secret, &feishu.app_secret_env)));
    let found = |(direct, variable): (&Option<Secret>, &Option<String>)| {
        found(direct.as_ref(), variable.as_deref(), env).ok().flatten()
    };
    let of_addresses = addresses.into_iter().filter_map(found).flat_map(|url| of_address(&url));
    let bodies = notify.webhook.values().filter_map(|webhook| webhook.body.as_ref());
    let of_bodies = bodies.flat_map(|body| told_by_name(&json!(body)));
    of_addresses.chain(of_bodies).chain(pairs.into_iter().filter_map(found)).collect()
}

/// What of an address is worth hiding: `https://localhost/hook` is no secret, and may be talked about.
fn of_address(url: &str) -> Vec<String> {
    let Some((_, rest)) = url.split_once("://") else { return Vec::new() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let path = path.get(1..).filter(|path| path.len() >= SECRET_PATH_BYTES);
    let password =
        authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':')).map(|(_, word)| word);
    path.into_iter().chain(password).map(str::to_owned).collect()
}

/// The texts that are secrets by the name under which they stand; a topic of ntfy's is one, since it is all that one
/// needs to know.
pub fn told_by_name(settings: &Value) -> Vec<String> {
    let mut hidden = settings.clone();
    redact::Redactor::default().redact_json(&mut hidden);
    let mut secrets = Vec::new();
    gather(settings, &hidden, &mut secrets);
    secrets
}

fn gather(plain: &Value, hidden: &Value, secrets: &mut Vec<String>) {
    match plain {
        Value::String(text) if plain != hidden => {
            // Of `--token=abc` the value is the secret.
            let value = text.split_once('=').map_or(text.as_str(), |(_, value)| value);
            secrets.push(value.to_owned());
        }
        Value::Array(all) => (0..all.len()).for_each(|at| gather(&all[at], &hidden[at], secrets)),
        Value::Object(all) => {
            for (name, value) in all {
                secrets.extend(value.as_str().filter(|_| name == "topic").map(str::to_owned));
                gather(value, &hidden[name], secrets);
            }
        }
        _ => {}
    }
}

/// A notice as programs read it: its JSON, with times as everywhere.
fn data(attempt: &Attempt) -> Value {
    let mut data = serde_json::to_value(&attempt.notice).unwrap_or_default();
    data["delivery_id"] = attempt.key.as_str().into();
    data["title"] = text::title(&attempt.notice).into();
    data["at"] = crate::amount::rfc3339(attempt.notice.at).into();
    for (shown, asked) in data["requests"].as_array_mut().into_iter().flatten().zip(attempt.notice.requests())
    {
        shown["expires_at"] = asked.expires_at.map(crate::amount::rfc3339).into();
    }
    data
}

/// The task that a notice is about, as programs read it.
fn task_id(notice: &Notice) -> &str {
    notice.task().map_or(NO_TASK, |task| task.id.as_str())
}

#[cfg(test)]
mod tests;
