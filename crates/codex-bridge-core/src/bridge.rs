//! The one handle that every door uses: hand over work, look at it, answer it, stop it.
//!
//! Rules: intent is recorded before it is acted on; nothing is told before it is committed; a task that runs is owned
//! by its runner, a task that does not is changed only here, one change at a time.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
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
use crate::refusal::{Forbidden, Refusal};
use crate::request::{RequestName, RequestRecord};
use crate::seal;
use crate::store::{self, Store, Write};
use crate::task::{Limits, Parked, Settings, ShownStatus, Status, Task, TaskId, TimeMs};
use crate::token;
use crate::trust::Trust;

mod background;
mod counters;
mod decide;
mod delivery_loop;
mod fork;
mod handover;
mod news;
mod queries;
mod recovery;
mod release;
mod resume;
mod runner;
mod start;
mod tell_ended;
mod tokens;
mod trust_change;
mod turn_rows;
mod upkeep;

use background::Spawned;
use delivery_loop::Outbox;
use news::Newsroom;

pub(crate) use crate::decision::in_words;
pub use crate::decision::{DecisionOutcome, DecisionReport};
pub use counters::{Standing, Tally, Watchdog};
pub use decide::Which;
pub use fork::NewBranch;
pub use handover::Giver;
pub use handover::own_part;
pub(crate) use handover::{NESTED_AGENT, TOKEN};
pub use news::{LiveKind, News, OpenText};
pub(crate) use resume::GO_ON;
pub use tell_ended::{Telling, TellingOutcome, Told};
pub(crate) use turn_rows::LinedUp;

/// How long Codex may take to take something that is added to a turn, before the caller is told that it has not yet.
const STEER_LIMIT: Duration = Duration::from_secs(30);
/// The longest name that a caller may have for a request.
const NAME_MAX_CHARS: usize = 255;

/// The one handle that every door uses. Cheap to clone.
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
    /// Told when somebody who waits may be able to go on.
    resuming: Arc<tokio::sync::Notify>,
    runners: Mutex<HashMap<TaskId, mpsc::Sender<runner::Command>>>,
    pub(crate) news: Newsroom,
    pub(crate) outbox: Outbox,
    tokens: tokens::Tokens,
    /// Whether nobody shall wait any longer.
    closing: watch::Sender<bool>,
    pub(crate) tally: Tally,
    /// Runners, and what else goes on by itself: left to the next bridge when this one closes.
    tasks: Spawned,
    /// Changes that were begun.
    changes: Spawned,
    /// Held while a task that does not run is changed.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Held while a task is parked for a login: one of them carries the notice.
    pub(crate) parking: tokio::sync::Mutex<()>,
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
    /// Who hands it over.
    pub by: Giver,
}

impl NewTask {
    /// What of it counts against a quota.
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
    /// The last line of the log before the turn; the last one of all if the turn had been asked for before.
    pub after: Seq,
}

/// A task with what is open on it.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    /// The task, as it is remembered.
    pub task: Task,
    /// What it waits for, the oldest first.
    pub open_requests: Vec<RequestRecord>,
    /// How far its directory is trusted now.
    pub trust: Trust,
}

impl TaskView {
    /// Where the task stands, as people see it.
    pub fn status(&self) -> ShownStatus {
        ShownStatus::of(self.task.status, &self.open_requests)
    }
}

