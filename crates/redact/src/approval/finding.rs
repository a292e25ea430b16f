//! All secrets of a text by their places in it, as many rounds of hiding as it takes.

use std::borrow::Cow;
use std::cmp::Reverse;

use crate::look::{Ending, Look};
use crate::mark::push_sentinel;
use crate::scan::Line;
use crate::text::Span;
use crate::{MOST_ROUNDS, Redactor, render};

/// The secrets of `text`, by their beginning, an outer one before what lies in it.
pub(super) fn spans(redactor: &Redactor, text: &str) -> Vec<Span> {
    if redactor.hides_nothing {
        return Vec::new();
    }
    let looks = Look::all(&redactor.known());
    let mut search = Search { text, all: Vec::new(), hidden: Vec::new(), current: Cow::Borrowed(text) };
    // What must go to no chat is looked for first: no other rule may take its beginning for a value and end there.
    let [known, ..] = &looks;
    search.look(known);
    search.look(&Look::PrivateKeys);
    for _ in 0..MOST_ROUNDS {
        let before = search.all.len();
        for look in &looks {
            search.look(look);
        }
        if search.all.len() == before {
            break;
        }
    }
    let mut all = search.all;
    all.sort_by_key(|span| (span.start, Reverse(span.end)));
    all.dedup_by_key(|span| (span.start, span.end));
    all
}

struct Search<'a> {
    text: &'a str,
    all: Vec<Span>,
    /// What is replaced in `current`, by its places in `text`.
    hidden: Vec<Span>,
    current: Cow<'a, str>,
}

impl Search<'_> {
    fn look(&mut self, look: &Look) {
        if !look.is_needed(&self.current) {
            return;
        }
        let found = look.examine(&self.current, 0, Line::default(), Ending::Complete).spans;
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

/// The places in the original of what was found where `hidden` had been replaced.
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
