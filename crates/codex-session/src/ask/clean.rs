//! Cleans untrusted text for display: removes deceptive characters, hides secrets that nothing acts on, and counts
//! them.

use redact::Redactor;
use redact::approval::TextKind;

/// Replaces a line break where a text is shown in one line.
const LINE_BREAK: &str = " ⏎ ";

/// Cleans texts and counts the secrets in them.
pub(super) struct Cleaner<'a> {
    redactor: &'a Redactor,
    hidden_secrets: usize,
    exposed_secrets: usize,
    is_whole: bool,
}

impl<'a> Cleaner<'a> {
    pub(super) fn new(redactor: &'a Redactor) -> Self {
        Self { redactor, hidden_secrets: 0, exposed_secrets: 0, is_whole: true }
    }

    pub(super) fn hidden_secrets(&self) -> usize {
        self.hidden_secrets
    }

    /// How many texts that look like secrets are shown, because something could act on them.
    pub(super) fn exposed_secrets(&self) -> usize {
        self.exposed_secrets
    }

    /// Whether everything that something could act on is shown.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// A cleaner with counts of its own, for texts that were counted before.
    pub(super) fn uncounted(&self) -> Self {
        Self::new(self.redactor)
    }

    /// A text with all its lines, including empty ones at the end.
    pub(super) fn verbatim(&mut self, raw: &str, matter: TextKind) -> String {
        let shown = self.redactor.show_for_approval(raw, matter);
        self.hidden_secrets += shown.hidden;
        self.exposed_secrets += shown.exposed;
        self.is_whole &= shown.is_whole;
        shown.text
    }

    /// A text that may have several lines.
    pub(super) fn block(&mut self, raw: &str, matter: TextKind) -> String {
        self.verbatim(raw, matter).trim_end().to_owned()
    }

    /// Prose, in one line.
    pub(super) fn line(&mut self, raw: &str) -> String {
        self.line_of(raw, TextKind::Prose)
    }

    /// A path or a host, in one line.
    pub(super) fn place(&mut self, raw: &str) -> String {
        self.line_of(raw, TextKind::Excerpt)
    }

    fn line_of(&mut self, raw: &str, matter: TextKind) -> String {
        self.block(raw, matter).lines().collect::<Vec<_>>().join(LINE_BREAK)
    }

    /// Whether a text contains something that looks like a secret.
    pub(super) fn has_secret(&self, raw: &str) -> bool {
        self.redactor.count_and_redact(raw).1 > 0
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
