//! The `config.toml` that makes a real Codex talk to the scripted model and to nobody else.
//!
//! Knows Codex's configuration keys; knows nothing of scenarios.

use std::fmt::{self, Write as _};

/// The name of the model provider in the configuration.
pub const PROVIDER: &str = "scripted";

/// The model that the configuration names: bundled with Codex, so no list of models is asked for.
pub const MODEL: &str = "gpt-5.5";

/// The text of a `config.toml`; write it with `to_string`.
///
/// ```
/// use scripted_model::CodexConfig;
///
/// let text = CodexConfig::new("http://127.0.0.1:8080/v1")
///     .feature("default_mode_request_user_input", true)
///     .retries(4, 5)
///     .to_string();
/// assert!(text.contains("features.default_mode_request_user_input = true\n"));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct CodexConfig {
    base_url: String,
    request_retries: u32,
    stream_retries: u32,
    env_key: Option<String>,
    features: Vec<(String, bool)>,
    extra: String,
}

impl CodexConfig {
    /// No retries, no login, nothing but the model on the network.
    pub fn new(base_url: impl Into<String>) -> Self {
        // codex 0.166: with plugins, apps or analytics it looks for api.github.com and chatgpt.com, and offline
        // takes 4 to 5 seconds to exit.
        let features = ["plugins", "apps"].map(|name| (name.to_owned(), false)).to_vec();
        Self {
            base_url: base_url.into(),
            request_retries: 0,
            stream_retries: 0,
            env_key: None,
            features,
            extra: String::new(),
        }
    }

    /// How often Codex repeats a request that was refused, and one whose stream broke.
    pub fn retries(mut self, request: u32, stream: u32) -> Self {
        self.request_retries = request;
        self.stream_retries = stream;
        self
    }

    /// Makes Codex send the value of this environment variable as its bearer token.
    pub fn env_key(mut self, variable: impl Into<String>) -> Self {
        self.env_key = Some(variable.into());
        self
    }

    /// Turns a feature of Codex on or off.
    pub fn feature(mut self, name: impl Into<String>, on: bool) -> Self {
        let name = name.into();
        self.features.retain(|(known, _)| *known != name);
        self.features.push((name, on));
        self
    }

    /// An MCP server that Codex starts for each thread and speaks with on stdio.
    pub fn mcp_server(mut self, name: &str, command: &str, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
        let _ = writeln!(self.extra, "mcp_servers.{name}.command = {}", quoted(command));
        let _ = writeln!(self.extra, "mcp_servers.{name}.args = [{}]", args.join(", "));
        self
    }

    /// More configuration, after ours: dotted keys first, tables last.
    pub fn extra(mut self, toml: &str) -> Self {
        self.extra.push_str(toml);
        if !toml.ends_with('\n') {
            self.extra.push('\n');
        }
        self
    }
}

/// The text of a `config.toml` for the scripted model at `base_url`, with more lines after it.
///
/// The text is made of dotted keys alone, so `extra` may hold both dotted keys (`features.x = true`) and
/// tables. For retries and feature switches see [`CodexConfig`].
pub fn codex_config(base_url: &str, extra: &str) -> String {
    CodexConfig::new(base_url).extra(extra).to_string()
}

impl fmt::Display for CodexConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let provider = format!("model_providers.{PROVIDER}");
        writeln!(out, "model = {}", quoted(MODEL))?;
        writeln!(out, "model_provider = {}", quoted(PROVIDER))?;
        writeln!(out, "{provider}.name = \"Scripted model\"")?;
        writeln!(out, "{provider}.base_url = {}", quoted(&self.base_url))?;
        writeln!(out, "{provider}.wire_api = \"responses\"")?;
        writeln!(out, "{provider}.request_max_retries = {}", self.request_retries)?;
        writeln!(out, "{provider}.stream_max_retries = {}", self.stream_retries)?;
        if let Some(variable) = &self.env_key {
            writeln!(out, "{provider}.env_key = {}", quoted(variable))?;
        }
        writeln!(out, "analytics.enabled = false")?;
        // codex 0.166 warns of some features at a thread's start, now before the first turn and now in it.
        writeln!(out, "suppress_unstable_features_warning = true")?;
        for (name, on) in &self.features {
            writeln!(out, "features.{name} = {on}")?;
        }
        out.write_str(&self.extra)
    }
}

/// A TOML basic string. JSON's escapes are a subset of TOML's.
fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::{CodexConfig, codex_config};

    #[test]
    fn a_feature_is_switched_once() {
        let text = CodexConfig::new("http://x/v1").feature("apps", true).to_string();
        assert_eq!(text.matches("features.apps").count(), 1);
        assert!(text.contains("features.apps = true"));
    }

    #[test]
    fn paths_are_quoted_and_extra_lines_come_last() {
        let text = CodexConfig::new("http://x/v1").mcp_server("m", "/a \"b\"/c", &["--x"]).to_string();
        assert!(text.contains(r#"mcp_servers.m.command = "/a \"b\"/c""#), "{text}");
        assert!(text.contains(r#"mcp_servers.m.args = ["--x"]"#), "{text}");
        assert!(codex_config("http://x/v1", "[tables]\na = 1").ends_with("[tables]\na = 1\n"));
    }
}
