//! What a value looks like: a generated secret, an ordinary word, a reference to somewhere else, an expression.
//!
//! Decides on the value alone, given what its name needs. Knows nothing about where it stands.

use crate::names;

/// The beginning of what this crate puts in place of a secret. A value that begins so has been dealt with.
pub(crate) const SENTINEL_START: &[u8] = b"[redacted:";

/// Nothing to hide: empty, already hidden, or a mere pointer to where the secret is.
pub(crate) fn is_harmless(value: &[u8]) -> bool {
    value.is_empty() || is_hidden_already(value) || is_reference(value) || is_constant(value)
}

/// `***`, `xxxx`, `...`, `[redacted:x]`, `<redacted>`.
fn is_hidden_already(value: &[u8]) -> bool {
    let first = value[0];
    let is_filler = matches!(first, b'*' | b'x' | b'X' | b'.' | b'-' | b'_' | b'#');
    // ••••, ●●●●, ……: the same character of three bytes again and again
    let is_wide_filler =
        first == 0xe2 && value.chunks(3).all(|character| character == &value[..3.min(value.len())]);
    let says_so = value.len() >= 8 && {
        let inner = if matches!(first, b'[' | b'<') { &value[1..] } else { value };
        inner.get(..8).is_some_and(|word| word.eq_ignore_ascii_case(b"redacted"))
    };
    says_so
        || (is_filler && value.iter().all(|byte| *byte == first))
        || value.windows(3).any(|three| three == b"***")
        || is_wide_filler
}

/// `$VAR`, `${…}`, `$(…)`, `{{ … }}`, `{name}`, `<your key>`, `%VAR%`, `os.getenv(…)`, `process.env.X` …
pub(crate) fn is_reference(value: &[u8]) -> bool {
    match value {
        [b'$', b'{' | b'(', ..] | [b'{', b'{', ..] | [b'#' | b'@' | b'%', b'{' | b'(', ..] => true,
        [b'$', name @ ..] => is_variable(name),
        [b'{', .., b'}'] | [b'<', .., b'>'] | [b'%', b's' | b'd' | b'v' | b'@'] => true,
        [b'%', name @ .., b'%'] => !name.is_empty() && name.iter().all(|byte| crate::text::is_word(*byte)),
        _ => LOOKUPS.iter().any(|lookup| value.starts_with(lookup)),
    }
}

/// A variable is written in capitals, or is itself named like a secret, or is a step on the way (`$config->x`).
/// Anything else after a dollar sign may well be a password.
fn is_variable(name: &[u8]) -> bool {
    let length = name.iter().take_while(|byte| crate::text::is_word(**byte)).count();
    let (word, rest) = name.split_at(length);
    let starts_well = word.first().is_some_and(|byte| !byte.is_ascii_digit());
    let is_capital = starts_well && !word.iter().any(u8::is_ascii_lowercase);
    let is_step = rest.starts_with(b"->") || rest.starts_with(b"[") || rest.starts_with(b":");
    (is_capital || is_step || names::classify(word).is_some()) && !word.is_empty()
        || word.len() == 1 && rest.is_empty()
}

/// Ways to fetch a value from somewhere else, in the languages that are met most.
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

/// Values that say that there is none, or which kind it would be.
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

/// Whether an unquoted value is code: a call, a path through an object, a type, or a name for a value.
pub(crate) fn is_expression(value: &[u8]) -> bool {
    let value = value.trim_prefix_bytes(b"&*!(");
    let length = value.iter().take_while(|byte| crate::text::is_word(**byte) || **byte == b'$').count();
    let (first, rest) = value.split_at(length);
    if first.first().is_none_or(u8::is_ascii_digit) {
        return false;
    }
    match rest {
        [] | [b',' | b';' | b')' | b']' | b'}' | b'|', ..] => is_code_word(first),
        [b'(' | b'[' | b'<', ..]
        | [b':', b':', ..]
        | [b'-', b'>', ..]
        | [b'?', b'.', ..]
        | [b'!', b'(', ..] => true,
        [b'.', after @ ..] => {
            after.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_') && !is_opaque(value)
        }
        _ => false,
    }
}

/// Names that code gives to a value on its way, and names of types. A secret's own name counts (`token=token`).
fn is_code_word(word: &[u8]) -> bool {
    const WORDS: [&str; 62] = [
        "any", "arg", "args", "argv", "await", "bool", "boolean", "buf", "buffer", "bytes", "char", "data",
        "def", "default", "else", "entered", "env", "expected", "fn", "for", "func", "function", "get", "if",
        "in", "input", "int", "integer", "is", "kwargs", "lambda", "let", "line", "match", "new", "not",
        "number", "object", "option", "or", "params", "prompt", "raw", "req", "request", "res", "result",
        "ret", "return", "row", "self", "str", "string", "super", "text", "this", "unknown", "user", "value",
        "varchar", "void", "yield",
    ];
    let is_listed = |part: &[u8]| WORDS.iter().any(|word| part.eq_ignore_ascii_case(word.as_bytes()));
    is_listed(word)
        || names::classify(word).is_some()
        || (word.contains(&b'_') && word.split(|byte| *byte == b'_').any(is_listed))
}

/// Looks generated: letters and digits mixed within one unbroken stretch.
pub(crate) fn is_opaque(value: &[u8]) -> bool {
    value.split(|byte| !byte.is_ascii_alphanumeric()).any(|stretch| {
        let digits = stretch.iter().filter(|byte| byte.is_ascii_digit()).count();
        let has_both = digits > 0 && digits < stretch.len();
        has_both && (stretch.len() >= 16 || (stretch.len() >= 8 && changes(stretch) >= 2))
    })
}

/// How often letters turn to digits and back.
fn changes(stretch: &[u8]) -> usize {
    stretch.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count()
}

/// An ordinary word, several of them, a number, or a word with a number behind (`oauth2`, `sha256`).
pub(crate) fn is_plain(value: &[u8], is_password: bool) -> bool {
    if value.contains(&b' ') {
        return !value.split(|byte| *byte == b' ').any(is_opaque);
    }
    let is_joined_letters = value.iter().all(|byte| {
        byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_' | b'.' | b'\'' | b':') || *byte >= 0x80
    });
    let longest = value.split(|byte| !byte.is_ascii_alphabetic()).map(<[u8]>::len).max().unwrap_or(0);
    if is_number(value) || (is_joined_letters && longest < 20) {
        return true;
    }
    !is_password && is_word_with_number(value)
}

pub(crate) fn is_number(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'_' | b'-' | b'+' | b'%'))
}

fn is_word_with_number(value: &[u8]) -> bool {
    let letters = value.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'-').count();
    let rest = &value[letters..];
    letters > 0 && rest.len() <= 3 && value.len() <= 12 && is_number(rest)
}

/// A path in a file system or a plain address: where something is, not what it is.
pub(crate) fn is_location(value: &[u8]) -> bool {
    let starts = value.starts_with(b"/")
        || value.starts_with(b"./")
        || value.starts_with(b"../")
        || value.starts_with(b"~/")
        || value.get(1..3).is_some_and(|drive| matches!(drive, b":\\" | b":/"))
        || value.windows(3).any(|three| three == b"://");
    starts && !is_opaque(value)
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
