//! schemathesis, which tries the HTTP API against its own description: pinned, and in `.tools` alone.

use super::packages::pip;
use crate::workspace;

const WHAT: &str = "schemathesis==4.32.5";

/// Installs it, unless it is there.
pub fn install() -> Result<(), String> {
    pip(&workspace::root().join(".tools/schemathesis"), WHAT)
}
