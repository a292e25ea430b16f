//! A Codex in this process: hosts that die and connections that break, with threads that are on a disk.
//!
//! It behaves as codex 0.166 does where the bridge can tell the difference: a thread without a turn cannot be resumed, a turn
//! continues without a client, a client that resumes a thread gets its open requests again under the same ids, several
//! requests can be open at once, `cancel` ends the turn, the ids start from 0 on each host, a turn cannot be interrupted by
//! its id before `turn/started`, a second interrupt gets no answer, and a turn that is younger than 5 ms is lost with its host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use codex_wire::Epoch;
use codex_wire::backing::Backing;
use codex_wire::transport::{Error as TransportError, Transport};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::promises;
use super::world::{Life, World};

/// A turn that is younger than this when its host dies was never on disk.
const NOT_ON_DISK: Duration = Duration::from_millis(5);

/// All hosts of a run, and the disk below them.
pub struct Codex {
    pub world: Arc<World>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hosts: Vec<Host>,
    /// Rollouts: the turns of a thread, the oldest first.
    disk: BTreeMap<String, Vec<Value>>,
    threads: u64,
    turns: u64,
    items: u64,
    connections: u64,
}

struct Host {
    is_alive: bool,
    /// Until when it takes no connection.
    deaf_until: Option<Instant>,
    /// Until when it reads nothing.
    hangs_until: Option<Instant>,
    loaded: BTreeMap<String, Loaded>,
    next_request: i64,
    open: BTreeMap<i64, OpenRequest>,
    clients: BTreeMap<u64, mpsc::UnboundedSender<Bytes>>,
}

/// A thread in the memory of a host.
#[derive(Default)]
struct Loaded {
    settings: Value,
    turn: Option<Running>,
    play: Option<AbortHandle>,
    listeners: BTreeSet<u64>,
}

struct Running {
    id: String,
    /// The bridge's id of the prompt.
    prompt_id: String,
    since: Instant,
    /// Whether `turn/started` was sent.
    is_told: bool,
}

struct OpenRequest {
    thread: String,
    line: Value,
    answer: oneshot::Sender<Value>,
}

/// What a turn does next.
enum Step {
    Say(String),
    /// Each waits for a decision of its own.
    Run(Vec<String>),
    Ask(String),
    Work(u64),
    Fail,
}

