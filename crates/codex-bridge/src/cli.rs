//! The command line: one file per verb.
//!
//! A verb gets [`Globals`] and its own arguments, and gives an exit code or a [`Failure`]; how a failure is printed is
//! decided here, once.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

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

/// What every verb understands, before or after its name.
#[derive(Debug, Clone, clap::Args)]
pub struct Globals {
    /// Print JSON: one object, or one per line for streams; failures go to stderr as JSON too
    #[arg(long, global = true)]
    pub json: bool,
    /// Where the daemon keeps its tasks [default: $XDG_STATE_HOME/codex-bridge]
    #[arg(long, global = true, value_name = "DIR", env = "CODEX_BRIDGE_STATE_DIR", hide_env_values = true)]
    pub state_dir: Option<PathBuf>,
    /// The configuration file [default: $XDG_CONFIG_HOME/codex-bridge/config.toml]
    #[arg(long, global = true, value_name = "FILE", env = "CODEX_BRIDGE_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Fail instead of starting a daemon when none runs
    #[arg(long, global = true)]
    pub no_autostart: bool,
}

impl Globals {
    /// Where everything is.
    pub fn paths(&self) -> Result<Paths, Failure> {
        let given = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        Paths::new(given(&self.state_dir), given(&self.config))
    }

    /// A way to the daemon.
    pub fn client(&self) -> Result<Client, Failure> {
        let autostart = if self.no_autostart { Autostart::No } else { Autostart::Yes };
        Ok(Client::new(self.paths()?, autostart))
    }
}

#[derive(Subcommand)]
enum Verb {
    /// Hand over work, and watch it
    Run(Box<run::Args>),
    /// List the tasks
    Ps(ps::Args),
    /// Show one task in full
    Show(show::Args),
    /// Show a task's log
    Logs(logs::Args),
    /// Print a task's log as JSON lines
    Events(events::Args),
    /// Watch a task, and answer what it asks
    Attach(attach::Args),
    /// Wait until a task is at rest or needs an answer
    Wait(wait::Args),
    /// Print the answer of a task
    Result(result::Args),
    /// Add to the turn that runs
    Steer(steer::Args),
    /// Stop what runs
    Interrupt(interrupt::Args),
    /// List what waits for an answer
    Requests(requests::Args),
    /// Say yes to what a task asks
    Approve(approve::Args),
    /// Say no to what a task asks
    Decline(decline::Args),
    /// Answer what a task wants to know
    Answer(answer::Args),
    /// List what is sent to whom; try again what could not be
    Deliveries(deliveries::Args),
    /// Give a task at rest another turn
    Continue(continue_task::Args),
    /// Branch a task at rest
    Fork(fork::Args),
    /// Free a task's thread for Codex's own terminal
    Release(release::Args),
    /// One call of the codex_bridge tool, for agents: JSON in, JSON out
    Tool(tool::Args),
    /// Serve the tools over MCP on stdin and stdout
    Mcp(mcp::Args),
    /// Run the daemon in the foreground; commands start it by themselves
    Serve(serve::Args),
    /// Stop the daemon; what runs goes on
    Stop(stop::Args),
    /// Where work arrives by chat: add, list, test, run, pause
    Channel(channel::Args),
    /// List what came in by channels, and what became of it
    Inbox(inbox::Args),
    /// Make, list and revoke the tokens of those who come by TCP
    Token(token::Args),
    /// How far a directory is trusted: show it, set it, list all, take it back
    Trust(trust::Args),
    /// Look at everything that is needed, and say what to do
    Doctor(doctor::Args),
    /// Check or copy the store
    Store(store::Args),
    /// Show who decided or commanded what
    Audit(audit::Args),
    /// Forget what is older than the configuration says
    Gc(gc::Args),
    /// Print completions for a shell
    Completions(completions::Args),
    /// Print the manual page
    Man(man::Args),
    /// Show one turn on the real Codex, with a scripted model: no login, no network, nothing kept
    Demo(demo::Args),
    /// Keep one Codex host alive; started by codex-bridge itself
    #[command(hide = true)]
    Host(host::Args),
    /// Run hosts for a daemon of another user; started by the system's service manager
    #[command(hide = true)]
    Launcher(launcher::Args),
}

