//! A call of `codex` or `codex-reply`: hands over the work or finds it again, reports progress, asks the client's user if
//! that is possible, and returns the answer.
//!
//! The call only follows the task. If the call is cancelled or times out, the task continues; the same call with the same
//! name follows the task again.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use codex_bridge_core::event::Line;
use codex_bridge_core::request::Button;
use codex_bridge_core::task::Status;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CreateTaskResult, ErrorCode, ErrorData, InputRequiredResult,
};
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::access::{Access, Log};
use super::arguments;
use super::begin::{Begun, State, begin, resume};
use super::elicitation::{Outcome, elicit};
use super::progress::Progress;
use super::request_form::{self, AskMethod};
use super::result::{self, About};
use super::turn::{Finished, TurnRef};
use super::{tasks, tools};
use crate::amount;
use crate::failure::{Code, Failure};
use crate::view::{Event, Request, Task};

/// How long to wait before connecting to a daemon that has gone.
pub const RECONNECT_AFTER: Duration = Duration::from_millis(200);

/// After this time without progress, the client is told that the task still runs. Many clients time out on silence.
const MAX_SILENCE: Duration = Duration::from_secs(15);

/// Answers a call.
pub async fn answer(
    access: Access,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let parsed = match request.name.as_ref() {
        tools::CODEX => arguments::codex(arguments, &access),
        _ => arguments::reply(arguments),
    };
    let state = request.request_state.as_deref().map(State::read).transpose();
    let (mut arguments, state) = match (parsed, state) {
        (Ok(arguments), Ok(state)) => (arguments, state),
        (Err(failure), _) | (_, Err(failure)) => return Ok(result::refused(failure).into()),
    };
    let mut answers = request.input_responses.unwrap_or_default();
    let mut not_askable = HashSet::new();
    if !answers.is_empty() && state.as_ref().is_some_and(State::is_too_soon) {
        let request_id = |name: String| Button::named(&name).request_id.0;
        not_askable = std::mem::take(&mut answers).into_keys().map(request_id).collect();
        arguments.notes.push("an answer came faster than a person can answer, and was ignored".to_owned());
    }
    let begun = match state {
        Some(state) => resume(&access, state).await,
        None => begin(&access, &arguments).await,
    };
    let Begun { turn, task, last_event, client_request_id } = match begun {
        Ok(begun) => begun,
        Err(failure) => return Ok(result::refused(failure).into()),
    };
    if accepts_tasks(&context) {
        return Ok(CreateTaskResult::new(tasks::begun(&turn, &task, &arguments.notes)).into());
    }
    let call = Call {
        ask_method: AskMethod::of(&access, &context),
        last_event,
        progress: Progress::new(context.peer.clone(), context.meta.get_progress_token()),
        approval_wait: arguments.approval_wait,
        notes: arguments.notes,
        client_request_id,
        thread_id: task.thread_id,
        not_askable,
        access,
        turn,
        context,
    };
    call.run(answers).await
}

/// Whether the client accepts a task as the result. With an older revision it does not, whatever it declares: MCP inspector
/// 2.12 on 2025-11-25 declares the extension, but rejects such a result.
fn accepts_tasks(context: &RequestContext<RoleServer>) -> bool {
    request_form::is_modern(context)
        && context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

/// The error for a call that its client has cancelled.
pub fn cancelled() -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, "the call was cancelled; its task continues", None)
}

/// A client that follows a turn of a task.
struct Call {
    access: Access,
    context: RequestContext<RoleServer>,
    ask_method: AskMethod,
    turn: TurnRef,
    /// The last event that the client was told about.
    last_event: i64,
    progress: Progress,
    approval_wait: Duration,
    /// Which arguments and answers were not taken, and why.
    notes: Vec<String>,
    client_request_id: String,
    thread_id: Option<String>,
    /// Requests that the client's user cannot decide here, or did not.
    not_askable: HashSet<String>,
}

