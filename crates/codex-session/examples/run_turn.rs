//! One prompt in, one result as JSON out.
//!
//! ```sh
//! cargo run -p codex-session --example run_turn -- "What does this project do?"
//! cargo run -p codex-session --example run_turn -- --approve ask --transport unix "Run the tests"
//! ```

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use codex_binary::{Search, find};
use codex_session::{
    ApprovalPolicy, Approver, Ask, Decision, OnHost, OwnCodex, Session, SessionConfig, TurnOptions,
    TurnOutcome, TurnResult, WorkLimit,
};
use codex_wire::host::environment::{HostVariables, child_env, names_in_config, of_this_process};
use codex_wire::host::{EnvPolicy, Identity, KeeperCommand, Launch, keeper};
use codex_wire::transport::stdio::Spawn;

#[derive(Parser)]
#[command(
    about = "Runs one turn on Codex and prints its result as JSON",
    args_conflicts_with_subcommands = true
)]
struct Args {
    /// What to ask.
    prompt: Option<String>,
    /// Who answers when Codex asks: nobody (declined), everything accepted, or you.
    #[arg(long, value_enum, default_value_t = Approve::None)]
    approve: Approve,
    /// Codex's home; its own default if absent.
    #[arg(long)]
    codex_home: Option<PathBuf>,
    /// The codex to run; found on PATH if absent.
    #[arg(long)]
    codex_bin: Option<PathBuf>,
    /// `stdio`: a Codex that ends with this program. `unix`: a host that outlives it.
    #[arg(long, value_enum, default_value_t = Transport::Stdio)]
    transport: Transport,
    /// Where the host of `--transport unix` lives.
    #[arg(long, default_value = "/tmp/codex-session-host")]
    host_dir: PathBuf,
    /// Seconds that the turn may work.
    #[arg(long, default_value_t = 600.0)]
    timeout: f64,
    /// Where Codex works.
    #[arg(long, default_value = ".")]
    cwd: PathBuf,
    #[command(subcommand)]
    keeper: Option<Keeper>,
}

#[derive(Subcommand)]
enum Keeper {
    /// Keeps a host; started by this program itself.
    #[command(hide = true)]
    Host {
        #[arg(long)]
        plan: PathBuf,
    },
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Approve {
    None,
    All,
    Ask,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Transport {
    Unix,
    Stdio,
}

type Failed = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.keeper {
        Some(Keeper::Host { plan }) => {
            keeper::read_plan(plan).and_then(|plan| keeper::run(&plan)).map(drop).map_err(Into::into)
        }
        None => run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(args: &Args) -> Result<(), Failed> {
    let prompt = args
        .prompt
        .as_deref()
        .ok_or("say what to ask, for example: run_turn \"What does this project do?\"")?;
    let session = open(args).await?;
    let work_limit = WorkLimit::After(Duration::try_from_secs_f64(args.timeout)?);
    let result = session.run_turn(prompt, TurnOptions { work_limit, ..TurnOptions::default() }).await;
    session.close().await;
    report(&result)
}

fn report(result: &TurnResult) -> Result<(), Failed> {
    println!("{}", serde_json::to_string_pretty(result)?);
    match (&result.error, result.outcome) {
        (Some(error), _) => Err(error.to_string().into()),
        (None, TurnOutcome::Completed) => Ok(()),
        (None, _) => Err("the turn did not complete".into()),
    }
}

async fn open(args: &Args) -> Result<Session, Failed> {
    let mut config = SessionConfig::new(args.cwd.canonicalize()?);
    let accept_all = args.approve == Approve::All;
    config.approvals = ApprovalPolicy {
        accept_commands: accept_all,
        accept_file_changes: accept_all,
        ..ApprovalPolicy::default()
    };
    let approver: Option<Arc<dyn Approver>> = match args.approve {
        Approve::Ask => Some(Arc::new(ask_at_the_terminal)),
        Approve::None | Approve::All => None,
    };
    let search =
        Search { explicit: args.codex_bin.clone(), path: std::env::var_os("PATH"), ..Search::default() };
    let codex = find(&search)?;
    Ok(match args.transport {
        Transport::Stdio => {
            let config_names =
                std::fs::read_to_string(codex_home(args).join("config.toml")).unwrap_or_default();
            let env = child_env(
                of_this_process(),
                &EnvPolicy::default(),
                HostVariables {
                    host_id: "run_turn",
                    codex_home: args.codex_home.as_deref(),
                    config_names: &names_in_config(&config_names),
                },
            );
            Session::start(config, OwnCodex(Spawn::new(codex.executable, env)), approver).await
        }
        Transport::Unix => {
            let launch = Launch {
                keeper: KeeperCommand { program: std::env::current_exe()?, args: vec!["host".into()] },
                version: codex.version.to_string(),
                codex: codex.executable,
                identity: Identity { codex_home: args.codex_home.clone(), ..Identity::default() },
                dir: args.host_dir.clone(),
                parent_env: of_this_process(),
                env: EnvPolicy::default(),
                config: Vec::new(),
                ready_timeout: Duration::from_secs(20),
            };
            Session::start(config, OnHost(launch), approver).await
        }
    }
    .map_err(|failure| failure.to_string())?)
}

fn codex_home(args: &Args) -> PathBuf {
    let default = || std::env::home_dir().unwrap_or_default().join(".codex");
    args.codex_home.clone().unwrap_or_else(default)
}

/// Asks on stderr, since stdout is the result's.
async fn ask_at_the_terminal(ask: Ask) -> Decision {
    eprintln!("\n{}\n[once / session / deny / cancel] ", ask.text());
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line).unwrap_or_default()
    });
    answer.await.unwrap_or_default().parse().unwrap_or(Decision::Decline)
}
