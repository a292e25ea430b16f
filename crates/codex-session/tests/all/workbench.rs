//! The work bench of these tests: a real Codex with its scripted model, and a scripted app-server, each as a session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codex_session::{Approver, OnHost, OwnCodex, Session, SessionConfig};
use codex_wire::host::{EnvPolicy, Identity, KeeperCommand, Launch};
use codex_wire::transport::stdio::Spawn;
use scripted_model::ScriptedModel;
use testkit::rig::{self, Home};

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
