//! The actor of a session: owns the connection and the running turn, and performs the effects of the turn machine.
//!
//! It never waits inline for a call, a person or a process: calls are posted, people are asked in tasks, and a thread
//! is opened in a separate future. So an interrupt, a steer or the death of Codex is noticed at once.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use codex_wire::ThreadId;
use codex_wire::answer::Answer;
use codex_wire::backing::Backing;
use codex_wire::call::{ThreadUnsubscribe, TurnStart, UserInput};
use codex_wire::event::Event;
use codex_wire::host::Reach;
use codex_wire::peer::{Closed, Delivery, IncomingRequest, Notification};
use codex_wire::user_config::UserConfig;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::bounds_watch::Look;
use super::open::{self, Opened, Source, UnderWay};
use super::running_turn::{Posted, Running};
use super::{Command, Job, Session, SessionStatus};
use crate::approver::Approver;
use crate::decision::RequestKey;
use crate::failure::{Failure, FailureKind};
use crate::link::{Backend, Dial};
use crate::result::{TurnOutcome, TurnResult};
use crate::session_event::{EventWriter, SessionEvent};
use crate::settings::{SessionConfig, TurnOptions};
use crate::turn::{Begin, DecideOutcome, Effect, Input, Loss, Millis, Outgoing, Plan, SteerOutcome, Turn};

/// Most requests that wait for a turn to be joined.
const HELD_REQUESTS: usize = 64;

pub(super) struct Actor {
    pub(super) config: Arc<SessionConfig>,
    pub(super) dial: Arc<dyn Dial>,
    pub(super) approver: Option<Arc<dyn Approver>>,
    commands: mpsc::Receiver<Command>,
    pub(super) events: broadcast::Sender<SessionEvent>,
    origin: Instant,
    /// Where the thread comes from.
    source: Source,
    /// The thread, once it exists; it is durable only after its first turn.
    pub(super) thread_id: Option<ThreadId>,
    pub(super) had_a_turn: bool,
    /// The path of the thread's rollout, as last reported.
    pub(super) rollout: Option<PathBuf>,
    /// How files of Codex's user are read, since the last opening.
    pub(super) reach: Reach,
    /// Paths that no command may read or write, as they were last sent.
    pub(super) denied: Vec<String>,
    pub(super) opened: Option<Opened>,
    /// The pending question to a launcher about the user's `config.toml`.
    pub(super) look: Option<Look>,
    /// The end of the turn, held back until the launcher has answered. Later messages of Codex wait for it.
    pub(super) held_end: Option<Input>,
    opening: Option<OpeningFuture>,
    /// Callers that wait for the thread to be open.
    openers: Vec<oneshot::Sender<Result<ThreadId, Failure>>>,
    /// A turn that waits for the thread to be open.
    waiting: Option<Waiting>,
    pub(super) running: Option<Running>,
    pub(super) reconnecting: Option<ReconnectFuture>,
    pub(super) posted: HashMap<u64, Posted>,
    pub(super) next_token: u64,
    /// Requests of a turn that nobody has joined yet.
    held: Vec<IncomingRequest>,
    /// The tasks that ask about a request. Their results are inputs of the turn.
    pub(super) answers: JoinSet<(RequestKey, Input)>,
    pub(super) asked: HashMap<RequestKey, AbortHandle>,
    pub(super) farewells: JoinSet<()>,
    /// The host whose connection was lost in a turn.
    pub(super) lost_host: Option<Arc<dyn Backing>>,
    /// Cancelled when the session is closed.
    pub(super) closing: CancellationToken,
}

type OpeningFuture = Pin<Box<dyn Future<Output = Result<Opened, Failure>> + Send>>;
type ReconnectFuture = Pin<Box<dyn Future<Output = Result<Opened, String>> + Send>>;

/// A turn that waits for the thread to be open.
struct Waiting {
    job: Job,
    options: Box<TurnOptions>,
    reply: oneshot::Sender<TurnResult>,
}

