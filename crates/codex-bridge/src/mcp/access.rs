//! Access to the daemon for one MCP request: through the socket, or, in the daemon's own process, at the desk.

use std::path::PathBuf;
use std::sync::Arc;

use codex_bridge_core::Caller;
use codex_bridge_core::bridge::RequestSelector;
use codex_bridge_core::desk::Verb;
use codex_bridge_core::desk::calls::{Decide, Prompt, Start};
use codex_session::Decision;
use serde_json::Value;

use crate::client::{Client, EventStream};
use crate::failure::Failure;
use crate::follow::{FollowOptions, Follower, Until};
use crate::http::App;
use crate::view::{Event, Request, Task, Turn};
use crate::{calls, tool};

/// Access to the daemon for one request.
#[derive(Clone)]
pub struct Access {
    backend: Backend,
    /// Whether the caller may decide requests.
    pub may_decide: bool,
    /// The caller's working directory, if it is known.
    pub cwd: Option<PathBuf>,
}

#[derive(Clone)]
enum Backend {
    Socket(Arc<Client>),
    InProcess(Box<App>, Caller),
}

/// A task's log that is being followed.
pub enum Log {
    /// Read through the socket.
    Socket(EventStream),
    /// Read in the daemon's own process.
    InProcess(Box<Follower>),
}

impl Log {
    /// The next event. `None` once the task has finished.
    pub async fn next(&mut self) -> Result<Option<Event>, Failure> {
        match self {
            Self::Socket(lines) => lines.next().await,
            Self::InProcess(follower) => follower.next().await,
        }
    }
}

impl Access {
    /// Access through the socket.
    pub fn by_socket(client: Arc<Client>, may_decide: bool) -> Self {
        Self { backend: Backend::Socket(client), may_decide, cwd: std::env::current_dir().ok() }
    }

    /// Access in the daemon's own process, in the name of this caller. The caller's working directory is not known.
    pub fn in_process(app: App, caller: Caller) -> Self {
        let may_decide = caller.may(Verb::Decide).is_ok();
        Self { backend: Backend::InProcess(Box::new(app), caller), may_decide, cwd: None }
    }

    /// Starts a task.
    pub async fn start(&self, start: &Start) -> Result<Task, Failure> {
        match &self.backend {
            Backend::Socket(client) => client.start(start).await,
            Backend::InProcess(app, caller) => {
                Ok(Box::pin(app.desk.start(caller, start.clone())).await?.into())
            }
        }
    }

    /// Continues a finished task. The reply has the number of the new turn.
    pub async fn continue_task(&self, id: &str, turn: Prompt) -> Result<Task, Failure> {
        match &self.backend {
            Backend::Socket(client) => client.continue_task(id, &turn).await,
            Backend::InProcess(app, caller) => {
                Ok(Box::pin(app.desk.continue_task(caller, id, turn)).await?.into())
            }
        }
    }

    /// A task.
    pub async fn show(&self, id: &str) -> Result<Task, Failure> {
        match &self.backend {
            Backend::Socket(client) => client.show(id).await,
            Backend::InProcess(app, caller) => Ok(app.desk.show(caller, id).await?.into()),
        }
    }

    /// The turns of a task, the oldest first.
    pub async fn turns(&self, id: &str) -> Result<Vec<Turn>, Failure> {
        match &self.backend {
            Backend::Socket(client) => client.turns(id).await,
            Backend::InProcess(app, caller) => {
                Ok(app.desk.turns(caller, id).await?.into_iter().map(Turn::from).collect())
            }
        }
    }

    /// Follows a task's log after event `after`, until the task has finished.
    pub async fn follow(&self, id: &str, after: i64) -> Result<Log, Failure> {
        match &self.backend {
            Backend::Socket(client) => {
                let which = calls::Events { after, follow: true, ..calls::Events::default() };
                Ok(Log::Socket(client.events(id, &which).await?))
            }
            Backend::InProcess(app, caller) => {
                let log = app.desk.log(caller, id).await?;
                let wanted = FollowOptions { after, limit: None, until: Until::Finished, live: false };
                Ok(Log::InProcess(Box::new(Follower::new(log, wanted))))
            }
        }
    }

    /// Decides on a request as it was shown.
    pub async fn decide(&self, request: &Request, decision: &Decision) -> Result<(), Failure> {
        let (id, request_id) = (&request.task_id, &request.request_id);
        match &self.backend {
            Backend::Socket(client) => {
                let which = RequestSelector::Shown { request_id, digest: &request.digest };
                client.decide(id, which, decision).await.map(drop)
            }
            Backend::InProcess(app, caller) => {
                let decide = Decide::new(decision, Some(&request.digest), false);
                Ok(app.desk.decide(caller, id, request_id, &decide).await.map(drop)?)
            }
        }
    }

    /// Interrupts one turn of a task. Fails if another turn runs.
    pub async fn interrupt(&self, id: &str, turn: u32) -> Result<(), Failure> {
        match &self.backend {
            Backend::Socket(client) => client.interrupt_turn(id, Some(turn)).await.map(drop),
            Backend::InProcess(app, caller) => {
                Ok(app.desk.interrupt(caller, id, Some(turn)).await.map(drop)?)
            }
        }
    }

    /// One call of the `codex_bridge` tool.
    pub async fn tool(&self, call: Value) -> Result<Value, Failure> {
        match &self.backend {
            Backend::Socket(client) => client.tool(call).await,
            Backend::InProcess(app, caller) => {
                let call = calls::Tool { call, caller_cwd: None };
                Ok(Box::pin(tool::answer(&app.desk, caller, call)).await)
            }
        }
    }
}
