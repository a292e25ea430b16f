//! A real Chromium without a window, driven by its DevTools protocol: what a person would see, click and type.
//!
//! Knows nothing of our pages. A page has cookies of its own, so that two of them are two people; tabs share them.

mod devtools;
mod page;

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::rig::Leftovers;
use devtools::DevTools;
pub use page::{Page, Width};

/// Chromium has started by then.
const START_LIMIT: Duration = Duration::from_mins(2);
/// The flags under which it asks nothing of the network and needs no rights.
const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
];

/// A running Chromium. Dropping it ends it, and fails the test if a process of it is left.
pub struct Browser {
    devtools: DevTools,
    // Killed when dropped, before somebody looks for what is left.
    _child: Child,
    _leftovers: Leftovers,
    _dir: TempDir,
}

impl Browser {
    /// Starts Chromium with a profile of its own.
    pub async fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("cb-web-").tempdir_in("/tmp").expect("a directory in /tmp");
        let leftovers = Leftovers::below(dir.path());
        let said = dir.path().join("stderr");
        let stderr = fs::File::create(&said).expect("a file for what Chromium says");
        let child = Command::new("chromium")
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .arg("about:blank")
            .env("HOME", dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .expect("chromium is missing: run `cargo xtask setup`, or install it from your distribution");
        let devtools = DevTools::connect(&listening(&said).await).await;
        Self { devtools, _child: child, _leftovers: leftovers, _dir: dir }
    }

    /// A new page, with no cookies and nothing remembered.
    pub async fn page(&self) -> Page {
        let context = self.devtools.call(None, "Target.createBrowserContext", json!({})).await;
        self.page_in(context["browserContextId"].as_str().expect("a context")).await
    }

    /// Another page of the same person, with the same cookies and connections.
    pub async fn tab(&self, beside: &Page) -> Page {
        self.page_in(&beside.context).await
    }

    async fn page_in(&self, context: &str) -> Page {
        let target = json!({ "url": "about:blank", "browserContextId": context });
        let target = self.devtools.call(None, "Target.createTarget", target).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.devtools.call(None, "Target.attachToTarget", attach).await;
        let session = session["sessionId"].as_str().expect("a session").to_owned();
        Page::new(self.devtools.clone(), session, context.to_owned()).await
    }
}

/// The address that Chromium says it listens on.
async fn listening(said: &PathBuf) -> String {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(said).unwrap_or_default();
        let address = text.lines().find_map(|line| line.strip_prefix("DevTools listening on "));
        if let Some(address) = address {
            return address.trim().to_owned();
        }
        assert!(began.elapsed() < START_LIMIT, "chromium did not start:\n{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
