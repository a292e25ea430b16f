//! Channels: list, run, pause and test them, and read their logs.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use codex_bridge_core::inbox;
use codex_bridge_core::store::MessageFilter;
use codex_bridge_core::token::Role;

use super::{App, Body, Call, Path, Query, Reply};
use crate::calls::{AllowSender, DisallowSender, Lines, RunChannel};
use crate::channel::registry::ChannelStatus;
use crate::channel::settings::{OpenedChannel, Service, Settings};
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
    Call { app, caller }: Call,
    Path(name): Path<String>,
    Body(mut wanted): Body<RunChannel>,
) -> Reply<Channel> {
    wanted.name = name;
    let service = reload(&app, &wanted)?;
    // Codex may have been removed since the daemon started. The caller should know now, not the first person who writes.
    let codex = PathBuf::from(&app.about.codex);
    let found = tokio::task::spawn_blocking(move || installed(Some(codex))).await;
    found.map_err(Failure::internal)??;
    app.chats.pause_channel(&caller, &wanted.name.as_str().into(), false).await?;
    app.channels.serve(service).await?;
    Ok(Json(shown(&app, &wanted.name).await?))
}

pub async fn pause(Call { app, caller }: Call, Path(name): Path<String>) -> Reply<Channel> {
    if !app.channels.is_known(&name) {
        return Err(unknown(&name).into());
    }
    if app.channels.only_sends(&name) {
        let message = format!("channel {name} only sends, so it cannot be paused");
        return Err(Failure::new(Code::WrongState, message).into());
    }
    app.chats.pause_channel(&caller, &name.as_str().into(), true).await?;
    app.channels.pause(&name);
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

/// Calls the platform once. Serves and changes nothing.
pub async fn test(
    State(app): State<App>,
    Path(name): Path<String>,
    Body(mut wanted): Body<RunChannel>,
) -> Reply<Reached> {
    wanted.name = name;
    let said = app.channels.probe(reload(&app, &wanted)?).await?;
    Ok(Json(Reached { name: wanted.name, said }))
}

/// Allows the stranger with this code to write.
pub async fn allow(Call { app, caller }: Call, Body(wanted): Body<AllowSender>) -> Reply<view::Allowed> {
    let role = if wanted.approver { Role::Approver } else { Role::Operator };
    let knock = app.chats.allow(&caller, &wanted.code, role).await?;
    Ok(Json(view::Allowed::by_code(knock, role)))
}

/// Takes back what `allow` gave.
pub async fn disallow(
    Call { app, caller }: Call,
    Path(name): Path<String>,
    Body(wanted): Body<DisallowSender>,
) -> Reply<Channel> {
    if !app.channels.is_known(&name) {
        return Err(unknown(&name).into());
    }
    app.chats.disallow(&caller, &name.as_str().into(), &wanted.sender_id).await?;
    Ok(Json(shown(&app, &name).await?))
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
        standing: if record.is_paused { ChannelStatus::Paused } else { standing },
        about,
        open_messages: open.len(),
        knocks: knocks.map(view::Knock::from).collect(),
        allowed: record.allowed.iter().map(|one| view::Allowed::of(&record.name, one)).collect(),
    })
}

fn unknown(name: &str) -> Failure {
    Failure::new(Code::UnknownChannel, format!("no channel {name}"))
        .hint("`codex-bridge channel list` lists the channels")
}

/// Opens a channel from the present configuration file and the caller's variables.
fn reload(app: &App, wanted: &RunChannel) -> Result<Service, Failure> {
    let file = config::load(&app.paths)?;
    let service = open(app, &file, wanted)?;
    if let Some(settings) = file.channels.get(&wanted.name) {
        app.channels.set_configured(
            &wanted.name,
            settings,
            OpenedChannel::Receives(Box::new(service.clone())),
        );
    }
    Ok(service)
}

/// Opens a channel from a configuration and the caller's variables.
pub fn open(app: &App, file: &File, wanted: &RunChannel) -> Result<Service, Failure> {
    let configured = file.channels.get(&wanted.name).cloned();
    let mut settings = configured.unwrap_or_else(|| Settings::unconfigured(&wanted.name));
    if !wanted.allow.is_empty() {
        settings.common.allow.clone_from(&wanted.allow);
    }
    let env = |name: &str| wanted.variables.get(name).cloned().or_else(|| variable(name));
    // The caller's variables may hold the channel's token.
    let redactor = app.bridge.redactor();
    redactor.learn(file.secrets(&env));
    settings.service(&wanted.name, file.channel_context(&env, wanted.cwd.as_ref(), redactor))
}
