//! How far directories are trusted, as callers are shown it.

use codex_bridge_core::trust::Trust;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words;

/// What holds in a directory, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustOf {
    /// The directory, by its real path.
    pub dir: String,
    /// What holds for a person at the terminal.
    #[schemars(schema_with = "words::trust")]
    pub trust: Trust,
    /// What that means.
    pub meaning: String,
    /// What holds for agents and remote callers.
    #[schemars(schema_with = "words::trust")]
    pub trust_for_others: Trust,
    /// The directory in the configuration that decides; none if none does and the default holds.
    pub decided_by: Option<String>,
    /// What whoever trusts it should know, each in a sentence.
    pub warnings: Vec<String>,
}

/// A directory that the operator has decided about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustEntry {
    /// The directory, by its real path.
    pub dir: String,
    /// How far it is trusted.
    #[schemars(schema_with = "words::trust")]
    pub trust: Trust,
    /// What that means.
    pub meaning: String,
    /// What is odd about the directory: that it does not exist, or belongs to another user.
    pub problem: Option<String>,
}

/// All decisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustList {
    /// The directories, by name.
    pub directories: Vec<TrustEntry>,
    /// What holds everywhere else, in words.
    pub elsewhere: String,
    /// The file that says so.
    pub config_file: String,
}

/// A decision that was made or taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustChange {
    /// What holds now.
    pub now: TrustOf,
    /// What the operator had decided about this very directory before, if anything.
    #[schemars(with = "Option<words::TrustWord>")]
    pub before: Option<Trust>,
    /// The file that it was written to.
    pub config_file: String,
    /// Tasks for which the level of before counts until their turn ends.
    pub unchanged_tasks: Vec<String>,
}
