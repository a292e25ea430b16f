//! A field of a form as callers see it: what an MCP server wants filled in, and what it takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One field of a form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Field {
    /// Its key in the filled form.
    pub name: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `string`, `number`, `integer`, `boolean`, `array` (several of its choices), or `other` for what we do not know.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it must be filled in.
    #[serde(default)]
    pub required: bool,
    /// What it has unless somebody says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The only values that it takes; none if it takes others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// The least that it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// The most that it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// The least number of characters, or of choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// The greatest number of characters, or of choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// `email`, `uri`, `date` or `date-time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

/// A value that a field takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// What is sent.
    pub value: String,
    /// What people read, if it is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}
