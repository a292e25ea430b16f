//! `codex-bridge token`: creates, lists and revokes the tokens of remote callers.

use std::process::ExitCode;

use codex_bridge_core::token::Role;

use super::{Globals, number, output};
use crate::calls::{NewToken, Quota};
use crate::failure::Failure;
use crate::view::{FreshToken, Token};

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

pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.action {
        Action::Create { name, role, limits: Limits { max_open_tasks, max_bytes } } => {
            create(globals, NewToken { name, role, max_open_tasks, max_bytes }).await
        }
        Action::Quota { name, limits: Limits { max_open_tasks, max_bytes } } => {
            quota(globals, &name, Quota { max_open_tasks, max_bytes }).await
        }
        Action::List => list(globals).await,
        Action::Revoke { name } => revoke(globals, &name).await,
    }
}

async fn create(globals: &Globals, new: NewToken) -> Result<ExitCode, Failure> {
    let created: FreshToken = globals.client()?.post(&["tokens"], &new).await?;
    globals.print(&created, |created| {
        // The token is alone on stdout, so that it can be piped into a file.
        output::note("store this token now: it is not shown again");
        vec![created.token.clone()]
    })
}

async fn list(globals: &Globals) -> Result<ExitCode, Failure> {
    let tokens: Vec<Token> = globals.client()?.get(&["tokens"], &()).await?;
    let none = "no tokens; `codex-bridge token create NAME --role ROLE` creates one";
    globals.print_list(&tokens, none, |tokens| {
        let width = tokens.iter().map(|token| token.name.len()).max().unwrap_or_default();
        tokens.iter().map(|token| line(token, width)).collect()
    })
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

async fn quota(globals: &Globals, name: &str, quota: Quota) -> Result<ExitCode, Failure> {
    let changed: Token = globals.client()?.post(&["tokens", name, "quota"], &quota).await?;
    globals.print(&changed, |token| vec![format!("token {}: {}", token.name, used(token))])
}

async fn revoke(globals: &Globals, name: &str) -> Result<ExitCode, Failure> {
    let revoked: Token = globals.client()?.post(&["tokens", name, "revoke"], &()).await?;
    globals.print(&revoked, |token| vec![format!("token {} is revoked", token.name)])
}
