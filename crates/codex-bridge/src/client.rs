//! A client of the daemon: HTTP on the unix socket of its state directory.
//!
//! Example:
//!
//! ```text
//! let client = globals.client()?;                       // no daemon is needed yet
//! let task = client.start(&Start { door: Door::Cli, prompt: "look around".to_owned(), ..Start::default() }).await?;
//! let task = client.wait(&task.task_id, None).await?;   // a view::Task
//! let mut log = client.events(&task.task_id, &calls::Events { follow: true, live: true, ..Default::default() }).await?;
//! while let Some(event) = log.next().await? { … }       // view::Event, until the task is finished
//! ```
//!
//! The first call starts the daemon if none is running (unless `--no-autostart`). Every error is a [`Failure`] with a code,
//! a sentence and a hint, including the daemon's own refusals. Ids are sent as typed; the daemon accepts any unique
//! beginning.

mod autostart;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use bytes::BytesMut;
use codex_bridge_core::bridge::RequestSelector;
use codex_bridge_core::token::Role;
use codex_session::Decision;
use codex_wire::reason;
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper::header::HeaderValue;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::calls::{self, DELEGATE_HEADER, HOME_HEADER, percent_encoded, query};
use crate::failure::{Code, ErrorBody, Failure, Problem};
use crate::output;
use crate::paths::Paths;
use crate::view;

pub use autostart::Report;

/// A client of the daemon of a state directory.
#[derive(Debug)]
pub struct Client {
    paths: Paths,
    autostart: Autostart,
    has_warned: AtomicBool,
    /// The role of the caller on whose behalf this program acts, if not the owner's.
    delegate: Option<Role>,
}

/// Whether a daemon is started if none is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autostart {
    /// A daemon is started.
    Yes,
    /// A call fails instead.
    No,
}

impl Client {
    /// A client of the daemon of a state directory. Nothing is opened yet.
    pub fn new(paths: Paths, autostart: Autostart) -> Self {
        Self { paths, autostart, has_warned: AtomicBool::new(false), delegate: None }
    }

    /// The client for a caller who has only this role.
    pub fn delegate(self, role: Role) -> Self {
        Self { delegate: Some(role), ..self }
    }

    /// Starts a task. The task is durable when this returns.
    pub async fn start(&self, start: &calls::Start) -> Result<view::Task, Failure> {
        self.post("/v1/tasks", start).await
    }

    /// Tasks, the newest first.
    pub async fn list(&self, list: &calls::List) -> Result<Vec<view::ShortTask>, Failure> {
        self.get(&format!("/v1/tasks{}", query(list))).await
    }

    /// A task by its id or a unique beginning of it.
    pub async fn show(&self, id: &str) -> Result<view::Task, Failure> {
        self.get(&task_path(id, "")).await
    }

    /// Waits until a task is finished or needs an answer, or until the timeout. The status says which.
    pub async fn wait(&self, id: &str, timeout_s: Option<f64>) -> Result<view::Task, Failure> {
        let path = task_path(id, "/wait");
        self.get(&format!("{path}{}", query(&calls::Wait { timeout_s }))).await
    }

    /// A task's log.
    pub async fn events(&self, id: &str, options: &calls::Events) -> Result<EventStream, Failure> {
        let path = task_path(id, "/events");
        let response = self.send(Method::GET, &format!("{path}{}", query(options)), None).await?;
        Ok(EventStream { body: success(response).await?.into_body(), buffer: BytesMut::new() })
    }

    /// Starts another turn of a finished task. The reply has the number of the turn.
    pub async fn continue_task(&self, id: &str, turn: &calls::Prompt) -> Result<view::Task, Failure> {
        self.post(&task_path(id, "/turns"), turn).await
    }

    /// The turns of a task, the oldest first.
    pub async fn turns(&self, id: &str) -> Result<Vec<view::Turn>, Failure> {
        self.get(&task_path(id, "/turns")).await
    }

    /// Adds text to the running turn.
    pub async fn steer(&self, id: &str, text: &str) -> Result<view::Outcome, Failure> {
        self.post(&task_path(id, "/steer"), &calls::Steer { text: text.to_owned() }).await
    }

