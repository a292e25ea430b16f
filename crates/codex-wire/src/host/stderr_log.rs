//! Drains Codex's stderr, and keeps its newest lines, redacted, in two small files.
//!
//! codex 0.166 freezes when its stderr pipe is full. So one thread only reads, into a bounded backlog that drops its
//! oldest lines, and a second thread redacts and writes.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use redact::Redactor;
use tracing::warn;

/// Longer lines are cut when they are read.
const LINE_MAX_BYTES: usize = 64 * 1024;
/// Longer lines are cut when they are written, after redaction.
const WRITTEN_LINE_MAX_BYTES: usize = 8 * 1024;
/// Size of the backlog. Each line counts with its bytes and a fixed cost.
const BACKLOG_MAX_BYTES: usize = 1024 * 1024;
const LINE_COST_BYTES: usize = 64;
/// How long a line is held back, because a secret may go on in the next line.
const QUIET: Duration = Duration::from_millis(200);
/// Size of each of the two files.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// The two threads of one stream.
#[derive(Debug)]
pub(crate) struct Drain {
    written: Receiver<()>,
}

impl Drain {
    /// Starts both threads. They end with the stream.
    pub(crate) fn start(stream: impl Read + Send + 'static, path: PathBuf) -> io::Result<Drain> {
        let backlog = Arc::new(Backlog::default());
        let (done, written) = channel();
        let filled = Arc::clone(&backlog);
        thread::Builder::new().name("stderr-read".into()).spawn(move || {
            read_lines(BufReader::with_capacity(LINE_MAX_BYTES, stream), |line| filled.push(line));
            filled.close();
        })?;
        thread::Builder::new().name("stderr-write".into()).spawn(move || {
            write_lines(&backlog, &path);
            // An error means that the receiver was dropped.
            done.send(()).ok();
        })?;
        Ok(Drain { written })
    }

    /// Waits until all is written, or until `limit`: a process that could not be ended may hold the stream open.
    pub(crate) fn finish(&self, limit: Duration) {
        if self.written.recv_timeout(limit).is_err_and(|error| error == RecvTimeoutError::Timeout) {
            warn!("the last lines of a host's stderr may be missing from its log");
        }
    }
}

/// The current file and the previous one.
pub(crate) fn files(path: &Path) -> (PathBuf, PathBuf) {
    (path.to_owned(), path.with_extension("log.1"))
}

/// The last `count` lines of the log at `path`, oldest first.
pub(crate) fn tail(path: &Path, count: usize) -> Vec<String> {
    let mut text = Vec::new();
    let (newer, older) = files(path);
    for part in [older, newer] {
        // A missing file has no lines.
        File::open(part).and_then(|mut file| file.read_to_end(&mut text)).ok();
    }
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<String> = text.lines().rev().take(count).map(str::to_owned).collect();
    lines.reverse();
    lines
}

#[derive(Default)]
struct Backlog {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    bytes: usize,
    left_out: u64,
    closed: bool,
}

/// What the writing thread takes from the backlog.
enum Taken {
    /// The oldest lines; `left_out` lines before them were dropped.
    Lines { left_out: u64, lines: VecDeque<String> },
    /// No line came for a while.
    Nothing,
    /// The stream has ended and all lines are taken.
    End,
}