enum Wake {
    Command(Option<Command>),
    Delivery(Option<Delivery>),
    Opened(Result<Opened, Failure>),
    Reconnected(Result<Opened, String>),
    Looked(Option<UserConfig>),
    Answered(Result<(RequestKey, Input), JoinError>),
    Time,
}

impl Actor {
    pub(super) fn new(session: &Session, commands: mpsc::Receiver<Command>, source: Source) -> Self {
        Self {
            config: Arc::clone(&session.config),
            dial: Arc::clone(&session.dial),
            approver: session.approver.clone(),
            commands,
            events: session.events.clone(),
            origin: Instant::now(),
            had_a_turn: matches!(source, Source::Resume(_)),
            thread_id: match &source {
                Source::Resume(thread_id) => Some(thread_id.clone()),
                Source::New | Source::Fork(_) => None,
            },
            source,
            rollout: None,
            reach: Reach::default(),
            denied: Vec::new(),
            opened: None,
            look: None,
            held_end: None,
            opening: None,
            openers: Vec::new(),
            waiting: None,
            running: None,
            reconnecting: None,
            posted: HashMap::new(),
            next_token: 0,
            held: Vec::new(),
            answers: JoinSet::new(),
            asked: HashMap::new(),
            farewells: JoinSet::new(),
            lost_host: None,
            closing: CancellationToken::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let closer = loop {
            match self.next_wake().await {
                Wake::Command(Some(Command::Close { reply })) => break Some(reply),
                // All handles were dropped.
                Wake::Command(None) => break None,
                Wake::Command(Some(command)) => self.on_command(command).await,
                Wake::Delivery(Some(delivery)) => self.on_delivery(delivery).await,
                Wake::Delivery(None) => self.on_delivery(Delivery::Closed(Closed::ByServer)).await,
                Wake::Opened(result) => self.on_opened(result).await,
                Wake::Reconnected(result) => self.on_reconnected(result).await,
                Wake::Looked(now) => self.on_looked(now).await,
                Wake::Answered(Ok((key, input))) => {
                    self.asked.remove(&key);
                    self.step(input).await;
                }
                // The task was aborted: its answer is no longer needed.
                Wake::Answered(Err(_)) => {}
                Wake::Time => self.step(Input::Time).await,
            }
        };
        self.close().await;
        if let Some(closer) = closer {
            // The caller may not wait for it.
            closer.send(()).ok();
        }
    }

    async fn next_wake(&mut self) -> Wake {
        let deadline = self.running.as_ref().and_then(|running| running.turn.next_deadline(self.now()));
        let wake_at = self.origin + Duration::from_millis(deadline.unwrap_or_default());
        // Messages of Codex come last, so that a flood of them delays nothing else. The order is fixed, so that runs
        // with the same events are the same.
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(wake_at), if deadline.is_some() => Wake::Time,
            command = self.commands.recv() => Wake::Command(command),
            Some(now) = poll_optional(&mut self.look) => Wake::Looked(now),
            Some(result) = poll_optional(&mut self.opening) => Wake::Opened(result),
            Some(result) = poll_optional(&mut self.reconnecting) => Wake::Reconnected(result),
            Some(answered) = self.answers.join_next() => Wake::Answered(answered),
            delivery = async { self.opened.as_mut()?.inbox.recv().await },
                if self.opened.is_some() && self.held_end.is_none() =>
            {
                Wake::Delivery(delivery)
            }
        }
    }

