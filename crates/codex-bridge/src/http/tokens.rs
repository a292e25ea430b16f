//! Tokens of remote callers. Only the owner of the machine's account creates, lists and revokes them.

use axum::Json;
use codex_bridge_core::token::NewQuota;

use super::{Body, Call, Path, Reply};
use crate::calls;
use crate::view::{FreshToken, Token};

pub async fn create(Call { app, caller }: Call, Body(new): Body<calls::NewToken>) -> Reply<FreshToken> {
    let quota = NewQuota { open_tasks: new.max_open_tasks, bytes: new.max_bytes };
    let (token, secret) = app.desk.create_token(&caller, &new.name, new.role, quota).await?;
    Ok(Json(FreshToken { name: token.name, role: token.role, token: secret }))
}

pub async fn list(Call { app, caller }: Call) -> Reply<Vec<Token>> {
    let tokens = app.desk.tokens(&caller).await?;
    Ok(Json(tokens.into_iter().map(|(token, used)| Token::new(token, used)).collect()))
}

pub async fn revoke(Call { app, caller }: Call, Path(name): Path<String>) -> Reply<Token> {
    let (token, used) = app.desk.revoke_token(&caller, &name).await?;
    Ok(Json(Token::new(token, used)))
}

pub async fn quota(
    Call { app, caller }: Call,
    Path(name): Path<String>,
    Body(quota): Body<calls::Quota>,
) -> Reply<Token> {
    let quota = NewQuota { open_tasks: quota.max_open_tasks, bytes: quota.max_bytes };
    let (token, used) = app.desk.change_quota(&caller, &name, quota).await?;
    Ok(Json(Token::new(token, used)))
}