    /// Stops a task. Returns when Codex has confirmed it.
    pub async fn interrupt(&self, id: &str) -> Result<view::Outcome, Failure> {
        self.interrupt_turn(id, None).await
    }

    /// Stops a task, or only this turn of it.
    pub async fn interrupt_turn(&self, id: &str, turn: Option<u32>) -> Result<view::Outcome, Failure> {
        let query = query(&calls::Interrupt { turn });
        self.post(&format!("{}{query}", task_path(id, "/interrupt")), &()).await
    }

    /// Forks a finished task. The new task works on the prompt, or waits for `continue`.
    pub async fn fork(&self, id: &str, prompt: Option<&str>) -> Result<view::Task, Failure> {
        let fork = calls::Fork { prompt: prompt.map(str::to_owned), client_request_id: None };
        self.post(&task_path(id, "/fork"), &fork).await
    }

    /// Frees a task's thread for another program, such as Codex's own terminal.
    pub async fn release(&self, id: &str) -> Result<view::Task, Failure> {
        self.post(&task_path(id, "/release"), &()).await
    }

    /// The pending requests, the oldest first.
    pub async fn requests(&self) -> Result<Vec<view::Request>, Failure> {
        self.get("/v1/requests").await
    }

    /// The changes that a request asks for, with their whole diffs.
    pub async fn changes(&self, id: &str, request: &str) -> Result<view::WholeChanges, Failure> {
        self.get(&task_path(id, &format!("/requests/{}/changes", encoded(request)))).await
    }

    /// One request of a task, closed or not.
    pub async fn request(&self, id: &str, request: &str) -> Result<view::Request, Failure> {
        self.get(&task_path(id, &format!("/requests/{}", encoded(request)))).await
    }

    /// Decides a request. Returns when Codex has taken the decision.
    pub async fn decide(
        &self,
        id: &str,
        selector: RequestSelector<'_>,
        decision: &Decision,
    ) -> Result<view::Decided, Failure> {
        let (request, digest) = match selector {
            RequestSelector::Shown { request_id, digest }
            | RequestSelector::Revealed { request_id, digest } => (request_id, Some(digest)),
            RequestSelector::Named(request_id) => (request_id, None),
            RequestSelector::Only => (calls::ONLY_REQUEST, None),
        };
        let path = task_path(id, &format!("/requests/{}/decision", encoded(request)));
        let revealed = matches!(selector, RequestSelector::Revealed { .. });
        self.post(&path, &calls::Decide::new(decision, digest, revealed)).await
    }

    /// A request without redaction.
    pub async fn reveal(&self, id: &str, request: &str) -> Result<view::Revealed, Failure> {
        self.post(&task_path(id, &format!("/requests/{}/reveal", encoded(request))), &()).await
    }

    /// Makes one call of the tool. Refusals are replies too.
    pub async fn tool(&self, call: Value) -> Result<Value, Failure> {
        let caller_cwd = std::env::current_dir().ok();
        self.post("/v1/tool", &calls::Tool { call, caller_cwd }).await
    }

    /// The deliveries, the newest first.
    pub async fn deliveries(&self, filter: &calls::Deliveries) -> Result<Vec<view::Delivery>, Failure> {
        self.get(&format!("/v1/deliveries{}", query(filter))).await
    }

    /// Retries a delivery now.
    pub async fn retry_delivery(&self, id: &str) -> Result<view::Delivery, Failure> {
        self.post(&format!("/v1/deliveries/{}/retry", encoded(id)), &()).await
    }

    /// Sends a test notification to a target.
    pub async fn test_target(&self, test: &calls::TestTarget) -> Result<view::Tried, Failure> {
        self.post("/v1/deliveries/test", test).await
    }

    /// The channels with their status.
    pub async fn channels(&self) -> Result<Vec<view::Channel>, Failure> {
        self.get("/v1/channels").await
    }

    /// Serves a channel.
    pub async fn run_channel(&self, call: &calls::RunChannel) -> Result<view::Channel, Failure> {
        self.post(&channel_path(&call.name, "run"), call).await
    }

