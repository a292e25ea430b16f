//! Takes secrets out of text, and characters that deceive the reader.
//!
//! Text goes through a [`Redactor`] before it is stored, logged, shown or sent. It works on strings and JSON values
//! alone: no IO, no clock, no environment, no knowledge of who asks.
//!
//! A secret is found by its own look (`ghp_…`, a JSON Web Token, a private key), by the name it is given
//! (`DB_PASSWORD=…`, `"apiKey": "…"`, `Authorization: …`), by its place in a URL, or because the program knows it. A
//! secret is replaced by `[redacted:KIND]`. Nothing of it stays, not even its first letters: an agent may write a
//! masked key with head and tail back into a file, and a part of a short secret makes the rest easier to guess. A
//! sentinel is never taken for a secret, so redacting twice changes nothing.
//!
//! All work is linear in the length of the text.

pub mod approval;
mod assignments;
mod extent;
mod headers;
mod json;
mod known;
mod mark;
mod names;
mod pem;
pub mod plain;
mod rules;
mod scan;
mod search;
mod stream;
mod text;
mod urls;
mod values;

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

pub use stream::Stream;

use known::Known;
use mark::push_sentinel;
use scan::Line;
use search::{Ending, Search};
use text::Span;

/// Hiding a secret changes its neighbourhood, so a text with secrets is searched again until nothing is found. Usually
/// two rounds are enough; the bound is for adversarial texts.
const MOST_ROUNDS: usize = 8;

/// Hides secrets in text. Cheap to clone; clones share learned values. The default knows all built-in rules.
///
/// ```
/// use redact::Redactor;
///
/// let redactor = Redactor::default();
/// assert_eq!(redactor.redact("export DB_PASSWORD=hunter2"), "export DB_PASSWORD=[redacted:password]");
/// assert_eq!(redactor.redact("the secretary's tokenizer"), "the secretary's tokenizer");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<Arc<Known>>>,
    hides_nothing: bool,
}

impl Redactor {
    /// The built-in rules, and exact values that the program itself knows to be secret.
    ///
    /// The values are also found escaped for JSON and percent-encoded. Values of fewer than 6 characters are
    /// ignored: they would hide ordinary words.
    ///
    /// ```
    /// use redact::Redactor;
    ///
    /// let redactor = Redactor::knowing(["correct \"horse\""]);
    /// assert_eq!(redactor.redact(r#"say correct \"horse\""#), "say [redacted:known-secret]");
    /// assert_eq!(redactor.redact("correct%20%22horse%22"), "[redacted:known-secret]");
    /// ```
    pub fn knowing(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let redactor = Self::default();
        redactor.learn(values);
        redactor
    }

    /// Finds no secrets, for a person who has to see the whole text. Deceptive characters are still named.
    ///
    /// ```
    /// assert_eq!(redact::Redactor::hiding_nothing().redact("A_TOKEN=a1b2c3d4"), "A_TOKEN=a1b2c3d4");
    /// ```
    pub fn hiding_nothing() -> Self {
        Self { hides_nothing: true, ..Self::default() }
    }

    /// Hides these values too from now on, in all clones. Open streams do not learn them.
    ///
    /// ```
    /// let (redactor, hers) = (redact::Redactor::default(), "correct horse");
    /// let clone = redactor.clone();
    /// redactor.learn([hers]);
    /// assert_eq!(clone.redact("say correct horse"), "say [redacted:known-secret]");
    /// ```
    pub fn learn(&self, values: impl IntoIterator<Item = impl Into<String>>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(known.with(values.into_iter().map(Into::into)));
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns `text` with every secret replaced by `[redacted:KIND]`; borrowed where there is none.
    ///
    /// ```
    /// use std::borrow::Cow;
    ///
    /// let redactor = redact::Redactor::default();
    /// assert!(matches!(redactor.redact("nothing to see"), Cow::Borrowed(_)));
    /// assert_eq!(
    ///     redactor.redact("postgres://app:s3cret@db/main"),
    ///     "postgres://app:[redacted:url-password]@db/main",
    /// );
    /// ```
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.count_and_redact(text).0
    }

    /// As [`Redactor::redact`], and how many secrets were hidden.
    ///
    /// ```
    /// let redactor = redact::Redactor::default();
    /// let (text, hidden) = redactor.count_and_redact("A_TOKEN=a1b2c3d4 B_SECRET=e5f6g7h8");
    /// assert_eq!((text.as_ref(), hidden), ("A_TOKEN=[redacted:token] B_SECRET=[redacted:secret]", 2));
    /// ```
    pub fn count_and_redact<'a>(&self, text: &'a str) -> (Cow<'a, str>, usize) {
        let mut shown = Cow::Borrowed(text);
        let mut hidden = 0;
        let rounds = if self.hides_nothing { 0 } else { MOST_ROUNDS };
        for _ in 0..rounds {
            let found = self.round(&mut shown);
            hidden += found;
            if found == 0 {
                break;
            }
        }
        (shown, hidden)
    }

    /// All searches once; returns how many secrets they hid.
    fn round(&self, shown: &mut Cow<'_, str>) -> usize {
        let mut hidden = 0;
        for search in Search::all(&self.known()) {
            if !search.is_needed(shown) {
                continue;
            }
            let found = search.examine(shown, 0, Line::default(), Ending::Complete);
            if found.spans.is_empty() {
                continue;
            }
            let mut redacted = String::with_capacity(shown.len());
            render(shown, 0, shown.len(), &found.spans, &mut redacted);
            hidden += found.spans.len();
            *shown = Cow::Owned(redacted);
        }
        hidden
    }

    /// Hides the secrets in every string of `value`, and returns how many there were.
    ///
    /// Strings are examined as they are after unescaping. Under a field whose name announces a secret the whole
    /// string goes, also inside an array; so does what follows such a name or flag in an array. The structure stays.
    ///
    /// ```
    /// let mut value = serde_json::json!({"apiKey": "abc", "argv": ["psql", "--password", "s3cret"], "n": 1});
    /// assert_eq!(redact::Redactor::default().redact_json(&mut value), 2);
    /// assert_eq!(
    ///     value,
    ///     serde_json::json!({
    ///         "apiKey": "[redacted:api-key]",
    ///         "argv": ["psql", "--password", "[redacted:password]"],
    ///         "n": 1,
    ///     }),
    /// );
    /// ```
    pub fn redact_json(&self, value: &mut serde_json::Value) -> usize {
        json::redact(self, value)
    }

    /// A redactor for text that comes in pieces, such as the deltas of a message.
    ///
    /// ```
    /// let mut stream = redact::Redactor::default().stream();
    /// let mut shown = stream.push("the key is ghp_0123456");
    /// assert_eq!(shown, "the key is ");
    /// shown += &stream.push("789abcdef, keep it");
    /// shown += &stream.finish();
    /// assert_eq!(shown, "the key is [redacted:github-token], keep it");
    /// ```
    pub fn stream(&self) -> Stream {
        Stream::new(self.known())
    }
}

/// Writes `text[from..to]` with the spans replaced. No span crosses `to`.
fn render(text: &str, from: usize, to: usize, spans: &[Span], into: &mut String) {
    let mut at = from;
    for span in spans.iter().take_while(|span| span.end <= to) {
        into.push_str(&text[at..span.start]);
        push_sentinel(span.kind, into);
        at = span.end;
    }
    into.push_str(&text[at..to]);
}

#[cfg(test)]
mod tests;
