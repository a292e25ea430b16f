//! A daemon that serves a workspace of the Molecule stand-in, on the real Codex with the scripted model.

use std::fs;
use std::time::Instant;

use serde_json::Value;
use testkit::platform::molecule::{Molecule, State, TOKEN, WORKSPACE};
use testkit::rig;

use crate::shell::{PATIENCE, Shell};

/// A shell, a platform, and a configuration that joins them.
pub struct Channel {
    pub shell: Shell,
    pub molecule: Molecule,
}

impl Channel {
    /// Nothing is started yet. Whoever writes on the canvas may decide.
    pub async fn new() -> Self {
        Self::with("allow = [\"canvas:approver\", \"peer:*\"]").await
    }

    /// With these lines more for the channel.
    pub async fn with(lines: &str) -> Self {
        let channel = Self { shell: Shell::new().await, molecule: Molecule::open().await };
        channel.configure(lines);
        channel
    }

    pub fn configure(&self, lines: &str) {
        let text = format!(
            "codex_bin = \"{}\"\nescalations = \"ask\"\n[workspaces]\nmain = \"{}\"\n[channels.molecule]\nreceipts = false\n{lines}\n\
             [channels.molecule.molecule]\nurl = \"{}\"\nworkspace_id = \"{WORKSPACE}\"\ntoken = \"{TOKEN}\"\npoll_ms = 50\n",
            rig::codex_path().display(),
            self.shell.home.workspace().display(),
            self.molecule.base(),
        );
        fs::write(self.shell.home.dir().join("config.toml"), text).unwrap();
    }

    /// Any command starts the daemon, and with it the channel.
    pub async fn start(&self) -> Value {
        let began = Instant::now();
        loop {
            let said = self.shell.run(&["--json", "channel", "list"]).await;
            // A daemon that was just killed may still have taken the call.
            if said.code == 0 || !said.err.contains("daemon_gone") || began.elapsed() > PATIENCE {
                return said.ok().json();
            }
        }
    }

    /// The daemon dies, and another one comes.
    pub async fn die_and_come_back(&self) {
        self.shell.kill_daemon();
        self.start().await;
    }

    /// Waits for so many replies on the canvas.
    pub async fn notices(&self, count: usize) -> Vec<String> {
        let state =
            self.molecule.until(&format!("{count} notices"), |state| state.notices.len() >= count).await;
        state.notices
    }

    /// Waits until all that was said is known to have been: what is written from now on was written after it.
    pub async fn until_told(&self) {
        let is_told = |all: &[Value]| !all.is_empty() && all.iter().all(|one| one["state"] == "delivered");
        self.shell.deliveries(is_told).await;
    }

    /// Waits until the platform knows that everything up to here is done with.
    pub async fn acked(&self, seq: i64) -> State {
        self.molecule
            .until(&format!("the mark {seq}"), |state| state.acks.last().is_some_and(|ack| *ack >= seq))
            .await
    }

    /// What is in the inbox, the newest first.
    pub async fn inbox(&self) -> Vec<Value> {
        let said = self.shell.run(&["--json", "inbox", "--all"]).await.ok().json();
        said.as_array().unwrap().clone()
    }

    /// Waits until the inbox is so.
    pub async fn until_inbox(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) {
        let began = Instant::now();
        loop {
            let inbox = self.inbox().await;
            if is_so(&inbox) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}: {inbox:#?}");
        }
    }

    /// How often the model was asked a prompt anew.
    pub fn prompts(&self) -> usize {
        self.shell.model.requests().iter().filter(|request| request.tool_outputs().is_empty()).count()
    }

    pub async fn end(self) {
        self.shell.end().await;
    }
}
