//! Watches whether a thread stays within its bounds: its settings, and the project entries and MCP servers of the
//! user's own `config.toml`.
//!
//! If a launcher runs the hosts, only the launcher can read that file. It is asked in a future of its own. The end of a
//! turn is held back until the launcher has answered, for [`ANSWER_LIMIT`] at most: a silent launcher stops no turn.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use codex_wire::ThreadId;
use codex_wire::confinement::Confinement;
use codex_wire::event::Event;
use codex_wire::host::Reach;
use codex_wire::user_config::{ProjectWatch, UserConfig};
use tokio::time::{Instant, timeout};

use super::actor::Actor;
use crate::link::Link;
use crate::session_event::SessionEvent;
use crate::settings::unknown_mcp_server;
use crate::turn::Input;

/// How long a launcher may take to read the file.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Shortest time between two questions to a launcher while a turn runs.
const ASK_EVERY: Duration = Duration::from_secs(3);

/// A launcher's answer with the content of the file; `None` without an answer in time.
pub(super) type Look = Pin<Box<dyn Future<Output = Option<UserConfig>> + Send>>;

/// The user's own `config.toml`, watched since the opening of a thread.
pub(super) enum UsersFile {
    /// Read directly.
    Own { home: PathBuf, projects: ProjectWatch },
    /// Read by a launcher.
    ByLauncher(LauncherWatch),
}

pub(super) struct LauncherWatch {
    reach: Reach,
    home: PathBuf,
    projects: ProjectWatch,
    asked_at: Instant,
    /// MCP servers that Codex has started and that were not in the file when the thread was opened.
    suspects: Vec<String>,
}

impl UsersFile {
    /// Starts watching, with the current content `users`. `None` if the CODEX_HOME is unknown.
    pub(super) fn begin(link: &Link, users: UserConfig, confinement: &Confinement) -> Option<Self> {
        let home = PathBuf::from(confinement.codex_home.as_ref()?);
        Some(match link.reach() {
            // Codex writes an entry by itself when it considers a repository trusted.
            Reach::Own => {
                Self::Own { projects: ProjectWatch::begin(&home, Path::new(&confinement.cwd)), home }
            }
            reach @ Reach::Launcher(_) => Self::ByLauncher(LauncherWatch {
                projects: ProjectWatch::begin_with(users, &home),
                reach,
                home,
                asked_at: Instant::now(),
                suspects: Vec::new(),
            }),
        })
    }

    /// A message if the file has a new entry about the thread's directory: then the thread must not be used.
    pub(super) async fn new_entry(&mut self, link: &Link) -> Result<Option<String>, codex_wire::host::Error> {
        match self {
            Self::Own { projects, .. } => Ok(projects.new_entry()),
            Self::ByLauncher(watch) => Ok(watch.projects.new_entry_in(&link.user_config().await?)),
        }
    }

    /// Whether the user has configured an MCP server. While a launcher is asked, the server counts as configured.
    fn has_mcp_server(&mut self, name: &str) -> bool {
        match self {
            Self::Own { home, .. } => UserConfig::read(home).mcp_servers.contains(name),
            Self::ByLauncher(watch) => {
                if !watch.projects.before().mcp_servers.contains(name) {
                    watch.suspects.push(name.to_owned());
                }
                true
            }
        }
    }
}

impl LauncherWatch {
    fn ask(&mut self) -> Look {
        self.asked_at = Instant::now();
        let (reach, home) = (self.reach.clone(), self.home.clone());
        Box::pin(async move {
            let watch = timeout(ANSWER_LIMIT, reach.home(&home)).await;
            watch.ok()?.ok().map(|home| home.config)
        })
    }

    /// A message about a new entry, returned once.
    fn new_entry(&mut self, now: UserConfig) -> Option<String> {
        let entry = self.projects.new_entry_in(&now)?;
        self.projects = ProjectWatch::begin_with(now, &self.home);
        Some(entry)
    }
}

impl Actor {
    fn launcher_watch(&mut self) -> Option<&mut LauncherWatch> {
        match self.opened.as_mut()?.users.as_mut()? {
            UsersFile::ByLauncher(watch) => Some(watch),
            UsersFile::Own { .. } => None,
        }
    }

    /// Checks whether the thread has left its bounds.
    pub(super) async fn watch_bounds(&mut self, thread_id: Option<&ThreadId>, event: &Event) {
        let Some(opened) = &mut self.opened else { return };
        let is_ours = thread_id.is_none_or(|thread_id| *thread_id == opened.thread_id);
        let breach = match event {
            Event::ThreadSettings(limits) if is_ours => {
                opened.confinement.check_limits(limits).err().map(|difference| difference.to_string())
            }
            Event::McpServer { name } => {
                let users = &mut opened.users;
                let of_user = || users.as_mut().is_some_and(|users| users.has_mcp_server(name));
                self.config.unknown_mcp_server(name, &opened.confinement, of_user)
            }
            Event::ItemStarted(_) | Event::ItemCompleted(_) | Event::TurnCompleted(_) => {
                match &mut opened.users {
                    Some(UsersFile::Own { projects, .. }) => projects.new_entry(),
                    Some(UsersFile::ByLauncher(_)) | None => None,
                }
            }
            _ => None,
        };
        if let Some(message) = breach {
            self.on_breach(message).await;
        }
        self.look_again();
    }

    /// Asks the launcher, if needed and not asked just before.
    fn look_again(&mut self) {
        if self.look.is_none()
            && let Some(watch) = self.launcher_watch()
            && (!watch.suspects.is_empty() || watch.asked_at.elapsed() >= ASK_EVERY)
        {
            self.look = Some(watch.ask());
        }
    }

    /// Takes the end of the turn, which is held back until the launcher was asked once more. Returns all other inputs.
    pub(super) fn hold_end(&mut self, input: Input) -> Option<Input> {
        let Input::Event { thread_id, event: Event::TurnCompleted(_), .. } = &input else {
            return Some(input);
        };
        let is_ours = thread_id.is_none() || *thread_id == self.thread_id;
        match self.launcher_watch().filter(|_| is_ours) {
            Some(watch) => {
                self.look = Some(watch.ask());
                self.held_end = Some(input);
                None
            }
            None => Some(input),
        }
    }

    pub(super) async fn on_looked(&mut self, now: Option<UserConfig>) {
        self.look = None;
        if let Some(watch) = self.launcher_watch() {
            let suspects = std::mem::take(&mut watch.suspects);
            let has = |name: &str| now.as_ref().is_some_and(|now| now.mcp_servers.contains(name));
            let unknown = suspects.iter().find(|name| !has(name));
            let breach = unknown.map(|name| unknown_mcp_server(name));
            let breach = breach.or_else(|| now.clone().and_then(|now| watch.new_entry(now)));
            if let Some(message) = breach {
                self.on_breach(message).await;
            }
        }
        self.let_end().await;
    }

    /// Releases the end of the turn, if it is held back.
    pub(super) async fn let_end(&mut self) {
        if let Some(end) = self.held_end.take() {
            self.step(end).await;
        }
    }

    /// Stops the turn. Without a turn the connection is closed: the next turn opens the thread again, with all its
    /// bounds.
    async fn on_breach(&mut self, message: String) {
        if self.running.is_some() {
            self.step(Input::Breach(message)).await;
        } else {
            self.tell(SessionEvent::Warning { message }).await;
            self.leave_link();
        }
    }
}
