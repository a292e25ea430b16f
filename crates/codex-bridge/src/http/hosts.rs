//! The daemon itself and its hosts.

use axum::extract::State;
use axum::{Extension, Json};
use codex_bridge_core::Caller;
use tracing::error;

use super::End;
use super::{App, Body, Reply};
use crate::calls;
use crate::failure::Failure;
use crate::view::{About, Fine, Host, Stopping};

pub async fn list(State(app): State<App>) -> Reply<Vec<Host>> {
    let hosts = app.bridge.hosts();
    Ok(Json(hosts.iter().filter(|host| host.is_alive()).map(Host::from).collect()))
}

pub async fn about(State(app): State<App>) -> Reply<About> {
    Ok(Json((*app.about).clone()))
}

pub async fn health() -> Json<Fine> {
    Json(Fine { ok: true })
}

/// A daemon that has begun to stop comes to its end, whoever hangs up: with its hosts closed it would begin nothing more.
pub async fn stop(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(stop): Body<calls::Stop>,
) -> Reply<Stopping> {
    // A daemon whose store fails can be stopped all the same.
    if let Err(error) = app.desk.note_stop(&caller, stop.hosts).await {
        error!(caller = caller.name, %error, "who stopped the daemon is not in the audit log");
    }
    let stopping = tokio::spawn(end(app, stop)).await;
    Ok(Json(stopping.map_err(Failure::internal)?))
}

async fn end(app: App, stop: calls::Stop) -> Stopping {
    let (end, failed) = if stop.hosts {
        // While the bridge lives, so that the tasks on them are recorded as what they are.
        (End::WithHosts, app.bridge.stop_hosts().await)
    } else {
        (End::LeaveHosts, Vec::new())
    };
    let hosts_left = app.bridge.hosts().iter().filter(|host| host.is_alive()).count();
    // An error would mean that nobody is left who could end.
    app.ending.send(end).ok();
    Stopping { pid: app.about.pid, hosts_left, failed }
}
