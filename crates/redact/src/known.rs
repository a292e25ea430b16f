//! Values that the program itself knows to be secret, found exactly, in all usual encodings.
//!
//! Knows the values; must never show them, so its `Debug` says only how many there are.

use std::fmt;

use crate::mark::mark_end;
use crate::plain::visible;
use crate::scan::{Found, Until};
use crate::text::{More, Span, Text};

/// Shorter values would hide ordinary words.
const SHORTEST_VALUE: usize = 6;

/// How often a value may have been escaped for JSON.
const MOST_ESCAPES: usize = 4;

const KIND: &str = "known-secret";

/// A set of exact values.
#[derive(Default)]
pub(crate) struct Known {
    /// Longest first, so that the longest match wins.
    forms: Vec<Vec<u8>>,
    /// Which bytes a form may begin with.
    firsts: Option<Box<[bool; 256]>>,
    longest: usize,
}

impl fmt::Debug for Known {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} known forms", self.forms.len())
    }
}

impl Known {
    /// The same set with more values.
    pub(crate) fn with(&self, values: impl IntoIterator<Item = String>) -> Self {
        let more = values
            .into_iter()
            .filter(|value| value.chars().count() >= SHORTEST_VALUE)
            .flat_map(|value| forms_of(&value))
            .map(String::into_bytes);
        let mut forms: Vec<Vec<u8>> = self.forms.iter().cloned().chain(more).collect();
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        let mut firsts = Box::new([false; 256]);
        for first in forms.iter().filter_map(|form| form.first()) {
            firsts[usize::from(*first)] = true;
        }
        let longest = forms.first().map_or(0, Vec::len);
        Self { firsts: (!forms.is_empty()).then_some(firsts), forms, longest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.firsts.is_none()
    }

    /// The values in `text` from `from` on. A possible beginning of a value is not settled.
    pub(crate) fn find(&self, text: Text, from: usize) -> Found {
        let bytes = text.bytes();
        let mut spans = Vec::new();
        let is_growing = text.get(bytes.len()).is_err();
        let mut settled = bytes.len();
        let mut at = from;
        while let Some(&byte) = bytes.get(at) {
            if byte != b'[' && !self.may_begin(byte) {
                at += 1;
                continue;
            }
            let rest = &bytes[at..];
            if is_growing && self.may_become_value(rest) {
                settled = settled.min(at);
            }
            at = match mark_end(&text, at) {
                Err(More) => {
                    settled = settled.min(at);
                    break;
                }
                Ok(after) if after > at => after,
                Ok(_) => match self.forms.iter().find(|form| rest.starts_with(form)) {
                    Some(form) => {
                        spans.push(Span { start: at, end: at + form.len(), kind: KIND });
                        at + form.len()
                    }
                    None => at + 1,
                },
            };
        }
        // do not split a found value because another may begin inside of it
        let within = spans.iter().find(|span| span.start < settled && settled < span.end);
        Found { settled: within.map_or(settled, |span| span.start), spans, until: Until::Space }
    }

    fn may_begin(&self, byte: u8) -> bool {
        self.firsts.as_ref().is_some_and(|firsts| firsts[usize::from(byte)])
    }

    /// Whether all of `rest` is the beginning of a value that is longer.
    fn may_become_value(&self, rest: &[u8]) -> bool {
        rest.len() < self.longest
            && self.forms.iter().any(|form| form.len() > rest.len() && form.starts_with(rest))
    }
}

/// As it is, escaped for JSON (also JSON within JSON), and percent-encoded in the ways that are in use.
fn forms_of(value: &str) -> Vec<String> {
    // the search is over visible text
    let value = &*visible(value).text;
    let once = json_escaped(value);
    let mut forms = vec![value.to_owned(), once.replace('/', "\\/"), once];
    for _ in 1..MOST_ESCAPES {
        let again = forms.last().map(|form| json_escaped(form));
        forms.extend(again);
    }
    for is_upper in [true, false] {
        let strict = percent_encoded(value, b"-_.~", is_upper);
        forms.push(strict.replace("%20", "+"));
        forms.push(strict);
        forms.push(percent_encoded(value, b"-_.~!*'()", is_upper));
    }
    forms
}

/// A string of JSON without its quotes.
fn json_escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn percent_encoded(value: &str, kept: &[u8], is_upper: bool) -> String {
    let digits: &[u8; 16] = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let digit = |value: u8| char::from(digits[usize::from(value)]);
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
