//! Answers a session's questions with what people decide, whenever they do.

use std::sync::Arc;

use codex_session::{Approver, Ask, Decider, Decision, RequestKey};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::bridge::Inner;

/// The people behind this bridge. The request itself is recorded by the runner, from the journal.
pub(super) struct People(pub(super) Arc<Inner>);

impl Approver for People {
    fn decide(&self, _: Ask) -> BoxFuture<'static, Decision> {
        // Never asked without the request's name.
        std::future::ready(Decision::Decline).boxed()
    }

    fn decide_request(&self, key: RequestKey, ask: Ask) -> BoxFuture<'static, (Decision, Decider)> {
        let inner = Arc::clone(&self.0);
        async move { inner.decisions.wait(key, ask.digest).await }.boxed()
    }
}
