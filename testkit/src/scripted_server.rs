//! A scripted app-server as a test holds it: a directory with a program to start, its script and its record.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::log::{self, Entry, Start};
use crate::rig::Leftovers;
use crate::script::Script;
use crate::{bin, wait_until};

const PROGRAM: &str = "scripted-app-server";
const WAIT_LIMIT: Duration = Duration::from_mins(2);

/// A directory of its own for a program that can be started wherever a path of `codex` is wanted.
///
/// The program finds its script beside itself, so it works also under code that cleans the environment of
/// its children. Where it is copied elsewhere before it is run, use [`ScriptedServer::attach_to_home`].
/// Dropping this fails the test if a process of it is still there.
#[derive(Debug)]
pub struct ScriptedServer {
    leftovers: Leftovers,
    dir: TempDir,
}

impl ScriptedServer {
    /// Prepares a server; nothing is started.
    // by value: a script is put together where it is handed over
    #[allow(clippy::needless_pass_by_value)]
    pub fn new(script: Script) -> Self {
        let dir = tempfile::Builder::new().prefix("cb-").tempdir_in("/tmp").expect("a directory in /tmp");
        let text = serde_json::to_vec_pretty(&script).expect("a script is JSON");
        fs::write(dir.path().join("script.json"), text).expect("the script can be written");
        place(&bin(PROGRAM), &dir.path().join("codex"));
        Self { leftovers: Leftovers::below(dir.path()), dir }
    }

    /// The program to start in place of `codex`.
    pub fn program(&self) -> PathBuf {
        self.dir.path().join("codex")
    }

    /// Where everything of this server lies.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path for a socket of this server, short enough for the system.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// Variables that name the script and the record; only needed when the program is run from elsewhere.
    pub fn env(&self) -> [(&'static str, PathBuf); 2] {
        [("SCRIPTED_APP_SERVER", self.script_file()), ("SCRIPTED_APP_SERVER_LOG", self.log_file())]
    }

    /// Lets a program that is run with this CODEX_HOME find the script, wherever it was copied to.
    pub fn attach_to_home(&self, codex_home: &Path) {
        let link = codex_home.join("scripted-app-server.json");
        std::os::unix::fs::symlink(self.script_file(), link).expect("a link in the CODEX_HOME");
    }

    /// `codex app-server` with all of stdio piped; the process is killed when the child is dropped.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.program());
        command.arg("app-server").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    /// Starts it on [`ScriptedServer::socket`] and waits until clients can connect.
    pub async fn listen(&self) -> Listening {
        let mut address = OsStr::new("unix://").to_owned();
        address.push(self.socket());
        let mut command = self.command();
        command.arg("--listen").arg(address).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::inherit()).spawn().expect("the scripted server starts");
        let socket = self.socket();
        wait_until(WAIT_LIMIT, "the scripted server's socket", || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        })
        .await;
        Listening { child, socket }
    }

    /// Everything in the record so far.
    pub fn entries(&self) -> Vec<Entry> {
        log::read(&self.log_file()).expect("the record can be read")
    }

    /// How the processes of this server were started, in order.
    pub fn starts(&self) -> Vec<Start> {
        let started = |entry| if let Entry::Started(start) = entry { Some(start) } else { None };
        self.entries().into_iter().filter_map(started).collect()
    }

    /// Every JSON message that clients sent, in order.
    pub fn received(&self) -> Vec<Value> {
        let received = |entry| if let Entry::Received { message, .. } = entry { Some(message) } else { None };
        self.entries().into_iter().filter_map(received).collect()
    }

    /// The calls and notifications of one method, in order.
    pub fn calls(&self, method: &str) -> Vec<Value> {
        self.received().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// The client's answers to our requests, in order.
    pub fn answers(&self) -> Vec<Value> {
        self.received().into_iter().filter(|message| message.get("method").is_none()).collect()
    }

    /// Waits until what clients sent satisfies `condition`, and gives it.
    pub async fn wait_for(&self, what: &str, mut condition: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
        let mut received = Vec::new();
        wait_until(WAIT_LIMIT, what, || {
            received = self.received();
            condition(&received)
        })
        .await;
        received
    }

    /// Waits for a call of this method and gives the first.
    pub async fn wait_for_method(&self, method: &str) -> Value {
        let what = format!("a call of {method}");
        let received =
            self.wait_for(&what, |all| all.iter().any(|message| message["method"] == method)).await;
        let call = received.into_iter().find(|message| message["method"] == method);
        call.expect("it was just there")
    }

    /// Waits for the answer to the request with this id, JSON type included, and gives it.
    pub async fn wait_for_answer(&self, id: impl Into<Value>) -> Value {
        let id = id.into();
        let is_it = |message: &Value| message.get("method").is_none() && message["id"] == id;
        let received = self.wait_for(&format!("an answer to {id}"), |all| all.iter().any(is_it)).await;
        received.into_iter().find(is_it).expect("it was just there")
    }

    /// Lets every step that was made by [`crate::script::await_release`] with this name go on.
    pub fn release(&self, name: &str) {
        fs::write(self.dir.path().join(format!("{name}.release")), "").expect("the release file");
    }

    /// Waits a little for all processes of this server to end; kills and names those that do not.
    pub async fn assert_no_processes(&self) {
        self.leftovers.assert_none().await;
    }

    fn script_file(&self) -> PathBuf {
        self.dir.path().join("script.json")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log.jsonl")
    }
}

/// A hard link is seen by the program as its own place, whatever the caller makes of the path; a symbolic
/// link, for when `/tmp` is another file system, is resolved by callers that look for the real file.
fn place(program: &Path, at: &Path) {
    let placed = fs::hard_link(program, at).or_else(|_| std::os::unix::fs::symlink(program, at));
    placed.expect("a link to the scripted server");
}

/// A scripted server that listens on its socket; killed when dropped.
#[derive(Debug)]
pub struct Listening {
    /// The process.
    pub child: Child,
    /// Where clients connect.
    pub socket: PathBuf,
}
