//! The handle of the core: hands work over, shows it, decides about it, stops it.
//!
//! Rules: an intent is stored before it is acted on. Nothing is announced before it is committed. A running task
//! belongs to its runner. Any other task is changed only here, one change at a time.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codex_session::SteerOutcome;
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::error;

use crate::accounts::Accounts;
use crate::config::Config;
use crate::event::{Line, NewEvent, Seq, StateChanged};
use crate::host_rules::HostRules;
use crate::hosts::{Hosts, Processes};
use crate::outbox;
use crate::outbox::notice::TurnFacts;
use crate::queue::{Queue, Ticket};
use crate::refusal::{Forbidden, Refusal, not_steered};
use crate::request::{RequestName, RequestRecord};
use crate::seal;
use crate::store::{self, AuditLine, Store, Write};
use crate::task::{Limits, Parked, Settings, ShownStatus, Status, Task, TaskId, TimeMs};
use crate::token;
use crate::trust::Trust;

mod attachments;
mod background;
mod counters;
mod decide;
mod delivery_loop;
mod fork;
mod handover;
mod news;
mod notify_ended;
mod queries;
mod recovery;
mod release;
mod resume;
mod runner;
mod start;
mod tokens;
mod trust_change;
mod turn_rows;
mod upkeep;

use background::BackgroundWork;
use delivery_loop::Outbox;
use news::Newsroom;

pub use crate::decision::{DecisionOutcome, DecisionReport, TooLate};
pub use counters::{Counters, Snapshot, Watchdog};
pub use decide::RequestSelector;
pub use fork::NewBranch;
pub use handover::Author;
pub use handover::without_caller;
pub(crate) use handover::{NESTED_AGENT, TOKEN};
pub use news::{LiveKind, News, OpenText};
pub use notify_ended::{EndNotice, NotifyMode, NotifyOutcome};
pub(crate) use resume::GO_ON;
pub(crate) use turn_rows::QueuedBy;

/// How long Codex may take to accept a steer before the caller is told that it is still pending.
const STEER_LIMIT: Duration = Duration::from_secs(30);
/// The limit for a `client_request_id`.
const NAME_MAX_CHARS: usize = 255;

/// Why the thread of a task is not forked or released.
const NOT_FINISHED: &str = "it is not finished; wait for its end, or interrupt it";

/// The handle of the core. Clones are cheap.
#[derive(Clone)]
pub struct Bridge {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: seal::Key,
    pub(crate) hosts: Arc<dyn Hosts>,
    queue: Mutex<Queue>,
    accounts: Mutex<Accounts>,
    /// Notified when a held-back task may be able to resume.
    resuming: Arc<tokio::sync::Notify>,
    runners: Mutex<HashMap<TaskId, mpsc::Sender<runner::Command>>>,
    pub(crate) news: Newsroom,
    pub(crate) outbox: Outbox,
    tokens: tokens::Tokens,
    /// True once the bridge is closing: nobody may wait any longer.
    closing: watch::Sender<bool>,
    pub(crate) counters: Counters,
    /// Whether a commit has failed since upkeep last looked for tasks without a runner.
    is_in_doubt: AtomicBool,
    /// Runners and loops. They are aborted when the bridge closes, and the next bridge resumes their work.
    tasks: BackgroundWork,
    /// Changes that have begun. They are completed when the bridge closes.
    changes: BackgroundWork,
    /// Held while a task without a runner is changed.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Held while a task is parked for a login, because only one of those tasks carries the notice.
    pub(crate) parking: tokio::sync::Mutex<()>,
}

/// Work to hand over.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// The first prompt.
    pub prompt: String,
    /// The settings that Codex runs the task with.
    pub settings: Settings,
    /// How much the task may use.
    pub limits: Limits,
    /// The caller's name for this request.
    pub client_request_id: Option<String>,
    /// The target that is notified.
    pub notify_target: Option<String>,
    /// Who hands the work over.
    pub by: Author,
}

impl NewTask {
    /// Work without limits, names and targets.
    pub fn new(prompt: impl Into<String>, settings: Settings, by: impl Into<Author>) -> Self {
        let (limits, client_request_id, notify_target) = (Limits::default(), None, None);
        Self { prompt: prompt.into(), settings, limits, client_request_id, notify_target, by: by.into() }
    }

