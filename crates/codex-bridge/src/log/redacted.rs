//! Redacts log lines. A line is redacted as a whole, after formatting, so that no field can be forgotten.

use std::io::{self, Write};

use redact::Redactor;
use redact::plain::plain;
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use super::Format;

/// Makes a writer for each line; `open` opens the output.
pub struct Lines<W> {
    format: Format,
    redactor: Redactor,
    open: W,
}

impl<W> Lines<W> {
    pub fn new(format: Format, redactor: Redactor, open: W) -> Self {
        Self { format, redactor, open }
    }

    /// The redacted line, always as a single line.
    fn shown(&self, line: &str) -> String {
        let line = line.trim_end_matches('\n');
        let parsed =
            (self.format == Format::Json).then(|| serde_json::from_str::<Value>(line).ok()).flatten();
        let shown = match parsed {
            Some(mut value) => {
                self.redactor.redact_json(&mut value);
                value.to_string()
            }
            // A field with a line break could fake another event.
            None => plain(&self.redactor.redact(line)).replace('\n', "\\n"),
        };
        shown + "\n"
    }
}

impl<'a, W, O> MakeWriter<'a> for Lines<W>
where
    W: Fn() -> O + 'a,
    O: Write,
{
    type Writer = Line<'a, W>;

    fn make_writer(&'a self) -> Self::Writer {
        Line(self)
    }
}

/// The writer of one line. The formatter passes the line in a single write.
pub struct Line<'a, W>(&'a Lines<W>);

impl<W: Fn() -> O, O: Write> Write for Line<'_, W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shown = self.0.shown(&String::from_utf8_lossy(line));
        (self.0.open)().write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        (self.0.open)().flush()
    }
}
