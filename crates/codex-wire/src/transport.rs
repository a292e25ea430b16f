//! Ways to reach an app-server: a child on stdio, a WebSocket on a unix socket, or a transport that a program injects.
//! A transport moves whole messages and knows nothing of their meaning.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Sink, Stream};

pub mod line;
pub mod stdio;
pub mod unix;

/// Longest message that is accepted, unless configured otherwise. Codex cuts command output at 1 MiB, but an
/// item may carry more than one such text.
pub const DEFAULT_MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// Messages from the server, in order.
pub type Incoming = Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>>;
/// Messages to the server.
pub type Outgoing = Pin<Box<dyn Sink<Bytes, Error = Error> + Send>>;

/// A connected pair of message streams.
pub struct Transport {
    /// From the server. Its end is the end of the connection.
    pub incoming: Incoming,
    /// To the server. Closing it asks the server to exit.
    pub outgoing: Outgoing,
}

/// Why a transport broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A message is longer than the limit; the connection is closed.
    #[error("the server sent a message longer than {limit} bytes")]
    MessageTooLong {
        /// The limit.
        limit: usize,
    },
    /// Reading failed.
    #[error("reading failed: {0}")]
    Read(String),
    /// Writing failed.
    #[error("writing failed: {0}")]
    Write(String),
}
