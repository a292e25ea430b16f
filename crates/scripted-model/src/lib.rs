//! A stand-in for OpenAI's Responses API, so that the real Codex runs offline, with a model that says what a
//! script tells it to say.
//!
//! [`ScriptedModel`] is the running server, [`Scenario`] what it plays, [`CodexConfig`] what Codex must be told
//! to use it. It knows the API between Codex and its model; it knows nothing of the app-server protocol.
//!
//! # Which scenario is played
//!
//! The prompt decides: the text of the last message of the user.
//! 1. A scenario registered under exactly this text, then one registered for a part of it.
//! 2. Prompts of Codex's own have a short answer: [`scenario::REVIEW_PROMPT`], [`scenario::COMPACTION_PROMPT`].
//! 3. `[scenario:NAME]` in the text: the scenario registered under `NAME`.
//! 4. `[play]` in the text: the [inline script](Scenario::from_prompt) after it.
//! 5. None of these: the model repeats the prompt.
//!
//! Within the turn, the request itself tells which response is due: the ids of the calls whose outputs it
//! carries say how far the scenario has come. So turns can run in any number and order, and a retry gets the same
//! response again, unless it is limited to some attempts.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use scripted_model::{Scenario, ScriptedModel, codex_config};
//!
//! let model = ScriptedModel::start().await.unwrap();
//! model.script("make a file", Scenario::new().say("I will.").then_exec("touch x").then_say("Done."));
//! let config_toml = codex_config(&model.base_url(), "");
//! // Write it to `$CODEX_HOME/config.toml`, start codex, prompt it with "make a file".
//! # assert!(config_toml.contains(&model.base_url()));
//! # });
//! ```

mod config;
pub mod mcp_server;
mod play;
mod request;
pub mod scenario;
mod serve;
mod sse;
mod stage;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use config::{CodexConfig, MODEL, PROVIDER, codex_config};
pub use request::ReceivedRequest;
pub use scenario::{Phase, Question, Response, Scenario, Step, ToolCall, Usage};

use stage::Stage;

/// How long `stop` waits for answers that their readers do not read.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long a test may wait for Codex to ask the model.
const PATIENCE: Duration = Duration::from_mins(1);

/// The running model. It stops when it is dropped: stalled answers are cut, others finish, new ones are refused.
pub struct ScriptedModel {
    address: SocketAddr,
    stage: Arc<Stage>,
    server: JoinHandle<io::Result<()>>,
}

impl ScriptedModel {
    /// Starts on a free port of the loopback interface, as a task of the current runtime.
    pub async fn start() -> io::Result<Self> {
        Self::start_on(0).await
    }

    /// Starts on this port of the loopback interface; 0 is any free one.
    pub async fn start_on(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let stage = Arc::new(Stage::new());
        let server = tokio::spawn(serve::serve(listener, Arc::clone(&stage)));
        Ok(Self { address, stage, server })
    }

    /// The `base_url` of the model provider.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Plays `scenario` for prompts that are exactly `key`, or that contain `[scenario:key]`.
    pub fn script(&self, key: impl Into<String>, scenario: Scenario) {
        self.stage.register(key.into(), scenario);
    }

    /// Plays `scenario` for prompts that contain `fragment`: for those that Codex writes itself.
    pub fn script_containing(&self, fragment: impl Into<String>, scenario: Scenario) {
        self.stage.register_fragment(fragment.into(), scenario);
    }

    /// Every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Arc<ReceivedRequest>> {
        self.stage.requests()
    }

    /// Waits for the request with this index, the first being 0. Panics after a minute, with what did come.
    pub async fn wait_for_request(&self, index: usize) -> Arc<ReceivedRequest> {
        self.wait_for(|request| request.index == index).await
    }

    /// Waits for the first request for which `found` holds, those so far included. Panics after a minute, with what did
    /// come.
    pub async fn wait_for(&self, found: impl FnMut(&ReceivedRequest) -> bool) -> Arc<ReceivedRequest> {
        self.within_patience("a request", self.stage.wait_for_request(found)).await
    }

    /// Waits until an answer has come to the stall of this name. Panics after a minute, with what did come.
    pub async fn wait_for_stall(&self, name: &str) {
        self.within_patience(name, self.stage.wait_for_stall(name)).await;
    }

    #[expect(clippy::panic, reason = "the test that waits here has failed")]
    async fn within_patience<T>(&self, awaited: &str, coming: impl Future<Output = T>) -> T {
        let Ok(came) = timeout(PATIENCE, coming).await else {
            let prompts: Vec<_> = self.requests().iter().map(|request| request.prompt()).collect();
            panic!("{awaited} did not come in {PATIENCE:?}; prompts so far: {prompts:?}");
        };
        came
    }

    /// Opens all stalls of this name, those to come included.
    pub fn release(&self, name: &str) {
        self.stage.release(name);
    }

    /// Stops, and returns when the port is free and the open answers have ended.
    pub async fn stop(mut self) {
        self.stage.close();
        // A server that failed or panicked has stopped as well.
        let stopped = timeout(STOP_GRACE, &mut self.server).await;
        if stopped.is_err() {
            self.server.abort();
        }
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.stage.close();
    }
}
