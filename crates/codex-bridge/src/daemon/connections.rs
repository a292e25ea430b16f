//! Answers on one listener: who connects gets a seat, a time by which each request must be there, and an end with the
//! daemon. What is asked is for the routes.

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

use super::{End, LAST_ANSWERS, told};
use crate::http::problem::TooSlow;
use crate::http::seats::{Seat, Seats};

/// What connections may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long the head of a request may take, the wait for its beginning included.
    pub head: Duration,
    /// How long its body may take after that.
    pub body: Duration,
    /// Connections on which nobody is being answered.
    pub idle: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: Duration::from_secs(15), body: Duration::from_mins(1), idle: 128 }
    }
}

/// Answers until the end is told, then finishes what it was answering; `who` says of a connection who is at its other
/// end.
pub async fn answer<L, W>(
    mut listener: L,
    router: Router,
    limits: Limits,
    who: impl Fn(&L::Io, &L::Addr) -> W,
    ended: watch::Receiver<End>,
) where
    L: Listener,
    W: Clone + Send + Sync + 'static,
{
    let seats = Seats::new(limits.idle);
    let (lives, mut all_gone) = mpsc::channel::<Infallible>(1);
    loop {
        // An error of `accept` is waited out by the listener itself.
        let (stream, address) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(ended.clone()) => break,
        };
        let connection = Connection {
            who: ConnectInfo(who(&stream, &address)),
            router: router.clone(),
            seat: seats.take(),
            limits,
            ended: ended.clone(),
        };
        let lives = lives.clone();
        tokio::spawn(async move {
            connection.converse(stream).await;
            drop(lives);
        });
    }
    drop((listener, lives));
    // Those who are being answered have a little time.
    if tokio::time::timeout(LAST_ANSWERS, all_gone.recv()).await.is_err() {
        info!("callers that were still being answered are cut off");
    }
}

/// One connection.
struct Connection<W> {
    who: ConnectInfo<W>,
    router: Router,
    seat: Arc<Seat>,
    limits: Limits,
    ended: watch::Receiver<End>,
}

impl<W: Clone + Send + Sync + 'static> Connection<W> {
    async fn converse<S>(self, stream: S)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let Self { who, router, seat, limits, ended } = self;
        let its_seat = Arc::clone(&seat);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let mut request: Request = request.map(|body| InTime::body(body, limits.body));
            request.extensions_mut().insert(who.clone());
            request.extensions_mut().insert(Arc::clone(&its_seat));
            router.clone().oneshot(request)
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(limits.head);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        // How a connection ends is the business of whoever was at its other end.
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%error, "a connection broke");
                }
                return;
            }
            () = seat.given_away() => return,
            () = told(ended) => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = connection => {}
            () = seat.given_away() => {}
        }
    }
}

/// A body that must be there in time.
struct InTime {
    body: Incoming,
    limit: Pin<Box<Sleep>>,
}

impl InTime {
    fn body(body: Incoming, limit: Duration) -> Body {
        if hyper::body::Body::is_end_stream(&body) {
            return Body::empty();
        }
        Body::new(Self { body, limit: Box::pin(tokio::time::sleep(limit)) })
    }
}

impl hyper::body::Body for InTime {
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
