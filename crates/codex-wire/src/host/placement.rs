//! Which host a new thread goes to. Pure: facts in, decision out.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::retirement::Limits;

/// What a host is started for. Threads of different identities never share a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// The requested CODEX_HOME; `None` leaves the choice to Codex.
    pub codex_home: Option<PathBuf>,
    /// The model provider. codex 0.166: a thread of another provider starts but cannot run a turn.
    pub provider: String,
    /// A fingerprint of the environment, chosen by the caller.
    pub environment: String,
    /// The single client of the host, as named by the caller; empty for a shared host.
    pub alone: String,
    /// Whether only one host may run on this home: two hosts would refresh the tokens of a ChatGPT login against each
    /// other.
    pub exclusive_home: bool,
}

/// The facts about a living host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// The host's id.
    pub id: String,
    /// Its identity.
    pub identity: Identity,
    /// How many threads are on it.
    pub threads: usize,
    /// Whether it is being retired and takes no new threads.
    pub retiring: bool,
}

/// Where a new thread goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// On the host with this id.
    Use(String),
    /// On a new host.
    Start,
    /// Nowhere yet: the only host that this home may have takes no more threads now.
    Wait,
}

/// Decides for one new thread.
pub fn place(hosts: &[HostFacts], wanted: &Identity, limits: &Limits) -> Placement {
    let has_room = |host: &&HostFacts| !host.retiring && host.threads < limits.max_threads;
    // A login or logout while a host runs changes how many hosts may run, not which threads this one takes.
    let serves = |host: &&HostFacts| {
        Identity { exclusive_home: wanted.exclusive_home, ..host.identity.clone() } == *wanted
    };
    if let Some(host) = hosts.iter().filter(serves).find(has_room) {
        return Placement::Use(host.id.clone());
    }
    // Another identity on the same home would be a second refresher as well.
    let home_taken = |host: &HostFacts| {
        host.identity.codex_home == wanted.codex_home
            && (wanted.exclusive_home || host.identity.exclusive_home)
    };
    if hosts.iter().any(home_taken) { Placement::Wait } else { Placement::Start }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(home: &str, provider: &str) -> Identity {
        Identity { codex_home: Some(home.into()), provider: provider.to_owned(), ..Identity::default() }
    }

    fn exclusive(home: &str, provider: &str) -> Identity {
        Identity { exclusive_home: true, ..identity(home, provider) }
    }

    fn host(id: &str, identity: &Identity, threads: usize) -> HostFacts {
        HostFacts { id: id.to_owned(), identity: identity.clone(), threads, retiring: false }
    }

    fn check(hosts: &[HostFacts], wanted: &Identity) -> Placement {
        place(hosts, wanted, &Limits::default())
    }

    #[test]
    fn the_first_thread_starts_a_host_and_the_next_fifty_share_it() {
        let ada = identity("/ada", "openai");
        assert_eq!(check(&[], &ada), Placement::Start);
        assert_eq!(check(&[host("a", &ada, 49)], &ada), Placement::Use("a".into()));
        assert_eq!(check(&[host("a", &ada, 50)], &ada), Placement::Start);
        assert_eq!(check(&[host("a", &ada, 50), host("b", &ada, 1)], &ada), Placement::Use("b".into()));
    }

    #[test]
    fn identities_do_not_share() {
        let ada = identity("/ada", "openai");
        let alone = Identity { alone: "one".to_owned(), ..ada.clone() };
        for other in [identity("/bob", "openai"), identity("/ada", "azure"), Identity::default(), alone] {
            assert_eq!(check(&[host("a", &ada, 0)], &other), Placement::Start);
        }
    }

    #[test]
    fn a_retiring_host_takes_nothing_new() {
        let ada = identity("/ada", "openai");
        let old = HostFacts { retiring: true, ..host("a", &ada, 3) };
        assert_eq!(check(&[old], &ada), Placement::Start);
    }

    #[test]
    fn a_home_with_one_refresher_never_gets_a_second_host() {
        let ada = exclusive("/ada", "openai");
        let old = HostFacts { retiring: true, ..host("a", &ada, 3) };
        assert_eq!(check(&[host("a", &ada, 50)], &ada), Placement::Wait);
        assert_eq!(check(&[old], &ada), Placement::Wait);
        assert_eq!(check(&[host("a", &ada, 0)], &identity("/ada", "azure")), Placement::Wait);
        assert_eq!(check(&[host("a", &identity("/ada", "azure"), 0)], &ada), Placement::Wait);
        assert_eq!(check(&[host("a", &ada, 3)], &ada), Placement::Use("a".into()));
        assert_eq!(check(&[host("a", &exclusive("/bob", "openai"), 3)], &ada), Placement::Start);
    }

    #[test]
    fn a_login_that_changes_while_a_host_runs_leaves_its_threads_there() {
        let (shared, alone) = (identity("/ada", "openai"), exclusive("/ada", "openai"));
        for (running, wanted) in [(&shared, &alone), (&alone, &shared)] {
            assert_eq!(check(&[host("a", running, 49)], wanted), Placement::Use("a".into()));
            assert_eq!(check(&[host("a", running, 50)], wanted), Placement::Wait);
        }
    }
}
