//! A text with its formatting beside it, for platforms that take the two apart. Made from a model's Markdown: the marks are
//! taken out, and everything else stays as it was written. Knows no platform.
//!
//! A parser of Markdown says where marks are. What might be meant literally stays: underscores (`__init__.py`), stars in
//! paths (`src/**/*.rs`) and in formulas, HTML, and references.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};
use redact::plain::plain;
use serde::{Deserialize, Serialize};

use super::Limit;

/// The most cells of a table that is set in columns, and how much longer than its source it may get.
const MOST_CELLS: usize = 1_000;
const MOST_GROWTH: usize = 4;
/// The longest address that a link hides behind its text.
const MOST_ADDRESS_BYTES: usize = 2_000;

/// How a part of a text is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// Bold.
    Bold,
    /// Italic.
    Italic,
    /// Struck through.
    Struck,
    /// Code within a line.
    Code,
    /// Code in lines of its own.
    Block {
        /// The language, if it is named.
        language: Option<String>,
    },
    /// A link to this address.
    Link(String),
}

impl Style {
    /// Whether the text is code, in which no other style applies.
    pub fn is_code(&self) -> bool {
        matches!(self, Self::Code | Self::Block { .. })
    }
}

/// A style and the bytes that it applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The bytes.
    pub range: Range<usize>,
    /// The style.
    pub style: Style,
}

/// A text with its formatting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Styled {
    /// The text without marks.
    pub text: String,
    /// The formatting, ordered by its beginning.
    pub spans: Vec<Span>,
}

impl From<&str> for Styled {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), spans: Vec::new() }
    }
}

impl Styled {
    /// A text with one style.
    pub fn new(text: &str, style: Style) -> Self {
        let spans = if text.is_empty() { Vec::new() } else { vec![Span { range: 0..text.len(), style }] };
        Self { text: text.to_owned(), spans }
    }

    /// Reads Markdown.
    pub fn markdown(source: &str) -> Self {
        Marks::of(source).taken_out()
    }

    /// Appends a text.
    pub fn push(&mut self, more: impl Into<Self>) {
        let (more, at) = (more.into(), self.text.len());
        self.text.push_str(&more.text);
        self.spans.extend(
            more.spans
                .into_iter()
                .map(|span| Span { range: span.range.start + at..span.range.end + at, style: span.style }),
        );
    }

    /// Joins texts that are not empty.
    pub fn join(all: impl IntoIterator<Item = Self>, between: &str) -> Self {
        let mut joined = Self::default();
        for one in all.into_iter().filter(|one| !one.text.is_empty()) {
            if !joined.text.is_empty() {
                joined.push(between);
            }
            joined.push(one);
        }
        joined
    }

    /// The text with a note below it. Only the text is cut to the limit.
    #[must_use]
    pub fn with_note(&self, note: &str, limit: Limit) -> Self {
        let note = limit.prefix(note, limit.max());
        let room = limit.max().saturating_sub(limit.length(note) + 2);
        let text = self.slice(0..limit.prefix(&self.text, room).len()).trim_end();
        Self::join([text, Self::from(note)], "\n\n")
    }

    /// The same without white space at its end.
    #[must_use]
    pub fn trim_end(&self) -> Self {
        self.slice(0..self.text.trim_end().len())
    }

    /// A part of the text with its formatting.
    fn slice(&self, part: Range<usize>) -> Self {
        let spans = self.spans.iter().filter_map(|span| {
            let (start, end) = (span.range.start.max(part.start), span.range.end.min(part.end));
            let range = start.checked_sub(part.start)?..end.checked_sub(part.start)?;
            (range.start < range.end).then(|| Span { range, style: span.style.clone() })
        });
        Self { text: self.text[part.clone()].to_owned(), spans: spans.collect() }
    }

