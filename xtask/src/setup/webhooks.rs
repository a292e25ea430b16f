//! The reference library of Standard Webhooks, by which the tests check our signatures: pinned, and in `.tools` alone.

use super::packages::pip;
use crate::workspace;

const PYTHON: &str = "standardwebhooks==1.1.0";

/// Installs it if it is not there.
pub fn install() -> Result<(), String> {
    pip(&workspace::root().join(".tools/standardwebhooks"), PYTHON)
}
