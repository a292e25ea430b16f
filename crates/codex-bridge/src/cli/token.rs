//! `codex-bridge token`: creates, lists and revokes the tokens of remote callers.

use std::process::ExitCode;

use codex_bridge_core::token::Role;

use super::{Globals, number, output};
use crate::calls::{NewToken, Quota};
use crate::failure::Failure;
use crate::view::Token;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Create a token and print it; it is not shown again
    Create {
        /// The token's name, such as phone or ci
        name: String,
        /// What its holder may do: a viewer reads, an operator also starts and steers tasks, an approver also decides requests
        #[arg(long, value_parser = str::parse::<Role>)]
        role: Role,
        #[command(flatten)]
        limits: Limits,
    },
    /// List the tokens, including revoked ones
    List,
    /// Change a token's quota; limits that are not given stay as they are
    Quota {
        /// The token's name
        name: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Revoke a token at once
    Revoke {
        /// The token's name
        name: String,
    },
}

#[derive(clap::Args)]
struct Limits {
    /// The most unfinished tasks that the token may have; 20 for a new token
    #[arg(long, value_name = "N", value_parser = number::whole::<u32>)]
    max_open_tasks: Option<u32>,
    /// The most bytes of prompts and instructions in the token's stored tasks; 67108864 (64 MiB) for a new token
    #[arg(long, value_name = "N", value_parser = number::whole::<u64>)]
    max_bytes: Option<u64>,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.action {
        Action::Create { name, role, limits: Limits { max_open_tasks, max_bytes } } => {
            create(globals, NewToken { name, role, max_open_tasks, max_bytes }).await?;
        }
        Action::Quota { name, limits: Limits { max_open_tasks, max_bytes } } => {
            quota(globals, &name, Quota { max_open_tasks, max_bytes }).await?;
        }
        Action::List => list(globals).await?,
        Action::Revoke { name } => revoke(globals, &name).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(globals: &Globals, new: NewToken) -> Result<(), Failure> {
    let created = globals.client()?.create_token(&new).await?;
    if globals.json {
        return output::json(&created);
    }
    // The token is alone on stdout, so that it can be piped into a file.
    output::note("store this token now: it is not shown again");
    output::lines(&[created.token])
}

async fn list(globals: &Globals) -> Result<(), Failure> {
    let tokens = globals.client()?.tokens().await?;
    if globals.json {
        return output::json(&tokens);
    }
    if tokens.is_empty() {
        return output::lines(&[
            "no tokens; `codex-bridge token create NAME --role ROLE` creates one".to_owned()
        ]);
    }
    let width = tokens.iter().map(|token| token.name.len()).max().unwrap_or_default();
    output::lines(&tokens.iter().map(|token| line(token, width)).collect::<Vec<_>>())
}

fn line(token: &Token, width: usize) -> String {
    let last_use = match (&token.revoked_at, &token.last_used_at) {
        (Some(when), _) => format!("revoked {when}"),
        (None, Some(when)) => format!("last used {when}"),
        (None, None) => "never used".to_owned(),
    };
    let used = used(token);
    format!("{:width$}  {:8}  created {}  {last_use}  {used}", token.name, token.role, token.created_at)
}

fn used(token: &Token) -> String {
    let Token { open_tasks, max_open_tasks, bytes, max_bytes, .. } = token;
    format!("{open_tasks} of {max_open_tasks} open tasks, {bytes} of {max_bytes} bytes")
}

async fn quota(globals: &Globals, name: &str, quota: Quota) -> Result<(), Failure> {
    let changed = globals.client()?.change_quota(name, &quota).await?;
    if globals.json {
        return output::json(&changed);
    }
    output::lines(&[format!("token {}: {}", changed.name, used(&changed))])
}

async fn revoke(globals: &Globals, name: &str) -> Result<(), Failure> {
    let revoked = globals.client()?.revoke_token(name).await?;
    if globals.json {
        return output::json(&revoked);
    }
    output::lines(&[format!("token {} is revoked", revoked.name)])
}
