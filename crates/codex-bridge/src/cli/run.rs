//! `codex-bridge run`: starts a task and watches it.

use std::path::PathBuf;
use std::process::ExitCode;

use codex_wire::reason;
use redact::plain::plain;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::wait::wait_over_crashes;
use super::watch::{CtrlC, watch};
use super::{Globals, exit, number, output, prompt};
use crate::calls::{Door, Limits, Start};
use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::view::Task;

#[derive(clap::Args)]
pub struct Args {
    /// What Codex should do; `-` reads the prompt from stdin
    prompt: String,
    /// Print the task's id and return; the task continues
    #[arg(short, long)]
    detach: bool,
    /// The directory to work in [default: the current directory]
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// What commands may write: read-only or workspace-write [default: read-only]
    #[arg(short, long, value_name = "SANDBOX")]
    sandbox: Option<String>,
    /// When Codex asks: untrusted (before every command that is not known to be harmless) or on-request (when the model
    /// chooses to) [default: untrusted]
    #[arg(short, long, value_name = "POLICY")]
    approval_policy: Option<String>,
    /// The model [default: Codex's default]
    #[arg(short, long)]
    model: Option<String>,
    /// The reasoning effort [default: Codex's default]
    #[arg(long)]
    effort: Option<String>,
    /// A profile from the configuration file
    #[arg(short, long)]
    profile: Option<String>,
    /// Another CODEX_HOME; the configuration file must list it
    #[arg(long, value_name = "DIR")]
    codex_home: Option<PathBuf>,
    /// Your own name for this request. Repeating the command with the same name gives the same task
    #[arg(long, value_name = "NAME")]
    client_request_id: Option<String>,
    /// Notify this target about the end of the task and its requests, such as webhook:ci or telegram?on=failed; may be
    /// repeated
    #[arg(long, value_name = "TARGET")]
    notify: Vec<String>,
    /// Pause the task after N turns
    #[arg(long, value_name = "N", value_parser = number::whole::<u32>)]
    max_turns: Option<u32>,
    /// Pause the task after N minutes of work; waiting for people does not count
    #[arg(long, value_name = "N", value_parser = number::whole::<u64>)]
    max_minutes: Option<u64>,
    /// Pause the task after N tokens
    #[arg(long, value_name = "N", value_parser = number::whole::<u64>)]
    max_tokens: Option<u64>,
}

pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let is_detached = args.detach;
    let task = client.start(&start(args)?).await?;
    if let Some(narrowed) = task.narrowed.as_ref().filter(|_| !globals.json) {
        output::note(format!("note: {}", plain(narrowed)));
        output::note("      for a task that writes, choose a project directory: -C DIR");
    }
    match (is_detached, globals.json) {
        (true, true) => output::json(&started(&task))?,
        (true, false) => output::lines(std::slice::from_ref(&task.task_id))?,
        (false, true) => return wait_and_print(&client, &task.task_id, CtrlC::Interrupts).await,
        (false, false) => return watch(&client, &task, 0, CtrlC::Interrupts).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// A started task as `--detach --json` prints it.
fn started(task: &Task) -> Value {
    let mut started = json!({"task_id": task.task_id, "status": task.status});
    if let Some(narrowed) = &task.narrowed {
        started["narrowed"] = narrowed.as_str().into();
    }
    started
}

/// Waits until a task is finished or needs an answer, and prints it as JSON.
pub async fn wait_and_print(client: &Client, task_id: &str, on_ctrl_c: CtrlC) -> Result<ExitCode, Failure> {
    let mut ctrl_c = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
    let task = tokio::select! {
        task = wait_over_crashes(client, task_id, None) => task?,
        _ = ctrl_c.recv() => match on_ctrl_c {
            CtrlC::Interrupts => client.interrupt(task_id).await?.task,
            CtrlC::Detaches => return Ok(ExitCode::from(exit::INTERRUPTED)),
        },
    };
    output::json(&task)?;
    Ok(exit::code_of(&task))
}

fn start(args: Args) -> Result<Start, Failure> {
    // The daemon's current directory is another one, so relative paths are resolved here.
    let absolute = |dir: PathBuf| std::path::absolute(&dir).map_err(Failure::internal);
    let current_dir = || {
        std::env::current_dir().map_err(|error| {
            Failure::new(Code::Usage, format!("the current directory cannot be used: {}", reason(&error)))
        })
    };
    let mut start = Start { door: Door::Cli, prompt: prompt::read(&args.prompt)?, ..Start::default() };
    start.cwd = Some(args.cwd.map_or_else(current_dir, absolute)?);
    start.sandbox = args.sandbox;
    start.approval_policy = args.approval_policy;
    start.model = args.model;
    start.effort = args.effort;
    start.profile = args.profile;
    start.codex_home = args.codex_home.map(absolute).transpose()?;
    start.client_request_id = args.client_request_id;
    start.notify_target = Some(args.notify.join(" "));
    start.limits = Limits {
        turns: args.max_turns,
        work_s: args.max_minutes.map(|minutes| minutes.saturating_mul(60)),
        tokens: args.max_tokens,
    };
    Ok(start)
}