/// A verb's failure, in words for people.
type Failed = Box<dyn std::error::Error>;

/// Runs the program.
pub fn run() -> ExitCode {
    let Args { globals, verb } = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return misread(&error),
    };
    let outcome = match verb {
        Verb::Run(args) => run::run(&globals, *args),
        Verb::Ps(args) => ps::run(&globals, args),
        Verb::Show(args) => show::run(&globals, &args),
        Verb::Logs(args) => logs::run(&globals, &args),
        Verb::Events(args) => events::run(&globals, &args),
        Verb::Attach(args) => attach::run(&globals, &args),
        Verb::Wait(args) => wait::run(&globals, &args),
        Verb::Result(args) => result::run(&globals, &args),
        Verb::Steer(args) => steer::run(&globals, &args),
        Verb::Interrupt(args) => interrupt::run(&globals, &args),
        Verb::Requests(args) => requests::run(&globals, &args),
        Verb::Approve(args) => approve::run(&globals, &args),
        Verb::Decline(args) => decline::run(&globals, &args),
        Verb::Answer(args) => answer::run(&globals, &args),
        Verb::Deliveries(args) => deliveries::run(&globals, args),
        Verb::Continue(args) => continue_task::run(&globals, &args),
        Verb::Fork(args) => fork::run(&globals, &args),
        Verb::Release(args) => release::run(&globals, &args),
        Verb::Tool(args) => tool::run(&globals, args),
        Verb::Mcp(args) => mcp::run(&globals, &args),
        Verb::Serve(args) => serve::run(&globals, &args),
        Verb::Stop(args) => stop::run(&globals, &args),
        Verb::Channel(args) => channel::run(&globals, args),
        Verb::Inbox(args) => inbox::run(&globals, args),
        Verb::Token(args) => token::run(&globals, args),
        Verb::Trust(args) => trust::run(&globals, args),
        Verb::Doctor(doctor::Args {}) => doctor::run(&globals),
        Verb::Store(args) => store::run(&globals, args),
        Verb::Audit(args) => audit::run(&globals, args),
        Verb::Gc(gc::Args {}) => gc::run(&globals),
        Verb::Completions(args) => completions::run(&args, Args::command()),
        Verb::Man(args) => man::run(&args, Args::command()),
        Verb::Demo(args) => demo::run(&globals, &args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|it| Failure::new(Code::Demo, it.to_string())),
        Verb::Launcher(args) => launcher::run(&globals, &args),
        Verb::Host(args) => host::run(&args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|it| Failure::new(Code::Host, it.to_string())),
    };
    outcome.unwrap_or_else(|failure| told(&failure, globals.json))
}

/// Tells a failure on stderr.
fn told(failure: &Failure, as_json: bool) -> ExitCode {
    match failure.code {
        Code::ReaderGone => {}
        _ if as_json => output::note(failure.to_json()),
        _ => output::note(format!("error: {failure}")),
    }
    ExitCode::from(failure.code.exit() as u8)
}

/// A command line that makes no sense, or asks for help.
fn misread(error: &clap::Error) -> ExitCode {
    // Nothing was read, so what was written must be looked at.
    let wants_json = std::env::args().any(|word| word == "--json");
    if !error.use_stderr() || !wants_json {
        // Nobody may be there to read it.
        error.print().ok();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
    }
    let sentence = error.to_string();
    let sentence = sentence.lines().next().unwrap_or_default().trim_start_matches("error: ");
    told(&Failure::new(Code::Usage, sentence).hint("`codex-bridge help` lists the commands"), true)
}
