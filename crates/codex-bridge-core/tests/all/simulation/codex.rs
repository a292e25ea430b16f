//! A Codex in this process: hosts that die and connections that break, with threads that are on a disk.
//!
//! It speaks as codex 0.166 does where the bridge can tell the difference: a thread without a turn is not durable, a turn goes
//! on without a client, whoever resumes a thread gets its open requests again under the same ids, and the ids begin again
//! at 0 with every start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use codex_wire::Epoch;
use codex_wire::backing::Backing;
use codex_wire::transport::{Error as TransportError, Transport};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::promises;
use super::world::{Life, World};

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
    loaded: BTreeMap<String, Loaded>,
    next_request: i64,
    open: BTreeMap<i64, OpenRequest>,
    clients: BTreeMap<u64, mpsc::UnboundedSender<Bytes>>,
}

/// A thread in the memory of a host.
#[derive(Default)]
struct Loaded {
    settings: Value,
    turn: Option<String>,
    play: Option<AbortHandle>,
    listeners: BTreeSet<u64>,
}

struct OpenRequest {
    thread: String,
    line: Value,
    answer: oneshot::Sender<Value>,
}

/// What a turn does next.
enum Step {
    Say(String),
    Run(String),
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
        for thread in loaded.keys() {
            if let Some(turn) = state.disk.get_mut(thread).and_then(|turns| turns.last_mut())
                && turn["status"] == "inProgress"
            {
                turn["status"] = json!("interrupted");
            }
        }
        drop(state);
        self.world.note(format!("host {host} dies"));
        self.world.ledger().host_deaths += 1;
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
            "turn/interrupt" => state.interrupt(host, &thread, params),
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
        // After the prompt, so that a prompt that is worked on twice runs the same command twice. What the bridge says by itself,
        // to have a turn go on, is the same each time.
        let subject = if promises::is_ours(prompt) { prompt.replace(' ', "-") } else { turn.to_owned() };
        for number in 0..self.world.below(4) {
            let name = format!("{subject}-{number}-{}", self.world.below(2));
            steps.push(match self.world.below(4) {
                0 => Step::Say(format!("so far {name}")),
                1 => Step::Ask(name),
                _ => Step::Run(format!("make {name}")),
            });
            steps.push(Step::Work(self.world.below(5_000)));
        }
        steps.push(if self.world.happens(10) { Step::Fail } else { Step::Say(format!("done {turn}")) });
        steps
    }

    async fn play(self: Arc<Self>, host: usize, thread: String, turn: String, prompt: String) {
        let of_turn = |more: Value| {
            let mut params = json!({ "threadId": thread, "turnId": turn });
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            params
        };
        self.tell(
            host,
            &thread,
            "thread/status/changed",
            &json!({ "threadId": thread, "status": { "type": "active", "activeFlags": [] } }),
        );
        let started = json!({ "id": turn, "items": [], "status": "inProgress", "error": null });
        self.tell(host, &thread, "turn/started", &json!({ "threadId": thread, "turn": started }));
        let said = self.state().disk[&thread].last().unwrap()["items"][0].clone();
        self.tell(host, &thread, "item/completed", &of_turn(json!({ "item": said })));
        for step in self.plan(&turn, &prompt) {
            self.world.pause(20).await;
            match step {
                Step::Work(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                Step::Say(text) => {
                    let item = json!({ "type": "agentMessage", "id": self.state().item(), "text": text, "phase": null });
                    self.keep(&thread, &item);
                    self.tell(host, &thread, "item/completed", &of_turn(json!({ "item": item })));
                }
                Step::Run(command) => {
                    let id = self.state().item();
                    let item = |status: &str| json!({ "type": "commandExecution", "id": id, "command": command, "cwd": "/", "status": status, "commandActions": [] });
                    self.tell(host, &thread, "item/started", &of_turn(json!({ "item": item("inProgress") })));
                    let params = of_turn(json!({
                        "itemId": id, "kind": "command", "command": command, "cwd": null,
                        "availableDecisions": ["accept", "cancel"],
                    }));
                    let answer =
                        self.ask(host, &thread, "item/commandExecution/requestApproval", params).await;
                    let is_accepted = answer["decision"] == "accept";
                    if is_accepted {
                        self.world.note(format!("Codex runs {command:?}"));
                        self.world.ledger().ran.push(command.clone());
                    }
                    let status = if is_accepted { "completed" } else { "declined" };
                    self.keep(&thread, &item(status));
                    self.tell(host, &thread, "item/completed", &of_turn(json!({ "item": item(status) })));
                }
                Step::Ask(name) => {
                    let question = json!({ "id": name, "header": "Question", "question": name, "isOther": true, "isSecret": false, "options": null });
                    let params = of_turn(
                        json!({ "itemId": self.state().item(), "questions": [question], "isBlocking": true, "autoResolutionMs": null }),
                    );
                    let answer = self.ask(host, &thread, "item/tool/requestUserInput", params).await;
                    let said =
                        answer["answers"][&name]["answers"][0].as_str().unwrap_or("nothing").to_owned();
                    self.world.ledger().answers.entry(name).or_default().push(said);
                }
                Step::Fail => {
                    let mut state = self.state();
                    return self.end(&mut state, host, &thread, "failed");
                }
            }
        }
        let mut state = self.state();
        self.end(&mut state, host, &thread, "completed");
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
        let Some(turn) = loaded.turn.take() else { return };
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
        if !self.hosts[host].loaded.contains_key(thread) {
            if !self.disk.contains_key(thread) {
                return Err(format!("no rollout found for thread id {thread}"));
            }
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
        loaded.turn = Some(turn.clone());
        let item = self.item();
        let prompt = json!({ "type": "userMessage", "id": item, "clientId": params["clientUserMessageId"], "content": params["input"] });
        let kept = json!({ "id": turn, "items": [prompt], "status": "inProgress", "error": null });
        self.disk.entry(thread.to_owned()).or_default().push(kept);
        Ok((json!({ "turn": { "id": turn, "items": [], "status": "inProgress" } }), true))
    }

    fn steer(&mut self, host: usize, thread: &str, params: &Value) -> Result<Value, String> {
        let turn = self.hosts[host].loaded.get(thread).and_then(|loaded| loaded.turn.clone());
        let Some(turn) = turn else { return Err("no active turn to steer".to_owned()) };
        let item = json!({ "type": "userMessage", "id": self.item(), "clientId": params["clientUserMessageId"], "content": params["input"] });
        self.disk.get_mut(thread).and_then(|turns| turns.last_mut()).unwrap()["items"]
            .as_array_mut()
            .unwrap()
            .push(item.clone());
        let told = json!({ "method": "item/completed", "params": { "threadId": thread, "turnId": turn, "item": item } });
        self.hosts[host].tell_all(thread, &told);
        Ok(json!({ "turnId": turn }))
    }

    fn interrupt(&self, host: usize, thread: &str, params: &Value) -> Result<Value, String> {
        let turn = self.hosts[host].loaded.get(thread).and_then(|loaded| loaded.turn.as_ref());
        match (turn, params["turnId"].as_str().unwrap_or_default()) {
            (None, "") => Ok(json!({})),
            (None, _) => Err("no active turn to interrupt".to_owned()),
            (Some(turn), wanted) if wanted.is_empty() || wanted == turn => Ok(json!({})),
            (Some(turn), wanted) => Err(format!("expected active turn id {wanted} but found {turn}")),
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