/// Why a call ends.
enum End {
    Finished(Finished),
    Pending(Box<Task>),
    InputRequired(Box<Task>),
}

/// The open questions to the client's user.
#[derive(Default)]
struct Questions {
    asked: FuturesUnordered<BoxFuture<'static, Outcome>>,
    /// A question is withdrawn when its sender is dropped.
    open: HashMap<String, oneshot::Sender<()>>,
}

enum Input {
    Event(Option<Event>),
    Answer(Outcome),
    WaitEnded,
    Silence,
}

impl Call {
    async fn run(mut self, answers: rmcp::model::InputResponses) -> Result<CallToolResponse, ErrorData> {
        let ct = self.context.ct.clone();
        let mut questions = Questions::default();
        let end = tokio::select! {
            end = self.listen(answers, &mut questions) => Some(end),
            () = ct.cancelled() => None,
        };
        questions.withdraw_all().await;
        let Some(end) = end else { return Err(cancelled()) };
        let about = self.about();
        Ok(match end {
            Ok(End::Finished(finished)) => about.finished(&finished).into(),
            Ok(End::Pending(task)) => about.pending(&task).into(),
            Ok(End::InputRequired(task)) => self.input_required(&task).into(),
            Err(failure) => about.failed(failure).into(),
        })
    }

