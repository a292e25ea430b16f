//! Which users there are: one for everything, or, with a launcher, one for the daemon and one for Codex.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Uid, User};
use rustix::process::geteuid;

use super::Finding;
use crate::daemon::host_config::answering;
use crate::paths::Paths;

/// Everything runs as one user.
pub fn one_user() -> Finding {
    let message = format!(
        "daemon and Codex run as {}: what breaks out of the sandbox can do what you can; docs/security.md has a set-up \
         with two users",
        name_of(geteuid().as_raw())
    );
    Finding::ok("users", message)
}

/// Whether the launcher answers, as whom, and what is closed to it.
pub async fn two_users(socket: &Path, paths: &Paths) -> Vec<Finding> {
    let (client, about) = match answering(socket).await {
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
        Ok(hosts) => Finding::ok("hosts", format!("{} run", hosts.len())),
        Err(error) => Finding::problem("hosts", error.to_string(), "look at the log of the launcher"),
    };
    vec![Finding::ok("users", message), hosts, closed_config(paths)]
}

/// The configuration says which profiles may do what, and may hold addresses: it is not for the hosts' user.
fn closed_config(paths: &Paths) -> Finding {
    let file = paths.config_file.display();
    match fs::metadata(&paths.config_file) {
        Ok(found) if found.mode() & 0o007 != 0 => Finding::warning(
            "closed",
            format!("{file} is open to everyone, the hosts' user too"),
            format!("chmod o= {file}"),
        ),
        _ => Finding::ok("closed", format!("{file} and {} are closed to others", paths.state_dir.display())),
    }
}

fn name_of(number: u32) -> String {
    let found = User::from_uid(Uid::from_raw(number)).ok().flatten();
    found.map_or_else(|| number.to_string(), |user| user.name)
}
