//! Slack's own library, by which the tests check that our stand-in of Slack is like it: in `.tools` alone.

use super::packages::pip;

/// Installs it if it is not there.
pub fn install() -> Result<(), String> {
    pip("slack-sdk")
}
