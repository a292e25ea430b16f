//! The inbox: list the messages from channels, and retry one.

use axum::extract::State;
use axum::{Extension, Json};
use codex_bridge_core::Caller;
use codex_bridge_core::inbox::{ChannelName, MessageState};
use codex_bridge_core::store::MessageFilter;

use super::{App, Path, Query, Reply, page};
use crate::calls;
use crate::view::Message;

pub async fn list(State(app): State<App>, Query(which): Query<calls::Inbox>) -> Reply<Vec<Message>> {
    let unfinished =
        [MessageState::Received, MessageState::Running, MessageState::Answered, MessageState::Dead];
    let filter = MessageFilter {
        channel: which.channel.map(ChannelName),
        states: if which.all { Vec::new() } else { unfinished.to_vec() },
        limit: Some(page::limit(which.limit)?),
        ..MessageFilter::default()
    };
    Ok(Json(app.chats.messages(&filter).await?.into_iter().map(Message::from).collect()))
}

pub async fn retry(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Reply<Message> {
    Ok(Json(app.chats.retry_message(&caller, &id).await?.into()))
}
