//! Classifies values: a generated secret, an ordinary word, a reference, an expression of code.
//!
//! Decides by the value alone. Knows nothing about its position in the text.

use std::borrow::Cow;

use crate::mark::{SENTINEL_START, mark_end};
use crate::names;
use crate::text::{Text, is_run, is_space, is_word};

const MAX_SCHEME: usize = 12;
const MIN_PIN: usize = 4;

/// Letters of this length are not a word.
const MIN_WORDLESS: usize = 24;

/// A longer number is not a count; it may be a private key.
const MAX_NUMBER: usize = 24;

/// Whether there is nothing to hide: the value is empty, hidden already, or a reference to a secret elsewhere.
pub(crate) fn is_harmless(value: &[u8]) -> bool {
    value.is_empty() || is_hidden_already(value) || is_reference(value) || is_constant(value)
}

/// `***`, `xxxx`, `••••`, `[redacted:x]`, `<redacted>`. A partly hidden value does not count.
fn is_hidden_already(value: &[u8]) -> bool {
    let first = value[0];
    let is_filler = matches!(first, b'*' | b'x' | b'X' | b'.' | b'-' | b'_' | b'#');
    // repetitions of one character of three bytes
    let is_wide_filler =
        first == 0xe2 && value.chunks(3).all(|character| character == &value[..3.min(value.len())]);
    (is_filler && value.len() >= 3 && value.iter().all(|byte| *byte == first))
        || is_wide_filler
        || is_mark(value)
        || without_sentinels(value).iter().all(|byte| *byte == b'-')
}

/// Whether the value consists of redaction marks, ours or of another program.
fn is_mark(value: &[u8]) -> bool {
    let says_so = |mark: &[u8]| {
        mark.get(..8).is_some_and(|word| word.eq_ignore_ascii_case(b"redacted"))
            && mark.iter().all(|byte| is_run(*byte) || matches!(byte, b' ' | b':'))
    };
    if says_so(value) {
        return true;
    }
    let mut parts = value.split(|byte| matches!(byte, b']' | b'>'));
    let is_last_closed = matches!(value.last(), Some(b']' | b'>'));
    let count = value.iter().filter(|byte| matches!(byte, b']' | b'>')).count();
    let is_open_mark = |part: &[u8]| matches!(part.first(), Some(b'[' | b'<')) && says_so(&part[1..]);
    // a bare value loses its last bracket
    (is_last_closed && parts.by_ref().take(count).all(is_open_mark)) || (count == 0 && is_open_mark(value))
}

/// `$VAR`, `${…}`, `$(…)`, `{{ … }}`, `{name}`, `<your key>`, `%VAR%`, `os.getenv(…)`, `process.env.X` …
pub(crate) fn is_reference(value: &[u8]) -> bool {
    match value {
        [b'$' | b'#' | b'@' | b'%', b'{' | b'(', ..]
        | [b'{', b'{', ..]
        | [b'{', .., b'}']
        | [b'<', .., b'>'] => true,
        [b'$', name @ ..] => is_variable(name),
        [b'[', name @ .., b']'] => name.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_'),
        [b'%', name @ .., b'%'] => !name.is_empty() && name.iter().all(|byte| is_word(*byte)),
        [b'%', format] => format.is_ascii_alphabetic(),
        _ => LOOKUPS.iter().any(|lookup| value.strip_prefix(*lookup).is_some_and(is_rest_of_lookup)),
    }
}

/// Whether this can follow a lookup in code. `config.2024!` in quotes is a password, not a lookup.
fn is_rest_of_lookup(rest: &[u8]) -> bool {
    rest.first().is_none_or(|byte| !byte.is_ascii_digit())
        && rest.iter().all(|byte| is_run(*byte) || b"()[]{}'\"`,: ?/;\\".contains(byte))
}