impl Codex {
    pub fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(Self { world: Arc::clone(world), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn is_alive(&self, epoch: &Epoch) -> bool {
        number(epoch).is_some_and(|host| self.state().hosts.get(host).is_some_and(|host| host.is_alive))
    }

    /// The host for a thread: the one that it is on, one that lives, or a new one.
    pub async fn place(&self, wanted: Option<&Epoch>) -> Epoch {
        if let Some(epoch) = wanted.filter(|epoch| self.is_alive(epoch)) {
            return epoch.clone();
        }
        let living: Vec<usize> = self.living();
        if let Some(host) = living.first().filter(|_| living.len() > 1 || self.world.happens(70)) {
            return epoch(*host);
        }
        self.world.pause(300).await;
        let mut state = self.state();
        state.hosts.push(Host {
            is_alive: true,
            deaf_until: None,
            hangs_until: None,
            loaded: BTreeMap::new(),
            next_request: 0,
            open: BTreeMap::new(),
            clients: BTreeMap::new(),
        });
        let host = state.hosts.len() - 1;
        drop(state);
        self.world.note(format!("host {host} starts"));
        epoch(host)
    }

    pub fn living(&self) -> Vec<usize> {
        let state = self.state();
        (0..state.hosts.len()).filter(|host| state.hosts[*host].is_alive).collect()
    }

    /// Kills a host with all that it remembers.
    pub fn kill(&self, host: usize) {
        let mut state = self.state();
        let killed = &mut state.hosts[host];
        killed.is_alive = false;
        killed.open.clear();
        killed.clients.clear();
        let loaded = std::mem::take(&mut killed.loaded);
        loaded.values().filter_map(|thread| thread.play.as_ref()).for_each(AbortHandle::abort);
        for (thread, loaded) in &loaded {
            let Some(turns) = state.disk.get_mut(thread) else { continue };
            match &loaded.turn {
                Some(running) if running.since.elapsed() <= NOT_ON_DISK => {
                    turns.pop();
                    self.world.ledger().prompts.retain(|(id, _)| *id != running.prompt_id);
                    self.world.note(format!("{} was never on disk", running.id));
                    if turns.is_empty() {
                        state.disk.remove(thread);
                    }
                }
                Some(_) => turns.last_mut().unwrap()["status"] = json!("interrupted"),
                None => {}
            }
        }
        drop(state);
        self.world.note(format!("host {host} dies"));
        self.world.ledger().host_deaths += 1;
    }

    /// Lets a host hang: its connections stay open, and nothing is answered.
    pub fn hang(&self, host: usize) {
        let ms = self.world.below(90_000);
        self.world.note(format!("host {host} hangs for {ms} ms"));
        self.state().hosts[host].hangs_until = Some(Instant::now() + Duration::from_millis(ms));
    }

    async fn until_it_reads(&self, host: usize) {
        let hangs_until = self.state().hosts[host].hangs_until;
        if let Some(until) = hangs_until {
            tokio::time::sleep_until(until).await;
        }
    }

    /// Breaks a connection to a host that goes on, if there is one.
    pub fn break_connection(&self) {
        let mut state = self.state();
        let all: Vec<(usize, u64)> = (0..state.hosts.len())
            .flat_map(|host| {
                state.hosts[host].clients.keys().map(move |client| (host, *client)).collect::<Vec<_>>()
            })
            .collect();
        if all.is_empty() {
            return;
        }
        let (host, client) = all[usize::try_from(self.world.below(all.len() as u64)).unwrap()];
        state.hosts[host].hang_up(client);
        if self.world.happens(30) {
            // A session waits for half a minute before it gives a turn up: around that time it matters most.
            let deaf_ms = if self.world.happens(50) {
                self.world.below(60_000)
            } else {
                29_000 + self.world.below(4_000)
            };
            self.world.note(format!("host {host} takes no connection for {deaf_ms} ms"));
            state.hosts[host].deaf_until = Some(Instant::now() + Duration::from_millis(deaf_ms));
        }
        drop(state);
        self.world.note(format!("connection {client} to host {host} breaks"));
        self.world.ledger().lost_connections += 1;
    }

    /// A connection for one life of the bridge. It ends with that life.
    pub fn connect(self: &Arc<Self>, host: &Epoch, life: &Arc<Life>) -> Result<Transport, TransportError> {
        let host = number(host).unwrap();
        let (to_client, mut from_server) = mpsc::unbounded_channel::<Bytes>();
        let (to_server, from_client) = mpsc::unbounded_channel::<Bytes>();
        let mut state = self.state();
        if !state.hosts[host].takes_connections() {
            return Err(TransportError::Read("nobody listens".to_owned()));
        }
        state.connections += 1;
        let client = state.connections;
        state.hosts[host].clients.insert(client, to_client);
        drop(state);
        self.world.note(format!("connection {client} to host {host}"));
        tokio::spawn(Arc::clone(self).serve(host, client, from_client, Arc::clone(life)));
        let incoming =
            futures_util::stream::poll_fn(move |context| from_server.poll_recv(context).map(|it| it.map(Ok)));
        let outgoing = futures_util::sink::unfold(to_server, |to_server, line: Bytes| async move {
            to_server.send(line).map_err(|_| TransportError::Write("nobody listens".to_owned()))?;
            Ok(to_server)
        });
        Ok(Transport { incoming: Box::pin(incoming), outgoing: Box::pin(outgoing) })
    }

    async fn serve(
        self: Arc<Self>,
        host: usize,
        client: u64,
        mut from_client: mpsc::UnboundedReceiver<Bytes>,
        life: Arc<Life>,
    ) {
        let on_its_way = Mutex::new(None);
        let serving = async {
            while let Some(line) = from_client.recv().await {
                let message: Value = serde_json::from_slice(&line).unwrap();
                let what = message["method"].as_str().unwrap_or("an answer").to_owned();
                *on_its_way.lock().unwrap() = Some(message.clone());
                self.world.effect(&life, &format!("{what} on its way")).await;
                self.world.pause(5).await;
                self.until_it_reads(host).await;
                if !self.state().hosts[host].clients.contains_key(&client) {
                    break;
                }
                *on_its_way.lock().unwrap() = None;
                self.hear(host, client, &message);
                self.world.effect(&life, &format!("{what}, which arrived")).await;
            }
        };
        tokio::select! {
            biased;
            () = life.until_dead() => {}
            () = serving => {}
        }
        // What was written before a client went may still arrive: all of it, some of it, or nothing.
        let mut late = on_its_way.into_inner().unwrap();
        while let Some(message) = late
            && self.world.happens(60)
        {
            self.world.pause(60).await;
            self.hear(host, client, &message);
            late = from_client.try_recv().ok().map(|line| serde_json::from_slice(&line).unwrap());
        }
        self.state().hosts[host].hang_up(client);
    }

    fn hear(self: &Arc<Self>, host: usize, client: u64, message: &Value) {
        let mut state = self.state();
        if !state.hosts[host].is_alive {
            return;
        }
        let what = message["method"].as_str().unwrap_or("an answer");
        self.world.note(format!("host {host} hears {what} {}", message["id"]));
        let Some(method) = message["method"].as_str() else {
            let request = message["id"].as_i64().and_then(|id| state.hosts[host].open.remove(&id));
            if let Some(request) = request {
                let _ = request.answer.send(message["result"].clone());
            }
            return;
        };
        if message.get("id").is_none() {
            return;
        }
        let params = &message["params"];
        let thread = params["threadId"].as_str().unwrap_or_default().to_owned();
        let mut begins = None;
        let outcome = match method {
            "initialize" => Ok(json!({
                "userAgent": "codex_bridge/0.166.0 (Simulated 1.0; x86_64) dumb (codex_bridge; 0)",
                "platformFamily": "unix", "platformOs": "linux",
            })),
            "thread/start" => Ok(state.start_thread(host, client, params)),
            "thread/resume" => state.resume_thread(host, client, &thread, params),
            "turn/start" => state
                .start_turn(host, &thread, params)
                .inspect(|(turn, is_new)| {
                    if *is_new {
                        begins = Some(turn["turn"]["id"].as_str().unwrap().to_owned());
                    }
                })
                .map(|(turn, _)| turn),
            "turn/steer" => state.steer(host, &thread, params).inspect(|_| {
                let text = params["input"][0]["text"].as_str().unwrap_or_default();
                self.world.ledger().steers.push(text.to_owned());
            }),
            "turn/interrupt" => match state.interrupt(host, &thread, params) {
                Some(outcome) => outcome,
                None => return,
            },
            "thread/loaded/list" => {
                let loaded: Vec<&String> = state.hosts[host].loaded.keys().collect();
                Ok(json!({ "data": loaded, "nextCursor": null }))
            }
            "thread/read" => state.read(host, &thread),
            "thread/turns/list" => {
                let turns: Vec<Value> =
                    state.disk.get(&thread).into_iter().flatten().rev().cloned().collect();
                Ok(json!({ "data": turns, "nextCursor": null, "backwardsCursor": null }))
            }
            "thread/unsubscribe" => {
                if let Some(loaded) = state.hosts[host].loaded.get_mut(&thread) {
                    loaded.listeners.remove(&client);
                }
                Ok(json!({ "status": "unsubscribed" }))
            }
            "thread/archive" => {
                state.hosts[host].loaded.remove(&thread);
                Ok(json!({}))
            }
            "thread/unarchive" | "thread/backgroundTerminals/clean" => Ok(json!({})),
            unknown => panic!("the simulated Codex does not know {unknown}"),
        };
        let reply = match outcome {
            Ok(result) => json!({ "id": message["id"], "result": result }),
            Err(why) => json!({ "id": message["id"], "error": { "code": -32600, "message": why } }),
        };
        state.hosts[host].tell(client, &reply);
        match method {
            "thread/resume" => state.ask_again(host, client, &thread),
            "turn/interrupt" if reply.get("result").is_some() => {
                self.end(&mut state, host, &thread, "interrupted");
            }
            _ => {}
        }
        let text = params["input"][0]["text"].as_str().unwrap_or_default().to_owned();
        if method == "turn/start" && reply.get("result").is_some() {
            let id = params["clientUserMessageId"].as_str().unwrap_or_default().to_owned();
            self.world.note(format!("Codex takes {text:?}"));
            let (is_named, is_given) = (text.contains("[image: "), params["input"][1]["type"] == "image");
            if is_named != is_given {
                self.world.ledger().broken.push(format!("an image is named or given, not both: {params}"));
            }
            self.world.ledger().prompts.push((id, text.clone()));
        }
        if let Some(turn) = begins {
            let play = tokio::spawn(Arc::clone(self).play(host, thread.clone(), turn, text));
            let loaded = state.hosts[host].loaded.get_mut(&thread).unwrap();
            loaded.play = Some(play.abort_handle());
        }
    }

    /// What a turn does: drawn when it begins.
    fn plan(&self, turn: &str, prompt: &str) -> Vec<Step> {
        let mut steps = vec![Step::Work(self.world.below(2_000))];
        let words = prompt.lines().next().unwrap_or_default();
        // After the prompt, so that a prompt that is worked on twice runs the same command twice. What the bridge says by itself,
        // to have a turn go on, is the same each time.
        let subject = if promises::is_ours(prompt) { words.replace(' ', "-") } else { turn.to_owned() };
        for number in 0..self.world.below(4) {
            let name = || format!("{subject}-{number}-{}", self.world.below(2));
            steps.push(match self.world.below(5) {
                0 => Step::Say(format!("so far {}", name())),
                1 => Step::Ask(name()),
                2 => Step::Run(vec![format!("make {}", name()), format!("make also-{}", name())]),
                _ => Step::Run(vec![format!("make {}", name())]),
            });
            steps.push(Step::Work(self.world.below(5_000)));
        }
        steps.push(if self.world.happens(10) { Step::Fail } else { Step::Say(format!("done {turn}")) });
        steps
    }

    async fn play(self: Arc<Self>, host: usize, thread: String, turn: String, prompt: String) {
        let here = Stage { codex: &self, host, thread: &thread, turn: &turn };
        self.world.pause(20).await;
        here.begin();
        for step in self.plan(&turn, &prompt) {
            self.world.pause(20).await;
            match step {
                Step::Work(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                Step::Say(text) => here.say(&text),
                Step::Run(commands) => {
                    let mut all: FuturesUnordered<_> =
                        commands.iter().map(|command| here.run(command)).collect();
                    while let Some(decision) = all.next().await {
                        if decision == "cancel" {
                            return here.end("interrupted");
                        }
                    }
                }
                Step::Ask(name) => here.ask_question(name).await,
                Step::Fail => return here.end("failed"),
            }
        }
        here.end("completed");
    }

    /// Asks whoever listens to the thread, and waits.
    async fn ask(&self, host: usize, thread: &str, method: &str, params: Value) -> Value {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = self.state();
            let id = state.hosts[host].next_request;
            state.hosts[host].next_request += 1;
            let line = json!({ "id": id, "method": method, "params": params });
            self.world.note(format!("host {host} asks {id} {}", line["params"]));
            state.hosts[host].tell_all(thread, &line);
            let open = OpenRequest { thread: thread.to_owned(), line, answer };
            state.hosts[host].open.insert(id, open);
            id
        };
        let answer = answered.await.unwrap_or_default();
        self.world.note(format!("host {host} is answered {id} {answer}"));
        self.tell(host, thread, "serverRequest/resolved", &json!({ "threadId": thread, "requestId": id }));
        answer
    }

    /// Ends the turn that runs on a thread.
    fn end(&self, state: &mut State, host: usize, thread: &str, status: &str) {
        let Some(loaded) = state.hosts[host].loaded.get_mut(thread) else { return };
        let Some(turn) = loaded.turn.take().map(|running| running.id) else { return };
        if let Some(play) = loaded.play.take() {
            play.abort();
        }
        let kept = state.disk.get_mut(thread).and_then(|turns| turns.last_mut()).unwrap();
        kept["status"] = json!(status);
        if status == "failed" {
            kept["error"] = json!({ "message": "the model refuses", "codexErrorInfo": "other", "additionalDetails": null });
        }
        let mut told = kept.clone();
        let said = kept["items"].as_array().unwrap().iter().rfind(|item| item["type"] == "agentMessage");
        told["items"] = said.filter(|_| status == "completed").into_iter().cloned().collect();
        self.world.note(format!("{turn} is {status}"));
        let idle = json!({ "method": "thread/status/changed", "params": { "threadId": thread, "status": { "type": "idle" } } });
        state.hosts[host].tell_all(thread, &idle);
        let completed = json!({ "method": "turn/completed", "params": { "threadId": thread, "turn": told } });
        state.hosts[host].tell_all(thread, &completed);
        // In this order: what is resolved after the end was not answered.
        let over: Vec<i64> = state.hosts[host]
            .open
            .iter()
            .filter(|(_, open)| open.thread == thread)
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            state.hosts[host].open.remove(&id);
            let resolved = json!({ "method": "serverRequest/resolved", "params": { "threadId": thread, "requestId": id } });
            state.hosts[host].tell_all(thread, &resolved);
        }
    }

    fn keep(&self, thread: &str, item: &Value) {
        let mut state = self.state();
        let turn = state.disk.get_mut(thread).and_then(|turns| turns.last_mut()).unwrap();
        turn["items"].as_array_mut().unwrap().push(item.clone());
    }

    fn tell(&self, host: usize, thread: &str, method: &str, params: &Value) {
        self.state().hosts[host].tell_all(thread, &json!({ "method": method, "params": params }));
    }
}

/// The place where a turn happens.
struct Stage<'a> {
    codex: &'a Codex,
    host: usize,
    thread: &'a str,
    turn: &'a str,
}

