//! Runs one turn of a task: opens its thread, sends its prompt, records what happens, and how it ends.
//!
//! The runner owns the task's row for as long as it runs. Everything that Codex tells comes through the session's
//! journal, in order, and is committed before anyone else hears of it.

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

/// Less work than this is not worth a write of its own.
const WORK_STEP_MS: u64 = 1_000;
/// Steers of which it is remembered who said them until Codex takes them: it does so with its next step, or never.
const STEERERS: usize = 256;
/// Events of a session that wait to be recorded.
const JOURNAL: usize = 256;

/// How the turn comes to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Its time has come.
    Fresh,
    /// It was under way when an earlier life of this program ended.
    Recovered,
}

/// Runs one turn of a task, and owns its rows meanwhile: no one else changes the task, the turn or its requests.
struct Runner<'a> {
    mailbox: &'a mut Mailbox,
    inner: Arc<Inner>,
    task: Task,
    turn: TurnRecord,
    /// The items that the log has already, by kind of line and id.
    logged: HashSet<journal::LoggedItem>,
    /// Lines that found no space, the oldest first.
    unwritten: Unwritten,
    /// When the turn began, for all that is certain.
    began_at: TimeMs,
    /// What the login looked like when the turn began: one that came while it failed is a new one.
    login_seen: String,
    /// Whether the model has answered.
    was_served: bool,
    /// What the task had worked before this life of the turn.
    worked_before_ms: u64,
    /// What it has worked in it.
    meter: Arc<AtomicU64>,
    /// Who said what Codex was given and has not taken yet, by our name for it; the oldest first.
    steerers: VecDeque<(String, String)>,
    /// The last diff that Codex told, for the end.
    diff: Option<String>,
    /// A limit that was passed, in words; the turn is being stopped for it.
    over_limit: Option<String>,
    /// Whether the host that the turn ran on died while nobody looked.
    host_was_lost: bool,
    /// Whether the turn was being stopped when an earlier life of this program ended.
    was_interrupting: bool,
    /// How far the directory was trusted when the thread was opened: that holds for the whole turn.
    trust: Trust,
    /// What a collector is told of the turn.
    telemetry: TurnSpan,
}

/// Runs the task's open turn to its end. A store that fails leaves the task as it stands, to be set right at the next
/// attempt: nothing is told that is not durable.
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
        error!(task = %mailbox.task_id, %error, "the store failed; the turn is taken up again in a moment");
        // The store failed. The turn goes on without us: it is taken up again when the store is back.
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

    /// What every line of the log about this turn says. The host is not known before the thread is opened.
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
        failpoint::hit("thread.before_record");
        self.thread_opened(&session).await?;
        failpoint::hit("thread.recorded");
        self.about_to_send().await?;
        failpoint::hit("prompt.recorded");

        let turn = session.run_turn(prompt, self.turn_options(mode));
        tokio::pin!(turn);
        // Its beginning is said before what came early, which needs a turn to be added to.
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
            // One command and one event in turn: a flood of either does not keep the other waiting.
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
        // The session waits for the journal, which is read here: so nothing of it is waited for here.
        match command {
            Command::Steer(steer) => self.steer(steer, session),
            Command::Decide(decide) => self.mailbox.decide(decide, Some(session)).await,
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

    /// Adds to the turn. Who said it is known when Codex has taken it.
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

    /// What is to be known of a turn that was under way before us.
    async fn look_back(&mut self) -> Result<(), store::Error> {
        self.inner.news.turn_was_joined_midway(&self.task.id);
        let is_told_to_stop = !self.mailbox.interrupters.is_empty();
        self.was_interrupting = is_told_to_stop || self.task.status == Status::Interrupting;
        self.host_was_lost = match &self.task.epoch {
            Some(epoch) => !self.inner.hosts.lives(epoch).await,
            None => false,
        };
        self.remember_logged().await
    }

    /// How far the directory is trusted in this turn. What runs on a living host since before us was opened under the level
    /// of then, and cannot have another; everything else goes by the level of now.
    fn settle_trust(&mut self, mode: Mode) {
        let runs_on =
            mode == Mode::Recovered && !self.host_was_lost && self.turn.progress == TurnProgress::Accepted;
        let of_then = self.task.settings.trust_of_turn.filter(|_| runs_on);
        self.trust = of_then.unwrap_or_else(|| self.inner.config.trust_of(&self.task.settings));
        self.task.settings.trust_of_turn = Some(self.trust);
    }

    /// A thread stays loaded for half an hour, with the MCP servers of its directory: not if that was trusted when the turn
    /// began and is not any more. Should it fail, the next turn opens the thread anew all the same.
    async fn unload_if_distrusted(&self) {
        let is_distrusted = self.inner.config.trust_of(&self.task.settings) != Trust::Trusted;
        if self.trust == Trust::Trusted
            && is_distrusted
            && let Err(error) = self.inner.unload_thread(&self.task).await
        {
            warn!(%error, "the thread of a directory that is not trusted any more stays loaded for now");
        }
    }

    async fn begin(&mut self) -> Result<(), store::Error> {
        self.task.status = if self.was_interrupting { Status::Interrupting } else { Status::Starting };
        (self.task.reason, self.task.parked) = (None, None);
        self.task.used.turns = self.turn.number;
        self.inner.save_state(&mut self.task).await
    }

    /// From here on the prompt may have been sent.
    async fn about_to_send(&mut self) -> Result<(), store::Error> {
        if self.turn.progress == TurnProgress::Recorded {
            self.turn.progress = TurnProgress::Sending;
            self.inner.commit(vec![Write::SaveTurn(Box::new(self.turn.clone()))]).await?;
        }
        Ok(())
    }

    /// The prompt as it must be sent; none if the key that sealed it is gone.
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

    /// What the task has worked so far, so that a limit on it outlives us. Says whether that is worth a write.
    fn count_work(&mut self) -> bool {
        let before = self.task.used.work_ms;
        self.task.used.work_ms = self.worked_before_ms + self.meter.load(Ordering::Relaxed);
        self.task.used.work_ms >= before + WORK_STEP_MS
    }

    /// The model has answered: the account's limit, if there was one, is over.
    fn served(&mut self) {
        if !self.was_served {
            self.was_served = true;
            self.inner.was_served(&self.task, self.began_at);
        }
    }

    async fn save(&mut self) -> Result<(), store::Error> {
        self.task.updated_at = self.inner.now();
        self.inner.commit(vec![Write::SaveTask(Box::new(self.task.clone()))]).await?;
        Ok(())
    }
}

fn unreadable() -> TurnResult {
    let message = "the prompt cannot be opened: the key that sealed it is gone; hand the work over again";
    TurnResult { error: Some(Failure::new(FailureKind::Configuration, message)), ..TurnResult::default() }
}

/// Stops the turn. Not waited for: the session waits for the journal, which the caller reads.
fn stop(inner: &Inner, session: &Session) {
    let session = session.clone();
    inner.spawn(async move { session.interrupt().await }.in_current_span());
}
