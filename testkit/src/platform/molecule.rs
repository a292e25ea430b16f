//! The Molecule platform, as far as one workspace sees it: registration, the activity log, notices on the canvas,
//! delegations to other agents, and requests that people answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Answer, Platform, Received};

/// The workspace that is served.
pub const WORKSPACE: &str = "6f0c1d2e-0000-4000-8000-000000000001";
/// Its token.
pub const TOKEN: &str = "mol-token-of-the-tests";
/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_mins(2);

/// A platform with one workspace.
pub struct Molecule {
    platform: Platform,
    state: Arc<Mutex<State>>,
}

/// What it does with one call to a route, instead of what it should.
#[derive(Debug, Clone)]
pub enum Bad {
    /// Does nothing, and answers so.
    Refuses(Answer),
    /// Does it, and answers so all the same.
    DoesBut(Answer),
    /// Does it, and closes the connection.
    DoesAndDrops,
    /// Closes the connection.
    Drops,
    /// Does it, and takes so long to answer.
    AnswersLate(Duration),
    /// Does it, and answers once this was notified.
    AnswersWhen(Arc<Notify>),
    /// Does it, and gives lists in another order.
    Reorders,
}

/// All that the platform knows.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The activity log.
    pub rows: Vec<Value>,
    /// What people on the canvas read.
    pub notices: Vec<String>,
    /// What other agents were asked: who, what, under which key. One per key.
    pub delegations: Vec<(String, String, String)>,
    /// Requests to people: their texts and where they stand.
    pub requests: Vec<Value>,
    /// Every mark that was set, in order.
    pub acks: Vec<i64>,
    /// How often we were registered, and said that we live.
    pub registrations: usize,
    pub heartbeats: Vec<Value>,
    /// How often the log was read, and the list of our requests.
    pub polls: usize,
    pub lists: usize,
    /// Whether marks and requests are unknown to it, as to older servers.
    pub is_old: bool,
    token: String,
    bad: VecDeque<(String, Bad)>,
    next_seq: i64,
    /// Rows that come are dated back by so much.
    back_ms: u128,
    /// So many rows at the beginning are no places any more.
    forgotten: usize,
}

