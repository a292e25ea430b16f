//! Maintenance of the hosts: cleans up dead ones, retires old ones, and ends those that have lost their keeper.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracing::warn;

use super::{Change, Lost, Member, Pool, Shared};
use crate::host::find::{Found, find_all, is_this_boot};
use crate::host::launcher::{Client, MOST_HOSTS};
use crate::host::origin::Origin;
use crate::host::record::{Exit, Files, now_ms, write_json};
use crate::host::retirement::{Facts, Limits, retire_reason};
use crate::host::stop::{sweep_at_once, sweep_unfinished};
use crate::host::{Error, Host, Reach, Stop, in_thread, io_error};
use crate::os::process::Process;

/// Grace period for a host without a running turn.
const QUIET_GRACE: Duration = Duration::from_secs(2);
/// How often a keeper is checked if the kernel cannot report its end.
const LOOK_AT_KEEPER_EVERY: Duration = Duration::from_secs(1);
/// Recorded for a host that was ended because its keeper was killed.
const KEEPER_GONE: &str = "its keeper was killed, so the host was ended";

/// The living and the lost hosts under a root.
pub(super) struct Inventory {
    pub(super) hosts: Vec<Host>,
    pub(super) lost: Vec<Lost>,
    pub(super) changes: Vec<Change>,
}

/// For a launcher: the living hosts under a root, after the dead ones were cleaned up.
pub(crate) fn take_over(root: &Path) -> (Vec<Host>, Vec<Change>) {
    let mut taken = inventory(root);
    let failed = taken.lost.iter().filter_map(|lost| remove(&lost.dir).err());
    taken.changes.extend(failed.map(Change::Failed));
    (taken.hosts, taken.changes)
}

/// For a launcher: ends the known remaining processes of a host, and removes its directory.
pub(crate) fn clear_away(host: &Host) -> Vec<Change> {
    let (mut changes, lost) = end(host);
    changes.extend(lost.and_then(|lost| remove(&lost.dir).err()).map(Change::Failed));
    changes
}

/// Finds all hosts under a root. Hosts without a keeper are ended, since their orphans are not tracked.
pub(super) fn inventory(root: &Path) -> Inventory {
    let mut taken = Inventory { hosts: Vec::new(), lost: Vec::new(), changes: Vec::new() };
    let mut ended = Vec::new();
    for (dir, found) in find_all(root) {
        match found {
            Ok(Found::Alive(host)) => taken.hosts.push(host),
            Ok(Found::KeeperGone(host)) => ended.push(host),
            Ok(Found::Dead { record, .. }) => ended.push(Host::local(&dir, record)),
            Ok(Found::Unfinished { id }) => {
                let failed = sweep_unfinished(&id).and_then(|()| remove(&dir)).err();
                taken.changes.extend(failed.map(Change::Failed));
            }
            Err(error) => taken.changes.push(Change::Failed(error)),
        }
    }
    let kept: Vec<Origin> = taken.hosts.iter().map(origin_of).collect();
    for host in ended {
        let (changes, lost) = end(&host);
        taken.changes.extend(changes);
        match lost {
            Some(lost) if lost.origin.may_have_left_anyone(&kept) => taken.lost.push(lost),
            // If the directory cannot be removed, the next pool tries again.
            Some(lost) => taken.changes.extend(remove(&lost.dir).err().map(Change::Failed)),
            None => {}
        }
    }
    taken
}

fn origin_of(host: &Host) -> Origin {
    Origin::of(host.record(), host.dir().to_owned())
}

/// Ends the known remaining processes of a host that died or has lost its keeper. If unknown processes may be left, its
/// directory stays, so that the next pool knows of them too.
fn end(host: &Host) -> (Vec<Change>, Option<Lost>) {
    let origin = origin_of(host);
    let is_lost = is_this_boot(host.record()) && origin.may_have_leftovers();
    if is_lost && host.is_alive() {
        note_why(host);
    }
    let swept = sweep_at_once(host.record());
    let mut changes = vec![Change::Died { record: Arc::clone(&host.record), exit: host.exit_written() }];
    let may_more_be_left = is_lost || swept.is_err();
    changes.extend(swept.err().map(Change::Failed));
    if may_more_be_left {
        return (changes, Some(Lost { dir: host.dir().to_owned(), origin }));
    }
    changes.extend(remove(host.dir()).err().map(Change::Failed));
    (changes, None)
}

