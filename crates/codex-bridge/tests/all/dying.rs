//! Ways in which a daemon dies in tests, and the moments at which it does.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::shell::{Said, Shell, until};

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

/// How often something random is tried: ten times as often at full length.
pub fn rounds(short: usize) -> usize {
    if std::env::var_os("CODEX_BRIDGE_PROVE").is_some() { short * 10 } else { short }
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
        let pid = self.daemon();
        self.kill_daemon();
        until_dead(pid, "by a kill").await;
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

/// Nobody may have waited for it: what is left of it then counts as dead.
async fn until_dead(pid: Option<u32>, how: &str) {
    let pid = pid.expect("a daemon ran");
    let is_dead =
        || fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
    until(&format!("the daemon to die {how}"), || is_dead().then_some(())).await;
}
