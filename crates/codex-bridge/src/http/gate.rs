//! Who comes in by TCP: under our own name, from no foreign page, with a token or the page's cookie.
//!
//! A command that Codex runs can reach a port on this machine, and may read every file on it. It has no token, and none can
//! be made from what lies there: that is what keeps it out.

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

use super::cookie::{self, Transport};
use super::origin::{self, Names};
use super::problem::{self, Refusal};
use super::seats::Shares;
use super::tab;
use super::tries::Tries;
use crate::failure::{Code, Failure};
use tracing::warn;

/// Paths that need no token: whether we live, the way in, and what the page looks like.
const OPEN: [&str; 4] = ["/healthz", "/readyz", "/login", "/logout"];
/// The page's own files are no secret; and what is posted to a hook is signed.
const OPEN_BELOW: [&str; 2] = ["/assets/", "/hooks/"];
/// Where people go who have no cookie.
const LOGIN: &str = "/login";
/// Where they go when a token was none; the page says so.
const LOGIN_FAILED: &str = "/login?failed=1";

/// The largest body of a login. Whoever sends one has shown no token yet.
const LOGIN_MAX_BYTES: usize = 16 * 1024;

/// How the port is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// Whoever connects is who they are.
    Direct,
    /// A proxy speaks TLS for us, and says for whom it calls.
    Proxy,
}

/// Who has come, and how they showed it.
enum Visitor {
    /// By their token, with each call.
    Program(Token),
    /// By the cookie, which stands for a token and may be in other hands: it shows pages, and changes nothing by itself.
    Browser(Token),
}

impl Visitor {
    fn token(&self) -> &Token {
        let (Self::Program(token) | Self::Browser(token)) = self;
        token
    }
}

/// The pages between the cookie and a change, which the page's own room draws.
#[derive(Clone, Copy)]
pub struct Pages {
    /// Somebody has logged in, and this is the secret of the tab.
    pub entered: fn(String) -> Response,
    /// A form came without the secret of its tab: its path, its fields, and whether a token with it was wrong.
    pub locked: fn(&str, &[(String, String)], bool) -> Response,
}

/// Keeps the port.
#[derive(Clone)]
pub struct Gate {
    pages: Pages,
    bridge: Bridge,
    names: Arc<Names>,
    front: Front,
    tries: Arc<Tries>,
    shares: Arc<Shares>,
}

impl Gate {
    /// A gate before a port.
    pub fn new(bridge: Bridge, names: Names, front: Front, pages: Pages) -> Self {
        Self { pages, bridge, names: Arc::new(names), front, tries: Arc::default(), shares: Arc::default() }
    }

    /// The routes behind it.
    pub fn before(self, router: Router) -> Router {
        let ways = Router::new()
            .route("/login", post(login).layer(DefaultBodyLimit::max(LOGIN_MAX_BYTES)))
            .route("/logout", post(logout))
            .layer(middleware::map_response(problem::in_our_words));
        ways.with_state(self.clone())
            .merge(router)
            .layer(middleware::from_fn_with_state(self, let_in))
            .layer(middleware::map_response(kept_by_nobody))
    }

    fn transport(&self) -> Transport {
        match self.front {
            Front::Direct => Transport::Plain,
            Front::Proxy => Transport::Tls,
        }
    }

    /// Who calls, by their token or their cookie.
    fn visitor(&self, method: &Method, headers: &HeaderMap, address: IpAddr) -> Result<Visitor, Failure> {
        let visitor = if let Some(given) = headers.get(AUTHORIZATION) {
            let given = given.to_str().ok().and_then(bearer).unwrap_or_default();
            Visitor::Program(self.bridge.recognise(given).ok_or_else(|| self.bad_token(address))?)
        } else {
            let token = cookie::token(&self.bridge, headers).ok_or_else(nobody)?;
            origin::check_own_page(method, headers)?;
            Visitor::Browser(token)
        };
        self.bridge.token_seen(visitor.token());
        Ok(visitor)
    }

    fn bad_token(&self, address: IpAddr) -> Failure {
        warn!(%address, "a request with an unknown token was refused");
        if self.tries.count(address, Instant::now()) {
            worthless()
        } else {
            Failure::new(Code::TooManyTries, "too many bad tokens came from this address")
                .hint("wait a minute, and check the token")
        }
    }

