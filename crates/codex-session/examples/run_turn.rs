//! One prompt in, one result as JSON out.
//!
//! ```sh
//! cargo run -p codex-session --example run_turn -- "What does this project do?"
//! cargo run -p codex-session --example run_turn -- --approve ask --transport unix "Run the tests"
//! cargo run -p codex-session --example run_turn -- --resume 01a1e0af-… --events "And now?"
//! ```

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use codex_binary::{Search, find};
use codex_session::{
    ApprovalPolicy, Approver, Ask, Decision, Dial, OnHost, OwnCodex, Sandbox, Session, SessionConfig,
    SessionEvent, TurnOptions, TurnOutcome, TurnResult, WorkLimit,
};
use codex_wire::ThreadId;
use codex_wire::host::environment::{HostVariables, child_env, names_in_config, of_this_process};
use codex_wire::host::{EnvPolicy, Identity, KeeperCommand, Launch, keeper};
use codex_wire::transport::stdio::Spawn;

#[derive(Parser)]
#[command(
    about = "Runs one turn on Codex and prints its result as JSON",
    args_conflicts_with_subcommands = true
)]
struct Args {
    /// What to ask; read from stdin if absent.
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
    /// What commands may touch.
    #[arg(long, value_enum, default_value_t = Writable::Nothing)]
    sandbox: Writable,
    /// Goes on with this thread; a new one if absent.
    #[arg(long)]
    resume: Option<String>,
    /// Your own id of the prompt, which Codex keeps with it. Made up if absent.
    #[arg(long)]
    client_id: Option<String>,
    /// A prompt with this client id may have been sent before: it is looked for, and sent only if it is not there.
    #[arg(long, requires = "client_id")]
    may_have_been_sent: bool,
    /// Writes what happens on stderr, one JSON object a line.
    #[arg(long)]
    events: bool,
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
enum Writable {
    #[value(name = "read-only")]
    Nothing,
    #[value(name = "workspace-write")]
    Workspace,
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
    let options = TurnOptions {
        work_limit: WorkLimit::After(Duration::try_from_secs_f64(args.timeout)?),
        client_id: args.client_id.clone(),
        may_have_been_sent: args.may_have_been_sent,
        ..TurnOptions::default()
    };
    let session = open(args).await?;
    if args.events {
        let mut events = session.events();
        if let Some(thread_id) = session.status().await.thread_id {
            show(&SessionEvent::ThreadOpened { thread_id });
        }
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                show(&event);
            }
        });
    }
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None => tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin())).await??,
    };
    let result = session.run_turn(prompt, options).await;
    session.close().await;
    report(&result)
}

fn show(event: &SessionEvent) {
    match serde_json::to_string(event) {
        Ok(line) => eprintln!("{line}"),
        Err(error) => eprintln!("an event could not be written: {error}"),
    }
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
    config.sandbox = match args.sandbox {
        Writable::Nothing => Sandbox::ReadOnly,
        Writable::Workspace => Sandbox::WorkspaceWrite,
    };
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
    match args.transport {
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
            take_up(args, config, OwnCodex(Spawn::new(codex.executable, env)), approver).await
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
            take_up(args, config, OnHost(launch), approver).await
        }
    }
}

async fn take_up(
    args: &Args,
    config: SessionConfig,
    dial: impl Dial,
    approver: Option<Arc<dyn Approver>>,
) -> Result<Session, Failed> {
    let session = match &args.resume {
        Some(thread_id) => Session::resume(config, dial, approver, ThreadId(thread_id.clone())).await,
        None => Session::start(config, dial, approver).await,
    };
    Ok(session.map_err(|failure| failure.to_string())?)
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
