//! The trust levels of directories, as callers are shown them.

use codex_bridge_core::trust::Trust;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words;

/// The trust level of a directory, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustOf {
    /// The real path of the directory.
    pub dir: String,
    /// The level for a person at the terminal.
    #[schemars(schema_with = "words::trust")]
    pub trust: Trust,
    /// What the level means.
    pub meaning: String,
    /// The level for agents and remote callers.
    #[schemars(schema_with = "words::trust")]
    pub trust_for_others: Trust,
    /// The directory in the configuration whose level applies; none if the default applies.
    pub decided_by: Option<String>,
    /// What to know before trusting the directory, one sentence each.
    pub warnings: Vec<String>,
}

/// A directory with a trust level in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustEntry {
    /// The real path of the directory.
    pub dir: String,
    /// The trust level.
    #[schemars(schema_with = "words::trust")]
    pub trust: Trust,
    /// What the level means.
    pub meaning: String,
    /// A problem with the directory: it does not exist, or belongs to another user.
    pub problem: Option<String>,
}

/// All trust levels in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustList {
    /// The directories, sorted by path.
    pub directories: Vec<TrustEntry>,
    /// The level everywhere else, in a sentence.
    pub elsewhere: String,
    /// The configuration file.
    pub config_file: String,
}

/// A trust level that was set or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustChange {
    /// The level now.
    pub now: TrustOf,
    /// The former level of this directory, if it had one.
    #[schemars(with = "Option<words::TrustWord>")]
    pub before: Option<Trust>,
    /// The configuration file that was changed.
    pub config_file: String,
    /// The tasks that keep the former level until their turn ends.
    pub unchanged_tasks: Vec<String>,
}
