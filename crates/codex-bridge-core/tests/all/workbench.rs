//! The work bench of these tests: a bridge with a real store, a real Codex and a scripted model.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codex_bridge_core::bridge::{DecisionReport, Error, RequestSelector};
use codex_bridge_core::clock::Clock;
use codex_bridge_core::config::{DEVELOPER_INSTRUCTIONS, PROMPT_LIMIT_BYTES};
use codex_bridge_core::event::Event;
use codex_bridge_core::outbox::sender::{Refusal, Unknown};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats, Sender};
use codex_bridge_core::place::ProtectedDirs;
use codex_bridge_core::random::Random;
use codex_bridge_core::seal::Key;
use codex_bridge_core::skills::SkillPlaces;
use codex_bridge_core::store::sqlite::Sqlite;
use codex_bridge_core::task::{Settings, ShownStatus};
use codex_bridge_core::trust::TrustedRoots;
use codex_bridge_core::{Bridge, Chats, Config, Desk, NewTask, OnHostLoss, TaskView};
use codex_session::{ApprovalPolicy, Decision, Sandbox};
use codex_wire::host::{EnvPolicy, KeeperCommand, Reach};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redact::Redactor;
use scripted_model::ScriptedModel;
use serde_json::Value;
use testkit::rig::{self, Home};

/// How long anything here may take.
pub const PATIENCE: Duration = Duration::from_mins(2);

pub struct Workbench {
    pub model: ScriptedModel,
    pub home: Home,
}

impl Workbench {
    pub async fn new() -> Self {
        let model = ScriptedModel::start().await.unwrap();
        let home = Home::new(&model.base_url());
        Self { model, home }
    }

    pub fn config(&self) -> Config {
        Config {
            reach: Reach::Own,
            hosts_dir: self.home.dir().join("hosts"),
            codex: rig::codex_path(),
            codex_version: rig::codex().version.to_string(),
            keeper: keeper(),
            parent_env: self.home.env().into_iter().collect(),
            env: EnvPolicy {
                pass: self.home.env().into_iter().map(|(name, _)| name).collect(),
                ..EnvPolicy::default()
            },
            command_path: None,
            codex_home: Some(self.home.codex_home()),
            other_homes: Vec::new(),
            roots: None,
            profiles: std::collections::BTreeMap::new(),
            denied: Vec::new(),
            protected: ProtectedDirs::default(),
            trusted_roots: TrustedRoots::default(),
            max_running: 8,
            prompt_limit_bytes: PROMPT_LIMIT_BYTES,
            host_limits: codex_wire::host::retirement::Limits::default(),
            on_host_loss: OnHostLoss::Ask,
            skills: SkillPlaces::default(),
            developer_instructions: DEVELOPER_INSTRUCTIONS.to_owned(),
            approvals: ApprovalPolicy::default(),
            escalations: None,
            keep_tasks: Duration::from_hours(1),
            keep_events: 10_000,
            upkeep_every: Duration::from_millis(50),
            sender: Arc::new(Nobody),
            redactor: Redactor::default(),
            clock: Clock::system(),
            random: Random::from_system().unwrap(),
        }
    }

    pub async fn open(&self) -> Bridge {
        self.open_with(self.config()).await
    }

    /// The store, as soon as a bridge that was abandoned has let go of it.
    pub async fn store(&self) -> Sqlite {
        let began = std::time::Instant::now();
        loop {
            match Sqlite::open(&self.home.dir().join("state/tasks.db")) {
                Err(codex_bridge_core::store::Error::Locked { .. }) if began.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                opened => return opened.unwrap(),
            }
        }
    }

    pub async fn open_with(&self, config: Config) -> Bridge {
        let store = self.store().await;
        Bridge::open(config, Arc::new(store), self.key()).await.unwrap()
    }

    pub fn key(&self) -> Key {
        Key::load_or_create(&self.home.dir().join("state/seal.key")).unwrap()
    }

    pub fn task(&self, prompt: &str) -> NewTask {
        NewTask::new(prompt, Settings::new(self.home.workspace()), "a test")
    }