    /// The text in pieces that follow one another, each with the spans that cover it.
    pub fn pieces(&self) -> Vec<(Range<usize>, Vec<&Span>)> {
        let mut cuts: Vec<usize> =
            self.spans.iter().flat_map(|span| [span.range.start, span.range.end]).collect();
        cuts.extend([0, self.text.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let covers = |span: &&Span, piece: &Range<usize>| {
            span.range.start <= piece.start && piece.end <= span.range.end
        };
        let pieces = cuts.windows(2).map(|pair| pair[0]..pair[1]);
        pieces
            .map(|piece| (piece.clone(), self.spans.iter().filter(|span| covers(span, &piece)).collect()))
            .collect()
    }

    /// Whether there is anything to see.
    pub fn is_visible(&self) -> bool {
        !plain(&self.text).trim().is_empty()
    }

    /// Splits the text into parts that fit, in order, at ends of paragraphs, lines or words where possible; at most `most_parts`,
    /// the rest is left out. A part has at most `most_spans` spans. Code that is split is code in both parts. Only line breaks at
    /// a cut are left out.
    pub fn split(&self, limit: Limit, most_spans: usize, most_parts: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut from = 0;
        while from < self.text.len() && parts.len() < most_parts {
            let rest = &self.text[from..];
            let fits = limit.prefix(rest, limit.max()).len();
            let begun =
                self.spans.iter().filter(|span| span.range.end > from && span.range.start < from + fits);
            let styled = begun.map(|span| span.range.start.saturating_sub(from)).nth(most_spans);
            let most = styled.filter(|length| *length > 0).unwrap_or(fits);
            let length = if most == rest.len() { most } else { cut(rest, most) };
            let part = rest[..length].trim_end_matches('\n');
            parts.push(self.slice(from..from + part.len()));
            from += length;
        }
        parts.retain(|part| !part.text.is_empty());
        parts
    }
}

/// Where to cut a text within its first `most` bytes: behind a paragraph, a line or a word in the second half, or else between
/// two characters that people see as two.
fn cut(text: &str, most: usize) -> usize {
    let head = &text[..most];
    let behind = |mark: &str| head.rfind(mark).map(|at| at + mark.len()).filter(|at| *at > most / 2);
    if let Some(at) = behind("\n\n").or_else(|| behind("\n")).or_else(|| behind(" ")) {
        return at;
    }
    let is_seam = |at: &usize| {
        let (before, behind) = (text[..*at].chars().next_back(), text[*at..].chars().next());
        !before.is_some_and(is_joiner) && !behind.is_some_and(|char| is_joiner(char) || joins_the_last(char))
    };
    let seams = head.char_indices().map(|(at, _)| at).rev().take_while(|at| *at > most / 2);
    // A character at most: a text without any seam is cut all the same.
    std::iter::once(most)
        .chain(seams)
        .find(is_seam)
        .unwrap_or(most)
        .max(text.chars().next().map_or(1, char::len_utf8))
}

fn is_joiner(char: char) -> bool {
    matches!(char, '\u{200c}' | '\u{200d}')
}

/// Whether a character changes the one before it: a combining mark, a variant, a skin tone, the second half of a flag.
fn joins_the_last(char: char) -> bool {
    matches!(char,
        '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}'
        | '\u{900}'..='\u{903}' | '\u{93a}'..='\u{94f}' | '\u{e31}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}'
        | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}' | '\u{1f1e6}'..='\u{1f1ff}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}')
}

/// The bytes of the cells of a table's row.
type Row = Vec<Range<usize>>;

/// The marks in a text: what to take out, and what it means.
struct Marks<'a> {
    source: &'a str,
    /// What is taken out or replaced, and by what.
    edits: Vec<(Range<usize>, String)>,
    /// The styles, in bytes of the source.
    spans: Vec<Span>,
    /// The links that are open: the bytes of each, its address, and where its text ends.
    links: Vec<(Range<usize>, String, usize)>,
    /// The code block that is open: its bytes, and those of its lines.
    block: Option<(Range<usize>, Vec<Range<usize>>)>,
    /// The table that is open: its bytes, and those of the cells of each row.
    table: Option<(Range<usize>, Vec<Row>)>,
    /// Where the last plain text ended.
    text_end: usize,
}

impl<'a> Marks<'a> {
    fn of(source: &'a str) -> Self {
        let mut marks = Self {
            source,
            edits: Vec::new(),
            spans: Vec::new(),
            links: Vec::new(),
            block: None,
            table: None,
            text_end: 0,
        };
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        for (event, range) in Parser::new_ext(source, options).into_offset_iter() {
            marks.note(event, range);
        }
        marks
    }

