//! `codex-bridge run`: hand over work, and watch it.

use std::path::PathBuf;
use std::process::ExitCode;

use redact::plain::plain;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::wait::patiently;
use super::watch::{Unattended, to_the_end};
use super::{Globals, exit, output, prompt};
use crate::calls::{Door, Limits, Start};
use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::view::Task;

#[derive(clap::Args)]
pub struct Args {
    /// What Codex shall do; `-` reads it from stdin
    prompt: String,
    /// Print the task's id and return; it works on
    #[arg(short, long)]
    detach: bool,
    /// Where it works [default: the current directory]
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// What its commands may touch: read-only or workspace-write [default: read-only]
    #[arg(short, long, value_name = "SANDBOX")]
    sandbox: Option<String>,
    /// When it asks: untrusted (before every command that is not known to be harmless) or on-request [default: untrusted]
    #[arg(short, long, value_name = "POLICY")]
    approval_policy: Option<String>,
    /// The model [default: Codex's own choice]
    #[arg(short, long)]
    model: Option<String>,
    /// The reasoning effort [default: Codex's own choice]
    #[arg(long)]
    effort: Option<String>,
    /// A profile of the configuration file
    #[arg(short, long)]
    profile: Option<String>,
    /// Another CODEX_HOME, if the configuration file lists it
    #[arg(long, value_name = "DIR")]
    codex_home: Option<PathBuf>,
    /// Your own name for this request: the same one gives the same task, so that it can be repeated safely
    #[arg(long, value_name = "NAME")]
    client_request_id: Option<String>,
    /// Who is told of its end and its questions, such as webhook:ci or telegram?on=failed; may be repeated
    #[arg(long, value_name = "TARGET")]
    notify: Vec<String>,
    /// Pause it after so many turns
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// Pause it after so many minutes of work; waiting for people does not count
    #[arg(long, value_name = "N")]
    max_minutes: Option<u64>,
    /// Pause it after so many tokens
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let is_detached = args.detach;
    let task = client.start(&start(args)?).await?;
    if let Some(narrowed) = task.narrowed.as_ref().filter(|_| !globals.json) {
        output::note(format!("note: {}", plain(narrowed)));
        output::note("      for a task that writes, name a directory of the project's own: -C DIR");
    }
    match (is_detached, globals.json) {
        (true, true) => output::json(&begun(&task))?,
        (true, false) => output::lines(std::slice::from_ref(&task.task_id))?,
        (false, true) => return awaited(&client, &task.task_id, Unattended::Interrupts).await,
        (false, false) => return to_the_end(&client, &task, 0, Unattended::Interrupts).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// For programs that do not wait.
fn begun(task: &Task) -> Value {
    let mut begun = json!({"task_id": task.task_id, "status": task.status});
    if let Some(narrowed) = &task.narrowed {
        begun["narrowed"] = narrowed.as_str().into();
    }
    begun
}

/// For programs: one object at the end.
pub async fn awaited(client: &Client, task_id: &str, unattended: Unattended) -> Result<ExitCode, Failure> {
    let mut ctrl_c = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
    let task = tokio::select! {
        task = patiently(client, task_id, None) => task?,
        _ = ctrl_c.recv() => match unattended {
            Unattended::Interrupts => client.interrupt(task_id).await?.task,
            Unattended::Leaves => return Ok(ExitCode::from(exit::INTERRUPTED)),
        },
    };
    output::json(&task)?;
    Ok(exit::of(&task))
}

fn start(args: Args) -> Result<Start, Failure> {
    // The daemon has a directory of its own: a relative one means the caller's.
    let whole = |dir: PathBuf| std::path::absolute(&dir).map_err(Failure::internal);
    let here = || {
        std::env::current_dir()
            .map_err(|error| Failure::new(Code::Usage, format!("there is no current directory: {error}")))
    };
    let mut start = Start { door: Door::Cli, prompt: prompt::read(&args.prompt)?, ..Start::default() };
    start.cwd = Some(args.cwd.map_or_else(here, whole)?);
    start.sandbox = args.sandbox;
    start.approval_policy = args.approval_policy;
    start.model = args.model;
    start.effort = args.effort;
    start.profile = args.profile;
    start.codex_home = args.codex_home.map(whole).transpose()?;
    start.client_request_id = args.client_request_id;
    start.notify_target = Some(args.notify.join(" "));
    start.limits = Limits {
        turns: args.max_turns,
        work_s: args.max_minutes.map(|minutes| minutes.saturating_mul(60)),
        tokens: args.max_tokens,
    };
    Ok(start)
}
