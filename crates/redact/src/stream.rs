//! Redaction of text that comes in pieces: passes on the part whose redaction is final, and holds back the rest.
//!
//! The last run of letters and digits is held back, or an open construct (a name and its operator, an unfinished quoted
//! value, a private key). The next scan starts there, so the output equals
//! [`Redactor::redact`](crate::Redactor::redact) of the whole text. The one difference: an undecided text of more than
//! 16 KiB counts as a secret.

use std::sync::Arc;

use crate::known::Known;
use crate::mark::push_sentinel;
use crate::render;
use crate::scan::{Line, Until};
use crate::search::{Ending, Search};

/// The most that is held back undecided.
const MOST_HELD_BACK: usize = 16 * 1024;

/// Longer undecided text is scanned again only after it has grown by a quarter, so that the work stays linear.
const PATIENCE_FROM: usize = 256;

/// How much passed-on text is kept as context for rules.
const CONTEXT: usize = 16;

/// A line with the end of a private key is no longer than this.
const LONGEST_END_LINE: usize = 256;

const PRIVATE_KEY_END: &str = "-----END";

/// Redacts a text piece by piece. Made by [`Redactor::stream`](crate::Redactor::stream).
#[derive(Debug)]
pub struct Stream {
    known: Arc<Known>,
    stages: Vec<Stage>,
}

impl Stream {
    pub(crate) fn new(known: Arc<Known>) -> Self {
        let searches = Search::all(&known).into_iter();
        let stages = searches
            .filter(|search| !matches!(search, Search::Known(known) if known.is_empty()))
            .map(Stage::new)
            .collect();
        Self { known, stages }
    }

    /// Takes the next piece and returns the text that is now safe to pass on (often less, sometimes more).
    pub fn push(&mut self, chunk: &str) -> String {
        let mut stages = self.stages.iter_mut();
        let first = stages.next().map_or_else(String::new, |stage| stage.push(chunk));
        stages.fold(first, |passed, stage| if passed.is_empty() { passed } else { stage.push(&passed) })
    }

    /// Ends the text: returns what was held back, and resets the stream.
    pub fn finish(&mut self) -> String {
        let rest = self.stages.iter_mut().fold(String::new(), |passed, stage| {
            let mut rest = stage.push(&passed);
            rest.push_str(&stage.finish());
            rest
        });
        *self = Self::new(Arc::clone(&self.known));
        rest
    }
}

/// One search of a growing text.
#[derive(Debug)]
struct Stage {
    search: Search,
    /// Up to `CONTEXT` bytes that were passed on, then what is held back.
    buffer: String,
    held_from: usize,
    line: Line,
    /// The held-back length from which on the next scan is done.
    next_search: usize,
    /// Set while an oversized secret is being dropped.
    dropping: Option<Until>,
}

impl Stage {
    fn new(search: Search) -> Self {
        Self {
            search,
            buffer: String::new(),
            held_from: 0,
            line: Line::default(),
            next_search: 0,
            dropping: None,
        }
    }

    fn push(&mut self, chunk: &str) -> String {
        self.buffer.push_str(chunk);
        if self.dropping.is_some() && !self.drop_secret() {
            return String::new();
        }
        let held = self.buffer.len() - self.held_from;
        if held < self.next_search && held <= MOST_HELD_BACK {
            return String::new();
        }
        let mut passed = String::new();
        let until = self.pass_on(Ending::Growing, &mut passed);
        let held = self.buffer.len() - self.held_from;
        self.next_search = if held < PATIENCE_FROM { 0 } else { held + held / 4 };
        if held > MOST_HELD_BACK {
            push_sentinel("oversized", &mut passed);
            self.dropping = Some(until);
            self.drop_secret();
        }
        passed
    }

    fn finish(&mut self) -> String {
        let mut passed = String::new();
        if self.dropping.is_none() {
            self.pass_on(Ending::Complete, &mut passed);
        }
        passed
    }

    /// Moves the final part from the buffer to `passed`; returns what would end the open construct.
    fn pass_on(&mut self, ending: Ending, passed: &mut String) -> Until {
        let found = self.search.examine(&self.buffer, self.held_from, self.line, ending);
        let settled = if ending == Ending::Complete { self.buffer.len() } else { found.settled };
        render(&self.buffer, self.held_from, settled, &found.spans, passed);
        let hidden_to = found.spans.iter().rev().map(|span| span.end).find(|end| *end <= settled);
        self.advance(settled, hidden_to);
        found.until
    }

    /// Drops text that was passed on, except for a little context, in which secrets stay hidden.
    fn advance(&mut self, settled: usize, hidden_to: Option<usize>) {
        self.line = self.search.line_after(self.line, &self.buffer[self.held_from..settled]);
        let context = self.buffer.floor_char_boundary(settled.saturating_sub(CONTEXT));
        let (context, mark) = match hidden_to {
            Some(end) if end >= context => (end, "]"),
            _ => (context, ""),
        };
        self.buffer.replace_range(..context, mark);
        self.held_from = mark.len() + settled - context;
        self.next_search = 0;
    }

    /// Drops text of an oversized secret. Returns whether the secret has ended.
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
        if let Some(end) = end {
            self.dropping = None;
            self.advance(self.held_from + end, Some(self.held_from + end));
        } else {
            let dropped = self.first_of_end_marker();
            self.advance(dropped, Some(dropped));
        }
        end.is_some()
    }

    /// How much may be dropped before the end of the secret: everything but a possible beginning of its end marker.
    fn first_of_end_marker(&self) -> usize {
        let held = &self.buffer[self.held_from..];
        let kept = match self.dropping {
            Some(Until::PrivateKeyEnd) => held
                .rfind(PRIVATE_KEY_END)
                .map_or(PRIVATE_KEY_END.len(), |marker| (held.len() - marker).min(LONGEST_END_LINE)),
            _ => 0,
        };
        self.buffer.floor_char_boundary(self.buffer.len().saturating_sub(kept)).max(self.held_from)
    }
}

#[cfg(test)]
mod tests;
