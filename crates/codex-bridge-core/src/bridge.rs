//! The one handle that every door uses: hand over work, look at it, answer it, stop it.
//!
//! Rules: intent is recorded before it is acted on; nothing is told before it is committed; a task that runs is owned
//! by its runner, a task that does not is changed only here, one change at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use codex_session::SteerOutcome;
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::decisions::Decisions;
use crate::event::{Event, NewEvent, Seq};
use crate::failpoint;
use crate::hosts::Hosts;
use crate::queue::{Queue, Ticket};
use crate::request::{RequestRecord, RequestState};
use crate::runner::{self, Runner};
use crate::seal;
use crate::store::{self, Committed, RequestFilter, Store, TaskFilter, Write};
use crate::task::{
    Limits, Notification, Settings, Status, Task, TaskId, TimeMs, TurnProgress, TurnRecord, Used,
};

mod answering;
mod forking;
mod recovery;
mod releasing;
mod telling;
mod upkeep;

pub use answering::{DecisionOutcome, DecisionReport};
pub use telling::{Delivery, Notice, Telling};

/// News that a slow listener may be behind before it misses some.
const NEWS: usize = 8192;
/// How much of a prompt is kept for people.
const SUMMARY_CHARS: usize = 200;

/// The one handle that every door uses. Cheap to clone.
#[derive(Clone)]
pub struct Bridge {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: seal::Key,
    pub(crate) hosts: Hosts,
    pub(crate) decisions: Decisions,
    queue: Mutex<Queue>,
    runners: Mutex<HashMap<TaskId, mpsc::Sender<runner::Command>>>,
    news: broadcast::Sender<News>,
    /// The tasks of ours that run runners.
    tasks: Spawned,
    /// Held while a task that does not run is changed, and while a decision is recorded.
    changing: tokio::sync::Mutex<()>,
}

/// Something that is durable now, or text that is being written.
#[derive(Debug, Clone)]
pub enum News {
    /// A task changed.
    Task(TaskId),
    /// A line was appended to a task's log.
    Event(Event),
    /// A piece of text of a task, as it is written. Never stored.
    Live {
        /// Whose.
        task_id: TaskId,
        /// `text`, `reasoning` or `output`.
        kind: &'static str,
        /// The piece, redacted.
        text: String,
    },
}

/// Work that is handed over.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// What to do.
    pub prompt: String,
    /// How Codex runs it.
    pub settings: Settings,
    /// How much it may use.
    pub limits: Limits,
    /// The caller's own name for this request.
    pub client_request_id: Option<String>,
    /// Who wants to be told.
    pub notify_target: Option<String>,
}

/// A task with what is open on it.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    /// The task, its status as people see it.
    pub task: Task,
    /// What it waits for, the oldest first.
    pub open_requests: Vec<RequestRecord>,
}

/// Why the bridge did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such task.
    #[error("no task {0}")]
    UnknownTask(String),
    /// Several tasks begin so.
    #[error("several tasks begin with {0}: write more of the id")]
    AmbiguousTask(String),
    /// No such request.
    #[error("no request {0}")]
    UnknownRequest(String),
    /// The task is in the wrong state for it.
    #[error("task {task_id} is {status}: {message}")]
    WrongState {
        /// Which.
        task_id: TaskId,
        /// How it stands.
        status: Status,
        /// What does not go.
        message: &'static str,
    },
    /// The caller asks for something that cannot be.
    #[error("{0}")]
    Refused(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Hosts cannot be kept.
    #[error("hosts: {0}")]
    Hosts(String),
}

impl Bridge {
    /// Opens the bridge: takes over the hosts that live, and sets right every task that was under way.
    pub async fn open(config: Config, store: Arc<dyn Store>, key: seal::Key) -> Result<Self, Error> {
        let (hosts, changes) =
            Hosts::attach(&config).await.map_err(|error| Error::Hosts(error.to_string()))?;
        let (news, _) = broadcast::channel(NEWS);
        let inner = Inner {
            queue: Mutex::new(Queue::new(config.max_running)),
            config,
            store,
            key,
            hosts,
            decisions: Decisions::default(),
            runners: Mutex::default(),
            news,
            tasks: Spawned::default(),
            changing: tokio::sync::Mutex::default(),
        };
        let bridge = Self { inner: Arc::new(inner) };
        bridge.recover(&changes).await?;
        bridge.inner.tasks.spawn(upkeep::run(Arc::downgrade(&bridge.inner)));
        Ok(bridge)
    }

