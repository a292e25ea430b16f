//! Whether the daemon would take work now. Found out by writing to the store, at most about once a second, however many ask.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use codex_bridge_core::Bridge;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::App;
use super::End;
use crate::failure::Problem;
use crate::failure::{Code, Failure};
use crate::view::Fine;

/// How long what was found out counts.
const FRESH: Duration = Duration::from_secs(1);
/// How long the store may take. One that is slower takes no work that anybody would wait for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was found out last, and when. Whoever comes meanwhile waits for the same answer.
#[derive(Debug, Default)]
pub struct Readiness(Arc<Mutex<Option<Found>>>);

type Found = (Instant, Result<(), Failure>);

impl Readiness {
    async fn of(&self, bridge: &Bridge) -> Result<(), Failure> {
        // To its end, whoever hangs up: otherwise each of them would have it begin anew.
        let found = tokio::spawn(Self(Arc::clone(&self.0)).find_out(bridge.clone())).await;
        found.map_err(Failure::internal)?
    }

    async fn find_out(self, bridge: Bridge) -> Result<(), Failure> {
        let mut last = self.0.lock().await;
        if let Some((at, found)) = last.as_ref()
            && at.elapsed() < FRESH
        {
            return found.clone();
        }
        let found = match timeout(PATIENCE, bridge.store().check_writable()).await {
            Ok(found) => found.map_err(Failure::from),
            Err(_) => Err(Failure::new(Code::Store, "the store does not answer")),
        };
        *last = Some((Instant::now(), found.clone()));
        found
    }
}

/// `GET /readyz`: 503 says why not.
pub async fn ready(State(app): State<App>) -> Result<Json<Fine>, Problem> {
    let is_ending = *app.ending.borrow() != End::Never;
    let found = if is_ending { Err(Failure::stopping()) } else { app.readiness.of(&app.bridge).await };
    match found {
        Ok(()) => Ok(Json(Fine { ok: true })),
        Err(failure) => Err(Problem::from(failure).told_as(StatusCode::SERVICE_UNAVAILABLE)),
    }
}
