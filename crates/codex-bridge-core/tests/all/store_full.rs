//! A disk without space and a disk that cannot be written, for real: a small file system of the test's own, in a
//! namespace that ends with it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use codex_bridge_core::event::{Line, NewEvent, Other};
use codex_bridge_core::request::RequestState;
use codex_bridge_core::store::conformance::samples::{
    add, append, full_task, new_task, request, task_id, turn,
};
use codex_bridge_core::store::sqlite::Sqlite;
use codex_bridge_core::store::{Error, Prune, Store, TaskFilter, Write};
use codex_bridge_core::task::{Status, Task};
use codex_wire::RequestId;
use futures_util::future::{join, join_all};
use serde_json::json;

use crate::store_rig::{Rig, assert_sound, first, seqs};

/// Runs the test again where it may mount. Not being able to is a failure: nothing here is skipped.
fn in_a_namespace(test: &str) {
    let rig = Rig::new();
    let unshare = ["unshare", "--user", "--map-root-user", "--mount"];
    let output =
        rig.other_half_by(&unshare, test).output().expect("`unshare` (util-linux) cannot be started");
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{told}\n{errors}\nif it is `unshare` that failed: this test needs user namespaces, or to be run as root"
    );
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

fn mount(rig: &Rig, megabytes: u32) {
    let options = format!("size={megabytes}m,mode=0700");
    run("mount", &["-t", "tmpfs", "-o", &options, "none", rig.folder().to_str().unwrap()]);
}

/// Takes all the space there is.
fn fill(file: &Path) {
    let mut file = File::create(file).unwrap();
    for block in [vec![1; 64 * 1024], vec![1; 4096], vec![1; 1]] {
        while file.write_all(&block).is_ok() {}
    }
}

fn bulky(number: u32) -> Write {
    let body = json!({"text": "x".repeat(20_000)}).as_object().cloned().unwrap();
    Write::Append {
        task_id: task_id(number),
        events: vec![NewEvent { at: 0, line: Line::Other(Other { kind: "bulk".into(), data: body }) }],
    }
}

/// Writes until there is no space, and gives the number of what was acknowledged.
async fn write_until_full(store: &Sqlite, present: i64) -> i64 {
    for last in present..10_000 {
        match store.commit(vec![bulky(1)]).await {
            Ok(events) => assert_eq!(events[0].seq, last + 1),
            Err(Error::DiskFull { .. }) => return last,
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("the disk is never full");
}

fn is_full<T: std::fmt::Debug>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::DiskFull { .. }))
}