/// Records why the host was ended, for the errors of its turns. Its keeper can no longer do so.
fn note_why(host: &Host) {
    let why = Exit {
        error: Some(KEEPER_GONE.to_owned()),
        at_ms: now_ms(),
        cleared: Some(false),
        ..Exit::default()
    };
    if let Err(error) = write_json(&Files(host.dir()).exit(), &why) {
        warn!(host = host.id(), %error, "the reason for ending this host could not be recorded");
    }
}

fn remove(dir: &Path) -> Result<(), Error> {
    fs::remove_dir_all(dir).map_err(io_error("cannot remove", dir))
}

impl Pool {
    /// Maintains the hosts; to be called at intervals. Dead hosts are cleaned up. Hosts over a limit take no new
    /// threads, and are ended when they have no turn left.
    pub async fn maintain(&self, wanted_version: &str) -> Vec<Change> {
        let wanted_version = match &self.shared.reach {
            Reach::Own => wanted_version.to_owned(),
            Reach::Launcher(launcher) => match self.look_again(launcher).await {
                Ok(version) => version,
                // Without the launcher, every host would seem to accept no connections.
                Err(error) => return vec![Change::Failed(error)],
            },
        };
        for host in self.hosts() {
            if host.is_alive() && host.has_keeper() {
                self.look_at(&host, &wanted_version).await;
            } else {
                self.clear(&host).await;
            }
        }
        self.forget_lost().await;
        std::mem::take(&mut self.state().changes)
    }

    /// Takes in hosts of a launcher that was killed before it could report them. Returns the version of codex that the
    /// launcher starts now.
    async fn look_again(&self, launcher: &Client) -> Result<String, Error> {
        let version = launcher.about().await?.version;
        for host in launcher.list(&self.shared.root).await? {
            let mut state = self.state();
            let is_known = state.members.iter().any(|member| member.host.epoch() == host.epoch())
                || state.booting.iter().any(|booting| booting.is_in(host.dir()));
            if !is_known && state.members.len() < MOST_HOSTS {
                state.members.push(Member::new(host.clone()));
                drop(state);
                self.watch_keeper(host);
            }
        }
        Ok(version)
    }

    /// Retires a host that is over a limit, and ends it when no turn runs on it.
    async fn look_at(&self, host: &Host, wanted_version: &str) {
        let mut is_retiring = false;
        self.change(host.id(), |member| is_retiring = member.retiring);
        if !is_retiring {
            let facts = facts_of(host, &self.shared.limits).await;
            let Some(reason) = retire_reason(&facts, &self.shared.limits, wanted_version) else { return };
            self.change(host.id(), |member| member.retiring = true);
            self.state().note([Change::Retiring { id: host.id().to_owned(), reason }]);
        }
        let is_quiet = |member: &super::Member| member.active_turns == 0;
        if !self.claim(host, is_quiet) {
            return;
        }
        let ended = host.stop(Stop::Drain { grace: QUIET_GRACE }).await;
        let change = match ended {
            Ok(()) if !may_have_leftovers(host).await => match remove_ended(host).await {
                Ok(()) => Change::Retired { id: host.id().to_owned() },
                Err(error) => Change::Failed(error),
            },
            // Its keeper was killed meanwhile.
            Ok(()) => return self.end_claimed(host).await,
            Err(error) => {
                self.change(host.id(), |member| member.ending = false);
                self.shared.ends.send_modify(|ends| *ends += 1);
                return self.state().note([Change::Failed(error)]);
            }
        };
        self.drop_member(host, [change], None);
    }

    /// Cleans up a host that died or has lost its keeper. If that is under way already, waits for it.
    async fn clear(&self, host: &Host) {
        if self.claim(host, |_| true) {
            return self.end_claimed(host).await;
        }
        let mut ends = self.shared.ends.subscribe();
        while self.state().members.iter().any(|member| member.host == *host && member.ending) {
            if ends.changed().await.is_err() {
                return;
            }
        }
    }

    /// Claims the right to end a host. Only one task has it.
    fn claim(&self, host: &Host, may: impl FnOnce(&super::Member) -> bool) -> bool {
        let mut claimed = false;
        self.change(host.id(), |member| {
            claimed = !member.ending && may(member);
            member.ending |= claimed;
        });
        claimed
    }