    /// Takes work. It is durable when this returns; the same `client_request_id` gives back the same task.
    pub async fn start(&self, new: NewTask) -> Result<TaskView, Error> {
        let inner = &self.inner;
        let _changing = inner.changing.lock().await;
        if let Some(task) = self.started_by(new.client_request_id.as_ref()).await? {
            return self.view(task).await;
        }
        check_prompt(&new.prompt)?;
        let now = now_ms();
        let task = inner.new_task(&new, now);
        let turn = inner.new_turn(&task.id, 1, &new.prompt, now)?;
        failpoint::hit("start.before_record");
        let batch = vec![
            Write::AddTask(Box::new(task.clone())),
            Write::SaveTurn(Box::new(turn)),
            state_event(&task, now),
        ];
        inner.commit(batch).await?;
        failpoint::hit("start.recorded");
        inner.line_up(&task);
        inner.begin_next();
        self.view(task).await
    }

    async fn started_by(&self, client_request_id: Option<&String>) -> Result<Option<Task>, Error> {
        let Some(id) = client_request_id else { return Ok(None) };
        let filter =
            TaskFilter { client_request_id: Some(id.clone()), limit: Some(1), ..TaskFilter::default() };
        Ok(self.inner.store.tasks(&filter).await?.into_iter().next())
    }

    /// Gives a task at rest another turn.
    pub async fn continue_task(&self, id: &str, prompt: &str) -> Result<TaskView, Error> {
        check_prompt(prompt)?;
        let inner = &self.inner;
        let _changing = inner.changing.lock().await;
        let mut task = self.find(id).await?;
        if !task.status.is_at_rest() {
            let message = "it is still under way; steer it, or wait for its end";
            return Err(Error::WrongState { task_id: task.id, status: task.status, message });
        }
        inner.requeue(&mut task, prompt).await?;
        self.view(task).await
    }

    /// Adds to the running turn.
    pub async fn steer(&self, id: &str, text: &str) -> Result<SteerOutcome, Error> {
        check_prompt(text)?;
        let task = self.find(id).await?;
        let wrong = |message| Error::WrongState { task_id: task.id.clone(), status: task.status, message };
        let runner = self.inner.runner(&task.id).ok_or_else(|| {
            let queued = task.status == Status::Queued;
            wrong(if queued { "it has not begun" } else { "no turn runs; continue it instead" })
        })?;
        let (reply, outcome) = oneshot::channel();
        let command = runner::Command::Steer { text: text.to_owned(), reply };
        runner.send(command).await.map_err(|_| wrong("its turn has just ended"))?;
        Ok(outcome.await.unwrap_or(SteerOutcome::NoActiveTurn))
    }

    /// Stops a task: its turn if one runs, its wait if it is queued. Returns when Codex has confirmed it.
    pub async fn interrupt(&self, id: &str) -> Result<TaskView, Error> {
        let inner = &self.inner;
        let task = self.find(id).await?;
        if task.status == Status::Queued && self.cancel_queued(&task.id).await? {
            return self.view(self.find(id).await?).await;
        }
        let Some(runner) = inner.runner(&task.id) else {
            let message = "nothing runs that could be stopped";
            return Err(Error::WrongState { task_id: task.id, status: task.status, message });
        };
        let (reply, done) = oneshot::channel();
        if runner.send(runner::Command::Interrupt { reply }).await.is_ok() {
            // Answered when the turn has ended, whichever way.
            let _ = done.await;
        }
        self.view(self.find(task.id.as_str()).await?).await
    }

