//! Starts the daemon's channels: the configured ones, and the one that the daemon was started for.

use std::sync::{Arc, OnceLock};

use tracing::{error, warn};

use crate::calls::RunChannel;
use crate::codex::data_dir;
use crate::failure::{Code, Failure};
use crate::http::channels::open;
use crate::http::{App, Shutdown};

/// Starts to serve the channels. A configured channel that cannot be served is only logged. The daemon stops with the
/// channel that it was started for, and the returned cell then holds the failure.
pub async fn serve(app: &App, wanted: Option<&RunChannel>) -> Result<Arc<OnceLock<Failure>>, Failure> {
    // The locks are in one directory for all state directories of a user.
    app.channels.ready(app.chats.clone(), data_dir()?.join("channels"));
    let stopped = Arc::new(OnceLock::new());
    for (name, settings) in &app.file.channels {
        let is_wanted = wanted.is_some_and(|wanted| wanted.name == *name);
        if settings.common.manual || is_wanted || app.channels.only_sends(name) {
            continue;
        }
        // Does not connect yet, except that a hook is ready before the first call is answered.
        if let Err(failure) = serve_configured(app, name).await {
            let why = app.bridge.redactor().redact(&failure.to_string()).into_owned();
            warn!(channel = name, why, "a channel cannot be served");
            app.channels.record_failure(name, why);
        }
    }
    if let Some(wanted) = wanted {
        let journal = app.channels.serve(open(app, &app.file, wanted)?).await?;
        let (ending, stopped) = (Arc::clone(&app.shutdown), Arc::clone(&stopped));
        tokio::spawn(async move {
            let why = journal.stopped().await;
            error!(why, "the channel that the daemon was started for has stopped, so the daemon stops");
            // Reported when the daemon has stopped.
            stopped.set(Failure::new(Code::ChannelStopped, why)).ok();
            ending.send(Shutdown::LeaveHosts).ok();
        });
    }
    Ok(stopped)
}

async fn serve_configured(app: &App, name: &str) -> Result<(), Failure> {
    if app.chats.channel(&name.into()).await?.is_paused {
        return Ok(());
    }
    let as_configured = RunChannel { name: name.to_owned(), ..RunChannel::default() };
    app.channels.serve(open(app, &app.file, &as_configured)?).await?;
    Ok(())
}
