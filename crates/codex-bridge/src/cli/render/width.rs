//! Measures, cuts, pads and wraps text for terminals.
//!
//! The widths are those of common terminals. A character that a terminal draws otherwise costs only a ragged edge. Colours
//! are added afterwards.

use crate::amount::one_line;

/// Marks a cut.
const ELLIPSIS: char = '…';
/// A tab moves to the next multiple of this.
const TAB: usize = 4;

/// The columns of a text in one line.
pub fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// The columns of one character: 0 for combining marks, 2 for wide East Asian characters and emoji.
pub fn char_columns(char: char) -> usize {
    match char as u32 {
        0x09 => TAB,
        0x0..=0x1f | 0x7f..=0x9f | 0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The text in one line of at most this width. A cut is marked.
pub fn cut(text: &str, width: usize) -> String {
    let line = one_line(text);
    if columns(&line) <= width {
        return line;
    }
    if width == 0 { String::new() } else { format!("{}{ELLIPSIS}", beginning(&line, width - 1)) }
}

/// The longest beginning of a text that fits into this width.
pub fn beginning(text: &str, width: usize) -> &str {
    let mut used = 0;
    let cut = text.char_indices().find(|(_, char)| {
        used += char_columns(*char);
        used > width
    });
    cut.map_or(text, |(at, _)| &text[..at])
}

/// The text, padded with blanks to this width.
pub fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(columns(text));
    format!("{text}{}", " ".repeat(missing))
}

/// Wraps a text at words. Blanks at the beginning of a line stay.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut flow = Flow::new(width);
    let mut wrapped = flow.push(text);
    wrapped.push_str(&flow.finish());
    wrapped.split('\n').map(|line| line.trim_end().to_owned()).collect()
}

/// Wraps a text while it is being written. A word is given out once it is complete.
#[derive(Debug)]
pub struct Flow {
    width: usize,
    column: usize,
    blanks: String,
    word: String,
}

impl Flow {
    /// A text that begins at the left edge.
    pub fn new(width: usize) -> Self {
        Self { width: width.max(1), column: 0, blanks: String::new(), word: String::new() }
    }

    /// Adds a piece, and gives what can be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        let mut shown = String::new();
        for char in piece.chars() {
            match char {
                '\n' => {
                    self.end_word(&mut shown);
                    self.blanks.clear();
                    self.column = 0;
                    shown.push('\n');
                }
                ' ' | '\t' => {
                    self.end_word(&mut shown);
                    self.blanks.push_str(if char == '\t' { "    " } else { " " });
                }
                _ => {
                    // A word that fills a line is given out at once: some scripts have no blanks.
                    if columns(&self.word) + char_columns(char) > self.width {
                        self.end_word(&mut shown);
                    }
                    self.word.push(char);
                }
            }
        }
        shown
    }

    /// The last word.
    pub fn finish(&mut self) -> String {
        let mut shown = String::new();
        self.end_word(&mut shown);
        self.blanks.clear();
        shown
    }

    fn end_word(&mut self, shown: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let blanks = std::mem::take(&mut self.blanks);
        let needed = columns(&blanks) + columns(&word);
        if self.column > 0 && self.column + needed > self.width {
            shown.push('\n');
            self.column = 0;
        } else {
            shown.push_str(&blanks);
            self.column += columns(&blanks);
        }
        shown.push_str(&word);
        self.column += columns(&word);
    }
}

#[cfg(test)]
mod tests {
    use super::{Flow, columns, cut, pad, wrap};

    #[test]
    fn wide_characters_take_two_columns_and_marks_none() {
        assert_eq!(columns("abc"), 3);
        assert_eq!(columns("日本"), 4);
        assert_eq!(columns("e\u{301}"), 1);
        assert_eq!(columns("👍"), 2);
    }

    #[test]
    fn a_text_that_does_not_fit_is_cut_and_marked() {
        assert_eq!(cut("hello world", 8), "hello w…");
        assert_eq!(cut("hello", 5), "hello");
        assert_eq!(cut("a\n  b\tc", 10), "a b c");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("anything", 0), "");
        assert_eq!(cut("anything", 1), "…");
    }

    #[test]
    fn a_text_is_padded_to_columns_not_to_bytes() {
        assert_eq!(pad("日", 4), "日  ");
        assert_eq!(pad("long", 2), "long");
    }

    #[test]
    fn words_move_to_the_next_line_and_indents_stay() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("  indented\nplain", 40), ["  indented", "plain"]);
        assert_eq!(wrap("a\n\nb", 10), ["a", "", "b"]);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn a_word_longer_than_the_line_is_broken() {
        assert_eq!(wrap("aaaaaaaaaa", 4), ["aaaa", "aaaa", "aa"]);
    }

    #[test]
    fn pieces_of_a_text_are_broken_like_the_whole() {
        let text = "The quick brown fox\njumps  over the lazy dog and 日本語のテキスト too.";
        for size in 1..7 {
            let mut flow = Flow::new(11);
            let chars: Vec<char> = text.chars().collect();
            let mut shown: String =
                chars.chunks(size).map(|piece| flow.push(&piece.iter().collect::<String>())).collect();
            shown.push_str(&flow.finish());
            assert_eq!(shown.split('\n').map(str::trim_end).collect::<Vec<_>>(), wrap(text, 11));
            assert!(shown.lines().all(|line| columns(line.trim_end()) <= 11), "{shown}");
        }
    }
}
