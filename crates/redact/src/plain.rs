//! Text for a person who must decide: no escape sequences, no control, bidirectional or invisible characters.
//!
//! Text that could be *executed* is never removed: the payload of an operating system command (a window title, a link) stays
//! visible, because a shell that runs the text would see it too. Knows nothing about secrets.

use std::borrow::Cow;

use crate::mark::SENTINEL_START;

const ESCAPE: char = '\u{1b}';

/// The longest parameters of a terminal sequence. A longer text is not a sequence, and stays visible.
const MAX_PARAMETERS: usize = 32;

/// Returns `text` without anything that could deceive the eye.
///
/// Escape sequences, control characters (except `\n` and `\t`), bidirectional controls, zero-width and other
/// invisible characters are removed; `\r`, line and paragraph separators become `\n`, so that nothing can write
/// over a line.
///
/// ```
/// use redact::plain::plain;
///
/// assert_eq!(plain("\u{1b}[31mrm\u{1b}[0m -rf \u{202e}x\u{200b}"), "rm -rf x");
/// assert_eq!(plain("rm -rf /\rls"), "rm -rf /\nls");
/// assert_eq!(plain("größer, 日本語, 👍🏽"), "größer, 日本語, 👍🏽");
/// ```
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|char| is_invisible(char) || is_line_break(char)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let length = match char {
            '\r' if rest.starts_with("\r\n") => 1,
            _ if is_line_break(char) => {
                shown.push('\n');
                char.len_utf8()
            }
            '\u{fe0e}' | '\u{fe0f}' if shown.chars().next_back().is_some_and(is_picture) => {
                shown.push(char);
                char.len_utf8()
            }
            ESCAPE | '\u{9b}' => sequence_length(rest, Depth::Display),
            _ if is_invisible(char) => char.len_utf8(),
            _ => {
                shown.push(char);
                char.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Cow::Owned(shown)
}

/// Returns `text` for people who read it and decide nothing: as it was written, except for what no reader sees (terminal
/// sequences and control characters) and for the controls that show text in another order than it has. What scripts and
/// emoji need stays: joiners, selectors, direction marks.
///
/// ```
/// use redact::plain::readable;
///
/// assert_eq!(readable("\u{1b}[31mred\u{1b}[0m \u{202e}x"), "red x");
/// assert_eq!(readable("می\u{200c}خواهم 👩\u{200d}👧"), "می\u{200c}خواهم 👩\u{200d}👧");
/// ```
pub fn readable(text: &str) -> Cow<'_, str> {
    let is_left_out = |char| is_control(char) || reorders(char);
    if !text.chars().any(is_left_out) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let length = match char {
            ESCAPE | '\u{9b}' => sequence_length(rest, Depth::Display),
            '\r' if !rest.starts_with("\r\n") => {
                shown.push('\n');
                1
            }
            _ => {
                shown.extend(Some(char).filter(|char| !is_left_out(*char)));
                char.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Cow::Owned(shown)
}

/// Control characters except line feed and tabulator.
fn is_control(char: char) -> bool {
    char.is_control() && !matches!(char, '\n' | '\t')
}

/// Controls that show the text behind them in another order: embeddings, overrides and isolates.
fn reorders(char: char) -> bool {
    matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `text` with every line end except `\n` and `\r\n` named in place: `⟨U+2028⟩`. For texts whose lines begin with a
/// sign, such as a diff: [`plain`] would make a new line without a sign, which could pass for something else.
///
/// ```
/// use redact::plain::with_named_breaks;
///
/// assert_eq!(with_named_breaks("+a\u{2028}b\u{b}c\rd\r\n"), "+a⟨U+2028⟩b⟨U+000B⟩c⟨U+000D⟩d\r\n");
/// ```
pub fn with_named_breaks(text: &str) -> Cow<'_, str> {
    let is_unusual = |char| is_line_break(char) || matches!(char, '\u{b}' | '\u{c}' | '\u{85}');
    if !text.chars().any(is_unusual) {
        return Cow::Borrowed(text);
    }
    let mut named = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        let is_usual = !is_unusual(char) || (char == '\r' && rest.peek() == Some(&'\n'));
        if is_usual {
            named.push(char);
        } else {
            push_named(char, &mut named);
        }
    }
    Cow::Owned(named)
}

/// Which carriage returns [`with_named`] names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// All, since a shell takes them for ordinary characters.
    AllReturns,
    /// Those that are not part of `\r\n`; the others are removed.
    LoneReturns,
}

