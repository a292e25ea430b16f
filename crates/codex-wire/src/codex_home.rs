//! Reads the configuration and the login of a CODEX_HOME. Returns no secrets, and writes nothing.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::user_config::UserConfig;

/// The configuration and the login of a CODEX_HOME.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodexHome {
    /// The user's `config.toml`.
    pub config: UserConfig,
    /// The login.
    pub login: Login,
}

/// The login of a home.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Whether it is a ChatGPT login. Its refresh token changes with every use: two processes that refresh it log each
    /// other out.
    pub is_chatgpt: bool,
    /// Changes when somebody logs in or out.
    pub fingerprint: String,
}

impl CodexHome {
    /// Reads the files of a home. Missing files give the defaults.
    pub fn read(dir: &Path) -> Self {
        Self { config: UserConfig::read(dir), login: Login::read(dir) }
    }
}

impl Login {
    fn read(dir: &Path) -> Self {
        let file = auth_file(dir);
        let fingerprint = match std::fs::metadata(&file).and_then(|found| found.modified()) {
            Ok(modified) => format!("{modified:?}"),
            Err(_) => "none".to_owned(),
        };
        let is_chatgpt = std::fs::read(file).is_ok_and(|text| is_chatgpt(&text));
        Self { is_chatgpt, fingerprint }
    }
}

/// Where Codex keeps the login of a home.
fn auth_file(dir: &Path) -> PathBuf {
    dir.join("auth.json")
}

fn is_chatgpt(text: &[u8]) -> bool {
    let Ok(login) = serde_json::from_slice::<Value>(text) else { return false };
    // Files of older versions have no `auth_mode`; there an API key takes precedence over tokens.
    match login["auth_mode"].as_str() {
        Some(mode) => mode.to_ascii_lowercase().starts_with("chatgpt"),
        None => login["tokens"].is_object() && !login["OPENAI_API_KEY"].is_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_login_with_tokens_that_rotate_counts_as_chatgpt() {
        let home = tempfile::tempdir().unwrap();
        let none = CodexHome::read(home.path()).login;
        assert_eq!(none, Login { is_chatgpt: false, fingerprint: "none".to_owned() });
        for (login, expected) in [
            (r#"{"auth_mode": "chatgpt", "OPENAI_API_KEY": null, "tokens": {"refresh_token": "x"}}"#, true),
            (r#"{"OPENAI_API_KEY": null, "tokens": {"refresh_token": "x"}}"#, true),
            (r#"{"auth_mode": "apikey", "OPENAI_API_KEY": "k", "tokens": null}"#, false),
            (r#"{"OPENAI_API_KEY": "k", "tokens": {"refresh_token": "old"}}"#, false),
            (r#"{"OPENAI_API_KEY": "k"}"#, false),
            ("{}", false),
            ("half a fi", false),
        ] {
            std::fs::write(home.path().join("auth.json"), login).unwrap();
            let found = CodexHome::read(home.path()).login;
            assert_eq!(found.is_chatgpt, expected, "{login}");
            assert_ne!(found.fingerprint, "none");
        }
    }
}
