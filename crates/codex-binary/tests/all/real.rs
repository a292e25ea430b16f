//! The same promises on the real codex, as `cargo xtask setup` installs it.

use std::fs;
use std::io::Read;
use std::path::Path;

use codex_binary::pinned::{PINNED_VERSION, installed};
use codex_binary::{Codex, Search, find};
use tempfile::tempdir_in;

fn real() -> Codex {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/codex");
    installed(&place).expect("the pinned codex is not installed: run `cargo xtask setup`")
}

#[test]
fn the_real_package_is_seen_through_to_its_native_binary() {
    let codex = real();
    assert_eq!(codex.version, PINNED_VERSION);
    let root = codex.package_root.unwrap();
    assert_eq!(codex.executable, root.join("bin/codex"));
    assert!(root.join("codex-resources").is_dir() && root.join("codex-path").is_dir());
    let mut start = [0; 2];
    fs::File::open(&codex.executable).unwrap().read_exact(&mut start).unwrap();
    assert_ne!(&start, b"#!", "this is a script");
}

#[test]
fn a_linked_copy_of_the_real_package_runs_without_its_original() {
    // Beside the build, so that it is on the file system of the original and costs links only.
    let folder = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let first = real().linked_copy(&folder.path().join("first")).unwrap();
    let second = first.linked_copy(&folder.path().join("second")).unwrap();
    fs::remove_dir_all(folder.path().join("first")).unwrap();
    let found = find(&Search { explicit: Some(second.executable.clone()), ..Search::default() }).unwrap();
    assert_eq!(found, second);
    let bwrap = second.package_root.unwrap().join("codex-resources/bwrap");
    assert_eq!(bwrap.exists(), cfg!(target_os = "linux"));
}
