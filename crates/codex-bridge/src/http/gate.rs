//! Authentication on the TCP port: the request names our host, comes from no other site's page, and has a token or the
//! page's cookie.
//!
//! A command that Codex runs can connect to a port on this machine, and may be able to read every file. It has no token,
//! and a token cannot be made from files.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Form, Request, State};
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, LOCATION, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use codex_bridge_core::Bridge;
use codex_bridge_core::Caller;
use codex_bridge_core::token::Token;
use futures_util::StreamExt;
use hyper::body::Body as _;
use serde::{Deserialize, Serialize};

use super::connection_slots::CallLimits;
use super::cookie;
use super::origin::{self, Names};
use super::problem::{self, Refusal};
use super::tab;
use super::token_attempts::TokenAttempts;
use crate::failure::{Code, Failure};
use tracing::warn;

const PUBLIC_PATHS: [&str; 4] = ["/healthz", "/readyz", "/login", "/logout"];
/// Paths below these need no token: the page's files are public, and posts to a hook are signed.
const PUBLIC_PREFIXES: [&str; 2] = ["/assets/", "/hooks/"];
/// A person without a cookie is redirected here.
const LOGIN: &str = "/login";
/// The login page with the message that the token is unknown.
const LOGIN_FAILED: &str = "/login?failed=1";

/// The largest body of a login. The sender is not authenticated yet, so the limit is small.
const LOGIN_MAX_BYTES: usize = 16 * 1024;

/// What stands in front of the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// Nothing: clients connect directly.
    Direct,
    /// A proxy that speaks TLS and adds the address of its client (`X-Forwarded-For`).
    Proxy,
}

enum Visitor {
    /// The request has the token itself.
    Program(Token),
    /// The request has the cookie. Another server on this machine may know it too, so it allows reading only.
    Browser(Token),
}

impl Visitor {
    fn token(&self) -> &Token {
        let (Self::Program(token) | Self::Browser(token)) = self;
        token
    }
}

/// Pages of the login, which the `web` module draws.
#[derive(Clone, Copy)]
pub struct Pages {
    /// The page after a login. The argument is the secret of the tab.
    pub entered: fn(String) -> Response,
    /// The page that asks for the token because a form came without the secret of its tab. The arguments are the form's
    /// path, its fields, and whether it had a wrong token.
    pub locked: fn(&str, &[(String, String)], bool) -> Response,
}

/// Authenticates the requests on a port.
#[derive(Clone)]
pub struct Gate {
    pages: Pages,
    bridge: Bridge,
    names: Arc<Names>,
    front: Front,
    attempts: Arc<TokenAttempts>,
    call_limits: Arc<CallLimits>,
}

impl Gate {
    /// A gate for a port.
    pub fn new(bridge: Bridge, names: Names, front: Front, pages: Pages) -> Self {
        Self {
            pages,
            bridge,
            names: Arc::new(names),
            front,
            attempts: Arc::default(),
            call_limits: Arc::default(),
        }
    }

    /// Puts the gate in front of all routes, and adds login and logout.
    pub fn before(self, router: Router) -> Router {
        let login_routes = Router::new()
            .route("/login", post(login).layer(DefaultBodyLimit::max(LOGIN_MAX_BYTES)))
            .route("/logout", post(logout))
            .layer(middleware::map_response(problem::as_problem));
        login_routes
            .with_state(self.clone())
            .merge(router)
            .layer(middleware::from_fn_with_state(self, authenticate))
            .layer(middleware::map_response(add_headers))
    }

    /// Authenticates a request by its token or its cookie.
    fn visitor(&self, method: &Method, headers: &HeaderMap, address: IpAddr) -> Result<Visitor, Failure> {
        let visitor = if let Some(header) = headers.get(AUTHORIZATION) {
            let secret = header.to_str().ok().and_then(bearer).unwrap_or_default();
            Visitor::Program(self.bridge.recognise(secret).ok_or_else(|| self.bad_token(address))?)
        } else {
            let token = cookie::token(&self.bridge, headers).ok_or_else(token_missing)?;
            origin::check_own_page(method, headers)?;
            Visitor::Browser(token)
        };
        self.bridge.token_seen(visitor.token());
        Ok(visitor)
    }

    fn bad_token(&self, address: IpAddr) -> Failure {
        warn!(%address, "a request with an unknown token was refused");
        if self.attempts.count(address, Instant::now()) {
            unknown_token()
        } else {
            Failure::new(Code::TooManyTries, "too many unknown tokens came from this address")
                .hint("wait a minute, and check the token")
        }
    }