    /// One whose commands may write. codex 0.166 runs an accepted command in the sandbox first, and on a busy machine does
    /// not always see that this is why it failed: then it is not repeated outside.
    pub fn writing_task(&self, prompt: &str) -> NewTask {
        let mut new = self.task(prompt);
        new.settings.sandbox = Sandbox::WorkspaceWrite;
        new
    }

    /// Writes the login of the home, all at once: whoever reads half of it finds nobody logged in.
    pub fn log_in(&self, auth: &str) {
        let file = self.home.codex_home().join("auth.json");
        let new = file.with_extension("new");
        std::fs::write(&new, auth).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    /// Ends the hosts, and proves that nothing is left.
    pub async fn tidy(self, bridge: Bridge) {
        assert_eq!(bridge.stop_hosts().await, Vec::<String>::new());
        drop(bridge);
        self.home.assert_no_processes().await;
    }
}

/// A bridge that serves chats.
pub struct Serving {
    bridge: Bridge,
    pub chats: Chats,
}

impl Serving {
    pub fn on(bridge: Bridge) -> Self {
        Self { chats: Chats::open(Desk::new(bridge.clone())), bridge }
    }

    /// Serves them no more.
    pub fn end(self) -> Bridge {
        self.bridge
    }

    pub async fn abandon(self) {
        self.end().abandon().await;
    }
}

impl Deref for Serving {
    type Target = Bridge;

    fn deref(&self) -> &Bridge {
        &self.bridge
    }
}

/// Waits for a task to be at rest.
pub async fn at_rest(bridge: &Bridge, id: &str) -> TaskView {
    let view = bridge.wait(id, PATIENCE).await.unwrap();
    assert!(view.task.status.is_finished(), "{view:?}");
    view
}

/// Waits for a task to need an answer.
pub async fn asked(bridge: &Bridge, id: &str) -> TaskView {
    let view = bridge.wait(id, PATIENCE).await.unwrap();
    assert!(!view.open_requests.is_empty(), "{view:?}");
    assert!(
        matches!(view.status(), ShownStatus::WaitingForApproval | ShownStatus::WaitingForUserInput),
        "{view:?}"
    );
    view
}

/// What there is, once it is so.
pub async fn eventually<T: std::fmt::Debug>(look: impl AsyncFn() -> T, is_so: impl Fn(&T) -> bool) -> T {
    let began = std::time::Instant::now();
    loop {
        let seen = tokio::time::timeout(PATIENCE, look()).await.expect("it cannot even be looked at");
        if is_so(&seen) {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "in vain: {seen:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn keeper() -> KeeperCommand {
    let test = std::env::current_exe().unwrap();
    let program: PathBuf = test.parent().unwrap().parent().unwrap().join("examples/core_keeper");
    KeeperCommand { program, args: Vec::new() }
}

/// Decides on the only open request of a task, as somebody who was shown it.
pub async fn decide(
    bridge: &Bridge,
    task: &str,
    decision: Decision,
    by: &str,
) -> Result<DecisionReport, Error> {
    let open = bridge.show(task).await?.open_requests;
    let [request] = open.as_slice() else { panic!("not one request is open: {open:?}") };
    let which = RequestSelector::Shown { request_id: request.request_id.as_str(), digest: &request.digest };
    bridge.decide(task, which, decision, by).await
}

/// A line of the log as callers get it.
pub fn json(event: &Event) -> Value {
    serde_json::to_value(event).unwrap()
}

/// A sender without targets.
struct Nobody;

impl Sender for Nobody {
    fn check(&self, target: &str) -> Result<(), Unknown> {
        let why = "no targets are configured".to_owned();
        Err(Unknown { target: target.to_owned(), why, known: Vec::new() })
    }

    fn repeats(&self, _attempt: &Attempt) -> Repeats {
        Repeats::MayDouble
    }

    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome> {
        let error = format!("{} is not configured", attempt.target);
        std::future::ready(Outcome::failed(Refusal::Never, error)).boxed()
    }
}
