//! The linked copy: it outlives its original, is made once, and is never changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use codex_binary::{Codex, Search, find};
use tempfile::tempdir;

use crate::fake;

fn found(executable: &Path) -> Codex {
    find(&Search { explicit: Some(executable.to_path_buf()), ..Search::default() }).unwrap()
}

fn inode(path: &Path) -> (u64, u64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.dev(), metadata.ino())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_linked_copy_runs_after_its_original_was_moved_away() {
    let folder = tempdir().unwrap();
    let original = found(&fake::package(&folder.path().join("original"), &fake::good()));
    let into = folder.path().join("copies");
    let copy = original.linked_copy(&into).unwrap();
    assert_eq!(copy.package_root, Some(into.join("0.166.0").canonicalize().unwrap()));
    assert_eq!(
        inode(&copy.executable),
        inode(&original.executable),
        "it is a copy where a link was possible"
    );
    fs::rename(folder.path().join("original"), folder.path().join("elsewhere")).unwrap();
    assert_eq!(found(&copy.executable), copy);
}

#[test]
fn a_second_call_changes_nothing() {
    let folder = tempdir().unwrap();
    let original = found(&fake::package(&folder.path().join("original"), &fake::good()));
    let into = folder.path().join("copies");
    let first = original.linked_copy(&into).unwrap();
    let made = inode(first.package_root.as_ref().unwrap());
    assert_eq!(original.linked_copy(&into).unwrap(), first);
    assert_eq!(inode(first.package_root.as_ref().unwrap()), made);
    assert_eq!(names(&into), [".lock", "0.166.0"]);
}

#[test]
fn the_copy_of_a_lone_binary_is_a_lone_binary() {
    let folder = tempdir().unwrap();
    let original = found(&fake::codex(&folder.path().join("codex"), &fake::good()));
    let copy = original.linked_copy(&folder.path().join("copies")).unwrap();
    assert_eq!(copy.package_root, None);
    fs::remove_file(&original.executable).unwrap();
    assert_eq!(found(&copy.executable), copy);
}

#[test]
fn another_content_under_the_same_version_leaves_the_first_copy_alone() {
    let folder = tempdir().unwrap();
    let into = folder.path().join("copies");
    let first =
        found(&fake::package(&folder.path().join("first"), "0.170.0-alpha.1")).linked_copy(&into).unwrap();
    let second = found(&fake::package(&folder.path().join("second"), "0.170.0-alpha.2"));
    let copy = second.linked_copy(&into).unwrap();
    assert_ne!(copy.executable, first.executable);
    assert_eq!(inode(&copy.executable), inode(&second.executable));
    assert_eq!(second.linked_copy(&into).unwrap(), copy);
    let lone = found(&fake::codex(&folder.path().join("codex"), "0.170.0-beta")).linked_copy(&into).unwrap();
    assert_eq!(found(&lone.executable), lone);
    assert_eq!(names(&into), [".lock", "0.170.0-pre", "0.170.0-pre.1", "0.170.0-pre.2"]);
}

#[test]
fn the_same_package_installed_again_shares_the_first_copy() {
    let folder = tempdir().unwrap();
    let into = folder.path().join("copies");
    let first =
        found(&fake::package(&folder.path().join("first"), &fake::good())).linked_copy(&into).unwrap();
    let again =
        found(&fake::package(&folder.path().join("again"), &fake::good())).linked_copy(&into).unwrap();
    assert_eq!(again, first);
}

#[test]
fn a_damaged_copy_is_not_used() {
    let folder = tempdir().unwrap();
    let original = found(&fake::package(&folder.path().join("original"), &fake::good()));
    let into = folder.path().join("copies");
    let first = original.linked_copy(&into).unwrap();
    fs::remove_file(first.package_root.as_ref().unwrap().join("codex-resources/bwrap")).unwrap();
    let second = original.linked_copy(&into).unwrap();
    assert_ne!(second, first);
    assert_eq!(found(&second.executable), second);
}

#[test]
fn what_a_dead_process_left_half_built_is_cleared() {
    let folder = tempdir().unwrap();
    let original = found(&fake::package(&folder.path().join("original"), &fake::good()));
    let into = folder.path().join("copies");
    fs::create_dir_all(into.join(".building/bin")).unwrap();
    fs::write(into.join(".building/bin/codex"), "half").unwrap();
    let copy = original.linked_copy(&into).unwrap();
    assert_eq!(found(&copy.executable), copy);
    assert_eq!(names(&into), [".lock", "0.166.0"]);
}

#[test]
fn many_at_once_all_get_the_same_copy() {
    let folder = tempdir().unwrap();
    let original = found(&fake::package(&folder.path().join("original"), &fake::good()));
    let into = folder.path().join("copies");
    let start = Barrier::new(8);
    let copies: Vec<_> = thread::scope(|scope| {
        let ask = || {
            start.wait();
            original.linked_copy(&into)
        };
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
    });
    assert!(copies.iter().all(|copy| *copy == copies[0]), "{copies:?}");
    assert_eq!(names(&into), [".lock", "0.166.0"]);
}

/// `/dev/shm` is a file system of its own.
#[cfg(target_os = "linux")]
#[test]
fn on_another_file_system_it_is_copied() {
    let folder = tempdir().unwrap();
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let original = found(&fake::package(&folder.path().join("original"), &fake::good()));
    let into = if inode(folder.path()).0 == inode(elsewhere.path()).0 {
        panic!("the temporary folder is on /dev/shm as well: set TMPDIR to another place");
    } else {
        elsewhere.path().join("copies")
    };
    let copy = original.linked_copy(&into).unwrap();
    assert_ne!(inode(&copy.executable), inode(&original.executable));
    assert_eq!(original.linked_copy(&into).unwrap(), copy, "an equal copy is made twice");
    fs::remove_dir_all(folder.path().join("original")).unwrap();
    assert_eq!(found(&copy.executable), copy);
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let folder = tempdir().unwrap();
    let original = found(&fake::codex(&folder.path().join("codex"), &fake::good()));
    let error = original.linked_copy(&original.executable).unwrap_err();
    let start = format!("codex could not be linked into {}: ", original.executable.display());
    assert!(error.to_string().starts_with(&start), "{error}");
}
