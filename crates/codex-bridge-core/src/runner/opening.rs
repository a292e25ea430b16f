//! Opening a task's thread: the one it has, or a new one.

use std::sync::Arc;
use std::time::Duration;

use codex_session::{
    Failure, FailureKind, Session, SessionConfig, SessionEvent, SteerOutcome, TurnOutcome, TurnResult,
};
use tokio::sync::mpsc;

use super::approver::People;
use super::{COMMANDS, Command, Mode, Runner, Work};
use crate::config::Config;
use crate::store;
use crate::task::{Settings, Task, TurnProgress};

/// A prompt that was on its way when we died makes its thread durable within so long, if it arrived.
const SECOND_LOOK: Duration = Duration::from_secs(1);

impl Runner {
    /// Opens the thread. None when the task has ended instead: it could not be opened, or was stopped meanwhile.
    pub(super) async fn open(
        &mut self,
        work: &mut Work,
        told: &mut mpsc::Receiver<SessionEvent>,
        journal: mpsc::Sender<SessionEvent>,
        mode: Mode,
    ) -> Result<Option<Session>, store::Error> {
        let mut config = session_config(&work.inner.config, &work.task.settings);
        config.journal = Some(journal);
        let opening = open_thread(work, config, mode);
        tokio::pin!(opening);
        let opened = loop {
            tokio::select! {
                opened = &mut opening => break opened,
                Some(command) = self.commands.recv() => match command {
                    // A turn that is taken up runs already, and one that is new takes it with its prompt.
                    Command::Steer(steer) if self.early.len() < COMMANDS => self.early.push(steer),
                    Command::Steer(steer) => drop(steer.reply.send(SteerOutcome::NoActiveTurn)),
                    Command::Interrupt { reply } => {
                        self.interrupters.push(reply);
                        // Dropping the future closes what it had opened.
                        work.end(stopped()).await?;
                        return Ok(None);
                    }
                },
            }
        };
        // The thread's opening itself is recorded by the caller, with more detail.
        while told.try_recv().is_ok() {}
        match opened {
            Ok(session) => Ok(Some(session)),
            Err(failure) => {
                work.end(TurnResult { error: Some(failure), ..TurnResult::default() }).await?;
                Ok(None)
            }
        }
    }
}

fn stopped() -> TurnResult {
    TurnResult { outcome: TurnOutcome::Interrupted, interrupted: true, ..TurnResult::default() }
}

/// How the sessions of a task are set up.
pub(crate) fn session_config(config: &Config, settings: &Settings) -> SessionConfig {
    let mut session = SessionConfig::new(&settings.cwd);
    session.sandbox = Some(settings.sandbox);
    session.approval_mode = Some(settings.approval_policy);
    session.model.clone_from(&settings.model);
    session.approvals = config.approvals.clone();
    session.redactor = config.redactor.clone();
    let ours = Some(config.developer_instructions.clone()).filter(|text| !text.is_empty());
    let instructions: Vec<String> = ours.into_iter().chain(settings.developer_instructions.clone()).collect();
    session.developer_instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
    session
}

/// Everything is taken out of `work` before the first wait, so that the task can be changed meanwhile.
fn open_thread(
    work: &Work,
    config: SessionConfig,
    mode: Mode,
) -> impl Future<Output = Result<Session, Failure>> + Send + 'static {
    let inner = Arc::clone(&work.inner);
    let task = work.task.clone();
    // Without a turn that Codex has taken, the thread is not durable: it may have to be a new one.
    let may_be_new = work.turn.number == 1 && work.turn.progress != TurnProgress::Accepted;
    async move {
        let dial = || inner.hosts.dial(&task);
        let people = || Some(Arc::new(People(Arc::clone(&inner))) as Arc<dyn codex_session::Approver>);
        let Some(thread_id) = task.thread_id.clone() else {
            return Session::start(config, dial(), people()).await;
        };
        let resumed = Session::resume(config.clone(), dial(), people(), thread_id.clone()).await;
        match resumed {
            Err(failure) if may_be_new && has_no_rollout(&failure) => {
                if mode == Mode::Recovered && host_lives(&inner, &task).await {
                    tokio::time::sleep(SECOND_LOOK).await;
                    let again = Session::resume(config.clone(), dial(), people(), thread_id).await;
                    if !again.as_ref().is_err_and(has_no_rollout) {
                        return again;
                    }
                }
                Session::start(config, dial(), people()).await
            }
            other => other,
        }
    }
}

async fn host_lives(inner: &crate::bridge::Inner, task: &Task) -> bool {
    match &task.epoch {
        Some(epoch) => inner.hosts.find(epoch).await.is_some(),
        None => false,
    }
}

/// codex 0.166 says so of a thread that never had a turn.
fn has_no_rollout(failure: &Failure) -> bool {
    failure.kind == FailureKind::Startup && failure.message.contains("no rollout found")
}
