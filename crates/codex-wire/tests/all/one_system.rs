//! What only Linux has is in one place.

use std::fs;
use std::path::{Path, PathBuf};

/// Words of Linux alone, in code; comments may speak of it.
const OF_LINUX: [&str; 7] =
    ["\"/proc", "os::linux", "OFlags::PATH", "pidfd", "subreaper(", "sockopt::PeerPidfd", "tcp_user_timeout"];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("codex-wire/src/os") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn what_only_linux_has_is_in_the_os_module() {
    let mut files = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap().flatten() {
        sources(&entry.path().canonicalize().unwrap().join("src"), &mut files);
    }
    assert!(files.len() > 100, "{}", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
        for (line, word) in code.flat_map(|line| OF_LINUX.map(|word| (line, word))) {
            assert!(!line.contains(word), "{} has {word}: {line}", file.display());
        }
    }
}
