//! Sockets of programs that run whatever they are told: the user's systemd, tmux, Docker and the like.
//!
//! A sandboxed command that has the network can connect to any unix socket of its user (codex 0.166). One of these would
//! run a program for it outside of any sandbox, so those that are widely used are denied to commands. The list cannot be
//! whole: docs/security.md says so.

use std::path::{Path, PathBuf};

/// Services of the whole machine. Some obey members of a group, most obey root.
const OF_THE_MACHINE: [&str; 9] = [
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

/// Below the user's home: agents of keys, and container engines of the user's own.
const IN_HOME: [&str; 4] = [".colima", ".docker", ".gnupg", ".screen"];

/// The paths of all such sockets of these users, whether there is something or not: a service may start later. `variable` is
/// of the environment of commands.
pub fn that_obey(users: &[u32], variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let set = |name: &str| variable(name).filter(|dir| Path::new(dir).is_absolute()).map(PathBuf::from);
    let tmux = set("TMUX_TMPDIR").unwrap_or_else(|| "/tmp".into());
    let of_users = users.iter().flat_map(|user| {
        let named = [format!("/run/user/{user}"), format!("/tmp/emacs{user}"), format!("/tmp/zellij-{user}")];
        named.map(PathBuf::from).into_iter().chain([tmux.join(format!("tmux-{user}"))])
    });
    let of_home = set("HOME").into_iter().flat_map(|home| IN_HOME.map(|dir| home.join(dir)));
    let of_the_machine = OF_THE_MACHINE.map(PathBuf::from);
    let mut paths: Vec<PathBuf> =
        of_users.chain(set("XDG_RUNTIME_DIR")).chain(of_home).chain(of_the_machine).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_services_are_found_by_their_variables() {
        let found =
            that_obey(&[1000, 998], |name| (name == "XDG_RUNTIME_DIR").then(|| "/srv/run".to_owned()));
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
        let found = that_obey(&[1000], |name| {
            Some(if name == "TMUX_TMPDIR" { "/srv/tmux" } else { "relative" }.to_owned())
        });
        assert!(found.contains(&"/srv/tmux/tmux-1000".into()), "{found:?}");
        assert!(found.iter().all(|path| path.is_absolute()), "{found:?}");
    }
}