impl Stage<'_> {
    fn tell(&self, method: &str, more: Value) {
        self.codex.tell(self.host, self.thread, method, &self.params(more));
    }

    /// Parameters of a message about this turn.
    fn params(&self, mut more: Value) -> Value {
        more["threadId"] = json!(self.thread);
        more["turnId"] = json!(self.turn);
        more
    }

    fn begin(&self) {
        let status = json!({ "type": "active", "activeFlags": [] });
        self.tell("thread/status/changed", json!({ "status": status }));
        let turn = json!({ "id": self.turn, "items": [], "status": "inProgress", "error": null });
        self.tell("turn/started", json!({ "turn": turn }));
        let mut state = self.codex.state();
        let loaded = state.hosts[self.host].loaded.get_mut(self.thread).unwrap();
        loaded.turn.as_mut().unwrap().is_told = true;
        let prompt = state.disk[self.thread].last().unwrap()["items"][0].clone();
        drop(state);
        self.tell("item/completed", json!({ "item": prompt }));
    }

    fn say(&self, text: &str) {
        let id = self.codex.state().item();
        let item = json!({ "type": "agentMessage", "id": id, "text": text, "phase": null });
        self.codex.keep(self.thread, &item);
        self.tell("item/completed", json!({ "item": item }));
    }

    /// Runs a command once it is approved. Returns the decision.
    async fn run(&self, command: &str) -> &'static str {
        let id = self.codex.state().item();
        let item = |status: &str| json!({ "type": "commandExecution", "id": id, "command": command, "cwd": "/", "status": status, "commandActions": [] });
        self.tell("item/started", json!({ "item": item("inProgress") }));
        let can_decline = self.codex.world.happens(50);
        let offered =
            if can_decline { vec!["accept", "decline", "cancel"] } else { vec!["accept", "cancel"] };
        let params = json!({ "itemId": id, "kind": "command", "command": command, "cwd": null, "availableDecisions": offered });
        let answer = self.ask("item/commandExecution/requestApproval", params).await;
        let (decision, status) = match answer["decision"].as_str() {
            Some("accept") => ("accept", "completed"),
            Some("cancel") => ("cancel", "declined"),
            _ => ("decline", "declined"),
        };
        if decision == "accept" {
            self.codex.world.note(format!("Codex runs {command:?}"));
            self.codex.world.ledger().ran.push(command.to_owned());
        }
        self.codex.keep(self.thread, &item(status));
        self.tell("item/completed", json!({ "item": item(status) }));
        decision
    }

    async fn ask_question(&self, name: String) {
        let question = json!({ "id": name, "header": "Question", "question": name, "isOther": true, "isSecret": false, "options": null });
        let id = self.codex.state().item();
        let params =
            json!({ "itemId": id, "questions": [question], "isBlocking": true, "autoResolutionMs": null });
        let answer = self.ask("item/tool/requestUserInput", params).await;
        let said = answer["answers"][&name]["answers"][0].as_str().unwrap_or("nothing").to_owned();
        self.codex.world.ledger().answers.entry(name).or_default().push(said);
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        self.codex.ask(self.host, self.thread, method, self.params(params)).await
    }

    fn end(&self, status: &str) {
        self.codex.end(&mut self.codex.state(), self.host, self.thread, status);
    }
}

