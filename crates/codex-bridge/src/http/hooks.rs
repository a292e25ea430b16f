//! `POST /hooks/NAME`: work from whoever has the secret of a hook. No token: the signature says who it is.

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use codex_bridge_core::inbox::Received;
use serde_json::{Value, json};

use super::{App, Path, Refusal};
use crate::channel::hook::Posted;
use crate::failure::{Code, Failure};

/// The largest body that is taken from somebody of whom we know nothing yet.
const BODY_MAX_BYTES: usize = 256 * 1024;

/// Beside the API: for others than its callers.
pub fn routes() -> Router<App> {
    Router::new().route("/hooks/{name}", post(receive).layer(DefaultBodyLimit::max(BODY_MAX_BYTES)))
}

/// Answers when the message is durable; the same message gets the same answer.
async fn receive(
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let body = body
        .map_err(|_| Failure::new(Code::TooLarge, format!("a hook takes at most {BODY_MAX_BYTES} bytes")))?;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let posted = Posted {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        body: &body,
    };
    let unknown = || Failure::new(Code::UnknownChannel, format!("there is no hook {name}"));
    let arrival = app.channels.posted(&name, &posted).ok_or_else(unknown)??;
    app.bridge.check_target(&arrival.reply_to)?;
    let receipts = app.chats.receive(&name.as_str().into(), vec![arrival], None).await?;
    match receipts.into_iter().next().map(|receipt| receipt.receipt) {
        Some(Received::Taken { id } | Received::Known { id }) => {
            Ok((StatusCode::ACCEPTED, Json(json!({ "inbox_id": id }))))
        }
        Some(Received::NoRoom) => Err(Failure::new(
            Code::NoRoom,
            "too much waits already: post it again, under the same webhook-id",
        )
        .into()),
        Some(Received::Refused) | None => Err(unknown().into()),
    }
}