/// Returns `text` with all characters named in place that [`plain`] would remove or turn into a line break, and all blanks
/// that are not blanks to a shell. For texts that are executed: `ls\u{200b}` is another program than `ls`.
pub(crate) fn with_named(text: &str, returns: Named) -> Cow<'_, str> {
    if !text.chars().any(deceives_where_it_acts) {
        return Cow::Borrowed(text);
    }
    let mut named = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        let ends_line = char == '\r' && rest.peek() == Some(&'\n');
        let is_selector = matches!(char, '\u{fe0e}' | '\u{fe0f}');
        if ends_line && returns == Named::LoneReturns {
            continue;
        }
        let is_seen = is_selector && named.chars().next_back().is_some_and(is_picture);
        if is_seen || !deceives_where_it_acts(char) {
            named.push(char);
        } else {
            push_named(char, &mut named);
        }
    }
    Cow::Owned(named)
}

/// Returns a path in one line, with invisible characters named, so that different paths look different.
///
/// ```
/// use redact::plain::path;
///
/// assert_eq!(path("/srv/a\u{200b}b\nc"), "/srv/a⟨U+200B⟩b⟨U+000A⟩c");
/// ```
pub fn path(text: &str) -> Cow<'_, str> {
    let named = with_named(text, Named::AllReturns);
    if !named.contains(['\n', '\t']) {
        return named;
    }
    let mut line = String::with_capacity(named.len() + 16);
    for char in named.chars() {
        if matches!(char, '\n' | '\t') { push_named(char, &mut line) } else { line.push(char) }
    }
    Cow::Owned(line)
}

/// `⟨U+200B⟩`
pub(crate) fn push_named(char: char, into: &mut String) {
    let code = format!("{:04X}", u32::from(char));
    into.extend(["⟨U+", &code, "⟩"]);
}

/// Characters that a program reads differently from a person.
fn deceives_where_it_acts(char: char) -> bool {
    is_invisible(char) || is_line_break(char) || (char.is_whitespace() && !char.is_ascii())
}

/// Line breaks that can hide a line.
fn is_line_break(char: char) -> bool {
    matches!(char, '\r' | '\u{2028}' | '\u{2029}')
}

/// Whether a variation selector may follow: pictures have a text and an emoji form.
fn is_picture(char: char) -> bool {
    char >= '\u{a9}' && !char.is_alphanumeric() && !is_invisible(char)
}

/// Characters that are not visible, or that change how others are shown.
pub(crate) fn is_invisible(char: char) -> bool {
    match char {
        '\n' | '\t' | '\r' | '\u{20}'..='\u{7e}' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' => true,
        _ => {
            char >= '\u{34f}'
                && matches!(char,
                    '\u{34f}' // combining grapheme joiner
                    | '\u{61c}' // Arabic letter mark
                    | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers
                    | '\u{17b4}' | '\u{17b5}' // Khmer inherent vowels
                    | '\u{180b}'..='\u{180f}' // Mongolian selectors and separator
                    | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                    | '\u{2800}' // blank Braille pattern
                    | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                    | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
                    | '\u{e0000}'..='\u{e0fff}') // tags and supplementary selectors
        }
    }
}

/// How much of an escape sequence is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// For a reader: the introducer and its numbers.
    Display,
    /// For a search: only the part that every terminal hides, since a secret may follow directly.
    Search,
}

