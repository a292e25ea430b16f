//! Tokens of remote callers: name, role, quota.
//!
//! A token is shown once, when it is created. The store keeps only its hash, so the database yields no usable token.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::seal;
use crate::task::TimeMs;

/// The beginning of every token. People and the redactor recognize it.
const PREFIX: &str = "cbt_";
/// Too many to guess; encoded as 43 characters.
const SECRET_BYTES: usize = 32;
/// The longest name.
const NAME_MAX_CHARS: usize = 64;

/// What a caller may do. Each role includes the roles before it.
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
    /// All roles, the weakest first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Approver];

    /// The word in JSON and in the store.
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

/// How much work the holder of a token may have handed over at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// How many tasks, whose last turn came by the token, may be unfinished. Parked tasks count.
    pub open_tasks: u32,
    /// How many bytes of prompts and instructions the token may have handed over to tasks that are still stored.
    pub bytes: u64,
}

/// The same values as in the migration that added quotas to existing tokens.
impl Default for Quota {
    fn default() -> Self {
        Self { open_tasks: 20, bytes: 64 * 1024 * 1024 }
    }
}

impl Quota {
    /// The highest quota that can be set. It is as good as none.
    pub const MOST: Self = Self { open_tasks: 100_000, bytes: 1 << 40 };

    fn check(self) -> Result<(), Error> {
        let fits = self.open_tasks <= Self::MOST.open_tasks && self.bytes <= Self::MOST.bytes;
        if fits { Ok(()) } else { Err(Error::BadQuota) }
    }
}

/// A change to a quota. `None` leaves a value as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewQuota {
    /// Unfinished tasks.
    pub open_tasks: Option<u32>,
    /// Bytes of prompts and instructions.
    pub bytes: Option<u64>,
}

impl NewQuota {
    /// The changed quota.
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
    /// Unfinished tasks.
    pub open_tasks: u64,
    /// Bytes of prompts and instructions.
    pub bytes: u64,
}

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The operator's name for the holder; unique.
    pub name: String,
    /// What the holder may do.
    pub role: Role,
    /// How much the holder may have handed over at once.
    pub quota: Quota,
    /// The SHA-256 of the token.
    pub hash: Vec<u8>,
    /// When the token was created.
    pub created_at: TimeMs,
    /// When the token was last used, to the minute.
    pub last_used_at: Option<TimeMs>,
    /// When the token was revoked.
    pub revoked_at: Option<TimeMs>,
}

/// Why a token cannot be created, changed or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name is not allowed.
    #[error("a token's name has 1 to {NAME_MAX_CHARS} letters, digits, dots, dashes or underscores")]
    BadName,
    /// A valid token has the name.
    #[error("there is a token {0} already")]
    Exists(String),
    /// The token does not exist or was revoked.
    #[error("there is no token {0}")]
    Unknown(String),
    /// The quota is above the maximum.
    #[error("a quota has at most {} open tasks and {} bytes", Quota::MOST.open_tasks, Quota::MOST.bytes)]
    BadQuota,
    /// Too many tasks of the token are unfinished.
    #[error("token {name} has {open} unfinished tasks, and may have {limit}")]
    TooManyOpen {
        /// The token.
        name: String,
        /// How many tasks are unfinished.
        open: u64,
        /// How many tasks may be.
        limit: u32,
    },
    /// The token has handed over too many bytes.
    #[error(
        "token {name} has handed over {used} bytes to stored tasks, and may have {limit}: {more} more do not fit"
    )]
    TooManyBytes {
        /// The token.
        name: String,
        /// How many bytes are stored.
        used: u64,
        /// How many bytes this hand-over would add.
        more: u64,
        /// How many bytes may be stored.
        limit: u64,
    },
    /// The operating system gave no randomness.
    #[error("no token could be made: {0}")]
    NoRandomness(String),
}

impl Token {
    /// Creates a token. Returns it with its secret, which is not kept.
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

    /// Whether the token has not been revoked.
    pub fn is_valid(&self) -> bool {
        self.revoked_at.is_none()
    }

    /// Whether this is the hash of the token's secret. Compares in constant time.
    pub(crate) fn is_of(&self, secret_hash: &[u8]) -> bool {
        self.hash.ct_eq(secret_hash).into()
    }
}

/// The hash that is stored of a secret.
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
