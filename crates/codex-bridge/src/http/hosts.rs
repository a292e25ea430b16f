//! The daemon itself and its hosts.

use axum::Json;
use axum::extract::State;
use codex_bridge_core::bridge::Error;
use tracing::error;

use super::{App, Body, Call, Reply, Shutdown};
use crate::calls;
use crate::failure::Failure;
use crate::view::{About, Fine, Host, Stopping};

pub async fn list(Call { app, caller }: Call) -> Reply<Vec<Host>> {
    Ok(Json(app.desk.hosts(&caller)?.iter().map(Host::from).collect()))
}

pub async fn about(State(app): State<App>) -> Reply<About> {
    Ok(Json((*app.about).clone()))
}

pub async fn health() -> Json<Fine> {
    Json(Fine { ok: true })
}

/// Runs in a task of its own, so that a caller who hangs up does not leave a half-stopped daemon: one whose hosts have
/// ended, and which could run nothing.
pub async fn stop(Call { app, caller }: Call, Body(stop): Body<calls::Stop>) -> Reply<Stopping> {
    match app.desk.note_stop(&caller, stop.hosts).await {
        // A daemon whose store fails can still be stopped.
        Err(Error::Store(error)) => {
            error!(caller = caller.name, %error, "a stop of the daemon could not be written to the audit log");
        }
        noted => noted?,
    }
    let stopping = tokio::spawn(shut_down(app, stop)).await;
    Ok(Json(stopping.map_err(Failure::internal)?))
}

async fn shut_down(app: App, stop: calls::Stop) -> Stopping {
    let (shutdown, failed) = if stop.hosts {
        // Before the bridge closes, so that the outcome of their tasks is recorded.
        (Shutdown::StopHosts, app.bridge.stop_hosts().await)
    } else {
        (Shutdown::LeaveHosts, Vec::new())
    };
    let hosts_left = app.bridge.hosts().iter().filter(|host| host.is_alive()).count();
    // An error means that the daemon has already stopped.
    app.shutdown.send(shutdown).ok();
    Stopping { pid: app.about.pid, hosts_left, failed }
}
