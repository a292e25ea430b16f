//! Ways in which a daemon dies in tests, and the moments at which it does.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::shell::{Said, Shell, until};

/// Every point of a task's way at which the daemon can be made to die, in the order in which a task passes them.
pub const OF_TASKS: [&str; 18] = [
    "start.before_record",
    "start.recorded",
    "thread.before_record",
    "thread.recorded",
    "prompt.recorded",
    "turn.before_record",
    "turn.recorded",
    "event.before_record",
    "event.recorded",
    "request.before_record",
    "request.recorded",
    "decision.before_record",
    "decision.recorded",
    "decision.given",
    "closing.before_record",
    "closing.recorded",
    "completion.before_record",
    "completion.recorded",
];
/// The same for a message that comes in, from its source to its reply.
pub const OF_MESSAGES: [&str; 6] = [
    "inbox.before_record",
    "inbox.recorded",
    "inbox.before_turn",
    "inbox.turn_recorded",
    "inbox.before_reply",
    "inbox.reply_recorded",
];
/// The same for what goes out.
pub const OF_DELIVERIES: [&str; 2] = ["delivery.before_send", "delivery.sent"];
/// The same for a decision, which are among those of tasks too.
pub const OF_DECISIONS: [&str; 3] = ["decision.before_record", "decision.recorded", "decision.given"];
/// The same for a message that is added to a turn.
pub const OF_STEERS: [&str; 3] = ["steer.before_record", "steer.recorded", "steer.given"];
/// The same for telling a source what is done with.
pub const OF_SOURCES: [&str; 2] = ["inbox.acknowledged", "inbox.acknowledgement_recorded"];

/// Every point that a message passes which is answered by one turn.
pub fn on_the_way_of_a_message() -> Vec<&'static str> {
    [&OF_MESSAGES[..], &OF_DELIVERIES, &OF_SOURCES].concat()
}

/// Moments that fall anywhere, and are the same in every run.
pub struct Moments(u64);

impl Moments {
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one, less than so many milliseconds away.
    pub fn within_ms(&mut self, ms: u64) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis((self.0 >> 33) % ms)
    }
}

/// The channels that messages come by.
pub enum Source {
    Molecule,
    Plugin,
    Slack,
    Telegram,
    Webhook,
    Discord,
}

/// The points at which a message of this source is lost and found again. At full length they are all points of its way.
/// Otherwise each source has a quarter of them, since the way is the same code for every source, and the simulation of the
/// core dies at each of its effects.
pub fn on_the_way_from(source: Source) -> Vec<&'static str> {
    let all = on_the_way_of_a_message();
    if is_full_length() {
        return all;
    }
    all.into_iter().skip(source as usize % 4).step_by(4).collect()
}

/// How often something random is tried with real processes. The simulation of the core tries it a thousand times more often.
pub fn rounds() -> usize {
    if is_full_length() { 100 } else { 4 }
}

fn is_full_length() -> bool {
    std::env::var_os("CODEX_BRIDGE_PROVE").is_some()
}

impl Shell {
    /// The process of the daemon that runs, or ran last.
    pub fn daemon(&self) -> Option<u32> {
        fs::read_to_string(self.home.dir().join("st/daemon.lock")).ok()?.trim().parse().ok()
    }

    /// The daemon dies, as by a power cut. One that is dead already is left alone.
    pub fn kill_daemon(&self) {
        let Some(pid) = self.daemon() else { return };
        let program = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if program.contains("codex-bridge") {
            Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        }
    }

    /// The same, and it is gone when this returns.
    pub async fn kill_daemon_for_good(&self) {
        // One that is just coming up has not said who it is.
        let Some(pid) = self.daemon() else { return };
        self.kill_daemon();
        until_dead(Some(pid), "by a kill").await;
    }

    /// Runs a command; the daemon, if the command starts one, dies at this point.
    pub async fn run_dying_at(&self, args: &[&str], point: &str) -> Said {
        let mut command = self.command(args);
        command.env("CODEX_BRIDGE_FAILPOINT", point);
        self.output(move || command.output().unwrap()).await
    }

    /// Waits until the daemon has died at this point: one that does not lie on the way proves nothing.
    pub async fn until_dead_at(&self, point: &str) {
        until_dead(self.daemon(), &format!("at {point}")).await;
    }
}

/// Nobody may have waited for it: what is left of it then counts as dead, once the last of its threads, which may still
/// answer, has gone too.
async fn until_dead(pid: Option<u32>, how: &str) {
    let pid = pid.expect("a daemon ran");
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let is_dead = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z ") && threads() <= 1)
    };
    until(&format!("the daemon to die {how}"), || is_dead().then_some(())).await;
}
