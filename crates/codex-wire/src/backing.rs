//! The process behind a connection, for error messages: the end of its stderr, and how it ended.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::host::Host;

/// The process at the other end of a transport.
pub trait Backing: Send + Sync {
    /// The last lines of its stderr, redacted.
    fn stderr_tail(&self, lines: usize) -> BoxFuture<'_, Vec<String>>;

    /// How it ended, if it has: `exit status: 3`, `signal: 9`.
    fn exit(&self) -> BoxFuture<'_, Option<String>>;

    /// Whether it still runs.
    fn is_alive(&self) -> bool;

    /// Whether it accepts another connection now.
    fn takes_connections(&self) -> BoxFuture<'_, bool>;
}

impl Backing for Host {
    fn stderr_tail(&self, lines: usize) -> BoxFuture<'_, Vec<String>> {
        Host::stderr_tail(self, lines).boxed()
    }

    fn exit(&self) -> BoxFuture<'_, Option<String>> {
        async move { Host::exit(self).await.map(|exit| exit.to_string()) }.boxed()
    }

    fn is_alive(&self) -> bool {
        Host::is_alive(self)
    }

    fn takes_connections(&self) -> BoxFuture<'_, bool> {
        async move { self.connect_stream().await.is_ok() }.boxed()
    }
}
