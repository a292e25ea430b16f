//! All secrets of a text by their places in it, as many rounds of hiding as it takes.

use std::cmp::Reverse;

use crate::look::{Ending, Look};
use crate::mark::push_sentinel;
use crate::scan::Line;
use crate::text::Span;
use crate::{MOST_ROUNDS, Redactor, render};

/// The secrets of `text`, by their beginning, an outer one before what lies in it.
pub(super) fn spans(redactor: &Redactor, text: &str) -> Vec<Span> {
    let looks = Look::all(&redactor.known());
    let mut all: Vec<Span> = Vec::new();
    let mut hidden: Vec<Span> = Vec::new();
    let mut current = text.to_owned();
    for _ in 0..MOST_ROUNDS {
        let before = all.len();
        for look in &looks {
            if !look.is_needed(&current) {
                continue;
            }
            let found = look.examine(&current, 0, Line::default(), Ending::Complete).spans;
            if found.is_empty() {
                continue;
            }
            let found = in_original(&found, &hidden);
            all.extend(&found);
            hidden = joined(hidden, found);
            current.clear();
            render(text, 0, text.len(), &hidden, &mut current);
        }
        if all.len() == before {
            break;
        }
    }
    all.sort_by_key(|span| (span.start, Reverse(span.end)));
    all.dedup_by_key(|span| (span.start, span.end));
    all
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
