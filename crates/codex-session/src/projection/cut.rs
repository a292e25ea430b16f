//! Cuts text. Secrets are hidden first, since half a secret would not be recognised.

use std::borrow::Cow;

use redact::Redactor;

/// The text, or its beginning with `…` at the end: at most `max_chars` characters.
pub(crate) fn cut<'a>(text: &'a str, max_chars: usize, redactor: &Redactor) -> Cow<'a, str> {
    if fits(text, max_chars) {
        return Cow::Borrowed(text);
    }
    let redacted = redactor.redact(text);
    if fits(&redacted, max_chars) {
        return Cow::Owned(redacted.into_owned());
    }
    let kept = redacted.chars().take(max_chars.saturating_sub(1));
    Cow::Owned(kept.chain(['…']).collect())
}

fn fits(text: &str, max_chars: usize) -> bool {
    text.len() <= max_chars || text.chars().nth(max_chars).is_none()
}
