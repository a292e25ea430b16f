//! Shortens long texts: keeps the beginning and the end, and says how much is missing between them.

/// A text, shortened if it is long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The text, or its beginning.
    pub head: String,
    /// The size of the missing middle. `None` if the text is whole.
    pub missing: Option<String>,
    /// The end of a shortened text.
    pub tail: String,
}

impl Excerpt {
    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.head.trim().is_empty() && self.missing.is_none()
    }
}

/// Shortens a text to `head_bytes` of its beginning and `tail_bytes` of its end.
pub fn cut(text: &str, head_bytes: usize, tail_bytes: usize) -> Excerpt {
    if text.len() <= head_bytes + tail_bytes {
        return Excerpt { head: text.to_owned(), ..Excerpt::default() };
    }
    let head_end = text.floor_char_boundary(head_bytes);
    let tail_start = text.ceil_char_boundary(text.len() - tail_bytes);
    Excerpt {
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
    use super::{Excerpt, cut, size};

    #[test]
    fn a_long_text_keeps_its_ends() {
        let whole = Excerpt { head: "short".into(), ..Excerpt::default() };
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
