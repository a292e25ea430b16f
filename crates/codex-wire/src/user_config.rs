//! Reads the parts of the user's own `config.toml` that are watched. Writes nothing to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// The longest path that is read from a `.git` file.
const LONGEST_LINK_BYTES: u64 = 8 * 1024;

/// The parts of a `config.toml` that are used here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserConfig {
    /// The names of the user's own MCP servers.
    pub mcp_servers: BTreeSet<String>,
    /// The MCP servers that are programs without a `cwd`: Codex starts them in the directory of the thread.
    pub mcp_servers_without_cwd: BTreeSet<String>,
    /// The directories with an entry under `projects`, each with its trust level.
    pub projects: BTreeMap<String, String>,
    /// The variables that the user sets for commands.
    pub command_variables: BTreeSet<String>,
}

impl UserConfig {
    /// Reads the file in a CODEX_HOME. A missing or unreadable file gives the defaults: Codex itself refuses to open a
    /// thread when its file is broken.
    pub fn read(codex_home: &Path) -> Self {
        fs::read_to_string(codex_home.join("config.toml")).map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Reads the text of a file.
    ///
    /// ```
    /// let config = codex_wire::user_config::UserConfig::parse("[mcp_servers.docs]\ncommand = \"docs\"\n");
    /// assert!(config.mcp_servers.contains("docs"));
    /// ```
    pub fn parse(text: &str) -> Self {
        let Ok(config) = toml::from_str::<Table>(text) else { return Self::default() };
        let table = |name: &str| config.get(name).and_then(Value::as_table);
        let keys = |table: Option<&Table>| table.into_iter().flat_map(Table::keys).cloned().collect();
        let level =
            |entry: &Value| entry.get("trust_level").and_then(Value::as_str).unwrap_or_default().to_owned();
        let projects = table("projects").into_iter().flatten();
        let servers = table("mcp_servers").into_iter().flatten();
        let has_no_cwd = |server: &Value| server.get("command").is_some() && server.get("cwd").is_none();
        Self {
            mcp_servers: keys(table("mcp_servers")),
            mcp_servers_without_cwd: servers
                .filter(|(_, server)| has_no_cwd(server))
                .map(|(name, _)| name.clone())
                .collect(),
            projects: projects.map(|(path, entry)| (path.clone(), level(entry))).collect(),
            command_variables: keys(
                table("shell_environment_policy")
                    .and_then(|policy| policy.get("set"))
                    .and_then(Value::as_table),
            ),
        }
    }

    /// A project entry that `earlier` did not have. Codex writes one by itself when it considers a repository trusted.
    fn new_project(&self, earlier: &Self, is_watched: impl Fn(&Path) -> bool) -> Option<&str> {
        let is_new = |(path, level): &(&String, &String)| earlier.projects.get(*path) != Some(*level);
        let found = self.projects.iter().filter(is_new).find(|(path, _)| is_watched(Path::new(path)));
        found.map(|(path, _)| path.as_str())
    }
}

/// The root of the repository that a directory is a worktree of. codex 0.166 writes its project entry for a worktree
/// under that root, which need not lie above the worktree. `None` for a directory that is no worktree.
fn main_root(dir: &Path) -> Option<PathBuf> {
    let (top, link) = dir.ancestors().find_map(|top| Some((top, first_line(&top.join(".git"))?)))?;
    let git_dir = top.join(link.strip_prefix("gitdir:")?.trim());
    let common = git_dir.join(first_line(&git_dir.join("commondir"))?).canonicalize().ok()?;
    common.parent().map(Path::to_owned)
}

/// The first line of a regular file. The file comes from the repository, so its content is not trusted.
fn first_line(file: &Path) -> Option<String> {
    if !fs::symlink_metadata(file).is_ok_and(|found| found.is_file()) {
        return None;
    }
    let mut text = String::new();
    fs::File::open(file).ok()?.take(LONGEST_LINK_BYTES).read_to_string(&mut text).ok()?;
    text.lines().next().map(str::to_owned)
}

/// Detects project entries for a directory that appear in a `config.toml`.
#[derive(Debug)]
pub struct ProjectWatch {
    home: PathBuf,
    /// The directory, and the root of the repository that it is a worktree of. `None` if no one else uses the home:
    /// then every new entry comes from Codex.
    dirs: Option<Vec<PathBuf>>,
    before: UserConfig,
    /// The state of the file at the last check.
    seen: Option<Stamp>,
}

/// Identifies one state of a file.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed_at: (i64, i64),
}

impl Stamp {
    fn of(file: &Path) -> Option<Self> {
        let found = fs::metadata(file).ok()?;
        let changed_at = (found.ctime(), found.ctime_nsec());
        Some(Self { inode: found.ino(), bytes: found.len(), changed_at })
    }
}

impl ProjectWatch {
    /// Watches the file of a CODEX_HOME for entries about `dir` from now on.
    pub fn begin(home: &Path, dir: &Path) -> Self {
        let seen = Stamp::of(&home.join("config.toml"));
        let dirs = [Some(dir.to_owned()), main_root(dir)].into_iter().flatten().collect();
        Self { home: home.to_owned(), dirs: Some(dirs), before: UserConfig::read(home), seen }
    }

    /// Watches a home that no one else uses and whose file is read by a launcher, starting from the content `before`.
    pub fn begin_with(before: UserConfig, home: &Path) -> Self {
        Self { home: home.to_owned(), dirs: None, before, seen: None }
    }

