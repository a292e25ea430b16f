//! Runs one turn of a task: opens the thread, sends the prompt, stores what happens and how the turn ends.
//!
//! The runner owns the task's row while it runs. Everything from Codex comes through the session's journal, in order,
//! and is committed before anyone else hears of it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use codex_session::{Failure, FailureKind, Session, TurnOptions, TurnResult, WorkLimit};
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tracing::field::Empty;
use tracing::{Instrument, Span, error, error_span, info, warn};

use crate::bridge::{Bridge, Inner};
use crate::failpoint;
use crate::store::{self, Write};
use crate::task::{Status, Task, TaskId, TimeMs, TurnProgress, TurnRecord};
use crate::telemetry::TurnSpan;
use crate::trust::Trust;

mod finish;
mod journal;
mod mailbox;
mod open;
mod unwritten;

use mailbox::Mailbox;
pub(crate) use mailbox::{COMMANDS, Command, Decide, Recorded, Steer};
pub(crate) use open::session_setup;
use unwritten::Unwritten;

/// Work is saved in steps of at least this.
const WORK_STEP_MS: u64 = 1_000;
/// For how many pending steers the author is remembered. Codex takes a steer with its next step, or never.
const STEERERS: usize = 256;
/// How many events of a session may wait to be stored.
const JOURNAL: usize = 256;

/// Why the runner starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A new turn.
    Fresh,
    /// A turn that was running when the last bridge ended.
    Recovered,
}

/// Runs one turn of a task. It alone changes the rows of the task, the turn and the turn's requests.
struct Runner<'a> {
    mailbox: &'a mut Mailbox,
    inner: Arc<Inner>,
    task: Task,
    turn: TurnRecord,
    /// Items that are already in the log.
    logged: HashSet<journal::LoggedItem>,
    /// Log lines for which the disk had no space, the oldest first.
    unwritten: Unwritten,
    /// When the turn began; for a recovered turn, when it was handed over.
    began_at: TimeMs,
    /// The fingerprint of the login when the turn began. If the turn fails, any other fingerprint is a new login.
    login_seen: String,
    /// Whether the model has answered.
    was_served: bool,
    /// The task's work time before this runner.
    worked_before_ms: u64,
    /// The work time of this runner.
    meter: Arc<AtomicU64>,
    /// The `client_id` and author of each pending steer, the oldest first.
    steerers: VecDeque<(String, String)>,
    /// The last diff from Codex, to be stored at the end.
    diff: Option<String>,
    /// Why the turn is being stopped, if it exceeded a limit.
    over_limit: Option<String>,
    /// Whether the turn's host died while no daemon was running.
    host_was_lost: bool,
    /// Whether the turn was being interrupted when the last bridge ended.
    was_interrupting: bool,
    /// The trust level for the whole turn.
    trust: Trust,
    /// The spans for the collector.
    telemetry: TurnSpan,
}

