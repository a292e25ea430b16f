//! Opens a task's thread, or a new one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use codex_session::{
    Failure, FailureKind, Sandbox, Session, SessionConfig, SessionEvent, TurnOutcome, TurnResult,
};
use codex_wire::confinement::ProjectTrust;
use codex_wire::host::Reach;
use tokio::sync::mpsc;

use super::{Mode, Runner};
use crate::config::Config;
use crate::event::Warning;
use crate::place::{self, Overlap, Place};
use crate::skills;
use crate::store;
use crate::task::{Settings, TurnProgress};
use crate::trust::{Instructions, Trust, instructions_of};

/// A prompt that reached Codex just before a crash makes its thread durable within this time.
const SECOND_LOOK: Duration = Duration::from_secs(1);

impl Runner<'_> {
    /// Opens the thread. `None` if the turn has ended instead: it could not be opened, or was interrupted.
    pub(super) async fn open(
        &mut self,
        told: &mut mpsc::Receiver<SessionEvent>,
        journal: mpsc::Sender<SessionEvent>,
        mode: Mode,
    ) -> Result<Option<Session>, store::Error> {
        let mut config = match session_setup(&self.inner.config, &self.task.settings, self.trust) {
            Ok(Setup { session, left_out }) => {
                for message in left_out {
                    self.log(Warning { message }).await?;
                }
                session
            }
            Err(failure) => return self.end_with(failure).await.map(|()| None),
        };
        (config.journal, config.takes_decisions) = (Some(journal), true);
        config.approvals.escalations = self.inner.config.escalations_of(&self.task);
        let opening = open_thread(self, config, mode);
        tokio::pin!(opening);
        let opened = loop {
            tokio::select! {
                biased;
                opened = &mut opening => break opened,
                Some(command) = self.mailbox.commands.recv() => if self.mailbox.keep(command).await {
                    // Dropping `opening` closes what it had opened.
                    self.end(stopped()).await?;
                    return Ok(None);
                },
            }
        };
        // The caller stores the opening, with more detail.
        while told.try_recv().is_ok() {}
        let checked = opened.and_then(|session| {
            self.task.settings.place = Some(check_place(&self.task.settings)?);
            Ok(session)
        });
        match checked {
            Ok(session) => Ok(Some(session)),
            Err(failure) => self.end_with(failure).await.map(|()| None),
        }
    }

    async fn end_with(&mut self, failure: Failure) -> Result<(), store::Error> {
        self.end(TurnResult { error: Some(failure), ..TurnResult::default() }).await
    }
}

fn stopped() -> TurnResult {
    TurnResult { outcome: TurnOutcome::Interrupted, interrupted: true, ..TurnResult::default() }
}

/// The setup of a task's sessions.
pub(crate) struct Setup {
    pub(crate) session: SessionConfig,
    /// Instruction files of the directory that are not used, with the reasons.
    pub(crate) left_out: Vec<String>,
}

/// The setup of a task's sessions, or why its directory cannot be used. Reads files of the directory.
pub(crate) fn session_setup(config: &Config, settings: &Settings, trust: Trust) -> Result<Setup, Failure> {
    check_place(settings)?;
    check_grounds(config, settings)?;
    let mut session = SessionConfig::new(&settings.cwd);
    session.sandbox = settings.sandbox;
    session.network = settings.network;
    session.writable_roots.clone_from(&settings.writable_roots);
    session.approval_mode = settings.approval_policy;
    session.denied = config.denied_paths();
    session.temp_dir = config.temp_dir();
    session.command_variables = config.env.pass.iter().chain(config.env.set.keys()).cloned().collect();
    session.project = if trust == Trust::Trusted {
        ProjectTrust::Trusted { root: config.trusted_root_of(settings) }
    } else {
        ProjectTrust::Untrusted
    };
    session.read_only = config.read_only_for(&settings.cwd);
    session.command_path.clone_from(&config.command_path);
    session.model.clone_from(&settings.model);
    session.approvals = config.approvals.clone();
    session.redactor = config.redactor.clone();
    let ours = Some(config.developer_instructions.clone()).filter(|text| !text.is_empty());
    let Instructions { text: of_directory, left_out } = match trust {
        Trust::Instructions => instructions_of(&settings.cwd),
        // Codex itself reads the instructions of a trusted directory.
        Trust::Hostile | Trust::Trusted => Instructions::default(),
    };
    let of_caller = settings.developer_instructions.clone();
    let home = config.home_of(settings.codex_home.as_ref());
    // A CODEX_HOME of another user may contain links to anywhere, so it is not read.
    let own_home = (config.reach == Reach::Own).then_some(home.as_path());
    let of_skills = skills::listed(&config.skills, own_home, &session.denied);
    let instructions: Vec<String> =
        ours.into_iter().chain(of_skills).chain(of_directory).chain(of_caller).collect();
    session.developer_instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
    Ok(Setup { session, left_out })
}

