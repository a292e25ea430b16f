//! A client for the daemon's port: plain HTTP/1.1 on loopback, with or without a token.

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::HeaderMap;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout, timeout_at};

use testkit::rig;

use crate::shell::{PATIENCE, Shell};

/// A daemon with a port, whose remote callers may work in the workspace.
pub struct Port {
    pub shell: Shell,
    pub number: u16,
}

impl Port {
    pub async fn new() -> Self {
        let shell = Shell::new().await;
        let number = free_port();
        let port = Self { shell, number };
        let workspace = port.shell.home.workspace();
        port.configure(&format!("roots = [\"{}\"]\n", workspace.display()), "");
        port
    }

    /// Writes the configuration: keys before `[http]`, and keys in it.
    pub fn configure(&self, keys: &str, http_keys: &str) {
        let codex = rig::codex_path();
        let text = format!(
            "codex_bin = \"{}\"\n{keys}[http]\nlisten = \"127.0.0.1:{}\"\n{http_keys}",
            codex.display(),
            self.number
        );
        fs::write(self.shell.home.dir().join("config.toml"), text).unwrap();
    }

    /// Creates a token.
    pub async fn token(&self, name: &str, role: &str) -> String {
        let said = self.shell.run(&["--json", "token", "create", name, "--role", role]).await.ok();
        said.json()["token"].as_str().unwrap().to_owned()
    }

    pub fn get(&self, path: &str) -> Call {
        self.call("GET", path)
    }

    pub fn post(&self, path: &str, body: &Value) -> Call {
        self.call("POST", path).header("content-type", "application/json").body(body.to_string())
    }

    pub fn call(&self, method: &str, path: &str) -> Call {
        Call::to(self.number, method, path)
    }

    /// The same call on the socket, as the owner.
    pub fn local(&self, method: &str, path: &str, body: &Value) -> Call {
        let call = self.post(path, body);
        let to = To::Socket(self.shell.home.dir().join("st/daemon.sock"));
        Call { to, method: method.parse().unwrap(), ..call }
    }

    /// Starts a task with a token. Returns its id.
    pub async fn start(&self, token: &str, prompt: &str) -> String {
        let body = self.work(prompt);
        let answer = self.post("/v1/tasks", &body).token(token).send().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["task_id"].as_str().unwrap().to_owned()
    }

    /// The body of `POST /v1/tasks`.
    pub fn work(&self, prompt: &str) -> Value {
        let cwd = self.shell.home.workspace();
        serde_json::json!({ "prompt": prompt, "cwd": cwd, "sandbox": "workspace-write" })
    }

    /// Decides the only open request of a task, with its digest.
    pub async fn decide(&self, token: &str, id: &str, decision: &str) -> Answer {
        let task = self.get(&format!("/v1/tasks/{id}")).token(token).send().await.ok().json();
        let asked = &task["pending_requests"][0];
        let name = asked["request_id"].as_str().unwrap_or_else(|| panic!("nothing is open: {task:#}"));
        let body = serde_json::json!({ "decision": decision, "digest": asked["digest"] });
        self.post(&format!("/v1/tasks/{id}/requests/{name}/decision"), &body).token(token).send().await
    }

    /// Waits until a task is finished or has an open request.
    pub async fn wait(&self, token: &str, id: &str) -> Value {
        let path = format!("/v1/tasks/{id}/wait?timeout_s=120");
        self.get(&path).token(token).send().await.ok().json()
    }
}

/// A port that no other test uses: below the ephemeral ports, derived from the pid of this process.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 4 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(20_000 + number % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

enum To {
    Port(u16),
    Socket(std::path::PathBuf),
}

/// A call that is being built.
pub struct Call {
    to: To,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Call {
    /// A call to a port of this machine.
    pub fn to(port: u16, method: &str, path: &str) -> Self {
        Self {
            to: To::Port(port),
            method: method.parse().unwrap(),
            path: path.to_owned(),
            headers: vec![("host".into(), format!("localhost:{port}"))],
            body: String::new(),
        }
    }

    pub fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Sets a header. An empty value is omitted.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the call. The body of the response is not read yet.
    pub async fn open(self) -> Response<Incoming> {
        let mut request = Request::builder().method(self.method).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(self.body))).unwrap();
        let send = async {
            match self.to {
                To::Port(port) => {
                    exchange(TcpStream::connect(("127.0.0.1", port)).await.unwrap(), request).await
                }
                To::Socket(path) => exchange(UnixStream::connect(path).await.unwrap(), request).await,
            }
        };
        timeout(PATIENCE, send).await.unwrap_or_else(|_| panic!("no answer to {}", self.path))
    }

    /// Sends the call and reads the whole response.
    pub async fn send(self) -> Answer {
        let response = self.open().await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = timeout(PATIENCE, response.into_body().collect()).await.expect("a whole body").unwrap();
        Answer { status, headers, body: String::from_utf8(body.to_bytes().to_vec()).unwrap() }
    }

    /// A stream of server-sent events.
    pub async fn events(self) -> Events {
        let response = self.header("accept", "text/event-stream").open().await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { body: response.into_body(), read: BytesMut::new() }
    }
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Response<Incoming>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.status, 200, "{self:?}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The code of a failure. Checks that it is problem JSON (RFC 9457).
    #[track_caller]
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        assert_eq!(problem["type"], "about:blank");
        for field in ["title", "detail", "code"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {self:?}");
        }
        (self.status, problem["code"].as_str().unwrap().to_owned())
    }
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: Option<i64>,
    pub name: String,
    pub data: Value,
}

/// A stream of server-sent events.
pub struct Events {
    body: Incoming,
    read: BytesMut,
}

impl Events {
    /// The next event. `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let text = String::from_utf8_lossy(&self.read).into_owned();
            if let Some((block, _)) = text.split_once("\n\n") {
                let _ = self.read.split_to(block.len() + 2);
                match parsed(block) {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            match timeout(PATIENCE, self.body.frame()).await.expect("an event in time") {
                Some(Ok(frame)) => self.read.extend(frame.into_data().unwrap_or_default()),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The next event that matches.
    pub async fn until(&mut self, what: &str, is_so: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut read = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while let Ok(Some(event)) = timeout_at(deadline, self.next()).await {
            let is_it = is_so(&event);
            read.push(event);
            if is_it {
                return read;
            }
        }
        panic!("no {what} in {read:#?}");
    }
}

/// Parses an event. `None` for comments and the retry time.
fn parsed(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    let data = field("data: ")?;
    Some(Event {
        id: field("id: ").map(|id| id.parse().unwrap()),
        name: field("event: ").unwrap_or("message").to_owned(),
        data: serde_json::from_str(data).unwrap(),
    })
}