/// The length of the terminal sequence that begins `text`; at least its first character.
fn sequence_length(text: &str, depth: Depth) -> usize {
    let bytes = text.as_bytes();
    let (introducer, kind) = match bytes {
        [0x1b, kind, ..] => (2, *kind),
        [0xc2, 0x9b, ..] => (2, b'['),
        _ => return text.chars().next().map_or(0, char::len_utf8),
    };
    let rest = &bytes[introducer..];
    match kind {
        b'[' if bytes[1..].starts_with(SENTINEL_START) => 1,
        b'[' => parameters(rest).map_or(bytes_of_first(text), |length| introducer + length),
        b' '..=b'/' => rest.first().filter(|last| matches!(last, b'0'..=b'~')).map_or(1, |_| introducer + 1),
        b']' if depth == Depth::Display => {
            introducer
                + rest
                    .iter()
                    .take(MAX_PARAMETERS)
                    .take_while(|byte| byte.is_ascii_digit() || **byte == b';')
                    .count()
        }
        b'0'..=b'~' if depth == Depth::Display => introducer,
        b'0'..=b'9' | b'=' | b'>' | b'c' | b'D' | b'E' | b'H' | b'M' | b'N' | b'O' | b'Z' => introducer,
        _ => 1,
    }
}

fn bytes_of_first(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// The length of parameters and final byte of a control sequence.
fn parameters(rest: &[u8]) -> Option<usize> {
    let length = rest.iter().take(MAX_PARAMETERS).take_while(|byte| matches!(byte, b' '..=b'?')).count();
    // `[` may end a sequence too, but this would remove the beginning of a sentinel
    rest.get(length).filter(|last| matches!(last, b'@'..=b'Z' | b'\\'..=b'~')).map(|_| length + 1)
}

/// The visible text, with the positions of its bytes in the original text.
pub(crate) struct Visible {
    pub(crate) text: String,
    /// For each byte of `text`, and for its end, the position in the original.
    origins: Vec<usize>,
    /// The start of a terminal sequence that the end of the text cuts off. The sequence counts as invisible.
    pub(crate) cut_off: Option<usize>,
}

impl Visible {
    pub(crate) fn origin(&self, at: usize) -> usize {
        self.origins.get(at).or(self.origins.last()).copied().unwrap_or(0)
    }

    /// The position in the original of the end of a span: behind its last visible character.
    pub(crate) fn origin_of_end(&self, end: usize) -> usize {
        end.checked_sub(1).map_or(0, |last| self.origin(last) + 1)
    }

    /// The first visible byte at or behind `at` of the original.
    pub(crate) fn place_of(&self, at: usize) -> usize {
        self.origins.partition_point(|origin| *origin < at)
    }
}

/// Whether [`visible`] would differ from `text`.
pub(crate) fn hides_something(text: &str) -> bool {
    let is_hidden = |byte: u8| (byte < 0x20 && !matches!(byte, b'\n' | b'\t' | b'\r')) || byte == 0x7f;
    // without an early return the loop is vectorised: nearly all texts hide nothing
    text.bytes().fold(false, |found, byte| found | is_hidden(byte))
        || (!text.is_ascii() && text.chars().any(is_invisible))
}

/// The visible part of the text.
pub(crate) fn visible(text: &str) -> Visible {
    let mut seen = Visible {
        text: String::with_capacity(text.len()),
        origins: Vec::with_capacity(text.len() + 1),
        cut_off: None,
    };
    let mut at = 0;
    while let Some(char) = text[at..].chars().next() {
        at += match char {
            ESCAPE | '\u{9b}' if is_cut_off(&text[at..]) => {
                seen.cut_off = Some(at);
                text.len() - at
            }
            ESCAPE | '\u{9b}' => sequence_length(&text[at..], Depth::Search),
            _ => {
                if !is_invisible(char) {
                    seen.text.push(char);
                    seen.origins.extend(at..at + char.len_utf8());
                }
                char.len_utf8()
            }
        };
    }
    seen.origins.push(text.len());
    seen
}

/// Whether `text` is the beginning of a terminal sequence that is not complete.
fn is_cut_off(text: &str) -> bool {
    let rest = match text.as_bytes() {
        [0x1b] | [0x1b, b' '..=b'/'] => return true,
        [0x1b, b'[', rest @ ..] | [0xc2, 0x9b, rest @ ..] => rest,
        _ => return false,
    };
    if text.len() <= SENTINEL_START.len() && SENTINEL_START.starts_with(&text.as_bytes()[1..]) {
        return true;
    }
    rest.len() < MAX_PARAMETERS && rest.iter().all(|byte| matches!(byte, b' '..=b'?'))
}

#[cfg(test)]
mod tests;
