//! A damaged file is a clear error, and a log that was cut off loses whole batches at its end at most.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use codex_bridge_core::store::conformance::samples::{add, append, full_task, new_task, task_id};
use codex_bridge_core::store::{Error, Store, TaskFilter, Write};

use crate::store_rig::{Rig, assert_sound, seqs};

const PAGE: u64 = 4096;

/// A closed store with some pages in every table.
async fn filled() -> Rig {
    let rig = Rig::new();
    let store = rig.open();
    for number in 1..=20 {
        store.commit(vec![add(full_task(number)), append(number, 1..=20)]).await.unwrap();
    }
    drop(store);
    rig
}

fn assert_corrupt(rig: &Rig, what: &str) {
    match rig.try_open() {
        Err(Error::Corrupt { place, detail }) => {
            assert_eq!(place, rig.file().display().to_string());
            assert!(!detail.is_empty());
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_damaged() {
    let rig = Rig::new();
    fs::write(rig.file(), "this is not a database, but somebody's notes. ".repeat(200)).unwrap();
    assert_corrupt(&rig, "notes");
    let rig = filled().await;
    let file = OpenOptions::new().write(true).open(rig.file()).unwrap();
    file.write_all_at(&[0; 100], 0).unwrap();
    assert_corrupt(&rig, "no header");
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_damaged() {
    let rig = filled().await;
    let whole = fs::read(rig.file()).unwrap();
    for kept in [whole.len() - 4096, whole.len() / 2, 4096 * 3, 4096, 5000, 100] {
        fs::write(rig.file(), &whole[..kept]).unwrap();
        assert_corrupt(&rig, &format!("{kept} of {}", whole.len()));
    }
}

/// Each page in turn: a page is never damaged without being noticed when the store is opened.
#[tokio::test]
async fn a_file_with_a_page_overwritten_is_damaged() {
    let rig = filled().await;
    let whole = fs::read(rig.file()).unwrap();
    let pages = whole.len() as u64 / PAGE;
    assert!(pages > 20, "{pages}");
    let file = OpenOptions::new().write(true).open(rig.file()).unwrap();
    for page in (0..pages).step_by(pages as usize / 20) {
        file.write_all_at(&[0xa5; 64], page * PAGE).unwrap();
        // Overflow pages hold nothing but text behind a pointer: that is the part that is damaged here.
        assert_corrupt(&rig, &format!("page {page} of {pages}"));
        file.write_all_at(&whole[usize::try_from(page * PAGE).unwrap()..][..64], page * PAGE).unwrap();
    }
    drop(file);
    assert_sound(&rig.open()).await;
}

#[tokio::test]
async fn damage_that_comes_while_the_store_is_open_is_told() {
    let rig = filled().await;
    let store = rig.open();
    let size = fs::metadata(rig.file()).unwrap().len();
    let file = OpenOptions::new().write(true).open(rig.file()).unwrap();
    for page in 2..size / PAGE {
        file.write_all_at(&[0xa5; 64], page * PAGE).unwrap();
    }
    let error = store.tasks(&TaskFilter::default()).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
    assert_ne!(store.check().await.unwrap(), Vec::<String>::new());
    let error = store.backup(&rig.folder().join("copy")).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
    assert!(!rig.folder().join("copy").exists(), "no backup is better than a bad one");
}

/// SQLite is content with all of this; our own rules are not.
#[tokio::test]
async fn what_breaks_our_own_rules_is_found_by_a_check() {
    for (damage, finding) in [
        (
            "DELETE FROM events WHERE task_id = 'codex-000000000001' AND seq = 7",
            "codex-000000000001 has gaps",
        ),
        (
            "DELETE FROM events WHERE task_id = 'codex-000000000001' AND seq = 1",
            "codex-000000000001 has gaps",
        ),
        (
            "DELETE FROM events WHERE task_id = 'codex-000000000001' AND seq = 20",
            "codex-000000000001 has gaps",
        ),
        ("DELETE FROM events WHERE task_id = 'codex-000000000001'", "codex-000000000001 has gaps"),
        ("DELETE FROM logs WHERE task_id = 'codex-000000000002'", "task codex-000000000002 has no log"),
        ("DELETE FROM tasks WHERE id = 'codex-000000000003'", "log of task codex-000000000003"),
        ("UPDATE events SET body = '{' WHERE seq = 3", "is not JSON"),
        ("UPDATE tasks SET status = 'dreaming' WHERE ord = 1", "task codex-000000000001 cannot be read"),
        ("UPDATE tasks SET settings = '{}' WHERE ord = 1", "task codex-000000000001 cannot be read"),
        (
            "INSERT INTO requests (request_id, epoch, wire_id, task_id, method, ask, state, created_at) \
             VALUES ('r', 'e', '0', 'nobody', 'm', '{}', 'open', 0)",
            "request r belongs to a task that is not there",
        ),
        (
            "INSERT INTO turns (task_id, number, client_id, progress, prompt_summary, created_at) \
             VALUES ('nobody', 1, 'c', 'ended', '', 0)",
            "turns of task nobody",
        ),
    ] {
        let rig = filled().await;
        let stranger = rig.stranger();
        stranger.execute_batch(&format!("PRAGMA foreign_keys = OFF; {damage}")).unwrap();
        drop(stranger);
        let findings = rig.open().check().await.unwrap();
        assert!(findings.iter().any(|line| line.contains(finding)), "{damage}: {findings:?}");
    }
}

/// The power goes: the log on the disk ends anywhere.
#[tokio::test]
async fn a_log_cut_anywhere_loses_whole_batches_at_its_end() {
    let rig = Rig::new();
    let store = rig.open();
    store.commit(vec![add(new_task(1)), add(new_task(2))]).await.unwrap();
    let save = |turns| {
        let mut task = new_task(1);
        task.used.turns = turns;
        Write::SaveTask(Box::new(task))
    };
    for number in 1..=100 {
        store.commit(vec![append(1, [number, number]), save(number), append(2, [number])]).await.unwrap();
    }
    let database = fs::read(rig.file()).unwrap();
    let log = fs::read(rig.beside("-wal")).unwrap();
    assert!(log.len() > 100_000, "the log is short: {}", log.len());
    let mut seen = Vec::new();
    for cut in (0..40).map(|step| log.len() * step / 39) {
        let after = Rig::new();
        fs::write(after.file(), &database).unwrap();
        fs::write(after.beside("-wal"), &log[..cut]).unwrap();
        let store = after.open();
        let batches = seqs(&store, 2).await.len();
        assert_eq!(seqs(&store, 1).await.len(), 2 * batches);
        let turns = store.task(&task_id(1)).await.unwrap().map_or(0, |task| task.used.turns);
        assert_eq!(turns as usize, batches);
        assert_sound(&store).await;
        seen.push(batches);
    }
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!(seen.last(), Some(&100));
}
