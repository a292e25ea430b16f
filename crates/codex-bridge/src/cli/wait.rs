//! `codex-bridge wait`: waits until a task is finished or needs an answer, or until a timeout.

use std::process::ExitCode;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::render::task::{elapsed_ms, ending};
use super::terminal::Terminal;
use super::{Globals, exit, number, output};
use crate::amount::now_ms;
use crate::calls;
use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::view::Task;

/// The pause before a crashed daemon is called, or started, again.
pub const RECONNECT_AFTER: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
    /// Wait at most this long [default: no timeout]
    #[arg(short, long, value_name = "SECONDS", value_parser = number::seconds)]
    timeout: Option<f64>,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    if args.timeout.is_some_and(|timeout| !timeout.is_finite() || timeout < 0.0) {
        return Err(Failure::new(Code::Usage, "the timeout must be zero or a positive number")
            .hint("write it in seconds: --timeout 60"));
    }
    let task = wait_over_crashes(&globals.client()?, &args.id, args.timeout).await?;
    let terminal = Terminal::of_stdout();
    globals
        .print(&task, |task| ending(task, elapsed_ms(task, now_ms()), terminal.paint, terminal.columns()))?;
    if !globals.json && !task.pending_requests.is_empty() {
        output::note(exit::needs_answer(&task.task_id));
    }
    Ok(exit::code_of(&task))
}

/// Waits for a task. A crash of the daemon does not end the wait, because the task is stored.
pub async fn wait_over_crashes(client: &Client, id: &str, timeout_s: Option<f64>) -> Result<Task, Failure> {
    let began = Instant::now();
    loop {
        let remaining_s = timeout_s.map(|timeout_s| (timeout_s - began.elapsed().as_secs_f64()).max(0.0));
        let query = calls::Wait { timeout_s: remaining_s };
        match client.get(&["tasks", id, "wait"], &query).await {
            Err(failure) if failure.code == Code::DaemonGone => sleep(RECONNECT_AFTER).await,
            outcome => return outcome,
        }
    }
}
