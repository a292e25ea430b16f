//! The daemon for one request of an MCP client: by its socket, or, within the daemon, at the desk.

use std::path::PathBuf;
use std::sync::Arc;

use codex_bridge_core::Caller;
use codex_bridge_core::bridge::RequestSelector;
use codex_bridge_core::desk::Verb;
use codex_bridge_core::desk::calls::{Decide, Prompt, Start};
use codex_session::Decision;
use serde_json::Value;

use crate::client::{Client, Lines};
use crate::failure::Failure;
use crate::follow::{Follower, Until, Wanted};
use crate::http::App;
use crate::view::{Event, Request, Task, Turn};
use crate::{calls, tool};

/// The daemon, for one request.
#[derive(Clone)]
pub struct Access {
    way: Way,
    /// Whether the caller may decide what Codex asks.
    pub may_decide: bool,
    /// Where the caller runs, if that is known.
    pub cwd: Option<PathBuf>,
}

#[derive(Clone)]
enum Way {
    /// By the daemon's socket.
    Socket(Arc<Client>),
    /// Within the daemon, as the caller of the request.
    Here(Box<App>, Caller),
}

/// A task's log as it is followed.
pub enum Log {
    /// By the daemon's socket.
    Socket(Lines),
    /// Within the daemon.
    Here(Box<Follower>),
}

impl Log {
    /// The next event; none when the task has finished.
    pub async fn next(&mut self) -> Result<Option<Event>, Failure> {
        match self {
            Self::Socket(lines) => lines.next().await,
            Self::Here(follower) => follower.next().await,
        }
    }
}

impl Access {
    /// By the socket, for an agent that may decide or not.
    pub fn by_socket(client: Arc<Client>, may_decide: bool) -> Self {
        Self { way: Way::Socket(client), may_decide, cwd: std::env::current_dir().ok() }
    }

    /// Within the daemon, in the name of this caller. The daemon's own directory is nobody's.
    pub fn here(app: App, caller: Caller) -> Self {
        let may_decide = caller.may(Verb::Decide).is_ok();
        Self { way: Way::Here(Box::new(app), caller), may_decide, cwd: None }
    }

    /// Hands over work.
    pub async fn start(&self, start: &Start) -> Result<Task, Failure> {
        match &self.way {
            Way::Socket(client) => client.start(start).await,
            Way::Here(app, caller) => Ok(Box::pin(app.desk.start(caller, start.clone())).await?.into()),
        }
    }

    /// Gives a finished task another turn. The reply has its number.
    pub async fn continue_task(&self, id: &str, turn: Prompt) -> Result<Task, Failure> {
        match &self.way {
            Way::Socket(client) => client.continue_task(id, &turn).await,
            Way::Here(app, caller) => Ok(Box::pin(app.desk.continue_task(caller, id, turn)).await?.into()),
        }
    }

    /// A task.
    pub async fn show(&self, id: &str) -> Result<Task, Failure> {
        match &self.way {
            Way::Socket(client) => client.show(id).await,
            Way::Here(app, caller) => Ok(app.desk.show(caller, id).await?.into()),
        }
    }

    /// The turns of a task, the oldest first.
    pub async fn turns(&self, id: &str) -> Result<Vec<Turn>, Failure> {
        match &self.way {
            Way::Socket(client) => client.turns(id).await,
            Way::Here(app, _) => {
                let task_id = app.bridge.find(id).await?.id;
                Ok(app.bridge.turns(&task_id).await?.into_iter().map(Turn::from).collect())
            }
        }
    }

    /// Follows a task's log after a number, until the task has finished.
    pub async fn follow(&self, id: &str, after: i64) -> Result<Log, Failure> {
        match &self.way {
            Way::Socket(client) => {
                let which = calls::Events { after, follow: true, ..calls::Events::default() };
                Ok(Log::Socket(client.events(id, &which).await?))
            }
            Way::Here(app, _) => {
                let task_id = app.bridge.find(id).await?.id;
                let wanted = Wanted { after, limit: None, until: Until::Finished, live: false };
                Ok(Log::Here(Box::new(Follower::new(app.bridge.clone(), task_id, wanted))))
            }
        }
    }

    /// Decides on a request as it was shown.
    pub async fn decide(&self, request: &Request, decision: &Decision) -> Result<(), Failure> {
        let (id, request_id) = (&request.task_id, &request.request_id);
        match &self.way {
            Way::Socket(client) => {
                let which = RequestSelector::Shown { request_id, digest: &request.digest };
                client.decide(id, which, decision).await.map(drop)
            }
            Way::Here(app, caller) => {
                let decide = Decide::new(decision, Some(&request.digest), false);
                Ok(app.desk.decide(caller, id, request_id, &decide).await.map(drop)?)
            }
        }
    }

    /// Stops a turn of a task, and no other.
    pub async fn interrupt(&self, id: &str, turn: u32) -> Result<(), Failure> {
        match &self.way {
            Way::Socket(client) => client.interrupt_turn(id, Some(turn)).await.map(drop),
            Way::Here(app, caller) => Ok(app.desk.interrupt(caller, id, Some(turn)).await.map(drop)?),
        }
    }

    /// One call of the `codex_bridge` tool.
    pub async fn tool(&self, call: Value) -> Result<Value, Failure> {
        match &self.way {
            Way::Socket(client) => client.tool(call).await,
            Way::Here(app, caller) => {
                let call = calls::Tool { call, caller_cwd: None };
                Ok(Box::pin(tool::answer(&app.desk, caller, call)).await)
            }
        }
    }
}
