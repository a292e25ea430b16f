//! `codex-bridge token`: who may come in by TCP, and what they may do there.

use std::process::ExitCode;

use codex_bridge_core::token::Role;

use super::{Globals, output};
use crate::calls::{NewToken, Quota};
use crate::failure::Failure;
use crate::view::Token;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make a token and print it, this once
    Create {
        /// Whose it is, such as phone or ci
        name: String,
        /// What its holder may do: viewer reads, operator also starts and steers, approver also answers Codex
        #[arg(long, value_parser = str::parse::<Role>)]
        role: Role,
        #[command(flatten)]
        limits: Limits,
    },
    /// List the tokens, revoked ones too
    List,
    /// Change how much its holder may have handed over at once; what is not given stays
    Quota {
        /// Whose it is
        name: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Make a token worthless at once
    Revoke {
        /// Whose it is
        name: String,
    },
}

#[derive(clap::Args)]
struct Limits {
    /// So many tasks of its own may be under way; a new token has 20
    #[arg(long, value_name = "N")]
    max_open_tasks: Option<u32>,
    /// So many bytes of prompts and instructions it may have handed over to tasks that are still remembered; a new token
    /// has 67108864 (64 MiB)
    #[arg(long, value_name = "N")]
    max_bytes: Option<u64>,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Create { name, role, limits: Limits { max_open_tasks, max_bytes } } => {
            create(globals, NewToken { name, role, max_open_tasks, max_bytes }).await?;
        }
        What::Quota { name, limits: Limits { max_open_tasks, max_bytes } } => {
            quota(globals, &name, Quota { max_open_tasks, max_bytes }).await?;
        }
        What::List => list(globals).await?,
        What::Revoke { name } => revoke(globals, &name).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(globals: &Globals, new: NewToken) -> Result<(), Failure> {
    let made = globals.client()?.create_token(&new).await?;
    if globals.json {
        return output::json(&made);
    }
    // Alone on stdout, so that it can be put where it belongs without being seen.
    output::note("keep it: it is not shown again");
    output::lines(&[made.token])
}

async fn list(globals: &Globals) -> Result<(), Failure> {
    let tokens = globals.client()?.tokens().await?;
    if globals.json {
        return output::json(&tokens);
    }
    if tokens.is_empty() {
        return output::lines(&[
            "no tokens; `codex-bridge token create NAME --role ROLE` makes one".to_owned()
        ]);
    }
    let width = tokens.iter().map(|token| token.name.len()).max().unwrap_or_default();
    output::lines(&tokens.iter().map(|token| line(token, width)).collect::<Vec<_>>())
}

fn line(token: &Token, width: usize) -> String {
    let standing = match (&token.revoked_at, &token.last_used_at) {
        (Some(when), _) => format!("revoked {when}"),
        (None, Some(when)) => format!("last used {when}"),
        (None, None) => "never used".to_owned(),
    };
    let used = used(token);
    format!("{:width$}  {:8}  made {}  {standing}  {used}", token.name, token.role, token.created_at)
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
    output::lines(&[format!("token {} is worth nothing any more", revoked.name)])
}
