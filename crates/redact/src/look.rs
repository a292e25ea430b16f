//! The three looks that are taken at every text, one after the other.
//!
//! First for exact values and then for all others in the text as the eye sees it (a key that is split by invisible
//! characters is a key), then at the text as it is (an invisible character may also be what separates two words). Each look hides
//! what it finds before the next one begins, and each can be taken at a growing text: so the stream is the same
//! three looks in the same order, and shows the same.

use std::sync::Arc;

use crate::known::Known;
use crate::scan::{Found, Line, scan};
use crate::text::{Span, Text};
use crate::{pem, plain};

/// Whether more of a text may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Complete,
    Growing,
}

/// One way to look at a text.
#[derive(Debug, Clone)]
pub(crate) enum Look {
    Known(Arc<Known>),
    Visible,
    Actual,
    /// Private keys alone, wherever one begins.
    PrivateKeys,
}

impl Look {
    /// All looks, in their order.
    pub(crate) fn all(known: &Arc<Known>) -> [Self; 3] {
        [Self::Known(Arc::clone(known)), Self::Visible, Self::Actual]
    }

    /// Whether this look could find anything in the complete `text` that the others do not.
    pub(crate) fn is_needed(&self, text: &str) -> bool {
        match self {
            Self::Known(known) => !known.is_empty(),
            Self::Visible => plain::hides_something(text),
            Self::Actual => true,
            Self::PrivateKeys => text.contains("PRIVATE"),
        }
    }

    /// Looks at `text` from `from` on; what lies before is context, and `line` the state of the line there.
    pub(crate) fn examine(&self, text: &str, from: usize, line: Line, ending: Ending) -> Found {
        match self {
            Self::Actual => scan(Text::new(text.as_bytes(), ending == Ending::Complete), from, line),
            Self::Visible => examine_visible(text, from, ending, |text, from| scan(text, from, line)),
            Self::PrivateKeys => examine_visible(text, from, ending, pem::find_all),
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

/// Looks at the text as the eye sees it, and says what that means for the text as it is.
fn examine_visible(text: &str, from: usize, ending: Ending, look: impl Fn(Text, usize) -> Found) -> Found {
    let is_complete = ending == Ending::Complete;
    if !plain::hides_something(text) {
        return look(Text::new(text.as_bytes(), is_complete), from);
    }
    let seen = plain::visible(text);
    let found = look(Text::new(seen.text.as_bytes(), is_complete), seen.place_of(from));
    let spans = found.spans.iter().map(|span| Span {
        start: seen.origin(span.start),
        end: seen.origin_of_end(span.end),
        kind: span.kind,
    });
    let settled = seen.origin(found.settled);
    let cut = seen.cut_off.filter(|_| !is_complete).unwrap_or(text.len());
    Found { spans: spans.collect(), settled: settled.min(cut), until: found.until }
}
