//! One pass over a text: finds what is to be hidden, and how far the result is final.
//!
//! The pass goes from run to run (letters, digits, `_`, `-`, `.`) and asks the rules at the few bytes that can matter.
//! On a growing text it stops at the first place that more text could change. A later scan from there gives the same
//! result as one scan of the whole text.

use crate::assignments::{self, Key, Operator};
use crate::mark::mark_end;
use crate::text::{More, Parsed, Span, Text, is_run};
use crate::{headers, pem, rules, urls};

/// The result of a scan.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) spans: Vec<Span>,
    /// Up to where the result is final: the length of the text, unless it still grows.
    pub(crate) settled: usize,
    /// What ends the construct that is open at `settled`, in case it exceeds the bound.
    pub(crate) until: Until,
}

/// Where an oversized undecided construct ends at the latest.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    #[default]
    Space,
    Line,
    PrivateKeyEnd,
}

/// Whether a letter has been seen on the current line. Carried over from what was scanned before.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    has_letter: bool,
}

impl Line {
    /// The state after `bytes`.
    pub(crate) fn after(self, bytes: &[u8]) -> Self {
        let text = Text::new(bytes, true);
        let mut line = self;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at = if byte == b'\\' {
                // a complete text never asks for more
                escape(&text, at).map_or(at + 1, |escape| line.pass_escape(&escape))
            } else {
                line.pass(byte);
                at + 1
            };
        }
        line
    }

    #[inline]
    fn pass(&mut self, byte: u8) {
        if byte == b'\n' || byte == b'\r' {
            self.has_letter = false;
        } else if byte.is_ascii_alphabetic() || byte >= 0x80 {
            self.has_letter = true;
        }
    }

    fn pass_escape(&mut self, escape: &Escape) -> usize {
        if escape.is_line_break {
            self.has_letter = false;
        }
        escape.end
    }
}

/// A backslash (or several: JSON in JSON) and what it escapes.
struct Escape {
    end: usize,
    is_line_break: bool,
}

struct Pass<'a> {
    text: Text<'a>,
    spans: Vec<Span>,
    line: Line,
    last: Option<Key>,
    /// Where the last escape began and ended: right behind it a word may begin.
    escape: Option<(usize, usize)>,
    /// Where the run ends that the pass is in: a run of many keys is measured once.
    run_end: usize,
    until: Until,
    /// Where the construct begins that could not be decided.
    open_from: usize,
}

/// Scans `text` from `from` on; the text before is context. `line` is the state of the line at `from`.
pub(crate) fn scan(text: Text, from: usize, line: Line) -> Found {
    let mut pass = Pass {
        text,
        spans: Vec::new(),
        line,
        last: None,
        escape: None,
        run_end: from,
        until: Until::Space,
        open_from: from,
    };
    match pass.go(from) {
        Ok(settled) => Found { spans: pass.spans, settled, until: Until::Space },
        Err(More) => Found { spans: pass.spans, settled: pass.open_from, until: pass.until },
    }
}

