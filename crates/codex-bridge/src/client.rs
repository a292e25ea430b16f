//! A client of the daemon: HTTP on the unix socket of its state directory.
//!
//! Example:
//!
//! ```text
//! let client = globals.client()?;                       // no daemon is needed yet
//! let task = client.start(&Start { door: Door::Cli, prompt: "look around".to_owned(), ..Start::default() }).await?;
//! let turns: Vec<view::Turn> = client.get(&["tasks", &task.task_id, "turns"], &()).await?;
//! let mut log = client.events(&task.task_id, &calls::Events { follow: true, live: true, ..Default::default() }).await?;
//! while let Some(event) = log.next().await? { … }       // view::Event, until the task is finished
//! ```
//!
//! A call that several doors or verbs make has a method. Other verbs name their route.
//!
//! The first call starts the daemon if none is running (unless `--no-autostart`). Every error is a [`Failure`] with a code,
//! a sentence and a hint, including the daemon's own refusals. Ids are sent as typed; the daemon accepts any unique
//! beginning.

mod autostart;

use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
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

use crate::calls::{self, DELEGATE_HEADER, HOME_HEADER};
use crate::failure::{Code, ErrorBody, Failure, Problem};
use crate::output;
use crate::paths::{Paths, path_variable};
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
        self.post(&["tasks"], start).await
    }

    /// A task by its id or a unique beginning of it.
    pub async fn show(&self, id: &str) -> Result<view::Task, Failure> {
        self.get(&["tasks", id], &()).await
    }

    /// A task's log.
    pub async fn events(&self, id: &str, options: &calls::Events) -> Result<EventStream, Failure> {
        let query = calls::query(options);
        let body = self.send(Method::GET, &["tasks", id, "events"], query, Vec::new()).await?;
        Ok(EventStream { body, buffer: BytesMut::new() })
    }

    /// Starts another turn of a finished task. The reply has the number of the turn.
    pub async fn continue_task(&self, id: &str, turn: &calls::Prompt) -> Result<view::Task, Failure> {
        self.post(&["tasks", id, "turns"], turn).await
    }

    /// The turns of a task, the oldest first.
    pub async fn turns(&self, id: &str) -> Result<Vec<view::Turn>, Failure> {
        self.get(&["tasks", id, "turns"], &()).await
    }

    /// Stops a task. Returns when Codex has confirmed it.
    pub async fn interrupt(&self, id: &str) -> Result<view::Outcome, Failure> {
        self.interrupt_turn(id, None).await
    }

    /// Stops a task, or only this turn of it.
    pub async fn interrupt_turn(&self, id: &str, turn: Option<u32>) -> Result<view::Outcome, Failure> {
        let query = calls::query(&calls::Interrupt { turn });
        read(&self.call(Method::POST, &["tasks", id, "interrupt"], query, Vec::new()).await?)
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
        let revealed = matches!(selector, RequestSelector::Revealed { .. });
        let decide = calls::Decide::new(decision, digest, revealed);
        self.post(&["tasks", id, "requests", request, "decision"], &decide).await
    }

    /// A request without redaction.
    pub async fn reveal(&self, id: &str, request: &str) -> Result<view::Revealed, Failure> {
        self.post(&["tasks", id, "requests", request, "reveal"], &()).await
    }

    /// Makes one call of the tool. Refusals are replies too.
    pub async fn tool(&self, call: Value) -> Result<Value, Failure> {
        let caller_cwd = std::env::current_dir().ok();
        self.post(&["tool"], &calls::Tool { call, caller_cwd }).await
    }

    /// Calls a `GET` route. `path` has the segments behind `/v1/`, `query` the fields of the query, `()` for none.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &impl Serialize,
    ) -> Result<T, Failure> {
        read(&self.call(Method::GET, path, calls::query(query), Vec::new()).await?)
    }

    /// Calls a `POST` route. `path` has the segments behind `/v1/`.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).map_err(Failure::internal)?;
        read(&self.call(Method::POST, path, String::new(), body).await?)
    }

    /// Makes a call, and returns the whole body of its reply.
    async fn call(
        &self,
        method: Method,
        path: &[&str],
        query: String,
        body: Vec<u8>,
    ) -> Result<Bytes, Failure> {
        let body = self.send(method, path, query, body).await?;
        Ok(body.collect().await.map_err(connection_lost)?.to_bytes())
    }

    /// Makes a call, and returns the body of its reply, unless it is a failure.
    async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: String,
        body: Vec<u8>,
    ) -> Result<Body, Failure> {
        let path = path.iter().map(|segment| format!("/{}", calls::percent_encoded(segment.trim())));
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/v1{}{query}", path.collect::<String>()))
            .header("host", "codex-bridge")
            .header("content-type", "application/json")
            .body(Body::from(body))
            .map_err(Failure::internal)?;
        if let Some(role) = self.delegate {
            request.headers_mut().insert(DELEGATE_HEADER, HeaderValue::from_static(role.as_str()));
        }
        let response = send_on_socket(&self.paths, self.autostart, request).await?;
        warn_about_other_home(&response, &self.has_warned);
        success(response).await
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
    let Some(of_caller) = path_variable("CODEX_HOME") else { return };
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

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(Failure::internal)
}

/// The body of a response if it is a success, else its failure.
async fn success(response: Response<Body>) -> Result<Body, Failure> {
    if response.status().is_success() {
        return Ok(response.into_body());
    }
    let status = response.status();
    let body = response.into_body().collect().await.map_err(connection_lost)?.to_bytes();
    let failure = serde_json::from_slice::<Problem>(&body).map(Failure::from);
    Err(failure.unwrap_or_else(|_| Failure::new(Code::Internal, format!("the daemon answered {status}"))))
}

fn connection_lost(error: impl std::fmt::Display) -> Failure {
    Failure::new(Code::DaemonGone, format!("the connection to the daemon was lost: {error}"))
}