    pub(super) fn now(&self) -> Millis {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn on_command(&mut self, command: Command) {
        match command {
            Command::Open { reply } => self.on_open(reply),
            Command::Run { job, options, reply } => self.on_run(Waiting { job, options, reply }).await,
            Command::Steer { input, client_id, reply } => self.on_steer(input, client_id, reply).await,
            Command::Decide { decide, reply } => {
                let turn = self.running.as_ref().map(|running| &running.turn);
                let outcome = turn.map_or(DecideOutcome::NotOpen, |turn| turn.outcome_of(&decide));
                // The caller may not wait for it.
                reply.send(outcome).ok();
                self.step(Input::Decide(decide)).await;
            }
            Command::Interrupt => self.on_interrupt().await,
            Command::Status { reply } => drop(reply.send(self.status())),
            Command::Close { .. } => {}
        }
    }

    fn on_open(&mut self, reply: oneshot::Sender<Result<ThreadId, Failure>>) {
        if let Some(thread_id) = self.live_thread() {
            // The caller may not wait for it.
            reply.send(Ok(thread_id)).ok();
        } else {
            self.openers.push(reply);
            self.begin_opening();
        }
    }

    /// The thread, if it is open on a live connection.
    fn live_thread(&self) -> Option<ThreadId> {
        let opened = self.opened.as_ref()?;
        opened.link.connection.peer.closed().is_none().then(|| opened.thread_id.clone())
    }

    fn status(&self) -> SessionStatus {
        let link = self.opened.as_ref().map(|opened| &opened.link);
        let (child_pid, host) = match link.map(|link| &link.backend) {
            Some(Backend::Child(child)) => (Some(child.pid()), None),
            Some(Backend::Host(host)) => (None, Some(host.id().to_owned())),
            Some(Backend::Other(_) | Backend::Unknown) | None => (None, None),
        };
        SessionStatus {
            thread_id: self.thread_id.clone(),
            unjoined_turn: self.opened.as_ref().and_then(|opened| opened.running_turn.clone()),
            child_pid,
            epoch: link.map(|link| link.connection.epoch.clone()),
            host,
        }
    }

    fn begin_opening(&mut self) {
        if self.opening.is_none() {
            self.leave_link();
            // A thread without a turn is not durable: it is replaced by a new one.
            let source = match &self.thread_id {
                Some(thread_id) if self.had_a_turn => Source::Resume(thread_id.clone()),
                _ => self.source.clone(),
            };
            let (config, dial) = (Arc::clone(&self.config), Arc::clone(&self.dial));
            let opening = open::open(config, dial, source, self.closing.clone());
            let mut farewells = std::mem::take(&mut self.farewells);
            self.opening = Some(Box::pin(async move {
                // A thread has one writer: our previous Codex may still be ending (codex 0.166: up to 5 s).
                while farewells.join_next().await.is_some() {}
                opening.await
            }));
        }
    }

    async fn on_opened(&mut self, result: Result<Opened, Failure>) {
        self.opening = None;
        match result {
            Ok(opened) => {
                self.thread_id = Some(opened.thread_id.clone());
                // A branch is on disk from the start (codex 0.166), unlike a new thread.
                self.had_a_turn |= matches!(self.source, Source::Fork(_));
                let warning = opened.link.connection.server.warning.clone();
                self.tell(SessionEvent::ThreadOpened { thread_id: opened.thread_id.clone() }).await;
                if let Some(message) = warning {
                    self.tell(SessionEvent::Warning { message }).await;
                }
                for opener in std::mem::take(&mut self.openers) {
                    opener.send(Ok(opened.thread_id.clone())).ok();
                }
                self.take_up(opened);
                if let Some(waiting) = self.waiting.take() {
                    self.begin_turn(waiting).await;
                }
            }
            Err(mut failure) => {
                failure.redact(&self.config.redactor);
                for opener in std::mem::take(&mut self.openers) {
                    opener.send(Err(failure.clone())).ok();
                }
                if let Some(waiting) = self.waiting.take() {
                    let mut result = TurnResult::not_begun(TurnOutcome::Failed, Some(failure));
                    result.should_retire = true;
                    result.redact(&self.config.redactor);
                    waiting.reply.send(result).ok();
                }
            }
        }
    }

    fn take_up(&mut self, opened: Opened) {
        self.rollout.clone_from(&opened.rollout);
        self.reach = opened.link.reach();
        self.look = None;
        self.denied = opened.confinement.denied.iter().cloned().collect();
        self.opened = Some(opened);
    }

    async fn on_run(&mut self, waiting: Waiting) {
        if self.running.is_some() || self.waiting.is_some() {
            let failure =
                Failure::new(FailureKind::Configuration, "a turn is already running in this session");
            waiting.reply.send(TurnResult::not_begun(TurnOutcome::Failed, Some(failure))).ok();
        } else if self.live_thread().is_some() {
            self.begin_turn(waiting).await;
        } else {
            self.waiting = Some(waiting);
            self.begin_opening();
        }
    }

    async fn begin_turn(&mut self, waiting: Waiting) {
        let Waiting { job, options, reply } = waiting;
        let (Some(opened), limits) = (self.opened.as_mut(), options.limits()) else { return };
        let (thread_id, connection) = (opened.thread_id.clone(), opened.link.connection.clone());
        let plan = limits.and_then(|limits| {
            Ok(Plan {
                begin: begin(&self.config, opened, job, &options)?,
                epoch: opened.link.connection.epoch.clone(),
                limits,
                policy: self.config.approvals.clone(),
                redactor: self.config.redactor.clone(),
                someone_answers: self.config.takes_decisions || self.approver.is_some(),
                thread_id: thread_id.clone(),
            })
        });
        let plan = match plan {
            Ok(plan) => plan,
            Err(failure) => {
                reply.send(TurnResult::not_begun(TurnOutcome::Failed, Some(failure))).ok();
                return;
            }
        };
        let writer = EventWriter::new(
            thread_id.as_str(),
            self.config.own_mcp_servers.clone(),
            self.config.redactor.clone(),
        );
        let mut effects = Vec::new();
        let turn = Turn::begin(plan, self.now(), &mut effects);
        let (steers, work_meter) = (HashMap::new(), options.work_meter);
        self.running = Some(Running { turn, writer, connection, reply, steers, work_meter });
        self.perform(effects).await;
        self.tell_of_what_is_under_way().await;
        for IncomingRequest { id, request } in std::mem::take(&mut self.held) {
            self.step(Input::Request { id, request: Box::new(request) }).await;
        }
    }

    /// Reports the running items of a joined turn, before the requests about them.
    async fn tell_of_what_is_under_way(&mut self) {
        let Some(opened) = &mut self.opened else { return };
        let (thread_id, under_way) = (opened.thread_id.clone(), opened.under_way.take());
        let Some(UnderWay { turn_id, items }) = under_way else { return };
        for item in items {
            let (thread_id, turn_id) = (Some(thread_id.clone()), Some(turn_id.clone()));
            self.step(Input::Event { thread_id, turn_id, event: Event::ItemStarted(item) }).await;
        }
    }

    async fn on_steer(
        &mut self,
        input: Vec<UserInput>,
        client_id: Option<String>,
        reply: oneshot::Sender<SteerOutcome>,
    ) {
        let token = self.new_token();
        match &mut self.running {
            Some(running) => {
                running.steers.insert(token, reply);
                self.step(Input::Steer { token, input, client_id }).await;
            }
            None => drop(reply.send(SteerOutcome::NoActiveTurn)),
        }
    }

    async fn on_interrupt(&mut self) {
        // A turn that has not begun is not started.
        if let Some(waiting) = self.waiting.take() {
            waiting.reply.send(TurnResult::not_begun(TurnOutcome::Interrupted, None)).ok();
        }
        if self.running.is_none() {
            self.interrupt_unjoined().await;
        }
        self.step(Input::Interrupt).await;
    }

    /// Stops a turn that ran when the thread was resumed and that was not joined.
    async fn interrupt_unjoined(&mut self) {
        let unjoined = self.opened.as_ref().and_then(|opened| opened.running_turn.clone());
        if let Some(turn_id) = unjoined {
            self.held.clear();
            self.post(Outgoing::Interrupt { turn_id: turn_id.0 }).await;
            self.post(Outgoing::CleanTerminals).await;
        }
    }

    async fn on_delivery(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Notification(note) => {
                if self.running.is_none() {
                    self.watch_unjoined(&note);
                    self.watch_bounds(note.thread_id.as_ref(), &note.event()).await;
                } else {
                    let event = note.event();
                    self.watch_bounds(note.thread_id.as_ref(), &event).await;
                    let (thread_id, turn_id) = (note.thread_id.clone(), note.turn_id.clone());
                    drop(note);
                    if let Some(input) = self.hold_end(Input::Event { thread_id, turn_id, event }) {
                        self.step(input).await;
                    }
                }
            }
            Delivery::Request(request) => self.on_request(*request).await,
            Delivery::Reply { token, result } => {
                if let Some(reply) = self.posted.remove(&token).and_then(|posted| posted.read(result)) {
                    self.step(Input::Reply(reply)).await;
                }
            }
            Delivery::Closed(reason) => self.on_closed(&reason).await,
        }
    }

