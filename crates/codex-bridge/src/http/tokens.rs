//! Tokens of remote callers: made, listed and revoked by the owner of the machine's account alone.

use axum::extract::State;
use axum::{Extension, Json};
use codex_bridge_core::Caller;
use codex_bridge_core::token::{self, NewQuota};

use super::{App, Body, Path, Reply};
use crate::calls;
use crate::failure::Failure;
use crate::view::{FreshToken, Token};

pub async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(new): Body<calls::NewToken>,
) -> Reply<FreshToken> {
    let quota = NewQuota { open_tasks: new.max_open_tasks, bytes: new.max_bytes };
    let (token, secret) = app.bridge.create_token(&new.name, new.role, quota, &caller.name).await?;
    Ok(Json(FreshToken { name: token.name, role: token.role, token: secret }))
}

pub async fn list(State(app): State<App>) -> Reply<Vec<Token>> {
    let mut listed = Vec::new();
    for token in app.bridge.tokens() {
        listed.push(with_use(&app, token).await?);
    }
    Ok(Json(listed))
}

pub async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Reply<Token> {
    let token = app.bridge.revoke_token(&name, &caller.name).await?;
    Ok(Json(with_use(&app, token).await?))
}

pub async fn quota(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(quota): Body<calls::Quota>,
) -> Reply<Token> {
    let token = app.bridge.change_quota(&name, quota.into(), &caller.name).await?;
    Ok(Json(with_use(&app, token).await?))
}

async fn with_use(app: &App, token: token::Token) -> Result<Token, Failure> {
    let used = app.bridge.used_by(&token.name).await?;
    Ok(Token::new(token, used))
}
