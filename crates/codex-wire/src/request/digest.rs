//! A digest of a request, by which a decision is bound to what was shown.

use serde_json::json;
use sha2::{Digest, Sha256};

use super::ServerRequest;
use crate::item::FileChange;

/// Bytes of a digest that are kept: enough that nobody finds a second request with the same one.
const DIGEST_BYTES: usize = 16;

impl ServerRequest {
    /// A digest of everything that a decision covers, as Codex sent it and before anything was redacted. The request to
    /// change files does not carry the changes: these come with `patch`, the item that it is about.
    ///
    /// ```
    /// use codex_wire::request::{ServerRequest, method};
    /// use serde_json::json;
    ///
    /// let asked = |command: &str| ServerRequest::parse(method::COMMAND, json!({ "command": command }));
    /// assert_eq!(asked("ls").digest(None), asked("ls").digest(None));
    /// assert_ne!(asked("ls").digest(None), asked("rm -r .").digest(None));
    /// ```
    pub fn digest(&self, patch: Option<&FileChange>) -> String {
        // How far the patch is says nothing about what it does, and changes.
        let changes = patch.map(|patch| &patch.changes);
        let digest = Sha256::digest(json!([self, changes]).to_string());
        let start =
            digest.iter().take(DIGEST_BYTES).fold(0_u128, |start, byte| start << 8 | u128::from(*byte));
        format!("{start:032x}")
    }
}
