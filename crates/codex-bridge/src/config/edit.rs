//! Changes the operator's file. All other content stays, comments included. An error, a crash or a full disk leaves the file
//! unchanged. Its mode and owner stay too.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use toml::{Table, Value};

use super::{config_failure, parse};
use crate::failure::{Code, Failure};
use crate::paths::cannot;

/// The mode of a new file, which may hold secrets.
const NEW_MODE: u32 = 0o600;

/// Appends lines, after checking that the new file has exactly the old settings plus those of the lines.
pub fn append(file: &Path, lines: &str) -> Result<(), Failure> {
    change(file, |file, old| {
        let new = append_text(old, lines);
        check(file, old, lines, &new).map(|()| new)
    })
}

/// Replaces the text of the file, or leaves it unchanged after an error. A missing file counts as empty.
pub(super) fn change(
    file: &Path,
    edit: impl FnOnce(&Path, &str) -> Result<String, Failure>,
) -> Result<(), Failure> {
    // A link stays a link: the file that it points to is changed.
    let file = &resolve_link(file).map_err(|error| cannot("find", file, &error))?;
    let before = match fs::read_to_string(file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(cannot("read", file, &error)),
    };
    let new = edit(file, before.as_deref().unwrap_or_default()).map_err(|failure| {
        let message = format!("{}; the file was not changed", failure.message);
        Failure { message, ..failure }
    })?;
    replace(file, before.as_deref(), &new)
}

fn resolve_link(file: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(file.to_owned()),
        found => found,
    }
}

fn append_text(old: &str, lines: &str) -> String {
    let end = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    format!("{old}{end}{lines}")
}

fn check(file: &Path, old: &str, lines: &str, new: &str) -> Result<(), Failure> {
    let read = |text: &str| toml::from_str::<Table>(text).map_err(|error| config_failure(text, file, error));
    let mut expected = read(old)?;
    merge(&mut expected, read(lines)?);
    if read(new)? != expected {
        let what =
            format!("the lines cannot be appended to {} without changing other settings", file.display());
        return Err(Failure::new(Code::Config, what).hint("edit the file by hand"));
    }
    parse(new, file).map(drop)
}

fn merge(table: &mut Table, more: Table) {
    for (key, value) in more {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(known)), Value::Table(more)) => merge(known, more),
            (_, value) => drop(table.insert(key, value)),
        }
    }
}

fn replace(file: &Path, before: Option<&str>, text: &str) -> Result<(), Failure> {
    let written = |error: io::Error| cannot("write", file, &error);
    let dir = file.parent().ok_or_else(|| written(ErrorKind::NotFound.into()))?;
    fs::create_dir_all(dir).map_err(|error| cannot("create", dir, &error))?;
    let mut new = NamedTempFile::with_prefix_in(".config-", dir).map_err(written)?;
    new.write_all(text.as_bytes()).map_err(written)?;
    let known = before.map(|_| fs::metadata(file)).transpose().map_err(written)?;
    copy_owner_and_mode(&new, known.as_ref()).map_err(written)?;
    new.as_file().sync_all().map_err(written)?;
    if fs::read_to_string(file).ok().as_deref() != before {
        let what = format!("{} was changed by another program meanwhile", file.display());
        return Err(Failure::new(Code::Config, what).hint("try again"));
    }
    new.persist(file).map_err(|error| written(error.error))?;
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(written)
}

/// Gives the new file the owner and the mode of the old one.
fn copy_owner_and_mode(new: &NamedTempFile, known: Option<&Metadata>) -> io::Result<()> {
    let own = new.as_file().metadata()?;
    if let Some(known) = known.filter(|known| (known.uid(), known.gid()) != (own.uid(), own.gid())) {
        fchown(new.as_file(), Some(known.uid()), Some(known.gid()))?;
    }
    let mode = known.map_or(NEW_MODE, |known| known.permissions().mode() & 0o7777);
    new.as_file().set_permissions(Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\n[channels.bot]\nallow = [\"1\"]\n\n[channels.bot.telegram]\n";

    fn mode(file: &Path) -> u32 {
        fs::metadata(file).unwrap().permissions().mode() & 0o7777
    }

    /// Appends to a file with this text: the outcome, the new text, and the number of files in the directory.
    fn added(text: &str, lines: &str) -> (Result<(), Failure>, String, usize) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let added = append(&file, lines);
        assert_eq!(mode(&file), 0o640);
        (added, fs::read_to_string(&file).unwrap(), fs::read_dir(dir.path()).unwrap().count())
    }

    #[test]
    fn what_stands_in_the_file_stays_as_it_is() {
        for text in ["# mine\nmax_running = 2 # few\n", "# no end of line\nmax_running = 2", ""] {
            let (done, now, files) = added(text, LINES);
            done.unwrap();
            assert!(now.starts_with(text) && now.ends_with(LINES), "{now}");
            assert_eq!(files, 1);
        }
    }

    #[test]
    fn what_would_break_the_file_leaves_it_as_it_was() {
        let inline = "channels = { a = { telegram = {} } }\n";
        let (bad_key, other) = ("[channels.bot]\ncolour = 1\n", "[channels.bot]\nallow = [\"2\"]\n");
        let twice = format!("[channels.bot]\nallow = [\"1\"]\n{other}");
        let cases =
            [("", bad_key), (inline, LINES), ("max_running = 2\n", "max_running = 3\n"), (&twice, LINES)];
        for (text, lines) in cases {
            let (done, now, files) = added(text, lines);
            let message = done.unwrap_err().message;
            assert!(message.contains("the file was not changed"), "{message}");
            assert_eq!((now.as_str(), files), (text, 1));
        }
    }

    #[test]
    fn a_new_file_is_its_owners_alone_and_a_link_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("new/config.toml"), dir.path().join("link.toml"));
        append(&file, LINES).unwrap();
        assert_eq!(mode(&file), 0o600);
        std::os::unix::fs::symlink(&file, &link).unwrap();
        append(&link, "[workspaces]\nmain = \"/\"\n").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&file).unwrap().contains("[workspaces]"));
    }
}