    /// Whom to count tries for. A proxy adds the address that it sees as the last one.
    fn address(&self, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
        let told = || {
            let last = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
            last.rsplit(',').next()?.trim().parse().ok()
        };
        match self.front {
            Front::Direct => peer.ip(),
            Front::Proxy => told().unwrap_or_else(|| peer.ip()),
        }
    }
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn worthless() -> Failure {
    Failure::new(Code::Unauthorized, "this token is not known, or was revoked")
        .hint("make one with `codex-bridge token create NAME --role viewer|operator|approver`")
}

fn nobody() -> Failure {
    Failure::new(Code::Unauthorized, "a token is needed")
        .hint("send Authorization: Bearer cbt_…; `codex-bridge token create NAME --role ROLE` makes one")
}

fn is_open(path: &str) -> bool {
    OPEN.contains(&path) || OPEN_BELOW.iter().any(|start| path.starts_with(start))
}

/// Tells browsers and proxies to take every answer for what it says it is, and to keep none that does not say otherwise.
async fn kept_by_nobody(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Lets in whoever may come in, as who they are.
async fn let_in(
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
            let answering = gate.shares.answering(&caller, &request)?;
            let is_change = !request.method().is_safe() && !is_open(request.uri().path());
            if let Visitor::Browser(token) = visitor
                && is_change
            {
                let proved =
                    tab::proved(&gate.bridge, &token, request, gate.pages.locked, || gate.bad_token(address));
                request = match proved.await {
                    Ok(request) => request,
                    Err(unproved) => return Ok(answering.until_told(unproved.into_response())),
                };
            }
            request.extensions_mut().insert(caller.clone());
            // For pages, whose words must not lead back to us.
            request.extensions_mut().insert(Arc::clone(&gate.names));
            let response = while_let_in(&gate.bridge, caller, next.run(request)).await?;
            Ok(answering.until_told(response))
        }
        Err(_) if is_open(request.uri().path()) => Ok(next.run(request).await),
        Err(failure) if failure.code == Code::Unauthorized && is_of_a_person(&request) => Ok(to(LOGIN)),
        Err(failure) => Err(failure.into()),
    }
}

/// An answer that ends when the caller's token does, however long it would take or go on.
async fn while_let_in(
    bridge: &Bridge,
    caller: Caller,
    answer: impl Future<Output = Response>,
) -> Result<Response, Refusal> {
    let (bridge, mut revocations) = (bridge.clone(), bridge.revocations());
    let mut revoked = Box::pin(async move {
        // An error would mean that the bridge, which is held here, has gone.
        revocations.wait_for(|()| !caller.has_valid_token(&bridge)).await.ok();
    });
    let response = tokio::select! {
        biased;
        () = &mut revoked => return Err(worthless().into()),
        response = answer => response,
    };
    // What is whole already goes out as it is, with its length.
    if response.body().size_hint().exact().is_some() {
        return Ok(response);
    }
    Ok(response.map(|body| Body::from_stream(body.into_data_stream().take_until(revoked))))
}

/// Whether somebody opens a page, rather than a program calling.
fn is_of_a_person(request: &Request) -> bool {
    let wants_page = accepts_html(request.headers()) && !request.headers().contains_key(AUTHORIZATION);
    wants_page && request.method() == Method::GET && !request.uri().path().starts_with("/v1/")
}

fn accepts_html(headers: &HeaderMap) -> bool {
    accepts(headers, "text/html")
}

fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains(media_type))
}

fn to(place: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response()
}

/// What the page's login sends.
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
        let is_told_by_page = accepts_html(&headers) && failure.code == Code::Unauthorized;
        return if is_told_by_page { Ok(to(LOGIN_FAILED)) } else { Err(failure.into()) };
    };
    gate.bridge.token_seen(&token);
    let cookie = [(SET_COOKIE, cookie::give(&gate.bridge, secret, gate.transport())?)];
    // Told here and nowhere else: who has the cookie alone never comes to know it.
    let tab_secret = || tab::give(&gate.bridge, &token, &headers);
    Ok(if accepts_html(&headers) {
        (cookie, (gate.pages.entered)(tab_secret()?)).into_response()
    } else if accepts(&headers, "application/json") {
        (cookie, Json(Entered { tab: tab_secret()? })).into_response()
    } else {
        (StatusCode::SEE_OTHER, [(LOCATION, "/")], cookie).into_response()
    })
}

/// What the script of a page is told that logs in without leaving it.
#[derive(Serialize)]
struct Entered {
    tab: String,
}

async fn logout(State(gate): State<Gate>) -> Response {
    let cookie = cookie::take(gate.transport());
    (StatusCode::SEE_OTHER, [(LOCATION, LOGIN.to_owned()), (SET_COOKIE, cookie)]).into_response()
}
