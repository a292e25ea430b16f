//! A library for bots of Discord's, by which the tests check that our stand-in of Discord is like it: in `.tools` alone.

use super::packages::pip;

/// Installs it if it is not there.
pub fn install() -> Result<(), String> {
    pip("discord-py")
}