/// Why the bridge did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The caller may not do it.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The operator's rules refuse the work.
    #[error(transparent)]
    NotAdmitted(#[from] Refusal),
    /// Nobody decides so.
    #[error("{0}")]
    UnknownDecision(String),
    /// A decision by somebody who answers for others says what these were shown.
    #[error("a decision names the request that was shown, by its `request_id` and its `digest`")]
    DigestMissing,
    /// The bridge closes: nobody waits any longer.
    #[error("the daemon stops")]
    Closing,
    /// No such task.
    #[error("no task {0}")]
    UnknownTask(String),
    /// Several tasks begin so.
    #[error("several tasks begin with {0}: write more of the id")]
    AmbiguousTask(String),
    /// No such request.
    #[error("no request {0}")]
    UnknownRequest(String),
    /// A question takes no yes: nobody would have answered it.
    #[error("{0} is a question, which takes no yes")]
    IsQuestion(RequestName),
    /// Nobody can agree to what they were not shown.
    #[error("request {0} can be agreed to only by who says what they were shown: its digest is missing")]
    NotShown(RequestName),
    /// Whoever decides has not seen all that something could act on.
    #[error(
        "request {0} holds a secret that is shown only at the machine itself: from afar it can only be declined"
    )]
    NeedsReveal(RequestName),
    /// Whoever decides has seen the beginning of the changes alone.
    #[error("request {0} changes more than was shown: open the whole diff first")]
    NotOpened(RequestName),
    /// What was shown is not what is asked.
    #[error("request {0} is not the one that was shown: its digest is another one")]
    AnotherRequest(RequestName),
    /// A form does not take this.
    #[error("{0}")]
    BadAnswers(String),
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
    /// The prompt says nothing.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The caller's own name for the request is too long, or looks like a credential.
    #[error("the client_request_id (or Idempotency-Key) {0}")]
    BadRequestName(&'static str),
    /// The prompt is longer than the operator allows.
    #[error("the prompt has {bytes} bytes, and may have {limit}")]
    PromptTooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The caller asks for something that cannot be.
    #[error("{0}")]
    Refused(String),
    /// What it takes is not there now, and may be later.
    #[error("{0}")]
    NotThere(String),
    /// The caller's own name for this request is that of another one already.
    #[error(
        "this client_request_id (or Idempotency-Key) belongs to other work, handed over before as task {0}"
    )]
    KeyReused(TaskId),
    /// There is no such token, or there cannot be.
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
    #[error("{target} was not reached: {why}")]
    Undelivered {
        /// Where it was to go.
        target: String,
        /// Why it did not.
        why: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The bridge closed before it was done.
    #[error("the bridge stopped before that was done: look at what has become of it")]
    CutOff,
    /// Hosts cannot be kept.
    #[error("hosts: {0}")]
    Hosts(String),
}

impl Bridge {
    /// Opens the bridge: takes over the hosts that live, and sets right every task that was under way.
    pub async fn open(config: Config, store: Arc<dyn Store>, key: seal::Key) -> Result<Self, Error> {
        let rules = HostRules::new(&config).map_err(|failure| Error::Hosts(failure.message))?;
        let hosts =
            Processes::attach(&config, rules).await.map_err(|error| Error::Hosts(error.to_string()))?;
        Self::open_on(Arc::new(hosts), config, store, key).await
    }

    /// Opens the bridge on hosts that the caller brings: a simulation's, which are no processes.
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
            tally: Tally::default(),
            tasks: Spawned::default(),
            changes: Spawned::default(),
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

    /// Adds to the running turn. Its runner carries it out to its end; the log has it once it is a part of the turn.
    pub async fn steer(&self, id: &str, text: &str, by: &Giver) -> Result<SteerOutcome, Error> {
        self.steer_as(id, text, by, format!("steer-{}", self.inner.random_hex(12))).await
    }

    /// The same, under a name by which it is found in the log.
    pub(crate) async fn steer_as(
        &self,
        id: &str,
        text: &str,
        by: &Giver,
        client_id: String,
    ) -> Result<SteerOutcome, Error> {
        self.inner.check_prompt(text)?;
        let task = self.find(id).await?;
        let wrong = |message| Error::WrongState { task_id: task.id.clone(), status: task.status, message };
        let runner = self.inner.runner(&task.id).ok_or_else(|| {
            let queued = task.status == Status::Queued;
            wrong(if queued { "it has not begun" } else { "no turn runs; continue it instead" })
        })?;
        self.count_added(by, &task.id, text).await?;
        let (reply, outcome) = oneshot::channel();
        let steer = runner::Steer { text: text.to_owned(), client_id, by: by.name.clone(), reply };
        runner.send(runner::Command::Steer(steer)).await.map_err(|_| wrong("its turn has just ended"))?;
        // Not even given to Codex: the turn was over before.
        match tokio::time::timeout(STEER_LIMIT, outcome).await {
            Ok(outcome) => Ok(outcome.unwrap_or(SteerOutcome::NoActiveTurn)),
            // Its thread may wait for a host. It is added when that is open.
            Err(_) => Ok(SteerOutcome::Failed("it is not added yet; it is once Codex takes it".to_owned())),
        }
    }

