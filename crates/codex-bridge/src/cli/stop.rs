//! `codex-bridge stop`: stops the daemon. Hosts and their turns continue, unless `--hosts` ends them.

use std::process::ExitCode;
use std::time::Duration;

use codex_wire::os::process::Process;
use tokio::time::{Instant, sleep};

use super::Globals;
use crate::calls;
use crate::failure::{Code, Failure};
use crate::view::Stopping;

/// How long the daemon may take to exit. Ending hosts can take a while.
const EXIT_LIMIT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(clap::Args)]
pub struct Args {
    /// Also end the Codex hosts, with all running turns
    #[arg(long)]
    hosts: bool,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    // Only a daemon can end the hosts that an earlier daemon left.
    let client = if args.hosts { globals.client()? } else { globals.client_of_running()? };
    let stopping: Stopping = client.post(&["stop"], &calls::Stop { hosts: args.hosts }).await?;
    wait_for_exit(stopping.pid).await?;
    let printed = globals.print(&stopping, |stopping| {
        let mut lines = vec![format!("the daemon (pid {}) has stopped", stopping.pid)];
        if stopping.hosts_left > 0 {
            lines.push(format!(
                "hosts still running: {}; `codex-bridge stop --hosts` ends them too",
                stopping.hosts_left
            ));
        }
        lines.extend(stopping.failed.iter().map(|failed| format!("cannot end {failed}")));
        lines
    })?;
    Ok(if stopping.failed.is_empty() { printed } else { ExitCode::FAILURE })
}

async fn wait_for_exit(pid: u32) -> Result<(), Failure> {
    let Some(daemon) = Process::with_pid(pid) else { return Ok(()) };
    let began = Instant::now();
    while daemon.is_alive() {
        if began.elapsed() > EXIT_LIMIT {
            return Err(Failure::new(Code::DaemonStays, format!("the daemon (pid {pid}) does not exit")));
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
