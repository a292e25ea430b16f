//! Reads the `AGENTS.md` files of a directory whose instructions count, from the root of its repository down.
//!
//! Codex itself would follow a link to any file of the machine and send its text to the model (codex 0.166). Here only
//! plain files count, and only so much of them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Bytes of all files together, as Codex allows by default.
const MOST_BYTES: u64 = 32 * 1024;

/// The names of such a file; the first one that is there counts.
const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// The instructions for work in `dir`, which is a real path; none if there are none.
pub(crate) fn instructions_of(dir: &Path) -> Option<String> {
    let above: Vec<&Path> = dir.ancestors().collect();
    // Without a repository only the directory itself counts, as for Codex.
    let root = above.iter().position(|dir| dir.join(".git").symlink_metadata().is_ok()).unwrap_or(0);
    let mut left = MOST_BYTES;
    let mut parts = Vec::new();
    for dir in above.into_iter().take(root + 1).rev() {
        let Some((name, text)) =
            NAMES.iter().find_map(|name| Some((name, plain_file(&dir.join(name), left)?)))
        else {
            continue;
        };
        left = left.saturating_sub(text.len() as u64);
        parts.push(format!("Instructions from {}:\n\n{}", dir.join(name).display(), text.trim_end()));
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// The beginning of a plain file with one name. A link is not followed: it may lead anywhere. A file with several names
/// may be somebody else's.
fn plain_file(path: &Path, most: u64) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok()?;
    if !found.is_file() || found.nlink() != 1 {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_from_the_root_of_the_repository_down_count_and_none_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let work = top.join("repo/sub");
        fs::create_dir_all(&work).unwrap();
        fs::create_dir(top.join("repo/.git")).unwrap();
        for (file, text) in [
            ("AGENTS.md", "of nobody"),
            ("repo/AGENTS.md", "of the repository"),
            ("repo/sub/AGENTS.md", "overridden"),
            ("repo/sub/AGENTS.override.md", "of the part"),
        ] {
            fs::write(top.join(file), text).unwrap();
        }
        let text = instructions_of(&work).unwrap();
        let (first, second) = (text.find("of the repository").unwrap(), text.find("of the part").unwrap());
        assert!(first < second && !text.contains("of nobody") && !text.contains("overridden"), "{text}");
        assert_eq!(
            instructions_of(&top.join("repo/.git")).as_deref().map(|text| text.contains("part")),
            Some(false)
        );
    }

    #[test]
    fn what_is_no_plain_file_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let secret = top.join("secret");
        fs::write(&secret, "a secret").unwrap();
        let file = top.join("AGENTS.md");
        symlink(&secret, &file).unwrap();
        assert_eq!(instructions_of(&top), None, "a link");
        fs::remove_file(&file).unwrap();
        fs::hard_link(&secret, &file).unwrap();
        assert_eq!(instructions_of(&top), None, "a second name of another file");
        fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        assert_eq!(instructions_of(&top), None, "a pipe, which nobody writes");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(instructions_of(&top), None, "a directory");
    }

    #[test]
    fn only_so_much_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::write(top.join("AGENTS.md"), "x".repeat(100_000)).unwrap();
        let text = instructions_of(&top).unwrap();
        assert!(text.len() < 33 * 1024, "{}", text.len());
    }
}
