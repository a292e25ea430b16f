//! Watching a task: its log as it grows, the questions it asks, and the ways to leave it.
//!
//! One loop takes events, what is typed, Ctrl-C and the ticks of the spinner, in turn. While a question is open,
//! events are held back, so that nothing is written over it. The task goes on whatever happens here.

mod choices;
mod progress;
mod story;
mod typed;

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::io::{Stdout, stdout};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use codex_bridge_core::id::short;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

use super::keyboard::{Keyboard, Line};
use super::render::story::Story;
use super::render::task::{ending, time_ms};
use super::screen::Screen;
use super::terminal::Terminal;
use super::wait::RECONNECT_AFTER;
use super::{exit, output};
use crate::amount::now_ms;
use crate::calls;
use crate::client::{Client, Lines};
use crate::failure::{Code, Failure};
use crate::view::{Event, Outcome, Task};
use choices::Inquiry;
use progress::Progress;

/// How often the spinner turns.
const TURN_EVERY: Duration = Duration::from_millis(120);
/// The tokens are looked up every so many turns of the spinner.
const TURNS_PER_LOOK: u32 = 16;
/// A look may take this long; the next one comes soon.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// How the watching ended.
#[derive(Debug, Clone, PartialEq)]
enum Left {
    /// The task is at rest, after so many milliseconds.
    AtRest(Box<Task>, u64),
    /// The person left; the task goes on.
    Detached,
    /// The task asks for something, and there is no one here who could answer.
    NeedsAnswer,
}

/// Watches a task and tells how it ended, in words and as an exit code.
pub async fn to_the_end(
    client: &Client,
    task: &Task,
    after: i64,
    unattended: Unattended,
) -> Result<ExitCode, Failure> {
    let task_id = &task.task_id;
    match Watch::new(client, task, after, unattended).run().await? {
        Left::AtRest(task, took_ms) => {
            let terminal = Terminal::of_stdout();
            let mut lines = vec![String::new()];
            lines.extend(ending(&task, took_ms, terminal.paint, terminal.columns()));
            output::lines(&lines)?;
            Ok(exit::of(&task))
        }
        Left::Detached => {
            let id = short(task_id);
            let lines = [format!("\ndetached: task {id} goes on"), format!("  codex-bridge attach {id}")];
            output::lines(&lines)?;
            Ok(ExitCode::from(exit::INTERRUPTED))
        }
        Left::NeedsAnswer => Err(exit::needs_answer(task_id)),
    }
}

/// What a Ctrl-C does where nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unattended {
    /// The task was started here and ends here.
    Interrupts,
    /// The task was only looked at.
    Leaves,
}

/// Somebody watches a task.
struct Watch<'a> {
    client: &'a Client,
    task_id: String,
    unattended: Unattended,
    terminal: Terminal,
    screen: Screen<Stdout>,
    story: Story,
    progress: Progress,
    keyboard: Option<Keyboard>,
    last_seq: i64,
    /// The message that is being written, as far as it was shown.
    written: String,
    /// Whether its beginning was too long to be shown.
    is_beginning_left_out: bool,
    open: Open,
    held: VecDeque<Event>,
    interrupting: Option<Interrupting<'a>>,
    turns: u32,
}

type Interrupting<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + 'a>>;

/// The question that is open.
enum Open {
    None,
    Request(Box<Inquiry>),
    /// After Ctrl-C, with the request that was open before.
    Leaving(Option<Box<Inquiry>>),
}

enum Input {
    Event(Option<Event>),
    Line(Line),
    CtrlC,
    Tick,
    Interrupted(Box<Result<Outcome, Failure>>),
}

impl<'a> Watch<'a> {
    /// Watches a task from behind this event on; 0 is the beginning of its log.
    fn new(client: &'a Client, task: &Task, after: i64, unattended: Unattended) -> Self {
        let terminal = Terminal::of_stdout();
        Self {
            client,
            task_id: task.task_id.clone(),
            unattended,
            terminal,
            screen: Screen::new(stdout(), terminal.is_terminal),
            story: Story::new(terminal.paint, terminal.columns()),
            progress: Progress::new(now_ms()),
            // Questions are shown on the same terminal that they are answered on.
            keyboard: terminal.is_terminal.then(Keyboard::open).flatten(),
            last_seq: after,
            written: String::new(),
            is_beginning_left_out: false,
            open: Open::None,
            held: VecDeque::new(),
            interrupting: None,
            turns: 0,
        }
    }

