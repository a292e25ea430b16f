//! Serves the connections of one listener: each gets a slot, deadlines for its requests, and an end with the daemon. The
//! routes answer the requests.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::serve::Listener;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;
use tower::ServiceExt;
use tracing::{debug, info};

use super::{DRAIN_TIMEOUT, Shutdown, until_stopped};
use crate::http::connection_slots::{ConnectionSlot, ConnectionSlots};
use crate::http::problem::TooSlow;

/// The limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long the head of a request may take, including the wait for its first byte.
    pub head: Duration,
    /// How long the body of a request may take after that.
    pub body: Duration,
    /// The limit of connections without an open request.
    pub idle: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: Duration::from_secs(15), body: Duration::from_mins(1), idle: 128 }
    }
}

/// Serves calls until the daemon stops, then finishes open calls. `who` identifies the peer of a connection.
pub async fn serve<L, W>(
    mut listener: L,
    router: Router,
    limits: Limits,
    who: impl Fn(&L::Io, &L::Addr) -> W,
    ended: watch::Receiver<Shutdown>,
) where
    L: Listener,
    W: Clone + Send + Sync + 'static,
{
    let slots = ConnectionSlots::new(limits.idle);
    let (alive, mut all_closed) = mpsc::channel::<Infallible>(1);
    loop {
        // The listener itself retries a failed `accept`.
        let (stream, address) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = until_stopped(ended.clone()) => break,
        };
        let connection = Connection {
            who: ConnectInfo(who(&stream, &address)),
            router: router.clone(),
            slot: slots.take(),
            limits,
            ended: ended.clone(),
        };
        let alive = alive.clone();
        tokio::spawn(async move {
            connection.serve(stream).await;
            drop(alive);
        });
    }
    drop((listener, alive));
    // Open calls have a little time to finish.
    if tokio::time::timeout(DRAIN_TIMEOUT, all_closed.recv()).await.is_err() {
        info!("calls that are still open are cut off");
    }
}

struct Connection<W> {
    who: ConnectInfo<W>,
    router: Router,
    slot: Arc<ConnectionSlot>,
    limits: Limits,
    ended: watch::Receiver<Shutdown>,
}

impl<W: Clone + Send + Sync + 'static> Connection<W> {
    async fn serve<S>(self, stream: S)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let Self { who, router, slot, limits, ended } = self;
        let request_slot = Arc::clone(&slot);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let mut request: Request = request.map(|body| BodyWithDeadline::body(body, limits.body));
            request.extensions_mut().insert(who.clone());
            request.extensions_mut().insert(Arc::clone(&request_slot));
            router.clone().oneshot(request)
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(limits.head);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        // A broken connection concerns only its peer.
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%error, "a connection ended with an error");
                }
                return;
            }
            () = slot.evicted() => return,
            () = until_stopped(ended) => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = connection => {}
            () = slot.evicted() => {}
        }
    }
}

struct BodyWithDeadline {
    body: Incoming,
    limit: Pin<Box<Sleep>>,
}

impl BodyWithDeadline {
    fn body(body: Incoming, limit: Duration) -> Body {
        if hyper::body::Body::is_end_stream(&body) {
            return Body::empty();
        }
        Body::new(Self { body, limit: Box::pin(tokio::time::sleep(limit)) })
    }
}

impl hyper::body::Body for BodyWithDeadline {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        self.limit.as_mut().poll(context).map(|()| Some(Err(axum::Error::new(TooSlow))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
