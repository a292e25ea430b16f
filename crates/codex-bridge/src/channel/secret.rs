//! Secrets of channels: written in the operator's file, or in the environment variable that is named there. They are never
//! shown again.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// How variables are looked up.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The shortest path of an address that is taken for a secret.
const SECRET_PATH_BYTES: usize = 16;

/// A text that is not shown: as it stands in the file, or from the variable that is named there (`token_env`).
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "it must be a text")]
pub enum Secret {
    /// The text.
    Written(String),
    /// The variable that holds it.
    Variable {
        /// Its name.
        env: String,
    },
}

impl Secret {
    /// The variable that holds it unless the file says otherwise.
    pub fn or_variable(this: Option<&Self>, name: &str) -> Self {
        this.cloned().unwrap_or_else(|| Self::Variable { env: name.to_owned() })
    }

    /// The text, for whom it is meant.
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

/// A text that need not be there.
pub fn found(secret: Option<&Secret>, env: Env<'_>) -> Result<Option<String>, String> {
    secret.map(|secret| secret.reveal(env)).transpose()
}

/// Those of these that are there.
pub fn all_found<'a>(all: impl IntoIterator<Item = &'a Option<Secret>>, env: Env<'_>) -> Vec<String> {
    all.into_iter().flatten().filter_map(|secret| secret.reveal(env).ok()).collect()
}

/// What of an address is worth hiding: `https://localhost/hook` is no secret, and may be talked about.
pub fn of_address(url: &str) -> Vec<String> {
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
