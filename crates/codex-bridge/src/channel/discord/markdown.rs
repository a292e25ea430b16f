//! Renders a text with its formatting as Discord's Markdown. Pure.
//!
//! Outside of code every character that Discord could take for a mark is escaped, so that people read the text as it was
//! written. Discord's parser works with regular expressions and knows no nesting of marks in code, so a style whose content
//! has its own mark in it is left out. If the marks do not fit into a message, styles are left out before any text is.

use std::ops::Range;

use crate::channel::text::{Limit, Limits, Span, Style, Styled};

/// Discord's longest message.
const MAX_CHARS: usize = 2_000;
/// The limits of a message. What is escaped counts twice, so that at least the bare text always fits.
pub const LIMITS: Limits = Limits { text: Limit::Markdown(1_950), spans: 60 };
/// The marks that are escaped wherever they stand.
const MARKS: &str = "\\*_~`|[]<";
/// How the addresses begin that Discord makes links of.
const SCHEMES: [&str; 2] = ["https://", "http://"];

/// The content of a message, which is never longer than Discord takes.
pub fn render(text: &Styled) -> String {
    let keeps: [fn(&Style) -> bool; 4] = [
        |_| true,
        |style| style.is_code() || matches!(style, Style::Link(address) if address.len() < 100),
        Style::is_code,
        |_| false,
    ];
    let fitting = keeps.into_iter().map(|keeps| Renderer::new(text, keeps).render());
    let mut rendered = fitting.filter(|content| content.encode_utf16().count() <= MAX_CHARS);
    rendered.next().unwrap_or_else(|| {
        let bare = Renderer { addresses_are_links: false, ..Renderer::new(text, |_| false) };
        bare.render()
    })
}

struct Renderer<'a> {
    text: &'a str,
    spans: Vec<&'a Span>,
    /// Whether an address stands between `<` and `>`, where nothing needs to be escaped.
    addresses_are_links: bool,
    content: String,
    /// The mark that the content ends with, if a style has just ended.
    last_mark: Option<char>,
}

impl<'a> Renderer<'a> {
    fn new(text: &'a Styled, keeps: fn(&Style) -> bool) -> Self {
        let spans = text.spans.iter().filter(|span| keeps(&span.style)).collect();
        Self { text: &text.text, spans, addresses_are_links: true, content: String::new(), last_mark: None }
    }

    fn render(mut self) -> String {
        let spans = std::mem::take(&mut self.spans);
        self.piece(0..self.text.len(), &spans);
        self.content
    }

    /// Appends a part of the text, with the styles that begin in it. The outer one of two styles comes first.
    fn piece(&mut self, range: Range<usize>, spans: &[&Span]) {
        let mut at = range.start;
        for (number, span) in spans.iter().enumerate() {
            let (start, end) = (span.range.start.max(at), span.range.end.min(range.end));
            if start >= end || span.range.start < at {
                continue;
            }
            self.escaped(at..start);
            let inner = &spans[number + 1..];
            match &span.style {
                Style::Block { language } => self.block(start..end, language.as_deref()),
                Style::Code => self.code(start..end),
                Style::Bold => self.lines(start..end, inner, ("**", "**"), '*'),
                Style::Italic => self.lines(start..end, inner, ("*", "*"), '*'),
                Style::Struck => self.lines(start..end, inner, ("~~", "~~"), '~'),
                Style::Link(address) => self.link(start..end, inner, address),
            }
            at = end;
        }
        self.escaped(at..range.end);
    }

    fn push(&mut self, content: &str) {
        if !content.is_empty() {
            self.content.push_str(content);
            self.last_mark = None;
        }
    }

    /// Code in lines of its own. Nothing in a fence can be escaped, so lines with a fence in them are text.
    fn block(&mut self, range: Range<usize>, language: Option<&str>) {
        let is_name =
            |word: &&str| word.chars().all(|char| char.is_ascii_alphanumeric() || "+-#._".contains(char));
        let language = language.filter(is_name).unwrap_or_default();
        let (mut at, mut fenced) = (range.start, range.start..range.start);
        for line in self.text[range.clone()].split_inclusive('\n') {
            let end = at + line.len();
            if line.contains("```") {
                self.fence(fenced, language);
                self.escaped(at..end);
                fenced = end..end;
            } else {
                fenced.end = end;
            }
            at = end;
        }
        self.fence(fenced, language);
    }

    fn fence(&mut self, range: Range<usize>, language: &str) {
        let code = &self.text[range.clone()];
        let (code, ends) = code.strip_suffix('\n').map_or((code, ""), |code| (code, "\n"));
        // Discord's parser shows the marks of nothing, and joins a fence to backticks before it.
        if code.trim().is_empty() || self.last_mark == Some('`') {
            self.escaped(range);
            return;
        }
        self.push(&format!("```{language}\n{code}\n```"));
        self.last_mark = Some('`');
        self.push(ends);
    }

    fn code(&mut self, range: Range<usize>) {
        let code = &self.text[range.clone()];
        if code.contains(['`', '\n']) || code.trim().is_empty() || self.last_mark == Some('`') {
            self.escaped(range);
            return;
        }
        self.push(&format!("`{code}`"));
        self.last_mark = Some('`');
    }

