//! Makes text of speech with a program of the operator's: the recording is a file of its own, the words are what the program
//! prints. No shell, no secrets in its environment, and no process of it survives.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use codex_bridge_core::inbox::transcriber::{Transcriber, Transcribes};
use codex_wire::reason;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::exec::ProcessGroup;
use super::plugin::common_variables;

/// How long the program may take, unless the operator says otherwise.
const LIMIT: Duration = Duration::from_mins(2);
/// The longest time that can be configured.
const MOST_LIMIT_S: u64 = 30 * 60;
/// What stands for the recording in the arguments.
const FILE: &str = "{file}";
/// How much of the program's output is text of the message. An hour of speech has less.
const OUTPUT_BYTES: usize = 128 * 1024;
/// How much of the program's stderr is logged.
const STDERR_BYTES: usize = 2_048;
/// How many programs of a channel run at once: each may take all processors.
const AT_ONCE: usize = 2;

/// The operator's program.
struct Program {
    argv: Vec<String>,
    limit: Duration,
    running: Semaphore,
}

/// The transcriber of a channel; none if no program is configured. The error says what the operator has to correct.
pub fn open(argv: &[String], limit_s: Option<u64>) -> Result<Option<Transcriber>, String> {
    let Some(name) = argv.first() else { return Ok(None) };
    if name.is_empty() || !argv[1..].iter().any(|argument| argument.contains(FILE)) {
        return Err(format!("`transcribe` must name a program and have {FILE} in an argument"));
    }
    if limit_s.is_some_and(|seconds| seconds == 0 || seconds > MOST_LIMIT_S) {
        return Err(format!("`transcribe_limit_s` must be 1 to {MOST_LIMIT_S}"));
    }
    let limit = limit_s.map_or(LIMIT, Duration::from_secs);
    let program = Program { argv: argv.to_vec(), limit, running: Semaphore::new(AT_ONCE) };
    Ok(Some(Transcriber::new(format!("{argv:?} {limit:?}"), Arc::new(program))))
}

impl Transcribes for Program {
    fn transcribe(&self, recording: Vec<u8>) -> BoxFuture<'_, Result<String, String>> {
        self.run(recording).boxed()
    }
}

impl Program {
    async fn run(&self, recording: Vec<u8>) -> Result<String, String> {
        let _running = self.running.acquire().await.map_err(|_| "the daemon stops".to_owned())?;
        let file = tokio::task::spawn_blocking(move || keep(&recording)).await;
        let file = file.map_err(std::io::Error::from).and_then(|kept| kept);
        let file = file.map_err(|error| {
            format!("it could not be kept for the program that makes text of speech: {}", reason(&error))
        })?;
        let finished = tokio::time::timeout(self.limit, self.words(&file)).await;
        finished.unwrap_or_else(|_| {
            let limit = self.limit.as_secs();
            Err(format!("the program that makes text of speech took longer than {limit} s"))
        })
    }

    async fn words(&self, file: &NamedTempFile) -> Result<String, String> {
        let path = file.path().to_string_lossy();
        let mut command = Command::new(&self.argv[0]);
        command
            .args(self.argv[1..].iter().map(|argument| argument.replace(FILE, &path)))
            .current_dir("/")
            .env_clear()
            .envs(common_variables())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            tracing::warn!(program = self.argv[0], reason = reason(&error), "speech cannot be transcribed");
            "the program that makes text of speech cannot be run".to_owned()
        })?;
        // Dropped at the end and when the time is over: what the program has started ends with it.
        let _group = ProcessGroup::of(&child);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (status, stdout, stderr) =
            tokio::join!(child.wait(), beginning(stdout, OUTPUT_BYTES), beginning(stderr, STDERR_BYTES));
        match status {
            Ok(status) if status.success() => Ok(String::from_utf8_lossy(&stdout).into_owned()),
            Ok(status) => {
                let stderr = String::from_utf8_lossy(&stderr);
                tracing::warn!(program = self.argv[0], %status, stderr = stderr.trim(), "speech was not transcribed");
                Err(format!("the program that makes text of speech failed ({status})"))
            }
            Err(error) => Err(format!(
                "the end of the program that makes text of speech is unknown: {}",
                reason(&error)
            )),
        }
    }
}

/// Writes a recording to a file that only its owner reads, and that is deleted when it is dropped.
fn keep(recording: &[u8]) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // Programs go by the extension.
    let mut file = builder.prefix("codex-bridge-speech-").suffix(extension(recording)).tempfile()?;
    file.write_all(recording)?;
    file.flush()?;
    Ok(file)
}

fn extension(recording: &[u8]) -> &'static str {
    match recording {
        [b'O', b'g', b'g', b'S', ..] => ".ogg",
        [b'R', b'I', b'F', b'F', ..] => ".wav",
        [b'f', b'L', b'a', b'C', ..] => ".flac",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => ".m4a",
        _ => ".mp3",
    }
}

/// The beginning of an output. All of it is read, so that the program never blocks on a full pipe.
async fn beginning(output: Option<impl AsyncRead + Unpin>, limit: usize) -> Vec<u8> {
    let Some(mut output) = output else { return Vec::new() };
    let (mut kept, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = output.read(&mut chunk).await {
        let room = limit.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..count.min(room)]);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    async fn said(words: &[&str], limit_s: u64) -> Result<String, String> {
        let transcriber = open(&argv(words), Some(limit_s)).unwrap().unwrap();
        transcriber.transcribe(b"OggS speech".to_vec()).await
    }

    #[test]
    fn a_program_without_the_file_is_refused() {
        assert!(open(&[], None).unwrap().is_none());
        assert!(open(&argv(&["cat"]), None).is_err());
        assert!(open(&argv(&["cat", "{file}"]), Some(0)).is_err());
        let same = |limit| open(&argv(&["cat", "{file}"]), limit).unwrap();
        assert!(same(None) == same(None) && same(None) != same(Some(5)));
    }

    #[tokio::test]
    async fn the_words_are_what_the_program_prints_and_the_file_is_gone_afterwards() {
        let script = "test -z \"$CODEX_BRIDGE_X\" && echo \"$0\" && stat -c %a \"$0\" && cat \"$0\"";
        let said = said(&["sh", "-c", script, "{file}"], 20).await.unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[1..], ["600", "OggS speech"]);
        assert!(lines[0].contains(".ogg") && !std::path::Path::new(lines[0]).exists(), "{said}");
    }

    #[tokio::test]
    async fn a_program_that_fails_or_hangs_says_nothing() {
        let failed = said(&["sh", "-c", "echo secret >&2; exit 3", "{file}"], 20).await.unwrap_err();
        assert!(failed.contains("failed (exit status: 3)") && !failed.contains("secret"), "{failed}");
        let late = said(&["sh", "-c", "sleep 60 & sleep 60", "{file}"], 1).await.unwrap_err();
        assert!(late.contains("longer than 1 s"), "{late}");
        let missing = said(&["/nonexistent/program", "{file}"], 20).await.unwrap_err();
        assert!(missing.contains("cannot be run"), "{missing}");
    }
}