impl Host {
    fn takes_connections(&self) -> bool {
        self.is_alive && self.deaf_until.is_none_or(|until| Instant::now() >= until)
    }

    fn tell(&self, client: u64, line: &Value) {
        if let Some(client) = self.clients.get(&client) {
            let _ = client.send(Bytes::from(serde_json::to_vec(line).unwrap()));
        }
    }

    fn tell_all(&self, thread: &str, line: &Value) {
        for client in self.loaded.get(thread).into_iter().flat_map(|loaded| &loaded.listeners) {
            self.tell(*client, line);
        }
    }

    fn hang_up(&mut self, client: u64) {
        self.clients.remove(&client);
        for loaded in self.loaded.values_mut() {
            loaded.listeners.remove(&client);
        }
    }
}

impl State {
    fn item(&mut self) -> String {
        self.items += 1;
        format!("item-{}", self.items)
    }

    fn start_thread(&mut self, host: usize, client: u64, params: &Value) -> Value {
        self.threads += 1;
        let thread = format!("00000000-0000-7000-8000-{:012}", self.threads);
        let loaded =
            Loaded { settings: params.clone(), listeners: BTreeSet::from([client]), ..Loaded::default() };
        self.hosts[host].loaded.insert(thread.clone(), loaded);
        self.opened(host, &thread)
    }

