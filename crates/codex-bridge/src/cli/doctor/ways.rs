//! The ways to people that are configured: whether all is there that they need. Nobody is reached: `deliveries test` and
//! `channel test` do that.

use redact::Redactor;

use super::Finding;
use crate::channel::registry::{Registry, Surveyed};
use crate::config::File;
use crate::paths::variable;

/// Variables are the daemon's business, and ours may be others.
const FIX: &str = "correct the configuration, or set the variable where the daemon is started";

/// The channels that only send, and those that work arrives by.
pub fn channels(file: &File) -> [Finding; 2] {
    let redactor = Redactor::default();
    let registry = Registry::new(&file.channels, &file.notify, file.around(&variable, None, &redactor));
    let (receiving, sending) = registry.survey().into_iter().partition(|one| one.receives);
    [
        told("targets", sending, "codex-bridge deliveries test TARGET"),
        told("channels", receiving, "codex-bridge channel test NAME"),
    ]
}

fn told(name: &'static str, all: Vec<Surveyed>, test: &str) -> Finding {
    let (mut usable, mut wrong) = (Vec::new(), Vec::new());
    for Surveyed { name, receives, targets } in all {
        match targets {
            Ok(_) if receives => usable.push(name),
            Ok(targets) => usable.extend(targets),
            Err(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    if !wrong.is_empty() {
        return Finding::warning(name, wrong.join("; "), FIX);
    }
    if usable.is_empty() {
        return Finding::ok(name, "none are configured");
    }
    Finding::ok(name, format!("{}; `{test}` tries one", usable.join(", ")))
}
