//! The command line: one file per verb.
//!
//! A verb gets [`Globals`] and its own arguments, and returns an exit code or a [`Failure`]. Failures are printed here,
//! for all verbs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use codex_wire::reason;
use futures_util::future::LocalBoxFuture;
use serde::Serialize;
use tokio::runtime;

use crate::client::{Autostart, Client};
use crate::failure::{Code, Failure};
use crate::output;
use crate::paths::Paths;

mod answer;
mod approve;
mod attach;
mod audit;
mod channel;
mod completions;
mod continue_task;
mod decide;
mod decline;
mod delegate;
mod deliveries;
mod demo;
mod doctor;
mod events;
mod exit;
mod fork;
mod gc;
mod host;
mod inbox;
mod interrupt;
mod keyboard;
mod launcher;
mod logs;
mod man;
mod mcp;
mod number;
mod prompt;
mod ps;
mod release;
pub mod render;
mod requests;
mod result;
mod run;
mod screen;
mod serve;
mod show;
mod steer;
mod stop;
mod store;
mod terminal;
mod token;
mod tool;
mod trust;
mod wait;
mod watch;

/// The durable, safe way to hand work to OpenAI Codex.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Args {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    verb: Verb,
}

/// The options of every verb, before or after its name.
#[derive(Debug, Clone, clap::Args)]
pub struct Globals {
    /// Print JSON: one object, or one per line for streams. Errors are JSON on stderr
    #[arg(long, global = true)]
    pub json: bool,
    /// The daemon's state directory [default: $XDG_STATE_HOME/codex-bridge]
    #[arg(long, global = true, value_name = "DIR", env = "CODEX_BRIDGE_STATE_DIR", hide_env_values = true)]
    pub state_dir: Option<PathBuf>,
    /// The configuration file [default: $XDG_CONFIG_HOME/codex-bridge/config.toml]
    #[arg(long, global = true, value_name = "FILE", env = "CODEX_BRIDGE_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// If no daemon is running, fail instead of starting one
    #[arg(long, global = true)]
    pub no_autostart: bool,
}

impl Globals {
    /// The paths of the state directory and the configuration.
    pub fn paths(&self) -> Result<Paths, Failure> {
        let non_empty = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        Paths::new(non_empty(&self.state_dir), non_empty(&self.config))
    }

    /// A client of the daemon.
    pub fn client(&self) -> Result<Client, Failure> {
        let autostart = if self.no_autostart { Autostart::No } else { Autostart::Yes };
        Ok(Client::new(self.paths()?, autostart))
    }

    /// A client that starts no daemon.
    pub fn client_of_running(&self) -> Result<Client, Failure> {
        Ok(Client::new(self.paths()?, Autostart::No))
    }

    /// Prints a reply: as JSON, or as lines for people.
    fn print<T: Serialize>(
        &self,
        reply: &T,
        lines: impl FnOnce(&T) -> Vec<String>,
    ) -> Result<ExitCode, Failure> {
        let printed = if self.json { output::json(reply) } else { output::lines(&lines(reply)) };
        printed.map(|()| ExitCode::SUCCESS)
    }

    /// As `print`, for a list. `none` is printed for people if the list is empty.
    fn print_list<T: Serialize>(
        &self,
        all: &[T],
        none: &str,
        lines: impl FnOnce(&[T]) -> Vec<String>,
    ) -> Result<ExitCode, Failure> {
        self.print(&all, |all| if all.is_empty() { vec![none.to_owned()] } else { lines(all) })
    }
}

#[derive(clap::Args)]
struct TaskArgs {
    /// The task's id, or a unique beginning of it
    id: String,
}

#[derive(Subcommand)]
enum Verb {
    /// Start a task and watch it
    Run(Box<run::Args>),
    /// List the tasks
    Ps(ps::Args),
    /// Show one task in full
    Show(TaskArgs),
    /// Print a task's log
    Logs(logs::Args),
    /// Print a task's log as JSON lines
    Events(events::Args),
    /// Watch a task and answer its requests
    Attach(TaskArgs),
    /// Wait until a task is finished or needs an answer
    Wait(wait::Args),
    /// Print a task's answer
    Result(TaskArgs),
    /// Add text to the running turn
    Steer(steer::Args),
    /// Stop the running turn
    Interrupt(TaskArgs),
    /// List the pending requests
    Requests(requests::Args),
    /// Approve a request
    Approve(approve::Args),
    /// Decline a request
    Decline(decline::Args),
    /// Answer a question or fill in a form
    Answer(answer::Args),
    /// List notifications that are pending or failed; retry them, or send a test
    Deliveries(deliveries::Args),
    /// Start another turn of a finished task
    Continue(continue_task::Args),
    /// Make a new task from a finished one, with the whole conversation so far
    Fork(fork::Args),
    /// Free a task's thread for Codex's own terminal
    Release(TaskArgs),
    /// Make one call of the codex_bridge tool, for agents: JSON in, JSON out
    Tool(tool::Args),
    /// Run an MCP server on stdin and stdout
    Mcp(mcp::Args),
    /// Run the daemon in the foreground; other commands start it in the background when they need it
    Serve(serve::Args),
    /// Stop the daemon; running turns continue
    Stop(stop::Args),
    /// Manage channels, which send notifications and receive work by chat
    Channel(channel::Args),
    /// List messages from channels; retry those that failed
    Inbox(inbox::Args),
    /// Create, list and revoke tokens for remote callers
    Token(token::Args),
    /// Show or set how far a directory is trusted
    Trust(trust::Args),
    /// Check everything that codex-bridge needs, and say what to do
    Doctor,
    /// Check or back up the store
    Store(store::Args),
    /// Show the audit log: who decided and commanded what
    Audit(audit::Args),
    /// Delete tasks that are older than `keep_days` in the configuration
    Gc,
    /// Print shell completions
    Completions(completions::Args),
    /// Print the manual page
    Man(man::Args),
    /// Show one task on the real Codex with a scripted model: no login, no network, nothing is kept
    Demo(demo::Args),
    /// Keep one Codex host alive; started by codex-bridge itself
    #[command(hide = true)]
    Host(host::Args),
    /// Run Codex hosts for a daemon of another user; started by the system's service manager
    #[command(hide = true)]
    Launcher(launcher::Args),
}

