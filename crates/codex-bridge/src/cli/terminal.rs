//! Whether stdout is a terminal, whether it shows colours, and how wide it is.

use std::io::IsTerminal;

use rustix::termios::tcgetwinsize;

use super::render::paint::Paint;

/// The width of lines for programs and files.
const PLAIN_COLUMNS: usize = 100;
/// The smallest width that is used, even if a terminal reports less.
const MIN_COLUMNS: usize = 20;

/// What stdout can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// Whether stdout is a terminal.
    pub is_terminal: bool,
    /// Whether it shows colours.
    pub paint: Paint,
}

impl Terminal {
    /// Examines stdout, `NO_COLOR` and `TERM`.
    pub fn of_stdout() -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let paint = if is_terminal && !set("NO_COLOR") && !is_dumb { Paint::Coloured } else { Paint::Plain };
        Self { is_terminal, paint }
    }

    /// The present width in columns. Windows can be resized.
    pub fn columns(self) -> usize {
        if !self.is_terminal {
            return PLAIN_COLUMNS;
        }
        let columns = tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
        if columns == 0 { 80 } else { columns.max(MIN_COLUMNS) }
    }
}
