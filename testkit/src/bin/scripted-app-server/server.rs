//! The middle of the server: takes what clients send, records it, and begins the rules for it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use testkit::log::{self, Entry};
use testkit::script::Script;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::Failure;
use crate::play::{self, Call};
use crate::state::{Output, State, Thread};

/// A running scripted server.
pub struct Server {
    /// What it does.
    pub script: Script,
    /// Where the script lies.
    pub dir: PathBuf,
    log: Mutex<log::Writer>,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

impl Server {
    /// A server that nobody has connected to yet.
    pub fn new(script: Script, dir: PathBuf, log: log::Writer) -> Self {
        let (changes, _) = watch::channel(0);
        Self { script, dir, log: Mutex::new(log), state: Mutex::default(), changes }
    }

    /// The state, for a moment.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when `condition` holds; looked at after every message and every end of a connection.
    pub async fn until(&self, mut condition: impl FnMut(&mut State) -> bool) {
        let mut changes = self.changes.subscribe();
        while !condition(&mut self.state()) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Takes up a connection and plays what the script has for its opening.
    pub fn open(self: &Arc<Self>, output: mpsc::UnboundedSender<Output>) -> u64 {
        let connection = self.state().open(output);
        self.record(&Entry::Opened { connection });
        play::begin(self, Call::opening(connection), &self.script.at_open);
        connection
    }

    /// Takes one message of a client.
    pub fn receive(self: &Arc<Self>, connection: u64, bytes: &[u8]) {
        let Ok(message @ Value::Object(_)) = serde_json::from_slice::<Value>(bytes) else {
            self.record(&Entry::Malformed { connection, text: String::from_utf8_lossy(bytes).into_owned() });
            return;
        };
        self.record(&Entry::Received { connection, message: message.clone() });
        match message["method"].as_str() {
            Some(method) => self.call(connection, method, &message),
            None => self.state().answered.push(message["id"].clone()),
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Lets a connection go.
    pub fn close(&self, connection: u64) {
        self.state().close(connection);
        self.record(&Entry::Closed { connection });
        self.changes.send_modify(|count| *count += 1);
    }

    fn call(self: &Arc<Self>, connection: u64, method: &str, message: &Value) {
        let (call, nth) = self.take_note(connection, method, message);
        match self.script.rule_for(method, nth) {
            Some(rule) => play::begin(self, call, &rule.steps),
            None if call.id.is_some() => play::begin(self, call, &[testkit::script::default_steps()]),
            None => {}
        }
    }

    /// Counts the call and finds out which thread and turn it is about.
    fn take_note(&self, connection: u64, method: &str, message: &Value) -> (Call, u64) {
        let params = message["params"].clone();
        let mut state = self.state();
        let count = state.calls.entry(method.to_owned()).or_default();
        *count += 1;
        let nth = *count;
        let was_initialized = state.initialized.contains(&connection);
        let thread = match (method, params["threadId"].as_str()) {
            ("thread/start" | "thread/fork", _) | (_, None) if is_thread_opening(method) => {
                state.fresh_thread()
            }
            (_, named) => named.unwrap_or_default().to_owned(),
        };
        if method == "initialize" {
            state.initialized.insert(connection);
        }
        if let ("thread/fork", Some(parent)) = (method, params["threadId"].as_str()) {
            let fork = state.threads.get(parent).map(|known| known.forked(parent)).unwrap_or_default();
            state.threads.insert(thread.clone(), fork);
        }
        if is_thread_opening(method) {
            subscribe(state.threads.entry(thread.clone()).or_default(), connection, &params);
        }
        let begins_turn = matches!(method, "turn/start" | "thread/compact/start" | "review/start");
        let turn = match state.threads.get(&thread) {
            _ if begins_turn => state.begin_turn(&thread, &params),
            Some(known) => known.turn.clone(),
            None => String::new(),
        };
        let id = message.get("id").cloned();
        (Call { connection, id, method: method.to_owned(), params, thread, turn, nth, was_initialized }, nth)
    }

    fn record(&self, entry: &Entry) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = log.append(entry) {
            eprintln!("scripted-app-server: the record cannot be written: {error}");
        }
    }
}

fn is_thread_opening(method: &str) -> bool {
    matches!(method, "thread/start" | "thread/resume" | "thread/fork")
}

fn subscribe(thread: &mut Thread, connection: u64, params: &Value) {
    thread.subscribers.insert(connection);
    for (name, value) in params.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        thread.settings.insert(name.clone(), value.clone());
    }
}

/// Ends the process on SIGTERM as codex 0.166 does, with exit code 0, unless the script is stubborn.
pub fn heed_termination(server: Arc<Server>, socket: Option<PathBuf>) -> Result<(), Failure> {
    let mut terminations = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        while terminations.recv().await.is_some() {
            server.record(&Entry::Terminated);
            if !server.script.stubborn {
                socket.as_deref().map(std::fs::remove_file);
                std::process::exit(0);
            }
        }
    });
    Ok(())
}
