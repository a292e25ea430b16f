//! `codex-bridge wait`: until a task is at rest or needs an answer, or the time is up.

use std::process::ExitCode;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::render::task::{elapsed_ms, ending};
use super::terminal::Terminal;
use super::{Globals, exit, output};
use crate::amount::now_ms;
use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::view::Task;

/// How long a daemon that crashed is left alone before it is asked, or started, again.
pub const RECONNECT_AFTER: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
    /// At most so many seconds [default: as long as it takes]
    #[arg(short, long, value_name = "SECONDS")]
    timeout: Option<f64>,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    if args.timeout.is_some_and(|timeout| !timeout.is_finite() || timeout < 0.0) {
        return Err(Failure::new(Code::Usage, "the time-out is no length of time")
            .hint("give it in seconds: --timeout 60"));
    }
    let task = patiently(&globals.client()?, &args.id, args.timeout).await?;
    if globals.json {
        output::json(&task)?;
    } else {
        let terminal = Terminal::of_stdout();
        output::lines(&ending(&task, elapsed_ms(&task, now_ms()), terminal.paint, terminal.columns()))?;
        if !task.pending_requests.is_empty() {
            output::note(exit::needs_answer(&task.task_id));
        }
    }
    Ok(exit::of(&task))
}

/// Waits, also over a crash of the daemon: the task is where it was.
pub async fn patiently(client: &Client, id: &str, timeout_s: Option<f64>) -> Result<Task, Failure> {
    let began = Instant::now();
    loop {
        let left = timeout_s.map(|timeout_s| (timeout_s - began.elapsed().as_secs_f64()).max(0.0));
        match client.wait(id, left).await {
            Err(failure) if failure.code == Code::DaemonGone => sleep(RECONNECT_AFTER).await,
            outcome => return outcome,
        }
    }
}
