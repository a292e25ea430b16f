//! What the tests on the real Codex share: someone who answers when told to, hosts to look at and to end, and a
//! program of its own that can be killed.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use codex_session::{
    Approver, Ask, Decision, Dial, Sandbox, Session, SessionConfig, TurnOptions, TurnOutcome, TurnResult,
};
use codex_wire::ThreadId;
use codex_wire::answer::Answer;
use codex_wire::call::{ThreadRead, ThreadTurnsList};
use codex_wire::connection::Connection;
use codex_wire::host::{Found, Host, Stop, find};
use codex_wire::item::Item;
use codex_wire::os::process::Process;
use codex_wire::request::DynamicToolCall;
use codex_wire::thread::Turn;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::Signal;
use scripted_model::{CodexConfig, ScriptedModel};
use serde_json::Value;
use testkit::rig::{self, Home};
use testkit::wait_until;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::sync::{Mutex, mpsc, watch};

use crate::workbench::{LONG, RealCodex, keeper, soon};

/// Someone who is asked, and answers when told to, in the order of the questions.
#[derive(Clone)]
pub struct Person {
    asked: watch::Sender<Vec<Ask>>,
    say: mpsc::UnboundedSender<Decision>,
    told: Arc<Mutex<mpsc::UnboundedReceiver<Decision>>>,
}

impl Person {
    /// Someone who will answer the questions to come like this.
    pub fn saying(decisions: impl IntoIterator<Item = Decision>) -> Self {
        let (say, told) = mpsc::unbounded_channel();
        let person = Self { asked: watch::Sender::new(Vec::new()), say, told: Arc::new(Mutex::new(told)) };
        decisions.into_iter().for_each(|decision| person.say(decision));
        person
    }

    /// Someone who takes a while.
    pub fn silent() -> Self {
        Self::saying([])
    }

    /// Answers the oldest question without an answer, or the next one.
    pub fn say(&self, decision: Decision) {
        self.say.send(decision).unwrap();
    }

    /// What was asked so far, as text.
    pub fn texts(&self) -> Vec<String> {
        self.asked.borrow().iter().map(Ask::text).collect()
    }

    /// Waits for this many questions in all; gives the last of them.
    pub async fn asked(&self, count: usize) -> Ask {
        let mut asked = self.asked.subscribe();
        let asks = soon(asked.wait_for(|asks| asks.len() >= count)).await.unwrap();
        asks[count - 1].clone()
    }

    #[expect(clippy::unnecessary_wraps, reason = "as sessions take it")]
    pub fn approver(&self) -> Option<Arc<dyn Approver>> {
        Some(Arc::new(self.clone()))
    }
}

impl Approver for Person {
    fn decide(&self, ask: Ask) -> BoxFuture<'static, Decision> {
        self.asked.send_modify(|asks| asks.push(ask));
        let told = Arc::clone(&self.told);
        async move { told.lock().await.recv().await.unwrap() }.boxed()
    }

    fn call_tool(&self, call: DynamicToolCall) -> BoxFuture<'static, Answer> {
        let text = format!("{} was called with {}", call.tool, call.arguments);
        std::future::ready(Answer::ToolCall { text, success: true }).boxed()
    }
}

impl RealCodex {
    /// A Codex whose `config.toml` is more than the default.
    pub async fn configured(configure: impl FnOnce(CodexConfig) -> CodexConfig) -> Self {
        let model = ScriptedModel::start().await.unwrap();
        let home = Home::with_config(&configure(CodexConfig::new(model.base_url())).to_string());
        Self { model, home }
    }

    /// A session whose commands may write in the work directory, so that nothing but the answers decides whether they
    /// do. (What a sandbox blocks, Codex repeats outside or not, depending on how busy the machine is.)
    pub fn writing(&self) -> SessionConfig {
        SessionConfig { sandbox: Sandbox::WorkspaceWrite, ..self.config() }
    }

    /// A session of [`Self::writing`] with a Codex of its own.
    pub async fn open(&self, approver: Option<Arc<dyn Approver>>) -> Session {
        Session::start(self.writing(), self.stdio(), approver).await.unwrap()
    }

    /// A session on a host.
    pub async fn start_on_host(&self, approver: Option<Arc<dyn Approver>>) -> Session {
        Session::start(self.writing(), self.on_host(), approver).await.unwrap()
    }

    /// A session on a host that takes up a thread.
    pub async fn resume_on_host(&self, thread: &ThreadId, approver: Option<Arc<dyn Approver>>) -> Session {
        Session::resume(self.writing(), self.on_host(), approver, thread.clone()).await.unwrap()
    }

    /// The host that runs.
    pub fn host(&self) -> Host {
        match find(&self.launch().dir).unwrap() {
            Some(Found::Alive(host)) => host,
            other => panic!("no host is alive: {other:?}"),
        }
    }

    /// Closes a session whose Codex is its own; nothing is left.
    pub async fn end(&self, session: Session) {
        soon(session.close()).await;
        self.home.assert_no_processes().await;
    }

    /// Ends the host; nothing is left.
    pub async fn end_host(&self) {
        self.host().stop(Stop::Now).await.unwrap();
        self.home.assert_no_processes().await;
    }

    /// A look at the host by the side door, as another program would.
    pub async fn side_door(&self) -> Connection {
        self.on_host().dial(LONG).await.unwrap_or_else(|error| panic!("{error}")).connection
    }

    /// The turns of a thread, newest first, with all their items.
    pub async fn turns(&self, thread: &ThreadId) -> Vec<Turn> {
        let list = ThreadTurnsList {
            thread_id: thread.clone(),
            limit: 500,
            sort_direction: "desc",
            items_view: "full",
        };
        let connection = self.side_door().await;
        let page = connection.peer.call(&list, LONG).await.unwrap();
        connection.peer.close();
        page.data
    }