/// A variable has capitals only, or a name of a secret, or is the start of a path (`$config->x`). Other text behind a
/// dollar sign may be a password.
fn is_variable(name: &[u8]) -> bool {
    let length = name.iter().take_while(|byte| is_word(**byte)).count();
    let (word, rest) = name.split_at(length);
    let starts_well = word.first().is_some_and(|byte| !byte.is_ascii_digit());
    let is_capital = starts_well && !word.iter().any(u8::is_ascii_lowercase);
    let is_step = rest.starts_with(b"->") || rest.starts_with(b"[") || rest.starts_with(b":");
    (is_capital || is_step || names::classify(word).is_some()) && !word.is_empty()
        || word.len() == 1 && rest.is_empty()
}

/// Lookups of a value elsewhere, in common languages.
const LOOKUPS: [&[u8]; 38] = [
    b"os.getenv",
    b"os.environ",
    b"os.Getenv",
    b"os.LookupEnv",
    b"environ[",
    b"environ.get",
    b"getenv(",
    b"std::env",
    b"env::var",
    b"env!(",
    b"option_env!(",
    b"System.getenv",
    b"System.getProperty",
    b"Environment.GetEnvironmentVariable",
    b"process.env",
    b"import.meta.env",
    b"Deno.env",
    b"Bun.env",
    b"ENV[",
    b"ENV.fetch",
    b"env.",
    b"env(",
    b"config.",
    b"config(",
    b"config[",
    b"settings.",
    b"secrets.",
    b"vars.",
    b"var.",
    b"self.",
    b"this.",
    b"args.",
    b"opts.",
    b"options.",
    b"getpass",
    b"vault:",
    b"op://",
    b"!vault",
];

/// Values that mean "no value", or a kind of value.
fn is_constant(value: &[u8]) -> bool {
    const CONSTANTS: [&[u8]; 12] = [
        b"null",
        b"none",
        b"nil",
        b"true",
        b"false",
        b"undefined",
        b"yes",
        b"no",
        b"on",
        b"off",
        b"required",
        b"optional",
    ];
    value.len() <= 9 && CONSTANTS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The value with a dash for each sentinel, so that a second pass decides like the first one.
fn without_sentinels(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'[') {
        return Cow::Borrowed(value);
    }
    let text = Text::new(value, true);
    let mut rest = Vec::with_capacity(value.len());
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        // an error is impossible: the text is complete
        let after = mark_end(&text, at).unwrap_or(at);
        rest.push(if after == at { byte } else { b'-' });
        at = after.max(at + 1);
    }
    Cow::Owned(rest)
}

/// Whether an unquoted value is code: a call, a field of an object, a type, or a variable.
pub(crate) fn is_expression(value: &[u8]) -> bool {
    let trimmed = value.trim_prefix_bytes(b"&*!(");
    // `&mut`, `*const`, `&[u8`, `*anchor`
    let is_pointer = matches!(value, [b'&' | b'*', ..])
        && trimmed
            .iter()
            .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'\'' | b'[' | b':' | b','));
    let is_code = matches!(value, [b'&' | b'*', b'[', ..] | [b':', b':', ..] | [b'(', ..])
        || matches!(value, [b'<' | b':', first, ..] if first.is_ascii_alphabetic());
    if is_pointer || is_code {
        return true;
    }
    let value = trimmed;
    let sentinel = mark_end(&Text::new(value, true), 0).unwrap_or(0);
    let length = value[sentinel..].iter().take_while(|byte| is_word(**byte) || **byte == b'$').count();
    let (first, rest) = value.split_at(sentinel + length);
    if first.first().is_none_or(u8::is_ascii_digit) {
        return false;
    }
    match rest {
        _ if rest.starts_with(SENTINEL_START) || mark_end(&Text::new(rest, true), 0) != Ok(0) => false,
        [] | [b',' | b';' | b')' | b']' | b'}' | b'|', ..] => is_code_word(first),
        [b'(' | b'[' | b'<', ..]
        | [b':', b':', ..]
        | [b'-', b'>', ..]
        | [b'?', b'.', ..]
        | [b'!', b'(' | b'[' | b'{', ..] => !is_mixed(first),
        [b'.', after @ ..] => {
            after.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
                && !value.split(|byte| !byte.is_ascii_alphanumeric()).any(is_mixed)
        }
        _ => false,
    }
}

