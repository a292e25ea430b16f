//! The database of every version still opens, with all that is in it: `tests/data/v*/`.
//!
//! A new version gets its own with `CODEX_BRIDGE_TEST_WRITE_STORE=$PWD/tests/data/vN cargo nextest run store_versions`.
//! `v10` is the store of a real run: tasks with commands, a patch, approvals, a request that is open, a branch, notices.

use std::fs;
use std::path::{Path, PathBuf};

use codex_bridge_core::event::{Diff, Line, NewEvent};
use codex_bridge_core::outbox::Delivery;
use codex_bridge_core::outbox::notice::{Content, Excerpt, Notice, Reply, TextFormat};
use codex_bridge_core::request::RequestState;
use codex_bridge_core::store::conformance::samples::{
    add, append, delivery, full_task, new_task, request, task_id, turn,
};
use codex_bridge_core::store::sqlite::Sqlite;
use codex_bridge_core::store::{DeliveryFilter, Prune, RequestFilter, Store, TaskFilter, Write};
use codex_bridge_core::task::TurnRecord;
use codex_wire::RequestId;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::store_rig::{Rig, assert_sound};

const WRITE: &str = "CODEX_BRIDGE_TEST_WRITE_STORE";

fn versions() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut versions: Vec<_> = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    versions
}

/// All that can be read.
async fn content(store: &Sqlite) -> Value {
    let mut tasks = Vec::new();
    for task in store.tasks(&TaskFilter::default()).await.unwrap() {
        let turns = store.turns(&task.id).await.unwrap();
        let events = store.events(&task.id, 0, u32::MAX).await.unwrap();
        tasks.push(json!({"task": task, "turns": turns, "events": events}));
    }
    let requests = store.requests(&RequestFilter::default()).await.unwrap();
    let deliveries = store.deliveries(&DeliveryFilter::default()).await.unwrap();
    let told = |one: &Delivery| json!({"id": one.id, "target": one.target, "notice": one.notice});
    let deliveries: Vec<Value> = deliveries.iter().map(told).collect();
    json!({"tasks": tasks, "requests": requests, "deliveries": deliveries})
}

async fn write(folder: &Path) {
    let store = Sqlite::open(&folder.join("bridge.sqlite3")).unwrap();
    let batch = vec![
        add(full_task(1)),
        add(new_task(2)),
        Write::SaveTurn(Box::new(turn(1, 1))),
        Write::SaveTurn(Box::new(turn(1, 2))),
        Write::SaveRequest(Box::new(request(1, RequestId::Number(0), RequestState::Open))),
        Write::SaveRequest(Box::new(request(2, RequestId::Text("0".into()), RequestState::Resolved))),
        append(1, 1..=20),
        append(2, 1..=3),
    ];
    store.commit(batch).await.unwrap();
    store.prune(Prune { ended_before: 0, events_per_task: 10 }).await.unwrap();
    let text = serde_json::to_string_pretty(&content(&store).await).unwrap();
    fs::write(folder.join("content.json"), text + "\n").unwrap();
    drop(store);
    for beside in ["lock", "ballast"] {
        fs::remove_file(folder.join(format!("bridge.sqlite3.{beside}"))).unwrap();
    }
}

/// A later version may know more; what there was is as it was.
fn assert_holds(found: &Value, expected: &Value, path: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (name, value) in expected {
                // Samples of the first versions have fields that no message and no request ever had.
                let is_of_samples = path.contains(".events[") && ["number", "deep"].contains(&name.as_str());
                if is_of_samples || (name == "ask" && value.get("command").is_some()) {
                    continue;
                }
                let found = found.get(name).unwrap_or_else(|| panic!("{path}.{name} is gone"));
                assert_holds(found, value, &format!("{path}.{name}"));
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{path}");
            for (index, (found, value)) in found.iter().zip(expected).enumerate() {
                assert_holds(found, value, &format!("{path}[{index}]"));
            }
        }
        (found, expected) => assert_eq!(found, expected, "{path}"),
    }
}

