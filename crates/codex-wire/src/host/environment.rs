//! Which variables of our own environment are passed to a host.
//!
//! An allow-list: commands that a model writes run with this environment, so chat tokens, GitHub tokens and other
//! secrets of the surrounding program must not be in it. All functions are pure, except [`of_this_process`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use super::record::MARKER;

/// What shells, network clients and locales need.
const ALWAYS: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "TERM", "TMPDIR", "SSH_AUTH_SOCK"];

/// Proxies; programs differ in which case they read.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"];

/// Where extra certificate authorities are, for Codex and for the programs that it starts.
const AUTHORITIES: [&str; 6] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CODEX_CA_CERTIFICATE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// The credentials that Codex's own providers read.
const PROVIDER_KEYS: [&str; 2] = ["OPENAI_API_KEY", "CODEX_API_KEY"];

/// Names that the operator's list cannot set, because they are set elsewhere. HOME is never changed: commands need the
/// user's real configuration of git, ssh and so on.
const NOT_SETTABLE: [&str; 4] = ["HOME", "CODEX_HOME", NO_GIT.0, MARKER];

/// A variable that makes Codex's own git find no repository. codex 0.166 runs `git status` in the directory of a thread,
/// outside of any sandbox, and a repository's filters are programs that git runs. Commands do not see the variable.
pub const NO_GIT: (&str, &str) = ("GIT_DIR", "/nonexistent");

/// The operator's additions to the allow-list.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EnvPolicy {
    /// Names to pass on if they are set.
    pub pass: BTreeSet<String>,
    /// Variables to set, replacing our own values.
    pub set: BTreeMap<String, String>,
}

/// Values may be secrets: only names are shown.
impl fmt::Debug for EnvPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set: Vec<&String> = self.set.keys().collect();
        formatter.debug_struct("EnvPolicy").field("pass", &self.pass).field("set", &set).finish()
    }
}

/// The variables of one host.
#[derive(Debug, Clone, Copy)]
pub struct HostVariables<'a> {
    /// The host's id, the value of the mark.
    pub host_id: &'a str,
    /// The requested home; `None` leaves the choice to Codex.
    pub codex_home: Option<&'a Path>,
    /// Names that Codex's configuration mentions, see [`names_in_config`].
    pub config_names: &'a BTreeSet<String>,
}

/// Our own environment, without entries that are not UTF-8.
pub fn of_this_process() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The whole environment of a host.
pub fn child_env(
    parent: impl IntoIterator<Item = (String, String)>,
    policy: &EnvPolicy,
    host: HostVariables<'_>,
) -> BTreeMap<String, String> {
    let wanted = |name: &str| passes(name) || policy.pass.contains(name) || host.config_names.contains(name);
    // A CODEX_HOME in our own environment is not the one that the operator configured.
    let ours = |name: &str| name == "CODEX_HOME" || name == NO_GIT.0 || name == MARKER;
    let mut env: BTreeMap<String, String> =
        parent.into_iter().filter(|(name, _)| wanted(name) && !ours(name)).collect();
    env.insert("RUST_LOG".to_owned(), "warn".to_owned());
    env.insert("NO_COLOR".to_owned(), "1".to_owned());
    let settable = policy.set.iter().filter(|(name, _)| !NOT_SETTABLE.contains(&name.as_str()));
    env.extend(settable.map(|(name, value)| (name.clone(), value.clone())));
    if let Some(home) = host.codex_home {
        env.insert("CODEX_HOME".to_owned(), home.to_string_lossy().into_owned());
    }
    env.insert(NO_GIT.0.to_owned(), NO_GIT.1.to_owned());
    env.insert(MARKER.to_owned(), host.host_id.to_owned());
    env
}

/// The names of variables that Codex's `config.toml` tells its providers to read: `env_key = "NAME"` and the values of
/// `env_http_headers`.
///
/// A scan by line, not a TOML parser: it finds all forms of a table (inline, dotted, as a section) and skips comments.
/// It misses a value on a line of its own, which the operator can add to [`EnvPolicy::pass`]. A false match is
/// harmless: it is a name that the user wrote next to `env_key`.
pub fn names_in_config(config: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut in_headers = false;
    for line in config.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        if line.starts_with('[') {
            in_headers = line.trim_end_matches(']').ends_with("env_http_headers");
        } else if in_headers || key.contains("env_http_headers.") {
            names.extend(quoted(value));
        }
        names.extend(after_key(line, "env_key").and_then(quoted));
        names.extend(after_key(line, "env_http_headers").map(values_of_inline_table).into_iter().flatten());
    }
    names.retain(|name| is_variable_name(name));
    names
}

fn passes(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    ALWAYS.contains(&name)
        || name.starts_with("LC_")
        || AUTHORITIES.contains(&name)
        || PROVIDER_KEYS.contains(&name)
        || (PROXIES.contains(&upper.as_str()) && (name == upper || name == upper.to_ascii_lowercase()))
}

/// The text after `key =` in a line.
fn after_key<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.match_indices(key).find_map(|(at, _)| {
        let before = line[..at].chars().next_back();
        let whole = before.is_none_or(|char| !char.is_alphanumeric() && char != '_');
        let rest = line[at + key.len()..].trim_start_matches(['"', '\'']).trim_start();
        rest.strip_prefix('=').filter(|_| whole)
    })
}

/// The string that a value begins with.
fn quoted(value: &str) -> Option<String> {
    let value = value.trim_start();
    let mark = value.chars().next().filter(|mark| matches!(mark, '"' | '\''))?;
    let (inside, _) = value[1..].split_once(mark)?;
    Some(inside.to_owned())
}

fn values_of_inline_table(table: &str) -> Vec<String> {
    let inside = table.split_once('{').map_or("", |(_, rest)| rest);
    let inside = inside.split_once('}').map_or(inside, |(inside, _)| inside);
    inside.split(',').filter_map(|pair| quoted(pair.rsplit_once('=')?.1)).collect()
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

#[cfg(test)]
mod tests;