    async fn cancel_queued(&self, id: &TaskId) -> Result<bool, Error> {
        let inner = &self.inner;
        let _changing = inner.changing.lock().await;
        let mut task = self.find(id.as_str()).await?;
        if task.status != Status::Queued || inner.runner(id).is_some() {
            return Ok(false);
        }
        inner.queue().leave(id);
        task.status = Status::Cancelled;
        task.reason = Some("cancelled before it began".to_owned());
        inner.save_state(&mut task).await?;
        Ok(true)
    }

    /// A task by its id or a unique beginning of it.
    pub async fn find(&self, id: &str) -> Result<Task, Error> {
        let id = id.trim();
        if let Some(task) = self.inner.store.task(&TaskId(id.to_owned())).await? {
            return Ok(task);
        }
        let prefix = if id.starts_with("codex-") { id.to_owned() } else { format!("codex-{id}") };
        let filter = TaskFilter { id_prefix: Some(prefix), limit: Some(2), ..TaskFilter::default() };
        let mut found = self.inner.store.tasks(&filter).await?;
        match found.len() {
            1 if !id.is_empty() => Ok(found.remove(0)),
            0 | 1 => Err(Error::UnknownTask(id.to_owned())),
            _ => Err(Error::AmbiguousTask(id.to_owned())),
        }
    }

    /// A task with what is open on it.
    pub async fn show(&self, id: &str) -> Result<TaskView, Error> {
        let task = self.find(id).await?;
        self.view(task).await
    }

    /// Tasks, the newest first. The two waiting states may be asked for as any other.
    pub async fn list(&self, filter: &TaskFilter) -> Result<Vec<TaskView>, Error> {
        let mut open: HashMap<TaskId, Vec<RequestRecord>> = HashMap::new();
        for request in self.open_requests(None).await? {
            open.entry(request.task_id.clone()).or_default().push(request);
        }
        let tasks = self.inner.store.tasks(filter).await?;
        Ok(tasks
            .into_iter()
            .map(|task| with_requests(open.remove(&task.id).unwrap_or_default(), task))
            .collect())
    }

    async fn view(&self, task: Task) -> Result<TaskView, Error> {
        let open = self.open_requests(Some(task.id.clone())).await?;
        Ok(with_requests(open, task))
    }

    /// What waits for people, the oldest first.
    pub async fn open_requests(&self, task_id: Option<TaskId>) -> Result<Vec<RequestRecord>, Error> {
        let filter = RequestFilter { task_id, states: vec![RequestState::Open], ..RequestFilter::default() };
        Ok(self.inner.store.requests(&filter).await?)
    }

    /// A task's log after a number.
    pub async fn events(&self, id: &TaskId, after: Seq, limit: u32) -> Result<Vec<Event>, Error> {
        Ok(self.inner.store.events(id, after, limit).await?)
    }

    /// The end of a task's log.
    pub async fn last_events(&self, id: &TaskId, limit: u32) -> Result<Vec<Event>, Error> {
        Ok(self.inner.store.last_events(id, limit).await?)
    }

    /// What happens from now on.
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.inner.news.subscribe()
    }

    /// Waits until a task is at rest, or needs an answer, or the time is up.
    pub async fn wait(&self, id: &str, limit: Duration) -> Result<TaskView, Error> {
        let mut news = self.news();
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let view = self.show(id).await?;
            if view.task.status.is_at_rest() || !view.open_requests.is_empty() {
                return Ok(view);
            }
            let changed = async {
                loop {
                    match news.recv().await {
                        Ok(News::Task(task_id)) if task_id == view.task.id => break,
                        Ok(_) => {}
                        // Too much happened to follow: look again.
                        Err(broadcast::error::RecvError::Lagged(_)) => break,
                        Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return self.show(id).await;
            }
        }
    }

    /// The store, for checks and backups.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The hosts that run.
    pub async fn hosts(&self) -> Vec<codex_wire::host::Host> {
        self.inner.hosts.all().await
    }

    /// Lets go of everything as a crash would, except that it is tidy: turns go on with their hosts, nothing more is
    /// recorded, and the next bridge takes it all up.
    pub async fn abandon(self) {
        self.inner.tasks.abort_all().await;
    }

    /// Ends every host, and what runs on them. What could not be ended is named.
    pub async fn stop_hosts(&self) -> Vec<String> {
        self.inner.hosts.stop_all().await
    }
}