    /// Stops a task: its turn if one runs, its wait if it is queued. Returns when Codex has confirmed it. The runner of
    /// a turn stops it, whether or not anybody waits for that.
    pub async fn interrupt(&self, id: &str) -> Result<TaskView, Error> {
        self.interrupt_turn(id, None).await
    }

    /// The same, unless another turn than this one has been asked for since.
    pub async fn interrupt_turn(&self, id: &str, turn: Option<u32>) -> Result<TaskView, Error> {
        let inner = &self.inner;
        let task = self.find(id).await?;
        let (waits, queued) = (task.id.clone(), task.id.clone());
        let is_parked = task.status == Status::Paused && task.parked.is_some();
        if (is_parked
            && self.to_its_end(|bridge| async move { bridge.cancel_parked(&waits, turn).await }).await?)
            || (task.status == Status::Queued
                && self.to_its_end(|bridge| async move { bridge.cancel_queued(&queued, turn).await }).await?)
        {
            return self.view(self.find(id).await?).await;
        }
        let Some(runner) = inner.runner(&task.id) else {
            let message = "nothing runs that could be stopped";
            return Err(Error::WrongState { task_id: task.id, status: task.status, message });
        };
        // After the runner was found: it runs this turn then, or one that has ended.
        self.must_be_last_turn(&task, turn).await?;
        let (reply, done) = oneshot::channel();
        if runner.send(runner::Command::Interrupt { reply }).await.is_ok() {
            // Answered when the turn has ended, whichever way.
            done.await.ok();
        }
        self.view(self.find(task.id.as_str()).await?).await
    }

    /// One that would have gone on by itself does not.
    async fn cancel_parked(&self, id: &TaskId, turn: Option<u32>) -> Result<bool, Error> {
        let inner = &self.inner;
        let _changing = inner.changing.lock().await;
        let mut task = self.find(id.as_str()).await?;
        self.must_be_last_turn(&task, turn).await?;
        if task.status != Status::Paused || task.parked.take().is_none() {
            // It goes on already.
            return Ok(false);
        }
        (task.status, task.reason) = (Status::Cancelled, Some("cancelled before it went on".to_owned()));
        inner.save_state(&mut task).await?;
        Ok(true)
    }

    async fn cancel_queued(&self, id: &TaskId, turn: Option<u32>) -> Result<bool, Error> {
        let inner = &self.inner;
        let _changing = inner.changing.lock().await;
        let mut task = self.find(id.as_str()).await?;
        self.must_be_last_turn(&task, turn).await?;
        if task.status != Status::Queued || !inner.queue().leave(id) {
            // It has begun.
            return Ok(false);
        }
        let waiting = task.clone();
        (task.status, task.parked) = (Status::Cancelled, None);
        task.reason = Some("cancelled before it began".to_owned());
        let cancelled = inner.end_unsent(&mut task).await;
        if cancelled.is_err() {
            inner.line_up(&waiting);
            inner.begin_next();
        }
        Ok(cancelled.map(|()| true)?)
    }

    async fn must_be_last_turn(&self, task: &Task, turn: Option<u32>) -> Result<(), Error> {
        let last = self.inner.store.turns(&task.id).await?.last().map(|last| last.number);
        if turn.is_none() || last == turn {
            return Ok(());
        }
        let message = "another turn has been asked for since";
        Err(Error::WrongState { task_id: task.id.clone(), status: task.status, message })
    }

    /// Notes in the audit log who commanded what.
    pub async fn note(&self, by: &str, action: &str, task_id: Option<&TaskId>) -> Result<(), Error> {
        let note = self.inner.audit(by, action, task_id, "");
        self.to_its_end(|bridge| async move { Ok(bridge.inner.commit(vec![note]).await?) }).await
    }

