//! Finds all secrets of a text with their positions, in several rounds: hiding one secret may reveal another.

use std::borrow::Cow;
use std::cmp::Reverse;

use crate::mark::push_sentinel;
use crate::scan::Line;
use crate::search::{Ending, Search};
use crate::text::Span;
use crate::{MOST_ROUNDS, Redactor, render};

/// The secrets of `text`, sorted by their start; an outer one comes before those inside it.
pub(super) fn spans(redactor: &Redactor, text: &str) -> Vec<Span> {
    if redactor.hides_nothing {
        return Vec::new();
    }
    let searches = Search::all(&redactor.known());
    let mut rounds = Rounds { text, all: Vec::new(), hidden: Vec::new(), current: Cow::Borrowed(text) };
    // Secrets that must not appear in a chat are searched first, so that no other rule hides only their beginning.
    let [known, ..] = &searches;
    rounds.apply(known);
    rounds.apply(&Search::PrivateKeys);
    for _ in 0..MOST_ROUNDS {
        let before = rounds.all.len();
        for search in &searches {
            rounds.apply(search);
        }
        if rounds.all.len() == before {
            break;
        }
    }
    let mut all = rounds.all;
    all.sort_by_key(|span| (span.start, Reverse(span.end)));
    all.dedup_by_key(|span| (span.start, span.end));
    all
}

struct Rounds<'a> {
    text: &'a str,
    all: Vec<Span>,
    /// The secrets that are hidden in `current`, by their positions in `text`.
    hidden: Vec<Span>,
    current: Cow<'a, str>,
}

impl Rounds<'_> {
    fn apply(&mut self, search: &Search) {
        if !search.is_needed(&self.current) {
            return;
        }
        let found = search.examine(&self.current, 0, Line::default(), Ending::Complete).spans;
        if found.is_empty() {
            return;
        }
        let found = in_original(&found, &self.hidden);
        self.all.extend(&found);
        self.hidden = joined(std::mem::take(&mut self.hidden), found);
        let mut current = String::with_capacity(self.text.len());
        render(self.text, 0, self.text.len(), &self.hidden, &mut current);
        self.current = Cow::Owned(current);
    }
}

/// Maps spans of the text with sentinels to the original text.
fn in_original(found: &[Span], hidden: &[Span]) -> Vec<Span> {
    let mut gone = hidden.iter().peekable();
    // `current` is a place in the text with sentinels, `original` the same place in the text without
    let (mut current, mut original) = (0, 0);
    let mut place = |at: usize, is_end: bool| {
        while let Some(span) = gone.peek() {
            let from = current + (span.start - original);
            let mut sentinel = String::new();
            push_sentinel(span.kind, &mut sentinel);
            let to = from + sentinel.len();
            if at <= from {
                break;
            }
            if at < to {
                return if is_end { span.end } else { span.start };
            }
            (current, original) = (to, span.end);
            gone.next();
        }
        original + (at - current)
    };
    found
        .iter()
        .map(|span| Span { start: place(span.start, false), end: place(span.end, true), kind: span.kind })
        .collect()
}

/// What is hidden now: an outer span takes the place of those within.
fn joined(hidden: Vec<Span>, found: Vec<Span>) -> Vec<Span> {
    let mut all: Vec<Span> = hidden.into_iter().chain(found).collect();
    all.sort_by_key(|span| (span.start, Reverse(span.end)));
    let mut joined: Vec<Span> = Vec::with_capacity(all.len());
    for span in all {
        if joined.last().is_none_or(|last| last.end <= span.start) {
            joined.push(span);
        }
    }
    joined
}
