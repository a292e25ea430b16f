//! Whether the daemon accepts work now. The check writes to the store. Its result is shared for one second, so that many
//! callers cause one check.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use codex_bridge_core::Bridge;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::{App, Shutdown};
use crate::failure::{Code, Failure, Problem};
use crate::view::Fine;

/// How long the result of a check is reused.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// How long the store may take. A slower store is not ready.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The last check. The lock is held during a check, so that concurrent callers wait for the same result.
#[derive(Debug, Default)]
pub struct Readiness(Arc<Mutex<Option<LastCheck>>>);

type LastCheck = (Instant, Result<(), Failure>);

impl Readiness {
    async fn check(&self, bridge: &Bridge) -> Result<(), Failure> {
        // In a task of its own: a caller who hangs up must not make the next one start a new check.
        let checked = tokio::spawn(Self(Arc::clone(&self.0)).check_once(bridge.clone())).await;
        checked.map_err(Failure::internal)?
    }

    async fn check_once(self, bridge: Bridge) -> Result<(), Failure> {
        let mut last = self.0.lock().await;
        if let Some((at, result)) = last.as_ref()
            && at.elapsed() < FRESH_FOR
        {
            return result.clone();
        }
        let result = match timeout(STORE_TIMEOUT, bridge.store().check_writable()).await {
            Ok(result) => result.map_err(Failure::from),
            Err(_) => Err(Failure::new(Code::Store, "the store does not answer")),
        };
        *last = Some((Instant::now(), result.clone()));
        result
    }
}

/// `GET /readyz`. A 503 says why the daemon is not ready.
pub async fn ready(State(app): State<App>) -> Result<Json<Fine>, Problem> {
    let is_stopping = *app.shutdown.borrow() != Shutdown::No;
    let ready = if is_stopping { Err(Failure::stopping()) } else { app.readiness.check(&app.bridge).await };
    match ready {
        Ok(()) => Ok(Json(Fine { ok: true })),
        Err(failure) => Err(Problem::from(failure).with_status(StatusCode::SERVICE_UNAVAILABLE)),
    }
}
