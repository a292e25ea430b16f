//! The channels of a daemon: those that are configured, and one that it was started for.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::calls::RunChannel;
use crate::channel::settings::{Opened, Settings, Surroundings, secrets};
use crate::codex::data_dir;
use crate::config::{self, File};
use crate::failure::Failure;
use crate::http::App;

use super::{End, variable};

/// Begins to serve them. What the daemon was started for must be served, and its end is the daemon's: the failure is
/// found in what comes back. What is configured and cannot be served only says so.
pub async fn serve(app: &App, wanted: Option<&RunChannel>) -> Result<Arc<OnceLock<Failure>>, Failure> {
    app.channels.ready(app.bridge.clone(), locks()?);
    let stopped = Arc::new(OnceLock::new());
    for (name, settings) in &app.rules.file.channels {
        if settings.manual || wanted.is_some_and(|wanted| wanted.name == *name) {
            continue;
        }
        let app = app.clone();
        let name = name.clone();
        tokio::spawn(async move {
            if let Err(failure) = serve_configured(&app, &name).await {
                let why = failure.to_string();
                eprintln!("warning: channel {name} is not served: {}", app.bridge.redactor().redact(&why));
                app.channels.not_served(&name, &failure);
            }
        });
    }
    if let Some(wanted) = wanted {
        let journal = app.channels.serve(open(app, &app.rules.file, wanted)?).await?;
        let (ending, stopped) = (Arc::clone(&app.ending), Arc::clone(&stopped));
        tokio::spawn(async move {
            let why = journal.stopped().await;
            // Told once, when the daemon has ended.
            let _ = stopped.set(Failure::new("channel_stopped", why));
            let _ = ending.send(End::LeaveHosts);
        });
    }
    Ok(stopped)
}

async fn serve_configured(app: &App, name: &str) -> Result<(), Failure> {
    if app.bridge.channel(name).await?.is_paused {
        return Ok(());
    }
    app.channels.serve(open(app, &app.rules.file, &RunChannel::named(name))?).await?;
    Ok(())
}

/// A channel as it is configured now, with what its caller brings along.
pub fn open_anew(app: &App, wanted: &RunChannel) -> Result<Opened, Failure> {
    let file = config::load(&app.paths)?;
    let opened = open(app, &file, wanted)?;
    if file.channels.contains_key(&wanted.name) {
        app.channels.configured(&wanted.name, Ok(opened.clone()));
    }
    Ok(opened)
}

fn open(app: &App, file: &File, wanted: &RunChannel) -> Result<Opened, Failure> {
    let mut settings: Settings = file.channels.get(&wanted.name).cloned().unwrap_or_default();
    if !wanted.allow.is_empty() {
        settings.allow.clone_from(&wanted.allow);
    }
    let env = |name: &str| wanted.variables.get(name).cloned().or_else(|| variable(name));
    // Whoever runs it may bring its token along.
    let redactor = app.bridge.redactor();
    redactor.learn(secrets(file, &env));
    settings.open(&wanted.name, Surroundings { file, env: &env, cwd: wanted.cwd.as_ref(), redactor })
}

/// Where the locks of what is served are: the same for all state directories of one user.
fn locks() -> Result<PathBuf, Failure> {
    let data_dir = data_dir().map_err(|error| Failure::new("no_home", error))?;
    Ok(data_dir.join("channels"))
}