    fn resume_thread(
        &mut self,
        host: usize,
        client: u64,
        thread: &str,
        params: &Value,
    ) -> Result<Value, String> {
        if !self.disk.contains_key(thread) {
            return Err(format!("no rollout found for thread id {thread}"));
        }
        if !self.hosts[host].loaded.contains_key(thread) {
            let is_elsewhere = |other: &Host| other.is_alive && other.loaded.contains_key(thread);
            if self.hosts.iter().any(is_elsewhere) {
                return Err("the thread already has an active writer".to_owned());
            }
            let loaded = Loaded { settings: params.clone(), ..Loaded::default() };
            self.hosts[host].loaded.insert(thread.to_owned(), loaded);
        }
        self.hosts[host].loaded.get_mut(thread).unwrap().listeners.insert(client);
        let mut opened = self.opened(host, thread);
        let last: Vec<Value> =
            self.disk.get(thread).and_then(|turns| turns.last()).into_iter().cloned().collect();
        opened["initialTurnsPage"] = json!({ "data": last, "nextCursor": null, "backwardsCursor": null });
        Ok(opened)
    }

    /// A thread as it is opened, with the settings that hold.
    fn opened(&self, host: usize, thread: &str) -> Value {
        let loaded = &self.hosts[host].loaded[thread];
        let settings = &loaded.settings;
        let profile = &settings["permissions"];
        let named = &settings["config"]["permissions"][profile.as_str().unwrap_or_default()];
        let sandbox = if named["extends"] == ":workspace" {
            json!({ "type": "workspaceWrite", "writableRoots": [], "networkAccess": false, "excludeTmpdirEnvVar": false, "excludeSlashTmp": false })
        } else {
            json!({ "type": "readOnly", "networkAccess": false })
        };
        json!({
            "thread": { "id": thread, "status": self.status(host, thread), "path": null, "turns": [] },
            "cwd": settings["cwd"], "runtimeWorkspaceRoots": [settings["cwd"]], "instructionSources": [],
            "approvalPolicy": settings["approvalPolicy"], "approvalsReviewer": settings["approvalsReviewer"],
            "sandbox": sandbox, "activePermissionProfile": { "id": profile, "extends": named["extends"] },
            "model": "simulated",
        })
    }

