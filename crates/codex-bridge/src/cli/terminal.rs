//! What is at the other end of our stdin and stdout: a person at a terminal, or a program.

use std::io::IsTerminal;

use rustix::termios::tcgetwinsize;

use super::render::paint::Paint;

/// Lines for programs and files are broken here.
const PLAIN_COLUMNS: usize = 100;
/// No terminal is narrower, whatever it says.
const LEAST_COLUMNS: usize = 20;

/// Where we write, and what it can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// Whether stdout is a terminal.
    pub is_terminal: bool,
    /// Whether it shows colours.
    pub paint: Paint,
}

impl Terminal {
    /// Looks at stdout and at what the environment says of colours.
    pub fn of_stdout() -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let paint = if is_terminal && !set("NO_COLOR") && !is_dumb { Paint::Coloured } else { Paint::Plain };
        Self { is_terminal, paint }
    }

    /// How many columns a line has, now: windows change.
    pub fn columns(self) -> usize {
        if !self.is_terminal {
            return PLAIN_COLUMNS;
        }
        let columns = tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
        if columns == 0 { 80 } else { columns.max(LEAST_COLUMNS) }
    }
}