fn check_prompt(prompt: &str) -> Result<(), Error> {
    if prompt.trim().is_empty() { Err(Error::Refused("the prompt is empty".to_owned())) } else { Ok(()) }
}

/// The status as people see it: waiting follows from what is open.
fn with_requests(open_requests: Vec<RequestRecord>, mut task: Task) -> TaskView {
    if matches!(task.status, Status::Working | Status::Starting) && !open_requests.is_empty() {
        let only_questions = open_requests.iter().all(RequestRecord::is_question);
        task.status = if only_questions { Status::WaitingForUserInput } else { Status::WaitingForApproval };
    }
    TaskView { task, open_requests }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runners(&self) -> MutexGuard<'_, HashMap<TaskId, mpsc::Sender<runner::Command>>> {
        self.runners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runner(&self, id: &TaskId) -> Option<mpsc::Sender<runner::Command>> {
        self.runners().get(id).cloned()
    }

    /// Commits, then tells.
    pub(crate) async fn commit(&self, batch: Vec<Write>) -> Result<Committed, store::Error> {
        let changed: Vec<TaskId> = batch.iter().filter_map(changed_task).collect();
        let committed = self.store.commit(batch).await?;
        // Nobody may be listening.
        for event in &committed.events {
            let _ = self.news.send(News::Event(event.clone()));
        }
        for task_id in changed {
            let _ = self.news.send(News::Task(task_id));
        }
        Ok(committed)
    }

    pub(crate) fn tell_live(&self, task_id: &TaskId, kind: &'static str, text: String) {
        let _ = self.news.send(News::Live { task_id: task_id.clone(), kind, text });
    }

    /// Saves a task with an event that tells its state.
    pub(crate) async fn save_state(&self, task: &mut Task) -> Result<(), store::Error> {
        let now = now_ms();
        task.updated_at = now;
        if task.status.is_at_rest() {
            task.completed_at = Some(now);
        }
        self.commit(vec![Write::SaveTask(Box::new(task.clone())), state_event(task, now)]).await?;
        Ok(())
    }

    fn new_task(&self, new: &NewTask, now: TimeMs) -> Task {
        Task {
            id: new_task_id(),
            client_request_id: new.client_request_id.clone(),
            status: Status::Queued,
            reason: None,
            prompt_summary: self.summary(&new.prompt),
            settings: new.settings.clone(),
            parked: None,
            limits: new.limits,
            used: Used::default(),
            thread_id: None,
            turn_id: None,
            epoch: None,
            host: None,
            final_text: None,
            error: None,
            usage: None,
            notify_target: new.notify_target.clone(),
            notification: untold(new.notify_target.as_ref()),
            created_at: now,
            updated_at: now,
            completed_at: None,
        }
    }

    fn new_turn(
        &self,
        task_id: &TaskId,
        number: u32,
        prompt: &str,
        now: TimeMs,
    ) -> Result<TurnRecord, Error> {
        let sealed = self
            .key
            .seal(prompt.as_bytes(), task_id.as_str())
            .map_err(|error| Error::Refused(error.to_string()))?;
        Ok(TurnRecord {
            task_id: task_id.clone(),
            number,
            client_id: format!("{task_id}/{number}/{}", random_hex(16)),
            progress: TurnProgress::Recorded,
            sealed_prompt: Some(sealed),
            prompt_summary: self.summary(prompt),
            turn_id: None,
            created_at: now,
            ended_at: None,
        })
    }

    fn summary(&self, prompt: &str) -> String {
        // Redacted before it is cut: half a secret is still one.
        self.config.redactor.redact(prompt).chars().take(SUMMARY_CHARS).collect()
    }

    /// Lines a task at rest up for another turn.
    pub(crate) async fn requeue(self: &Arc<Self>, task: &mut Task, prompt: &str) -> Result<(), Error> {
        let now = now_ms();
        let turn = self.new_turn(&task.id, task.used.turns + 1, prompt, now)?;
        task.status = Status::Queued;
        (task.reason, task.parked, task.error, task.completed_at) = (None, None, None, None);
        task.notification = untold(task.notify_target.as_ref());
        task.updated_at = now;
        let batch = vec![
            Write::SaveTask(Box::new(task.clone())),
            Write::SaveTurn(Box::new(turn)),
            state_event(task, now),
        ];
        self.commit(batch).await?;
        self.line_up(task);
        self.begin_next();
        Ok(())
    }

    pub(crate) fn line_up(&self, task: &Task) {
        self.queue().wait(ticket(task));
    }

    /// Begins whoever may work now.
    pub(crate) fn begin_next(self: &Arc<Self>) {
        let next = self.queue().begin();
        for task_id in next {
            self.run(task_id, runner::Mode::Fresh);
        }
    }

    /// Runs a task's open turn until its end, then lets the next one in.
    fn run(self: &Arc<Self>, task_id: TaskId, mode: runner::Mode) {
        let (commands, queue) = mpsc::channel(runner::COMMANDS);
        self.runners().insert(task_id.clone(), commands);
        let inner = Arc::clone(self);
        self.tasks.spawn(async move {
            Runner::new(Arc::clone(&inner), task_id.clone(), queue).run(mode).await;
            inner.runners().remove(&task_id);
            inner.queue().leave(&task_id);
            inner.begin_next();
        });
    }
}

