//! Makes foreign text fit to be shown: no deceptive characters, no secrets, and a count of those hidden.

use redact::Redactor;

/// Stands for a line break where a text is shown in one line.
const LINE_BREAK: &str = " ⏎ ";

/// Cleans texts and counts the secrets that it hides in them.
pub(super) struct Cleaner<'a> {
    redactor: &'a Redactor,
    hidden_secrets: usize,
}

impl<'a> Cleaner<'a> {
    pub(super) fn new(redactor: &'a Redactor) -> Self {
        Self { redactor, hidden_secrets: 0 }
    }

    pub(super) fn hidden_secrets(&self) -> usize {
        self.hidden_secrets
    }

    /// The same for texts that were counted before.
    pub(super) fn uncounted(&self) -> Self {
        Self::new(self.redactor)
    }

    /// A text whose every line counts, the empty ones at its end too.
    pub(super) fn verbatim(&mut self, raw: &str) -> String {
        // Deceptive characters go first: one in the middle of a secret would keep it from being recognised.
        let plain = redact::plain::plain(raw);
        let (redacted, hidden) = self.redactor.count_and_redact(&plain);
        self.hidden_secrets += hidden;
        redacted.into_owned()
    }

    /// A text that may have several lines.
    pub(super) fn block(&mut self, raw: &str) -> String {
        self.verbatim(raw).trim_end().to_owned()
    }

    /// A text that is shown in one line.
    pub(super) fn line(&mut self, raw: &str) -> String {
        self.block(raw).lines().collect::<Vec<_>>().join(LINE_BREAK)
    }
}

/// An argument vector as a person would type it.
pub(super) fn shell_words(words: &[String]) -> String {
    let quoted = |word: &String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