    /// Watches for the end of a turn that was not joined: then the thread is free.
    fn watch_unjoined(&mut self, note: &Notification) {
        if let Some(opened) = &mut self.opened
            && &*note.method == "turn/completed"
            && opened.running_turn == note.turn_id
        {
            opened.running_turn = None;
            self.held.clear();
        }
    }

    async fn on_request(&mut self, incoming: IncomingRequest) {
        if self.running.is_some() {
            let IncomingRequest { id, request } = incoming;
            return self.step(Input::Request { id, request: Box::new(request) }).await;
        }
        let Some(opened) = &self.opened else { return };
        if opened.running_turn.is_some() && self.held.len() < HELD_REQUESTS {
            return self.held.push(incoming);
        }
        let refusal = Answer::fail_closed(&incoming.request);
        warn!(request = ?incoming.id, "a request of Codex is declined: this session runs no turn");
        if let Err(error) = opened.link.connection.peer.respond(&incoming.id, refusal).await {
            warn!(request = ?incoming.id, %error, "the refusal of a request could not be sent");
        }
    }

    pub(super) async fn on_closed(&mut self, reason: &Closed) {
        self.let_end().await;
        self.posted.clear();
        let Some(opened) = self.opened.take() else { return };
        if self.running.is_some() {
            self.lost_host = match &opened.link.backend {
                Backend::Host(host) => Some(Arc::new(host.clone()) as Arc<dyn Backing>),
                Backend::Other(server) => Some(Arc::clone(server)),
                Backend::Child(_) | Backend::Unknown => None,
            };
            let loss = match reason {
                Closed::ByUs => Loss::ClosedByUs,
                _ if opened.link.outlives_connection() => Loss::HostLives,
                _ => Loss::HostGone(opened.link.how_it_ended().await),
            };
            self.step(Input::Lost(loss)).await;
        }
        self.held.clear();
        self.farewells.spawn(async move { drop(opened.link.leave().await) });
    }

