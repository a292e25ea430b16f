//! The routes: what a request is answered with, and that every request is recorded.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response as HttpResponse;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::config::MODEL;
use crate::play::{plain_answer, play};
use crate::request::ReceivedRequest;
use crate::stage::Stage;

/// Serves until the stage is closed and the open answers have ended.
pub(crate) async fn serve(listener: TcpListener, stage: Arc<Stage>) -> io::Result<()> {
    let closed = Arc::clone(&stage);
    axum::serve(listener, routes(stage)).with_graceful_shutdown(async move { closed.closed().await }).await
}

fn routes(stage: Arc<Stage>) -> Router {
    Router::new()
        .route("/v1/responses", post(respond))
        .route("/v1/models", get(models))
        .route("/release/{name}", post(release))
        .route("/requests", get(requests))
        .fallback(unknown)
        .layer(DefaultBodyLimit::disable())
        .with_state(stage)
}

async fn respond(
    State(stage): State<Arc<Stage>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> HttpResponse {
    let request = stage.record(received(&method, &uri, &headers, &body));
    let cue = stage.cue(&request);
    play(stage, cue.response, cue.round).await
}

/// The list of models, in OpenAI's shape.
async fn models(
    State(stage): State<Arc<Stage>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> HttpResponse {
    stage.record(received(&method, &uri, &headers, &Bytes::new()));
    let model = json!({"id": MODEL, "object": "model", "created": 0, "owned_by": "scripted"});
    plain_answer(200, &json!({"object": "list", "data": [model]}))
}

async fn release(State(stage): State<Arc<Stage>>, Path(name): Path<String>) -> StatusCode {
    stage.release(&name);
    StatusCode::NO_CONTENT
}

async fn requests(State(stage): State<Arc<Stage>>) -> HttpResponse {
    let requests: Vec<Value> = stage.requests().iter().map(|request| shown(request)).collect();
    plain_answer(200, &Value::Array(requests))
}

async fn unknown(
    State(stage): State<Arc<Stage>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> HttpResponse {
    stage.record(received(&method, &uri, &headers, &body));
    plain_answer(404, &json!({"error": {"message": format!("the scripted model has no {}", uri.path())}}))
}

fn received(method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> ReceivedRequest {
    let headers = headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let path = uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
    let body = serde_json::from_slice(body).unwrap_or_else(|_| text_body(body));
    ReceivedRequest { index: 0, method: method.to_string(), path, headers, body }
}

fn text_body(body: &Bytes) -> Value {
    if body.is_empty() { Value::Null } else { Value::String(String::from_utf8_lossy(body).into_owned()) }
}

fn shown(request: &ReceivedRequest) -> Value {
    json!({
        "index": request.index,
        "method": request.method,
        "path": request.path,
        "headers": request.headers,
        "body": request.body,
    })
}
