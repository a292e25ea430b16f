//! `codex-bridge demo`: shows one task on the real Codex, with a scripted model instead of OpenAI's.
//!
//! Runs the same commands that a person would, with a separate daemon in a temporary directory. At a terminal the person
//! answers Codex's request; without one, the demo answers it.

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Instant;

use codex_binary::Codex;
use codex_bridge_core::id::short;
use scripted_model::{Phase, Scenario, ScriptedModel, ToolCall, codex_config};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::{AnyError, Globals, output};
use crate::amount::duration;
use crate::codex;

const PROMPT: &str = "Leave a note that says hello";
const NOTE: &str = "note.txt";

#[derive(clap::Args)]
pub struct Args {
    /// The codex to run [default: the one on PATH if its version is tested, else the pinned version from npm]
    #[arg(long, value_name = "FILE")]
    codex_bin: Option<PathBuf>,
}

#[tokio::main]
pub async fn run(globals: &Globals, args: &Args) -> Result<(), AnyError> {
    let codex = codex::usable(args.codex_bin.clone(), &codex::data_dir()?)?;
    let model = ScriptedModel::start().await?;
    model.script(PROMPT, scenario());
    let demo = DemoDir::new(&model.base_url(), &codex)?;
    if globals.json {
        let task = play_as_json(&demo).await;
        demo.stop_daemon().await?;
        return Ok(output::json(&task?)?);
    }
    print_line(&format!(
        "codex {} with a scripted model: no login, no network, nothing is kept",
        codex.version
    ))?;
    // The running command handles Ctrl-C; the demo itself ignores it.
    let _ignored = signal(SignalKind::interrupt())?;
    let began = Instant::now();
    let played = play(&demo).await;
    let took = duration(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    let outcome = played.and_then(|()| explain(&demo, &took));
    demo.stop_daemon().await?;
    outcome
}

/// The model writes a message, changes a file, and answers.
fn scenario() -> Scenario {
    Scenario::new()
        .say_as(Phase::Commentary, "I will write the note.")
        .call(ToolCall::add_file(NOTE, "hello"))
        .then_say("Done: the note says hello.")
}

async fn play(demo: &DemoDir) -> Result<(), AnyError> {
    if stdin().is_terminal() && stdout().is_terminal() {
        demo.run(&["run", "--sandbox", "workspace-write", PROMPT]).await?;
        return Ok(());
    }
    demo.run_ok(&["run", "--detach", "--sandbox", "workspace-write", PROMPT]).await?;
    let tasks = demo.query(&["ps"]).await?;
    let task_id = short(tasks[0]["task_id"].as_str().ok_or("the task is not listed")?);
    demo.query(&["wait", task_id]).await?;
    demo.run_ok(&["requests"]).await?;
    print_line("(no terminal: the demo approves the request itself)")?;
    let request_id = only_request(demo, task_id).await?;
    demo.run_ok(&["approve", task_id, short(&request_id)]).await?;
    demo.run_ok(&["attach", task_id]).await
}

async fn play_as_json(demo: &DemoDir) -> Result<Value, AnyError> {
    let task = demo.query(&["run", "--detach", "--sandbox", "workspace-write", PROMPT]).await?;
    let task_id = task["task_id"].as_str().ok_or("no task was started")?;
    demo.query(&["wait", task_id]).await?;
    let request_id = only_request(demo, task_id).await?;
    demo.query(&["approve", task_id, &request_id]).await?;
    demo.query(&["wait", task_id]).await
}

async fn only_request(demo: &DemoDir, task_id: &str) -> Result<String, AnyError> {
    let open = demo.query(&["requests", task_id]).await?;
    Ok(open[0]["request_id"].as_str().ok_or("there is no pending request")?.to_owned())
}

/// Explains which files there were, and how to run the same task with a login.
fn explain(demo: &DemoDir, took: &str) -> Result<(), AnyError> {
    let note = std::fs::read_to_string(demo.folder("demo").join(NOTE));
    let note =
        note.map_or_else(|_| "it was not written".to_owned(), |text| format!("it says: {}", text.trim_end()));
    output::lines(&[
        String::new(),
        format!("That took {took}. These files were in {}:", demo.dir.path().display()),
        format!("  demo/{NOTE}      the file; {note}"),
        "  state/tasks.db     the task, its log and the answer (SQLite)".to_owned(),
        "  state/daemon.log   the log of the daemon, which commands start when they need it".to_owned(),
        "  state/hosts/       the Codex host, which outlives the daemon".to_owned(),
        String::new(),
        "The same with your own login:".to_owned(),
        "  codex login".to_owned(),
        format!("  codex-bridge run --sandbox workspace-write \"{PROMPT}\""),
        "  codex-bridge doctor   checks whether anything is missing".to_owned(),
    ])?;
    Ok(())
}

fn print_line(line: &str) -> Result<(), AnyError> {
    Ok(output::lines(&[String::new(), line.to_owned()])?)
}

/// A temporary directory with everything that the demo needs. It is deleted afterwards.
struct DemoDir {
    dir: TempDir,
    program: PathBuf,
    data_base: PathBuf,
}

impl DemoDir {
    fn new(base_url: &str, codex: &Codex) -> Result<Self, AnyError> {
        // Short, because the path of a socket has at most 107 bytes.
        let dir = tempfile::Builder::new().prefix("codex-demo-").tempdir()?;
        let data_dir = codex::data_dir()?;
        let data_base = data_dir.parent().unwrap_or(&data_dir).to_path_buf();
        let demo = Self { dir, program: std::env::current_exe()?, data_base };
        for folder in ["codex", "home", "demo", "tmp"] {
            std::fs::create_dir(demo.folder(folder))?;
        }
        std::fs::write(demo.folder("codex").join("config.toml"), codex_config(base_url, ""))?;
        let codex_bin = Value::String(codex.executable.to_string_lossy().into_owned());
        std::fs::write(demo.config(), format!("codex_bin = {codex_bin}\n"))?;
        Ok(demo)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.folder("config.toml")
    }

    /// A command of codex-bridge that uses only the demo's directories.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(self.folder("demo")).kill_on_drop(true);
        command.envs([
            // An empty home, so that login shells find no profile. A TMPDIR that does not contain CODEX_HOME.
            ("HOME", self.folder("home")),
            ("TMPDIR", self.folder("tmp")),
            ("CODEX_HOME", self.folder("codex")),
            ("CODEX_BRIDGE_STATE_DIR", self.folder("state")),
            ("CODEX_BRIDGE_CONFIG", self.config()),
            ("XDG_DATA_HOME", self.data_base.clone()),
        ]);
        command
    }

    /// Prints a command and runs it.
    async fn run(&self, args: &[&str]) -> Result<ExitStatus, AnyError> {
        let typed = args
            .iter()
            .map(|word| if word.contains(' ') { format!("\"{word}\"") } else { (*word).to_owned() });
        print_line(&format!("$ codex-bridge {}", typed.collect::<Vec<_>>().join(" ")))?;
        Ok(self.command(args).status().await?)
    }

    /// Prints a command and runs it; it must succeed.
    async fn run_ok(&self, args: &[&str]) -> Result<(), AnyError> {
        let status = self.run(args).await?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("`codex-bridge {}` ended with {status}", args[0]).into())
        }
    }

    /// Runs a command with `--json`, without printing it.
    async fn query(&self, args: &[&str]) -> Result<Value, AnyError> {
        let output = self.command(args).arg("--json").stdin(Stdio::null()).output().await?;
        Ok(serde_json::from_slice(&output.stdout)
            .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?)
    }

    /// Stops the daemon and its host, which would outlive the demo.
    async fn stop_daemon(&self) -> Result<(), AnyError> {
        self.query(&["stop", "--hosts"]).await.map(drop)
    }
}