    /// Tests the connection to a channel's platform.
    pub async fn test_channel(&self, call: &calls::RunChannel) -> Result<view::Reached, Failure> {
        self.post(&channel_path(&call.name, "test"), call).await
    }

    /// Pauses a channel.
    pub async fn pause_channel(&self, name: &str) -> Result<view::Channel, Failure> {
        self.post(&channel_path(name, "pause"), &()).await
    }

    /// The log of a channel, after this many lines.
    pub async fn channel_log(&self, name: &str, after: u64) -> Result<view::ChannelLog, Failure> {
        self.get(&format!("{}{}", channel_path(name, "log"), query(&calls::Lines { after }))).await
    }

    /// The messages from channels, the newest first.
    pub async fn inbox(&self, filter: &calls::Inbox) -> Result<Vec<view::Message>, Failure> {
        self.get(&format!("/v1/inbox{}", query(filter))).await
    }

    /// Retries a failed message.
    pub async fn retry_message(&self, id: &str) -> Result<view::Message, Failure> {
        self.post(&format!("/v1/inbox/{}/retry", encoded(id)), &()).await
    }

    /// The daemon's description of itself.
    pub async fn about(&self) -> Result<view::About, Failure> {
        self.get("/v1/about").await
    }

    /// Creates a token for a remote caller.
    pub async fn create_token(&self, new: &calls::NewToken) -> Result<view::FreshToken, Failure> {
        self.post("/v1/tokens", new).await
    }

    /// The tokens, including revoked ones.
    pub async fn tokens(&self) -> Result<Vec<view::Token>, Failure> {
        self.get("/v1/tokens").await
    }

    /// Changes a token's quota.
    pub async fn change_quota(&self, name: &str, quota: &calls::Quota) -> Result<view::Token, Failure> {
        self.post(&format!("/v1/tokens/{}/quota", encoded(name)), quota).await
    }

    /// Revokes a token.
    pub async fn revoke_token(&self, name: &str) -> Result<view::Token, Failure> {
        self.post(&format!("/v1/tokens/{}/revoke", encoded(name)), &()).await
    }

    /// The trust levels of all directories.
    pub async fn trust_list(&self) -> Result<view::TrustList, Failure> {
        self.get("/v1/trust").await
    }

    /// The trust level of one directory, and why.
    pub async fn trust_of(&self, call: &calls::TrustOf) -> Result<view::TrustOf, Failure> {
        self.get(&format!("/v1/trust/directory{}", query(call))).await
    }

    /// Sets the trust level of a directory.
    pub async fn set_trust(&self, call: &calls::SetTrust) -> Result<view::TrustChange, Failure> {
        self.post("/v1/trust", call).await
    }

    /// Removes the trust level of a directory.
    pub async fn remove_trust(&self, call: &calls::RemoveTrust) -> Result<view::TrustChange, Failure> {
        self.post("/v1/trust/remove", call).await
    }

    /// Checks the store for damage.
    pub async fn check_store(&self) -> Result<view::StoreCheck, Failure> {
        self.post("/v1/store/check", &()).await
    }

    /// Copies the store to a new file. Tasks continue meanwhile.
    pub async fn back_up_store(&self, file: PathBuf) -> Result<calls::Backup, Failure> {
        self.post("/v1/store/backup", &calls::Backup { file }).await
    }

    /// The audit log, the oldest line first.
    pub async fn audit(&self, filter: &calls::Audit) -> Result<Vec<view::AuditLine>, Failure> {
        self.get(&format!("/v1/audit{}", query(filter))).await
    }

    /// Deletes tasks that are older than the configuration says.
    pub async fn gc(&self) -> Result<view::Forgotten, Failure> {
        self.post("/v1/gc", &()).await
    }

