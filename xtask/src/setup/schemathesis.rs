//! schemathesis, which tries the HTTP API against its own description: in `.tools` alone.

use super::packages::pip;

/// Installs it, unless it is there.
pub fn install() -> Result<(), String> {
    pip("schemathesis")
}
