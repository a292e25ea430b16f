//! Watches a task: prints its log as it grows, asks its questions, detaches or interrupts on Ctrl-C.
//!
//! One loop handles events, typed lines, Ctrl-C and the ticks of the spinner. While a question is open, events are held
//! back, so that nothing is written over it. The task itself never depends on this loop.

mod choices;
mod input;
mod progress;
mod show;

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
use super::render::log::LogRenderer;
use super::render::task::{ending, time_ms};
use super::screen::Screen;
use super::terminal::Terminal;
use super::wait::RECONNECT_AFTER;
use super::{exit, output};
use crate::amount::now_ms;
use crate::calls;
use crate::client::{Client, EventStream};
use crate::failure::{Code, Failure};
use crate::view::{Event, Outcome, Task};
use choices::Dialog;
use progress::Progress;

/// How often the spinner moves.
const TICK_INTERVAL: Duration = Duration::from_millis(120);
/// The token count is refreshed every so many ticks.
const TICKS_PER_REFRESH: u32 = 16;
/// How long a refresh may take. A missed refresh does no harm.
const REFRESH_LIMIT: Duration = Duration::from_secs(1);

/// Why the watching ended.
#[derive(Debug, Clone, PartialEq)]
enum WatchEnd {
    /// The task finished, after so many milliseconds.
    Finished(Box<Task>, u64),
    /// The person detached; the task continues.
    Detached,
    /// The task needs an answer, and there is no terminal to ask on.
    NeedsAnswer,
}

/// Watches a task until it is finished, prints how it ended, and returns the exit code.
pub async fn watch(client: &Client, task: &Task, after: i64, on_ctrl_c: CtrlC) -> Result<ExitCode, Failure> {
    let task_id = &task.task_id;
    match Watch::new(client, task, after, on_ctrl_c).run().await? {
        WatchEnd::Finished(task, took_ms) => {
            let terminal = Terminal::of_stdout();
            let mut lines = vec![String::new()];
            lines.extend(ending(&task, took_ms, terminal.paint, terminal.columns()));
            output::lines(&lines)?;
            Ok(exit::code_of(&task))
        }
        WatchEnd::Detached => {
            let id = short(task_id);
            let lines = [format!("\ndetached: task {id} continues"), format!("  codex-bridge attach {id}")];
            output::lines(&lines)?;
            Ok(ExitCode::from(exit::INTERRUPTED))
        }
        WatchEnd::NeedsAnswer => Err(exit::needs_answer(task_id)),
    }
}

/// The effect of Ctrl-C if there is no terminal to ask on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CtrlC {
    /// The command started the turn, and interrupts it.
    Interrupts,
    /// The command only attached to the task, and detaches.
    Detaches,
}

/// One watched task.
struct Watch<'a> {
    client: &'a Client,
    task_id: String,
    on_ctrl_c: CtrlC,
    terminal: Terminal,
    screen: Screen<Stdout>,
    log: LogRenderer,
    progress: Progress,
    keyboard: Option<Keyboard>,
    last_seq: i64,
    /// The message being written, as far as it was shown.
    written: String,
    /// Whether the beginning of that message was left out because of its length.
    is_beginning_left_out: bool,
    question: OpenQuestion,
    held_events: VecDeque<Event>,
    interrupting: Option<Interrupting<'a>>,
    ticks: u32,
}

type Interrupting<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + 'a>>;

/// The question that waits for a typed line.
enum OpenQuestion {
    None,
    Request(Box<Dialog>),
    /// Interrupt, detach or stay? With the request that was open before Ctrl-C.
    CtrlC(Option<Box<Dialog>>),
}

enum Input {
    Event(Option<Event>),
    Line(Line),
    CtrlC,
    Tick,
    Interrupted(Box<Result<Outcome, Failure>>),
}

impl<'a> Watch<'a> {
    /// Watches a task's log after this event; 0 is the beginning.
    fn new(client: &'a Client, task: &Task, after: i64, on_ctrl_c: CtrlC) -> Self {
        let terminal = Terminal::of_stdout();
        Self {
            client,
            task_id: task.task_id.clone(),
            on_ctrl_c,
            terminal,
            screen: Screen::new(stdout(), terminal.is_terminal),
            log: LogRenderer::new(terminal.paint, terminal.columns()),
            progress: Progress::new(now_ms()),
            // Questions are shown on stdout, so they are asked only if stdout is a terminal.
            keyboard: terminal.is_terminal.then(Keyboard::open).flatten(),
            last_seq: after,
            written: String::new(),
            is_beginning_left_out: false,
            question: OpenQuestion::None,
            held_events: VecDeque::new(),
            interrupting: None,
            ticks: 0,
        }
    }