/// Tasks that can be ended together.
#[derive(Default)]
struct Spawned(Mutex<JoinSet<()>>);

impl Spawned {
    fn set(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.set();
        // Those that ended are let go, so that the set does not grow.
        while set.try_join_next().is_some() {}
        set.spawn(task);
    }

    async fn abort_all(&self) {
        let mut set = std::mem::take(&mut *self.set());
        set.shutdown().await;
    }
}

/// The end of a turn that is to come, which nobody was told of yet.
fn untold(target: Option<&String>) -> Notification {
    let status = if target.is_some() { "pending" } else { "" };
    Notification { status: status.to_owned(), ..Notification::default() }
}

fn ticket(task: &Task) -> Ticket {
    let writes = task.settings.sandbox != codex_session::Sandbox::ReadOnly;
    Ticket { task_id: task.id.clone(), cwd: task.settings.cwd.clone(), writes }
}

fn changed_task(write: &Write) -> Option<TaskId> {
    match write {
        Write::AddTask(task) | Write::SaveTask(task) => Some(task.id.clone()),
        Write::SaveRequest(request) => Some(request.task_id.clone()),
        Write::SaveTurn(_) | Write::Append { .. } | Write::Audit { .. } | Write::Prune { .. } => None,
    }
}

/// The line that tells a task's state.
pub(crate) fn state_event(task: &Task, now: TimeMs) -> Write {
    let mut body = Map::from_iter([("status".to_owned(), json!(task.status))]);
    if let Some(reason) = &task.reason {
        body.insert("reason".to_owned(), json!(reason));
    }
    append(&task.id, now, "state", body)
}

/// One line for a task's log.
pub(crate) fn append(task_id: &TaskId, at: TimeMs, kind: &str, body: Map<String, Value>) -> Write {
    Write::Append { task_id: task_id.clone(), events: vec![NewEvent { at, kind: kind.to_owned(), body }] }
}

pub(crate) fn now_ms() -> TimeMs {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

fn new_task_id() -> TaskId {
    TaskId(format!("codex-{}", random_hex(12)))
}

/// Random hex digits, from the standard library's own randomness; at most 16.
pub(crate) fn random_hex(digits: usize) -> String {
    use std::hash::{BuildHasher, RandomState};
    let mut text = format!("{:016x}", RandomState::new().hash_one(now_ms()));
    text.truncate(digits);
    text
}
