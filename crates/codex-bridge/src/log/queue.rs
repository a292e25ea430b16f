//! Writes log lines on a separate thread, so that a slow or unread stderr blocks nobody who logs. Lines that do not fit into
//! the queue are dropped, and their number is logged.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codex_wire::reason;
use jiff::Timestamp;
use serde_json::json;

use super::Format;

const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The queue of lines. All clones share one thread.
#[derive(Clone, Default)]
pub struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: u64,
    /// Whether the thread is writing lines that it has taken.
    is_writing: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0
    }
}

impl Queue {
    /// Starts the thread, which writes to `to` for the rest of the process.
    pub fn open(format: Format, to: impl Write + Send + 'static) -> Self {
        let queue = Self::default();
        let thread_queue = queue.clone();
        let spawned =
            std::thread::Builder::new().name("log".to_owned()).spawn(move || thread_queue.run(format, to));
        if let Err(error) = spawned {
            // Without the thread there is no log.
            writeln!(io::stderr(), "nothing is logged: the log thread cannot be started: {}", reason(&error))
                .ok();
        }
        queue
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, format: Format, mut to: impl Write) {
        loop {
            let waiting = self.0.changed.wait_while(self.waiting(), |waiting| waiting.is_empty());
            let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            let lines = std::mem::take(&mut waiting.lines);
            let dropped = std::mem::take(&mut waiting.dropped);
            (waiting.bytes, waiting.is_writing) = (0, true);
            drop(waiting);
            let dropped_line = (dropped > 0).then(|| dropped_line(format, dropped).into_bytes());
            for line in lines.into_iter().chain(dropped_line) {
                // A failure to write the log cannot be logged.
                to.write_all(&line).ok();
            }
            to.flush().ok();
            self.waiting().is_writing = false;
            self.0.changed.notify_all();
        }
    }

    /// Waits until all lines are written, with a timeout.
    pub fn flush(&self, limit: Duration) {
        let is_pending = |waiting: &mut Waiting| waiting.is_writing || !waiting.is_empty();
        // Lines that are not written by then are lost.
        self.0.changed.wait_timeout_while(self.waiting(), limit, is_pending).ok();
    }
}

/// Each write is one line. Never blocks.
impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.waiting();
        if waiting.bytes + line.len() > MAX_BYTES {
            waiting.dropped += 1;
        } else {
            waiting.bytes += line.len();
            waiting.lines.push_back(line.to_vec());
        }
        drop(waiting);
        self.0.changed.notify_all();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The line about dropped lines. Not logged with `warn!`, whose line might be dropped too.
fn dropped_line(format: Format, dropped: u64) -> String {
    let (at, target) = (Timestamp::now(), module_path!());
    let message = "log lines were dropped: stderr is not read fast enough";
    match format {
        Format::Text => format!("{at:.6}  WARN {target}: {message} dropped={dropped}\n"),
        Format::Json => {
            let fields = json!({ "message": message, "dropped": dropped });
            let at = format!("{at:.6}");
            json!({ "timestamp": at, "level": "WARN", "fields": fields, "target": target }).to_string() + "\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::{Duration, Instant};

    use serde_json::Value;

    use super::{Format, MAX_BYTES, Queue};

    /// A reader that waits until it may read.
    struct Slow {
        may_read: Receiver<()>,
        read: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error means that it may read from now on.
            self.may_read.recv().ok();
            self.read.send(bytes.to_vec()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn dropped_by(format: Format, line: &str) -> usize {
        if format == Format::Json {
            let warning: Value = serde_json::from_str(line).unwrap();
            assert_eq!(warning["level"], "WARN");
            return usize::try_from(warning["fields"]["dropped"].as_u64().unwrap()).unwrap();
        }
        assert!(line.contains(" WARN codex_bridge::log"), "{line}");
        line.trim_end().rsplit_once("dropped=").unwrap().1.parse().unwrap()
    }

    #[test]
    fn whoever_logs_waits_for_no_reader_and_what_is_dropped_is_told() {
        for format in [Format::Text, Format::Json] {
            let ((go, may_read), (read, written)) = (channel(), channel());
            let mut queue = Queue::open(format, Slow { may_read, read });
            let (line, began) = (vec![b'x'; 64 * 1024], Instant::now());
            let count = 4 * MAX_BYTES / line.len();
            for _ in 0..count {
                queue.write_all(&line).unwrap();
            }
            queue.flush(Duration::from_millis(50));
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
            drop(go);
            queue.flush(Duration::from_mins(1));
            let written: Vec<_> = written.try_iter().collect();
            let (warnings, lines): (Vec<_>, Vec<_>) = written.into_iter().partition(|one| *one != line);
            let warnings: Vec<String> =
                warnings.into_iter().map(|one| String::from_utf8(one).unwrap()).collect();
            let dropped = count - lines.len();
            assert!(dropped > 0 && lines.len() >= MAX_BYTES / line.len(), "{dropped}");
            // There may be several warnings, if the thread wrote while the queue was full.
            let in_all: usize = warnings.iter().map(|line| dropped_by(format, line)).sum();
            assert_eq!(in_all, dropped, "{warnings:?}");
        }
    }
}
