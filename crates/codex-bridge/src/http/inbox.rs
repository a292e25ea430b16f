//! The inbox: list the messages from channels, and retry one.

use axum::Json;
use axum::extract::State;
use codex_bridge_core::inbox::{ChannelName, MessageState};
use codex_bridge_core::store::MessageFilter;

use super::{App, Call, Path, Query, Reply};
use crate::calls;
use crate::view::Message;

pub async fn list(State(app): State<App>, Query(which): Query<calls::Inbox>) -> Reply<Vec<Message>> {
    let unfinished =
        [MessageState::Received, MessageState::Running, MessageState::Answered, MessageState::Dead];
    let filter = MessageFilter {
        channel: which.channel.map(ChannelName),
        states: if which.all { Vec::new() } else { unfinished.to_vec() },
        limit: Some(calls::limit(which.limit)?),
        ..MessageFilter::default()
    };
    Ok(Json(app.chats.messages(&filter).await?.into_iter().map(Message::from).collect()))
}

pub async fn retry(Call { app, caller }: Call, Path(id): Path<String>) -> Reply<Message> {
    Ok(Json(app.chats.retry_message(&caller, &id).await?.into()))
}