    fn about(&self) -> About<'_> {
        About {
            turn: &self.turn,
            thread_id: self.thread_id.as_deref(),
            client_request_id: Some(&self.client_request_id),
            notes: &self.notes,
        }
    }

    fn input_required(&self, task: &Task) -> InputRequiredResult {
        let state = State {
            task: self.turn.name(),
            name: self.client_request_id.clone(),
            told: self.last_event,
            asked_at: amount::now_ms(),
        };
        let state = state.write();
        InputRequiredResult::new(Some(request_form::input_requests(&self.askable(task))), Some(state))
    }

    async fn listen(
        &mut self,
        answers: rmcp::model::InputResponses,
        questions: &mut Questions,
    ) -> Result<End, Failure> {
        if answers.is_empty() {
            let sentence = format!(
                "task {}; if this call is cut off, repeat it with client_request_id {:?}",
                self.turn.task_id, self.client_request_id
            );
            self.progress.say(sentence).await;
        } else {
            let undecided = tasks::decide(&self.access, &self.turn.task_id, &answers).await?;
            self.notes.extend(undecided.values().flatten().map(ToString::to_string));
            self.not_askable = undecided.into_keys().collect();
        }
        loop {
            match self.follow(questions).await {
                // The daemon crashed. The next one has the same task and log.
                Err(failure) if failure.code == Code::DaemonGone => sleep(RECONNECT_AFTER).await,
                outcome => return outcome,
            }
        }
    }

    /// Follows the log until the call ends.
    async fn follow(&mut self, questions: &mut Questions) -> Result<End, Failure> {
        let mut log = self.access.follow(&self.turn.task_id, self.last_event).await?;
        let mut wait_until = None;
        if let Some(end) = self.check_requests(questions, &mut wait_until).await? {
            return Ok(end);
        }
        loop {
            match next(&mut log, questions, wait_until).await? {
                Input::Event(Some(event)) => {
                    if let Some(end) = self.handle(&event, questions, &mut wait_until).await? {
                        return Ok(end);
                    }
                }
                Input::Event(None) => {
                    let gone = || Failure::new(Code::DaemonGone, "the log ended before the task");
                    return self.finished().await?.ok_or_else(gone);
                }
                Input::Answer(outcome) => {
                    questions.open.remove(&outcome.request_id);
                    if let Some(why) = outcome.undecided {
                        self.progress.say(why.clone()).await;
                        self.notes.push(why);
                        self.not_askable.insert(outcome.request_id);
                        if let Some(end) = self.check_requests(questions, &mut wait_until).await? {
                            return Ok(end);
                        }
                    }
                }
                Input::Silence => self.progress.say("still working").await,
                Input::WaitEnded => {
                    let task = self.access.show(&self.turn.task_id).await?;
                    if !task.pending_requests.is_empty() {
                        return Ok(End::Pending(Box::new(task)));
                    }
                    wait_until = None;
                }
            }
        }
    }

    async fn handle(
        &mut self,
        event: &Event,
        questions: &mut Questions,
        wait_until: &mut Option<Instant>,
    ) -> Result<Option<End>, Failure> {
        self.progress.event(event).await;
        self.last_event = event.seq.unwrap_or(self.last_event);
        match event.line() {
            Some(Line::Request(_) | Line::RequestClosed(_)) => {
                self.check_requests(questions, wait_until).await
            }
            // A lost task may resume at once, and a task that waits for a login or a limit resumes by itself. The end of the
            // log shows whether either has finished.
            Some(Line::State(state)) if state.status != Status::Lost && !state.goes_on => {
                self.finished().await
            }
            _ => Ok(None),
        }
    }

    /// The result of the turn, if it has finished.
    async fn finished(&mut self) -> Result<Option<End>, Failure> {
        let (task, state) = tasks::read(&self.access, &self.turn).await?;
        self.thread_id = task.thread_id;
        Ok(state.finished.map(End::Finished))
    }

    /// Reads the open requests: asks the new ones, and withdraws the questions of closed ones.
    async fn check_requests(
        &mut self,
        questions: &mut Questions,
        wait_until: &mut Option<Instant>,
    ) -> Result<Option<End>, Failure> {
        let task = self.access.show(&self.turn.task_id).await?;
        questions.open.retain(|id, _| task.pending_requests.iter().any(|open| open.request_id == *id));
        let askable = self.askable(&task);
        if self.ask_method == AskMethod::InputRequired && !askable.is_empty() {
            return Ok(Some(End::InputRequired(Box::new(task))));
        }
        for request in &askable {
            self.ask(request, questions);
        }
        let is_for_others =
            |open: &&Request| !askable.iter().any(|asked| asked.request_id == open.request_id);
        let for_others: Vec<&Request> = task.pending_requests.iter().filter(is_for_others).collect();
        if for_others.is_empty() {
            *wait_until = None;
        } else if wait_until.is_none() {
            for request in for_others {
                self.progress.say(request_form::how_to_answer(request)).await;
            }
            *wait_until = Some(Instant::now() + self.approval_wait);
        }
        Ok(None)
    }

    /// The open requests that the client's user can be asked.
    fn askable(&self, task: &Task) -> Vec<Request> {
        if self.ask_method == AskMethod::Never {
            return Vec::new();
        }
        let is_askable = |request: &&Request| {
            !self.not_askable.contains(&request.request_id) && request_form::form(request).is_some()
        };
        task.pending_requests.iter().filter(is_askable).cloned().collect()
    }

    fn ask(&self, request: &Request, questions: &mut Questions) {
        if questions.open.contains_key(&request.request_id) {
            return;
        }
        let (open, withdrawn) = oneshot::channel();
        questions.open.insert(request.request_id.clone(), open);
        let asked = elicit(self.context.peer.clone(), self.access.clone(), request.clone(), withdrawn);
        questions.asked.push(asked.boxed());
    }
}

async fn next(
    log: &mut Log,
    questions: &mut Questions,
    wait_until: Option<Instant>,
) -> Result<Input, Failure> {
    let waited = async {
        match wait_until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        Some(outcome) = questions.asked.next() => Ok(Input::Answer(outcome)),
        event = log.next() => event.map(Input::Event),
        () = waited => Ok(Input::WaitEnded),
        () = sleep(MAX_SILENCE) => Ok(Input::Silence),
    }
}

impl Questions {
    /// Withdraws all questions.
    async fn withdraw_all(&mut self) {
        self.open.clear();
        while self.asked.next().await.is_some() {}
    }
}