/// Checks that the task may work in its directory, and write in the directories of its profile. The door checks new
/// tasks; this also refuses tasks of older versions.
fn check_grounds(config: &Config, settings: &Settings) -> Result<(), Failure> {
    let refused = |dir: &Path, overlap: Overlap, what_to_do: &str| {
        let message = format!("no task may write in {}: {overlap}; {what_to_do}", dir.display());
        Err(Failure::new(FailureKind::Configuration, message))
    };
    match config.protected.overlap(&settings.cwd) {
        None => {}
        Some(Overlap::Holds(_) | Overlap::HoldsHome(_) | Overlap::AmongTools(_))
            if settings.sandbox == Sandbox::ReadOnly => {}
        Some(overlap) => {
            return refused(&settings.cwd, overlap, "start it again in a directory of its own");
        }
    }
    if settings.sandbox != Sandbox::WorkspaceWrite {
        return Ok(());
    }
    let opened = settings.writable_roots.iter().map(|dir| dir.canonicalize().unwrap_or_else(|_| dir.clone()));
    for dir in opened {
        if let Some(overlap) = config.protected.overlap(&dir) {
            return refused(&dir, overlap, "name another directory as `writable_roots` of the profile");
        }
    }
    Ok(())
}

/// Checks that the directory is still the one for which the task was handed over.
pub(super) fn check_place(settings: &Settings) -> Result<Place, Failure> {
    Place::check(&settings.cwd, settings.place).map_err(|error| {
        let kind = match error {
            place::Error::Unusable { .. } => FailureKind::Startup,
            place::Error::Link { .. } | place::Error::Swapped { .. } => FailureKind::Breach,
        };
        Failure::new(kind, error.to_string())
    })
}

/// Opens the thread. The future borrows nothing from the runner, which can change the task in the meantime.
fn open_thread(
    runner: &Runner<'_>,
    config: SessionConfig,
    mode: Mode,
) -> impl Future<Output = Result<Session, Failure>> + Send + 'static {
    let inner = Arc::clone(&runner.inner);
    let task = runner.task.clone();
    // A thread is durable once Codex has accepted its first turn. Before, it may be gone, and a new one is needed.
    let may_be_new = runner.turn.number == 1 && runner.turn.progress != TurnProgress::Accepted;
    async move {
        let dial = || inner.hosts.dial(&task);
        let Some(thread_id) = task.thread_id.clone() else {
            return Session::start(config, dial(), None).await;
        };
        let resumed = Session::resume(config.clone(), dial(), None, thread_id.clone()).await;
        match resumed {
            Err(failure) if may_be_new && has_no_rollout(&failure) => {
                if mode == Mode::Recovered && inner.has_live_host(&task).await {
                    tokio::time::sleep(SECOND_LOOK).await;
                    let again = Session::resume(config.clone(), dial(), None, thread_id).await;
                    if !again.as_ref().is_err_and(has_no_rollout) {
                        return again;
                    }
                }
                Session::start(config, dial(), None).await
            }
            other => other,
        }
    }
}

/// What codex 0.166 says of a thread that never had a turn.
fn has_no_rollout(failure: &Failure) -> bool {
    failure.kind == FailureKind::Startup && failure.message.contains("no rollout found")
}
