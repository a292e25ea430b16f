//! The work bench of these tests: a real Codex with its scripted model, and a scripted app-server, each as a session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codex_session::{
    Approver, Ask, Decision, Events, OnHost, OwnCodex, Session, SessionConfig, SessionEvent, TurnOptions,
    TurnResult, WorkLimit,
};
use codex_wire::host::{EnvPolicy, Identity, KeeperCommand, Launch};
use codex_wire::transport::stdio::Spawn;
use scripted_model::ScriptedModel;
use testkit::ScriptedServer;
use testkit::rig::{self, Home};
use testkit::script::{self, Script};

/// A real Codex of one's own home, with a model that plays scenarios.
pub struct RealCodex {
    pub model: ScriptedModel,
    pub home: Home,
}

impl RealCodex {
    pub async fn new() -> Self {
        let model = ScriptedModel::start().await.unwrap();
        let home = Home::new(&model.base_url());
        Self { model, home }
    }

    pub fn config(&self) -> SessionConfig {
        SessionConfig::new(self.home.workspace())
    }

    pub fn env(&self) -> BTreeMap<String, String> {
        self.home.env().into_iter().collect()
    }

    /// A Codex on pipes.
    pub fn stdio(&self) -> OwnCodex {
        OwnCodex(Spawn::new(rig::codex_path(), self.env()))
    }

    /// A Codex on a host.
    pub fn launch(&self) -> Launch {
        Launch {
            keeper: keeper(),
            codex: rig::codex_path(),
            version: rig::codex().version.to_string(),
            identity: Identity { codex_home: Some(self.home.codex_home()), ..Identity::default() },
            dir: self.home.dir().join("host"),
            parent_env: self.env(),
            env: EnvPolicy { pass: self.env().into_keys().collect(), ..EnvPolicy::default() },
            config: Vec::new(),
            ready_timeout: Duration::from_secs(20),
        }
    }

    pub fn on_host(&self) -> OnHost {
        OnHost(self.launch())
    }

    pub async fn start(&self, approver: Option<Arc<dyn Approver>>) -> Session {
        Session::start(self.config(), self.stdio(), approver).await.unwrap()
    }
}

/// The keeper of hosts in tests: the example of this crate, which keeps its own.
pub fn keeper() -> KeeperCommand {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/run_turn");
    KeeperCommand { program, args: vec!["host".into()] }
}

/// Longer than anything here takes that goes as it should.
pub const LONG: Duration = Duration::from_mins(2);

/// An app-server that plays a script.
pub struct Scripted {
    pub server: ScriptedServer,
}

impl Scripted {
    pub fn new(script: Script) -> Self {
        Self { server: ScriptedServer::new(script) }
    }

    /// A server whose every turn is played like this, after the reply that names it.
    pub fn playing(steps: impl IntoIterator<Item = script::Step>) -> Self {
        let turn = [script::reply_turn(), script::started()].into_iter().chain(steps);
        Self::new(Script::new().on("turn/start", turn))
    }

    pub fn config(&self) -> SessionConfig {
        SessionConfig::new(self.server.dir())
    }

    /// The server on pipes.
    pub fn spawn(&self) -> Spawn {
        Spawn::new(self.server.program(), BTreeMap::new())
    }

    pub fn stdio(&self) -> OwnCodex {
        OwnCodex(self.spawn())
    }

    /// The server under a keeper, on a socket.
    pub fn launch(&self) -> Launch {
        let home = self.server.dir().join("home");
        std::fs::create_dir_all(&home).unwrap();
        Launch {
            keeper: keeper(),
            codex: self.server.program(),
            version: script::VERSION.to_owned(),
            identity: Identity { codex_home: Some(home.clone()), ..Identity::default() },
            dir: self.server.dir().join("h"),
            parent_env: BTreeMap::from([("HOME".to_owned(), home.to_string_lossy().into_owned())]),
            env: EnvPolicy::default(),
            config: Vec::new(),
            ready_timeout: LONG,
        }
    }

    pub fn on_host(&self) -> OnHost {
        OnHost(self.launch())
    }

    /// A session in which nobody answers.
    pub async fn start(&self) -> Session {
        Session::start(self.config(), self.stdio(), None).await.unwrap()
    }

    /// A session with someone who answers.
    pub async fn start_with(&self, approver: Arc<dyn Approver>) -> Session {
        Session::start(self.config(), self.stdio(), Some(approver)).await.unwrap()
    }

    /// One turn in a session of its own, in which nobody answers.
    pub async fn run(&self, options: TurnOptions) -> TurnResult {
        let session = self.start().await;
        let result = soon(session.run_turn("go", options)).await;
        session.close().await;
        result
    }
}

/// Someone who always decides the same.
pub fn always(decision: Decision) -> Arc<dyn Approver> {
    Arc::new(move |_: Ask| std::future::ready(decision.clone()))
}

/// Writes to stderr, and waits a little: what comes by two pipes is not read in the order in which it was written.
pub fn said_on_stderr(text: &str) -> script::Step {
    script::group([script::stderr(text), script::Step::Pause { millis: 100 }])
}

/// A turn that may work so long.
pub fn within(limit: Duration) -> TurnOptions {
    TurnOptions { work_limit: WorkLimit::After(limit), ..TurnOptions::default() }
}

/// Waits for what must come, and fails the test when it does not.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it comes to an end")
}

/// The events up to the one that is looked for, that one included.
pub async fn until(events: &mut Events, found: impl Fn(&SessionEvent) -> bool) -> Vec<SessionEvent> {
    let mut seen = Vec::new();
    let all = async {
        while let Some(event) = events.next().await {
            seen.push(event);
            if seen.last().is_some_and(&found) {
                return true;
            }
        }
        false
    };
    let came = tokio::time::timeout(LONG, all).await;
    assert_eq!(came, Ok(true), "the event did not come; there were {seen:#?}");
    seen
}

/// The events up to the end of the turn.
pub async fn whole_turn(events: &mut Events) -> Vec<SessionEvent> {
    until(events, |event| matches!(event, SessionEvent::TurnEnded { .. })).await
}
