//! Colours, for terminals that show them.

/// Colours text, or leaves it plain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Paint {
    /// For files, pipes, and if `NO_COLOR` is set.
    #[default]
    Plain,
    /// For terminals.
    Coloured,
}

impl Paint {
    /// Bold.
    pub fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Dim, for what matters least.
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Green, for success.
    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// Red, for failure.
    pub fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    /// Yellow, for what needs the reader's attention.
    pub fn waiting(self, text: &str) -> String {
        self.with("33", text)
    }

    /// Cyan, for what is running and for commands to type.
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
