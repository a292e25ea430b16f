//! Failures as HTTP responses: problem JSON (RFC 9457), with our `code` and `hint` in addition.
//!
//! The extractors for bodies, queries and paths are here too, so that all mistakes in a request are reported alike.

use std::error::Error;

use axum::Json;
use axum::extract::rejection::{BytesRejection, FormRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::{Code, Failure, Problem, parser_message};

/// The media type of a failure.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// The `Retry-After` of every 429.
pub const RETRY_AFTER_S: u64 = 60;
/// How much is read of a failure that a library reported.
const FOREIGN_MAX_BYTES: usize = 16 * 1024;

/// 2^53: a larger `f64` may stand for several integers.
const LARGEST_INTEGER: f64 = 9_007_199_254_740_992.0;

/// A failure that becomes a response.
#[derive(Debug)]
pub struct Refusal(Failure);

impl<E: Into<Failure>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        Problem::from(self.0).into_response()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        (status, headers, Json(self)).into_response()
    }
}

/// The body did not arrive in time.
#[derive(Debug, thiserror::Error)]
#[error("the body came too slowly")]
pub struct TooSlow;

/// Turns a failure that a library reported into problem JSON. Libraries report failures as plain text or without a body.
pub async fn as_problem(response: Response) -> Response {
    let is_failure = response.status().is_client_error() || response.status().is_server_error();
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !is_failure || media_type.is_some_and(|media_type| !media_type.starts_with("text/plain")) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let title = parts.status.canonical_reason().unwrap_or("Failure");
    let text = axum::body::to_bytes(body, FOREIGN_MAX_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    let problem = Problem {
        kind: "about:blank".to_owned(),
        title: title.to_owned(),
        status: parts.status.as_u16(),
        detail: if text.is_empty() { title.to_owned() } else { text },
        code: code(parts.status),
        hint: None,
    };
    let mut response = problem.into_response();
    // Other headers, such as `Allow`, are kept.
    for (name, value) in parts.headers.iter().filter(|(name, _)| **name != CONTENT_LENGTH) {
        response.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    response
}

/// The code of a failure of which only the status is known.
fn code(status: StatusCode) -> Code {
    match status {
        StatusCode::UNAUTHORIZED => Code::Unauthorized,
        StatusCode::FORBIDDEN => Code::Forbidden,
        StatusCode::NOT_FOUND => Code::UnknownRoute,
        StatusCode::METHOD_NOT_ALLOWED => Code::WrongMethod,
        StatusCode::NOT_ACCEPTABLE => Code::NotAcceptable,
        StatusCode::REQUEST_TIMEOUT => Code::TooSlow,
        StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::WrongMediaType,
        status if status.is_client_error() => Code::BadCall,
        _ => Code::Internal,
    }
}

/// The fallback for an unknown path.
pub async fn unknown_route() -> Refusal {
    Failure::new(Code::UnknownRoute, "there is no such route")
        .hint("/v1/openapi.json lists all routes")
        .into()
}

/// The fallback for a method that the route does not have. axum adds the `Allow` header.
pub async fn wrong_method() -> Refusal {
    let failure = Failure::new(Code::WrongMethod, "this route does not have this method");
    failure.hint("the Allow header lists the methods").into()
}

/// The failure for a body that is too large.
pub fn too_large(max_bytes: usize) -> Failure {
    let failure = Failure::new(Code::TooLarge, "the body is too large");
    failure.hint(format!("send at most {} KiB", max_bytes / 1024))
}

/// The failure for a form that cannot be read.
pub fn bad_form(rejection: &FormRejection, max_bytes: usize) -> Failure {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(max_bytes),
        _ => Failure::new(Code::BadCall, rejection.body_text()),
    }
}

/// A JSON object from the caller.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let is_json = is_json(request.headers());
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| unreadable(&rejection))?;
        if !is_json {
            let failure = Failure::new(Code::WrongMediaType, "the body must be JSON");
            return Err(failure.hint("send content-type: application/json").into());
        }
        // serde would also accept an array of the fields' values.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(Failure::new(Code::BadCall, "the body must be a JSON object").into());
        }
        let bad_call =
            |error: serde_json::Error| Failure::new(Code::BadCall, parser_message(&error.to_string()));
        let read = serde_json::from_slice(&bytes);
        Ok(Self(read.or_else(|error| with_integers(&bytes).ok_or(error)).map_err(bad_call)?))
    }
}

/// The failure for a body that could not be read.
pub fn unreadable(rejection: &BytesRejection) -> Failure {
    let mut causes = std::iter::successors(Some(rejection as &dyn Error), |&error| error.source());
    if causes.any(<dyn Error>::is::<TooSlow>) {
        return Failure::new(Code::TooSlow, TooSlow.to_string());
    }
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(super::BODY_MAX_BYTES),
        _ => Failure::new(Code::BadCall, "the connection ended before the whole body had arrived"),
    }
}

/// Parses again with 115.0 read as 115. JSON Schema, and languages with one kind of number, do not distinguish them.
fn with_integers<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut value: Value = serde_json::from_slice(bytes).ok()?;
    make_integers(&mut value);
    serde_json::from_value(value).ok()
}

fn make_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let integer =
                number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < LARGEST_INTEGER);
            // Formatted without a fraction, the number parses as an integer.
            if let Some(integer) = integer.and_then(|number| format!("{number:.0}").parse::<i64>().ok()) {
                *value = integer.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_integers),
        Value::Object(fields) => fields.values_mut().for_each(make_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}

/// The query of a request.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        let bad_call =
            |error: QueryRejection| Failure::new(Code::BadCall, parser_message(&error.body_text()));
        Ok(Self(read.map(|axum::extract::Query(fields)| fields).map_err(bad_call)?))
    }
}

/// The variable parts of a request's path.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        let bad_call = |error: PathRejection| Failure::new(Code::BadCall, parser_message(&error.body_text()));
        Ok(Self(read.map(|axum::extract::Path(segments)| segments).map_err(bad_call)?))
    }
}
