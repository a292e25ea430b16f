//! When a host has served long enough. Pure: facts in, reason out.

use std::fmt;
use std::time::Duration;

/// When a host is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Older hosts are replaced.
    pub max_age: Duration,
    /// Hosts with more resident memory are replaced.
    pub max_rss_bytes: u64,
    /// Most threads on one host.
    pub max_threads: usize,
    /// Hosts that take longer to accept a connection are replaced.
    pub answer_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_age: Duration::from_hours(24),
            max_rss_bytes: 1 << 30,
            max_threads: 50,
            answer_within: Duration::from_secs(10),
        }
    }
}

/// The facts about a running host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Since codex was started.
    pub age: Duration,
    /// Codex's resident memory; `None` if it cannot be read.
    pub rss_bytes: Option<u64>,
    /// The version of the running codex.
    pub version: String,
    /// Whether codex accepted a connection in time.
    pub answers: bool,
}

/// Why a host is retired: it takes no new threads and ends with its last turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It accepts no connections.
    Silent,
    /// It runs another version than the configured one.
    Version {
        /// The running version.
        running: String,
        /// The configured version.
        wanted: String,
    },
    /// It is older than the limit.
    Age(Duration),
    /// It uses more memory than the limit.
    Memory {
        /// Resident bytes.
        rss_bytes: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Silent => formatter.write_str("accepts no connections"),
            Reason::Version { running, wanted } => {
                write!(formatter, "runs codex {running}, wanted is {wanted}")
            }
            Reason::Age(age) => write!(formatter, "has run for {} h", age.as_secs() / 3600),
            Reason::Memory { rss_bytes } => write!(formatter, "uses {} MiB", rss_bytes >> 20),
        }
    }
}

/// The reason to retire this host, if there is one.
pub fn retire_reason(facts: &Facts, limits: &Limits, wanted_version: &str) -> Option<Reason> {
    if !facts.answers {
        return Some(Reason::Silent);
    }
    if facts.version != wanted_version {
        return Some(Reason::Version { running: facts.version.clone(), wanted: wanted_version.to_owned() });
    }
    if facts.age >= limits.max_age {
        return Some(Reason::Age(facts.age));
    }
    let rss_bytes = facts.rss_bytes.filter(|rss| *rss >= limits.max_rss_bytes)?;
    Some(Reason::Memory { rss_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(age_h: u64, rss_mib: Option<u64>, version: &str) -> Option<String> {
        let age = Duration::from_hours(age_h);
        let facts = Facts {
            age,
            rss_bytes: rss_mib.map(|mib| mib << 20),
            version: version.to_owned(),
            answers: true,
        };
        retire_reason(&facts, &Limits::default(), "0.166.0").map(|reason| reason.to_string())
    }

    #[test]
    fn a_young_slim_host_of_the_wanted_version_stays() {
        assert_eq!(check(23, Some(1023), "0.166.0"), None);
        assert_eq!(check(0, None, "0.166.0"), None);
    }

    #[test]
    fn an_old_a_fat_and_an_outdated_host_go() {
        assert_eq!(check(24, Some(90), "0.166.0").unwrap(), "has run for 24 h");
        assert_eq!(check(0, Some(1024), "0.166.0").unwrap(), "uses 1024 MiB");
        assert_eq!(check(0, Some(90), "0.165.0").unwrap(), "runs codex 0.165.0, wanted is 0.166.0");
    }

    #[test]
    fn a_host_that_takes_no_connections_goes() {
        let facts = Facts { age: Duration::ZERO, rss_bytes: None, version: "0.166.0".into(), answers: false };
        assert_eq!(retire_reason(&facts, &Limits::default(), "0.166.0"), Some(Reason::Silent));
    }
}
