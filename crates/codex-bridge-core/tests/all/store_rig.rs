//! A folder for a store, and a way to run a test's other half in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use codex_bridge_core::event::Seq;
use codex_bridge_core::store::conformance::samples::task_id;
use codex_bridge_core::store::sqlite::Sqlite;
use codex_bridge_core::store::{Error, Store};
use tempfile::TempDir;

const FOLDER: &str = "CODEX_BRIDGE_TEST_STORE_FOLDER";

/// A folder with a store in it.
pub struct Rig {
    /// Kept for as long as the test runs; none in the other half.
    _own: Option<TempDir>,
    folder: PathBuf,
}

impl Rig {
    pub fn new() -> Self {
        let own = tempfile::tempdir().unwrap();
        Self { folder: own.path().to_owned(), _own: Some(own) }
    }

    /// The rig of the first half, if this process is the other half of a test.
    pub fn of_first_half() -> Option<Self> {
        std::env::var_os(FOLDER).map(|folder| Self { _own: None, folder: folder.into() })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join("bridge.sqlite3")
    }

    /// A file beside the database.
    pub fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.file().into_os_string();
        name.push(ending);
        name.into()
    }

    pub fn open(&self) -> Sqlite {
        self.try_open().unwrap()
    }

    pub fn try_open(&self) -> Result<Sqlite, Error> {
        Sqlite::open(&self.file())
    }

    /// SQLite without us, as any other program would use it.
    pub fn stranger(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.file()).unwrap()
    }

    /// Runs a test of this binary again, in its other half.
    pub fn other_half(&self, test: &str) -> Command {
        self.other_half_by(&[], test)
    }

    /// The same, started by a program that changes what it finds.
    pub fn other_half_by(&self, starter: &[&str], test: &str) -> Command {
        let binary = std::env::current_exe().unwrap();
        let mut words = starter.iter().map(Into::into).chain([binary.into_os_string()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(["--exact", test, "--nocapture"]).env(FOLDER, &self.folder);
        command
    }
}

/// The numbers from 1.
pub fn first(count: usize) -> Vec<Seq> {
    (1..).take(count).collect()
}

/// The numbers of a task's events.
pub async fn seqs(store: &Sqlite, task: u32) -> Vec<Seq> {
    let events = store.events(&task_id(task), 0, u32::MAX).await.unwrap();
    events.iter().map(|event| event.seq).collect()
}

/// Fails with what was found.
pub async fn assert_sound(store: &Sqlite) {
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}