    async fn on_reconnected(&mut self, result: Result<Opened, String>) {
        self.reconnecting = None;
        match result {
            Ok(opened) => {
                let epoch = opened.link.connection.epoch.clone();
                if let Some(running) = &mut self.running {
                    running.connection = opened.link.connection.clone();
                }
                self.take_up(opened);
                self.step(Input::Attached { epoch }).await;
                self.tell_of_what_is_under_way().await;
            }
            Err(how) => self.step(Input::Lost(Loss::HostGone(how))).await,
        }
    }

    /// Passes an input to the machine and performs its effects.
    pub(super) async fn step(&mut self, input: Input) {
        let now = self.now();
        let Some(running) = &mut self.running else { return };
        let mut effects = Vec::new();
        running.turn.step(input, now, &mut effects);
        running.show_work(now);
        for effect in &mut effects {
            if let Effect::End(result) = effect
                && let Some(error) = result.error.as_mut().filter(|error| error.wants_stderr())
            {
                error.stderr_tail = running.connection.stderr_tail(self.config.stderr_tail_lines).await;
            }
        }
        self.perform(effects).await;
    }

    pub(super) async fn end_turn(&mut self, mut result: TurnResult) {
        let Some(mut running) = self.running.take() else { return };
        self.reconnecting = None;
        self.held_end = None;
        self.posted.clear();
        self.answers.abort_all();
        self.asked.clear();
        let mut told = Vec::new();
        running.writer.tell_end(result.outcome, self.now(), &mut told);
        self.tell_all(told).await;
        result.work_ms = running.turn.worked_ms(self.now());
        result.redact(&self.config.redactor);
        if result.should_retire {
            self.leave_link();
        }
        if let Some(opened) = &mut self.opened {
            opened.running_turn = None;
        }
        // The caller may not wait for it.
        running.reply.send(result).ok();
    }