    fn status(&self, host: usize, thread: &str) -> Value {
        match self.hosts[host].loaded.get(thread) {
            Some(Loaded { turn: Some(_), .. }) => json!({ "type": "active", "activeFlags": [] }),
            Some(_) => json!({ "type": "idle" }),
            None => json!({ "type": "notLoaded" }),
        }
    }

    fn start_turn(&mut self, host: usize, thread: &str, params: &Value) -> Result<(Value, bool), String> {
        let Some(loaded) = self.hosts[host].loaded.get_mut(thread) else {
            return Err(format!("thread not found: {thread}"));
        };
        if loaded.turn.is_some() {
            // What comes while a turn runs is added to it.
            let steered = self.steer(host, thread, params)?;
            return Ok((
                json!({ "turn": { "id": steered["turnId"], "items": [], "status": "inProgress" } }),
                false,
            ));
        }
        self.turns += 1;
        let turn = format!("turn-{}", self.turns);
        let prompt_id = params["clientUserMessageId"].as_str().unwrap_or_default().to_owned();
        loaded.turn = Some(Running { id: turn.clone(), prompt_id, since: Instant::now(), is_told: false });
        let item = self.item();
        let prompt = json!({ "type": "userMessage", "id": item, "clientId": params["clientUserMessageId"], "content": params["input"] });
        let kept = json!({ "id": turn, "items": [prompt], "status": "inProgress", "error": null });
        self.disk.entry(thread.to_owned()).or_default().push(kept);
        Ok((json!({ "turn": { "id": turn, "items": [], "status": "inProgress" } }), true))
    }