impl Backlog {
    fn push(&self, line: String) {
        let mut state = self.lock();
        state.bytes += line.len() + LINE_COST_BYTES;
        state.lines.push_back(line);
        while state.bytes > BACKLOG_MAX_BYTES {
            let Some(oldest) = state.lines.pop_front() else { break };
            state.bytes -= oldest.len() + LINE_COST_BYTES;
            state.left_out += 1;
        }
        self.changed.notify_one();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Waits for lines, with or without a limit.
    fn take(&self, limit: Option<Duration>) -> Taken {
        let waiting = |state: &mut State| state.lines.is_empty() && !state.closed;
        let mut state = match limit {
            None => self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.changed.wait_timeout_while(self.lock(), limit, waiting);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        if state.lines.is_empty() {
            return if state.closed { Taken::End } else { Taken::Nothing };
        }
        // A few at a time, so that in a flood newer lines can still replace the rest.
        let few = state.lines.len().min(64);
        let lines: VecDeque<String> = state.lines.drain(..few).collect();
        state.bytes -= lines.iter().map(|line| line.len() + LINE_COST_BYTES).sum::<usize>();
        Taken::Lines { left_out: std::mem::take(&mut state.left_out), lines }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts a stream into lines, each at most [`LINE_MAX_BYTES`] long.
fn read_lines(mut stream: impl BufRead, mut line_read: impl FnMut(String)) {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let chunk = match stream.fill_buf() {
            Ok([]) => break,
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let room = LINE_MAX_BYTES - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        too_long |= part.len() > room;
        let used = part.len() + usize::from(end.is_some());
        stream.consume(used);
        if end.is_some() {
            line_read(readable(&line, too_long));
            line.clear();
            too_long = false;
        }
    }
    if !line.is_empty() {
        line_read(readable(&line, too_long));
    }
}

/// The text of a line. A cut line loses its last word as well: half a secret would not be recognised.
fn readable(line: &[u8], was_cut: bool) -> String {
    let text = String::from_utf8_lossy(line).trim_end().to_owned();
    if !was_cut {
        return text;
    }
    let whole_words = text.rfind(char::is_whitespace).map_or("", |at| &text[..at]);
    format!("{whole_words} [cut]")
}

fn write_lines(backlog: &Backlog, path: &Path) {
    let mut log = RedactedLog {
        redacted: Redactor::default().stream(),
        open_line: String::new(),
        file: RotatingFile::new(path),
    };
    let mut limit = None;
    loop {
        match backlog.take(limit) {
            Taken::Lines { left_out, lines } => {
                if left_out > 0 {
                    log.settle();
                    log.file.write_line(&format!("[{left_out} lines left out]"));
                }
                for line in &lines {
                    log.push(line);
                }
                limit = Some(QUIET);
            }
            Taken::Nothing => {
                log.settle();
                limit = None;
            }
            Taken::End => return log.settle(),
        }
    }
}

/// Redacts across lines, since a private key has many.
struct RedactedLog {
    redacted: redact::Stream,
    open_line: String,
    file: RotatingFile,
}

impl RedactedLog {
    fn push(&mut self, line: &str) {
        self.open_line += &self.redacted.push(&format!("{line}\n"));
        while let Some(end) = self.open_line.find('\n') {
            self.file.write_line(cut(&self.open_line[..end]));
            self.open_line.drain(..=end);
        }
    }

    /// Writes what was held back.
    fn settle(&mut self) {
        self.open_line += &self.redacted.finish();
        for line in self.open_line.lines() {
            self.file.write_line(cut(line));
        }
        self.open_line.clear();
    }
}

fn cut(line: &str) -> &str {
    &line[..line.floor_char_boundary(WRITTEN_LINE_MAX_BYTES)]
}

struct RotatingFile {
    path: PathBuf,
    file: Option<File>,
    written_bytes: u64,
}

impl RotatingFile {
    fn new(path: &Path) -> RotatingFile {
        RotatingFile { path: path.to_owned(), file: None, written_bytes: 0 }
    }

    /// On an error, such as a full disk, the line is dropped.
    fn write_line(&mut self, line: &str) {
        if self.try_write_line(line).is_err() {
            self.file = None;
        }
    }

    fn try_write_line(&mut self, line: &str) -> io::Result<()> {
        let line_bytes = line.len() as u64 + 1;
        if self.written_bytes + line_bytes > FILE_MAX_BYTES {
            self.file = None;
            let (newer, older) = files(&self.path);
            fs::rename(newer, older)?;
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?,
        };
        file.write_all(format!("{line}\n").as_bytes())?;
        self.written_bytes = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
