//! The ways to people that are configured: whether all is there that they need. Nobody is reached: `deliveries test` and
//! `channel test` do that.

use redact::Redactor;

use super::Finding;
use crate::channel::settings::Surroundings;
use crate::config::File;
use crate::deliver::Deliver;
use crate::paths::variable;

/// Variables are the daemon's business, and ours may be others.
const FIX: &str = "correct the configuration, or set the variable where the daemon is started";

/// The targets of notifications.
pub fn targets(file: &File) -> Finding {
    let deliver = Deliver::new(&file.notify, &variable);
    told("targets", &deliver.known(), &deliver.unusable(), "codex-bridge deliveries test TARGET")
}

/// The channels that work arrives by.
pub fn channels(file: &File) -> Finding {
    let redactor = Redactor::default();
    let (mut usable, mut wrong) = (Vec::new(), Vec::new());
    for (name, settings) in &file.channels {
        // A channel without workspaces works where it is run; one that the daemon serves by itself is run nowhere.
        let cwd = std::env::current_dir().ok().filter(|_| settings.manual);
        let around = Surroundings { file, env: &variable, cwd: cwd.as_ref(), redactor: &redactor };
        match settings.open(name, around) {
            Ok(_) => usable.push(name.clone()),
            Err(failure) => wrong.push((name.clone(), failure.message)),
        }
    }
    told("channels", &usable, &wrong, "codex-bridge channel test NAME")
}

fn told(name: &'static str, usable: &[String], wrong: &[(String, String)], test: &str) -> Finding {
    if !wrong.is_empty() {
        let wrong: Vec<String> = wrong.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        return Finding::warning(name, wrong.join("; "), FIX);
    }
    if usable.is_empty() {
        return Finding::ok(name, "none are configured");
    }
    Finding::ok(name, format!("{}; `{test}` tries one", usable.join(", ")))
}
