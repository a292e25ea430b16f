//! `codex-bridge demo`: a task as a user meets it, on the real Codex with a scripted model in place of OpenAI's.
//!
//! It types the same commands that a person would, to a daemon of its own in a temporary directory. At a terminal the
//! person answers what Codex asks; elsewhere the demo does.

use std::io::{IsTerminal, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Instant;

use codex_binary::Codex;
use codex_bridge_core::id::short;
use scripted_model::{Phase, Scenario, ScriptedModel, ToolCall, codex_config};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failed, Globals, output};
use crate::amount::duration;
use crate::codex;

/// What the demo asks for.
const PROMPT: &str = "Leave a note that says hello";
/// What it makes.
const NOTE: &str = "note.txt";

#[derive(clap::Args)]
pub struct Args {
    /// The codex to run; by default the one on PATH if it is a tested version, else the pinned one from npm
    #[arg(long, value_name = "FILE")]
    codex_bin: Option<PathBuf>,
}

#[tokio::main]
pub async fn run(globals: &Globals, args: &Args) -> Result<(), Failed> {
    let codex = codex::usable(args.codex_bin.clone(), &codex::data_dir()?)?;
    let model = ScriptedModel::start().await?;
    model.script(PROMPT, scenario());
    let stage = Stage::new(&model.base_url(), &codex)?;
    if globals.json {
        let task = play_quietly(&stage).await;
        stage.strike().await?;
        return Ok(output::json(&task?)?);
    }
    say(&format!("codex {} with a scripted model: no login, no network, nothing is kept", codex.version))?;
    // What a terminal sends on Ctrl-C is for the command that runs; it asks what is meant.
    let _ours = signal(SignalKind::interrupt())?;
    let began = Instant::now();
    let played = play(&stage).await;
    let took = duration(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    let told = played.and_then(|()| explain(&stage, &took));
    stage.strike().await?;
    told
}

/// What the model does: it says something, changes a file, and answers.
fn scenario() -> Scenario {
    Scenario::new()
        .say_as(Phase::Commentary, "I will write the note.")
        .call(ToolCall::add_file(NOTE, "hello"))
        .then_say("Done: the note says hello.")
}

async fn play(stage: &Stage) -> Result<(), Failed> {
    if stdin().is_terminal() && stdout().is_terminal() {
        stage.shown(&["run", "--sandbox", "workspace-write", PROMPT]).await?;
        return Ok(());
    }
    stage.done(&["run", "--detach", "--sandbox", "workspace-write", PROMPT]).await?;
    let tasks = stage.read(&["ps"]).await?;
    let task_id = short(tasks[0]["task_id"].as_str().ok_or("the task is not listed")?);
    stage.read(&["wait", task_id]).await?;
    stage.done(&["requests"]).await?;
    say("(no terminal here: the demo answers by itself)")?;
    let request_id = only_request(stage, task_id).await?;
    stage.done(&["approve", task_id, short(&request_id)]).await?;
    stage.done(&["attach", task_id]).await
}

/// The same for programs: the task as it ended.
async fn play_quietly(stage: &Stage) -> Result<Value, Failed> {
    let task = stage.read(&["run", "--detach", "--sandbox", "workspace-write", PROMPT]).await?;
    let task_id = task["task_id"].as_str().ok_or("no task was started")?;
    stage.read(&["wait", task_id]).await?;
    let request_id = only_request(stage, task_id).await?;
    stage.read(&["approve", task_id, &request_id]).await?;
    stage.read(&["wait", task_id]).await
}

async fn only_request(stage: &Stage, task_id: &str) -> Result<String, Failed> {
    let open = stage.read(&["requests", task_id]).await?;
    Ok(open[0]["request_id"].as_str().ok_or("nothing is asked")?.to_owned())
}

/// What is where, and how to do the same in earnest.
fn explain(stage: &Stage, took: &str) -> Result<(), Failed> {
    let made = std::fs::read_to_string(stage.folder("demo").join(NOTE));
    let made =
        made.map_or_else(|_| "it was not written".to_owned(), |text| format!("it says: {}", text.trim_end()));
    output::lines(&[
        String::new(),
        format!("That took {took}. Until now there was in {}:", stage.dir.path().display()),
        format!("  demo/{NOTE}      the file; {made}"),
        "  state/tasks.db     the task, its log and the answer (SQLite)".to_owned(),
        "  state/daemon.log   the daemon, which a command starts when it needs it".to_owned(),
        "  state/hosts/       Codex: it outlives the daemon, and is found again".to_owned(),
        String::new(),
        "The same with your own login:".to_owned(),
        "  codex login".to_owned(),
        format!("  codex-bridge run --sandbox workspace-write \"{PROMPT}\""),
        "  codex-bridge doctor   tells what is missing, if anything is".to_owned(),
    ])?;
    Ok(())
}

fn say(line: &str) -> Result<(), Failed> {
    Ok(output::lines(&[String::new(), line.to_owned()])?)
}

/// A temporary directory with all that the demo needs, gone afterwards.
struct Stage {
    dir: TempDir,
    program: PathBuf,
    data_base: PathBuf,
}

impl Stage {
    fn new(base_url: &str, codex: &Codex) -> Result<Self, Failed> {
        // Short, since a socket's path may have 107 bytes only.
        let dir = tempfile::Builder::new().prefix("codex-demo-").tempdir()?;
        let data_dir = codex::data_dir()?;
        let data_base = data_dir.parent().unwrap_or(&data_dir).to_path_buf();
        let stage = Self { dir, program: std::env::current_exe()?, data_base };
        for folder in ["codex", "home", "demo", "tmp"] {
            std::fs::create_dir(stage.folder(folder))?;
        }
        std::fs::write(stage.folder("codex").join("config.toml"), codex_config(base_url, ""))?;
        let codex_bin = Value::String(codex.executable.to_string_lossy().into_owned());
        std::fs::write(stage.config(), format!("codex_bin = {codex_bin}\n"))?;
        Ok(stage)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.folder("config.toml")
    }

    /// One of our own commands, as if somebody had nothing but the stage.
    fn command(&self, args: &[&str]) -> Command {
        let set = |command: &mut Command, name: &str, path: &Path| {
            command.env(name, path);
        };
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(self.folder("demo")).kill_on_drop(true);
        // An empty home: login shells find no profile. A temporary directory that CODEX_HOME does not lie in.
        set(&mut command, "HOME", &self.folder("home"));
        set(&mut command, "TMPDIR", &self.folder("tmp"));
        set(&mut command, "CODEX_HOME", &self.folder("codex"));
        set(&mut command, "CODEX_BRIDGE_STATE_DIR", &self.folder("state"));
        set(&mut command, "CODEX_BRIDGE_CONFIG", &self.config());
        set(&mut command, "XDG_DATA_HOME", &self.data_base);
        command
    }

    /// Types a command where everybody can see it.
    async fn shown(&self, args: &[&str]) -> Result<ExitStatus, Failed> {
        let typed = args
            .iter()
            .map(|word| if word.contains(' ') { format!("\"{word}\"") } else { (*word).to_owned() });
        say(&format!("$ codex-bridge {}", typed.collect::<Vec<_>>().join(" ")))?;
        Ok(self.command(args).status().await?)
    }

    /// The same, and it must go well.
    async fn done(&self, args: &[&str]) -> Result<(), Failed> {
        let status = self.shown(args).await?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("`codex-bridge {}` ended with {status}", args[0]).into())
        }
    }

    /// Asks on the quiet.
    async fn read(&self, args: &[&str]) -> Result<Value, Failed> {
        let output = self.command(args).arg("--json").stdin(Stdio::null()).output().await?;
        Ok(serde_json::from_slice(&output.stdout)
            .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?)
    }

    /// Ends the daemon and its host, which would outlive us.
    async fn strike(&self) -> Result<(), Failed> {
        self.read(&["stop", "--hosts"]).await.map(drop)
    }
}
