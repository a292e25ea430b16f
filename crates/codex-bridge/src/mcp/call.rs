//! A call of `codex` or `codex-reply`: begins the work or finds it again, tells what happens, asks the client's user
//! where that is possible, and gives the answer.
//!
//! The call is a listener. When it is cancelled, times out or dies, the task goes on; the same call again, under the
//! same name, listens again.

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
use super::begin::{Begun, State, begin, take_up};
use super::elicitation::{Outcome, elicit};
use super::progress::Progress;
use super::request_form::{self, Manner};
use super::result::{self, About};
use super::turn::{Finished, TurnRef};
use super::{tasks, tools};
use crate::amount;
use crate::failure::{Code, Failure};
use crate::view::{Event, Request, Task};

/// Before a daemon that has gone is looked for again.
pub const RECONNECT_AFTER: Duration = Duration::from_millis(200);

/// After so long without anything to tell, clients are told that it goes on: many give up on silence.
const SILENCE: Duration = Duration::from_secs(15);

/// Answers a call.
pub async fn answer(
    access: Access,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let asked = match request.name.as_ref() {
        tools::CODEX => arguments::codex(arguments, &access),
        _ => arguments::reply(arguments),
    };
    let state = request.request_state.as_deref().map(State::read).transpose();
    let (mut asked, state) = match (asked, state) {
        (Ok(asked), Ok(state)) => (asked, state),
        (Err(failure), _) | (_, Err(failure)) => return Ok(result::refused(failure).into()),
    };
    let mut answers = request.input_responses.unwrap_or_default();
    let mut unasked = HashSet::new();
    if !answers.is_empty() && state.as_ref().is_some_and(State::is_too_soon) {
        let of = |name: String| Button::named(&name).request_id.0;
        unasked = std::mem::take(&mut answers).into_keys().map(of).collect();
        asked.notes.push("an answer that came at once was not a person's, and decided nothing".to_owned());
    }
    let begun = match state {
        Some(state) => take_up(&access, state).await,
        None => begin(&access, &asked).await,
    };
    let Begun { turn, task, told, client_request_id } = match begun {
        Ok(begun) => begun,
        Err(failure) => return Ok(result::refused(failure).into()),
    };
    if takes_tasks(&context) {
        return Ok(CreateTaskResult::new(tasks::begun(&turn, &task, &asked.notes)).into());
    }
    let call = Call {
        manner: Manner::of(&access, &context),
        told,
        progress: Progress::new(context.peer.clone(), context.meta.get_progress_token()),
        approval_wait: asked.approval_wait,
        notes: asked.notes,
        client_request_id,
        thread_id: task.thread_id,
        unasked,
        access,
        turn,
        context,
    };
    call.run(answers).await
}

/// Whether the client takes a task for an answer. One that speaks an older revision does not, whatever it declares (MCP
/// inspector 2.12 on 2025-11-25 declares the extension and finds such an answer broken).
fn takes_tasks(context: &RequestContext<RoleServer>) -> bool {
    request_form::is_modern(context)
        && context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

/// A call that its client has given up.
pub fn cancelled() -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, "the call was cancelled; what it began goes on", None)
}

/// A client listens to a turn of a task.
struct Call {
    access: Access,
    context: RequestContext<RoleServer>,
    manner: Manner,
    turn: TurnRef,
    /// The last line of the log that was told.
    told: i64,
    progress: Progress,
    approval_wait: Duration,
    notes: Vec<String>,
    client_request_id: String,
    thread_id: Option<String>,
    /// Requests that this client's user cannot or would not answer here.
    unasked: HashSet<String>,
}

/// Why nobody listens any more.
enum Left {
    Finished(Finished),
    Pending(Box<Task>),
    InputRequired(Box<Task>),
}

/// Questions to the client's user that are open, and the means to take them back.
#[derive(Default)]
struct Questions {
    asked: FuturesUnordered<BoxFuture<'static, Outcome>>,
    taken_back: HashMap<String, oneshot::Sender<()>>,
}

enum Input {
    Event(Option<Event>),
    Answer(Outcome),
    WaitedEnough,
    Silence,
}

