//! What the user's own `config.toml` says about matters that we watch. It is theirs: nothing here writes to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::{Table, Value};

/// What we read of a `config.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// The names of the user's own MCP servers.
    pub mcp_servers: BTreeSet<String>,
    /// The directories that the user has decided about, each with its trust level.
    pub projects: BTreeMap<String, String>,
    /// The variables that the user sets for commands.
    pub command_variables: BTreeSet<String>,
}

impl UserConfig {
    /// Reads the file in a home of Codex. One that is missing or cannot be read says nothing: Codex itself refuses to
    /// open a thread when its file is broken.
    pub fn read(codex_home: &Path) -> Self {
        std::fs::read_to_string(codex_home.join("config.toml"))
            .map(|text| Self::parse(&text))
            .unwrap_or_default()
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
        Self {
            mcp_servers: keys(table("mcp_servers")),
            projects: projects.map(|(path, entry)| (path.clone(), level(entry))).collect(),
            command_variables: keys(
                table("shell_environment_policy")
                    .and_then(|policy| policy.get("set"))
                    .and_then(Value::as_table),
            ),
        }
    }

    /// A decision about `dir` or a directory above it that `earlier` did not have. Codex writes one by itself when it
    /// takes a repository for trusted.
    pub fn new_project_above(&self, dir: &Path, earlier: &Self) -> Option<&str> {
        let is_new = |(path, level): &(&String, &String)| earlier.projects.get(*path) != Some(*level);
        let found = self.projects.iter().filter(is_new).find(|(path, _)| dir.starts_with(path.as_str()));
        found.map(|(path, _)| path.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_every_spelling_and_a_broken_file_says_nothing() {
        let config = UserConfig::parse(
            "mcp_servers.one.command = \"a\"\nshell_environment_policy.set = { A = \"1\" }\n[mcp_servers.\"two x\"]\ncommand = \"b\"\n\
             [projects.\"/srv/a b\"]\ntrust_level = \"trusted\"\n",
        );
        assert_eq!(config.mcp_servers, ["one".to_owned(), "two x".to_owned()].into());
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
        let found = |dir: &str| after.new_project_above(Path::new(dir), &before);
        assert_eq!(found("/srv/repo/sub"), Some("/srv/repo"));
        assert_eq!(found("/srv/repo"), Some("/srv/repo"));
        assert_eq!(found("/srv/old"), Some("/srv/old"), "its level changed");
        assert_eq!(found("/srv"), None);
        assert_eq!(after.new_project_above(Path::new("/srv/repo"), &after), None);
    }
}