async fn assert_only_begun_work_goes_on(store: &Sqlite, acknowledged: i64) {
    assert!(is_full(&store.commit(vec![add(new_task(50))]).await), "new work is refused");
    assert!(is_full(&store.commit(vec![bulky(1)]).await), "events alone are refused");
    for number in 0..200_u32 {
        let mut task = full_task(2);
        task.used.turns = number;
        let state = RequestState::Decided;
        let batch = vec![
            Write::SaveTask(Box::new(task)),
            Write::SaveTurn(Box::new(turn(2, number % 5))),
            Write::SaveRequest(Box::new(request(2, RequestId::Number(i64::from(number) % 5), state))),
            append(2, [number]),
        ];
        store.commit(batch).await.unwrap();
    }
    assert_eq!(seqs(store, 1).await, (1..=acknowledged).collect::<Vec<_>>());
    assert_eq!(store.task(&task_id(2)).await.unwrap().unwrap().used.turns, 199);
    assert_eq!(store.tasks(&TaskFilter::default()).await.unwrap().len(), 2);
    assert_sound(store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_begun_work_finds_its_end_and_with_space_all_goes_on() {
    let Some(rig) = Rig::of_first_half() else {
        return in_a_namespace(
            "store_full::on_a_full_disk_begun_work_finds_its_end_and_with_space_all_goes_on",
        );
    };
    mount(&rig, 32);
    let store = rig.open();
    store.commit(vec![add(new_task(1)), add(full_task(2))]).await.unwrap();
    assert!(rig.beside(".ballast").exists());
    let filler = rig.folder().join("filler");
    fill(&filler);

    let acknowledged = write_until_full(&store, 0).await;
    assert!(!rig.beside(".ballast").exists(), "the ballast is given up");
    assert_only_begun_work_goes_on(&store, acknowledged).await;

    drop(store);
    let store = rig.open();
    assert!(is_full(&store.commit(vec![add(new_task(50))]).await), "still full after a restart");
    assert_eq!(seqs(&store, 1).await, (1..=acknowledged).collect::<Vec<_>>());

    fs::remove_file(filler).unwrap();
    store.commit(vec![add(new_task(50)), bulky(1)]).await.unwrap();
    assert!(rig.beside(".ballast").exists(), "the ballast is set aside again");
    assert_eq!(seqs(&store, 1).await, (1..=acknowledged + 1).collect::<Vec<_>>());
    assert_sound(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_a_prune_makes_room() {
    let Some(rig) = Rig::of_first_half() else {
        return in_a_namespace("store_full::on_a_full_disk_a_prune_makes_room");
    };
    mount(&rig, 48);
    let store = rig.open();
    let over = Task { status: Status::Completed, ..new_task(1) };
    store.commit(vec![add(over), add(full_task(2))]).await.unwrap();
    for _ in 0..1000 {
        store.commit(vec![bulky(1)]).await.unwrap();
    }
    fill(&rig.folder().join("filler"));
    write_until_full(&store, 1000).await;
    assert!(is_full(&store.commit(vec![add(new_task(50))]).await));
    let prune = Prune { ended_before: i64::MAX, events_per_task: 1000 };
    assert_eq!(store.prune(prune).await.unwrap(), 1);
    store.commit(vec![add(new_task(50)), append(50, 1..=100)]).await.unwrap();
    assert!(rig.beside(".ballast").exists());
    assert_sound(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_new_work_could_be_written_is_found_out_by_writing() {
    let Some(rig) = Rig::of_first_half() else {
        return in_a_namespace("store_full::whether_new_work_could_be_written_is_found_out_by_writing");
    };
    mount(&rig, 32);
    let store = rig.open();
    store.commit(vec![add(new_task(1))]).await.unwrap();
    assert_eq!(store.check_writable().await, Ok(()));
    let filler = rig.folder().join("filler");
    fill(&filler);
    // Nobody else has written, so that only the probe can tell.
    assert!(is_full(&store.check_writable().await));
    assert!(rig.beside(".ballast").exists(), "what is kept for begun work is not spent on a question");
    write_until_full(&store, 0).await;
    assert!(!rig.beside(".ballast").exists(), "now there is space, but not for new work");
    assert!(is_full(&store.check_writable().await));
    fs::remove_file(filler).unwrap();
    assert_eq!(store.check_writable().await, Ok(()));
    let names = fs::read_dir(rig.folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("probe")).collect();
    assert!(left.is_empty(), "{left:?}");

    // While files are open, a file system cannot become read-only for all; for whoever opens another here, it can.
    let folder = rig.folder().to_str().unwrap();
    run("mount", &["--bind", folder, folder]);
    run("mount", &["-o", "remount,bind,ro", folder]);
    let place = rig.file().display().to_string();
    assert_eq!(store.check_writable().await, Err(Error::ReadOnly { place }));
    run("umount", &[folder]);
    assert_eq!(store.check_writable().await, Ok(()));
    assert_sound(&store).await;
}

/// Together they are one transaction: it fails, and leaves no trace. Then each stands for itself.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_changes_that_do_not_fit_together_each_is_kept_whole_or_refused_whole() {
    let Some(rig) = Rig::of_first_half() else {
        return in_a_namespace(
            "store_full::of_many_changes_that_do_not_fit_together_each_is_kept_whole_or_refused_whole",
        );
    };
    mount(&rig, 32);
    let store = rig.open();
    store.commit(vec![add(new_task(1)), add(new_task(2)), add(new_task(3))]).await.unwrap();
    fill(&rig.folder().join("filler"));
    // All are changes of state, for which the ballast is given up; the large ones would use it up.
    let large = |_| {
        let mut writes: Vec<_> = (0..20).map(|_| bulky(1)).collect();
        writes.push(Write::SaveTask(Box::new(full_task(2))));
        store.commit(writes)
    };
    let small = |number| store.commit(vec![Write::SaveTask(Box::new(new_task(3))), append(3, [number])]);
    let (large, small) = join(join_all((0..50).map(large)), join_all((0..50).map(small))).await;
    let refused = large.iter().filter(|outcome| is_full(outcome)).count();
    assert!(refused > 0, "all of it fitted");
    assert!(large.iter().all(|outcome| outcome.is_ok() || is_full(outcome)), "{large:?}");
    let kept = (large.len() - refused) * 20;
    assert_eq!(seqs(&store, 1).await, first(kept));
    assert!(small.iter().all(Result::is_ok), "the large ones took others with them");
    assert_eq!(seqs(&store, 3).await, first(50));
    assert_sound(&store).await;
    fs::remove_file(rig.folder().join("filler")).unwrap();
    assert_eq!(store.commit(vec![bulky(1)]).await.unwrap()[0].seq, first(kept + 1)[kept]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_opens_and_reads_on_a_disk_that_became_full_while_it_was_closed() {
    let Some(rig) = Rig::of_first_half() else {
        return in_a_namespace(
            "store_full::a_store_opens_and_reads_on_a_disk_that_became_full_while_it_was_closed",
        );
    };
    mount(&rig, 32);
    let store = rig.open();
    store.commit(vec![add(new_task(1)), add(full_task(2)), append(1, 1..=10)]).await.unwrap();
    drop(store);
    fill(&rig.folder().join("filler"));
    let store = rig.open();
    assert_eq!(seqs(&store, 1).await, (1..=10).collect::<Vec<_>>());
    store.commit(vec![Write::SaveTask(Box::new(full_task(2)))]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_does_not_fit_leaves_nothing_behind() {
    let Some(rig) = Rig::of_first_half() else {
        return in_a_namespace("store_full::a_backup_that_does_not_fit_leaves_nothing_behind");
    };
    mount(&rig, 32);
    let store = rig.open();
    store.commit(vec![add(new_task(1))]).await.unwrap();
    for _ in 0..200 {
        store.commit(vec![bulky(1)]).await.unwrap();
    }
    fill(&rig.folder().join("filler"));
    let copy = rig.folder().join("copy");
    assert!(is_full(&store.backup(&copy).await), "{:?}", store.backup(&copy).await);
    assert!(!copy.exists() && !rig.folder().join("copy.partial").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_cannot_be_written_is_told_as_such() {
    let Some(rig) = Rig::of_first_half() else {
        return in_a_namespace("store_full::a_disk_that_cannot_be_written_is_told_as_such");
    };
    mount(&rig, 32);
    let store = rig.open();
    store.commit(vec![add(new_task(1))]).await.unwrap();
    drop(store);
    run("mount", &["-o", "remount,ro", rig.folder().to_str().unwrap()]);
    let error = rig.try_open().unwrap_err();
    assert_eq!(error, Error::ReadOnly { place: rig.file().display().to_string() });
    run("mount", &["-o", "remount,rw", rig.folder().to_str().unwrap()]);
    assert_eq!(rig.open().tasks(&TaskFilter::default()).await.unwrap().len(), 1);
}
