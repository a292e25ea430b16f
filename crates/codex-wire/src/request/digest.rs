//! The digest of a request, which binds a decision to the request that was shown.

use serde_json::json;
use sha2::{Digest, Sha256};

use super::ServerRequest;
use crate::item::FileChange;

/// Bytes of the digest that are kept: enough against collisions.
const DIGEST_BYTES: usize = 16;

impl ServerRequest {
    /// A digest of everything that a decision covers, computed before redaction. A request to change files does not
    /// contain the changes: they are in `patch`, the item of the change.
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
        // Without the status of the patch, which changes while the request is open.
        let changes = patch.map(|patch| &patch.changes);
        let digest = Sha256::digest(json!([self, changes]).to_string());
        let start =
            digest.iter().take(DIGEST_BYTES).fold(0_u128, |start, byte| start << 8 | u128::from(*byte));
        format!("{start:032x}")
    }
}