    /// The address to count failed attempts for. A proxy appends the address of its client to `X-Forwarded-For`.
    fn address(&self, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
        let forwarded = || {
            let last = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
            last.rsplit(',').next()?.trim().parse().ok()
        };
        match self.front {
            Front::Direct => peer.ip(),
            Front::Proxy => forwarded().unwrap_or_else(|| peer.ip()),
        }
    }
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn unknown_token() -> Failure {
    Failure::new(Code::Unauthorized, "this token is not known, or was revoked")
        .hint("make one with `codex-bridge token create NAME --role viewer|operator|approver`")
}

fn token_missing() -> Failure {
    Failure::new(Code::Unauthorized, "a token is needed")
        .hint("send Authorization: Bearer cbt_…; `codex-bridge token create NAME --role ROLE` makes one")
}

fn is_public(path: &str) -> bool {
    PUBLIC_PATHS.contains(&path) || PUBLIC_PREFIXES.iter().any(|start| path.starts_with(start))
}

/// Tells browsers not to guess media types, and nobody to cache a response that does not allow it.
async fn add_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Authenticates each request, and puts its [`Caller`] into it.
async fn authenticate(
    State(gate): State<Gate>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let headers = request.headers();
    gate.names.check(headers)?;
    let address = gate.address(peer, headers);
    match gate.visitor(request.method(), headers, address) {
        Ok(visitor) => {
            let caller = Caller::with_token(visitor.token());
            let active_call = gate.call_limits.begin(&caller, &request)?;
            let is_change = !request.method().is_safe() && !is_public(request.uri().path());
            if let Visitor::Browser(token) = visitor
                && is_change
            {
                let verified =
                    tab::verify(&gate.bridge, &token, request, gate.pages.locked, || gate.bad_token(address));
                request = match verified.await {
                    Ok(request) => request,
                    Err(response) => return Ok(active_call.until_sent(response)),
                };
            }
            request.extensions_mut().insert(caller.clone());
            // Pages must not show links that lead to one of these names.
            request.extensions_mut().insert(Arc::clone(&gate.names));
            let response = until_revoked(&gate.bridge, caller, next.run(request)).await?;
            Ok(active_call.until_sent(response))
        }
        Err(_) if is_public(request.uri().path()) => Ok(next.run(request).await),
        Err(failure) if failure.code == Code::Unauthorized && is_page_view(&request) => Ok(redirect(LOGIN)),
        Err(failure) => Err(failure.into()),
    }
}

/// Ends a response, and the work for it, when the caller's token is revoked.
async fn until_revoked(
    bridge: &Bridge,
    caller: Caller,
    response: impl Future<Output = Response>,
) -> Result<Response, Refusal> {
    let (bridge, mut revocations) = (bridge.clone(), bridge.revocations());
    let mut revoked = Box::pin(async move {
        // An error is impossible: the bridge is held here.
        revocations.wait_for(|()| !caller.has_valid_token(&bridge)).await.ok();
    });
    let response = tokio::select! {
        biased;
        () = &mut revoked => return Err(unknown_token().into()),
        response = response => response,
    };
    // A body that is already complete is sent as it is, with its length.
    if response.body().size_hint().exact().is_some() {
        return Ok(response);
    }
    Ok(response.map(|body| Body::from_stream(body.into_data_stream().take_until(revoked))))
}

/// Whether a person opens a page, rather than a program calling the API.
fn is_page_view(request: &Request) -> bool {
    let wants_page =
        accepts(request.headers(), "text/html") && !request.headers().contains_key(AUTHORIZATION);
    wants_page && request.method() == Method::GET && !request.uri().path().starts_with("/v1/")
}

fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains(media_type))
}

fn redirect(place: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response()
}

#[derive(Deserialize)]
struct Login {
    token: String,
}

async fn login(
    State(gate): State<Gate>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    form: Result<Form<Login>, axum::extract::rejection::FormRejection>,
) -> Result<Response, Refusal> {
    let Form(login) = form.map_err(|error| problem::bad_form(&error, LOGIN_MAX_BYTES))?;
    let secret = login.token.trim();
    let Some(token) = gate.bridge.recognise(secret) else {
        let failure = gate.bad_token(gate.address(peer, &headers));
        let is_shown_on_page = accepts(&headers, "text/html") && failure.code == Code::Unauthorized;
        return if is_shown_on_page { Ok(redirect(LOGIN_FAILED)) } else { Err(failure.into()) };
    };
    gate.bridge.token_seen(&token);
    let cookie = [(SET_COOKIE, cookie::issue(&gate.bridge, secret, gate.front)?)];
    // Only this reply has the tab's secret. A server that has learned the cookie cannot get it.
    let tab_secret = || tab::issue(&gate.bridge, &token, &headers);
    Ok(if accepts(&headers, "text/html") {
        (cookie, (gate.pages.entered)(tab_secret()?)).into_response()
    } else if accepts(&headers, "application/json") {
        (cookie, Json(Entered { tab: tab_secret()? })).into_response()
    } else {
        (StatusCode::SEE_OTHER, [(LOCATION, "/")], cookie).into_response()
    })
}

/// The reply to a page's script that logs in without leaving the page.
#[derive(Serialize)]
struct Entered {
    tab: String,
}

async fn logout(State(gate): State<Gate>) -> Response {
    let cookie = cookie::clear(gate.front);
    (StatusCode::SEE_OTHER, [(LOCATION, LOGIN.to_owned()), (SET_COOKIE, cookie)]).into_response()
}
