//! The three searches that every text goes through, one after the other.
//!
//! The first two search the visible text: for known values, then by all rules (a key that is split by invisible
//! characters is still a key). The third searches the actual text by all rules (an invisible character may separate two
//! words). Each search hides what it finds before the next one begins. Each also works on a growing text, so a stream
//! goes through the same three searches in the same order, with the same result.

use std::sync::Arc;

use crate::known::Known;
use crate::scan::{Found, Line, Until, scan};
use crate::text::{Span, Text};
use crate::{pem, plain};

/// Whether more of a text may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Complete,
    Growing,
}

/// One search.
#[derive(Debug, Clone)]
pub(crate) enum Search {
    Known(Arc<Known>),
    Visible,
    Actual,
    /// Private keys alone, wherever one begins.
    PrivateKeys,
}

impl Search {
    /// All searches, in their order.
    pub(crate) fn all(known: &Arc<Known>) -> [Self; 3] {
        [Self::Known(Arc::clone(known)), Self::Visible, Self::Actual]
    }

    /// Whether this search could find anything in the complete `text` that the others do not.
    pub(crate) fn is_needed(&self, text: &str) -> bool {
        match self {
            Self::Known(known) => !known.is_empty(),
            Self::Visible => plain::hides_something(text),
            Self::Actual => true,
            Self::PrivateKeys => text.contains("PRIVATE"),
        }
    }

    /// Searches `text` from `from` on. The text before is context, and `line` is the state of the line there.
    pub(crate) fn examine(&self, text: &str, from: usize, line: Line, ending: Ending) -> Found {
        match self {
            Self::Actual => scan(Text::new(text.as_bytes(), ending == Ending::Complete), from, line),
            Self::Visible => examine_visible(text, from, ending, |text, from| scan(text, from, line)),
            Self::PrivateKeys => examine_visible(text, from, ending, |text, from| Found {
                spans: pem::find_all(text, from),
                settled: text.bytes().len(),
                until: Until::Space,
            }),
            Self::Known(known) => examine_visible(text, from, ending, |text, from| known.find(text, from)),
        }
    }

    /// The state of the line after `passed`.
    pub(crate) fn line_after(&self, line: Line, passed: &str) -> Line {
        match self {
            Self::Known(_) | Self::PrivateKeys => line,
            Self::Visible if plain::hides_something(passed) => {
                line.after(plain::visible(passed).text.as_bytes())
            }
            Self::Visible | Self::Actual => line.after(passed.as_bytes()),
        }
    }
}

/// Searches the visible text, and maps the result to the actual text.
fn examine_visible(text: &str, from: usize, ending: Ending, find: impl Fn(Text, usize) -> Found) -> Found {
    let is_complete = ending == Ending::Complete;
    if !plain::hides_something(text) {
        return find(Text::new(text.as_bytes(), is_complete), from);
    }
    let seen = plain::visible(text);
    let found = find(Text::new(seen.text.as_bytes(), is_complete), seen.place_of(from));
    let spans = found.spans.iter().map(|span| Span {
        start: seen.origin(span.start),
        end: seen.origin_of_end(span.end),
        kind: span.kind,
    });
    let settled = seen.origin(found.settled);
    let cut = seen.cut_off.filter(|_| !is_complete).unwrap_or(text.len());
    Found { spans: spans.collect(), settled: settled.min(cut), until: found.until }
}
