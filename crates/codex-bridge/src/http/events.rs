//! A task's log, as JSON lines or as server-sent events. Lines end when the task has finished; server-sent events stay,
//! since it may be continued.

use std::future::pending;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use codex_bridge_core::event::Seq;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tracing::warn;

use super::stream::{Gone, Outlet, Shape, pipe};
use super::{App, Path, Query, Refusal, news};
use crate::calls;
use crate::failure::{Code, Failure, Wrapped};
use crate::follow::{Follower, Until, Wanted};

/// Where a browser that comes back says what it had.
const LAST_EVENT_ID: &str = "last-event-id";

pub async fn read(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(which): Query<calls::Events>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let task_id = app.bridge.find(&id).await?.id;
    let shape = Shape::wanted(&headers);
    let last = last_event_id(&headers)?;
    for number in [Some(which.after), last].into_iter().flatten() {
        if !(0..=calls::SEQ_MAX).contains(&number) {
            let message = format!("{number} is the number of no event");
            return Err(Failure::new(Code::BadCall, message).hint("use 0 for all").into());
        }
    }
    let after = last.unwrap_or(which.after);
    let until = match shape {
        Shape::Events => Until::Left,
        Shape::Lines if which.follow => Until::Finished,
        Shape::Lines => Until::Now,
    };
    let is_wanted = which.news && shape == Shape::Events;
    let news = if is_wanted { Some(news::join(&app).await?) } else { None };
    let (outlet, response) = pipe(shape, Some(after));
    let mut of_all = None;
    if let Some((first, lines)) = news {
        // The pipe is empty: nobody waits.
        outlet.put(None, first).await.ok();
        of_all = Some(lines);
    }
    let wanted = Wanted { after, limit: which.limit, until, live: which.live };
    let follower = Follower::new(app.bridge, task_id, wanted);
    tokio::spawn(Teller { follower, outlet, shape, of_all }.tell());
    Ok(response)
}

/// The last event that a reader had before it was cut off.
fn last_event_id(headers: &HeaderMap) -> Result<Option<Seq>, Failure> {
    let Some(id) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) else { return Ok(None) };
    let id = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    let wrong = || Failure::new(Code::BadCall, "Last-Event-ID must be the number of an event");
    id.map(Some).ok_or_else(wrong)
}

/// Writes one reader's stream.
struct Teller {
    follower: Follower,
    outlet: Outlet,
    shape: Shape,
    /// What is told of all tasks, if the reader wants that too.
    of_all: Option<Receiver<Bytes>>,
}

impl Teller {
    async fn tell(mut self) {
        match self.run().await {
            Ok(()) | Err(Stopped::Enough) => {}
            Err(Stopped::Stalled) => self.outlet.drop_reader(),
            Err(Stopped::Failed(error)) => {
                warn!(%error, "the log of a task cannot be told any further");
                let told = Wrapped { error };
                // A reader that has gone needs no reason.
                self.outlet.put(None, self.shape.piece(None, "failure", &told)).await.ok();
            }
        }
    }

    async fn run(&mut self) -> Result<(), Stopped> {
        loop {
            let (id, piece) = tokio::select! {
                event = self.follower.next() => match event.map_err(Stopped::Failed)? {
                    Some(event) => (event.seq, self.shape.piece(event.seq, event.kind(), &event)),
                    None => return Ok(()),
                },
                told = of_all(&mut self.of_all) => (None, told?),
                () = self.outlet.left() => return Ok(()),
            };
            self.outlet.put(id, piece).await.map_err(gone)?;
        }
    }
}

/// The next line of what is told of all tasks; never, for those who do not want it.
async fn of_all(lines: &mut Option<Receiver<Bytes>>) -> Result<Bytes, Stopped> {
    let Some(lines) = lines else { return pending().await };
    lines.recv().await.map_err(|error| match error {
        RecvError::Lagged(_) => Stopped::Stalled,
        RecvError::Closed => Stopped::Enough,
    })
}

fn gone(gone: Gone) -> Stopped {
    match gone {
        Gone::Left => Stopped::Enough,
        Gone::Stalled => Stopped::Stalled,
    }
}

/// Why nothing more is told.
enum Stopped {
    /// The reader has gone.
    Enough,
    /// The reader does not read.
    Stalled,
    Failed(Failure),
}
