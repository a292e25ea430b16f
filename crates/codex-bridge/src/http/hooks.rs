//! `POST /hooks/NAME`: work from a sender who has the secret of a hook. The signature replaces a token.

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use codex_bridge_core::inbox::Received;
use serde_json::{Value, json};

use super::{App, Path, Refusal};
use crate::channel::hook::SignedPost;
use crate::failure::{Code, Failure};

/// The largest accepted body. The signature can be checked only after the body is read.
const BODY_MAX_BYTES: usize = 256 * 1024;

/// The route is not part of the API, and not in its OpenAPI document.
pub fn routes() -> Router<App> {
    Router::new().route("/hooks/{name}", post(receive).layer(DefaultBodyLimit::max(BODY_MAX_BYTES)))
}

/// Replies once the message is durable. A repeated message gets the same reply.
async fn receive(
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let body = body.map_err(|_| {
        Failure::new(Code::TooLarge, format!("the body is larger than {BODY_MAX_BYTES} bytes"))
    })?;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let post = SignedPost {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        body: &body,
    };
    let unknown = || Failure::new(Code::UnknownChannel, format!("no hook {name}"));
    let arrival = app.channels.post(&name, &post).ok_or_else(unknown)??;
    app.bridge.check_target(&arrival.reply_to)?;
    let receipts = app.chats.receive(&name.as_str().into(), vec![arrival], None).await?;
    match receipts.into_iter().next().map(|receipt| receipt.receipt) {
        Some(Received::Taken { id } | Received::Known { id }) => {
            Ok((StatusCode::ACCEPTED, Json(json!({ "inbox_id": id }))))
        }
        Some(Received::NoRoom) => Err(Failure::new(
            Code::NoRoom,
            "the inbox is full: post the message again later, with the same webhook-id",
        )
        .into()),
        Some(Received::Refused) | None => Err(unknown().into()),
    }
}
