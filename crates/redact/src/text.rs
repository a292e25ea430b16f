//! The text under examination, and the one way to look at it.
//!
//! Every rule reads through [`Text::get`], which returns [`More`] at the end of a growing text. That makes the stream
//! exact: a rule cannot decide on bytes that have not come yet. Knows nothing about secrets.

/// Counts the bytes that rules look at, so that tests can tell linear work from quadratic without a clock.
#[cfg(test)]
pub(crate) mod work {
    use std::cell::Cell;

    thread_local! {
        static BYTES: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn add(bytes: usize) {
        BYTES.with(|total| total.set(total.get() + bytes));
    }

    /// What was counted since the last call.
    pub(crate) fn take() -> usize {
        BYTES.with(Cell::take)
    }
}

/// Where work is counted in tests, nothing happens otherwise.
#[inline]
pub(crate) fn looked_at(bytes: usize) {
    #[cfg(test)]
    work::add(bytes);
    #[cfg(not(test))]
    let _ = bytes;
}

/// A rule reached the end of a growing text and cannot decide yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct More;

/// The result of a rule, or that it needs more text.
pub(crate) type Parsed<T> = Result<T, More>;

/// A part of the text that is to be hidden, with the kind of secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: &'static str,
}

/// Bytes of a text that is complete, or of the beginning of one that still grows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    bytes: &'a [u8],
    complete: bool,
}

impl<'a> Text<'a> {
    pub(crate) fn new(bytes: &'a [u8], complete: bool) -> Self {
        Self { bytes, complete }
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a [u8] {
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// The byte at `index`; `None` is the end of a complete text.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Parsed<Option<u8>> {
        looked_at(1);
        match self.bytes.get(index) {
            Some(&byte) => Ok(Some(byte)),
            None if self.complete => Ok(None),
            None => Err(More),
        }
    }

    /// The byte before `index`, where there is one.
    pub(crate) fn before(&self, index: usize) -> Option<u8> {
        index.checked_sub(1).and_then(|index| self.bytes.get(index)).copied()
    }

    /// The first index from `start` on whose byte is not `wanted`.
    #[inline]
    pub(crate) fn skip(&self, start: usize, wanted: impl Fn(u8) -> bool) -> Parsed<usize> {
        let rest = self.bytes.get(start..).unwrap_or_default();
        let length = rest.iter().position(|byte| !wanted(*byte));
        looked_at(length.unwrap_or(rest.len()));
        match length {
            Some(length) => Ok(start + length),
            None if self.complete => Ok(start + rest.len()),
            None => Err(More),
        }
    }

    /// As [`Text::skip`], but looks at no more than `most` bytes.
    pub(crate) fn skip_at_most(
        &self,
        start: usize,
        most: usize,
        wanted: impl Fn(u8) -> bool,
    ) -> Parsed<usize> {
        let mut index = start;
        while index - start < most {
            match self.get(index)? {
                Some(byte) if wanted(byte) => index += 1,
                _ => break,
            }
        }
        Ok(index)
    }

    /// Whether the text has `literal` at `start`. Needs more text only while the text matches so far.
    pub(crate) fn starts_with(&self, start: usize, literal: &[u8]) -> Parsed<bool> {
        for (offset, &wanted) in literal.iter().enumerate() {
            if self.get(start + offset)? != Some(wanted) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Bytes of which tokens, names and numbers are made: a *run* is an unbroken sequence of them.
#[inline]
pub(crate) fn is_run(byte: u8) -> bool {
    RUN[usize::from(byte)]
}

static RUN: [bool; 256] = {
    let mut run = [false; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        run[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        byte += 1;
    }
    run
};

#[inline]
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[inline]
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[inline]
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[inline]
pub(crate) fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}