    /// Waits until no turn runs on a thread that nobody may be connected to.
    pub async fn until_idle(&self, thread: &ThreadId) {
        let connection = self.side_door().await;
        let idle = async {
            let read = ThreadRead { thread_id: thread.clone(), include_turns: false };
            while connection.peer.call(&read, LONG).await.unwrap().thread.status.kind == "active" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon(idle).await;
        connection.peer.close();
    }

    /// The turns in which the model was asked this, by their ids.
    pub fn turns_asking(&self, prompt: &str) -> BTreeSet<String> {
        let requests = self.model.requests();
        let asking = requests.iter().filter(|request| request.prompt().as_deref() == Some(prompt));
        asking.filter_map(|request| request.turn_id().map(str::to_owned)).collect()
    }

    /// What the model got from the tools that it called last, for this prompt.
    pub fn tool_output(&self, prompt: &str) -> String {
        let requests = self.model.requests();
        let mut of_prompt =
            requests.iter().rev().filter(|request| request.prompt().as_deref() == Some(prompt));
        of_prompt.find_map(|request| request.last_tool_output()).expect("a tool gave an output")
    }

    /// All that the model was told in its latest request, as text.
    pub fn last_input(&self) -> String {
        self.model.requests().last().expect("the model was asked").body["input"].to_string()
    }

    /// Whether a file of the work directory is there.
    pub fn made(&self, file: &str) -> bool {
        self.home.workspace().join(file).exists()
    }

    /// The lines of a file of the work directory.
    pub fn lines_of(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.workspace().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A program of its own that runs a turn on the host.
    pub fn program(&self, args: &[&str]) -> Program {
        Program::start(self, args)
    }
}

/// The program that runs one turn, as a process of its own.
pub struct Program {
    child: Child,
    events: Lines<BufReader<ChildStderr>>,
    /// Open, so that what it waits to read does not come to an end.
    stdin: Option<ChildStdin>,
}

impl Program {
    fn start(codex: &RealCodex, args: &[&str]) -> Self {
        let mut command = Command::new(keeper().program);
        command.args(["--transport", "unix", "--events", "--sandbox", "workspace-write"]).args(args);
        command.arg("--host-dir").arg(codex.launch().dir);
        command.arg("--codex-home").arg(codex.home.codex_home());
        command.arg("--codex-bin").arg(rig::codex_path());
        command.arg("--cwd").arg(codex.home.workspace());
        command.env_clear().envs(codex.env()).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let events = BufReader::new(child.stderr.take().unwrap()).lines();
        let stdin = child.stdin.take();
        Self { child, events, stdin }
    }

    /// Waits for this event of its session.
    pub async fn event(&mut self, name: &str) -> Value {
        loop {
            let line = soon(self.events.next_line()).await.unwrap();
            let line = line.unwrap_or_else(|| panic!("the program ended before {name}"));
            if let Ok(event) = serde_json::from_str::<Value>(&line)
                && event["event"] == name
            {
                return event;
            }
        }
    }

    /// The thread that it works on.
    pub async fn thread(&mut self) -> ThreadId {
        let opened = self.event("thread_opened").await;
        ThreadId(opened["thread_id"].as_str().unwrap().to_owned())
    }

    /// Gives it the prompt that it waits for.
    pub async fn prompt(&mut self, prompt: &str) {
        let mut stdin = self.stdin.take().unwrap();
        stdin.write_all(prompt.as_bytes()).await.unwrap();
    }

    /// Ends it with SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Kills both processes of a host with SIGKILL, the one that would clean up first.
pub async fn kill_host(host: &Host) {
    for process in [host.record().keeper, host.record().codex] {
        assert!(kill(process), "{process:?} was there to be killed");
    }
    wait_until(LONG, "the host to be gone", || !host.is_alive() && !host.has_keeper()).await;
}

fn kill(process: Process) -> bool {
    process.signal(Signal::KILL).unwrap()
}

/// Whether a process with these words in its command line runs.
pub fn runs(words: &str) -> bool {
    let stats = codex_wire::os::process::all();
    stats.iter().any(|stat| {
        codex_wire::os::process::command_line(stat.process.pid).is_some_and(|command| command.contains(words))
    })
}

/// How often a prompt with this id is among the turns.
pub fn count_prompts(turns: &[Turn], client_id: &str) -> usize {
    let items = turns.iter().flat_map(|turn| &turn.items);
    let is_it = |item: &&Item| matches!(item, Item::UserMessage(message) if message.client_id.as_deref() == Some(client_id));
    items.filter(is_it).count()
}

/// A turn that goes well, and its answer.
pub async fn answer_to(session: &Session, prompt: &str) -> String {
    completed(soon(session.run_turn(prompt, TurnOptions::default())).await).final_text
}

/// The result of a turn that went well.
pub fn completed(result: TurnResult) -> TurnResult {
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:#?}");
    assert!(result.error.is_none() && !result.interrupted && !result.should_retire, "{result:#?}");
    assert!(!result.outcome_unknown && result.side_effects.is_empty(), "{result:#?}");
    result
}

/// The result of a turn that was stopped as someone wished.
pub fn interrupted(result: TurnResult) -> TurnResult {
    assert_eq!((result.outcome, result.interrupted), (TurnOutcome::Interrupted, true), "{result:#?}");
    assert!(result.error.is_none() && !result.should_retire, "{result:#?}");
    result
}

/// The thread of a session.
pub async fn thread_of(session: &Session) -> ThreadId {
    session.status().await.thread_id.expect("the session has a thread")
}