fn tables(file: &Path) -> Vec<(String, Option<String>)> {
    let connection = Connection::open(file).unwrap();
    let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn the_store_of_every_version_opens_with_all_that_is_in_it() {
    if let Some(folder) = std::env::var_os(WRITE) {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        write(Path::new(&folder)).await;
    }
    assert!(!versions().is_empty());
    for version in versions() {
        let rig = Rig::new();
        fs::copy(version.join("bridge.sqlite3"), rig.file()).unwrap();
        let store = rig.open();
        let expected = fs::read_to_string(version.join("content.json")).unwrap();
        assert_holds(&content(&store).await, &serde_json::from_str(&expected).unwrap(), "content");
        assert_sound(&store).await;
        let task = store.tasks(&TaskFilter::default()).await.unwrap().remove(0);
        let line = Line::from(Diff { diff: "one more".into() });
        let events = vec![NewEvent { at: 1, line }];
        store.commit(vec![Write::Append { task_id: task.id, events }]).await.unwrap();
    }
}

#[tokio::test]
async fn marks_that_stood_in_the_id_of_a_turn_have_columns_of_their_own() {
    let rig = Rig::new();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v8/bridge.sqlite3");
    fs::copy(old, rig.file()).unwrap();
    let update =
        "UPDATE turns SET client_id = 'codex-1/' || number || '/4f2a/beef' || iif(number = 2, '/cafe', '')";
    Connection::open(rig.file()).unwrap().execute(update, []).unwrap();
    let turns = rig.open().turns(&task_id(1)).await.unwrap();
    let marks = |turn: &TurnRecord| (turn.prompt_mark.clone(), turn.name_mark.clone());
    assert_eq!(marks(&turns[0]), (Some("beef".into()), None));
    assert_eq!(marks(&turns[1]), (Some("beef".into()), Some("cafe".into())));
}

/// All fields of a notice were written for every occasion, with a task where there was none.
#[tokio::test]
async fn a_notice_of_an_older_version_is_read_as_what_it_tells() {
    let rig = Rig::new();
    let store = rig.open();
    let batch = vec![add(new_task(1)), Write::AddDelivery(Box::new(delivery(1, "dlv-1")))];
    store.commit(batch).await.unwrap();
    drop(store);
    let old = json!({
        "event": "reply", "task_id": "codex-000000000000", "status": "completed", "prompt": "", "cwd": "",
        "answer": "Nothing is asked here.", "answer_cut_chars": 0, "error": null, "reason": null,
        "work_ms": null, "tokens": null, "files": [], "more_files": 0, "requests": [], "more_requests": 0,
        "is_of_conversation": false, "closing": null, "in_reply_to": "m-1", "at": 7,
    });
    rig.stranger().execute("UPDATE outbox SET notice = ?", [old.to_string()]).unwrap();
    let notice = rig.open().deliveries(&DeliveryFilter::default()).await.unwrap().remove(0).notice;
    let text = Excerpt { text: "Nothing is asked here.".into(), cut_chars: 0 };
    let reply = Reply {
        task: None,
        text,
        format: TextFormat::Plain,
        closing: None,
        in_reply_to: Some("m-1".into()),
        suggestions: Vec::new(),
    };
    assert_eq!(notice, Notice { at: 7, content: Content::Reply(reply) });
}

#[tokio::test]
async fn turns_from_before_have_their_answers_from_the_log() {
    let rig = Rig::new();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v10/bridge.sqlite3");
    fs::copy(old, rig.file()).unwrap();
    let store = rig.open();
    let mut told = Vec::new();
    for task in store.tasks(&TaskFilter::default()).await.unwrap() {
        let turns = store.turns(&task.id).await.unwrap();
        told.extend(turns.into_iter().filter_map(|turn| turn.final_text));
    }
    told.sort();
    assert_eq!(told, ["Hello.", "More.", "Patched.", "Went on."]);
}

#[tokio::test]
async fn an_old_store_becomes_what_a_new_one_is() {
    let fresh = Rig::new();
    drop(fresh.open());
    for version in versions() {
        let rig = Rig::new();
        fs::copy(version.join("bridge.sqlite3"), rig.file()).unwrap();
        drop(rig.open());
        assert_eq!(tables(&rig.file()), tables(&fresh.file()), "{}", version.display());
    }
}
