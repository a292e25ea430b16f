//! Threads, turns, their errors and their usage, as Codex reports them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{ThreadId, TurnId};
use crate::item::Item;

/// A thread, with the fields that are used here.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Thread {
    /// Its id.
    pub id: Option<String>,
    /// Older servers wrote the id here.
    pub session_id: Option<String>,
    /// Set for the threads of sub-agents.
    pub parent_thread_id: Option<String>,
    /// Its status.
    pub status: ThreadStatus,
    /// The path of its rollout; absent for ephemeral threads.
    pub path: Option<String>,
    /// The turns that the call asked for.
    pub turns: Vec<Turn>,
}

/// The settings that bound a thread, from `thread/settings/updated`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThreadLimits {
    /// The directory.
    pub cwd: Option<String>,
    /// The approval policy: a string, or an object for granular ones.
    pub approval_policy: Option<Value>,
    /// Who reviews approvals.
    pub approvals_reviewer: Option<String>,
    /// The sandbox, `{"type": "readOnly", …}`.
    pub sandbox_policy: Option<Value>,
    /// The permission profile.
    pub active_permission_profile: Option<ActivePermissionProfile>,
}

/// A permission profile in effect on a thread. Codex does not report what the profile denies (codex 0.166).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ActivePermissionProfile {
    /// The name of the profile.
    pub id: String,
}

/// Whether a thread works or waits.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ThreadStatus {
    /// `notLoaded`, `idle`, `systemError`, `active`, or a value of a later Codex.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// Its status.
    #[serde(default)]
    pub status: TurnStatus,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<TurnError>,
    /// The items that the call asked for. `turn/completed` contains only the last agent message.
    #[serde(default)]
    pub items: Vec<Item>,
}

/// The status of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TurnStatus {
    /// It runs.
    #[default]
    InProgress,
    /// Done.
    Completed,
    /// It was interrupted.
    Interrupted,
    /// It failed.
    Failed,
    /// A status of a later Codex.
    #[serde(untagged)]
    Other(String),
}

/// Why a turn failed, or what it is retrying.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TurnError {
    /// For people.
    pub message: String,
    /// For programs: a known string, a one-key object, or anything (an open union).
    pub codex_error_info: Option<Value>,
    /// The cause behind a retry.
    pub additional_details: Option<String>,
}

impl TurnError {
    /// The name of the structured error: the string itself, or the key of the object.
    ///
    /// ```
    /// use codex_wire::thread::TurnError;
    ///
    /// let error: TurnError = serde_json::from_str(
    ///     r#"{"message":"x","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}}}"#).unwrap();
    /// assert_eq!(error.info(), Some("httpConnectionFailed"));
    /// assert_eq!(error.http_status(), Some(401));
    /// ```
    pub fn info(&self) -> Option<&str> {
        match self.codex_error_info.as_ref()? {
            Value::String(name) => Some(name),
            Value::Object(object) => object.keys().next().map(String::as_str),
            _ => None,
        }
    }

    /// The HTTP status that the structured error carries, if any.
    pub fn http_status(&self) -> Option<u16> {
        let details = self.codex_error_info.as_ref()?.as_object()?.values().next()?;
        u16::try_from(details.get("httpStatusCode")?.as_u64()?).ok()
    }
}

/// Token usage of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all(deserialize = "camelCase"), default)]
pub struct TokenUsage {
    /// Tokens of the last model response.
    pub last: TokenCount,
    /// Tokens of the whole thread, not of the turn.
    pub total: TokenCount,
    /// The size of the model's context window.
    pub model_context_window: Option<u64>,
}

/// One count of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all(deserialize = "camelCase"), default)]
pub struct TokenCount {
    /// All tokens.
    pub total_tokens: u64,
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Input tokens from the cache.
    pub cached_input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Output tokens for reasoning.
    pub reasoning_output_tokens: u64,
}

/// `account/rateLimits/updated`, with the fields that are used here.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimits {
    /// The short window.
    pub primary: Option<RateLimitWindow>,
    /// The long window.
    pub secondary: Option<RateLimitWindow>,
}

/// One window of [`RateLimits`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimitWindow {
    /// How much of it is used.
    pub used_percent: f64,
    /// When it is reset, in seconds since 1970.
    pub resets_at: Option<i64>,
}

impl RateLimits {
    /// When work can go on, if a window is used up: the latest reset of the used-up windows.
    pub fn resets_at(&self) -> Option<i64> {
        [&self.primary, &self.secondary]
            .into_iter()
            .flatten()
            .filter(|window| window.used_percent >= 100.0)
            .filter_map(|window| window.resets_at)
            .max()
    }
}

impl Thread {
    /// The id, under either of the keys that servers have used inside the thread.
    pub fn any_id(&self) -> Option<ThreadId> {
        self.id
            .as_ref()
            .or(self.session_id.as_ref())
            .filter(|id| !id.is_empty())
            .map(|id| ThreadId(id.clone()))
    }
}

#[cfg(test)]
mod tests;