    /// A message if the file has a new entry about the directory: then work there should not go on. Cheap while the
    /// file is unchanged.
    pub fn new_entry(&mut self) -> Option<String> {
        let file = self.home.join("config.toml");
        let now = Stamp::of(&file);
        if now == self.seen {
            return None;
        }
        self.seen = now;
        self.new_entry_in(&UserConfig::read(&self.home))
    }

    /// The same, given the current content of the file.
    pub fn new_entry_in(&self, now: &UserConfig) -> Option<String> {
        let is_watched =
            |path: &Path| self.dirs.as_ref().is_none_or(|dirs| dirs.iter().any(|dir| dir.starts_with(path)));
        let path = now.new_project(&self.before, is_watched)?;
        Some(format!(
            "{} got an entry for {path} while Codex worked there. If that was you, continue the task; if not, remove the \
             entry: with it Codex runs what {path}/.codex says",
            self.home.join("config.toml").display()
        ))
    }

    /// The content of the file at the beginning.
    pub fn before(&self) -> &UserConfig {
        &self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_appears_is_told_once_and_other_changes_are_not() {
        let home = tempfile::tempdir().unwrap();
        let write = |text: &str| fs::write(home.path().join("config.toml"), text).unwrap();
        write("[projects.\"/srv/old\"]\ntrust_level = \"trusted\"\n");
        let mut watch = ProjectWatch::begin(home.path(), Path::new("/srv/repo/sub"));
        assert_eq!(watch.new_entry(), None);
        write("model = \"other\"\n");
        assert_eq!(watch.new_entry(), None);
        write("[projects.\"/srv/other\"]\ntrust_level = \"trusted\"\n");
        assert_eq!(watch.new_entry(), None);
        write("[projects.\"/srv/repo\"]\ntrust_level = \"trusted\"\n");
        let told = watch.new_entry().unwrap();
        assert!(told.contains("got an entry for /srv/repo "), "{told}");
        assert_eq!(watch.new_entry(), None, "it was told");
    }

    #[test]
    fn names_are_found_in_every_spelling_and_a_broken_file_says_nothing() {
        let config = UserConfig::parse(
            "mcp_servers.one.command = \"a\"\nshell_environment_policy.set = { A = \"1\" }\n[mcp_servers.\"two x\"]\ncommand = \"b\"\n\
             [projects.\"/srv/a b\"]\ntrust_level = \"trusted\"\n",
        );
        assert_eq!(config.mcp_servers, ["one".to_owned(), "two x".to_owned()].into());
        assert_eq!(config.mcp_servers_without_cwd, config.mcp_servers);
        let other =
            "[mcp_servers.here]\ncommand = \"a\"\ncwd = \"/srv\"\n[mcp_servers.far]\nurl = \"https://a\"\n";
        assert_eq!(UserConfig::parse(other).mcp_servers_without_cwd, BTreeSet::new());
        assert_eq!(config.projects, [("/srv/a b".to_owned(), "trusted".to_owned())].into());
        assert_eq!(config.command_variables, ["A".to_owned()].into());
        assert_eq!(UserConfig::parse("[mcp_servers"), UserConfig::default());
    }

    #[test]
    fn a_new_entry_counts_for_the_directory_and_for_what_lies_below_it() {
        let with = |entries: &[(&str, &str)]| UserConfig {
            projects: entries.iter().map(|(path, level)| ((*path).to_owned(), (*level).to_owned())).collect(),
            ..UserConfig::default()
        };
        let before = with(&[("/srv/old", "untrusted")]);
        let after = with(&[("/srv/old", "trusted"), ("/srv/repo", "trusted"), ("/srv/repo2", "trusted")]);
        let found =
            |dir: &'static str| after.new_project(&before, move |path| Path::new(dir).starts_with(path));
        assert_eq!(found("/srv/repo/sub"), Some("/srv/repo"));
        assert_eq!(found("/srv/repo"), Some("/srv/repo"));
        assert_eq!(found("/srv/old"), Some("/srv/old"), "its level changed");
        assert_eq!(found("/srv"), None);
        assert_eq!(after.new_project(&after, |_| true), None);
    }

    #[test]
    fn an_entry_for_the_repository_of_a_worktree_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let [home, main, worktree] = ["home", "main", "worktree"].map(|name| dir.path().join(name));
        let linked = main.join(".git/worktrees/worktree");
        for made in [&home, &linked, &worktree.join("sub")] {
            fs::create_dir_all(made).unwrap();
        }
        fs::write(worktree.join(".git"), format!("gitdir: {}\n", linked.display())).unwrap();
        fs::write(linked.join("commondir"), "../..\n").unwrap();
        let mut watch = ProjectWatch::begin(&home, &worktree.join("sub"));
        let entry = format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", main.canonicalize().unwrap());
        fs::write(home.join("config.toml"), entry).unwrap();
        assert!(watch.new_entry().is_some());
        assert_eq!(main_root(&main), None, "an ordinary repository");
    }

    #[test]
    fn in_a_home_that_nobody_else_uses_every_entry_counts() {
        let watch = ProjectWatch::begin_with(UserConfig::default(), Path::new("/h"));
        let now = UserConfig::parse("[projects.\"/elsewhere\"]\ntrust_level = \"trusted\"\n");
        assert!(watch.new_entry_in(&now).is_some_and(|told| told.contains("/elsewhere")));
    }
}
