//! Where the threads of tasks run: a connection to the right host, started if need be.
//!
//! The real ones are processes (`hosts/processes`). A simulation brings its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use codex_session::Dial;
use codex_session::link::{Error as DialError, Link};
use codex_wire::Epoch;
use codex_wire::host::Host;
use codex_wire::host::origin::Origin;
use codex_wire::host::pool::Change;
use futures_util::future::BoxFuture;

use crate::task::Task;

mod processes;

pub(crate) use processes::Processes;

/// The hosts of a bridge.
pub trait Hosts: Send + Sync {
    /// A way for one task to a host: the one that its thread is on, else any with room, else, if it saw too many of them
    /// die, one of its own.
    fn dial(&self, task: &Task) -> Arc<dyn Dial>;

    /// Whether the host of an epoch lives.
    fn lives<'a>(&'a self, epoch: &'a Epoch) -> BoxFuture<'a, bool>;

    /// A connection to the host of an epoch; none if it has gone.
    fn connect<'a>(
        &'a self,
        epoch: &'a Epoch,
        limit: Duration,
    ) -> BoxFuture<'a, Option<Result<Link, DialError>>>;

    /// What the login of a home of Codex looks like: it changes when somebody logs in. None while nobody can say.
    fn login<'a>(&'a self, home: &'a Path) -> BoxFuture<'a, Option<String>>;

    /// A turn begins on a host.
    fn thread_opened(&self, host: &str, thread_id: &str);

    /// A turn has ended on a host.
    fn thread_closed(&self, host: &str, thread_id: &str);

    /// Looks after the hosts.
    fn maintain(&self) -> BoxFuture<'_, Vec<Change>>;

    /// The processes that run.
    fn all(&self) -> Vec<Host>;

    /// How many have ended so far.
    fn ends(&self) -> u64;

    /// By what the processes of all hosts are known. Waits for nobody.
    fn origins(&self) -> Vec<Origin>;

    /// Gives up every start that is under way, and starts none any more.
    fn start_none(&self) -> BoxFuture<'_, ()>;

    /// Whether no host is started any more.
    fn are_closed(&self) -> bool;

    /// Ends all of them, and starts none any more; names those that could not be ended.
    fn stop_all(&self) -> BoxFuture<'_, Vec<String>>;
}
