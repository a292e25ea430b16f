//! A name, an operator, a value: `API_KEY=…`, `"token": "…"`, `password: …`, `--secret …`, `?access_token=…`.
//!
//! Decides by the name, the form of the value, and their positions. Knows nothing about keys that are recognised by their
//! own form.

use crate::extent::{self, Extent, Within};
use crate::headers::{self, Header};
use crate::names::{self, Name, Need};
use crate::text::{Parsed, Span, Text, is_blank, is_quote, is_space, is_word};
use crate::{rules, values};

/// With more blanks than this between operator and value, it is not an assignment.
const MAX_BLANKS: usize = 256;

/// The longest sequence of quotes, brackets and blanks between a name and its operator.
const MAX_GAP: usize = 24;

/// The limits of a type between a name and its value.
const MAX_TYPE_WORDS: usize = 2;
const MAX_TYPE: usize = 64;

const MAX_USER: usize = 64;
const MAX_IN_TAG: usize = 512;

/// An ordinary word of at least this length behind a flag counts as the flag's value.
const MIN_FLAG_WORD: usize = 8;

/// A sequence of characters that may be a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// No letter is before it on its line, so it may be a key of a configuration file.
    pub(crate) begins_line: bool,
    /// The text before this position was hidden already; no rule may read it again.
    pub(crate) hidden_to: usize,
}

/// An operator between a name and a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operator {
    pub(crate) at: usize,
    /// 1, or 3 if it is percent-encoded.
    pub(crate) width: usize,
    pub(crate) is_colon: bool,
}

/// The surroundings of a value.
struct Site {
    name: Name,
    begins_line: bool,
    is_key_quoted: bool,
    /// There are blanks around the operator, or it is a colon, as in prose.
    is_loose: bool,
    is_colon: bool,
    within: Within,
    /// The quote before the name, which closes behind the value (`-H 'x-api-key: …'`).
    enclosing_quote: Option<u8>,
    /// The name has several words (`db.password`, `smtp_password`), unlike a word of prose.
    is_compound: bool,
}

/// Whether `gap`, between a name and an operator, has only quotes and brackets, followed by blanks.
pub(crate) fn is_gap(gap: &[u8]) -> bool {
    let is_mark = |byte: &u8| is_quote(*byte) || matches!(byte, b'\\' | b']' | b')' | b'?' | b'*');
    let marks = gap.iter().take_while(|byte| is_mark(byte)).count();
    gap.len() <= MAX_GAP && gap[marks..].iter().all(|byte| is_blank(*byte))
}

/// Whether `run`, followed by an operator, could have a secret as its value.
pub(crate) fn announces(run: &[u8]) -> bool {
    names::classify(run).is_some() || names::is_signature(run)
}

/// The secret that `operator` gives to `key`.
pub(crate) fn find(text: &Text, key: Key, operator: Operator) -> Parsed<Option<Span>> {
    let run = text.slice(key.start, key.end);
    let gap = text.slice(key.end, operator.at);
    // "[`name`]: target" defines a link
    if !is_gap(gap) || (operator.is_colon && gap.contains(&b']')) {
        return Ok(None);
    }
    let Some((name, in_query)) = name_of(text, run, key, operator) else { return Ok(None) };
    let Some(after) = after_operator(text, operator)? else { return Ok(None) };
    let is_key_quoted = gap.iter().any(|byte| is_quote(*byte));
    let value_at = skip_blanks(text, after, is_key_quoted)?;
    let is_spaced = value_at > after || gap.iter().any(|byte| is_blank(*byte));
    let enclosing_quote =
        text.slice(key.hidden_to, key.start).last().copied().filter(|byte| is_quote(*byte) && !is_key_quoted);
    // `prompt='Password: '`: the quote closes the text with the name. `Pass :meth:` is not an assignment either.
    let is_closed = enclosing_quote.is_some() && text.get(value_at)? == enclosing_quote;
    let is_tight = value_at == after;
    if is_closed || (operator.is_colon && is_tight && gap.last().is_some_and(|byte| is_blank(*byte))) {
        return Ok(None);
    }
    let site = Site {
        name: if is_key_quoted || in_query { name.likelier() } else { name },
        // `passwd:dir` in quotes is a name of two words
        begins_line: if enclosing_quote.is_some() { !is_tight } else { key.begins_line },
        enclosing_quote,
        is_key_quoted,
        is_loose: (is_spaced || operator.is_colon) && !in_query,
        is_colon: operator.is_colon,
        within: match operator.width {
            1 if in_query => Within::Query,
            1 => Within::Text,
            _ => Within::Percent,
        },
        is_compound: run.iter().any(|byte| !byte.is_ascii_alphanumeric()),
    };
    if name.kind == names::AUTHORIZATION || name.kind == names::COOKIE {
        let header =
            Header { kind: name.kind, is_certain: site.begins_line || is_key_quoted, enclosing_quote };
        return headers::find(text, value_at, header);
    }
    value(text, &site, value_at)
}

