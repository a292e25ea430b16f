//! The server on stdin and stdout: one message per line, one client for the life of the process.

use std::fs::File;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter, Stdout};
use tokio::sync::mpsc;

use crate::Failure;
use crate::server::Server;
use crate::state::Output;

const WRITE_BUFFER_BYTES: usize = 64 * 1024;

/// Serves the one client until it is gone.
pub async fn serve(server: Arc<Server>) -> Result<(), Failure> {
    let (output, outputs) = mpsc::unbounded_channel();
    let connection = server.open(output);
    tokio::spawn(write(outputs));
    let mut input = BufReader::new(tokio::io::stdin());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).await? > 0 {
        server.receive(connection, line.trim_ascii_end());
        line.clear();
    }
    server.close(connection);
    if server.script.stubborn {
        std::future::pending::<()>().await;
    }
    std::process::exit(0)
}

async fn write(mut outputs: mpsc::UnboundedReceiver<Output>) {
    let mut stdout = BufWriter::with_capacity(WRITE_BUFFER_BYTES, tokio::io::stdout());
    while let Some(output) = outputs.recv().await {
        // codex 0.166: a client that closed our stdout does not end the process
        let outcome = write_one(&mut stdout, output).await;
        if outcome.is_ok() && outputs.is_empty() {
            let _ = stdout.flush().await;
        }
    }
}

async fn write_one(stdout: &mut BufWriter<Stdout>, output: Output) -> Result<(), Failure> {
    match output {
        Output::Message(text) => {
            stdout.write_all(text.as_bytes()).await?;
            stdout.write_all(b"\n").await?;
        }
        Output::Raw(bytes) => stdout.write_all(&bytes).await?,
        Output::Half(text) => stdout.write_all(text.as_bytes()).await?,
        Output::Flush(written) => {
            let flushed = stdout.flush().await;
            let _ = written.send(());
            flushed?;
        }
        Output::Close => {
            stdout.flush().await?;
            rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
        }
    }
    Ok(())
}
