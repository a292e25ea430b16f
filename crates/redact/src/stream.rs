//! Redaction of text that comes in pieces: passes on what is certain, holds back what is not.
//!
//! What is held back is the last run of letters and digits, or the construct that is still open (a name and its
//! operator, an unfinished quoted value, a private key). Scanning starts again exactly there, so the output is that
//! of [`Redactor::redact`] on the whole. Only the bound is different: what stays undecided for more than
//! 16 KiB counts as a secret.

use crate::scan::Until;
use crate::{Extent, Lines, Redactor, push_sentinel, render};

/// The most that is held back undecided.
const MOST_HELD_BACK: usize = 16 * 1024;

/// Longer undecided text is looked at again only after it has grown by a quarter: the work stays linear.
const PATIENCE_FROM: usize = 256;

/// How much of what was passed on is kept for rules that look at what stands before.
const CONTEXT: usize = 16;

const PRIVATE_KEY_END: &str = "-----END";

/// Redacts a text piece by piece. Made by [`Redactor::stream`].
#[derive(Debug)]
pub struct Stream {
    redactor: Redactor,
    /// Up to `CONTEXT` bytes that were passed on, then what is held back.
    buffer: String,
    held_from: usize,
    lines: Lines,
    /// The length of what is held back at which another look is worth it.
    next_look: usize,
    /// Set while an endless secret is being dropped.
    dropping: Option<Until>,
}

impl Stream {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            buffer: String::new(),
            held_from: 0,
            lines: Lines::default(),
            next_look: 0,
            dropping: None,
        }
    }

    /// Takes the next piece and returns the text that is now safe to pass on (often less, sometimes more).
    pub fn push(&mut self, chunk: &str) -> String {
        self.buffer.push_str(chunk);
        if self.dropping.is_some() && !self.drop_secret() {
            return String::new();
        }
        let held = self.buffer.len() - self.held_from;
        if held < self.next_look && held <= MOST_HELD_BACK {
            return String::new();
        }
        let mut passed = String::new();
        let until = self.pass_on(Extent::Growing, &mut passed);
        let held = self.buffer.len() - self.held_from;
        self.next_look = if held < PATIENCE_FROM { 0 } else { held + held / 4 };
        if held > MOST_HELD_BACK {
            push_sentinel("oversized", &mut passed);
            self.dropping = Some(until);
            self.drop_secret();
        }
        passed
    }

    /// Ends the text: returns what was held back. The stream is then as new.
    pub fn finish(&mut self) -> String {
        let mut passed = String::new();
        if self.dropping.is_none() {
            self.pass_on(Extent::Complete, &mut passed);
        }
        *self = Self::new(self.redactor.clone());
        passed
    }

    /// Moves what is certain from the buffer to `passed`; returns what would end the construct that is not.
    fn pass_on(&mut self, extent: Extent, passed: &mut String) -> Until {
        let found = self.redactor.examine(&self.buffer, self.held_from, self.lines, extent);
        let mut settled = if extent == Extent::Complete { self.buffer.len() } else { found.settled };
        // joined spans may reach over the border: then all of them wait
        for span in found.spans.iter().rev() {
            if span.start < settled && settled < span.end {
                settled = span.start;
            }
        }
        render(&self.buffer, self.held_from, settled, &found.spans, passed);
        self.advance(settled);
        found.until
    }

    /// Forgets what was passed on, except for a little context.
    fn advance(&mut self, settled: usize) {
        self.lines = self.lines.after(&self.buffer[self.held_from..settled]);
        let context = self.buffer.floor_char_boundary(settled.saturating_sub(CONTEXT));
        self.buffer.drain(..context);
        self.held_from = settled - context;
        self.next_look = 0;
    }

    /// Drops text that belongs to an endless secret. Returns whether it is over.
    fn drop_secret(&mut self) -> bool {
        let held = &self.buffer[self.held_from..];
        let end = match self.dropping {
            None => Some(0),
            Some(Until::Space) => held.find(char::is_whitespace),
            Some(Until::Line) => held.find('\n'),
            Some(Until::PrivateKeyEnd) => held
                .find(PRIVATE_KEY_END)
                .and_then(|marker| held[marker..].find('\n').map(|line| marker + line)),
        };
        let Some(end) = end else {
            self.drop_undecided();
            return false;
        };
        let rest = self.held_from + end;
        self.dropping = None;
        self.advance(rest);
        true
    }

    /// Keeps only as much as could be the beginning of the end marker.
    fn drop_undecided(&mut self) {
        let kept = match self.dropping {
            Some(Until::PrivateKeyEnd) => {
                let held = &self.buffer[self.held_from..];
                held.rfind(PRIVATE_KEY_END)
                    .map_or(PRIVATE_KEY_END.len(), |marker| (held.len() - marker).min(256))
            }
            _ => 0,
        };
        let keep_from =
            self.buffer.floor_char_boundary(self.buffer.len().saturating_sub(kept)).max(self.held_from);
        self.advance(keep_from);
    }
}

#[cfg(test)]
mod tests;
