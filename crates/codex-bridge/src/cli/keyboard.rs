//! The person at the keyboard: one line when one is asked for, and never a line that was typed for something else.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::os::fd::AsFd;
use std::sync::mpsc as blocking;
use std::time::{Duration, Instant};

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// Nobody reads a question and answers it faster; what comes sooner was typed for something else.
const READING_TIME: Duration = Duration::from_millis(250);

/// A terminal that somebody can type on.
#[derive(Debug)]
pub struct Keyboard {
    terminal: File,
    /// Asks the reading thread for one line. It reads only then: a job in the background that reads is stopped.
    ask: blocking::SyncSender<()>,
    lines: mpsc::Receiver<Line>,
    is_reading: bool,
    is_hidden: bool,
    shown_at: Instant,
}

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line, without its end.
    Typed(String),
    /// Ctrl-D, or the terminal is gone.
    End,
}

impl Keyboard {
    /// The terminal on stdin; if that is something else, the one that we belong to. None if there is none.
    pub fn open() -> Option<Self> {
        let terminal = if io::stdin().is_terminal() {
            File::from(io::stdin().as_fd().try_clone_to_owned().ok()?)
        } else {
            File::options().read(true).write(true).open("/dev/tty").ok()?
        };
        let mut input = BufReader::new(terminal.try_clone().ok()?);
        // A line is asked for when the last one was taken: neither side ever waits for room.
        let (ask, asked) = blocking::sync_channel(1);
        let (sender, lines) = mpsc::channel(1);
        // A thread of its own, which dies with the process: a read from a terminal cannot be called off.
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

    /// A question was shown: what was typed before it is forgotten.
    pub fn question_shown(&mut self) {
        // A terminal that cannot forget leaves it to the reading time.
        tcflush(&self.terminal, QueueSelector::IFlush).ok();
        while self.lines.try_recv().is_ok() {
            self.is_reading = false;
        }
        self.shown_at = Instant::now();
    }

    /// The next line that answers what was shown. May be called off and called again.
    pub async fn line(&mut self) -> Line {
        loop {
            if !self.is_reading {
                // The thread lives as long as we do.
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

    /// From now on nobody sees what is typed.
    pub fn hide(&mut self) {
        self.set_echo(false);
        self.is_hidden = true;
    }

    /// From now on what is typed can be seen.
    pub fn unhide(&mut self) {
        if std::mem::take(&mut self.is_hidden) {
            self.set_echo(true);
        }
    }

    fn set_echo(&self, is_on: bool) {
        // What cannot be hidden is still better answered than not.
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