impl Call {
    async fn run(mut self, answers: rmcp::model::InputResponses) -> Result<CallToolResponse, ErrorData> {
        let ct = self.context.ct.clone();
        let mut questions = Questions::default();
        let told = tokio::select! {
            told = self.listen(answers, &mut questions) => Some(told),
            () = ct.cancelled() => None,
        };
        // Whatever ended the call: nobody waits for an answer any more.
        questions.take_all_back().await;
        let Some(told) = told else { return Err(cancelled()) };
        let about = self.about();
        Ok(match told {
            Ok(Left::Finished(finished)) => about.finished(&finished).into(),
            Ok(Left::Pending(task)) => about.pending(&task).into(),
            Ok(Left::InputRequired(task)) => self.input_required(&task).into(),
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
            told: self.told,
            asked_at: amount::now_ms(),
        };
        let state = state.write();
        InputRequiredResult::new(Some(request_form::input_requests(&self.askable(task))), Some(state))
    }

    async fn listen(
        &mut self,
        answers: rmcp::model::InputResponses,
        questions: &mut Questions,
    ) -> Result<Left, Failure> {
        if answers.is_empty() {
            let begins = format!(
                "task {}; if this call is cut off, the same one with client_request_id {:?} finds it",
                self.turn.task_id, self.client_request_id
            );
            self.progress.say(begins).await;
        } else {
            self.unasked = tasks::decide(&self.access, &self.turn.task_id, &answers).await?;
        }
        loop {
            match self.follow(questions).await {
                // It crashed: the task is where it was, and so is its log.
                Err(failure) if failure.code == Code::DaemonGone => sleep(RECONNECT_AFTER).await,
                outcome => return outcome,
            }
        }
    }

    /// Follows the log until there is something to give back.
    async fn follow(&mut self, questions: &mut Questions) -> Result<Left, Failure> {
        let mut log = self.access.follow(&self.turn.task_id, self.told).await?;
        let mut waits_until = None;
        if let Some(left) = self.look(questions, &mut waits_until).await? {
            return Ok(left);
        }
        loop {
            match next(&mut log, questions, waits_until).await? {
                Input::Event(Some(event)) => {
                    if let Some(left) = self.take(&event, questions, &mut waits_until).await? {
                        return Ok(left);
                    }
                }
                Input::Event(None) => {
                    let gone = || Failure::new(Code::DaemonGone, "the log ended before the task");
                    return self.finished().await?.ok_or_else(gone);
                }
                Input::Answer(outcome) => {
                    questions.taken_back.remove(&outcome.request_id);
                    if let Some(why) = outcome.undecided {
                        self.progress.say(why).await;
                        self.unasked.insert(outcome.request_id);
                        if let Some(left) = self.look(questions, &mut waits_until).await? {
                            return Ok(left);
                        }
                    }
                }
                Input::Silence => self.progress.say("still at it").await,
                Input::WaitedEnough => {
                    let task = self.access.show(&self.turn.task_id).await?;
                    if !task.pending_requests.is_empty() {
                        return Ok(Left::Pending(Box::new(task)));
                    }
                    waits_until = None;
                }
            }
        }
    }

    async fn take(
        &mut self,
        event: &Event,
        questions: &mut Questions,
        waits_until: &mut Option<Instant>,
    ) -> Result<Option<Left>, Failure> {
        self.progress.tell(event).await;
        self.told = event.seq.unwrap_or(self.told);
        match event.line() {
            Some(Line::Request(_) | Line::RequestClosed(_)) => self.look(questions, waits_until).await,
            // A lost task may go on by itself in the next moment, and one that waits for a login or a limit does: both are
            // known at the end of the log.
            Some(Line::State(state)) if state.status != Status::Lost && !state.goes_on => {
                self.finished().await
            }
            _ => Ok(None),
        }
    }

    /// Whether the turn has finished.
    async fn finished(&mut self) -> Result<Option<Left>, Failure> {
        let (task, standing) = tasks::look(&self.access, &self.turn).await?;
        self.thread_id = task.thread_id;
        Ok(standing.finished.map(Left::Finished))
    }

    /// Looks at what is open: asks what was not asked yet, takes back what is answered.
    async fn look(
        &mut self,
        questions: &mut Questions,
        waits_until: &mut Option<Instant>,
    ) -> Result<Option<Left>, Failure> {
        let task = self.access.show(&self.turn.task_id).await?;
        questions.taken_back.retain(|id, _| task.pending_requests.iter().any(|open| open.request_id == *id));
        let askable = self.askable(&task);
        if self.manner == Manner::InputRequired && !askable.is_empty() {
            return Ok(Some(Left::InputRequired(Box::new(task))));
        }
        for request in &askable {
            self.ask(request, questions);
        }
        let is_left = |open: &&Request| !askable.iter().any(|asked| asked.request_id == open.request_id);
        let left: Vec<&Request> = task.pending_requests.iter().filter(is_left).collect();
        if left.is_empty() {
            *waits_until = None;
        } else if waits_until.is_none() {
            for request in left {
                self.progress.say(request_form::how_to_answer(request)).await;
            }
            *waits_until = Some(Instant::now() + self.approval_wait);
        }
        Ok(None)
    }

    /// What of the open requests this client's user can be asked.
    fn askable(&self, task: &Task) -> Vec<Request> {
        if self.manner == Manner::Never {
            return Vec::new();
        }
        let can_be = |request: &&Request| {
            !self.unasked.contains(&request.request_id) && request_form::form(request).is_some()
        };
        task.pending_requests.iter().filter(can_be).cloned().collect()
    }

    fn ask(&self, request: &Request, questions: &mut Questions) {
        if questions.taken_back.contains_key(&request.request_id) {
            return;
        }
        let (stop, taken_back) = oneshot::channel();
        questions.taken_back.insert(request.request_id.clone(), stop);
        let asked = elicit(self.context.peer.clone(), self.access.clone(), request.clone(), taken_back);
        questions.asked.push(asked.boxed());
    }
}

async fn next(
    log: &mut Log,
    questions: &mut Questions,
    waits_until: Option<Instant>,
) -> Result<Input, Failure> {
    let waited = async {
        match waits_until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        Some(outcome) = questions.asked.next() => Ok(Input::Answer(outcome)),
        event = log.next() => event.map(Input::Event),
        () = waited => Ok(Input::WaitedEnough),
        () = sleep(SILENCE) => Ok(Input::Silence),
    }
}

impl Questions {
    /// Nobody needs an answer any more.
    async fn take_all_back(&mut self) {
        self.taken_back.clear();
        while self.asked.next().await.is_some() {}
    }
}