/// The secret that follows a command line flag (`--password hunter2`) after blanks.
pub(crate) fn find_flag(text: &Text, start: usize, end: usize) -> Parsed<Option<Span>> {
    let Some(name) = names::classify(text.slice(start, end)) else { return Ok(None) };
    if name.kind == names::AUTHORIZATION || name.kind == names::COOKIE {
        return Ok(None);
    }
    let value_at = text.skip_at_most(end, MAX_BLANKS, is_blank)?;
    if value_at == end || matches!(text.get(value_at)?, None | Some(b'-' | b'=' | b':' | b'|')) {
        return Ok(None);
    }
    let bare = extent::bare(text, value_at, Within::Text)?;
    if extent::quoted(text, value_at)?.is_none() && is_prose(text, bare)? {
        return Ok(None);
    }
    after_flag(text, name, value_at)
}

/// The value of a command line flag that announces a secret.
fn after_flag(text: &Text, name: Name, value_at: usize) -> Parsed<Option<Span>> {
    let site = Site {
        name,
        begins_line: false,
        is_key_quoted: false,
        is_loose: false,
        is_colon: false,
        within: Within::Text,
        enclosing_quote: None,
        is_compound: false,
    };
    value(text, &site, value_at)
}

/// The password of `sshpass -p password`, or `-ppassword`.
pub(crate) fn find_sshpass(text: &Text, program_end: usize) -> Parsed<Option<Span>> {
    let flag = text.skip_at_most(program_end, MAX_BLANKS, is_blank)?;
    let Some(name) = names::classify(b"password") else { return Ok(None) };
    if flag == program_end || !text.starts_with(flag, b"-p")? {
        return Ok(None);
    }
    after_flag(text, name, text.skip_at_most(flag + 2, MAX_BLANKS, is_blank)?)
}

/// The password of `login name password …`, as `~/.netrc` has it, in one line or in several.
pub(crate) fn find_netrc(text: &Text, login_end: usize) -> Parsed<Option<Span>> {
    const PASSWORD: &[u8] = b"password";
    let user = text.skip_at_most(login_end, MAX_BLANKS, is_space)?;
    let user_end = text.skip_at_most(user, MAX_USER, |byte| !is_space(byte))?;
    let word = text.skip_at_most(user_end, MAX_BLANKS, is_space)?;
    if user == login_end || word == user_end || !text.starts_with(word, PASSWORD)? {
        return Ok(None);
    }
    // a user name that is a secret is found by its own rule
    if rules::find(text.bytes(), user, user_end).is_some() {
        return Ok(None);
    }
    let value_at = text.skip_at_most(word + PASSWORD.len(), MAX_BLANKS, is_space)?;
    if value_at == word + PASSWORD.len() {
        return Ok(None);
    }
    let password = extent::bare(text, value_at, Within::Text)?;
    Ok(users_password(text, &password))
}

/// The password of `-u name:password`. A user and a group of ordinary words or numbers are kept.
pub(crate) fn find_user(text: &Text, flag_end: usize) -> Parsed<Option<Span>> {
    let start = text.skip_at_most(flag_end, MAX_BLANKS, is_blank)?;
    let name = text.skip_at_most(start, 1, is_quote)?;
    let name_end = text.skip_at_most(name, MAX_USER, |byte| is_word(byte) || b"-.@+$".contains(&byte))?;
    if start == flag_end || name_end == name || text.get(name_end)? != Some(b':') {
        return Ok(None);
    }
    let password = extent::bare(text, name_end + 1, Within::Text)?;
    Ok(users_password(text, &password))
}

/// A password behind a user name, unless it is an ordinary word or number.
fn users_password(text: &Text, &Extent { start, end, .. }: &Extent) -> Option<Span> {
    let value = text.slice(start, end);
    let is_secret = !values::is_harmless(value) && !values::is_plain(value, true);
    is_secret.then_some(Span { start, end, kind: "password" })
}

