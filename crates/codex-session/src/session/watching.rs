//! Whether a thread stays within its bounds: its settings, and the user's own `config.toml` with its decisions about
//! directories and its MCP servers.
//!
//! Where a launcher runs the hosts, only the launcher can read that file. It is asked beside everything else. The end of a turn
//! is held back until it has answered, for [`ANSWER_LIMIT`] at most: a launcher that says nothing stops no turn.

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
use crate::narration::SessionEvent;
use crate::settings::unknown_mcp_server;
use crate::turn::Input;

/// How long a launcher may take to say what is in the file.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// While a turn works, a launcher is not asked more often.
const ASK_EVERY: Duration = Duration::from_secs(3);

/// What a launcher says of the file; none if it said nothing in time.
pub(super) type Look = Pin<Box<dyn Future<Output = Option<UserConfig>> + Send>>;

/// The user's own file, from the opening of a thread on.
pub(super) enum UsersFile {
    /// We read it ourselves.
    Own { home: PathBuf, projects: ProjectWatch },
    /// A launcher reads it for us.
    Told(Told),
}

pub(super) struct Told {
    reach: Reach,
    home: PathBuf,
    projects: ProjectWatch,
    asked_at: Instant,
    /// MCP servers that Codex has started and that were not in the file when the thread was opened.
    suspects: Vec<String>,
}

impl UsersFile {
    /// From now on, when the file says `users`. None where the home of Codex is not known.
    pub(super) fn begin(link: &Link, users: UserConfig, confinement: &Confinement) -> Option<Self> {
        let home = PathBuf::from(confinement.codex_home.as_ref()?);
        Some(match link.reach() {
            // Codex writes a decision by itself when it takes a repository for trusted.
            Reach::Own => {
                Self::Own { projects: ProjectWatch::begin(&home, Path::new(&confinement.cwd)), home }
            }
            reach @ Reach::Launcher(_) => Self::Told(Told {
                projects: ProjectWatch::begin_with(users, &home),
                reach,
                home,
                asked_at: Instant::now(),
                suspects: Vec::new(),
            }),
        })
    }

    /// Why a thread that was just opened should not be used: the file has got a decision about its directory.
    pub(super) async fn new_entry(&mut self, link: &Link) -> Result<Option<String>, codex_wire::host::Error> {
        match self {
            Self::Own { projects, .. } => Ok(projects.new_entry()),
            Self::Told(told) => Ok(told.projects.new_entry_in(&link.user_config().await?)),
        }
    }

    /// Whether the user has set up an MCP server. One that a launcher has to be asked about counts as set up until then.
    fn has_mcp_server(&mut self, name: &str) -> bool {
        match self {
            Self::Own { home, .. } => UserConfig::read(home).mcp_servers.contains(name),
            Self::Told(told) => {
                if !told.projects.before().mcp_servers.contains(name) {
                    told.suspects.push(name.to_owned());
                }
                true
            }
        }
    }
}

impl Told {
    fn ask(&mut self) -> Look {
        self.asked_at = Instant::now();
        let (reach, home) = (self.reach.clone(), self.home.clone());
        Box::pin(async move {
            let told = timeout(ANSWER_LIMIT, reach.home(&home)).await;
            told.ok()?.ok().map(|home| home.config)
        })
    }

    /// A decision that has appeared, told once.
    fn new_entry(&mut self, now: UserConfig) -> Option<String> {
        let entry = self.projects.new_entry_in(&now)?;
        self.projects = ProjectWatch::begin_with(now, &self.home);
        Some(entry)
    }
}

impl Actor {
    fn told(&mut self) -> Option<&mut Told> {
        match self.opened.as_mut()?.users.as_mut()? {
            UsersFile::Told(told) => Some(told),
            UsersFile::Own { .. } => None,
        }
    }

    /// Looks whether the thread has left its bounds.
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
                    Some(UsersFile::Told(_)) | None => None,
                }
            }
            _ => None,
        };
        if let Some(message) = breach {
            self.on_breach(message).await;
        }
        self.look_again();
    }

    /// Has the launcher asked, if there is something to ask and it was not asked just now.
    fn look_again(&mut self) {
        if self.look.is_none()
            && let Some(told) = self.told()
            && (!told.suspects.is_empty() || told.asked_at.elapsed() >= ASK_EVERY)
        {
            self.look = Some(told.ask());
        }
    }

    /// Takes the end of the turn, to be held back until the launcher was asked once more. Gives back everything else.
    pub(super) fn hold_end(&mut self, input: Input) -> Option<Input> {
        let Input::Event { thread_id, event: Event::TurnCompleted(_), .. } = &input else {
            return Some(input);
        };
        let is_ours = thread_id.is_none() || *thread_id == self.thread_id;
        match self.told().filter(|_| is_ours) {
            Some(told) => {
                self.look = Some(told.ask());
                self.held_end = Some(input);
                None
            }
            None => Some(input),
        }
    }

    pub(super) async fn on_looked(&mut self, now: Option<UserConfig>) {
        self.look = None;
        if let Some(told) = self.told() {
            let suspects = std::mem::take(&mut told.suspects);
            let has = |name: &str| now.as_ref().is_some_and(|now| now.mcp_servers.contains(name));
            let unknown = suspects.iter().find(|name| !has(name));
            let breach = unknown.map(|name| unknown_mcp_server(name));
            let breach = breach.or_else(|| now.clone().and_then(|now| told.new_entry(now)));
            if let Some(message) = breach {
                self.on_breach(message).await;
            }
        }
        self.let_end().await;
    }

    /// Goes on with the end of the turn, if it is held back.
    pub(super) async fn let_end(&mut self) {
        if let Some(end) = self.held_end.take() {
            self.step(end).await;
        }
    }

    /// Stops the turn. Without a turn the connection is left: the next turn opens the thread again, with everything that keeps
    /// it within bounds.
    async fn on_breach(&mut self, message: String) {
        if self.running.is_some() {
            self.step(Input::Breach(message)).await;
        } else {
            self.tell(SessionEvent::Warning { message }).await;
            self.leave_link();
        }
    }
}
