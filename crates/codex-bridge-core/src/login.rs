//! Which login a CODEX_HOME has, as far as its files tell. Reads no secret out of them and starts nothing.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::Config;

/// The home that a task uses: its own, else the operator's, else the one that Codex chooses by itself.
pub(crate) fn home(config: &Config, own: Option<&PathBuf>) -> PathBuf {
    let default = || config.parent_env.get("HOME").map(|home| Path::new(home).join(".codex"));
    own.or(config.codex_home.as_ref()).cloned().or_else(default).unwrap_or_default()
}

/// Where Codex keeps the login of a home.
pub(crate) fn file(home: &Path) -> PathBuf {
    home.join("auth.json")
}

/// Whether a home is logged in with ChatGPT. Such a login has a refresh token that changes with every use: two
/// processes that refresh it log each other out.
pub(crate) fn is_chatgpt(home: &Path) -> bool {
    let Ok(text) = std::fs::read(file(home)) else { return false };
    let Ok(login) = serde_json::from_slice::<Value>(&text) else { return false };
    // Files of older versions do not name the mode; their key, if there is one, comes before the tokens.
    match login["auth_mode"].as_str() {
        Some(mode) => mode.to_ascii_lowercase().starts_with("chatgpt"),
        None => login["tokens"].is_object() && !login["OPENAI_API_KEY"].is_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_chatgpt;

    #[test]
    fn only_a_login_with_tokens_that_rotate_counts_as_chatgpt() {
        let home = tempfile::tempdir().unwrap();
        assert!(!is_chatgpt(home.path()), "no login");
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
            assert_eq!(is_chatgpt(home.path()), expected, "{login}");
        }
    }
}
