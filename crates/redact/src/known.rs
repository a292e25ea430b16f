//! Values that the program itself knows to be secret, found exactly, in every form in which they may be written.
//!
//! Knows the values; must never show them, so its `Debug` says only how many there are.

use std::fmt;

use crate::scan::sentinel_end;
use crate::text::{Span, Text};

/// Shorter values would hide ordinary words.
const SHORTEST_VALUE: usize = 6;

const KIND: &str = "known-secret";

/// A set of exact values.
#[derive(Default)]
pub(crate) struct Known {
    /// Longest first, so that the longest match wins.
    forms: Vec<Vec<u8>>,
    /// Which bytes a form may begin with.
    firsts: Option<Box<[bool; 256]>>,
}

impl fmt::Debug for Known {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} known forms", self.forms.len())
    }
}

impl Known {
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut forms: Vec<Vec<u8>> = values
            .into_iter()
            .filter(|value| value.chars().count() >= SHORTEST_VALUE)
            .flat_map(|value| forms_of(&value))
            .map(String::into_bytes)
            .collect();
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        let mut firsts = Box::new([false; 256]);
        for first in forms.iter().filter_map(|form| form.first()) {
            firsts[usize::from(*first)] = true;
        }
        Self { firsts: (!forms.is_empty()).then_some(firsts), forms }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.firsts.is_none()
    }

    /// Adds the values that stand in `text` from `from` on, and returns where one might begin that is not yet complete.
    pub(crate) fn find(&self, text: &Text, from: usize, complete: bool, spans: &mut Vec<Span>) -> usize {
        let bytes = text.bytes();
        let Some(firsts) = &self.firsts else { return bytes.len() };
        let mut open = bytes.len();
        let mut at = from;
        while let Some(&byte) = bytes.get(at) {
            if byte == b'['
                && let Ok(after) = sentinel_end(text, at)
                && after > at
            {
                at = after;
                continue;
            }
            if !firsts[usize::from(byte)] {
                at += 1;
                continue;
            }
            let rest = &bytes[at..];
            if !complete
                && open == bytes.len()
                && self.forms.iter().any(|form| form.len() > rest.len() && form.starts_with(rest))
            {
                open = at;
            }
            match self.forms.iter().find(|form| rest.starts_with(form)) {
                Some(form) => {
                    spans.push(Span { start: at, end: at + form.len(), kind: KIND });
                    at += form.len();
                }
                None => at += 1,
            }
        }
        open
    }
}

/// As it is, escaped for JSON once and twice, and percent-encoded in the ways that are in use.
fn forms_of(value: &str) -> Vec<String> {
    let once = json_escaped(value);
    let twice = json_escaped(&once);
    let mut forms = vec![value.to_owned(), once.replace('/', "\\/"), once, twice];
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
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else if is_upper {
            encoded.push_str(&format!("%{byte:02X}"));
        } else {
            encoded.push_str(&format!("%{byte:02x}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
