//! What is said in a chat: replies as they are, and what Codex asks with the words that decide it. Plain text, nothing in
//! it that a chat would act on, cut in the platform's own unit.

use codex_bridge_core::outbox::Attempt;

use crate::deliver::text::{self, Limit};

/// What an attempt says.
pub fn text(attempt: &Attempt, limit: Limit) -> String {
    text::chat(&attempt.notice, attempt.may_be_duplicate, limit)
}