impl Molecule {
    /// Opens it.
    pub async fn open() -> Self {
        let state = State { token: TOKEN.to_owned(), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let desk = Arc::clone(&state);
        let platform = Platform::open(Box::new(move |received| answer(&desk, received))).await;
        Self { platform, state }
    }

    /// Its address.
    pub fn base(&self) -> &str {
        self.platform.base()
    }

    /// All that it knows now.
    pub fn state(&self) -> State {
        self.desk().clone()
    }

    fn desk(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A person writes on the canvas. Gives the row's place.
    pub fn say(&self, text: &str) -> i64 {
        self.add(&json!({ "method": "message/send", "request_body": by_a_person(message(text)) }))
    }

    /// Another agent writes.
    pub fn peer_says(&self, peer: &str, text: &str) -> i64 {
        let row = json!({ "method": "message/send", "source_id": peer, "peer_name": "Peer", "request_body": message(text) });
        self.add(&row)
    }

    /// A chat bridge of the platform's own hands over what a stranger wrote to it, under the caller `channel:NAME`: the
    /// row has no source, just like one of the canvas.
    pub fn bridge_says(&self, bridge: &str, text: &str) -> i64 {
        let mut said = message(text);
        said["params"]["metadata"] =
            json!({ "source": bridge, "chat_id": "7", "user_identity_status": "UNAUTHENTICATED" });
        said["params"]["message"]["messageId"] = format!("channel-{bridge}-7").into();
        self.add(&json!({ "method": "message/send", "request_body": said }))
    }

    /// Any row.
    pub fn add(&self, row: &Value) -> i64 {
        self.desk().add(row)
    }

    /// What happens to the next call of a route that ends so: `notify`, `activity`, `activity/ack` …
    pub fn have(&self, route: &str, days: impl IntoIterator<Item = Bad>) {
        self.desk().bad.extend(days.into_iter().map(|bad| (route.to_owned(), bad)));
    }

    /// The token is worth nothing any more.
    pub fn revoke_token(&self) {
        self.desk().token.push_str(" no more");
    }

    /// From here on rows are dated back by so much: they come as if this were the past.
    pub fn live_in_the_past(&self, by: Duration) {
        self.desk().back_ms = by.as_millis();
    }

    /// It does not know any place in its log any more.
    pub fn forget_places(&self) {
        let mut desk = self.desk();
        desk.forgotten = desk.rows.len();
    }

    /// It is a server from before there were marks.
    pub fn is_old(&self) {
        self.desk().is_old = true;
    }

    /// A person answers a request: `approved` or `rejected`. The platform tells the agent so in a message of its own.
    pub fn answer(&self, index: usize, status: &str) {
        self.answer_as(index, status, "user");
    }

    /// A `user` or an `agent` answers a request.
    pub fn answer_as(&self, index: usize, status: &str, responder: &str) {
        let mut desk = self.desk();
        let request = &mut desk.requests[index];
        (request["status"], request["responder_type"]) = (status.into(), responder.into());
        let (id, title) = (request["id"].as_str().unwrap_or_default(), request["title"].clone());
        let mut told = message(&format!("Your approval request {title} (id {id}) was {status} by the user."));
        told["params"]["message"]["messageId"] = format!("request-responded:{id}-0001").into();
        desk.add(&json!({ "method": "message/send", "request_body": told }));
    }

    /// Waits until it is so.
    pub async fn until(&self, what: &str, is_so: impl Fn(&State) -> bool) -> State {
        let began = Instant::now();
        loop {
            let state = self.state();
            if is_so(&state) {
                return state;
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}: {state:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A message as A2A 0.3 has it.
fn message(text: &str) -> Value {
    json!({ "params": { "message": { "role": "user", "parts": [{ "kind": "text", "text": text }] } } })
}

/// The same as the platform hands it over when a person wrote it on the canvas: it says so itself.
pub fn by_a_person(mut body: Value) -> Value {
    body["params"]["metadata"] = json!({
        "source": "canvas_user", "user_identity_status": "AUTHENTICATED", "user_id": "u-1",
    });
    body
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// A time to the microsecond, to be compared as text.
fn fine(at: &str) -> String {
    let (seconds, rest) = at.trim_end_matches('Z').split_once('.').unwrap_or((at.trim_end_matches('Z'), ""));
    format!("{seconds}.{rest:0<6}")
}

/// RFC 3339, from milliseconds since 1970.
fn rfc3339(ms: u128) -> String {
    let (days, of_day) = (i64::try_from(ms / 86_400_000).unwrap_or_default(), ms % 86_400_000);
    // Howard Hinnant's algorithm for dates of the civil calendar.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", of_day % 1000)
}

impl State {
    fn add(&mut self, row: &Value) -> i64 {
        self.next_seq += 1;
        let seq = self.next_seq;
        let mut whole = json!({
            "id": format!("00000000-0000-4000-8000-{seq:012}"), "workspace_id": WORKSPACE,
            "activity_type": "a2a_receive", "source_id": null, "seq": seq, "created_at": rfc3339(now_ms() - self.back_ms),
        });
        for (name, value) in row.as_object().into_iter().flatten() {
            whole[name] = value.clone();
        }
        self.rows.push(whole);
        seq
    }

    fn activity(&mut self, query: &str) -> Answer {
        self.polls += 1;
        let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let limit: usize = field("limit").and_then(|limit| limit.parse().ok()).unwrap_or(100).min(500);
        if let Some(since) = field("since_id") {
            let at = self.rows.iter().position(|row| row["id"] == since);
            if let Some(at) = at.filter(|at| *at >= self.forgotten) {
                return Answer::json(200, self.rows.iter().skip(at + 1).take(limit).cloned().collect());
            }
            return Answer::json(
                410,
                json!({ "error": "since_id cursor not found; omit since_id to reset" }),
            );
        }
        let seconds: u128 = field("since_secs").and_then(|seconds| seconds.parse().ok()).unwrap_or(600);
        let since = rfc3339(now_ms().saturating_sub(seconds * 1000));
        let before = field("before_ts").map(|at| at.replace("%3A", ":"));
        // The newest first, as the platform has it without a place; `before_ts` is strictly before.
        let fits = |row: &&Value| {
            let at = row["created_at"].as_str().unwrap_or_default();
            at >= since.as_str() && before.as_ref().is_none_or(|before| fine(at) < fine(before))
        };
        Answer::json(200, self.rows.iter().rev().filter(fits).take(limit).cloned().collect())
    }

    fn notify(&mut self, body: &Value) -> Answer {
        let Some(text) = body["message"].as_str().filter(|text| !text.is_empty()) else {
            return Answer::json(400, json!({ "error": "message is required" }));
        };
        self.notices.push(text.to_owned());
        self.add(&json!({ "method": "notify", "response_body": { "result": text } }));
        Answer::json(200, json!({ "status": "sent" }))
    }

    fn delegate(&mut self, body: &Value) -> Answer {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let (target, task, key) = (text("target_id"), text("task"), text("idempotency_key"));
        if target == WORKSPACE || target.is_empty() {
            return Answer::json(400, json!({ "error": "self-delegation" }));
        }
        let known = self.delegations.iter().any(|(.., known)| *known == key);
        if known {
            let reply = json!({ "delegation_id": key, "status": "delegated", "target_id": target, "idempotent_hit": true });
            return Answer::json(200, reply);
        }
        self.delegations.push((target.clone(), task, key.clone()));
        Answer::json(202, json!({ "delegation_id": key, "status": "delegated", "target_id": target }))
    }

    fn ack(&mut self, body: &Value) -> Answer {
        if self.is_old {
            return Answer::json(404, json!({ "error": "not found" }));
        }
        let before = self.acks.iter().copied().max().unwrap_or_default();
        let mark = body["acked_seq"].as_i64().unwrap_or_default().max(before);
        self.acks.push(mark);
        Answer::json(200, json!({ "last_acked_seq": mark }))
    }

    /// `POST /requests`, or the newest fifty of ours: bare rows, with `id` where the answer to a POST has `request_id`.
    fn request(&mut self, method: &str, query: &str, body: &Value) -> Answer {
        if self.is_old {
            return Answer::status(404);
        }
        if method == "GET" {
            self.lists += 1;
            let status = query.strip_prefix("status=");
            let fits = |request: &&Value| status.is_none_or(|status| request["status"] == status);
            return Answer::json(200, self.requests.iter().rev().filter(fits).take(50).cloned().collect());
        }
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        if !["task", "approval"].contains(&text("kind")) || text("title").is_empty() {
            return Answer::json(400, json!({ "error": "invalid request body" }));
        }
        let id = format!("platform-request-{}", self.requests.len());
        self.requests.push(json!({
            "id": id, "kind": text("kind"), "requester_type": "agent", "requester_id": WORKSPACE,
            "recipient_type": text("recipient_type"), "recipient_id": "", "title": text("title"),
            "detail": body["detail"], "status": "pending", "responder_type": null,
            "created_at": rfc3339(now_ms()),
        }));
        Answer::json(201, json!({ "request_id": id, "status": "pending" }))
    }

    fn of_request(&mut self, rest: &str) -> Answer {
        let (id, verb) = rest.split_once('/').unwrap_or((rest, ""));
        let found = self.requests.iter_mut().find(|request| request["id"] == id);
        let is_open = |request: &Value| request["status"] == "pending";
        match (found, verb) {
            (Some(request), "") => Answer::json(200, json!({ "request": request, "messages": [] })),
            (Some(request), "cancel") if is_open(request) => {
                request["status"] = "cancelled".into();
                Answer::json(200, json!({ "status": "cancelled", "request_id": id }))
            }
            _ => Answer::json(404, json!({ "error": "request not found or already resolved" })),
        }
    }

    fn do_it(&mut self, route: &str, received: &Received) -> Answer {
        let query = received.path.split_once('?').map_or("", |(_, query)| query);
        let body = &received.body;
        match route {
            "/registry/register" => {
                self.registrations += 1;
                Answer::json(200, json!({ "status": "registered", "delivery_mode": body["delivery_mode"] }))
            }
            "/registry/heartbeat" => {
                self.heartbeats.push(body.clone());
                Answer::json(200, json!({ "status": "ok", "generation": 1 }))
            }
            "activity" => self.activity(query),
            "activity/ack" => self.ack(body),
            "notify" => self.notify(body),
            "delegate" => self.delegate(body),
            "requests" => self.request(&received.method, query, body),
            other => match other.strip_prefix("requests/") {
                Some(rest) => self.of_request(rest),
                None => Answer::status(404),
            },
        }
    }
}

fn answer(state: &Mutex<State>, received: &Received) -> Answer {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let path = received.path.split('?').next().unwrap_or_default();
    let header = |name: &str| received.headers.get(name).cloned().unwrap_or_default();
    // The edge in front of it shows a page to whoever does not say where they come from.
    if header("origin").is_empty() {
        return Answer::status(404);
    }
    if header("authorization") != format!("Bearer {}", state.token) {
        return Answer::json(401, json!({ "error": "invalid token" }));
    }
    let own = format!("/workspaces/{WORKSPACE}/");
    let route = path.strip_prefix(&own).unwrap_or(path).to_owned();
    let at = state.bad.iter().position(|(bad, _)| *bad == route);
    let bad = at.and_then(|at| state.bad.remove(at)).map(|(_, bad)| bad);
    match bad {
        None => state.do_it(&route, received),
        Some(Bad::Refuses(answer)) => answer,
        Some(Bad::DoesBut(answer)) => {
            state.do_it(&route, received);
            answer
        }
        Some(Bad::DoesAndDrops) => {
            state.do_it(&route, received);
            drop(state);
            std::panic::resume_unwind(Box::new(()))
        }
        Some(Bad::AnswersLate(after)) => state.do_it(&route, received).late(after),
        Some(Bad::AnswersWhen(until)) => state.do_it(&route, received).held(until),
        Some(Bad::Reorders) => {
            let mut answer = state.do_it(&route, received);
            if let Some(list) = answer.body.as_array_mut() {
                list.reverse();
            }
            answer
        }
        Some(Bad::Drops) => {
            drop(state);
            std::panic::resume_unwind(Box::new(()))
        }
    }
}
