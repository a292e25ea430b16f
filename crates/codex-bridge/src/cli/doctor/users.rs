//! Checks the users: one for everything, or, with a launcher, one for the daemon and one for Codex.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Uid, User};
use rustix::process::geteuid;

use super::Finding;
use crate::daemon::host_config::connect_launcher;
use crate::paths::Paths;

/// The daemon and Codex run as one user.
pub fn one_user() -> Finding {
    let message = format!(
        "the daemon and Codex run as {}: a process that breaks out of the sandbox can do what you can; docs/security.md \
         describes a setup with two users",
        name_of(geteuid().as_raw())
    );
    Finding::ok("users", message)
}

/// Checks that the launcher answers, that its hosts run, and that the configuration is closed to its user.
pub async fn two_users(socket: &Path, paths: &Paths) -> Vec<Finding> {
    let (client, about) = match connect_launcher(socket).await {
        Ok(answered) => answered,
        Err(failure) => return vec![Finding::failed("users", failure)],
    };
    let user = client.user().await.map(name_of).unwrap_or_default();
    let message = format!(
        "hosts run as {user} and the daemon as {}, with codex {:?} and the homes {:?}",
        name_of(geteuid().as_raw()),
        about.version,
        about.homes
    );
    let hosts = match client.hosts().await {
        Ok(hosts) => Finding::ok("hosts", format!("{} running", hosts.len())),
        Err(error) => Finding::problem("hosts", error.to_string(), "check the launcher's log"),
    };
    vec![Finding::ok("users", message), hosts, closed_config(paths)]
}

/// Checks that the hosts' user cannot read the configuration, which has the profiles' rights and may have addresses.
fn closed_config(paths: &Paths) -> Finding {
    let file = paths.config_file.display();
    match fs::metadata(&paths.config_file) {
        Ok(found) if found.mode() & 0o007 != 0 => Finding::warning(
            "closed",
            format!("{file} is accessible to every user, including the hosts' user"),
            format!("chmod o= {file}"),
        ),
        _ => Finding::ok(
            "closed",
            format!("{file} and {} are closed to other users", paths.state_dir.display()),
        ),
    }
}

fn name_of(uid: u32) -> String {
    let found = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    found.map_or_else(|| uid.to_string(), |user| user.name)
}
