//! An app-server that plays a script: a real process to put in place of `codex app-server` in tests.
//!
//! It takes the arguments of the real one, speaks newline-delimited JSON on stdio or, with
//! `--listen unix://PATH`, one message per WebSocket text frame, and records what it gets. The script is
//! looked for in `--script FILE`, `$SCRIPTED_APP_SERVER`, `script.json` beside the program, and
//! `scripted-app-server.json` in `$CODEX_HOME` (what is left when the caller cleans the environment).

mod arguments;
mod defaults;
mod history;
mod play;
mod server;
mod socket;
mod state;
mod stdio;
mod template;

use std::process::ExitCode;
use std::sync::Arc;

use arguments::{Arguments, Listen};
use server::Server;
use testkit::log::{self, Entry};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments = Arguments::from_process();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("scripted-app-server: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (script, dir) = arguments.load_script()?;
    if arguments.version {
        println!("codex-cli {}", script.version);
        return Ok(());
    }
    let mut log = log::Writer::open(&arguments.log_file(&dir))?;
    log.append(&Entry::Started(arguments::this_process()?))?;
    let server = Arc::new(Server::new(script, dir, log));
    // One thread: rules that are begun in some order play their first steps in that order.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        server::heed_termination(Arc::clone(&server), arguments.listen.socket_path().map(Into::into))?;
        match &arguments.listen {
            Listen::Stdio => stdio::serve(server).await,
            Listen::Unix(path) => socket::serve(server, path).await,
        }
    })
}
