//! The platform's HTTP calls, with its headers.

use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use serde_json::{Value, json};

use super::super::ChannelError;
use crate::channel::http::{self, Call, Reply};

/// One workspace of the platform.
pub struct Api {
    base: String,
    workspace: String,
    token: String,
    org: Option<String>,
}

impl Api {
    pub fn new(base: &str, workspace: &str, token: String, org: Option<String>) -> Self {
        Self { base: base.trim_end_matches('/').to_owned(), workspace: workspace.to_owned(), token, org }
    }

    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// A path below our own workspace.
    pub fn of_workspace(&self, path: &str) -> String {
        format!("/workspaces/{}/{path}", self.workspace)
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("authorization", format!("Bearer {}", self.token)),
            // Without this header the hosted platform answers with a web page.
            ("origin", self.base.clone()),
            ("x-workspace-id", self.workspace.clone()),
        ];
        headers.extend(self.org.iter().map(|org| ("x-molecule-org-id", org.clone())));
        headers
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply, http::Error> {
        let post = Call { headers: self.headers(), ..Call::post(format!("{}{path}", self.base), body) };
        post.send().await
    }

    pub async fn get(&self, path: &str) -> Result<Reply, http::Error> {
        let url = format!("{}{path}", self.base);
        Call { headers: self.headers(), ..Call::get(url) }.send().await
    }

    /// Rows of the activity log.
    pub async fn activity(&self, query: &str) -> Result<Reply, http::Error> {
        let path = self.of_workspace("activity");
        self.get(&format!("{path}?type=a2a_receive&include=peer_info&{query}")).await
    }

    /// Writes a message on the canvas.
    pub async fn notify(&self, text: &str) -> Outcome {
        match self.post(&self.of_workspace("notify"), &json!({ "message": text })).await {
            Ok(reply) if reply.is_success() => Outcome::delivered(None),
            Ok(reply) => refusal(&reply),
            Err(error) => error.into(),
        }
    }
}

/// What a reply means that is no success.
pub fn refusal(reply: &Reply) -> Outcome {
    if !matches!(reply.status, 400 | 403) {
        return reply.refusal();
    }
    let why = reply.body["error"].as_str().unwrap_or("without a reason").chars().take(200);
    let why = format!("the platform answered {}: {}", reply.status, why.collect::<String>());
    Outcome::failed(Refusal::Never, why)
}

/// The error for a reply that may be different later.
pub fn retry_later(reply: &Reply) -> ChannelError {
    ChannelError::Retry {
        after: reply.retry_after,
        reason: format!("the platform answered {}", reply.status),
    }
}