impl Pass<'_> {
    fn go(&mut self, from: usize) -> Parsed<usize> {
        let bytes = self.text.bytes();
        let mut at = from;
        while let Some(&byte) = bytes.get(at) {
            at = match ACTIONS[usize::from(byte)] {
                Action::Pass => at + 1,
                Action::Line => {
                    self.line.pass(byte);
                    at + 1
                }
                Action::Run => self.run(at)?,
                Action::TagEnd => self.tag_end(at)?,
                Action::Operator => self.operator(at, 1, byte == b':')?,
                Action::Backslash => self.backslash(at)?,
                Action::Percent => self.percent(at)?,
                Action::Plus => self.plus(at)?,
                Action::Bracket => self.bracket(at)?,
            };
        }
        self.open_name(bytes)?;
        self.open_escape(bytes.len())?;
        Ok(bytes.len())
    }

    /// Keeps an escape at the end of a growing text open, since the text after it depends on it.
    fn open_escape(&mut self, end: usize) -> Parsed<()> {
        if let Some((start, _)) = self.escape.filter(|(_, escape_end)| *escape_end == end) {
            self.open(start, Until::Space);
            self.text.get(end)?;
        }
        Ok(())
    }

    /// A name at the very end may still get its operator.
    fn open_name(&mut self, bytes: &[u8]) -> Parsed<()> {
        if let Some(key) = self.last
            && assignments::is_gap(&bytes[key.end..])
            && assignments::announces(&bytes[key.start..key.end])
        {
            self.open(key.start, Until::Space);
            self.text.get(bytes.len())?;
        }
        Ok(())
    }

    /// Marks where the text is undecided, in case a rule asks for more.
    fn open(&mut self, from: usize, until: Until) {
        self.open_from = from;
        self.until = until;
    }

    /// As `open`, but with the name to which `at` may still belong.
    fn open_with_name(&mut self, at: usize) {
        let name = self.last.filter(|key| assignments::is_gap(self.text.slice(key.end, at)));
        self.open(name.map_or(at, |key| key.start), Until::Space);
    }

    fn hide(&mut self, span: Span) -> usize {
        self.line = self.line.after(self.text.slice(span.start, span.end));
        self.last = None;
        // a complete text never asks for more
        let is_hidden_already = mark_end(&Text::new(self.text.slice(span.start, span.end), true), 0)
            .is_ok_and(|end| end == span.end - span.start);
        if !is_hidden_already {
            self.spans.push(span);
        }
        span.end
    }

    fn run(&mut self, start: usize) -> Parsed<usize> {
        self.open(start, Until::Space);
        let end = if start < self.run_end { self.run_end } else { self.text.skip(start, is_run)? };
        self.run_end = end;
        let bytes = self.text.bytes();
        let run = &bytes[start..end];
        let begins_line = !self.line.has_letter;
        self.line.has_letter |= run.iter().any(u8::is_ascii_alphabetic);
        let hidden_to = self.spans.last().map_or(0, |span| span.end);
        self.last = Some(Key { start, end, begins_line, hidden_to });
        if let Some(span) = rules::find(bytes, start, end) {
            return Ok(self.hide(span));
        }
        let span = match run {
            _ if run.ends_with(b"-----BEGIN") => {
                self.open(start, Until::PrivateKeyEnd);
                pem::find(&self.text, end)?
            }
            b"-u" | b"--user" => {
                self.open(start, Until::Line);
                assignments::find_user(&self.text, end)?
            }
            b"sshpass" => {
                self.open(start, Until::Line);
                assignments::find_sshpass(&self.text, end)?
            }
            b"login" => {
                self.open(start, Until::Space);
                assignments::find_netrc(&self.text, end)?
            }
            [b'-', b'-', name, ..] if name.is_ascii_alphabetic() => {
                self.open(start, Until::Line);
                assignments::find_flag(&self.text, start, end)?
            }
            _ if run.eq_ignore_ascii_case(b"bearer") => headers::bearer(&self.text, end)?,
            _ => None,
        };
        Ok(span.map_or(end, |span| self.hide(span)))
    }

    fn operator(&mut self, at: usize, width: usize, is_colon: bool) -> Parsed<usize> {
        let Some(key) = self.last else { return Ok(at + width) };
        self.open(key.start, Until::Space);
        let is_adjacent = key.end == at;
        if is_colon && is_adjacent {
            if self.text.starts_with(at + width, b"//")? {
                let scheme = self.text.slice(key.start, key.end);
                let span = urls::find(&self.text, scheme, at + width + 2)?;
                return Ok(span.map_or(at + width, |span| self.hide(span)));
            }
            if let Some(span) = self.telegram(key, at + width)? {
                return Ok(self.hide(span));
            }
        }
        self.open(key.start, Until::Line);
        let found = assignments::find(&self.text, key, Operator { at, width, is_colon })?;
        self.last = None;
        Ok(found.map_or(at + width, |span| self.hide(span)))
    }

    fn tag_end(&mut self, at: usize) -> Parsed<usize> {
        let Some(key) = self.last else { return Ok(at + 1) };
        self.open(key.start, Until::Line);
        let found = assignments::find_tag(&self.text, key, at)?;
        Ok(found.map_or(at + 1, |span| self.hide(span)))
    }

    /// A bot token of Telegram: 8 to 10 digits, a colon, at least 30 characters that are not a mere hash.
    fn telegram(&self, key: Key, after: usize) -> Parsed<Option<Span>> {
        let run = self.text.slice(key.start, key.end);
        let digits = run.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let before = &run[..run.len() - digits];
        let begins_well =
            before.ends_with(b"bot") || before.last().is_none_or(|byte| !byte.is_ascii_alphabetic());
        if !(8..=10).contains(&digits) || !begins_well {
            return Ok(None);
        }
        let end =
            self.text.skip(after, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))?;
        let secret = self.text.slice(after, end);
        let is_hash = secret.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f' | b'-'));
        let is_token = secret.len() >= 30 && !is_hash;
        Ok(is_token.then_some(Span { start: key.end - digits, end, kind: "telegram-token" }))
    }

    /// Text inside JSON inside JSON: what follows an escape begins anew, and `\n` begins a line.
    fn backslash(&mut self, at: usize) -> Parsed<usize> {
        self.open_with_name(at);
        let escape = escape(&self.text, at)?;
        self.escape = Some((at, escape.end));
        Ok(self.line.pass_escape(&escape))
    }

    /// A percent-encoded byte is a boundary; `%3D` and `%3A` are operators.
    fn percent(&mut self, at: usize) -> Parsed<usize> {
        self.open_with_name(at);
        let is_hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
        let (high, low) = (self.text.get(at + 1)?, self.text.get(at + 2));
        if !is_hex(high) || !is_hex(low?) {
            return Ok(at + 1);
        }
        self.line = self.line.after(self.text.slice(at, at + 3));
        self.escape = Some((at, at + 3));
        match (high, low?.map(|byte| byte.to_ascii_uppercase())) {
            (Some(b'3'), Some(b'D')) => self.operator(at, 3, false),
            (Some(b'3'), Some(b'A')) => self.operator(at, 3, true),
            _ => Ok(at + 3),
        }
    }

    /// A telephone number as E.164 has it: `+`, then 8 to 15 digits.
    fn plus(&mut self, at: usize) -> Parsed<usize> {
        // restarted from the escape, so that a second look knows it too
        let escape = self.escape.filter(|(_, end)| *end == at);
        let is_after_escape = escape.is_some();
        self.open(escape.map_or(at, |(start, _)| start), Until::Space);
        let joins = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'=' | b'-');
        let is_after_hidden = self.spans.last().is_some_and(|span| span.end == at);
        if !is_after_hidden
            && !is_after_escape
            && self.text.before(at).is_some_and(|byte| joins(byte) && byte != b'=')
        {
            return Ok(at + 1);
        }
        let end = self.text.skip_at_most(at + 1, 16, |byte| byte.is_ascii_digit())?;
        let digits = end - at - 1;
        let is_fraction = self.text.get(end)? == Some(b'.')
            && self.text.get(end + 1)?.is_some_and(|byte| byte.is_ascii_digit());
        let ends_well = !is_fraction && self.text.get(end)?.is_none_or(|byte| !joins(byte));
        let is_phone = (8..=15).contains(&digits) && ends_well && self.text.get(at + 1)? != Some(b'0');
        if !is_phone {
            return Ok(at + 1);
        }
        Ok(self.hide(Span { start: at, end, kind: "phone-number" }))
    }

    /// Skips our own marks, so that redacting twice changes nothing.
    fn bracket(&mut self, at: usize) -> Parsed<usize> {
        self.open(at, Until::Space);
        let after = mark_end(&self.text, at)?;
        if after > at {
            self.line.has_letter = true;
            self.last = None;
            return Ok(after);
        }
        Ok(at + 1)
    }
}

