//! The ways in which the provider says no, as Codex 0.166 tells them apart.
//!
//! What each becomes on the failed turn (`codexErrorInfo`) is shown by the tests of this crate.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Response, Step};

impl Response {
    /// An HTTP answer instead of a stream.
    pub fn http(status: u16, body: Value) -> Self {
        Self { steps: vec![Step::Http { status, body }], ..Self::default() }
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// 401: `httpConnectionFailed` with the status, not `unauthorized`.
    pub fn unauthorized() -> Self {
        Self::http(401, error("invalid_request_error", "invalid_api_key", "Incorrect API key provided."))
    }

    /// 403: `httpConnectionFailed` with the status.
    pub fn forbidden() -> Self {
        Self::http(403, error("invalid_request_error", "forbidden", "You may not use this project."))
    }

    /// 404 `model_not_found`: `modelNotFound`.
    pub fn model_not_found() -> Self {
        Self::http(404, error("invalid_request_error", "model_not_found", "The model does not exist."))
    }

    /// 429 with `Retry-After`: `responseTooManyFailedAttempts` once the retries are used up.
    pub fn too_many_requests(retry_after: Duration) -> Self {
        Self::http(429, error("requests", "rate_limit_exceeded", "Rate limit reached."))
            .header("retry-after", retry_after.as_secs().to_string())
    }

    /// 429 `usage_limit_reached` with the rate-limit headers of a plan: `usageLimitExceeded`, and
    /// `account/rateLimits/updated` with the time of the reset.
    pub fn usage_limit_reached(resets_in: Duration) -> Self {
        let resets_at =
            (SystemTime::now() + resets_in).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let body = json!({"error": {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "plan_type": "plus",
            "resets_at": resets_at,
            "resets_in_seconds": resets_in.as_secs(),
        }});
        Self::http(429, body)
            .header("x-codex-primary-used-percent", "100.0")
            .header("x-codex-primary-window-minutes", "300")
            .header("x-codex-primary-reset-at", resets_at.to_string())
    }

    /// 429 `insufficient_quota`: `usageLimitExceeded`.
    pub fn insufficient_quota() -> Self {
        Self::http(429, error("insufficient_quota", "insufficient_quota", "You exceeded your current quota."))
    }

    /// 500: `internalServerError`.
    pub fn internal_error() -> Self {
        Self::http(500, error("server_error", "server_error", "The server had an error."))
    }

    /// 503 `server_is_overloaded`: `serverOverloaded`.
    pub fn overloaded() -> Self {
        Self::http(503, error("server_error", "server_is_overloaded", "The server is overloaded."))
    }

    /// `response.failed` with `context_length_exceeded`: `contextWindowExceeded`.
    pub fn context_length_exceeded() -> Self {
        Self::failed("context_length_exceeded", "Your input exceeds the context window of this model.")
    }

    /// `response.failed` with `rate_limit_exceeded`: `rateLimitExceeded`.
    pub fn rate_limit_exceeded() -> Self {
        Self::failed("rate_limit_exceeded", "Rate limit reached for this model.")
    }

    /// `response.failed` with `server_error`: `other`.
    pub fn server_error() -> Self {
        Self::failed("server_error", "An error occurred while processing your request.")
    }

    /// A stream that ends with `response.failed`.
    pub fn failed(code: &str, message: &str) -> Self {
        let step = Step::Failed { code: code.to_owned(), message: message.to_owned() };
        Self { steps: vec![step], ..Self::default() }
    }
}

fn error(kind: &str, code: &str, message: &str) -> Value {
    json!({"error": {"type": kind, "code": code, "message": message, "param": null}})
}