/// The secret between tags: `<password>hunter2</password>`. `close` is the position of the tag's `>`.
pub(crate) fn find_tag(text: &Text, key: Key, close: usize) -> Parsed<Option<Span>> {
    let is_tag = key.end == close && text.slice(key.hidden_to, key.start).last() == Some(&b'<');
    let name = names::classify(text.slice(key.start, key.end)).filter(|_| is_tag);
    let Some(name) = name else { return Ok(None) };
    let start = close + 1;
    let end = text.skip_at_most(start, MAX_IN_TAG, |byte| byte != b'<' && !is_space(byte))?;
    let value = text.slice(start, end);
    let is_secret = text.starts_with(end, b"</")? && !values::is_harmless(value) && is_secret(&name, value);
    Ok(is_secret.then_some(Span { start, end, kind: name.kind }))
}

/// Whether the word behind a flag is prose, as in `use --password to log in`: a short ordinary word, followed by more words.
fn is_prose(text: &Text, bare: Extent) -> Parsed<bool> {
    let value = text.slice(bare.start, bare.end);
    if value.len() >= MIN_FLAG_WORD
        || !values::is_plain(value, true)
        || extent::is_last_on_line(text, bare.end)?
    {
        return Ok(false);
    }
    let next = text.skip_at_most(bare.end, MAX_BLANKS, is_blank)?;
    Ok(text.get(next)? != Some(b'-'))
}

/// The kind of secret that the run announces, and whether it is a parameter of a query or form.
fn name_of(text: &Text, run: &[u8], key: Key, operator: Operator) -> Option<(Name, bool)> {
    let in_query = !operator.is_colon && key.end == operator.at && is_query_mark(text, key);
    match names::classify(run) {
        Some(name) => Some((name, in_query)),
        None if in_query && names::is_signature(run) => {
            Some((Name { kind: "signature", need: Need::AnyValue, is_env: false }, true))
        }
        None => None,
    }
}

/// Whether a query parameter begins at `start`: after `?` or `&`, also percent-encoded, JSON- or HTML-escaped.
fn is_query_mark(text: &Text, key: Key) -> bool {
    const MARKS: [&[u8]; 8] = [b"?", b"&", b"%3F", b"%3f", b"%26", b"\\u0026", b"&amp;", b"\\u003f"];
    MARKS.iter().any(|mark| text.slice(key.hidden_to, key.start).ends_with(mark))
}

/// The end of the operator; `None` if it is a comparison (`==`) or a part of something else (`::`).
fn after_operator(text: &Text, operator: Operator) -> Parsed<Option<usize>> {
    let after = operator.at + operator.width;
    Ok(match (operator.is_colon, text.get(after)?) {
        (false, Some(b'=' | b'~')) | (true, Some(b':')) => None,
        (false, Some(b'>')) | (true, Some(b'=')) => Some(after + 1),
        _ => Some(after),
    })
}

/// Skips blanks before a value. Only in JSON may the value be on the next line.
fn skip_blanks(text: &Text, after: usize, may_break: bool) -> Parsed<usize> {
    let start = text.skip_at_most(after, 2, |byte| byte == b'*')?;
    text.skip_at_most(start, MAX_BLANKS, |byte| if may_break { is_space(byte) } else { is_blank(byte) })
}

fn value(text: &Text, site: &Site, at: usize) -> Parsed<Option<Span>> {
    if let Some(literal) = extent::literal(text, at)? {
        // `ask('New password: ')`: the quote closes the text with the name
        let closes = matches!(text.get(literal.start)?, Some(b')' | b',' | b';' | b']' | b'}' | b'\n'));
        if closes && site.is_colon && !site.is_key_quoted {
            return Ok(None);
        }
        return Ok(judge_quoted(text, site, literal));
    }
    if matches!(text.get(at)?, None | Some(b'{' | b'[' | b'\n' | b'\r' | b'\\' | b'|' | b'>')) {
        return next_line(text, site, at);
    }
    if site.is_colon
        && site.within == Within::Text
        && let Some(after) = after_type(text, at)?
    {
        let typed = Site { is_colon: false, is_loose: true, ..*site };
        return value(text, &typed, skip_blanks(text, after, false)?);
    }
    let bare = extent::bare(text, at, site.within)?;
    let is_form = text.get(bare.end)? == Some(b'&') && text.get(bare.end + 1)?.is_some_and(is_word);
    if !is_form {
        return judge_bare(text, site, bare);
    }
    judge_bare(text, &Site { name: site.name.likelier(), within: Within::Query, ..*site }, bare)
}

