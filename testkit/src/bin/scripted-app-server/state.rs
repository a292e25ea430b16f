//! What the server knows at this moment: who is connected, which threads and turns there are, what came in.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use testkit::script::{thread_id, turn_id};
use tokio::sync::{mpsc, oneshot};

use crate::history::History;

/// What a connection is told to write.
pub enum Output {
    /// One JSON message.
    Message(String),
    /// Bytes as they are.
    Raw(Vec<u8>),
    /// The beginning of a message that never ends.
    Half(String),
    /// Tell when everything before it was written.
    Flush(oneshot::Sender<()>),
    /// Close the connection.
    Close,
}

/// Everything that changes while the server runs.
#[derive(Default)]
pub struct State {
    /// The live connections.
    pub connections: BTreeMap<u64, mpsc::UnboundedSender<Output>>,
    /// Connections that have called `initialize`.
    pub initialized: BTreeSet<u64>,
    /// How often each method was called.
    pub calls: HashMap<String, u64>,
    /// Ids of our requests that were answered since they were last asked.
    pub answered: Vec<Value>,
    /// The threads that were started or resumed.
    pub threads: HashMap<String, Thread>,
    connections_opened: u64,
    threads_started: u64,
    turns_started: u64,
    items_started: u64,
}

/// One thread.
#[derive(Default, Clone)]
pub struct Thread {
    /// The parameters that it was started with, later ones over earlier ones.
    pub settings: BTreeMap<String, Value>,
    /// Connections that get its events.
    pub subscribers: BTreeSet<u64>,
    /// The latest turn.
    pub turn: String,
    /// Whether that turn has started and not ended.
    pub active: bool,
    /// The input of the latest turn.
    pub input: Value,
    /// The client's own id of that input.
    pub client_id: Value,
    /// Its turns.
    pub history: History,
}

impl Thread {
    /// A new thread with the settings and the past of this one.
    pub fn forked(&self, parent: &str) -> Self {
        let mut fork =
            Self { settings: self.settings.clone(), history: self.history.forked(), ..Self::default() };
        fork.settings.insert("forkedFromId".into(), parent.into());
        fork
    }
}

impl State {
    /// Takes up a connection.
    pub fn open(&mut self, output: mpsc::UnboundedSender<Output>) -> u64 {
        self.connections_opened += 1;
        self.connections.insert(self.connections_opened, output);
        self.connections_opened
    }

    /// Forgets a connection.
    pub fn close(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.initialized.remove(&connection);
        for thread in self.threads.values_mut() {
            thread.subscribers.remove(&connection);
        }
    }

    /// A new thread's id.
    pub fn fresh_thread(&mut self) -> String {
        self.threads_started += 1;
        thread_id(self.threads_started)
    }

    /// A new item's id.
    pub fn fresh_item(&mut self) -> String {
        self.items_started += 1;
        format!("item_{:06}", self.items_started)
    }

    /// Begins a turn, or gives the running one: for codex 0.166 a `turn/start` in a turn is a steer.
    pub fn begin_turn(&mut self, thread: &str, params: &Value) -> String {
        let fresh = turn_id(self.turns_started + 1);
        let known = self.threads.entry(thread.to_owned()).or_default();
        known.input = params["input"].clone();
        known.client_id = params["clientUserMessageId"].clone();
        if !known.active {
            self.turns_started += 1;
            known.turn = fresh;
        }
        known.turn.clone()
    }

    /// Learns from a notification that is about to be sent.
    pub fn observe(&mut self, method: &str, params: &Value) {
        let Some(thread) = params["threadId"].as_str().and_then(|id| self.threads.get_mut(id)) else {
            return;
        };
        thread.history.observe(method, params);
        let is_latest = params["turn"]["id"] == thread.turn;
        match method {
            "turn/started" if is_latest => thread.active = true,
            "turn/completed" if is_latest => thread.active = false,
            _ => {}
        }
    }

    /// The connections that a message about this thread goes to, when a rule of `origin` sends it.
    pub fn audience(&self, method: &str, params: &Value, origin: u64) -> Vec<u64> {
        // codex 0.166: these two go to every client, all others to those that started or resumed the thread
        if matches!(method, "thread/started" | "thread/status/changed") {
            return self.connections.keys().copied().collect();
        }
        let subscribers =
            params["threadId"].as_str().and_then(|id| self.threads.get(id)).map(|known| &known.subscribers);
        match subscribers {
            Some(subscribers) if !subscribers.is_empty() => subscribers.iter().copied().collect(),
            _ => vec![origin],
        }
    }
}