fn escape(text: &Text, at: usize) -> Parsed<Escape> {
    let letter = text.skip(at, |byte| byte == b'\\')?;
    let plain = |end| Ok(Escape { end, is_line_break: false });
    match text.get(letter)? {
        // `\rk_live_…` and `\npm_…` may be a backslash before a key: the key wins
        Some(b'n' | b'r' | b't' | b'b' | b'f') if is_key(text, letter)? => plain(letter),
        Some(b'n' | b'r') => Ok(Escape { end: letter + 1, is_line_break: true }),
        Some(b't' | b'b' | b'f' | b'v') => plain(letter + 1),
        Some(b'e') => plain(colour_end(text, letter + 1)?.unwrap_or(letter)),
        Some(b'u') => hex_escape(text, letter, 4).map(|end| Escape { end, is_line_break: false }),
        Some(b'x') => hex_escape(text, letter, 2).map(|end| Escape { end, is_line_break: false }),
        Some(b'0') if text.starts_with(letter, b"033")? => {
            plain(colour_end(text, letter + 3)?.unwrap_or(letter + 3))
        }
        _ => plain(letter),
    }
}

fn is_key(text: &Text, at: usize) -> Parsed<bool> {
    let end = text.skip_at_most(at, 64, is_run)?;
    Ok(end - at >= rules::SHORTEST_KEY && rules::key_at(text.bytes(), at, end, &mut None).is_some())
}

/// `u001b` or `x1b` with a terminal colour behind it, or any other code; `letter` itself where it is none.
fn hex_escape(text: &Text, letter: usize, digits: usize) -> Parsed<usize> {
    let end = text.skip_at_most(letter + 1, digits, |byte| byte.is_ascii_hexdigit())?;
    if end != letter + 1 + digits {
        return Ok(letter);
    }
    Ok(colour_end(text, end)?.unwrap_or(end))
}

/// The end of `[31m` and the like, left over from an escaped escape character.
fn colour_end(text: &Text, at: usize) -> Parsed<Option<usize>> {
    if text.get(at)? != Some(b'[') {
        return Ok(None);
    }
    let end = text.skip_at_most(at + 1, 16, |byte| byte.is_ascii_digit() || matches!(byte, b';' | b'?'))?;
    Ok(matches!(text.get(end)?, Some(b'm' | b'K' | b'J' | b'H')).then_some(end + 1))
}

#[derive(Clone, Copy)]
enum Action {
    Pass,
    Line,
    Run,
    TagEnd,
    Operator,
    Backslash,
    Percent,
    Plus,
    Bracket,
}

/// What to do at each byte: most need nothing.
static ACTIONS: [Action; 256] = {
    let mut actions = [Action::Line; 256];
    let mut value: u8 = 0;
    while value < 128 {
        actions[value as usize] = match value {
            b'=' | b':' => Action::Operator,
            b'>' => Action::TagEnd,
            b'\\' => Action::Backslash,
            b'%' => Action::Percent,
            b'+' => Action::Plus,
            b'[' => Action::Bracket,
            b'\n' | b'\r' => Action::Line,
            b'_' | b'-' | b'.' => Action::Run,
            _ if value.is_ascii_alphanumeric() => Action::Run,
            _ => Action::Pass,
        };
        value += 1;
    }
    actions
};
