//! Who can be told, and how they are reached: the `[notify]` tables of the operator's file.
//!
//! The only place where the secrets of targets come from: written here, or in the environment variable that is named
//! here. They are never shown again.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// The `[notify]` tables.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Notify {
    /// `webhook:NAME`.
    pub webhook: BTreeMap<String, Webhook>,
    /// `exec:NAME`.
    pub exec: BTreeMap<String, Exec>,
    /// `telegram[:CHAT[:THREAD]]`.
    pub telegram: Option<Telegram>,
    /// `feishu[:CHAT[:MESSAGE]]`.
    pub feishu: Option<Feishu>,
    /// `feishu-bot:NAME`.
    #[serde(rename = "feishu-bot")]
    pub feishu_bot: BTreeMap<String, FeishuBot>,
}

/// An address that gets a POST for every notice.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Webhook {
    /// Where to. For many services whoever knows it may write there, so it counts as a secret.
    pub url: Option<Secret>,
    /// The variable that holds it.
    pub url_env: Option<String>,
    /// Signs each notice, as Standard Webhooks have it: `whsec_…`.
    pub secret: Option<Secret>,
    /// The variable that holds it.
    pub secret_env: Option<String>,
    /// Sent as a bearer token.
    pub token: Option<Secret>,
    /// The variable that holds it.
    pub token_env: Option<String>,
    /// What is sent instead of our own JSON: `{text}`, `{title}`, `{event}`, `{task_id}` and `{id}` are filled in.
    pub body: Option<toml::Table>,
    /// The longest `{text}`, in characters.
    pub limit: Option<usize>,
    /// How long an answer may take.
    pub timeout_s: Option<u64>,
}

/// A program of the operator's.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// The program and its arguments. No shell is involved.
    pub argv: Vec<String>,
    /// The longest message on its stdin, in characters.
    pub limit: Option<usize>,
    /// How long it may take.
    pub timeout_s: Option<u64>,
}

/// A Telegram bot.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telegram {
    /// The bot's token.
    pub token: Option<Secret>,
    /// The variable that holds it.
    pub token_env: Option<String>,
    /// The chat that `telegram` alone means.
    pub chat: Option<Chat>,
    /// Other chats that may be named.
    pub chats: Vec<Chat>,
    /// Another server than Telegram's own.
    pub api_base: Option<String>,
}

/// A chat of Telegram's: a number or an `@name`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Chat {
    /// Its number.
    Number(i64),
    /// Its name.
    Name(String),
}

impl fmt::Display for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// An app of Feishu's or Lark's.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Feishu {
    /// The app.
    pub app_id: String,
    /// Its secret.
    pub app_secret: Option<Secret>,
    /// The variable that holds it.
    pub app_secret_env: Option<String>,
    /// The chat or user that `feishu` alone means: `oc_…`, `ou_…` or `on_…`.
    pub chat: Option<String>,
    /// Others that may be named.
    pub chats: Vec<String>,
    /// `https://open.larksuite.com` for Lark; Feishu's own by default.
    pub api_base: Option<String>,
}

/// A custom bot of one Feishu or Lark group.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeishuBot {
    /// The address that Feishu gave. Whoever knows it may write to the group.
    pub url: Option<Secret>,
    /// The variable that holds it.
    pub url_env: Option<String>,
    /// Signs each message, if the group asks for that.
    pub secret: Option<Secret>,
    /// The variable that holds it.
    pub secret_env: Option<String>,
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text, for whom it is meant.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let text = "[telegram]\ntoken = \"12:planted\"\nchat = -100\nchats = [\"@ops\"]\n\
            [webhook.ci]\nurl = \"https://planted/x\"\nsecret = \"whsec_planted\"\n";
        let notify: Notify = toml::from_str(text).unwrap();
        assert_eq!(notify.telegram.as_ref().unwrap().chat, Some(Chat::Number(-100)));
        assert!(!format!("{notify:?}").contains("planted"), "{notify:?}");
    }

    #[test]
    fn a_key_that_is_not_known_is_a_mistake() {
        assert!(toml::from_str::<Notify>("[slack]\ntoken = \"x\"").is_err());
        assert!(toml::from_str::<Notify>("[exec.mail]\ncommand = \"x\"").is_err());
    }
}