/// Whether letters and digits alternate more often than in a name (`b64encode`, `win32api`).
fn is_mixed(word: &[u8]) -> bool {
    changes(word) >= 3
}

/// Usual names of variables and types in code. The name of a secret counts too (`token=token`).
fn is_code_word(word: &[u8]) -> bool {
    const WORDS: [&str; 62] = [
        "any", "arg", "args", "argv", "await", "bool", "boolean", "buf", "buffer", "bytes", "char", "data",
        "def", "default", "else", "entered", "env", "expected", "fn", "for", "func", "function", "get", "if",
        "in", "input", "int", "integer", "is", "kwargs", "lambda", "let", "line", "match", "new", "not",
        "number", "object", "option", "or", "params", "prompt", "raw", "req", "request", "res", "result",
        "ret", "return", "row", "self", "str", "string", "super", "text", "this", "unknown", "user", "value",
        "varchar", "void", "yield",
    ];
    if is_machine_type(word) {
        return true;
    }
    // a name with a digit may be a password
    if word.iter().any(u8::is_ascii_digit) {
        return false;
    }
    let is_listed = |part: &[u8]| WORDS.iter().any(|word| part.eq_ignore_ascii_case(word.as_bytes()));
    let is_constant_name = word.contains(&b'_') && !word.iter().any(u8::is_ascii_lowercase);
    is_listed(word)
        || is_constant_name
        || names::classify(word).is_some()
        || (word.contains(&b'_') && word.split(|byte| *byte == b'_').any(is_listed))
}

/// `u32`, `__u64`, `uint8_t`, `size_t`, `c_char`, `float64`.
fn is_machine_type(word: &[u8]) -> bool {
    let name = word.trim_prefix_bytes(b"_");
    let stem = name.strip_suffix(b"_t").unwrap_or(name);
    let bits = [&b"8"[..], b"16", b"32", b"64", b"128"].into_iter().find_map(|bits| stem.strip_suffix(bits));
    let is_lower = |part: &[u8]| part.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_');
    (name.ends_with(b"_t") && is_lower(stem))
        || (name.starts_with(b"c_") && is_lower(name))
        || bits.is_some_and(|name| matches!(name, b"u" | b"i" | b"f" | b"int" | b"uint" | b"float"))
}

/// Whether the value looks generated: letters and digits are mixed within one sequence.
pub(crate) fn is_opaque(value: &[u8]) -> bool {
    without_sentinels(value).split(|byte| !byte.is_ascii_alphanumeric()).any(|sequence| {
        let digits = sequence.iter().filter(|byte| byte.is_ascii_digit()).count();
        let has_both = digits > 0 && digits < sequence.len();
        has_both && (sequence.len() >= 16 || (sequence.len() >= 8 && changes(sequence) >= 2))
    })
}

/// How often letters and digits alternate.
fn changes(sequence: &[u8]) -> usize {
    sequence.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count()
}

/// Whether the value is ordinary: one or more words, a number, or a word with a number behind it (`oauth2`, `sha256`).
pub(crate) fn is_plain(value: &[u8], is_password: bool) -> bool {
    let value = &*without_sentinels(value);
    if !value.iter().any(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80) {
        return true;
    }
    if value.iter().any(|byte| is_space(*byte)) {
        return !value.split(|byte| is_space(*byte)).any(is_opaque);
    }
    if value.contains(&b'/') {
        return value.split(|byte| *byte == b'/').all(|part| is_plain(part, is_password));
    }
    let is_joined_letters = value.iter().all(|byte| {
        byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_' | b'.' | b'\'' | b':') || *byte >= 0x80
    });
    let longest = value.split(|byte| !byte.is_ascii_alphabetic()).map(<[u8]>::len).max().unwrap_or(0);
    if is_number(value) || (is_joined_letters && longest < MIN_WORDLESS) {
        return true;
    }
    !is_password
        && (is_word_with_number(value)
            || is_word_path(value)
            || is_colour(value)
            || is_pattern(value)
            || is_version(value))
}