    /// What hides secrets; it can learn more of them.
    pub fn redactor(&self) -> &redact::Redactor {
        &self.inner.config.redactor
    }

    /// The store, for checks and backups.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The hosts that run.
    pub fn hosts(&self) -> Vec<codex_wire::host::Host> {
        self.inner.hosts.all()
    }

    /// How many hosts have ended since the bridge was opened.
    pub fn ended_hosts(&self) -> u64 {
        self.inner.hosts.ends()
    }

    /// By what the processes of all hosts are known, also of those that boot and of those of which something may be left.
    /// Waits for nobody.
    pub fn origins(&self) -> Vec<codex_wire::host::origin::Origin> {
        self.inner.hosts.origins()
    }

    /// Sends home everyone who waits for a task, with [`Error::Closing`]. For a program that is about to stop.
    pub fn stop_waiting(&self) {
        self.inner.closing.send_replace(true);
    }

    /// Comes back when nobody shall wait any longer.
    pub async fn until_closing(&self) {
        // An error would mean that the sender, which we hold, has gone.
        self.inner.closing.subscribe().wait_for(|closes| *closes).await.ok();
    }

    /// Lets go of everything as a crash would, except that it is tidy: changes that were begun are carried out, turns
    /// go on with their hosts, nothing more is recorded, and the next bridge takes it all up.
    pub async fn abandon(self) {
        self.inner.outbox.close().await;
        self.inner.changes.finish().await;
        self.inner.tasks.abort_all().await;
        // A host that comes up now would be nobody's.
        self.inner.hosts.start_none().await;
    }

    /// Ends every host, and what runs on them; nothing begins after that. What could not be ended is named.
    pub async fn stop_hosts(&self) -> Vec<String> {
        let stopped = self.to_its_end(|bridge| async move { Ok(bridge.inner.hosts.stop_all().await) }).await;
        stopped.unwrap_or_else(|error| vec![error.to_string()])
    }