    fn note(&mut self, event: Event<'_>, range: Range<usize>) {
        if let Some((whole, _, text_end)) = self.links.last_mut()
            && range != *whole
        {
            *text_end = range.end.max(*text_end);
        }
        match event {
            Event::Start(Tag::Strong) => self.emphasis(&range, "**", Style::Bold),
            Event::Start(Tag::Emphasis) => self.emphasis(&range, "*", Style::Italic),
            Event::Start(Tag::Strikethrough) => self.emphasis(&range, "~~", Style::Struck),
            Event::Code(_) => self.code(&range),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => self.block = Some((range, Vec::new())),
            Event::End(TagEnd::CodeBlock) => self.code_block(),
            Event::Start(Tag::Heading { .. }) => self.heading(&range),
            Event::Start(Tag::Item) => self.bullet(range.start),
            Event::Start(
                Tag::Link { link_type: LinkType::Inline, dest_url, .. }
                | Tag::Image { link_type: LinkType::Inline, dest_url, .. },
            ) => {
                let start = range.start;
                self.links.push((range, dest_url.into_string(), start));
            }
            Event::End(TagEnd::Link | TagEnd::Image)
                if self.links.last().is_some_and(|link| link.0 == range) =>
            {
                self.link();
            }
            Event::Start(Tag::Table(_)) => self.table = Some((range, Vec::new())),
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                self.table.iter_mut().for_each(|(_, rows)| rows.push(Vec::new()));
            }
            Event::Start(Tag::TableCell) => {
                self.table
                    .iter_mut()
                    .filter_map(|(_, rows)| rows.last_mut())
                    .for_each(|row| row.push(range.clone()));
            }
            Event::End(TagEnd::Table) => self.lay_out_table(),
            Event::Text(_) => self.plain(range),
            _ => {}
        }
    }

    fn take_out(&mut self, range: Range<usize>) {
        self.replace(range, String::new());
    }

    fn replace(&mut self, range: Range<usize>, by: String) {
        if range.start < range.end {
            self.edits.push((range, by));
        }
    }

    fn style(&mut self, range: Range<usize>, style: Style) {
        if range.start < range.end {
            self.spans.push(Span { range, style });
        }
    }

    fn emphasis(&mut self, range: &Range<usize>, mark: &str, style: Style) {
        let inner = range.start + mark.len()..range.end.saturating_sub(mark.len());
        let whole = &self.source[range.clone()];
        if inner.start < inner.end
            && whole.starts_with(mark)
            && whole.ends_with(mark)
            && self.stands_alone(range, &inner)
        {
            self.take_out(range.start..inner.start);
            self.take_out(inner.end..range.end);
            self.style(inner, style);
        }
    }

    /// Whether marks are no part of a word, a path or a formula.
    fn stands_alone(&self, range: &Range<usize>, inner: &Range<usize>) -> bool {
        let is_part = |char: char| char.is_ascii_alphanumeric() || "/\\_".contains(char);
        let (before, behind) = (&self.source[..range.start], &self.source[range.end..]);
        let inner = &self.source[inner.clone()];
        !before.ends_with(|char: char| is_part(char) || char == '.')
            && !behind.starts_with(is_part)
            && !inner.starts_with(['/', '.'])
            && !inner.ends_with('/')
    }

    fn code(&mut self, range: &Range<usize>) {
        let whole = &self.source[range.clone()];
        let ticks = whole.len() - whole.trim_start_matches('`').len();
        let mut inner = range.start + ticks..range.end.saturating_sub(ticks);
        let Some(text) = self.source.get(inner.clone()).filter(|_| ticks > 0) else { return };
        // A blank on either side keeps the marks apart from code that begins or ends with one.
        if text.len() > 2 && text.starts_with(' ') && text.ends_with(' ') && text.contains('`') {
            inner = inner.start + 1..inner.end - 1;
        }
        self.take_out(range.start..inner.start);
        self.take_out(inner.end..range.end);
        self.style(inner, Style::Code);
    }

    fn code_block(&mut self) {
        let Some((whole, lines)) = self.block.take() else { return };
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return };
        // The break before the closing fence belongs to the fence, the one behind it to the text.
        let end = last.start + self.source[last.clone()].trim_end_matches(['\n', '\r']).len();
        let behind = whole.start + self.source[whole.clone()].trim_end_matches(['\n', '\r']).len();
        if end <= first.start || self.source[first.start..end].trim().is_empty() {
            return;
        }
        let fence = &self.source[whole.start..first.start];
        let words = fence.trim_start_matches(['`', '~']);
        // Words other than a language are part of what was written.
        let language = Some(words.trim()).filter(|word| !word.is_empty());
        let is_language = language
            .is_none_or(|word| word.chars().all(|char| char.is_alphanumeric() || "+-#._".contains(char)));
        let marks_end = if is_language { first.start } else { first.start - words.len() };
        let style = Style::Block { language: language.filter(|_| is_language).map(str::to_owned) };
        self.take_out(whole.start..marks_end);
        for pair in lines.windows(2) {
            self.take_out(pair[0].end..pair[1].start);
        }
        self.take_out(end..behind.max(end));
        self.style(first.start..end, style);
    }

    fn heading(&mut self, range: &Range<usize>) {
        let line = self.source[range.clone()].trim_end();
        let body = line.trim_start_matches('#').trim_start_matches([' ', '\t']);
        let start = range.start + line.len() - body.len();
        if !line.starts_with('#') || body.is_empty() {
            return;
        }
        let without = body.trim_end_matches('#');
        let body = if without.ends_with([' ', '\t']) { without.trim_end() } else { body };
        let end = start + body.len();
        self.take_out(range.start..start);
        self.take_out(end..range.start + line.len());
        self.style(start..end, Style::Bold);
    }

    fn bullet(&mut self, at: usize) {
        if self.source[at..].starts_with(['-', '*', '+']) {
            self.replace(at..at + 1, "•".to_owned());
        }
    }

    fn link(&mut self) {
        let Some((whole, address, text_end)) = self.links.pop() else { return };
        let text_start = whole.start + if self.source[whole.start..].starts_with('!') { 2 } else { 1 };
        let is_inner = text_start < text_end && self.source[text_end..whole.end].starts_with("](");
        let text = if is_inner { &self.source[text_start..text_end] } else { return };
        let leads_to_web = ["https://", "http://", "mailto:"].iter().any(|start| address.starts_with(start));
        let is_hidden = leads_to_web && address.len() <= MOST_ADDRESS_BYTES && !names_another(text, &address);
        self.take_out(whole.start..text_start);
        if is_hidden {
            self.take_out(text_end..whole.end);
            self.style(text_start..text_end, Style::Link(address));
        } else if text == address {
            self.take_out(text_end..whole.end);
        } else {
            self.replace(text_end..text_end + 2, " (".to_owned());
        }
    }

    fn plain(&mut self, range: Range<usize>) {
        if let Some((_, lines)) = &mut self.block {
            lines.push(range);
            return;
        }
        let escaped = self.source[range.start..].starts_with(['*', '_', '`']);
        let mark = range.start.saturating_sub(1);
        if escaped && mark >= self.text_end && self.source[..range.start].ends_with('\\') {
            self.take_out(mark..range.start);
        }
        self.text_end = range.end;
    }

    /// Sets a table in columns of one width, as code.
    fn lay_out_table(&mut self) {
        let Some((whole, rows)) = self.table.take() else { return };
        let whole = whole.start..whole.start + self.source[whole].trim_end().len();
        let is_inside = |range: &Range<usize>| range.start >= whole.start && range.end <= whole.end;
        let mut inner: Vec<_> = self.edits.iter().filter(|(edit, _)| is_inside(edit)).cloned().collect();
        inner.sort_by_key(|(edit, _)| edit.start);
        let cell = |range: &Range<usize>| {
            let first = inner.partition_point(|(edit, _)| edit.start < range.start);
            let own = inner[first..].iter().take_while(|(edit, _)| edit.end <= range.end);
            Edited::new(self.source, range.clone(), own.cloned().collect()).text.trim().replace("\\|", "|")
        };
        let is_small = rows.iter().map(Vec::len).sum::<usize>() <= MOST_CELLS;
        let table = (is_small && self.is_complete(&whole, &rows))
            .then(|| {
                columns(
                    &rows.iter().map(|row| row.iter().map(cell).collect()).collect::<Vec<_>>(),
                    whole.len(),
                )
            })
            .flatten();
        self.edits.retain(|(edit, _)| !is_inside(edit));
        self.spans.retain(|span| !is_inside(&span.range));
        self.style(whole.clone(), Style::Block { language: None });
        if let Some(table) = table {
            self.edits.push((whole, table));
        }
    }

    /// Whether these cells are all of a table. The parser leaves out what stands behind the last column.
    fn is_complete(&self, whole: &Range<usize>, rows: &[Row]) -> bool {
        let mut at = whole.start;
        let mut between = String::new();
        for cell in rows.iter().flatten() {
            between.push_str(self.source.get(at..cell.start).unwrap_or_default());
            at = cell.end.max(at);
        }
        between.push_str(self.source.get(at..whole.end).unwrap_or_default());
        between.chars().all(|char| char.is_whitespace() || "|:->".contains(char))
    }

    fn taken_out(self) -> Styled {
        let edited = Edited::new(self.source, 0..self.source.len(), self.edits);
        let mut spans: Vec<Span> = self
            .spans
            .into_iter()
            .filter_map(|span| {
                let range = edited.start(span.range.start)..edited.end(span.range.end);
                (range.start < range.end).then_some(Span { range, style: span.style })
            })
            .collect();
        // The outer one first.
        spans.sort_by_key(|span| (span.range.start, usize::MAX - span.range.end, span.style.is_code()));
        Styled { text: edited.text, spans }.trim_end()
    }
}

