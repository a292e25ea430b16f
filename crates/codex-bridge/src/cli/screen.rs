//! Writes lines, text as it arrives, and a status line below them that is redrawn in place. If the output is not a
//! terminal, it has no status line.

use std::io::{self, Write};

use super::render::width::Flow;

/// Moves to the left edge and clears the line.
const CLEAR: &str = "\r\u{1b}[K";

/// The output with its status line.
#[derive(Debug)]
pub struct Screen<W> {
    out: W,
    is_terminal: bool,
    /// The content of the status line.
    status: String,
    /// The text being written, if any.
    flow: Option<Flow>,
}

impl<W: Write> Screen<W> {
    /// An empty screen.
    pub fn new(out: W, is_terminal: bool) -> Self {
        Self { out, is_terminal, status: String::new(), flow: None }
    }

    /// Writes whole lines.
    pub fn lines(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.end_text()?;
        self.clear_status()?;
        for line in lines {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }

    /// Writes a piece of a text. A word is shown once it is complete.
    pub fn text(&mut self, piece: &str, columns: usize) -> io::Result<()> {
        self.clear_status()?;
        let shown = self.flow.get_or_insert_with(|| Flow::new(columns)).push(piece);
        self.out.write_all(shown.as_bytes())?;
        self.out.flush()
    }

    /// Ends the text being written, if any.
    pub fn end_text(&mut self) -> io::Result<()> {
        if let Some(mut flow) = self.flow.take() {
            writeln!(self.out, "{}", flow.finish())?;
        }
        Ok(())
    }

    /// Redraws the status line. There is none while a text is being written.
    pub fn status(&mut self, status: &str) -> io::Result<()> {
        if !self.is_terminal || self.flow.is_some() || self.status == status {
            return Ok(());
        }
        status.clone_into(&mut self.status);
        write!(self.out, "{CLEAR}{status}")?;
        self.out.flush()
    }

    /// Clears the status line.
    pub fn clear_status(&mut self) -> io::Result<()> {
        if self.status.is_empty() {
            return Ok(());
        }
        self.status.clear();
        self.out.write_all(CLEAR.as_bytes())
    }

    /// Writes a prompt; the answer is typed after it.
    pub fn prompt(&mut self, prompt: &str) -> io::Result<()> {
        self.end_text()?;
        self.clear_status()?;
        write!(self.out, "{prompt}")?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::Screen;

    fn written(is_terminal: bool, write: impl FnOnce(&mut Screen<&mut Vec<u8>>)) -> String {
        let mut out = Vec::new();
        write(&mut Screen::new(&mut out, is_terminal));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_status_line_makes_room_for_lines_and_comes_back() {
        let written = written(true, |screen| {
            screen.status("one").unwrap();
            screen.lines(&["line".to_owned()]).unwrap();
            screen.status("two").unwrap();
            screen.clear_status().unwrap();
        });
        assert_eq!(written, "\r\u{1b}[Kone\r\u{1b}[Kline\n\r\u{1b}[Ktwo\r\u{1b}[K");
    }

    #[test]
    fn text_is_broken_at_words_and_ended_before_a_line() {
        let written = written(true, |screen| {
            screen.text("hello wor", 8).unwrap();
            screen.status("not now").unwrap();
            screen.text("ld", 8).unwrap();
            screen.lines(&["line".to_owned()]).unwrap();
        });
        assert_eq!(written, "hello\nworld\nline\n");
    }

    #[test]
    fn what_is_no_terminal_gets_lines_only() {
        let written = written(false, |screen| {
            screen.status("working").unwrap();
            screen.lines(&["line".to_owned()]).unwrap();
        });
        assert_eq!(written, "line\n");
    }
}