/// Runs the task's open turn to its end. If the store fails, the turn is loaded and resumed anew.
pub(crate) async fn run(
    inner: Arc<Inner>,
    task_id: TaskId,
    commands: mpsc::Receiver<Command>,
    mut mode: Mode,
) {
    let mut mailbox = Mailbox::new(Bridge { inner }, task_id, commands);
    loop {
        let ran = match Runner::load(&mut mailbox).await {
            Ok(Some(mut runner)) => {
                let span = runner.span();
                runner.drive(mode).instrument(span).await
            }
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let Err(error) = ran else { return };
        error!(task = %mailbox.task_id, %error, "the store failed; the turn is resumed in a moment");
        // The turn continues on its host in the meantime.
        mailbox.pause().await;
        mode = Mode::Recovered;
    }
}

impl<'a> Runner<'a> {
    async fn load(mailbox: &'a mut Mailbox) -> Result<Option<Self>, store::Error> {
        let inner = Arc::clone(&mailbox.bridge.inner);
        let task = inner.store.task(&mailbox.task_id).await?;
        let turn = inner.store.turns(&mailbox.task_id).await?.pop();
        let open = turn.filter(|turn| turn.progress != TurnProgress::Ended);
        let Some((task, turn)) = task.zip(open) else { return Ok(None) };
        let telemetry = TurnSpan::begin(&task, &turn);
        Ok(Some(Self {
            mailbox,
            began_at: turn.created_at,
            login_seen: inner.login_fingerprint(&task).await.unwrap_or_default(),
            inner,
            was_served: false,
            worked_before_ms: task.used.work_ms,
            meter: Arc::default(),
            task,
            turn,
            logged: HashSet::new(),
            unwritten: Unwritten::default(),
            steerers: VecDeque::new(),
            diff: None,
            over_limit: None,
            host_was_lost: false,
            was_interrupting: false,
            trust: Trust::Hostile,
            telemetry,
        }))
    }

    /// The span of every log line about this turn. The host is filled in once the thread is open.
    fn span(&self) -> Span {
        error_span!("turn", task = %self.task.id, turn = self.turn.number, host = Empty)
    }

    async fn drive(&mut self, mode: Mode) -> Result<(), store::Error> {
        if mode == Mode::Recovered {
            self.look_back().await?;
        } else {
            self.began_at = self.inner.now();
        }
        let Some(prompt) = self.prompt() else { return self.end(unreadable()).await };
        self.settle_trust(mode);
        self.begin().await?;
        info!(recovered = mode == Mode::Recovered, "the turn begins");
        let (journal, mut told) = mpsc::channel(JOURNAL);
        let opened = self.open(&mut told, journal, mode).await?;
        let Some(session) = opened else { return Ok(()) };
        let input = self.inner.input_of(&self.turn, prompt).await?;
        failpoint::hit("thread.before_record");
        self.thread_opened(&session).await?;
        failpoint::hit("thread.recorded");
        self.about_to_send().await?;
        failpoint::hit("prompt.recorded");

        let turn = session.run_turn(input, self.turn_options(mode));
        tokio::pin!(turn);
        // `run_turn` must begin before the early steers, which need a turn to be added to.
        let mut ended = (&mut turn).now_or_never();
        for steer in std::mem::take(&mut self.mailbox.early) {
            self.steer(steer, &session);
        }
        if self.was_interrupting {
            stop(&self.inner, &session);
        }
        let result = loop {
            if let Some(result) = ended.take() {
                break result;
            }
            // One event per command, so that a flood of either does not delay the other.
            if let Ok(event) = told.try_recv() {
                self.record(event, &session).await?;
            }
            tokio::select! {
                biased;
                Some(command) = self.mailbox.commands.recv() => self.on_command(command, &session).await?,
                Some(event) = told.recv() => self.record(event, &session).await?,
                result = &mut turn => ended = Some(result),
            }
        };
        while let Ok(event) = told.try_recv() {
            self.record(event, &session).await?;
        }
        failpoint::hit("completion.before_record");
        self.end(result).await?;
        failpoint::hit("completion.recorded");
        self.leave(&session).await;
        self.unload_if_distrusted().await;
        Ok(())
    }

    async fn on_command(&mut self, command: Command, session: &Session) -> Result<(), store::Error> {
        // Nothing here may wait for the session: it waits for the journal, which this task reads.
        match command {
            Command::Steer(steer) => self.steer(steer, session),
            Command::Decide(decide) => {
                if self.mailbox.decide(decide, Some(session)).await {
                    return Err(store::Error::Other(
                        "it is not known whether a decision is stored".to_owned(),
                    ));
                }
            }
            Command::Interrupt { reply } => {
                self.mailbox.interrupters.push(reply);
                if self.task.status != Status::Interrupting {
                    self.task.status = Status::Interrupting;
                    self.inner.save_state(&mut self.task).await?;
                }
                stop(&self.inner, session);
            }
        }
        Ok(())
    }

    /// Steers the turn. The author is logged when Codex takes the text.
    fn steer(&mut self, steer: Steer, session: &Session) {
        let Steer { text, client_id, by, reply } = steer;
        if self.steerers.len() >= STEERERS {
            self.steerers.pop_front();
        }
        self.steerers.push_back((client_id.clone(), by));
        let session = session.clone();
        let steered = async move { drop(reply.send(session.steer_as(text, Some(client_id)).await)) };
        self.inner.spawn(steered.in_current_span());
    }

    /// Loads what a recovered turn needs to know.
    async fn look_back(&mut self) -> Result<(), store::Error> {
        self.inner.news.turn_joined_midway(&self.task.id);
        let is_told_to_stop = !self.mailbox.interrupters.is_empty();
        self.was_interrupting = is_told_to_stop || self.task.status == Status::Interrupting;
        self.host_was_lost = self.task.epoch.is_some() && !self.inner.has_live_host(&self.task).await;
        self.remember_logged().await
    }

    /// Sets the trust level of this turn. A turn that still runs on a live host keeps the level under which its thread
    /// was opened. Every other turn gets the present level.
    fn settle_trust(&mut self, mode: Mode) {
        let runs_on =
            mode == Mode::Recovered && !self.host_was_lost && self.turn.progress == TurnProgress::Accepted;
        let of_then = self.task.settings.trust_of_turn.filter(|_| runs_on);
        self.trust = of_then.unwrap_or_else(|| self.inner.config.trust_of(&self.task.settings));
        self.task.settings.trust_of_turn = Some(self.trust);
    }

    /// Unloads the thread if its directory is no longer trusted. Otherwise the thread and the directory's MCP servers
    /// would stay loaded for half an hour.
    async fn unload_if_distrusted(&self) {
        let is_distrusted = self.inner.config.trust_of(&self.task.settings) != Trust::Trusted;
        if self.trust == Trust::Trusted
            && is_distrusted
            && let Err(error) = self.inner.unload_thread(&self.task).await
        {
            warn!(%error, "the thread of a directory that is no longer trusted could not be unloaded");
        }
    }

    async fn begin(&mut self) -> Result<(), store::Error> {
        self.task.status = if self.was_interrupting { Status::Interrupting } else { Status::Starting };
        (self.task.reason, self.task.parked) = (None, None);
        self.task.used.turns = self.turn.number;
        self.inner.save_state(&mut self.task).await
    }

    /// Records that the prompt may have been sent.
    async fn about_to_send(&mut self) -> Result<(), store::Error> {
        if self.turn.progress == TurnProgress::Recorded {
            self.turn.progress = TurnProgress::Sending;
            self.inner.commit(vec![Write::SaveTurn(Box::new(self.turn.clone()))]).await?;
        }
        Ok(())
    }

    /// The prompt as it must be sent; `None` if the sealing key is gone.
    fn prompt(&self) -> Option<String> {
        let sealed = self.turn.sealed_prompt.as_deref()?;
        String::from_utf8(self.inner.key.open(sealed, self.task.id.as_str()).ok()?).ok()
    }

    fn turn_options(&self, mode: Mode) -> TurnOptions {
        let left = self.task.work_left_ms().map(|left| left.max(1));
        TurnOptions {
            work_limit: left.map_or(WorkLimit::Never, |ms| WorkLimit::After(Duration::from_millis(ms))),
            client_id: Some(self.turn.client_id.clone()),
            may_have_been_sent: mode == Mode::Recovered,
            work_meter: Some(Arc::clone(&self.meter)),
            model: self.task.settings.model.clone(),
            effort: self.task.settings.effort.clone(),
            ..TurnOptions::default()
        }
    }

    /// Updates the task's work time, which limits need across restarts. Returns whether to save it now.
    fn count_work(&mut self) -> bool {
        let before = self.task.used.work_ms;
        self.task.used.work_ms = self.worked_before_ms + self.meter.load(Ordering::Relaxed);
        self.task.used.work_ms >= before + WORK_STEP_MS
    }

    /// The model has answered: that lifts the account's limit, if there was one.
    fn served(&mut self) {
        if !self.was_served {
            self.was_served = true;
            self.inner.was_served(&self.task, self.began_at);
        }
    }

    async fn save(&mut self) -> Result<(), store::Error> {
        self.task.updated_at = self.inner.now();
        self.inner.commit(vec![Write::SaveTask(Box::new(self.task.clone()))]).await
    }
}

fn unreadable() -> TurnResult {
    let message = "the prompt cannot be decrypted: the key that sealed it is gone; hand the work over again";
    TurnResult { error: Some(Failure::new(FailureKind::Configuration, message)), ..TurnResult::default() }
}

/// Interrupts the turn. Does not wait for it: the session waits for the journal, which the caller reads.
fn stop(inner: &Inner, session: &Session) {
    let session = session.clone();
    inner.spawn(async move { session.interrupt().await }.in_current_span());
}