/// Whether the text of a link looks like an address that the link does not lead to.
fn names_another(text: &str, address: &str) -> bool {
    let host = |text: &str| {
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        text.split(['/', '?', '#', ':']).next().unwrap_or_default().trim_start_matches("www.").to_lowercase()
    };
    let named = host(text.trim());
    named.contains('.') && !named.contains(char::is_whitespace) && named != host(address)
}

/// The rows in columns, with a line below the first. None if that would be much longer than the source.
fn columns(rows: &[Vec<String>], source_bytes: usize) -> Option<String> {
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..).map_while(width).collect();
    if widths.iter().sum::<usize>() * (rows.len() + 1) > source_bytes * MOST_GROWTH {
        return None;
    }
    let line = |cells: Vec<String>| {
        let padded = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width.saturating_sub(cell.chars().count()))));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines: Vec<String> = rows.iter().map(|row| line(row.clone())).collect();
    lines.insert(1.min(lines.len()), line(widths.iter().map(|width| "─".repeat(*width)).collect()));
    Some(lines.join("\n"))
}

/// A part of a text with edits carried out.
struct Edited {
    text: String,
    /// For each edit: its bytes in the source, and in the text.
    moves: Vec<(Range<usize>, Range<usize>)>,
    /// The first byte of the source.
    from: usize,
}