    async fn end_claimed(&self, host: &Host) {
        if let Reach::Launcher(launcher) = host.reach() {
            let changes = match launcher.clear(host).await {
                Ok(changes) => changes,
                // If it is still there, the next pool cleans it up.
                Err(error) => {
                    vec![Change::Died { record: Arc::clone(&host.record), exit: None }, Change::Failed(error)]
                }
            };
            return self.drop_member(host, changes, None);
        }
        let which = host.clone();
        let ended = in_thread("cannot clear", host.dir(), move || Ok(end(&which))).await;
        let (changes, lost) = match ended {
            Ok(ended) => ended,
            Err(error) => (vec![Change::Failed(error)], Some(lost(host))),
        };
        self.drop_member(host, changes, lost);
    }

    fn drop_member(&self, host: &Host, changes: impl IntoIterator<Item = Change>, lost: Option<Lost>) {
        let mut state = self.state();
        state.members.retain(|member| member.host != *host);
        state.lost.extend(lost);
        state.note(changes);
        drop(state);
        self.shared.ends.send_modify(|ends| *ends += 1);
    }

    /// Forgets the lost hosts that have no processes left.
    async fn forget_lost(&self) {
        let (lost, kept): (Vec<Origin>, Vec<Origin>) = {
            let state = self.state();
            let kept = state.members.iter().map(|member| member.origin.clone());
            (state.lost.iter().map(|lost| lost.origin.clone()).collect(), kept.collect())
        };
        if lost.is_empty() {
            return;
        }
        let gone_for_good =
            move || Ok(lost.into_iter().filter(|lost| !lost.may_have_left_anyone(&kept)).collect::<Vec<_>>());
        let gone =
            in_thread("cannot look for", &self.shared.root, gone_for_good).await.unwrap_or_else(|error| {
                warn!(%error, "the processes of lost hosts could not be looked for; tried again later");
                Vec::new()
            });
        let mut state = self.state();
        let (forgotten, left) =
            std::mem::take(&mut state.lost).into_iter().partition(|lost: &Lost| gone.contains(&lost.origin));
        state.lost = left;
        let failed: Vec<Change> = forgotten
            .into_iter()
            .filter_map(|lost: Lost| remove(&lost.dir).err().map(Change::Failed))
            .collect();
        state.note(failed);
    }

    /// Watches a keeper, and ends its host if the keeper is killed.
    pub(super) fn watch_keeper(&self, host: Host) {
        let pool = Arc::downgrade(&self.shared);
        tokio::spawn(async move {
            until_ended(host.record().keeper, &pool).await;
            let Some(shared) = pool.upgrade() else { return };
            // A host that ended normally is cleaned up by `maintain`: sessions still read how it ended.
            if may_have_leftovers(&host).await {
                Pool { shared }.clear(&host).await;
            }
        });
    }
}

/// Whether the keeper was killed before it had ended all processes of the host.
async fn may_have_leftovers(host: &Host) -> bool {
    match host.reach() {
        Reach::Own => origin_of(host).may_have_leftovers(),
        Reach::Launcher(_) => {
            !host.record().keeper.keeps_its_children()
                && !host.exit().await.is_some_and(|exit| exit.is_clean())
        }
    }
}

/// Removes the directory of a host that ended normally.
async fn remove_ended(host: &Host) -> Result<(), Error> {
    match host.reach() {
        Reach::Own => remove(host.dir()),
        Reach::Launcher(launcher) => launcher.clear(host).await.map(drop),
    }
}

fn lost(host: &Host) -> Lost {
    Lost { dir: host.dir().to_owned(), origin: origin_of(host) }
}

/// Returns when the process has ended or the pool was dropped.
async fn until_ended(process: Process, pool: &Weak<Shared>) {
    if let Ok(handle) = process.handle().and_then(readable) {
        drop(handle.readable().await);
    }
    // Without a handle (a kernel before 5.3, or too many open files) the process is polled.
    while process.is_alive() && pool.strong_count() > 0 {
        tokio::time::sleep(LOOK_AT_KEEPER_EVERY).await;
    }
}

#[expect(
    deprecated,
    reason = "unsound for types that give out another descriptor later; this one owns its own"
)]
fn readable(handle: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(handle, Interest::READABLE)
}

async fn facts_of(host: &Host, limits: &Limits) -> Facts {
    Facts {
        age: host.age(),
        rss_bytes: host.rss_bytes(),
        version: host.record().codex_version.clone(),
        answers: host.is_healthy(limits.answer_within).await,
    }
}
