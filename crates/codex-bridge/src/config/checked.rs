//! Checks values of the operator's file while it is parsed, so that an error has its line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use codex_bridge_core::config::PROMPT_LIMIT_BYTES;
use codex_bridge_core::place::{absolute_paths, not_absolute};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A lower limit would refuse ordinary prompts.
const PROMPT_LIMIT_MIN: usize = 1024;

struct AbsolutePath(PathBuf);

impl<'de> Deserialize<'de> for AbsolutePath {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let path = PathBuf::deserialize(value)?;
        if path.is_absolute() {
            return Ok(Self(path));
        }
        Err(D::Error::custom(not_absolute(&path)))
    }
}

pub(super) fn path<'de, D: Deserializer<'de>>(value: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(Option::<AbsolutePath>::deserialize(value)?.map(|path| path.0))
}

pub(super) fn some_paths<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Vec<PathBuf>>, D::Error> {
    absolute_paths(value).map(Some)
}

pub(super) fn named_paths<'de, D: Deserializer<'de>>(
    value: D,
) -> Result<BTreeMap<String, PathBuf>, D::Error> {
    let paths = BTreeMap::<String, AbsolutePath>::deserialize(value)?;
    Ok(paths.into_iter().map(|(name, path)| (name, path.0)).collect())
}

/// The name of an environment variable.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Variable(String);

impl<'de> Deserialize<'de> for Variable {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let name = String::deserialize(value)?;
        if !name.is_empty() && !name.contains(['=', '\0']) {
            return Ok(Self(name));
        }
        Err(D::Error::custom(format!(
            "{name:?} is not the name of a variable; to set a value, use `[env.set]`"
        )))
    }
}

pub(super) fn variables<'de, D: Deserializer<'de>>(value: D) -> Result<BTreeSet<String>, D::Error> {
    Ok(BTreeSet::<Variable>::deserialize(value)?.into_iter().map(|name| name.0).collect())
}

pub(super) fn at_least_one<'de, D: Deserializer<'de>>(value: D) -> Result<usize, D::Error> {
    match usize::deserialize(value)? {
        0 => Err(D::Error::custom("must be at least 1")),
        number => Ok(number),
    }
}

pub(super) fn prompt_limit<'de, D: Deserializer<'de>>(value: D) -> Result<usize, D::Error> {
    let limit = usize::deserialize(value)?;
    if (PROMPT_LIMIT_MIN..=PROMPT_LIMIT_BYTES).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("must be {PROMPT_LIMIT_MIN} to {PROMPT_LIMIT_BYTES} bytes");
    Err(D::Error::custom(message))
}

/// Codex would write a rule to its home that runs the command without approval in every task and in the user's own terminal.
pub(super) fn permanent_rules<'de, D: Deserializer<'de>>(value: D) -> Result<(), D::Error> {
    if bool::deserialize(value)? {
        return Err(D::Error::custom("permanent rules are no longer supported; remove this line"));
    }
    Ok(())
}
