//! What the running model remembers: registered scenarios, requests, attempts, stalls.
//!
//! One watched state; everybody who waits, waits for a change of it. Knows nothing of HTTP.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::request::ReceivedRequest;
use crate::scenario::{COMPACTION_PROMPT, REVIEW_PROMPT, Response, Scenario, Step};

/// Around the name of a registered scenario in a prompt.
const MARKER_START: &str = "[scenario:";
const MARKER_END: char = ']';

/// The state that the server's tasks and the handle share.
pub(crate) struct Stage {
    state: watch::Sender<State>,
    serial: AtomicU64,
}

#[derive(Default)]
struct State {
    scenarios: HashMap<String, Arc<Scenario>>,
    by_fragment: Vec<(String, Arc<Scenario>)>,
    requests: Vec<Arc<ReceivedRequest>>,
    attempts: HashMap<AttemptKey, u32>,
    stalled: HashSet<String>,
    released: HashSet<String>,
    closed: bool,
}

/// What makes two requests tries of the same thing.
#[derive(PartialEq, Eq, Hash)]
struct AttemptKey {
    turn_id: Option<String>,
    prompt: String,
    round: usize,
}

/// The model stopped while an answer was stalled.
pub(crate) struct Stopped;

/// The choice for one request.
pub(crate) struct Cue {
    pub(crate) response: Response,
    pub(crate) round: usize,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { state: watch::Sender::new(State::default()), serial: AtomicU64::new(1) }
    }

    pub(crate) fn register(&self, key: String, scenario: Scenario) {
        self.state.send_modify(|state| {
            state.scenarios.insert(key, Arc::new(scenario));
        });
    }

    pub(crate) fn register_fragment(&self, fragment: String, scenario: Scenario) {
        self.state.send_modify(|state| state.by_fragment.push((fragment, Arc::new(scenario))));
    }

    /// Records a request; its index is given here.
    pub(crate) fn record(&self, request: ReceivedRequest) -> Arc<ReceivedRequest> {
        let mut request = Arc::new(request);
        self.state.send_modify(|state| {
            if let Some(request) = Arc::get_mut(&mut request) {
                request.index = state.requests.len();
            }
            state.requests.push(Arc::clone(&request));
        });
        request
    }

    /// Chooses the response to a request by its prompt, by the tool outputs in it and by its earlier tries.
    pub(crate) fn cue(&self, request: &ReceivedRequest) -> Cue {
        let prompt = request.prompt().unwrap_or_default();
        let round = request.round();
        let mut attempt = 0;
        self.state.send_modify(|state| {
            let key =
                AttemptKey { turn_id: request.turn_id().map(str::to_owned), prompt: prompt.clone(), round };
            let seen = state.attempts.entry(key).or_default();
            attempt = *seen;
            *seen += 1;
        });
        let response = match self.scenario_for(&prompt) {
            Ok(scenario) => scenario.pick(round, attempt).cloned().unwrap_or_else(closing_words),
            Err(reason) => bad_script(&reason),
        };
        Cue { response, round }
    }

    pub(crate) fn requests(&self) -> Vec<Arc<ReceivedRequest>> {
        self.state.borrow().requests.clone()
    }

    /// Waits until `found` finds a request.
    pub(crate) async fn wait_for_request(
        &self,
        mut found: impl FnMut(&ReceivedRequest) -> bool,
    ) -> Arc<ReceivedRequest> {
        let mut watched = self.state.subscribe();
        let mut seen = 0;
        loop {
            // Copied out, so that `found` may look at the model itself.
            let fresh = watched.borrow_and_update().requests[seen..].to_vec();
            seen += fresh.len();
            if let Some(request) = fresh.into_iter().find(|request| found(request)) {
                return request;
            }
            // The sender is ours, so the channel cannot close while we wait.
            let _ = watched.changed().await;
        }
    }

    /// Waits at a stall until it is released.
    pub(crate) async fn stall(&self, name: &str) -> Result<(), Stopped> {
        self.state.send_modify(|state| {
            state.stalled.insert(name.to_owned());
        });
        self.wait_until(|state| state.closed || state.released.contains(name)).await;
        if self.state.borrow().released.contains(name) { Ok(()) } else { Err(Stopped) }
    }

    /// Waits until a response has come to the stall of this name.
    pub(crate) async fn wait_for_stall(&self, name: &str) {
        self.wait_until(|state| state.stalled.contains(name)).await;
    }

    pub(crate) fn release(&self, name: &str) {
        self.state.send_modify(|state| {
            state.released.insert(name.to_owned());
        });
    }

    /// Ends all stalls: the model stops.
    pub(crate) fn close(&self) {
        self.state.send_modify(|state| state.closed = true);
    }

    /// Waits until the model is told to stop.
    pub(crate) async fn closed(&self) {
        self.wait_until(|state| state.closed).await;
    }

    /// A number for an id, never given twice.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    async fn wait_until(&self, mut holds: impl FnMut(&State) -> bool) {
        let mut watched = self.state.subscribe();
        // The sender is ours, so the channel cannot close while we wait.
        let _ = watched.wait_for(|state| holds(state)).await;
    }

    fn scenario_for(&self, prompt: &str) -> Result<Arc<Scenario>, String> {
        let state = self.state.borrow();
        if let Some(scenario) = state.scenario_of_text(prompt) {
            return Ok(scenario);
        }
        // Before the markers: such a prompt can quote another one, marker and all.
        if let Some(scenario) = of_codex_itself(prompt) {
            return Ok(Arc::new(scenario));
        }
        if let Some(name) = marked_name(prompt) {
            let known = state.scenarios.get(name).map(Arc::clone);
            return known.ok_or_else(|| format!("no scenario has the name {name}"));
        }
        let inline = Scenario::from_prompt(prompt).map_err(|error| error.to_string())?;
        Ok(Arc::new(inline.unwrap_or_else(|| echo(prompt))))
    }
}

impl State {
    fn scenario_of_text(&self, prompt: &str) -> Option<Arc<Scenario>> {
        let by_fragment = || {
            let mut known = self.by_fragment.iter();
            known.find(|(fragment, _)| prompt.contains(fragment.as_str())).map(|(_, scenario)| scenario)
        };
        self.scenarios.get(prompt).or_else(by_fragment).map(Arc::clone)
    }
}

/// Answers to prompts that Codex writes itself.
fn of_codex_itself(prompt: &str) -> Option<Scenario> {
    if prompt.starts_with(REVIEW_PROMPT) {
        return Some(Scenario::new().say(r#"{"outcome": "deny", "rationale": "no verdict was scripted"}"#));
    }
    let compacts = prompt.starts_with(COMPACTION_PROMPT);
    compacts.then(|| Scenario::new().say("A summary of the work so far."))
}

fn marked_name(prompt: &str) -> Option<&str> {
    let (_, rest) = prompt.split_once(MARKER_START)?;
    rest.split_once(MARKER_END).map(|(name, _)| name)
}

/// The scenario of a prompt that nobody scripted.
fn echo(prompt: &str) -> Scenario {
    Scenario::new().say(format!("You said: {prompt}"))
}

/// What the model says when its scenario has no response left.
fn closing_words() -> Response {
    let step = Step::Say { chunks: vec!["The script ends here.".to_owned()], phase: None };
    Response { steps: vec![step], ..Response::default() }
}

fn bad_script(reason: &str) -> Response {
    Response::http(400, serde_json::json!({"error": {"type": "bad_script", "message": reason}}))
}
