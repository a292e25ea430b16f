//! The child's input as a sink of messages. Closing it asks the child to exit, so its descendants are looked up just
//! before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Sink;
use tokio::process::ChildStdin;
use tokio_util::codec::FramedWrite;

use super::family::Family;
use crate::transport::Error;
use crate::transport::line::LineCodec;

pub(super) struct Input {
    lines: FramedWrite<ChildStdin, LineCodec>,
    family: Arc<Family>,
    is_closing: bool,
}

impl Input {
    pub(super) fn new(stdin: ChildStdin, codec: LineCodec, family: Arc<Family>) -> Self {
        Self { lines: FramedWrite::new(stdin, codec), family, is_closing: false }
    }

    fn remember_family_once(&mut self) {
        if !std::mem::replace(&mut self.is_closing, true) {
            self.family.remember();
        }
    }
}

impl Sink<Bytes> for Input {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.lines).poll_ready(context).map_err(as_write_error)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Bytes) -> Result<(), Error> {
        Pin::new(&mut self.lines).start_send(message).map_err(as_write_error)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        <FramedWrite<_, _> as Sink<Bytes>>::poll_flush(Pin::new(&mut self.lines), context)
            .map_err(as_write_error)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.remember_family_once();
        <FramedWrite<_, _> as Sink<Bytes>>::poll_close(Pin::new(&mut self.lines), context)
            .map_err(as_write_error)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.remember_family_once();
    }
}

/// The codec's own error for input and output alike is a read error.
fn as_write_error(error: Error) -> Error {
    match error {
        Error::Read(message) => Error::Write(message),
        other => other,
    }
}