    /// Closes the connection and ends the session's own Codex, in a task.
    pub(super) fn leave_link(&mut self) {
        if let Some(opened) = self.opened.take() {
            self.farewells.spawn(async move {
                if let Err(error) = opened.link.leave().await {
                    warn!(error, "what the session ran on could not be left");
                }
            });
        }
    }

    async fn close(mut self) {
        self.closing.cancel();
        self.step(Input::Lost(Loss::ClosedByUs)).await;
        if let Some(waiting) = self.waiting.take() {
            let failure = Failure::new(FailureKind::Closed, "the session was closed before the turn began");
            waiting.reply.send(TurnResult::not_begun(TurnOutcome::Failed, Some(failure))).ok();
        }
        if let Some(opening) = self.opening.take()
            && let Ok(opened) = opening.await
        {
            self.opened = Some(opened);
        }
        if let Some(opened) = self.opened.take() {
            if let Backend::Host(_) | Backend::Other(_) = opened.link.backend {
                let unsubscribe = ThreadUnsubscribe { thread_id: opened.thread_id.clone() };
                let limit = self.config.call_limits.interrupt;
                if let Err(error) = opened.link.connection.peer.call(&unsubscribe, limit).await {
                    debug!(%error, "the host could not be told to unload a thread");
                }
            }
            if let Err(error) = opened.link.leave().await {
                warn!(error, "what the session ran on could not be left");
            }
        }
        while self.farewells.join_next().await.is_some() {}
    }
}

async fn poll_optional<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> Option<T> {
    Some(future.as_mut()?.await)
}

fn begin(
    config: &SessionConfig,
    opened: &mut Opened,
    job: Job,
    options: &TurnOptions,
) -> Result<Begin, Failure> {
    match job {
        Job::Prompt(input) => {
            // codex 0.166 treats a prompt while a turn runs as a steer.
            if opened.running_turn.is_some() && !options.may_have_been_sent {
                let message =
                    "a turn is already running on this thread: join it, or interrupt it and try again";
                return Err(Failure::new(FailureKind::Configuration, message));
            }
            let start = turn_start(config, opened, input, options);
            Ok(if options.may_have_been_sent {
                Begin::PromptOnce {
                    start: Box::new(start),
                    host_lives: opened.link.connection.server_lives(),
                }
            } else {
                Begin::Prompt(Box::new(start))
            })
        }
        Job::Join => opened.running_turn.take().map(Begin::Attach).ok_or_else(|| {
            Failure::new(FailureKind::Configuration, "no turn was running when the thread was resumed")
        }),
        Job::Compact => Ok(Begin::Compact),
    }
}

fn turn_start(
    config: &SessionConfig,
    opened: &Opened,
    input: Vec<UserInput>,
    options: &TurnOptions,
) -> TurnStart {
    let settings = config.thread_settings(&opened.confinement);
    let random_id = || format!("{:032x}", rand::random::<u128>());
    TurnStart {
        thread_id: opened.thread_id.0.clone(),
        input,
        client_user_message_id: Some(options.client_id.clone().unwrap_or_else(random_id)),
        cwd: settings.cwd,
        approval_policy: settings.approval_policy,
        approvals_reviewer: settings.approvals_reviewer,
        permissions: settings.permissions,
        model: options.model.clone(),
        effort: options.effort.clone(),
        output_schema: options.output_schema.clone(),
    }
}
