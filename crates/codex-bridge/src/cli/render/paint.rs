//! Colour, where there is a terminal that shows it. Nothing else is decided here.

/// Writes text in a colour, or leaves it as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Paint {
    /// For files, pipes, and people who set `NO_COLOR`.
    #[default]
    Plain,
    /// For terminals.
    Coloured,
}

impl Paint {
    /// What matters most.
    pub fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What may be overlooked.
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// What went well.
    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// What went wrong.
    pub fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    /// What waits for the reader.
    pub fn waiting(self, text: &str) -> String {
        self.with("33", text)
    }

    /// What is under way.
    pub fn busy(self, text: &str) -> String {
        self.with("36", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        match self {
            Self::Coloured if !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}
