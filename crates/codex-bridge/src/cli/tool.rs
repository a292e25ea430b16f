//! `codex-bridge tool`: makes one call of the `codex_bridge` tool, for agents. Prints one JSON reply, also on failure.

use std::io::{read_to_string, stdin};
use std::process::ExitCode;

use codex_wire::reason;
use serde_json::Value;

use super::delegate::AgentRole;
use super::{Globals, output};
use crate::failure::{Code, Failure, parser_message};
use crate::tool;

#[derive(clap::Args)]
pub struct Args {
    /// The call as one JSON object, or `-` to read it from stdin
    #[arg(required_unless_present = "schema")]
    call: Option<String>,
    /// Print the tool's name, description and JSON schema instead
    #[arg(long)]
    schema: bool,
    #[command(flatten)]
    agent: AgentRole,
}

pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    if args.schema {
        let schema = serde_json::to_string_pretty(&tool::schema()).map_err(Failure::internal)?;
        output::lines(&[schema])?;
        return Ok(ExitCode::SUCCESS);
    }
    let reply = match call(globals, &args.agent, args.call.unwrap_or_default()).await {
        Ok(reply) => reply,
        Err(failure) => tool::refusal(failure),
    };
    output::json(&reply)?;
    Ok(if reply["success"] == Value::Bool(true) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn call(globals: &Globals, agent: &AgentRole, mut text: String) -> Result<Value, Failure> {
    if text == "-" {
        text = read_to_string(stdin())
            .map_err(|error| Failure::new(Code::BadCall, format!("cannot read stdin: {}", reason(&error))))?;
    }
    let call = serde_json::from_str(&text).map_err(|error| {
        Failure::new(Code::BadCall, format!("the call is not JSON: {}", parser_message(&error.to_string())))
            .hint("for example '{\"action\": \"list\"}'")
    })?;
    globals.client()?.delegate(agent.role).tool(call).await
}
