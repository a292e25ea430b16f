//! A copy is made while everything goes on, over nobody's file, and opens as a store.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use codex_bridge_core::store::conformance::samples::{add, append, new_task};
use codex_bridge_core::store::sqlite::Sqlite;
use codex_bridge_core::store::{Error, Store};
use futures_util::future::join;

use crate::store_rig::{Rig, assert_sound, first, seqs};

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_in_the_midst_of_writing_is_a_whole_store() {
    let rig = Rig::new();
    let store = rig.open();
    store.commit(vec![add(new_task(1)), add(new_task(2)), append(1, 1..=5000)]).await.unwrap();
    let done = AtomicBool::new(false);
    let write = async {
        let mut batches = 0;
        while !done.load(Ordering::Relaxed) {
            store.commit(vec![append(1, [batches]), append(2, [batches])]).await.unwrap();
            batches += 1;
        }
        batches
    };
    let file = rig.folder().join("copies.db");
    let copy = async {
        for _ in 0..3 {
            let _ = fs::remove_file(&file);
            store.backup(&file).await.unwrap();
        }
        done.store(true, Ordering::Relaxed);
    };
    let (batches, ()) = join(write, copy).await;
    assert!(batches > 0, "nothing was written meanwhile");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let restored = Sqlite::open(&file).unwrap();
    let of_two = seqs(&restored, 2).await;
    assert_eq!(seqs(&restored, 1).await, first(5000 + of_two.len()));
    assert_sound(&restored).await;
}

#[tokio::test]
async fn a_backup_is_one_file_and_leaves_nothing_else() {
    let rig = Rig::new();
    let store = rig.open();
    store.commit(vec![add(new_task(1))]).await.unwrap();
    let folder = rig.folder().join("copies");
    fs::create_dir(&folder).unwrap();
    store.backup(&folder.join("copy")).await.unwrap();
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["copy"]);
}

#[tokio::test]
async fn a_backup_is_never_written_over_a_file() {
    let rig = Rig::new();
    let store = rig.open();
    let file = rig.folder().join("precious");
    fs::write(&file, "mine").unwrap();
    let error = store.backup(&file).await.unwrap_err().to_string();
    assert!(error.contains("precious exists already"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert!(store.backup(&rig.file()).await.is_err(), "the store itself");
    let nowhere = store.backup(&rig.folder().join("no/such/folder")).await.unwrap_err();
    assert!(matches!(nowhere, Error::Other(_)), "{nowhere:?}");
}
