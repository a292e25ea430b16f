//! Sockets of services that run programs for their clients: the user's systemd, tmux, Docker and the like.
//!
//! A sandboxed command with network access can connect to any unix socket of its user (codex 0.166). Such a service would
//! run a program for it outside of any sandbox, so the sockets of widely used services are denied to commands. The list
//! cannot be complete; docs/security.md says so.

use std::path::{Path, PathBuf};

/// Services of the machine. Some accept members of a group, most only root.
const MACHINE_SOCKETS: [&str; 9] = [
    "/run/containerd",
    "/run/dbus",
    "/run/docker.sock",
    "/run/incus",
    "/run/libvirt",
    "/run/lxd",
    "/run/podman",
    "/run/screen",
    "/run/systemd/private",
];

/// Directories in the user's home: key agents, and the user's own container engines.
const HOME_DIRS: [&str; 4] = [".colima", ".docker", ".gnupg", ".screen"];

/// The paths of such sockets of these users, existing or not, since a service may start later. `variable` reads the
/// environment of commands.
pub fn command_running_sockets(users: &[u32], variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let set = |name: &str| variable(name).filter(|dir| Path::new(dir).is_absolute()).map(PathBuf::from);
    let tmux = set("TMUX_TMPDIR").unwrap_or_else(|| "/tmp".into());
    let of_users = users.iter().flat_map(|user| {
        let named = [format!("/run/user/{user}"), format!("/tmp/emacs{user}"), format!("/tmp/zellij-{user}")];
        named.map(PathBuf::from).into_iter().chain([tmux.join(format!("tmux-{user}"))])
    });
    let of_home = set("HOME").into_iter().flat_map(|home| HOME_DIRS.map(|dir| home.join(dir)));
    let of_machine = MACHINE_SOCKETS.map(PathBuf::from);
    let mut paths: Vec<PathBuf> =
        of_users.chain(set("XDG_RUNTIME_DIR")).chain(of_home).chain(of_machine).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_services_are_found_by_their_variables() {
        let found = command_running_sockets(&[1000, 998], |name| {
            (name == "XDG_RUNTIME_DIR").then(|| "/srv/run".to_owned())
        });
        for path in [
            "/run/user/1000",
            "/srv/run",
            "/tmp/tmux-1000",
            "/run/docker.sock",
            "/run/user/998",
            "/tmp/tmux-998",
        ] {
            assert!(found.contains(&path.into()), "{path}: {found:?}");
        }
        let found = command_running_sockets(&[1000], |name| {
            Some(if name == "TMUX_TMPDIR" { "/srv/tmux" } else { "relative" }.to_owned())
        });
        assert!(found.contains(&"/srv/tmux/tmux-1000".into()), "{found:?}");
        assert!(found.iter().all(|path| path.is_absolute()), "{found:?}");
    }
}
