//! The reference library of Standard Webhooks, by which the tests check our signatures: in `.tools` alone.

use super::packages::pip;

/// Installs it if it is not there.
pub fn install() -> Result<(), String> {
    pip("standardwebhooks")
}
