//! The PATH of commands, where they find the user's tools; and the PATH of hosts, which is shorter.
//!
//! Codex looks up `git`, `bwrap` and the user's MCP servers on its own PATH, and runs them outside of any sandbox. A directory
//! of a project there, such as an active `.venv/bin`, would let a command plant one of them. So hosts have only directories
//! that no command can write: those of the system, and those in which managers of tools put the user's programs, which are
//! read-only for commands.
//!
//! Codex runs commands without a login shell here, so that nothing in a profile runs unasked. A daemon that a shell has
//! started has the PATH of that shell. One that a service manager has started has a bare PATH: then the directories in
//! which the usual managers of tools put them come first, as the user's profile would have it. Only names of files are
//! read; nothing is run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Below the user's home, in the order in which they come in the PATH.
const BELOW_HOME: [&str; 15] = [
    ".local/bin",
    ".cargo/bin",
    ".volta/bin",
    ".local/share/fnm/aliases/default/bin",
    ".local/share/mise/shims",
    ".asdf/shims",
    ".pyenv/shims",
    ".rbenv/shims",
    ".bun/bin",
    ".deno/bin",
    ".local/share/pnpm",
    ".npm-global/bin",
    "go/bin",
    ".nix-profile/bin",
    "bin",
];

/// Where the system keeps programs.
const OF_THE_SYSTEM: [&str; 7] = ["/bin", "/nix", "/opt", "/run/current-system", "/sbin", "/snap", "/usr"];

/// What is used where the service manager sets nothing at all.
const BARE: &str = "/usr/local/bin:/usr/bin:/bin";

/// How many steps from one alias of nvm to the next are followed.
const MOST_ALIASES: usize = 5;

/// The PATH of commands, from that of the daemon.
pub fn of_commands(path: Option<&str>, home: Option<&Path>) -> String {
    let path = path.filter(|path| !path.is_empty()).unwrap_or(BARE);
    let Some(home) = home.filter(|home| home.is_absolute()) else { return path.to_owned() };
    let is_of_a_shell = path.split(':').any(|dir| Path::new(dir).starts_with(home) && Path::new(dir) != home);
    if is_of_a_shell {
        return path.to_owned();
    }
    let known = BELOW_HOME.iter().map(|dir| home.join(dir)).chain(nvm_bin(&home.join(".nvm")));
    let found = known.filter(|dir| dir.is_dir()).map(|dir| dir.to_string_lossy().into_owned());
    found.chain([path.to_owned()]).collect::<Vec<_>>().join(":")
}

/// The PATH of hosts, from that of commands.
pub fn of_hosts(commands: &str, home: Option<&Path>) -> String {
    let is_known = |dir: &Path| home.is_some_and(|home| is_of_a_manager(dir, home));
    let is_safe = |dir: &&str| {
        Path::new(dir).is_absolute() && (is_of_the_system(Path::new(dir)) || is_known(Path::new(dir)))
    };
    let dirs: Vec<&str> = commands.split(':').filter(is_safe).collect();
    if dirs.is_empty() { BARE.to_owned() } else { dirs.join(":") }
}

