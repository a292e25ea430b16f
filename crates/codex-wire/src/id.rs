//! Identifiers as Codex writes them. Newtypes, so that a turn cannot be taken for a thread.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The id of a JSON-RPC message, kept exactly as it came.
///
/// codex 0.166 counts its own ids from the integer 0 and looks answers up by exact type: an answer to
/// `0` under the id `"0"` is ignored and the turn waits for ever.
///
/// ```
/// use codex_wire::RequestId;
///
/// let number: RequestId = serde_json::from_str("0").unwrap();
/// let text: RequestId = serde_json::from_str("\"0\"").unwrap();
/// assert_ne!(number, text);
/// assert_eq!(serde_json::to_string(&number).unwrap(), "0");
/// assert_eq!(serde_json::to_string(&text).unwrap(), "\"0\"");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// What the real server uses.
    Number(i64),
    /// Allowed by the protocol.
    Text(String),
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// Declares an id: a text with a type of its own, so that it cannot be confused with another kind of id.
#[macro_export]
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

text_id!(
    /// One Codex thread.
    ThreadId
);
text_id!(
    /// One turn of a thread.
    TurnId
);
text_id!(
    /// One start of a host process. Request ids begin again at 0 with each start, so a decision is valid in one epoch
    /// only.
    Epoch
);
