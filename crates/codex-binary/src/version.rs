//! Versions of codex, and which of them we work with. Knows nothing about files or processes.

use std::cmp::Ordering;
use std::fmt;

/// The oldest codex that is accepted.
pub const MINIMUM: Version = Version { major: 0, minor: 166, patch: 0, pre_release: false };

/// The newest codex that the tests run on.
pub const TESTED: Version = Version { major: 0, minor: 166, patch: 0, pre_release: false };

/// A version of codex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
    /// Whether a pre-release suffix (`-alpha.3`) followed: it counts as just below the release.
    pub pre_release: bool,
}

/// How a version compares with the supported range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// From [`MINIMUM`] to [`TESTED`].
    Supported,
    /// Below [`MINIMUM`]: to be refused.
    Older,
    /// Above [`TESTED`]: it may work, which deserves a warning.
    Newer,
}

impl Version {
    /// Reads the version from what `codex --version` prints (`codex-cli 0.166.0`).
    pub fn parse_cli_output(output: &str) -> Option<Self> {
        output.split_whitespace().find_map(parse_at_start)
    }

    /// Reads the version from the user agent that the app-server reports (`codex_bridge/0.166.0 (Debian …)`).
    pub fn parse_user_agent(user_agent: &str) -> Option<Self> {
        // The name before the slash is the client's own, and may itself hold blanks and slashes.
        user_agent.match_indices('/').find_map(|(slash, _)| parse_at_start(&user_agent[slash + 1..]))
    }

    /// How this version compares with the range [`MINIMUM`] to [`TESTED`].
    pub fn support(self) -> Support {
        if self < MINIMUM {
            Support::Older
        } else if self > TESTED {
            Support::Newer
        } else {
            Support::Supported
        }
    }

    fn rank(self) -> (u32, u32, u32, bool) {
        (self.major, self.minor, self.patch, !self.pre_release)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.pre_release { "-pre" } else { "" };
        write!(f, "{}.{}.{}{suffix}", self.major, self.minor, self.patch)
    }
}

/// Reads `x.y.z` at the very start of `text`, with an optional `v` before and an optional suffix behind it.
fn parse_at_start(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (major, rest) = number(text)?;
    let (minor, rest) = number(rest.strip_prefix('.')?)?;
    let (patch, rest) = number(rest.strip_prefix('.')?)?;
    match rest.chars().next() {
        // Four numbers with dots are an address, letters right behind the number are something else again.
        Some(next) if next == '.' || next.is_alphanumeric() => None,
        next => Some(Version { major, minor, patch, pre_release: next == Some('-') }),
    }
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let value = text[..end].parse().ok()?;
    Some((value, &text[end..]))
}

#[cfg(test)]
mod tests;
