//! Secrets of channels: written in the operator's file, or in an environment variable that the file names. They are never
//! shown.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// Looks up an environment variable.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The shortest path of a URL that counts as a secret.
const SECRET_PATH_BYTES: usize = 16;

/// A secret: the text itself (`token`), or the environment variable that holds it (`token_env`).
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "must be text in quotes")]
pub enum Secret {
    /// The text.
    Written(String),
    /// The variable that holds the text.
    Variable {
        /// The variable's name.
        env: String,
    },
}

impl Secret {
    /// The configured secret, or the variable `name`.
    pub fn or_variable(this: Option<&Self>, name: &str) -> Self {
        this.cloned().unwrap_or_else(|| Self::Variable { env: name.to_owned() })
    }

    /// The text of the secret.
    pub fn reveal(&self, env: Env<'_>) -> Result<String, String> {
        match self {
            Self::Written(text) => Ok(text.clone()),
            Self::Variable { env: name } => {
                env(name).filter(|value| !value.is_empty()).ok_or(format!("the variable {name} is not set"))
            }
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// The text of an optional secret.
pub fn reveal_optional(secret: Option<&Secret>, env: Env<'_>) -> Result<Option<String>, String> {
    secret.map(|secret| secret.reveal(env)).transpose()
}

/// The texts of all secrets that are set.
pub fn reveal_all<'a>(all: impl IntoIterator<Item = &'a Option<Secret>>, env: Env<'_>) -> Vec<String> {
    all.into_iter().flatten().filter_map(|secret| secret.reveal(env).ok()).collect()
}

/// The secret parts of a URL: its password, and a long path or query. `https://localhost/hook` has none.
pub fn secrets_in_url(url: &str) -> Vec<String> {
    let Some((_, rest)) = url.split_once("://") else { return Vec::new() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let path = path.get(1..).filter(|path| path.len() >= SECRET_PATH_BYTES);
    let password =
        authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':')).map(|(_, word)| word);
    path.into_iter().chain(password).map(str::to_owned).collect()
}

/// The values that are secrets by the name of their field. An ntfy `topic` counts too: it is the only credential there.
pub fn secrets_in_json(settings: &Value) -> Vec<String> {
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
