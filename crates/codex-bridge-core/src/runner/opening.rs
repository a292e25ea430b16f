//! Opening a task's thread: the one it has, or a new one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use codex_session::{
    Failure, FailureKind, Sandbox, Session, SessionConfig, SessionEvent, SteerOutcome, TurnOutcome,
    TurnResult,
};
use codex_wire::confinement::ProjectTrust;
use codex_wire::user_config::UserConfig;
use tokio::sync::mpsc;

use super::approver::People;
use super::{COMMANDS, Command, Mode, Runner, Work};
use crate::config::Config;
use crate::place::{self, Overlap, Place};
use crate::store;
use crate::task::{Settings, Task, TurnProgress};
use crate::trust::{Trust, instructions_of};

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
        let mut config = match session_config(&work.inner.config, &work.task.settings) {
            Ok(config) => config,
            Err(failure) => return work.end_with(failure).await.map(|()| None),
        };
        config.journal = Some(journal);
        let home = work.inner.login_home(&work.task);
        let users_before = UserConfig::read(&home);
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
        let checked = opened.and_then(|session| {
            check_trust(&users_before, &home, &work.task.settings)?;
            work.task.settings.place = Some(check_place(&work.task.settings)?);
            Ok(session)
        });
        match checked {
            Ok(session) => Ok(Some(session)),
            Err(failure) => work.end_with(failure).await.map(|()| None),
        }
    }
}

impl Work {
    async fn end_with(&mut self, failure: Failure) -> Result<(), store::Error> {
        self.end(TurnResult { error: Some(failure), ..TurnResult::default() }).await
    }
}

/// Whether Codex has taken the directory for trusted by itself, which it writes to the user's own file.
fn check_trust(before: &UserConfig, home: &Path, settings: &Settings) -> Result<(), Failure> {
    match UserConfig::read(home).new_project_above(&settings.cwd, before) {
        None => Ok(()),
        Some(path) => {
            let message = format!(
                "{} got an entry for {path} while the thread was opened. If that was you, continue the task; if not, \
                 remove the entry: with it Codex runs what {path}/.codex says",
                home.join("config.toml").display(),
            );
            Err(Failure::new(FailureKind::Breach, message))
        }
    }
}

fn stopped() -> TurnResult {
    TurnResult { outcome: TurnOutcome::Interrupted, interrupted: true, ..TurnResult::default() }
}

/// How the sessions of a task are set up; or why its directory cannot be used. Reads files of the directory.
pub(crate) fn session_config(config: &Config, settings: &Settings) -> Result<SessionConfig, Failure> {
    check_place(settings)?;
    check_grounds(config, settings)?;
    let trust = config.trust_of(settings);
    let mut session = SessionConfig::new(&settings.cwd);
    session.sandbox = settings.sandbox;
    session.network = settings.network;
    session.writable_roots.clone_from(&settings.writable_roots);
    session.approval_mode = settings.approval_policy;
    session.denied = config.denied_paths();
    session.command_variables = config.env.pass.iter().chain(config.env.set.keys()).cloned().collect();
    session.project = if trust == Trust::Trusted { ProjectTrust::Trusted } else { ProjectTrust::Untrusted };
    session.model.clone_from(&settings.model);
    session.approvals = config.approvals.clone();
    session.redactor = config.redactor.clone();
    let ours = Some(config.developer_instructions.clone()).filter(|text| !text.is_empty());
    let of_directory = if trust == Trust::Instructions { instructions_of(&settings.cwd) } else { None };
    let of_caller = settings.developer_instructions.clone();
    let instructions: Vec<String> = ours.into_iter().chain(of_directory).chain(of_caller).collect();
    session.developer_instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
    Ok(session)
}

/// Whether the task may work in its directory at all. Tasks from before this was asked are refused here.
fn check_grounds(config: &Config, settings: &Settings) -> Result<(), Failure> {
    match config.grounds.overlap(&settings.cwd) {
        None => Ok(()),
        Some(Overlap::Holds(_) | Overlap::HoldsHome(_)) if settings.sandbox == Sandbox::ReadOnly => Ok(()),
        Some(overlap) => {
            let cwd = settings.cwd.display();
            let message =
                format!("no task may write in {cwd}: {overlap}; start it again in a directory of its own");
            Err(Failure::new(FailureKind::Configuration, message))
        }
    }
}

/// Whether the directory is still the one that the task was handed over for.
pub(super) fn check_place(settings: &Settings) -> Result<Place, Failure> {
    Place::check(&settings.cwd, settings.place).map_err(|error| {
        let kind = match error {
            place::Error::Unusable { .. } => FailureKind::Startup,
            place::Error::Link { .. } | place::Error::Swapped { .. } => FailureKind::Breach,
        };
        Failure::new(kind, error.to_string())
    })
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