    /// A style, line by line: some of Discord's programs end it at a line break.
    fn lines(&mut self, range: Range<usize>, spans: &[&Span], (open, close): (&str, &str), mark: char) {
        let mut at = range.start;
        for line in self.text[range].split_inclusive('\n') {
            let (start, end) = (at + line.len() - line.trim_start().len(), at + line.trim_end().len());
            let next = at + line.len();
            if start < end {
                self.escaped(at..start);
                self.wrapped(start..end, spans, (open, close), mark);
                self.escaped(end..next);
            } else {
                self.escaped(at..next);
            }
            at = next;
        }
    }

    /// A part within marks, unless the mark stands in it or before it.
    fn wrapped(&mut self, range: Range<usize>, spans: &[&Span], (open, close): (&str, &str), mark: char) {
        let mut inner = Self { text: self.text, spans: Vec::new(), content: String::new(), ..*self };
        inner.last_mark = None;
        inner.piece(range.clone(), spans);
        if inner.content.contains(mark) || self.last_mark == Some(mark) && mark != ']' {
            self.piece(range, spans);
            return;
        }
        self.push(&format!("{open}{}{close}", inner.content));
        self.last_mark = Some(mark);
    }

    /// A text that leads to an address. Discord shows the marks of a link whose text looks like an address.
    fn link(&mut self, range: Range<usize>, spans: &[&Span], address: &str) {
        let is_plain = |text: &str| {
            !text.contains(['<', '>', '(', ')', '\\', '`', '"']) && !text.contains(char::is_whitespace)
        };
        let text = &self.text[range.clone()];
        let code_or_link = |span: &&Span| span.style.is_code() || matches!(span.style, Style::Link(_));
        let within = |span: &&Span| span.range.start < range.end && span.range.end > range.start;
        let has_inner = spans.iter().copied().filter(within).any(|span| code_or_link(&span));
        let leads_to_web = SCHEMES.iter().any(|scheme| address.starts_with(scheme));
        if leads_to_web
            && is_plain(address)
            && !text.contains("://")
            && !text.contains(['\n', '[', ']'])
            && !has_inner
        {
            let close = format!("](<{address}>)");
            self.wrapped(range, spans, ("[", &close), ']');
        } else if text == address {
            self.piece(range, &[]);
        } else {
            self.piece(range, spans);
            self.push(" (");
            self.address(address);
            self.push(")");
        }
    }

    /// An address as a link, if it can be one.
    fn address(&mut self, address: &str) {
        let can_be = SCHEMES.iter().any(|scheme| address.len() > scheme.len() && address.starts_with(scheme));
        if can_be && !address.contains(['<', '>', ' ', '\n']) {
            self.push(&format!("<{address}>"));
        } else {
            let escaped: String = address
                .chars()
                .flat_map(|char| MARKS.contains(char).then_some('\\').into_iter().chain([char]))
                .collect();
            self.push(&escaped);
        }
    }

    /// Text that Discord shows as it is written.
    fn escaped(&mut self, range: Range<usize>) {
        let (mut at, end) = (range.start, range.end);
        while at < end {
            let rest = &self.text[at..end];
            let address = address_length(rest).filter(|_| self.addresses_are_links);
            if let Some(length) = address.filter(|_| !self.is_within_word(at)) {
                self.push(&format!("<{}>", &rest[..length]));
                at += length;
                continue;
            }
            let Some(char) = rest.chars().next() else { return };
            let is_scheme = char == ':' && self.text[at..].starts_with("://");
            if MARKS.contains(char)
                || is_scheme
                || self.begins_line(at, char)
                || is_emoji(char, &self.text[at..])
            {
                self.push("\\");
            }
            self.push(char.encode_utf8(&mut [0; 4]));
            at += char.len_utf8();
        }
    }

    fn is_within_word(&self, at: usize) -> bool {
        self.text[..at].ends_with(char::is_alphanumeric)
    }

    /// Whether a character makes a heading, a quote or a list of its line.
    fn begins_line(&self, at: usize, char: char) -> bool {
        if !">#-+.".contains(char) {
            return false;
        }
        let line = self.text[..at].rsplit('\n').next().unwrap_or_default().trim_start();
        // Of `-#` and `1.` the first mark is not the first character, or not the only one.
        let before = line.trim_start_matches(['-', '>', '#', ' ']);
        if char == '.' {
            !line.is_empty() && line.chars().all(|char| char.is_ascii_digit())
        } else {
            before.is_empty()
        }
    }
}

/// The length of the address that a text begins with. What could as well end the sentence is no part of it.
fn address_length(text: &str) -> Option<usize> {
    let scheme = SCHEMES.into_iter().find(|scheme| text.starts_with(scheme))?;
    let end = text.find(|char: char| char.is_whitespace() || "<>".contains(char) || !char.is_ascii_graphic());
    let length = text[..end.unwrap_or(text.len())]
        .trim_end_matches(|char: char| ".,:;!?\"'()[]{}*_~`|\\".contains(char))
        .len();
    (length > scheme.len()).then_some(length)
}

/// Whether a colon begins the name of an emoji, such as `:smile:`.
fn is_emoji(char: char, rest: &str) -> bool {
    let name = rest.get(1..).filter(|_| char == ':').and_then(|rest| rest.split_once(':'));
    name.is_some_and(|(name, _)| !name.is_empty() && !name.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests;