/// A version of a package: `^3.1.0`, `>=2.0`, `v1.2.3`.
fn is_version(value: &[u8]) -> bool {
    let number = value.trim_prefix_bytes(b"^~<>=v");
    number.len() < value.len()
        && number.first().is_some_and(u8::is_ascii_digit)
        && number.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'x' | b'*'))
}

/// `#d8dee9`
fn is_colour(value: &[u8]) -> bool {
    matches!(value, [b'#', digits @ ..] if matches!(digits.len(), 3 | 6 | 8) && digits.iter().all(u8::is_ascii_hexdigit))
}

/// A regular expression, as in the token definitions of a lexer.
fn is_pattern(value: &[u8]) -> bool {
    value.windows(2).any(|pair| matches!(pair, b"(?" | b"[^" | b"\\w" | b"\\d" | b"\\s"))
}

/// Words and numbers of code, such as `tuple.0.1` or `quote!`. A password may look so, a token does not.
fn is_word_path(value: &[u8]) -> bool {
    value.strip_suffix(b"!").unwrap_or(value).split(|byte| *byte == b'.').all(|part| {
        part.len() < MIN_WORDLESS
            && (part.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
                || part.iter().all(u8::is_ascii_digit))
    })
}

/// A number, also in the notation of code: `0x1f_u32`, `16384i32`, `1.5e3`.
pub(crate) fn is_number(value: &[u8]) -> bool {
    let value = &*without_sentinels(value);
    if value.len() > MAX_NUMBER {
        return false;
    }
    if let [b'0', b'x' | b'X', digits @ ..] = value {
        let end =
            digits.iter().position(|byte| matches!(byte, b'u' | b'i' | b'U' | b'L')).unwrap_or(digits.len());
        return digits[..end].iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'_')
            && is_number_suffix(&digits[end..]);
    }
    let is_digit =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'_' | b'-' | b'+' | b'%');
    let end = value.iter().position(|byte| !is_digit(byte)).unwrap_or(value.len());
    is_number_suffix(&value[end..]) && (end == value.len() || end > 0)
}

fn is_number_suffix(suffix: &[u8]) -> bool {
    const SUFFIXES: [&[u8]; 20] = [
        b"", b"u8", b"u16", b"u32", b"u64", b"u128", b"usize", b"i8", b"i16", b"i32", b"i64", b"i128",
        b"isize", b"f32", b"f64", b"L", b"UL", b"U", b"ULL", b"n",
    ];
    SUFFIXES.contains(&suffix)
}

/// A number that may be a password: only digits, at least four.
pub(crate) fn is_pin(value: &[u8]) -> bool {
    value.len() >= MIN_PIN && value.iter().all(u8::is_ascii_digit)
}

fn is_word_with_number(value: &[u8]) -> bool {
    let letters =
        value.iter().take_while(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_')).count();
    let rest = &value[letters..];
    letters > 0 && rest.len() <= 3 && value.len() <= 12 && is_number(rest)
}

/// A path or a plain URL.
pub(crate) fn is_location(value: &[u8]) -> bool {
    let starts = value.starts_with(b"/")
        || value.starts_with(b"./")
        || value.starts_with(b"../")
        || value.starts_with(b"~/")
        || value.get(1..3).is_some_and(|drive| matches!(drive, b":\\" | b":/"))
        || has_scheme(value);
    starts && !is_opaque(value)
}

fn has_scheme(value: &[u8]) -> bool {
    let length = value.iter().take(MAX_SCHEME).take_while(|byte| byte.is_ascii_lowercase()).count();
    length > 0 && value[length..].starts_with(b"://")
}

/// `trim_start_matches` for bytes.
trait TrimPrefixBytes {
    fn trim_prefix_bytes(&self, any_of: &[u8]) -> &Self;
}

impl TrimPrefixBytes for [u8] {
    fn trim_prefix_bytes(&self, any_of: &[u8]) -> &Self {
        let length = self.iter().take_while(|byte| any_of.contains(byte)).count();
        &self[length..]
    }
}

#[cfg(test)]
mod tests;