    /// Watches until the task is finished or the person detaches.
    async fn run(mut self) -> Result<WatchEnd, Failure> {
        let mut ctrl_c = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
        let mut tick = interval(TICK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut events = self.events().await?;
        loop {
            let end = match self.next(&mut events, &mut ctrl_c, &mut tick).await {
                Ok(Input::Event(Some(event))) => self.take(event).await?,
                Ok(Input::Event(None)) => {
                    let end = self.end_of_log().await?;
                    if end.is_none() {
                        events = self.events().await?;
                    }
                    end
                }
                Ok(Input::Line(line)) => self.handle_line(line).await?,
                Ok(Input::CtrlC) => self.ctrl_c().await?,
                Ok(Input::Tick) => {
                    self.tick().await?;
                    None
                }
                Ok(Input::Interrupted(outcome)) => self.interrupted(*outcome)?,
                // The daemon crashed. The task and its log are stored, so the watch resumes.
                Err(failure) if failure.code == Code::DaemonGone => {
                    sleep(RECONNECT_AFTER).await;
                    events = self.events().await?;
                    None
                }
                Err(failure) => {
                    self.clean_up()?;
                    return Err(if failure.code == Code::DaemonStopping { self.stopped() } else { failure });
                }
            };
            if let Some(end) = end {
                self.clean_up()?;
                return Ok(end);
            }
        }
    }

    /// Completes a half-written text and clears the status line.
    fn clean_up(&mut self) -> Result<(), Failure> {
        self.screen.end_text().and_then(|()| self.screen.clear_status()).map_err(output::write_failure)
    }

    fn stopped(&self) -> Failure {
        let id = short(&self.task_id);
        let message = format!("the daemon was stopped; task {id} continues without it");
        let hint = format!("`codex-bridge attach {id}` starts the daemon again and watches the task");
        Failure::new(Code::DaemonStopping, message).hint(hint)
    }

    async fn events(&self) -> Result<EventStream, Failure> {
        let live = self.terminal.is_terminal;
        let options = calls::Events { after: self.last_seq, follow: true, live, ..calls::Events::default() };
        self.client.events(&self.task_id, &options).await
    }

    async fn next(
        &mut self,
        events: &mut EventStream,
        ctrl_c: &mut Signal,
        tick: &mut Interval,
    ) -> Result<Input, Failure> {
        let is_question_open = !matches!(self.question, OpenQuestion::None);
        let Self { keyboard, interrupting, terminal, .. } = self;
        let typed_line = async {
            match keyboard {
                Some(keyboard) if is_question_open => keyboard.line().await,
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
            // What the person does comes before events.
            biased;
            _ = ctrl_c.recv() => Ok(Input::CtrlC),
            line = typed_line => Ok(Input::Line(line)),
            event = events.next() => event.map(Input::Event),
            outcome = interrupted => Ok(Input::Interrupted(Box::new(outcome))),
            _ = tick.tick(), if terminal.is_terminal => Ok(Input::Tick),
        }
    }

    /// A followed log ends when the task is finished.
    async fn end_of_log(&mut self) -> Result<Option<WatchEnd>, Failure> {
        let task = self.client.show(&self.task_id).await?;
        if !task.status.is_finished() {
            return Ok(None);
        }
        self.close_question(None)?;
        if let Some(end) = self.show_held_events().await? {
            return Ok(Some(end));
        }
        let ended_ms = task.completed_at.as_deref().map_or_else(now_ms, time_ms);
        Ok(Some(WatchEnd::Finished(Box::new(task), self.progress.took_ms(ended_ms))))
    }

    async fn tick(&mut self) -> Result<(), Failure> {
        if !matches!(self.question, OpenQuestion::None) {
            return Ok(());
        }
        if self.ticks.is_multiple_of(TICKS_PER_REFRESH) {
            let refreshed = timeout(REFRESH_LIMIT, self.client.show(&self.task_id)).await;
            if let Ok(Ok(Task { usage: Some(usage), .. })) = refreshed {
                self.progress.set_tokens(usage.total.total_tokens);
            }
        }
        self.ticks = self.ticks.wrapping_add(1);
        let line = self.progress.draw(now_ms(), self.terminal.paint, self.terminal.columns());
        self.screen.status(&line).map_err(output::write_failure)
    }
}