    /// The texts that count against a quota.
    fn texts(&self) -> [Option<&str>; 2] {
        [Some(&self.prompt), self.settings.developer_instructions.as_deref()]
    }
}

/// A task with the turn that a caller asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Continued {
    /// The task.
    pub view: TaskView,
    /// The number of the turn, from 1.
    pub turn: u32,
    /// The last log line before the turn. If the turn had been handed over before, the last line of the log.
    pub after: Seq,
}

/// A task with its open requests.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    /// The stored task.
    pub task: Task,
    /// The open requests, the oldest first.
    pub open_requests: Vec<RequestRecord>,
    /// The directory's present trust level.
    pub trust: Trust,
}

impl TaskView {
    /// The status as people see it.
    pub fn status(&self) -> ShownStatus {
        ShownStatus::of(self.task.status, &self.open_requests)
    }
}

/// Why the bridge did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The caller may not do it.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The operator's rules refuse the work.
    #[error(transparent)]
    NotAdmitted(#[from] Refusal),
    /// There is no such decision.
    #[error("{0}")]
    UnknownDecision(String),
    /// A caller who decides for others must say what those were shown.
    #[error("the decision lacks the `request_id` or the `digest` of the request that was shown")]
    DigestMissing,
    /// The bridge is closing.
    #[error("the daemon stops")]
    Closing,
    /// No such task.
    #[error("no task {0}")]
    UnknownTask(String),
    /// Several task ids begin like that.
    #[error("several tasks begin with {0}: write more of the id")]
    AmbiguousTask(String),
    /// No such request.
    #[error("no request {0}")]
    UnknownRequest(String),
    /// The task has no open request.
    #[error("task {} has no open request", .0.short())]
    NoOpenRequest(TaskId),
    /// Several requests have names that begin like this. None of them is decided.
    #[error("several requests begin with {0}: write more of the id")]
    AmbiguousRequest(String),
    /// A question needs an answer, not an approval.
    #[error("request {} is a question: give an answer instead of an approval", .0.short())]
    IsQuestion(RequestName),
    /// An approval must name what was shown.
    #[error("request {} cannot be approved without its digest: pass the `digest` that was shown with it", .0.short())]
    NotShown(RequestName),
    /// The caller has not seen the secret in the request.
    #[error(
        "request {} holds a secret that is shown only at the machine itself: remotely it can only be declined",
        .0.short()
    )]
    NeedsReveal(RequestName),
    /// The caller has seen only the beginning of the changes.
    #[error("request {} changes more than was shown: open the whole diff first", .0.short())]
    NotOpened(RequestName),
    /// The caller was shown something else.
    #[error("request {} is not the one that was shown: its digest is different", .0.short())]
    AnotherRequest(RequestName),
    /// The answers do not fit the form.
    #[error("{0}")]
    BadAnswers(String),
    /// The task's status does not allow this.
    #[error("task {} is {status}: {message}", .task_id.short())]
    WrongState {
        /// The task.
        task_id: TaskId,
        /// The task's status.
        status: Status,
        /// What is not possible, and why.
        message: &'static str,
    },
    /// The decision does not count.
    #[error(transparent)]
    TooLate(#[from] TooLate),
    /// Codex did not take the text that was to be added to the turn, or has not confirmed it.
    #[error("{}", not_steered(.0))]
    NotSteered(SteerOutcome),
    /// The prompt says nothing.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The caller's name for the request is too long, or looks like a credential.
    #[error("the client_request_id (or Idempotency-Key) {0}")]
    BadRequestName(&'static str),
    /// The prompt is longer than the operator allows.
    #[error("the prompt has {bytes} bytes, and may have {limit}")]
    PromptTooLong {
        /// The length of the prompt.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The request is not possible.
    #[error("{0}")]
    Refused(String),
    /// Something that this needs is not there now, but may be later.
    #[error("{0}")]
    NotThere(String),
    /// The caller's name for this request already belongs to another request.
    #[error(
        "this client_request_id (or Idempotency-Key) belongs to other work, handed over before as task {}",
        .0.short()
    )]
    KeyReused(TaskId),
    /// The token does not exist, or the change to it is not allowed.
    #[error(transparent)]
    Token(#[from] token::Error),
    /// A target could not be read.
    #[error(transparent)]
    BadTarget(#[from] outbox::target::Error),
    /// There is no such target.
    #[error(transparent)]
    UnknownTarget(#[from] outbox::sender::Unknown),
    /// No such message.
    #[error("no message {0}")]
    UnknownMessage(String),
    /// No such delivery.
    #[error("no delivery {0}")]
    UnknownDelivery(String),
    /// A target could not be reached.
    #[error("cannot deliver to {target}: {why}")]
    Undelivered {
        /// The target.
        target: String,
        /// Why it was not reached.
        why: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The bridge closed before the change was complete.
    #[error("the daemon stopped before this was done: check whether it took effect")]
    CutOff,
    /// The hosts cannot be started or attached to.
    #[error("hosts: {0}")]
    Hosts(String),
}

impl Error {
    pub(crate) fn wrong_state(task: &Task, message: &'static str) -> Self {
        Self::WrongState { task_id: task.id.clone(), status: task.status, message }
    }
}

impl From<seal::Error> for Error {
    fn from(error: seal::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

impl Bridge {
    /// Opens the bridge: attaches to live hosts and recovers every task that was running.
    pub async fn open(config: Config, store: Arc<dyn Store>, key: seal::Key) -> Result<Self, Error> {
        let rules = HostRules::new(&config).map_err(|failure| Error::Hosts(failure.message))?;
        let hosts =
            Processes::attach(&config, rules).await.map_err(|error| Error::Hosts(error.to_string()))?;
        Self::open_on(Arc::new(hosts), config, store, key).await
    }

    /// Opens the bridge on the caller's own hosts, such as those of a simulation.
    pub async fn open_on(
        hosts: Arc<dyn Hosts>,
        config: Config,
        store: Arc<dyn Store>,
        key: seal::Key,
    ) -> Result<Self, Error> {
        let tokens = store.tokens().await?;
        let inner = Inner {
            queue: Mutex::new(Queue::new(config.max_running)),
            config,
            store,
            key,
            hosts,
            accounts: Mutex::default(),
            resuming: Arc::default(),
            runners: Mutex::default(),
            news: Newsroom::new(),
            outbox: Outbox::default(),
            tokens: tokens::Tokens::new(tokens),
            closing: watch::Sender::default(),
            counters: Counters::default(),
            is_in_doubt: AtomicBool::default(),
            tasks: BackgroundWork::default(),
            changes: BackgroundWork::default(),
            changing: tokio::sync::Mutex::default(),
            parking: tokio::sync::Mutex::default(),
        };
        let bridge = Self { inner: Arc::new(inner) };
        bridge.recover().await?;
        bridge.inner.recover_outbox().await?;
        bridge.inner.tasks.spawn(upkeep::run(Arc::downgrade(&bridge.inner)));
        bridge.inner.tasks.spawn(delivery_loop::run(Arc::downgrade(&bridge.inner)));
        Ok(bridge)
    }

    /// Adds text to the running turn. The runner completes the steer even if the caller goes away. The text is found in
    /// the log by `client_id`.
    pub async fn steer(
        &self,
        id: &str,
        text: &str,
        by: &Author,
        client_id: Option<String>,
    ) -> Result<SteerOutcome, Error> {
        self.inner.check_prompt(text)?;
        let task = self.find(id).await?;
        let runner = self.inner.runner(&task.id).ok_or_else(|| {
            let queued = task.status == Status::Queued;
            let why = if queued { "it has not begun" } else { "no turn runs; continue it instead" };
            Error::wrong_state(&task, why)
        })?;
        self.count_steer(by, &task.id, text).await?;
        let (reply, outcome) = oneshot::channel();
        let client_id = client_id.unwrap_or_else(|| format!("steer-{}", self.inner.random_hex()));
        let steer = runner::Steer { text: text.to_owned(), client_id, by: by.name.clone(), reply };
        let sent = runner.send(runner::Command::Steer(steer)).await;
        sent.map_err(|_| Error::wrong_state(&task, "its turn has just ended"))?;
        match tokio::time::timeout(STEER_LIMIT, outcome).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => Ok(SteerOutcome::Unconfirmed("the turn has just ended".to_owned())),
            // The thread may still wait for a host. The runner adds the text once the thread is open.
            Err(_) => Ok(SteerOutcome::Unconfirmed("it is added when Codex can take it".to_owned())),
        }
    }

    /// Stops a task: interrupts its running turn, or cancels its queued or parked one. Refused if another turn than
    /// `turn` was handed over since. Returns once Codex has confirmed. The runner completes the interrupt even if the
    /// caller goes away.
    pub async fn interrupt(&self, id: &str, turn: Option<u32>) -> Result<TaskView, Error> {
        let inner = &self.inner;
        let task = self.find(id).await?;
        let (waiting, is_parked) = (task.id.clone(), task.status == Status::Paused && task.parked.is_some());
        if (is_parked || task.status == Status::Queued)
            && self.to_completion(|bridge| async move { bridge.cancel_waiting(&waiting, turn).await }).await?
        {
            return self.view(self.find(id).await?).await;
        }
        let Some(runner) = inner.runner(&task.id) else {
            return Err(Error::wrong_state(&task, "no turn is running or queued"));
        };
        // Checked after the runner was found: the runner then runs this turn, or a turn that has ended.
        self.check_last_turn(&task, turn).await?;
        let (reply, done) = oneshot::channel();
        if runner.send(runner::Command::Interrupt { reply }).await.is_ok() {
            // The reply comes when the turn has ended in any way.
            done.await.ok();
        }
        self.view(self.find(task.id.as_str()).await?).await
    }

    /// Cancels a queued turn, or a parked task, which would have continued by itself. Returns false if a turn has begun.
    async fn cancel_waiting(&self, id: &TaskId, turn: Option<u32>) -> Result<bool, Error> {
        let inner = &self.inner;
        let _changing = inner.changing.lock().await;
        let waiting = self.find(id.as_str()).await?;
        self.check_last_turn(&waiting, turn).await?;
        let mut task = Task { status: Status::Cancelled, parked: None, ..waiting.clone() };
        if waiting.status == Status::Paused && waiting.parked.is_some() {
            task.reason = Some("cancelled before it went on".to_owned());
            inner.save_state(&mut task).await?;
            return Ok(true);
        }
        if waiting.status != Status::Queued || !inner.queue().leave(id) {
            return Ok(false);
        }
        task.reason = Some("cancelled before it began".to_owned());
        let cancelled = inner.end_unsent(&mut task).await;
        if cancelled.is_err() {
            inner.enqueue(&waiting);
            inner.begin_next();
        }
        Ok(cancelled.map(|()| true)?)
    }

    async fn check_last_turn(&self, task: &Task, turn: Option<u32>) -> Result<(), Error> {
        let last = self.inner.store.turns(&task.id).await?.last().map(|last| last.number);
        if turn.is_none() || last == turn {
            return Ok(());
        }
        Err(Error::wrong_state(task, "a newer turn was queued meanwhile"))
    }

    /// Records in the audit log who did what.
    pub async fn note(&self, by: &str, action: &str, task_id: Option<&TaskId>) -> Result<(), Error> {
        let note = self.inner.audit(by, action, task_id, "");
        self.to_completion(|bridge| async move { Ok(bridge.inner.commit(vec![note]).await?) }).await
    }

    /// The redactor. New secrets can be added to it.
    pub fn redactor(&self) -> &redact::Redactor {
        &self.inner.config.redactor
    }

    /// The store, for checks and backups.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The running hosts.
    pub fn hosts(&self) -> Vec<codex_wire::host::Host> {
        self.inner.hosts.all()
    }

    /// How many hosts have ended since the bridge was opened.
    pub fn ended_hosts(&self) -> u64 {
        self.inner.hosts.ends()
    }

    /// What identifies the processes of all hosts, including those that are booting and those that may have left
    /// processes behind. Does not wait.
    pub fn origins(&self) -> Vec<codex_wire::host::origin::Origin> {
        self.inner.hosts.origins()
    }

    /// Ends every wait for a task, with [`Error::Closing`]. For a program that is about to stop.
    pub fn stop_waiting(&self) {
        self.inner.closing.send_replace(true);
    }

    /// Returns once the bridge is closing.
    pub async fn until_closing(&self) {
        // Fails only if the sender is dropped, and `self` holds it.
        self.inner.closing.subscribe().wait_for(|closes| *closes).await.ok();
    }

    /// Closes the bridge in order: completes the changes that have begun and stores nothing more. Turns continue on
    /// their hosts, and the next bridge resumes them, as after a crash.
    pub async fn abandon(self) {
        self.inner.outbox.close().await;
        self.inner.changes.finish().await;
        self.inner.tasks.abort_all().await;
        // A host that starts now would have no owner.
        self.inner.hosts.stop_starting().await;
    }

    /// Stops every host and its turns; none starts afterwards. Returns an error for each host that still runs.
    pub async fn stop_hosts(&self) -> Vec<String> {
        let stopped =
            self.to_completion(|bridge| async move { Ok(bridge.inner.hosts.stop_all().await) }).await;
        stopped.unwrap_or_else(|error| vec![error.to_string()])
    }

    /// Checks a caller's name for a request. The name is stored in plain text, for every caller to read.
    fn check_name(&self, client_request_id: Option<&str>) -> Result<(), Error> {
        let Some(name) = client_request_id else { return Ok(()) };
        let own = without_caller(name);
        if own.chars().count() > NAME_MAX_CHARS {
            return Err(Error::BadRequestName("is too long: use up to 255 characters"));
        }
        // Without the desk's prefix, such as `token ci-key: `, which itself looks like a secret.
        if self.redactor().redact(own) != own {
            return Err(Error::BadRequestName(
                "looks like a credential, and would be kept in plain text: use another name",
            ));
        }
        Ok(())
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runners(&self) -> MutexGuard<'_, HashMap<TaskId, mpsc::Sender<runner::Command>>> {
        self.runners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work in the background until the bridge closes.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Whether a turn of the task is running.
    pub(crate) fn has_runner(&self, id: &TaskId) -> bool {
        self.runners().contains_key(id)
    }

    fn runner(&self, id: &TaskId) -> Option<mpsc::Sender<runner::Command>> {
        self.runners().get(id).cloned()
    }

    /// Commits, then announces what was committed.
    pub(crate) async fn commit(&self, batch: Vec<Write>) -> Result<(), store::Error> {
        let changed: Vec<TaskId> = batch.iter().filter_map(changed_task).collect();
        let has_deliveries = batch.iter().any(|write| matches!(write, Write::AddDelivery(_)));
        let has_attempts = batch.iter().any(|write| matches!(write, Write::SaveDelivery(_)));
        let has_sent = batch.iter().any(is_sent);
        let committed = self.store.commit(batch).await;
        // A store beyond a network can fail after the commit.
        self.is_in_doubt.fetch_or(committed.is_err(), Ordering::SeqCst);
        let events = committed?;
        self.news.tell_committed(events, changed);
        if has_deliveries || has_attempts {
            self.news.tell_deliveries();
        }
        if has_deliveries {
            self.outbox.wake();
        }
        if has_sent {
            self.outbox.notify_finished();
        }
        Ok(())
    }

    /// Saves a task together with a log line about its status.
    pub(crate) async fn save_state(&self, task: &mut Task) -> Result<(), store::Error> {
        self.commit(self.state_writes(task)).await
    }

    /// The writes that save a task together with a log line about its status.
    fn state_writes(&self, task: &mut Task) -> Vec<Write> {
        let now = self.now();
        task.updated_at = now;
        if task.status.is_finished() {
            task.completed_at = Some(now);
        }
        let mut batch = vec![Write::SaveTask(Box::new(task.clone())), state_event(task, now)];
        batch.extend(self.deliveries_for_finished(task, TurnFacts::default(), now));
        batch
    }

    pub(crate) fn now(&self) -> TimeMs {
        self.config.clock.now()
    }

    /// The digits of a new id.
    pub(crate) fn random_hex(&self) -> String {
        self.config.random.hex()
    }

    /// One line for the audit log.
    pub(crate) fn audit(&self, by: &str, action: &str, task_id: Option<&TaskId>, detail: &str) -> Write {
        Write::Audit(AuditLine {
            at: self.now(),
            actor: by.to_owned(),
            action: action.to_owned(),
            task_id: task_id.cloned(),
            detail: detail.to_owned(),
        })
    }

    pub(crate) fn enqueue(&self, task: &Task) {
        let mut ticket = self.ticket(task);
        // Also if the limit has ended in the meantime: other tasks have waited longer.
        let was_held_back = matches!(task.parked, Some(Parked::UsageLimit { .. }));
        ticket.is_held = was_held_back || self.accounts().limit(&ticket.home, &task.id, self.now()).is_some();
        let is_held = ticket.is_held;
        self.queue().push(ticket);
        if is_held {
            self.resuming.notify_one();
        }
    }

    fn ticket(&self, task: &Task) -> Ticket {
        Ticket {
            task_id: task.id.clone(),
            cwd: task.settings.cwd.clone(),
            writes: task.settings.sandbox != codex_session::Sandbox::ReadOnly,
            home: self.login_home(task),
            is_held: false,
        }
    }

    /// Starts the tasks that may begin now.
    pub(crate) fn begin_next(self: &Arc<Self>) {
        // The bridge is closing; the next bridge starts them.
        if self.hosts.are_closed() {
            return;
        }
        // The lock is held until each task that has left the queue has a runner.
        let mut queue = self.queue();
        for task_id in queue.begin() {
            self.run(task_id, runner::Mode::Fresh);
        }
    }

    /// Runs a task's open turn to its end, then starts the next tasks.
    fn run(self: &Arc<Self>, task_id: TaskId, mode: runner::Mode) {
        let (commands, queue) = mpsc::channel(runner::COMMANDS);
        self.runners().insert(task_id.clone(), commands);
        self.news.turn_started(&task_id);
        let inner = Arc::clone(self);
        self.tasks.spawn(async move {
            let run = runner::run(Arc::clone(&inner), task_id.clone(), queue, mode);
            if AssertUnwindSafe(run).catch_unwind().await.is_err() {
                // Others go on. The next start of the bridge takes this turn up again.
                error!(task = %task_id, "the runner of a turn panicked");
            }
            inner.runners().remove(&task_id);
            inner.news.turn_ended(&task_id);
            inner.queue().finish(&task_id);
            inner.end_probe(&task_id).await;
            inner.begin_next();
        });
    }
}

/// Whether the write ends a delivery. A message may have waited for that.
fn is_sent(write: &Write) -> bool {
    matches!(write, Write::SaveDelivery(one) if !outbox::DeliveryState::UNFINISHED.contains(&one.state))
}

fn changed_task(write: &Write) -> Option<TaskId> {
    match write {
        Write::AddTask(task) | Write::SaveTask(task) => Some(task.id.clone()),
        Write::SaveRequest(request) => Some(request.task_id.clone()),
        // These are told by a write beside them, or are no news of a task.
        Write::SaveTurn(_)
        | Write::SaveWholeChanges(_)
        | Write::Append { .. }
        | Write::AddDelivery(_)
        | Write::SaveDelivery(_)
        | Write::AddMessage(_)
        | Write::SaveMessage(_)
        | Write::SaveAttachment(_)
        | Write::SaveConversation(_)
        | Write::SaveChannel(_)
        | Write::SaveToken(_)
        | Write::HandOver { .. }
        | Write::Audit(_) => None,
    }
}

/// The log line with a task's present status.
pub(crate) fn state_event(task: &Task, now: TimeMs) -> Write {
    let goes_on = task.status == Status::Paused && task.parked.is_some();
    append(&task.id, now, StateChanged::of(task, goes_on))
}

/// Appends one line to a task's log.
pub(crate) fn append(task_id: &TaskId, at: TimeMs, line: impl Into<Line>) -> Write {
    Write::Append { task_id: task_id.clone(), events: vec![NewEvent { at, line: line.into() }] }
}
