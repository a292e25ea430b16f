//! The simulated hosts, as the bridge reaches them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codex_bridge_core::hosts::Hosts;
use codex_bridge_core::task::Task;
use codex_session::Dial;
use codex_session::link::{Backend, Error, Link};
use codex_wire::Epoch;
use codex_wire::connection::{Connection, Handshake};
use codex_wire::host::Host;
use codex_wire::host::origin::Origin;
use codex_wire::host::pool::Change;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use super::codex::{Codex, Server};
use super::world::Life;

/// The hosts as one life of the bridge sees them.
#[derive(Clone)]
pub struct Simulated {
    pub codex: Arc<Codex>,
    pub life: Arc<Life>,
    pub is_closed: Arc<AtomicBool>,
}

impl Simulated {
    async fn open(&self, epoch: &Epoch, limit: Duration) -> Result<Link, Error> {
        let transport = self.codex.connect(epoch, &self.life)?;
        let server = Arc::new(Server { codex: Arc::clone(&self.codex), epoch: epoch.clone() });
        let handshake =
            Handshake { limit, backing: Some(Arc::clone(&server) as _), ..Handshake::new(epoch.clone()) };
        match Connection::open(transport, handshake).await {
            Ok(connection) => Ok(Link { connection, backend: Backend::Other(server) }),
            Err(error) => Err(Error::Handshake { error, stderr_tail: Vec::new() }),
        }
    }
}

impl Hosts for Simulated {
    fn dial(&self, task: &Task) -> Arc<dyn Dial> {
        Arc::new(Way { hosts: self.clone(), prefer: Mutex::new(task.epoch.clone()) })
    }

    fn is_alive<'a>(&'a self, epoch: &'a Epoch) -> BoxFuture<'a, bool> {
        std::future::ready(self.codex.is_alive(epoch)).boxed()
    }

    fn connect<'a>(
        &'a self,
        epoch: &'a Epoch,
        limit: Duration,
    ) -> BoxFuture<'a, Option<Result<Link, Error>>> {
        async move { if self.codex.is_alive(epoch) { Some(self.open(epoch, limit).await) } else { None } }
            .boxed()
    }

    fn login<'a>(&'a self, _home: &'a Path) -> BoxFuture<'a, Option<String>> {
        std::future::ready(Some("somebody".to_owned())).boxed()
    }

    fn thread_opened(&self, _host: &str, _thread_id: &str) {}

    fn thread_closed(&self, _host: &str, _thread_id: &str) {}

    fn maintain(&self) -> BoxFuture<'_, Vec<Change>> {
        std::future::ready(Vec::new()).boxed()
    }

    fn all(&self) -> Vec<Host> {
        Vec::new()
    }

    fn ends(&self) -> u64 {
        0
    }

    fn origins(&self) -> Vec<Origin> {
        Vec::new()
    }

    fn stop_starting(&self) -> BoxFuture<'_, ()> {
        self.is_closed.store(true, Ordering::SeqCst);
        std::future::ready(()).boxed()
    }

    fn are_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    fn stop_all(&self) -> BoxFuture<'_, Vec<String>> {
        std::future::ready(Vec::new()).boxed()
    }
}

struct Way {
    hosts: Simulated,
    prefer: Mutex<Option<Epoch>>,
}

impl Dial for Way {
    fn dial(&self, initialize_limit: Duration) -> BoxFuture<'_, Result<Link, Error>> {
        async move {
            if self.hosts.are_closed() {
                std::future::pending::<()>().await;
            }
            let mut prefer = self.prefer.lock().await;
            let epoch = self.hosts.codex.place(prefer.as_ref()).await;
            *prefer = Some(epoch.clone());
            self.hosts.open(&epoch, initialize_limit).await
        }
        .boxed()
    }
}