    /// Stops the daemon. It exits after this reply.
    pub async fn stop(&self, stop: calls::Stop) -> Result<view::Stopping, Failure> {
        self.post("/v1/stop", &stop).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        read_json(self.send(Method::GET, path, None).await?).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).map_err(Failure::internal)?;
        read_json(self.send(Method::POST, path, Some(body)).await?).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "codex-bridge")
            .header("content-type", "application/json")
            .body(Body::from(body.unwrap_or_default()))
            .map_err(Failure::internal)?;
        if let Some(role) = self.delegate {
            request.headers_mut().insert(DELEGATE_HEADER, HeaderValue::from_static(role.as_str()));
        }
        let response = send_on_socket(&self.paths, self.autostart, request).await?;
        warn_about_other_home(&response, &self.has_warned);
        Ok(response)
    }
}

async fn send_on_socket(
    paths: &Paths,
    autostart: Autostart,
    request: Request<Body>,
) -> Result<Response<Body>, Failure> {
    let stream = connect(paths, autostart).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(connection_lost)?;
    // The connection ends with the response's body.
    tokio::spawn(connection);
    Ok(sender.send_request(request).await.map_err(connection_lost)?.map(Body::new))
}

async fn connect(paths: &Paths, autostart: Autostart) -> Result<UnixStream, Failure> {
    match UnixStream::connect(paths.socket()).await {
        Ok(stream) => Ok(stream),
        Err(_) if autostart == Autostart::Yes => autostart::start(paths).await,
        Err(error) => {
            let message =
                format!("no daemon is running for {}: {}", paths.state_dir.display(), reason(&error));
            Err(Failure::new(Code::DaemonNotRunning, message).hint("start it with `codex-bridge serve`"))
        }
    }
}

/// Warns if the caller's CODEX_HOME differs from the daemon's, which the tasks use.
fn warn_about_other_home(response: &Response<Body>, has_warned: &AtomicBool) {
    let of_daemon =
        response.headers().get(HOME_HEADER).and_then(|home| home.to_str().ok()).unwrap_or_default();
    let Some(of_caller) = std::env::var_os("CODEX_HOME").filter(|home| !home.is_empty()) else { return };
    if of_caller.to_str() != Some(of_daemon) && !has_warned.swap(true, Ordering::Relaxed) {
        let of_daemon = if of_daemon.is_empty() { "~/.codex" } else { of_daemon };
        let of_caller = of_caller.display();
        output::note(format!("warning: the daemon uses CODEX_HOME {of_daemon}, not {of_caller}"));
    }
}

/// A stream of events, one JSON object per line.
#[derive(Debug)]
pub struct EventStream {
    body: Body,
    buffer: BytesMut,
}

impl EventStream {
    /// The next event; none at the end.
    pub async fn next(&mut self) -> Result<Option<view::Event>, Failure> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return read_line(&line).map(Some);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Err(connection_lost(error)),
                None => return Ok(None),
            }
        }
    }
}

/// Parses a line: an event, or the failure that ended the stream.
fn read_line(line: &[u8]) -> Result<view::Event, Failure> {
    if let Ok(ErrorBody { error }) = serde_json::from_slice(line) {
        return Err(error);
    }
    serde_json::from_slice(line).map_err(Failure::internal)
}

async fn read_json<T: DeserializeOwned>(response: Response<Body>) -> Result<T, Failure> {
    let body = success(response).await?.into_body().collect().await.map_err(connection_lost)?.to_bytes();
    serde_json::from_slice(&body).map_err(Failure::internal)
}

/// The response if it is a success, else its failure.
async fn success(response: Response<Body>) -> Result<Response<Body>, Failure> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let body = response.into_body().collect().await.map_err(connection_lost)?.to_bytes();
    let failure = serde_json::from_slice::<Problem>(&body).map(Failure::from);
    Err(failure.unwrap_or_else(|_| Failure::new(Code::Internal, format!("the daemon answered {status}"))))
}

fn connection_lost(error: impl std::fmt::Display) -> Failure {
    Failure::new(Code::DaemonGone, format!("the connection to the daemon was lost: {error}"))
}

fn channel_path(name: &str, action: &str) -> String {
    format!("/v1/channels/{}/{action}", encoded(name))
}

fn task_path(id: &str, rest: &str) -> String {
    format!("/v1/tasks/{}{rest}", encoded(id))
}

/// A path segment: trimmed and percent-encoded.
fn encoded(text: &str) -> String {
    percent_encoded(text.trim())
}
