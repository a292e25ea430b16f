//! Tokens of callers that are not on this machine: who they are, what they may do, and until when.
//!
//! A token is shown once, when it is made. What is kept is its hash: whoever reads the database can use none.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::seal;
use crate::task::TimeMs;

/// How every token begins, so that people and redaction know one when they see it.
const PREFIX: &str = "cbt_";
/// As many as no one guesses; 43 characters.
const SECRET_BYTES: usize = 32;
/// The longest name.
const NAME_MAX_CHARS: usize = 64;

/// What a caller may do. A ladder: each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Also starts, steers, interrupts, continues, forks and releases tasks. Right for agents: they cannot approve
    /// their own work.
    Operator,
    /// Also decides what Codex asks.
    Approver,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Approver];

    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|role| role.as_str() == text);
        known.ok_or_else(|| format!("unknown role {text:?}: use viewer, operator or approver"))
    }
}

/// How much the holder of a token may have handed over at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// So many tasks whose last turn came by it may be under way, those that wait or go on by themselves among them.
    pub open_tasks: u32,
    /// So many bytes of prompts and instructions it may have handed over to tasks that are still remembered.
    pub bytes: u64,
}

/// As in the migration that gave quotas to tokens of before.
impl Default for Quota {
    fn default() -> Self {
        Self { open_tasks: 20, bytes: 64 * 1024 * 1024 }
    }
}

impl Quota {
    /// The most that can be set: what is more means that there is none.
    pub const MOST: Self = Self { open_tasks: 100_000, bytes: 1 << 40 };

    fn check(self) -> Result<(), Error> {
        let fits = self.open_tasks <= Self::MOST.open_tasks && self.bytes <= Self::MOST.bytes;
        if fits { Ok(()) } else { Err(Error::BadQuota) }
    }
}

/// A change of a quota: what is not given stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewQuota {
    /// Tasks under way.
    pub open_tasks: Option<u32>,
    /// Bytes of prompts and instructions.
    pub bytes: Option<u64>,
}

impl NewQuota {
    /// The quota that it makes of another.
    pub(crate) fn over(self, before: Quota) -> Result<Quota, Error> {
        let quota = Quota {
            open_tasks: self.open_tasks.unwrap_or(before.open_tasks),
            bytes: self.bytes.unwrap_or(before.bytes),
        };
        quota.check().map(|()| quota)
    }
}

/// What a token has used of its quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Tasks under way.
    pub open_tasks: u64,
    /// Bytes of prompts and instructions.
    pub bytes: u64,
}

/// A token as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Whose it is, in a word of the operator's; unique.
    pub name: String,
    /// What its holder may do.
    pub role: Role,
    /// How much its holder may have handed over at once.
    pub quota: Quota,
    /// The SHA-256 of it.
    pub hash: Vec<u8>,
    /// When it was made.
    pub created_at: TimeMs,
    /// When it was last seen in use, to the minute.
    pub last_used_at: Option<TimeMs>,
    /// Since when it is worth nothing.
    pub revoked_at: Option<TimeMs>,
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name will not do.
    #[error("a token's name has 1 to {NAME_MAX_CHARS} letters, digits, dots, dashes or underscores")]
    BadName,
    /// The name is taken by one that is in use.
    #[error("there is a token {0} already")]
    Exists(String),
    /// No such token, or it was revoked.
    #[error("there is no token {0}")]
    Unknown(String),
    /// There is no such quota.
    #[error("a quota has at most {} open tasks and {} bytes", Quota::MOST.open_tasks, Quota::MOST.bytes)]
    BadQuota,
    /// So many tasks are under way already.
    #[error("token {name} has {open} tasks under way, and may have {limit}")]
    TooManyOpen {
        /// Whose.
        name: String,
        /// How many there are.
        open: u64,
        /// How many there may be.
        limit: u32,
    },
    /// So much was handed over already.
    #[error(
        "token {name} has handed over {used} bytes that are still remembered, and may have {limit}: {more} more do not fit"
    )]
    TooManyBytes {
        /// Whose.
        name: String,
        /// How many there are.
        used: u64,
        /// How many there would be on top.
        more: u64,
        /// How many there may be.
        limit: u64,
    },
    /// No randomness.
    #[error("no token could be made: {0}")]
    NoRandomness(String),
}

impl Token {
    /// A new one, and its secret, which nobody will see again.
    pub(crate) fn new(name: &str, role: Role, quota: Quota, now: TimeMs) -> Result<(Self, String), Error> {
        check_name(name)?;
        let random: [u8; SECRET_BYTES] =
            seal::random().map_err(|error| Error::NoRandomness(error.to_string()))?;
        let secret = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let token = Self {
            name: name.to_owned(),
            role,
            quota,
            hash: hash(&secret),
            created_at: now,
            last_used_at: None,
            revoked_at: None,
        };
        Ok((token, secret))
    }

    /// Whether it still opens anything.
    pub fn is_valid(&self) -> bool {
        self.revoked_at.is_none()
    }

    /// Whether this secret is its own. How long it takes tells nothing.
    pub(crate) fn is_of(&self, secret_hash: &[u8]) -> bool {
        self.hash.ct_eq(secret_hash).into()
    }
}

/// What is kept of a secret.
pub(crate) fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    let fits = (1..=NAME_MAX_CHARS).contains(&name.chars().count()) && name.chars().all(is_plain);
    if fits { Ok(()) } else { Err(Error::BadName) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_secret_alone() {
        let (token, secret) = Token::new("phone", Role::Approver, Quota::default(), 1).unwrap();
        assert_eq!((secret.len(), &secret[..4]), (47, "cbt_"));
        assert!(token.is_of(&hash(&secret)));
        assert!(!token.is_of(&hash(&secret[..46])) && !token.is_of(&[]) && !token.is_of(&token.hash[..31]));
        let (_, another) = Token::new("phone", Role::Approver, Quota::default(), 1).unwrap();
        assert_ne!(secret, another);
    }

    #[test]
    fn a_token_that_shows_up_in_a_text_is_hidden() {
        let (_, secret) = Token::new("phone", Role::Viewer, Quota::default(), 1).unwrap();
        let said = format!("curl -H 'x: {secret}'");
        let shown = redact::Redactor::default().redact(&said);
        assert!(!shown.contains(&secret[..12]), "{shown}");
    }

    #[test]
    fn names_are_plain_words() {
        for bad in ["", " ", "a b", "a/b", "é", &"x".repeat(65)] {
            assert_eq!(
                Token::new(bad, Role::Viewer, Quota::default(), 1).unwrap_err(),
                Error::BadName,
                "{bad:?}"
            );
        }
        assert!(Token::new("my-phone_2.local", Role::Viewer, Quota::default(), 1).is_ok());
    }

    #[test]
    fn a_change_of_a_quota_leaves_the_rest_and_keeps_to_what_can_be_counted() {
        let before = Quota::default();
        assert_eq!(NewQuota::default().over(before), Ok(before));
        let changed = NewQuota { open_tasks: Some(0), bytes: None }.over(before);
        assert_eq!(changed, Ok(Quota { open_tasks: 0, bytes: before.bytes }));
        let too_many = NewQuota { open_tasks: None, bytes: Some(Quota::MOST.bytes + 1) };
        assert_eq!(too_many.over(before), Err(Error::BadQuota));
    }

    #[test]
    fn the_roles_are_a_ladder() {
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Approver);
        assert_eq!(Role::ALL.map(|role| role.as_str().parse()), Role::ALL.map(Ok));
        assert!("root".parse::<Role>().is_err());
    }
}