    fn steer(&mut self, host: usize, thread: &str, params: &Value) -> Result<Value, String> {
        let running = self.hosts[host].loaded.get(thread).and_then(|loaded| loaded.turn.as_ref());
        let Some(turn) = running.map(|running| running.id.clone()) else {
            return Err("no active turn to steer".to_owned());
        };
        let item = json!({ "type": "userMessage", "id": self.item(), "clientId": params["clientUserMessageId"], "content": params["input"] });
        self.disk.get_mut(thread).and_then(|turns| turns.last_mut()).unwrap()["items"]
            .as_array_mut()
            .unwrap()
            .push(item.clone());
        let told = json!({ "method": "item/completed", "params": { "threadId": thread, "turnId": turn, "item": item } });
        self.hosts[host].tell_all(thread, &told);
        Ok(json!({ "turnId": turn }))
    }

    /// None: Codex never answers.
    fn interrupt(&self, host: usize, thread: &str, params: &Value) -> Option<Result<Value, String>> {
        let running = self.hosts[host].loaded.get(thread).and_then(|loaded| loaded.turn.as_ref());
        let last = self.disk.get(thread).and_then(|turns| turns.last());
        match (running, params["turnId"].as_str().unwrap_or_default()) {
            (_, "") => Some(Ok(json!({}))),
            (Some(running), wanted) if wanted == running.id && running.is_told => Some(Ok(json!({}))),
            (Some(running), wanted) if wanted != running.id => {
                Some(Err(format!("expected active turn id {wanted} but found {}", running.id)))
            }
            (None, wanted)
                if last.is_some_and(|turn| turn["id"] == wanted && turn["status"] == "interrupted") =>
            {
                None
            }
            _ => Some(Err("no active turn to interrupt".to_owned())),
        }
    }

    fn read(&self, host: usize, thread: &str) -> Result<Value, String> {
        let turns = self.disk.get(thread).cloned().unwrap_or_default();
        if turns.is_empty() && !self.hosts[host].loaded.contains_key(thread) {
            return Err(format!("thread not loaded: {thread}"));
        }
        Ok(
            json!({ "thread": { "id": thread, "status": self.status(host, thread), "path": null, "turns": turns } }),
        )
    }

    /// Whoever resumes a thread is asked what it waits for.
    fn ask_again(&self, host: usize, client: u64, thread: &str) {
        let open = self.hosts[host].open.values().filter(|open| open.thread == thread);
        open.for_each(|open| self.hosts[host].tell(client, &open.line));
    }
}

/// The server behind a connection.
pub struct Server {
    pub codex: Arc<Codex>,
    pub epoch: Epoch,
}

impl Backing for Server {
    fn stderr_tail(&self, _lines: usize) -> BoxFuture<'_, Vec<String>> {
        std::future::ready(Vec::new()).boxed()
    }

    fn exit(&self) -> BoxFuture<'_, Option<String>> {
        std::future::ready((!self.is_alive()).then(|| "signal: 9".to_owned())).boxed()
    }

    fn is_alive(&self) -> bool {
        self.codex.is_alive(&self.epoch)
    }

    fn takes_connections(&self) -> BoxFuture<'_, bool> {
        let host = number(&self.epoch).unwrap();
        std::future::ready(self.codex.state().hosts[host].takes_connections()).boxed()
    }
}

fn epoch(host: usize) -> Epoch {
    Epoch(format!("host-{host}"))
}

fn number(epoch: &Epoch) -> Option<usize> {
    epoch.0.strip_prefix("host-")?.parse().ok()
}
