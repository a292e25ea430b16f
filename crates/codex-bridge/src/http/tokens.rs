//! Tokens of remote callers: made, listed and revoked by the owner of the machine's account alone.

use axum::Json;
use axum::extract::State;

use super::{App, Body, Caller, Path, Reply};
use crate::calls;
use crate::view::{FreshToken, Token};

pub async fn create(
    State(app): State<App>,
    caller: Caller,
    Body(new): Body<calls::NewToken>,
) -> Reply<FreshToken> {
    let (token, secret) = app.bridge.create_token(&new.name, new.role, &caller.name).await?;
    Ok(Json(FreshToken { name: token.name, role: token.role, token: secret }))
}

pub async fn list(State(app): State<App>) -> Reply<Vec<Token>> {
    Ok(Json(app.bridge.tokens().into_iter().map(Token::from).collect()))
}

pub async fn revoke(State(app): State<App>, caller: Caller, Path(name): Path<String>) -> Reply<Token> {
    Ok(Json(app.bridge.revoke_token(&name, &caller.name).await?.into()))
}