/// Any error, for verbs whose errors have no code.
type AnyError = Box<dyn std::error::Error>;

/// Runs the program.
pub fn run() -> ExitCode {
    let Args { globals, verb } = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage_error(&error),
    };
    let outcome = match verb {
        Verb::Run(args) => block_on(run::run(&globals, *args)),
        Verb::Ps(args) => block_on(ps::run(&globals, args)),
        Verb::Show(args) => block_on(show::run(&globals, &args)),
        Verb::Logs(args) => block_on(logs::run(&globals, &args)),
        Verb::Events(args) => block_on(events::run(&globals, &args)),
        Verb::Attach(args) => block_on(attach::run(&globals, &args)),
        Verb::Wait(args) => block_on(wait::run(&globals, &args)),
        Verb::Result(args) => block_on(result::run(&globals, &args)),
        Verb::Steer(args) => block_on(steer::run(&globals, &args)),
        Verb::Interrupt(args) => block_on(interrupt::run(&globals, &args)),
        Verb::Requests(args) => block_on(requests::run(&globals, &args)),
        Verb::Approve(args) => block_on(approve::run(&globals, &args)),
        Verb::Decline(args) => block_on(decline::run(&globals, &args)),
        Verb::Answer(args) => block_on(answer::run(&globals, &args)),
        Verb::Deliveries(args) => block_on(deliveries::run(&globals, args)),
        Verb::Continue(args) => block_on(continue_task::run(&globals, &args)),
        Verb::Fork(args) => block_on(fork::run(&globals, &args)),
        Verb::Release(args) => block_on(release::run(&globals, &args)),
        Verb::Tool(args) => block_on(tool::run(&globals, args)),
        Verb::Mcp(args) => block_on(mcp::run(&globals, &args)),
        Verb::Serve(args) => serve::run(&globals, &args),
        Verb::Stop(args) => block_on(stop::run(&globals, &args)),
        Verb::Channel(args) => channel::run(&globals, args),
        Verb::Inbox(args) => block_on(inbox::run(&globals, args)),
        Verb::Token(args) => block_on(token::run(&globals, args)),
        Verb::Trust(args) => block_on(trust::run(&globals, args)),
        Verb::Doctor => block_on(doctor::run(&globals)),
        Verb::Store(args) => block_on(store::run(&globals, args)),
        Verb::Audit(args) => block_on(audit::run(&globals, args)),
        Verb::Gc => block_on(gc::run(&globals)),
        Verb::Completions(args) => completions::run(&args, Args::command()),
        Verb::Man(args) => man::run(&args, Args::command()),
        Verb::Demo(args) => demo::run(&globals, &args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Failure::new(Code::Demo, message(&error))),
        Verb::Launcher(args) => launcher::run(&globals, &args),
        Verb::Host(args) => host::run(&args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Failure::new(Code::Host, message(&error))),
    };
    outcome.unwrap_or_else(|failure| report(&failure, globals.json))
}

/// Runs a verb that is one chain of calls. The future is boxed so that the runtime is compiled once, not once for each verb.
fn block_on<'a>(verb: impl Future<Output = Result<ExitCode, Failure>> + 'a) -> Result<ExitCode, Failure> {
    let verb: LocalBoxFuture<'a, _> = Box::pin(verb);
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::internal)?.block_on(verb)
}

fn message(error: &AnyError) -> String {
    error.downcast_ref().map_or_else(|| error.to_string(), reason)
}

fn report(failure: &Failure, as_json: bool) -> ExitCode {
    match failure.code {
        Code::ReaderGone => {}
        _ if as_json => output::note(failure.to_json()),
        _ => output::note(format!("error: {failure}")),
    }
    ExitCode::from(failure.code.exit() as u8)
}

/// Prints the error of a command line that cannot be parsed, or the help that it asks for.
fn usage_error(error: &clap::Error) -> ExitCode {
    // Nothing was parsed, so `--json` must be searched for.
    let wants_json = std::env::args().any(|word| word == "--json");
    if !error.use_stderr() || !wants_json {
        // The reader may be gone.
        error.print().ok();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
    }
    let message = error.to_string();
    let message = message.lines().next().unwrap_or_default().trim_start_matches("error: ");
    report(&Failure::new(Code::Usage, message).hint("`codex-bridge help` lists the commands"), true)
}
