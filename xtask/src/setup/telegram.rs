//! A library for bots of Telegram's, by which the tests check that our stand-in of Telegram is like it: pinned, and in
//! `.tools` alone.

use super::packages::pip;
use crate::workspace;

const PYTHON: &str = "python-telegram-bot==22.8";

/// Installs it if it is not there.
pub fn install() -> Result<(), String> {
    pip(&workspace::root().join(".tools/python-telegram-bot"), PYTHON)
}
