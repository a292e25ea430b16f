//! Channels: which there are, how they are, and serving one or having it rest.

use std::path::PathBuf;

use axum::extract::State;
use axum::{Extension, Json};
use codex_bridge_core::Caller;
use codex_bridge_core::inbox;
use codex_bridge_core::store::MessageFilter;

use super::{App, Body, Path, Query, Reply};
use crate::calls::{Lines, RunChannel};
use crate::channel::settings::{Service, Settings, Way};
use crate::codex::installed;
use crate::config::{self, File};
use crate::failure::{Code, Failure};
use crate::paths::variable;
use crate::view::{self, Channel, ChannelLog, Reached};

pub async fn list(State(app): State<App>) -> Reply<Vec<Channel>> {
    let mut channels = Vec::new();
    for name in app.channels.names() {
        channels.push(shown(&app, &name).await?);
    }
    Ok(Json(channels))
}

pub async fn run(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(mut wanted): Body<RunChannel>,
) -> Reply<Channel> {
    wanted.name = name;
    let opened = open_anew(&app, &wanted)?;
    // A daemon that has run for long may have lost its Codex: that is said now, and not to the first who writes.
    let codex = PathBuf::from(&app.about.codex);
    let usable = tokio::task::spawn_blocking(move || installed(Some(codex))).await;
    usable.map_err(Failure::internal)??;
    app.chats.pause_channel(&caller, &wanted.name.as_str().into(), false).await?;
    app.channels.serve(opened).await?;
    Ok(Json(shown(&app, &wanted.name).await?))
}

pub async fn pause(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Reply<Channel> {
    if !app.channels.is_known(&name) {
        return Err(unknown(&name).into());
    }
    if app.channels.only_sends(&name) {
        let message = format!("channel {name} only sends: nothing comes in that could wait");
        return Err(Failure::new(Code::WrongState, message).into());
    }
    app.chats.pause_channel(&caller, &name.as_str().into(), true).await?;
    app.channels.rest(&name);
    Ok(Json(shown(&app, &name).await?))
}

pub async fn log(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(which): Query<Lines>,
) -> Reply<ChannelLog> {
    let journal = app.channels.journal(&name).ok_or_else(|| unknown(&name))?;
    let (lines, count) = journal.lines_after(which.after);
    let (standing, about) = journal.standing();
    Ok(Json(ChannelLog { lines, count, standing, about }))
}

/// Reaches the platform once, without serving or changing anything.
pub async fn test(
    State(app): State<App>,
    Path(name): Path<String>,
    Body(mut wanted): Body<RunChannel>,
) -> Reply<Reached> {
    wanted.name = name;
    let said = app.channels.probe(open_anew(&app, &wanted)?).await?;
    Ok(Json(Reached { name: wanted.name, said }))
}

async fn shown(app: &App, name: &str) -> Result<Channel, Failure> {
    let open = MessageFilter {
        channel: Some(name.into()),
        states: vec![
            inbox::MessageState::Received,
            inbox::MessageState::Running,
            inbox::MessageState::Answered,
        ],
        ..MessageFilter::default()
    };
    let open = app.chats.messages(&open).await?;
    let record = app.chats.channel(&name.into()).await?;
    let (standing, about) = app.channels.standing(name);
    let knocks = app.chats.knocks().into_iter().filter(|knock| knock.channel.as_str() == name);
    Ok(Channel {
        name: name.to_owned(),
        standing: if record.is_paused { "paused".to_owned() } else { standing.as_str().to_owned() },
        about,
        open_messages: open.len(),
        knocks: knocks.map(view::Knock::from).collect(),
    })
}

fn unknown(name: &str) -> Failure {
    Failure::new(Code::UnknownChannel, format!("no channel {name}"))
        .hint("`codex-bridge channel list` lists them")
}

/// A channel as it is configured now, with what its caller brings along.
fn open_anew(app: &App, wanted: &RunChannel) -> Result<Service, Failure> {
    let file = config::load(&app.paths)?;
    let service = open(app, &file, wanted)?;
    if let Some(settings) = file.channels.get(&wanted.name) {
        app.channels.configured(&wanted.name, settings, Way::Receives(Box::new(service.clone())));
    }
    Ok(service)
}

/// A channel of a configuration, with what its caller brings along.
pub fn open(app: &App, file: &File, wanted: &RunChannel) -> Result<Service, Failure> {
    let configured = file.channels.get(&wanted.name).cloned();
    let mut settings = configured.unwrap_or_else(|| Settings::unsaid(&wanted.name));
    if !wanted.allow.is_empty() {
        settings.common.allow.clone_from(&wanted.allow);
    }
    let env = |name: &str| wanted.variables.get(name).cloned().or_else(|| variable(name));
    // Whoever runs it may bring its token along.
    let redactor = app.bridge.redactor();
    redactor.learn(file.secrets(&env));
    settings.service(&wanted.name, file.around(&env, wanted.cwd.as_ref(), redactor))
}
