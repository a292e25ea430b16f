//! The scripted model as a program: serves on the loopback interface until it is ended.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use scripted_model::mcp_server::{self, OnEof};
use scripted_model::{CodexConfig, ReceivedRequest, Scenario, ScriptedModel};

/// How much of a prompt a log line shows.
const PROMPT_CHARS: usize = 60;

/// Stands in for OpenAI's Responses API and plays scripted scenarios to Codex.
///
/// Prints its base url and a ready-made config.toml, then a line for each request. Stalls are released by
/// `POST /release/NAME`; `GET /requests` shows all requests.
#[derive(Parser)]
#[command(name = "scripted-model", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Port on 127.0.0.1; 0 is any free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// JSON file of scenarios: an object from name or prompt to a list of responses.
    #[arg(long)]
    scenarios: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a tiny MCP server on stdio with the tools peek, poke and ask.
    #[command(hide = true)]
    McpServer {
        /// Stays when stdin ends.
        #[arg(long)]
        ignore_eof: bool,
    },
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scripted-model: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    if let Some(Command::McpServer { ignore_eof }) = arguments.command {
        let on_eof = if ignore_eof { OnEof::Stay } else { OnEof::Leave };
        return Ok(mcp_server::run(on_eof)?);
    }
    let scenarios = arguments.scenarios.as_deref().map(read_scenarios).transpose()?.unwrap_or_default();
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(serve(arguments.port, scenarios))
}

fn read_scenarios(path: &Path) -> Result<BTreeMap<String, Scenario>, Box<dyn Error>> {
    let failed = |what: &str, why: &dyn Error| format!("the scenarios in {} {what}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed("cannot be read", &error))?;
    Ok(serde_json::from_str(&text).map_err(|error| failed("are not valid", &error))?)
}

async fn serve(port: u16, scenarios: BTreeMap<String, Scenario>) -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::start_on(port).await?;
    for (key, scenario) in scenarios {
        model.script(key, scenario);
    }
    println!("{}\n\n# config.toml\n{}", model.base_url(), CodexConfig::new(model.base_url()));
    for index in 0.. {
        println!("{}", log_line(&*model.wait_for_request(index).await));
    }
    Ok(())
}

fn log_line(request: &ReceivedRequest) -> String {
    let ReceivedRequest { index, method, path, .. } = request;
    let Some(prompt) = request.prompt() else { return format!("{index} {method} {path}") };
    let shown: String = prompt.chars().take(PROMPT_CHARS).collect();
    format!("{index} {method} {path} round {} prompt {shown:?}", request.round())
}
