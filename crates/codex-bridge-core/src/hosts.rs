//! Hosts of tasks' threads: finds the right host, or starts one, and connects to it.
//!
//! Real hosts are processes (`hosts/processes`). The simulation in the tests brings its own.

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
    /// A dialer for one task: to the host of its thread, else to any with room, else (after losses) to its own.
    fn dial(&self, task: &Task) -> Arc<dyn Dial>;

    /// Whether the host of this epoch is alive.
    fn is_alive<'a>(&'a self, epoch: &'a Epoch) -> BoxFuture<'a, bool>;

    /// A connection to the host of this epoch; `None` if the host is gone.
    fn connect<'a>(
        &'a self,
        epoch: &'a Epoch,
        limit: Duration,
    ) -> BoxFuture<'a, Option<Result<Link, DialError>>>;

    /// The fingerprint of a home's login, which changes with every login. `None` if it cannot be read.
    fn login<'a>(&'a self, home: &'a Path) -> BoxFuture<'a, Option<String>>;

    /// A turn begins on a host.
    fn thread_opened(&self, host: &str, thread_id: &str);

    /// A turn has ended on a host.
    fn thread_closed(&self, host: &str, thread_id: &str);

    /// Retires idle hosts and removes dead ones. Returns what changed.
    fn maintain(&self) -> BoxFuture<'_, Vec<Change>>;

    /// The processes of all hosts.
    fn all(&self) -> Vec<Host>;

    /// How many have ended so far.
    fn ends(&self) -> u64;

    /// What identifies the processes of all hosts. Does not wait.
    fn origins(&self) -> Vec<Origin>;

    /// Gives up every host start that is in progress, and starts none from now on.
    fn stop_starting(&self) -> BoxFuture<'_, ()>;

    /// Whether hosts are no longer started.
    fn are_closed(&self) -> bool;

    /// Stops all hosts and starts none from now on. Returns an error message for each host that could not be stopped.
    fn stop_all(&self) -> BoxFuture<'_, Vec<String>>;
}
