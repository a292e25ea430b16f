//! Opening: private files, one owner, clear errors.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use codex_bridge_core::store::conformance::samples::{add, append, new_task};
use codex_bridge_core::store::{Error, Store, TaskFilter};

use crate::store_rig::{Rig, assert_sound, seqs};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

// peer: T27
#[tokio::test]
async fn all_files_are_private_and_so_is_a_folder_that_is_created() {
    let rig = Rig::new();
    let folder = rig.folder().join("below/here");
    let file = folder.join("bridge.sqlite3");
    let store = codex_bridge_core::store::sqlite::Sqlite::open(&file).unwrap();
    store.commit(vec![add(new_task(1))]).await.unwrap();
    store.backup(&folder.join("backup")).await.unwrap();
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 6, "database, log, shared memory, lock, ballast, backup: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_database_that_others_could_read_is_closed_to_them() {
    let rig = Rig::new();
    drop(rig.open());
    fs::set_permissions(rig.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let _store = rig.open();
    assert_eq!(mode(&rig.file()), 0o600);
}

#[tokio::test]
async fn what_was_written_is_there_when_it_is_opened_again() {
    let rig = Rig::new();
    let store = rig.open();
    store.commit(vec![add(new_task(1)), append(1, 1..=3)]).await.unwrap();
    drop(store);
    assert!(!rig.beside("-wal").exists(), "a clean end leaves one file");
    let store = rig.open();
    assert_eq!(seqs(&store, 1).await, [1, 2, 3]);
    assert_eq!(store.commit(vec![append(1, [4])]).await.unwrap()[0].seq, 4);
}

/// Nobody need wait for an answer that comes too late.
#[tokio::test]
async fn what_is_queued_is_written_before_the_store_is_closed() {
    let rig = Rig::new();
    let store = rig.open();
    store.commit(vec![add(new_task(1))]).await.unwrap();
    for number in 1..=100 {
        // Polled once, it is queued; then nobody waits for it.
        let _ = futures_util::poll!(store.commit(vec![append(1, [number])]));
        tokio::task::yield_now().await;
    }
    drop(store);
    assert_eq!(seqs(&rig.open(), 1).await, (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_second_owner_is_refused_at_once_and_welcome_later() {
    let rig = Rig::new();
    let first = rig.open();
    let begun = Instant::now();
    let error = rig.try_open().unwrap_err();
    assert_eq!(error, Error::Locked { place: rig.file().display().to_string() });
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    first.commit(vec![add(new_task(1))]).await.unwrap();
    drop(first);
    assert_eq!(rig.open().tasks(&TaskFilter::default()).await.unwrap().len(), 1);
}

#[test]
fn an_owner_in_another_process_keeps_others_out_until_it_is_killed() {
    if let Some(rig) = Rig::of_first_half() {
        let _store = rig.open();
        println!("open");
        // Until it is killed, or the first half is gone.
        std::io::stdin().lines().for_each(drop);
        return;
    }
    let rig = Rig::new();
    let test = "store_open::an_owner_in_another_process_keeps_others_out_until_it_is_killed";
    let mut other = rig.other_half(test).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("open")), "the other half did not open the store");
    assert!(matches!(rig.try_open(), Err(Error::Locked { .. })));
    other.kill().unwrap();
    other.wait().unwrap();
    rig.open();
}

#[tokio::test]
async fn a_stranger_that_writes_is_waited_for_but_not_for_ever() {
    let rig = Rig::new();
    let store = rig.open();
    store.commit(vec![add(new_task(1))]).await.unwrap();
    let stranger = rig.stranger();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    let outcome = store.commit(vec![append(1, [1])]).await;
    assert_eq!(outcome, Err(Error::Locked { place: rig.file().display().to_string() }));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(seqs(&store, 1).await, [0; 0], "a stranger that writes keeps nobody from reading");
    stranger.execute_batch("COMMIT").unwrap();
    assert_eq!(store.commit(vec![append(1, [1])]).await.unwrap()[0].seq, 1);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_database_that_a_stranger_has_for_itself_is_locked() {
    let rig = Rig::new();
    drop(rig.open());
    let stranger = rig.stranger();
    stranger.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    assert!(matches!(rig.try_open(), Err(Error::Locked { .. })));
    drop(stranger);
    rig.open();
}

#[test]
fn a_database_of_a_later_version_is_left_as_it_is() {
    let rig = Rig::new();
    drop(rig.open());
    rig.stranger().pragma_update(None, "user_version", 999).unwrap();
    let before = fs::read(rig.file()).unwrap();
    let error = rig.try_open().unwrap_err();
    let migrations = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/migrations")).unwrap();
    let known = i64::try_from(migrations.count()).unwrap();
    assert_eq!(error, Error::TooNew { place: rig.file().display().to_string(), found: 999, known });
    assert_eq!(fs::read(rig.file()).unwrap(), before);
}

#[test]
fn a_database_of_another_program_is_left_as_it_is() {
    let rig = Rig::new();
    rig.stranger().execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
    let before = fs::read(rig.file()).unwrap();
    let error = rig.try_open().unwrap_err().to_string();
    assert!(error.contains("another program"), "{error}");
    assert_eq!(fs::read(rig.file()).unwrap(), before);
}

#[test]
fn a_folder_in_the_place_of_the_database_is_an_error_with_its_name() {
    let rig = Rig::new();
    fs::create_dir(rig.file()).unwrap();
    let error = rig.try_open().unwrap_err().to_string();
    assert!(error.contains("bridge.sqlite3"), "{error}");
}
