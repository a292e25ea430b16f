//! `codex-bridge demo`: one turn on the real Codex, with a scripted model in place of OpenAI's, told as it happens.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codex_binary::Codex;
use codex_session::tool_display::Display;
use codex_session::{Ask, Decision, OnHost, Session, SessionConfig, SessionEvent, TurnOptions, TurnOutcome, TurnResult};
use codex_wire::host::environment::of_this_process;
use codex_wire::host::{EnvPolicy, Found, Identity, KeeperCommand, Launch, Stop, find};
use scripted_model::{Phase, Scenario, ScriptedModel, codex_config};
use tempfile::TempDir;

use super::Failed;
use crate::codex;

/// What the demo asks for.
const PROMPT: &str = "Leave a note that says hello, then tell me what is in the folder.";

#[derive(clap::Args)]
pub struct Args {
    /// The codex to run; by default the one on PATH if it is a tested version, else the pinned one from npm
    #[arg(long, value_name = "FILE")]
    codex_bin: Option<PathBuf>,
}

#[tokio::main]
pub async fn run(args: &Args) -> Result<(), Failed> {
    let codex = codex::usable(args.codex_bin.clone(), &codex::data_dir()?)?;
    let model = ScriptedModel::start().await?;
    model.script(PROMPT, scenario());
    let stage = Stage::new(&model.base_url())?;
    println!("codex {} on a host of its own, with a scripted model; everything is in a temporary folder", codex.version);
    println!("\nyou    {PROMPT}\n");

    let began = Instant::now();
    let result = play(&stage, &codex).await;
    stage.strike().await?;
    report(&result?, began.elapsed())
}

/// What the model does: it says something, runs a command, changes a file, and answers.
fn scenario() -> Scenario {
    Scenario::new()
        .say_as(Phase::Commentary, "I will write the note and then look.")
        .exec("echo hello > note.txt")
        .then_exec("ls")
        .then_say("Done: the folder holds note.txt, and the note says hello.")
}

async fn play(stage: &Stage, codex: &Codex) -> Result<TurnResult, Failed> {
    let config = SessionConfig::new(stage.folder("work"));
    let launch = stage.launch(codex)?;
    let session = Session::start(config, OnHost(launch), Some(Arc::new(say_yes))).await.map_err(|it| it.to_string())?;
    let mut events = session.events();
    let teller = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            tell(&event);
        }
    });
    let result = session.run_turn(PROMPT, TurnOptions::default()).await;
    session.close().await;
    drop(session);
    teller.await?;
    Ok(result)
}

/// The demo's person reads the question and says yes, once.
async fn say_yes(ask: Ask) -> Decision {
    println!("asked  {}", ask.text().replace('\n', "\n       "));
    println!("       → yes, once\n");
    Decision::Accept
}

fn tell(event: &SessionEvent) {
    match event {
        SessionEvent::Shown(Display::Message { text, .. }) => println!("codex  {text}\n"),
        SessionEvent::Shown(Display::ToolStarted(tool)) => {
            println!("tool   {} {}", tool.name, tool.preview.as_deref().unwrap_or_default());
        }
        SessionEvent::Shown(Display::ToolCompleted(tool)) => {
            let how = if tool.is_error { "failed" } else { "ok" };
            println!("       {how} {}\n", tool.result.trim().replace('\n', "\n       "));
        }
        SessionEvent::Warning { message } => println!("note   {message}\n"),
        _ => {}
    }
}

fn report(result: &TurnResult, took: Duration) -> Result<(), Failed> {
    let tokens = result.usage.as_ref().map_or(0, |usage| usage.total.total_tokens);
    println!("turn   {:?}, {} tool calls, {tokens} tokens, {:.1} s", result.outcome, result.tool_iterations, took.as_secs_f32());
    match (&result.error, result.outcome) {
        (Some(error), _) => Err(error.to_string().into()),
        (None, TurnOutcome::Completed) => Ok(()),
        (None, outcome) => Err(format!("the demo's turn ended as {outcome:?}").into()),
    }
}

/// A temporary folder with all that the demo needs, gone afterwards.
struct Stage {
    dir: TempDir,
}

impl Stage {
    fn new(base_url: &str) -> Result<Self, Failed> {
        // Short, since a socket's path may have 107 bytes only.
        let stage = Self { dir: tempfile::Builder::new().prefix("codex-demo-").tempdir()? };
        for folder in ["codex", "home", "work", "tmp"] {
            std::fs::create_dir(stage.folder(folder))?;
        }
        std::fs::write(stage.folder("codex").join("config.toml"), codex_config(base_url, ""))?;
        Ok(stage)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn launch(&self, codex: &Codex) -> Result<Launch, Failed> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut parent_env: BTreeMap<_, _> = of_this_process();
        // An empty home: login shells find no profile. A temporary folder that CODEX_HOME does not lie in.
        parent_env.insert("HOME".to_owned(), text(&self.folder("home")));
        parent_env.insert("TMPDIR".to_owned(), text(&self.folder("tmp")));
        Ok(Launch {
            keeper: KeeperCommand { program: std::env::current_exe()?, args: vec!["host".into()] },
            codex: codex.executable.clone(),
            version: codex.version.to_string(),
            identity: Identity { codex_home: Some(self.folder("codex")), ..Identity::default() },
            dir: self.folder("host"),
            parent_env,
            env: EnvPolicy::default(),
            config: Vec::new(),
            ready_timeout: Duration::from_secs(20),
        })
    }

    /// Ends the host, which would outlive us.
    async fn strike(&self) -> Result<(), Failed> {
        if let Some(Found::Alive(host) | Found::KeeperGone(host)) = find(&self.folder("host"))? {
            host.stop(Stop::Now).await?;
        }
        Ok(())
    }
}
