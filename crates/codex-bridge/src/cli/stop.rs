//! `codex-bridge stop`: stop the daemon. Hosts and what runs on them go on, unless they are to end too.

use std::process::ExitCode;
use std::time::Duration;

use codex_wire::os::process::Process;
use tokio::time::{Instant, sleep};

use super::{Globals, output};
use crate::calls;
use crate::client::{Autostart, Client};
use crate::failure::{Code, Failure};

/// How long the daemon may take to go. Ending hosts can take a while.
const GONE_LIMIT: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);

#[derive(clap::Args)]
pub struct Args {
    /// End the Codex hosts too, with every turn that runs on them
    #[arg(long)]
    hosts: bool,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    // Ending hosts that an earlier daemon left needs a daemon; ending the daemon alone does not.
    let autostart = if args.hosts && !globals.no_autostart { Autostart::Yes } else { Autostart::No };
    let client = Client::new(globals.paths()?, autostart);
    let stopping = client.stop(calls::Stop { hosts: args.hosts }).await?;
    wait_for_end(stopping.pid).await?;
    if globals.json {
        output::json(&stopping)?;
    } else {
        let mut lines = vec![format!("the daemon (pid {}) has stopped", stopping.pid)];
        if stopping.hosts_left > 0 {
            lines.push(format!(
                "hosts that go on: {}; `codex-bridge stop --hosts` ends them too",
                stopping.hosts_left
            ));
        }
        lines.extend(stopping.failed.iter().map(|failed| format!("could not be ended: {failed}")));
        output::lines(&lines)?;
    }
    Ok(if stopping.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn wait_for_end(pid: u32) -> Result<(), Failure> {
    let Some(daemon) = Process::with_pid(pid) else { return Ok(()) };
    let began = Instant::now();
    while daemon.is_alive() {
        if began.elapsed() > GONE_LIMIT {
            return Err(Failure::new(Code::DaemonStays, format!("the daemon (pid {pid}) does not end")));
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}
