//! Stand-ins of the platforms that notices are sent to: they behave as documented, and have bad days when told to.
//!
//! Each listens on a port of its own on loopback, remembers every request that reached it, and which of them it took.

pub mod discord;
pub mod feishu;
pub mod molecule;
pub mod slack;
pub mod telegram;
pub mod webhook;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_mins(2);

/// A request that reached a platform.
#[derive(Debug, Clone)]
pub struct Received {
    /// GET, POST …
    pub method: String,
    /// With its query.
    pub path: String,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    /// As it came.
    pub text: String,
    /// Read as JSON; null if it is none.
    pub body: Value,
    /// When.
    pub at: Instant,
}

/// What a platform does with one request instead of what it should.
#[derive(Debug, Clone)]
pub enum Day {
    /// Takes nothing, and answers so.
    Refuses(Answer),
    /// Takes it, and answers so all the same.
    TakesBut(Answer),
    /// Takes it, and closes the connection without an answer.
    TakesAndDrops,
    /// Closes the connection without having taken it.
    Drops,
    /// Does what it should, after so long.
    IsSlow(Duration),
    /// Takes it at once, and answers after so long.
    AnswersLate(Duration),
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Headers by name.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: Value,
    /// How long the platform takes to say it.
    pub after: Duration,
    /// Said only once this was notified.
    pub until: Option<Arc<Notify>>,
}

impl Answer {
    /// Only a status.
    pub fn status(status: u16) -> Self {
        Self::json(status, Value::Null)
    }

    /// With JSON.
    pub fn json(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body, after: Duration::ZERO, until: None }
    }

    /// Said only after so long.
    #[must_use]
    pub fn late(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }

    /// Said only once this was notified.
    #[must_use]
    pub fn held(mut self, until: Arc<Notify>) -> Self {
        self.until = Some(until);
        self
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).expect("a status");
        let mut response = (status, self.body.to_string()).into_response();
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value.parse().expect("a header"));
        }
        response
    }
}

/// What a platform makes of a request on a good day. Success is a status below 300 and counts as taken.
pub type Manners = Box<dyn Fn(&Received) -> Answer + Send + Sync>;

/// A platform.
pub struct Platform {
    base: String,
    desk: Arc<Desk>,
    server: JoinHandle<()>,
}

struct Desk {
    manners: Manners,
    days: Mutex<VecDeque<Day>>,
    received: Mutex<Vec<Received>>,
    taken: Mutex<Vec<Received>>,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Platform {
    /// Opens it.
    pub async fn open(manners: Manners) -> Self {
        let desk = Arc::new(Desk {
            manners,
            days: Mutex::default(),
            received: Mutex::default(),
            taken: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
        let base = format!("http://{}", listener.local_addr().expect("its address"));
        let router = Router::new().fallback(receive).with_state(Arc::clone(&desk));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.expect("serves") });
        Self { base, desk, server }
    }

    /// Its address, without a slash at the end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// What it does with the requests to come, one each; after that it behaves.
    pub fn have(&self, days: impl IntoIterator<Item = Day>) {
        open(&self.desk.days).extend(days);
    }

    /// All that reached it.
    pub fn received(&self) -> Vec<Received> {
        open(&self.desk.received).clone()
    }

    /// What it took: what its users see.
    pub fn taken(&self) -> Vec<Received> {
        open(&self.desk.taken).clone()
    }

    /// Waits until it has taken so many.
    pub async fn until_taken(&self, count: usize) -> Vec<Received> {
        self.until(&format!("{count} messages"), || self.taken().len() >= count).await;
        self.taken()
    }

    /// Waits until so many requests have reached it.
    pub async fn until_received(&self, count: usize) -> Vec<Received> {
        self.until(&format!("{count} requests"), || self.received().len() >= count).await;
        self.received()
    }

    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            let received = self.received();
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}; there came {received:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(
    State(desk): State<Arc<Desk>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let text = String::from_utf8_lossy(&body).into_owned();
    let header = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let received = Received {
        method: method.to_string(),
        path: uri.to_string(),
        headers: headers.iter().map(|(name, value)| (name.to_string(), header(value))).collect(),
        body: serde_json::from_str(&text).unwrap_or_default(),
        text,
        at: Instant::now(),
    };
    open(&desk.received).push(received.clone());
    let day = open(&desk.days).pop_front();
    let take = |received: Received| {
        let answer = (desk.manners)(&received);
        if answer.status < 300 {
            open(&desk.taken).push(received);
        }
        answer
    };
    match day {
        None => {
            let answer = take(received);
            tokio::time::sleep(answer.after).await;
            if let Some(until) = &answer.until {
                until.notified().await;
            }
            answer.into_response()
        }
        Some(Day::IsSlow(time)) => {
            tokio::time::sleep(time).await;
            take(received).into_response()
        }
        Some(Day::AnswersLate(time)) => {
            let answer = take(received);
            tokio::time::sleep(time).await;
            answer.into_response()
        }
        Some(Day::Refuses(answer)) => answer.into_response(),
        Some(Day::TakesBut(answer)) => {
            take(received);
            answer.into_response()
        }
        Some(Day::TakesAndDrops) => {
            take(received);
            drop_connection()
        }
        Some(Day::Drops) => drop_connection(),
    }
}

/// Ends the task that serves the connection, quietly: nothing is answered.
fn drop_connection() -> Response {
    std::panic::resume_unwind(Box::new(()))
}