/// The position behind a type: in `password: &'a str = "…"` the value follows the next operator.
fn after_type(text: &Text, at: usize) -> Parsed<Option<usize>> {
    let is_type = |byte: u8| is_word(byte) || b"&'<>:.[]|?*,".contains(&byte);
    let mut end = at;
    for _ in 0..MAX_TYPE_WORDS {
        let word_end = text.skip_at_most(end, MAX_TYPE, is_type)?;
        let next = text.skip_at_most(word_end, 2, is_blank)?;
        if word_end == end || next == word_end {
            return Ok(None);
        }
        if text.get(next)? == Some(b'=') {
            return Ok((text.get(next + 1)? != Some(b'=')).then_some(next + 1));
        }
        end = next;
    }
    Ok(None)
}

/// The value on the next line, indented, as in YAML, also behind `|` or `>`.
fn next_line(text: &Text, site: &Site, at: usize) -> Parsed<Option<Span>> {
    let is_candidate =
        site.is_colon && site.begins_line && !site.is_key_quoted && site.name.need == Need::AnyValue;
    if !is_candidate {
        return Ok(None);
    }
    let mark_end = text.skip_at_most(at, 3, |byte| matches!(byte, b'|' | b'>' | b'-' | b'+'))?;
    let line = text.skip_at_most(mark_end, 2, |byte| byte == b'\r' || is_blank(byte))?;
    let Some(indent) = extent::line_break_end(text, line)? else { return Ok(None) };
    let start = text.skip_at_most(indent, MAX_BLANKS, is_blank)?;
    if start == indent || matches!(text.get(start)?, None | Some(b'\n' | b'\r' | b'\\' | b'-' | b'#')) {
        return Ok(None);
    }
    let bare = extent::bare(text, start, Within::Text)?;
    let is_nested = text.get(bare.end)? == Some(b':');
    let is_alone = !is_nested && extent::is_last_on_line(text, bare.end)?;
    let value = text.slice(bare.start, bare.end);
    let is_secret = is_alone && !values::is_harmless(value) && !values::is_expression(value);
    Ok(is_secret.then(|| hide(site, bare)))
}

fn hide(site: &Site, extent: Extent) -> Span {
    Span { start: extent.start, end: extent.end, kind: site.name.kind }
}

fn judge_quoted(text: &Text, site: &Site, extent: Extent) -> Option<Span> {
    let value = text.slice(extent.start, extent.end);
    let repeats_name = value.eq_ignore_ascii_case(site.name.kind.as_bytes());
    // a private key has a rule of its own
    if values::is_harmless(value) || repeats_name || value.starts_with(b"-----BEGIN") {
        return None;
    }
    is_secret(&site.name, value).then(|| hide(site, extent))
}

/// Whether `value` has the form that its name needs.
pub(crate) fn is_secret(name: &Name, value: &[u8]) -> bool {
    let is_password = name.is_password();
    let is_harmless_number = values::is_number(value) && !(is_password && values::is_pin(value));
    if is_harmless_number || (!is_password && values::is_location(value)) {
        return false;
    }
    match name.need {
        Need::AnyValue => true,
        Need::NotPlain => !values::is_plain(value, is_password),
        Need::Opaque => values::is_opaque(value),
    }
}

fn judge_bare(text: &Text, site: &Site, extent: Extent) -> Parsed<Option<Span>> {
    let value = text.slice(extent.start, extent.end);
    // `NAME=value` without blanks is from a shell or a settings file. There, and in queries, are no expressions of code.
    let may_be_code = site.within == Within::Text && (!site.name.is_env || site.is_loose);
    if values::is_harmless(value)
        || (may_be_code && values::is_expression(value))
        || !is_secret(&site.name, value)
    {
        return Ok(None);
    }
    if !site.is_loose || !values::is_plain(value, site.name.is_password()) {
        return Ok(Some(hide(site, extent)));
    }
    // An ordinary word, which may be prose: hidden only at the position of a configuration value.
    if !site.begins_line {
        return Ok(None);
    }
    if extent::is_last_on_line(text, extent.end)? {
        return Ok(Some(hide(site, extent)));
    }
    // `smtp_password: correct horse battery` is a phrase; `password: the word you log in with` is prose.
    let is_phrase = site.is_compound && site.is_colon && site.name.is_password();
    let end =
        if is_phrase { extent::line_end(text, extent.end, site.enclosing_quote)? } else { extent.start };
    Ok(is_phrase.then(|| hide(site, Extent { end, ..extent })))
}
