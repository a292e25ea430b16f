//! Threads, turns, their errors and their usage, as Codex reports them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::ActivePermissionProfile;
use crate::id::{ThreadId, TurnId};
use crate::item::Item;

/// A thread, as far as we read it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Thread {
    /// Its id.
    pub id: Option<String>,
    /// Older servers wrote the id here.
    pub session_id: Option<String>,
    /// Set for the threads of sub-agents.
    pub parent_thread_id: Option<String>,
    /// Whether it works or waits.
    pub status: ThreadStatus,
    /// Where its rollout lies; absent for ephemeral threads.
    pub path: Option<String>,
    /// Some or all turns, as the call asked for.
    pub turns: Vec<Turn>,
}

/// The settings of a thread that keep it within bounds, as `thread/settings/updated` tells them.
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

/// Whether a thread works or waits.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThreadStatus {
    /// `notLoaded`, `idle`, `systemError`, `active`, or what comes later.
    #[serde(rename = "type")]
    pub kind: String,
    /// `waitingOnApproval`, `waitingOnUserInput`.
    pub active_flags: Vec<String>,
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// Where it stands.
    #[serde(default)]
    pub status: TurnStatus,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<TurnError>,
    /// Its items, as many as the call asked for. `turn/completed` carries only the last agent message.
    #[serde(default)]
    pub items: Vec<Item>,
}

/// Where a turn stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TurnStatus {
    /// Still working.
    #[default]
    InProgress,
    /// Done.
    Completed,
    /// Stopped by someone.
    Interrupted,
    /// Gone wrong.
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
    /// Of the last model response.
    pub last: TokenCount,
    /// Of the whole thread, not of the turn.
    pub total: TokenCount,
    /// What the model can take.
    pub model_context_window: Option<u64>,
}

/// One count of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all(deserialize = "camelCase"), default)]
pub struct TokenCount {
    /// All of them.
    pub total_tokens: u64,
    /// Read, cached ones included.
    pub input_tokens: u64,
    /// Read from the cache.
    pub cached_input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Of those, reasoning.
    pub reasoning_output_tokens: u64,
}

/// `account/rateLimits/updated`, as far as we read it.
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
    /// How full it is.
    pub used_percent: f64,
    /// When it empties, in seconds since 1970.
    pub resets_at: Option<i64>,
}

impl RateLimits {
    /// When work can go on, if a window is full: the latest reset among the full ones.
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