    /// A caller's own name for a request is kept as it is for as long as its task, and everybody may read it.
    fn check_name(&self, client_request_id: Option<&str>) -> Result<(), Error> {
        let Some(name) = client_request_id else { return Ok(()) };
        let own = own_part(name);
        if own.chars().count() > NAME_MAX_CHARS {
            return Err(Error::BadRequestName("is too long: use up to 255 characters"));
        }
        // Without the name of a token before it (`token ci-key: 7`), which looks like the name of a secret.
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

    /// Has something go on by itself, until the bridge closes.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Whether a turn of the task is being driven.
    pub(crate) fn has_runner(&self, id: &TaskId) -> bool {
        self.runners().contains_key(id)
    }

    fn runner(&self, id: &TaskId) -> Option<mpsc::Sender<runner::Command>> {
        self.runners().get(id).cloned()
    }

    /// Commits, then tells.
    pub(crate) async fn commit(&self, batch: Vec<Write>) -> Result<(), store::Error> {
        let changed: Vec<TaskId> = batch.iter().filter_map(changed_task).collect();
        let has_letters = batch.iter().any(|write| matches!(write, Write::AddDelivery(_)));
        let has_attempts = batch.iter().any(|write| matches!(write, Write::SaveDelivery(_)));
        let has_sent = batch.iter().any(is_sent);
        let events = self.store.commit(batch).await?;
        self.news.tell_committed(events, changed);
        if has_letters || has_attempts {
            self.news.tell_deliveries();
        }
        if has_letters {
            self.outbox.look();
        }
        if has_sent {
            self.outbox.one_is_finished();
        }
        Ok(())
    }

    /// Saves a task with an event that tells its state.
    pub(crate) async fn save_state(&self, task: &mut Task) -> Result<(), store::Error> {
        self.commit(self.state_writes(task)).await
    }

    /// What saves a task with an event that tells its state.
    fn state_writes(&self, task: &mut Task) -> Vec<Write> {
        let now = self.now();
        task.updated_at = now;
        if task.status.is_at_rest() {
            task.completed_at = Some(now);
        }
        let mut batch = vec![Write::SaveTask(Box::new(task.clone())), state_event(task, now)];
        batch.extend(self.letters_of_rest(task, TurnFacts::default(), now));
        batch
    }

    /// What time it is.
    pub(crate) fn now(&self) -> TimeMs {
        self.config.clock.now()
    }

    pub(crate) fn random_hex(&self, digits: usize) -> String {
        self.config.random.hex(digits)
    }

    /// One line for the audit log.
    pub(crate) fn audit(&self, by: &str, action: &str, task_id: Option<&TaskId>, detail: &str) -> Write {
        audit(self.now(), by, action, task_id, detail)
    }

    pub(crate) fn line_up(&self, task: &Task) {
        let mut ticket = self.ticket(task);
        // Also if the limit has ended since it was told to wait: others have waited longer.
        let was_held_back = matches!(task.parked, Some(Parked::UsageLimit { .. }));
        ticket.is_held = was_held_back || self.accounts().limit(&ticket.home, &task.id, self.now()).is_some();
        let is_held = ticket.is_held;
        self.queue().wait(ticket);
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

    /// Begins whoever may work now.
    pub(crate) fn begin_next(self: &Arc<Self>) {
        // Whoever lines up now is the next bridge's.
        if self.hosts.are_closed() {
            return;
        }
        // At once: whoever does not wait any more has a runner.
        let mut queue = self.queue();
        for task_id in queue.begin() {
            self.run(task_id, runner::Mode::Fresh);
        }
    }

    /// Runs a task's open turn until its end, then lets the next one in.
    fn run(self: &Arc<Self>, task_id: TaskId, mode: runner::Mode) {
        let (commands, queue) = mpsc::channel(runner::COMMANDS);
        self.runners().insert(task_id.clone(), commands);
        self.news.turn_runs(&task_id);
        let inner = Arc::clone(self);
        self.tasks.spawn(async move {
            let run = runner::run(Arc::clone(&inner), task_id.clone(), queue, mode);
            if AssertUnwindSafe(run).catch_unwind().await.is_err() {
                // Others go on. The next start of the bridge takes this turn up again.
                error!(task = %task_id, "the runner of a turn panicked");
            }
            inner.runners().remove(&task_id);
            inner.news.turn_is_over(&task_id);
            inner.queue().finish(&task_id);
            inner.probe_is_over(&task_id).await;
            inner.begin_next();
        });
    }
}

/// Whether it says that a delivery is over, which a message may have waited for.
fn is_sent(write: &Write) -> bool {
    matches!(write, Write::SaveDelivery(one) if !outbox::State::UNFINISHED.contains(&one.state))
}

fn changed_task(write: &Write) -> Option<TaskId> {
    match write {
        Write::AddTask(task) | Write::SaveTask(task) => Some(task.id.clone()),
        Write::SaveRequest(request) => Some(request.task_id.clone()),
        Write::SaveTurn(_)
        | Write::SaveWholeChanges(_)
        | Write::Append { .. }
        | Write::AddDelivery(_)
        | Write::SaveDelivery(_)
        | Write::AddMessage(_)
        | Write::SaveMessage(_)
        | Write::SaveConversation(_)
        | Write::SaveChannel(_)
        | Write::SaveToken(_)
        | Write::HandOver { .. }
        | Write::Audit { .. } => None,
    }
}

/// The line that tells a task's state.
pub(crate) fn state_event(task: &Task, now: TimeMs) -> Write {
    let goes_on = task.status == Status::Paused && task.parked.is_some();
    append(&task.id, now, StateChanged::of(task, goes_on))
}

fn audit(at: TimeMs, by: &str, action: &str, task_id: Option<&TaskId>, detail: &str) -> Write {
    Write::Audit {
        at,
        actor: by.to_owned(),
        action: action.to_owned(),
        task_id: task_id.cloned(),
        detail: detail.to_owned(),
    }
}

/// One line for a task's log.
pub(crate) fn append(task_id: &TaskId, at: TimeMs, line: impl Into<Line>) -> Write {
    Write::Append { task_id: task_id.clone(), events: vec![NewEvent { at, line: line.into() }] }
}
