//! The PATH of commands, which has the user's tools; and the PATH of hosts, which is shorter.
//!
//! Codex looks up `git`, `bwrap` and the user's MCP servers on its own PATH, and runs them outside the sandbox. If that PATH
//! had a directory of a project, such as an active `.venv/bin`, a command could plant one of those programs. So the PATH of
//! hosts has only directories that no command can write: those of the system, and those of the usual tool managers, which
//! are read-only for commands.
//!
//! Commands run without a login shell, so that no profile runs unasked. A daemon that was started in a shell has the PATH of
//! that shell. A daemon that was started by a service manager has a bare PATH; then the directories of the usual tool
//! managers are put before it, as the user's profile would do. Only file names are read; nothing is run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The directories of tool managers below the user's home, in PATH order.
const TOOL_DIRS: [&str; 15] = [
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

/// The directories of the system's programs.
const SYSTEM_DIRS: [&str; 7] = ["/bin", "/nix", "/opt", "/run/current-system", "/sbin", "/snap", "/usr"];

/// The PATH if the service manager sets none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The longest chain of nvm aliases that is followed.
const MAX_ALIASES: usize = 5;

/// The PATH of commands, made from the daemon's PATH.
pub fn for_commands(path: Option<&str>, home: Option<&Path>) -> String {
    let path = path.filter(|path| !path.is_empty()).unwrap_or(DEFAULT_PATH);
    let Some(home) = home.filter(|home| home.is_absolute()) else { return path.to_owned() };
    let is_from_shell = path.split(':').any(|dir| Path::new(dir).starts_with(home) && Path::new(dir) != home);
    if is_from_shell {
        return path.to_owned();
    }
    let known = TOOL_DIRS.iter().map(|dir| home.join(dir)).chain(nvm_bin(&home.join(".nvm")));
    let found = known.filter(|dir| dir.is_dir()).map(|dir| dir.to_string_lossy().into_owned());
    found.chain([path.to_owned()]).collect::<Vec<_>>().join(":")
}

/// The PATH of hosts, made from the PATH of commands.
pub fn for_hosts(commands: &str, home: Option<&Path>) -> String {
    let is_known = |dir: &Path| home.is_some_and(|home| is_tool_dir(dir, home));
    let is_safe = |dir: &&str| {
        Path::new(dir).is_absolute() && (is_system_dir(Path::new(dir)) || is_known(Path::new(dir)))
    };
    let dirs: Vec<&str> = commands.split(':').filter(is_safe).collect();
    if dirs.is_empty() { DEFAULT_PATH.to_owned() } else { dirs.join(":") }
}

/// The directories on a PATH.
pub fn directories(path: &str) -> impl Iterator<Item = PathBuf> {
    path.split(':').filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

fn is_tool_dir(dir: &Path, home: &Path) -> bool {
    let nodes = home.join(".nvm/versions/node");
    let is_node =
        dir.strip_prefix(nodes).is_ok_and(|below| below.components().count() == 2 && below.ends_with("bin"));
    is_node || TOOL_DIRS.iter().any(|known| dir == home.join(known))
}

/// Whether only root can write to the directory and those above it. For root, who can write everywhere, the name decides.
fn is_system_dir(dir: &Path) -> bool {
    let Ok(real) = dir.canonicalize() else { return false };
    if geteuid().is_root() {
        return SYSTEM_DIRS.iter().any(|top| real.starts_with(top));
    }
    let is_root_only =
        |dir: &Path| dir.metadata().is_ok_and(|found| found.uid() == 0 && found.mode() & 0o022 == 0);
    real.ancestors().all(is_root_only)
}

/// Finds a program on a PATH.
pub fn find(program: &str, path: &str) -> Option<PathBuf> {
    directories(path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// The directory of nvm's default Node: the newest version that the alias `default` matches, else the newest.
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

/// The version that the alias `default` leads to, such as `20` or `v20.1.0`.
fn default_alias(nvm: &Path) -> Option<String> {
    let mut name = "default".to_owned();
    for _ in 0..MAX_ALIASES {
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
        let path = |path| for_commands(path, Some(home.path()));
        assert_eq!(
            path(Some("/usr/bin:/bin")),
            format!("{at}/.cargo/bin:{at}/.nvm/versions/node/v20.10.0/bin:/usr/bin:/bin")
        );
        assert!(path(None).ends_with(DEFAULT_PATH));
        let from_shell = format!("{at}/tools:/usr/bin");
        assert_eq!(path(Some(&from_shell)), from_shell);
        assert_eq!(for_commands(Some("/bin"), None), "/bin");
    }

    #[test]
    fn hosts_have_no_directory_that_a_command_could_write() {
        let home = home_with(&[".cargo/bin", "project/.venv/bin", ".nvm/versions/node/v20.1.0/bin"]);
        let at = home.path().display();
        let commands = format!(
            "{at}/project/.venv/bin:./node_modules/.bin::{at}/.cargo/bin:{at}/.nvm/versions/node/v20.1.0/bin:/usr/bin:/tmp"
        );
        let expected = format!("{at}/.cargo/bin:{at}/.nvm/versions/node/v20.1.0/bin:/usr/bin");
        assert_eq!(for_hosts(&commands, Some(home.path())), expected);
        assert_eq!(for_hosts("node_modules/.bin", None), DEFAULT_PATH);
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