/// The directories on a PATH.
pub fn directories(path: &str) -> impl Iterator<Item = PathBuf> {
    path.split(':').filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

fn is_of_a_manager(dir: &Path, home: &Path) -> bool {
    let nodes = home.join(".nvm/versions/node");
    let is_node =
        dir.strip_prefix(nodes).is_ok_and(|below| below.components().count() == 2 && below.ends_with("bin"));
    is_node || BELOW_HOME.iter().any(|known| dir == home.join(known))
}

/// Whether only root can put something there. Root's own commands could write everywhere: for them it goes by the name.
fn is_of_the_system(dir: &Path) -> bool {
    let Ok(real) = dir.canonicalize() else { return false };
    if geteuid().is_root() {
        return OF_THE_SYSTEM.iter().any(|top| real.starts_with(top));
    }
    let is_roots =
        |dir: &Path| dir.metadata().is_ok_and(|found| found.uid() == 0 && found.mode() & 0o022 == 0);
    real.ancestors().all(is_roots)
}

/// Where a program is found on a PATH.
pub fn find(program: &str, path: &str) -> Option<PathBuf> {
    directories(path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// The directory of the Node that `nvm` uses by default: the newest one that the alias `default` names, else the newest.
fn nvm_bin(nvm: &Path) -> Option<PathBuf> {
    let versions = nvm.join("versions/node");
    let mut installed: Vec<[u64; 3]> = fs::read_dir(&versions)
        .ok()?
        .filter_map(|entry| version(entry.ok()?.file_name().to_str()?))
        .collect();
    installed.sort_unstable();
    let wanted = default_alias(nvm).unwrap_or_default();
    let is_wanted = |[major, minor, patch]: &&[u64; 3]| {
        format!("{major}.{minor}.{patch}.").starts_with(&format!("{}.", wanted.trim_start_matches('v')))
    };
    let [major, minor, patch] = installed.iter().rev().find(is_wanted).or(installed.last())?;
    Some(versions.join(format!("v{major}.{minor}.{patch}/bin")))
}

/// What the alias `default` leads to, such as `20` or `v20.1.0`.
fn default_alias(nvm: &Path) -> Option<String> {
    let mut name = "default".to_owned();
    for _ in 0..MOST_ALIASES {
        if name.contains("..") {
            return None;
        }
        match fs::read_to_string(nvm.join("alias").join(&name)) {
            Ok(next) => next.trim().clone_into(&mut name),
            Err(_) => break,
        }
    }
    Some(name)
}

/// The numbers of `v20.1.0`.
fn version(name: &str) -> Option<[u64; 3]> {
    let mut numbers = name.strip_prefix('v')?.split('.').map(|number| number.parse().ok());
    let parsed = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home_with(dirs: &[&str]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for dir in dirs {
            fs::create_dir_all(home.path().join(dir)).unwrap();
        }
        home
    }

    #[test]
    fn a_bare_path_gets_the_directories_of_the_users_tools_and_one_of_a_shell_stays() {
        let home =
            home_with(&[".cargo/bin", ".nvm/versions/node/v9.1.0/bin", ".nvm/versions/node/v20.10.0/bin"]);
        let at = home.path().display();
        let path = |path| of_commands(path, Some(home.path()));
        assert_eq!(
            path(Some("/usr/bin:/bin")),
            format!("{at}/.cargo/bin:{at}/.nvm/versions/node/v20.10.0/bin:/usr/bin:/bin")
        );
        assert!(path(None).ends_with(BARE));
        let of_a_shell = format!("{at}/tools:/usr/bin");
        assert_eq!(path(Some(&of_a_shell)), of_a_shell);
        assert_eq!(of_commands(Some("/bin"), None), "/bin");
    }

    #[test]
    fn hosts_have_no_directory_that_a_command_could_write() {
        let home = home_with(&[".cargo/bin", "project/.venv/bin", ".nvm/versions/node/v20.1.0/bin"]);
        let at = home.path().display();
        let commands = format!(
            "{at}/project/.venv/bin:./node_modules/.bin::{at}/.cargo/bin:{at}/.nvm/versions/node/v20.1.0/bin:/usr/bin:/tmp"
        );
        let expected = format!("{at}/.cargo/bin:{at}/.nvm/versions/node/v20.1.0/bin:/usr/bin");
        assert_eq!(of_hosts(&commands, Some(home.path())), expected);
        assert_eq!(of_hosts("node_modules/.bin", None), BARE);
    }

    #[test]
    fn the_default_of_nvm_is_followed_and_leads_nowhere_else() {
        let home = home_with(&[
            ".nvm/alias/lts",
            ".nvm/versions/node/v2.0.0/bin",
            ".nvm/versions/node/v20.9.0/bin",
            ".nvm/versions/node/v20.11.1/bin",
            ".nvm/versions/node/v22.1.0/bin",
            ".nvm/versions/node/vile",
        ]);
        let nvm = home.path().join(".nvm");
        let picked = |default: &str| {
            fs::write(nvm.join("alias/default"), default).unwrap();
            nvm_bin(&nvm).unwrap().parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
        };
        fs::write(nvm.join("alias/lts/iron"), "v20.9.0\n").unwrap();
        for (default, version) in [
            ("20\n", "v20.11.1"),
            ("v20.9", "v20.9.0"),
            ("2", "v2.0.0"),
            ("lts/iron", "v20.9.0"),
            ("default", "v22.1.0"),
            ("../../../secret", "v22.1.0"),
            ("18", "v22.1.0"),
        ] {
            assert_eq!(picked(default), version, "{default}");
        }
    }
}