    /// Watches until the task is at rest, or the person leaves.
    async fn run(mut self) -> Result<Left, Failure> {
        let mut ctrl_c = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
        let mut tick = interval(TURN_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut events = self.events().await?;
        loop {
            let left = match self.next(&mut events, &mut ctrl_c, &mut tick).await {
                Ok(Input::Event(Some(event))) => self.take(event).await?,
                Ok(Input::Event(None)) => {
                    let left = self.end_of_log().await?;
                    if left.is_none() {
                        events = self.events().await?;
                    }
                    left
                }
                Ok(Input::Line(line)) => self.typed(line).await?,
                Ok(Input::CtrlC) => self.ctrl_c().await?,
                Ok(Input::Tick) => {
                    self.tick().await?;
                    None
                }
                Ok(Input::Interrupted(outcome)) => self.interrupted(*outcome)?,
                // It crashed: the task is where it was, and so is its log.
                Err(failure) if failure.code == Code::DaemonGone => {
                    sleep(RECONNECT_AFTER).await;
                    events = self.events().await?;
                    None
                }
                Err(failure) => {
                    self.leave()?;
                    return Err(if failure.code == Code::DaemonStopping { self.stopped() } else { failure });
                }
            };
            if let Some(left) = left {
                self.leave()?;
                return Ok(left);
            }
        }
    }

    /// Nothing stands half-written behind us.
    fn leave(&mut self) -> Result<(), Failure> {
        self.screen.end_text().and_then(|()| self.screen.clear_status()).map_err(output::failed)
    }

    fn stopped(&self) -> Failure {
        let id = short(&self.task_id);
        let message = format!("the daemon was stopped; what task {id} runs goes on without it");
        let hint = format!("`codex-bridge attach {id}` starts it again");
        Failure::new(Code::DaemonStopping, message).hint(hint)
    }

    async fn events(&self) -> Result<Lines, Failure> {
        let live = self.terminal.is_terminal;
        let which = calls::Events { after: self.last_seq, follow: true, live, ..calls::Events::default() };
        self.client.events(&self.task_id, &which).await
    }

    async fn next(
        &mut self,
        events: &mut Lines,
        ctrl_c: &mut Signal,
        tick: &mut Interval,
    ) -> Result<Input, Failure> {
        let is_asked = !matches!(self.open, Open::None);
        let Self { keyboard, interrupting, terminal, .. } = self;
        let typed = async {
            match keyboard {
                Some(keyboard) if is_asked => keyboard.line().await,
                _ => pending().await,
            }
        };
        let interrupted = async {
            match interrupting {
                Some(interrupting) => interrupting.await,
                None => pending().await,
            }
        };
        tokio::select! {
            // What was asked for comes before what only happens.
            biased;
            _ = ctrl_c.recv() => Ok(Input::CtrlC),
            line = typed => Ok(Input::Line(line)),
            event = events.next() => event.map(Input::Event),
            outcome = interrupted => Ok(Input::Interrupted(Box::new(outcome))),
            _ = tick.tick(), if terminal.is_terminal => Ok(Input::Tick),
        }
    }

    /// The log ends when the task is at rest.
    async fn end_of_log(&mut self) -> Result<Option<Left>, Failure> {
        let task = self.client.show(&self.task_id).await?;
        if !task.status.is_finished() {
            return Ok(None);
        }
        self.close_question(None)?;
        if let Some(left) = self.show_held().await? {
            return Ok(Some(left));
        }
        let ended_ms = task.completed_at.as_deref().map_or_else(now_ms, time_ms);
        Ok(Some(Left::AtRest(Box::new(task), self.progress.took_ms(ended_ms))))
    }

    async fn tick(&mut self) -> Result<(), Failure> {
        if !matches!(self.open, Open::None) {
            return Ok(());
        }
        if self.turns.is_multiple_of(TURNS_PER_LOOK) {
            let look = timeout(LOOK_LIMIT, self.client.show(&self.task_id)).await;
            if let Ok(Ok(Task { usage: Some(usage), .. })) = look {
                self.progress.set_tokens(usage.total.total_tokens);
            }
        }
        self.turns = self.turns.wrapping_add(1);
        let line = self.progress.draw(now_ms(), self.terminal.paint, self.terminal.columns());
        self.screen.status(&line).map_err(output::failed)
    }
}
