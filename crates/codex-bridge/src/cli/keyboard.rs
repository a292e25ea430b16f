//! Reads answers from the terminal. Lines that were typed before the question appeared are discarded.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::os::fd::AsFd;
use std::sync::mpsc as blocking;
use std::time::{Duration, Instant};

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// An answer that comes sooner after its question was typed for something else.
const READING_TIME: Duration = Duration::from_millis(250);

/// A terminal to read answers from.
#[derive(Debug)]
pub struct Keyboard {
    terminal: File,
    /// Asks the reading thread for one line. The thread must not read at other times: the shell would stop a background job
    /// that reads from the terminal.
    ask: blocking::SyncSender<()>,
    lines: mpsc::Receiver<Line>,
    is_reading: bool,
    is_hidden: bool,
    shown_at: Instant,
}

/// A typed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line, without its line break.
    Typed(String),
    /// Ctrl-D, or the terminal is gone.
    End,
}

impl Keyboard {
    /// Opens the terminal on stdin; if stdin is not a terminal, the controlling terminal, if there is one.
    pub fn open() -> Option<Self> {
        let terminal = if io::stdin().is_terminal() {
            File::from(io::stdin().as_fd().try_clone_to_owned().ok()?)
        } else {
            File::options().read(true).write(true).open("/dev/tty").ok()?
        };
        let mut input = BufReader::new(terminal.try_clone().ok()?);
        // A line is requested only after the last one was taken, so neither channel is ever full.
        let (ask, asked) = blocking::sync_channel(1);
        let (sender, lines) = mpsc::channel(1);
        // A read from a terminal cannot be cancelled, so it has its own thread, which ends with the process.
        std::thread::spawn(move || {
            while asked.recv().is_ok() {
                let mut text = String::new();
                let line = match input.read_line(&mut text) {
                    Ok(0) | Err(_) => Line::End,
                    Ok(_) => Line::Typed(text.trim_end_matches(['\n', '\r']).to_owned()),
                };
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Some(Self { terminal, ask, lines, is_reading: false, is_hidden: false, shown_at: Instant::now() })
    }

    /// Records that a question was shown, and discards what was typed before.
    pub fn question_shown(&mut self) {
        // If the terminal cannot be flushed, the reading time still protects the question.
        tcflush(&self.terminal, QueueSelector::IFlush).ok();
        while self.lines.try_recv().is_ok() {
            self.is_reading = false;
        }
        self.shown_at = Instant::now();
    }

    /// The next line typed after the question was shown. Cancel safe.
    pub async fn line(&mut self) -> Line {
        loop {
            if !self.is_reading {
                // The thread lives as long as this struct.
                self.ask.send(()).ok();
                self.is_reading = true;
            }
            let line = self.lines.recv().await.unwrap_or(Line::End);
            self.is_reading = false;
            if line == Line::End || self.shown_at.elapsed() >= READING_TIME {
                return line;
            }
        }
    }

    /// Hides what is typed from now on.
    pub fn hide(&mut self) {
        self.set_echo(false);
        self.is_hidden = true;
    }

    /// Shows what is typed from now on.
    pub fn unhide(&mut self) {
        if std::mem::take(&mut self.is_hidden) {
            self.set_echo(true);
        }
    }

    fn set_echo(&self, is_on: bool) {
        // If the echo cannot be switched off, the question can still be answered.
        let Ok(mut modes) = tcgetattr(&self.terminal) else { return };
        modes.local_modes.set(LocalModes::ECHO, is_on);
        tcsetattr(&self.terminal, OptionalActions::Now, &modes).ok();
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.unhide();
    }
}
