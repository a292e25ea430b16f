//! Long texts in a view: their beginning, their end, and how much lies between.

/// A text as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// The text, or its beginning.
    pub head: String,
    /// What is missing after the beginning, as a size; none if the text is whole.
    pub missing: Option<String>,
    /// The end of a text that is not whole.
    pub tail: String,
}

impl Shown {
    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.head.trim().is_empty() && self.missing.is_none()
    }
}

/// At most so many bytes of the beginning and of the end.
pub fn cut(text: &str, head_bytes: usize, tail_bytes: usize) -> Shown {
    if text.len() <= head_bytes + tail_bytes {
        return Shown { head: text.to_owned(), ..Shown::default() };
    }
    let head_end = text.floor_char_boundary(head_bytes);
    let tail_start = text.ceil_char_boundary(text.len() - tail_bytes);
    Shown {
        head: text[..head_end].to_owned(),
        missing: Some(size(tail_start - head_end)),
        tail: text[tail_start..].to_owned(),
    }
}

/// A size: `812 bytes`, `14 KB`, `1.2 MB`.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{} KB", bytes / 1000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::{Shown, cut, size};

    #[test]
    fn a_long_text_keeps_its_ends() {
        let whole = Shown { head: "short".into(), ..Shown::default() };
        assert_eq!(cut("short", 4, 4), whole);
        let shown = cut(&format!("äb{}yö", "x".repeat(5000)), 2, 3);
        assert_eq!((shown.head.as_str(), shown.tail.as_str()), ("ä", "yö"));
        assert_eq!(shown.missing.as_deref(), Some("5 KB"));
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([7, 14_200, 1_250_000].map(size), ["7 bytes", "14 KB", "1.2 MB"]);
    }
}