impl Edited {
    fn new(source: &str, part: Range<usize>, mut edits: Vec<(Range<usize>, String)>) -> Self {
        edits.sort_by_key(|(range, _)| (range.start, range.end));
        let (mut text, mut moves, mut at) = (String::with_capacity(part.len()), Vec::new(), part.start);
        for (range, by) in edits {
            // Marks never overlap. If they did, the later one would stay as it was written.
            if range.start < at {
                continue;
            }
            text.push_str(&source[at..range.start]);
            let start = text.len();
            text.push_str(&by);
            at = range.end;
            moves.push((range, start..text.len()));
        }
        text.push_str(&source[at..part.end]);
        Self { text, moves, from: part.start }
    }

    /// Where a span that begins at this byte of the source begins in the text.
    fn start(&self, at: usize) -> usize {
        let behind = self.moves.partition_point(|(range, _)| range.end <= at);
        match self.moves.get(behind) {
            Some((range, moved)) if range.start <= at => moved.start,
            _ => self.behind(behind, at),
        }
    }

    /// Where a span that ends at this byte of the source ends in the text.
    fn end(&self, at: usize) -> usize {
        let behind = self.moves.partition_point(|(range, _)| range.end <= at && range.start < at);
        self.behind(behind, at)
    }

    fn behind(&self, edits: usize, at: usize) -> usize {
        match edits.checked_sub(1).and_then(|last| self.moves.get(last)) {
            Some((range, moved)) => moved.end + at - range.end,
            None => at - self.from,
        }
    }
}

#[cfg(test)]
mod tests;
