//! Where a text may name a program, and whether its values may be used elsewhere.
//!
//! Not a parser of a shell. It reads a few bytes around a position and answers "maybe" whenever it is not sure, for all
//! depths of quoting at once, since Codex itself passes each command as a string to `bash -lc`.

use super::TextKind;
use super::quotes::{Quoted, stretches};

/// A longer word counts as the name of a program.
const LONGEST_WORD: usize = 256;

/// The length of `U0001F600`.
const LONGEST_ESCAPE: usize = 9;

/// Words that are followed by the name of a program, or by a text to evaluate.
const BEFORE_PROGRAM: [&str; 32] = [
    "!", "builtin", "chroot", "command", "coproc", "do", "doas", "elif", "else", "env", "eval", "exec",
    "flock", "if", "ionice", "nice", "nohup", "npx", "parallel", "setsid", "source", "stdbuf", "strace",
    "su", "sudo", "then", "time", "timeout", "trap", "until", "while", "xargs",
];

/// Words that run another text as a program, at any position.
const EVALUATORS: [&str; 11] = [
    "eval",
    "exec",
    "getline",
    "mapfile",
    "parallel",
    "readarray",
    "source",
    "ssh",
    "system",
    "trap",
    "xargs",
];

/// Programs that run a text, which they get with `-c` or `-e`, or on their input.
const INTERPRETERS: [&str; 19] = [
    "ash", "bash", "bun", "csh", "dash", "deno", "expect", "fish", "ksh", "lua", "node", "perl", "php",
    "pwsh", "ruby", "sh", "tclsh", "tcsh", "zsh",
];

/// Programs that turn a text into another one: the result for a generated string may be anything.
const DECODERS: [&str; 20] = [
    "ascii2uni",
    "base32",
    "base64",
    "basenc",
    "bunzip2",
    "bzip2",
    "gpg",
    "gunzip",
    "gzip",
    "iconv",
    "lz4",
    "openssl",
    "rev",
    "tr",
    "uudecode",
    "xxd",
    "xz",
    "zcat",
    "zstd",
    "zstdcat",
];

/// Words that make a value available under another name, without any expansion.
const RENAMERS: [&str; 8] = ["alias", "bind", "declare", "enable", "hash", "let", "local", "typeset"];

/// Words that let a shell use a variable without an expansion: `shopt -s cdable_vars; cd NAME`.
const SHELL_OPTIONS: [&str; 9] =
    ["-O", "+O", "BASHOPTS", "SHELLOPTS", "emulate", "set", "setopt", "shopt", "unsetopt"];

/// Variables of the shell itself whose names look like those of secrets: `PWD=id; ~+`, `OLDPWD=src; cd -`.
const OF_THE_SHELL: [&[u8]; 2] = [b"PWD", b"OLDPWD"];

/// What is at the examined position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// A value that may be hidden, up to `end`. The string may continue behind it like a command.
    Value { end: usize },
    /// A dollar sign, a backquote, a dot.
    Expansion,
    /// A string as a whole.
    String,
}

/// A text, and what can happen to values in it.
#[derive(Debug)]
pub(super) struct Context<'a> {
    bytes: &'a [u8],
    /// The quoted strings of a command.
    quoted: Vec<Quoted>,
    /// Whether the quotes are unclear: then every position may name a program.
    is_unsure: bool,
    runs_what_it_computes: bool,
    moves_nothing: bool,
    keeps_variables: bool,
}

impl<'a> Context<'a> {
    pub(super) fn of(text: &'a str, kind: TextKind) -> Self {
        let bytes = text.as_bytes();
        let quoted = if kind == TextKind::Command { stretches(bytes) } else { Some(Vec::new()) };
        let is_unsure = quoted.is_none();
        let quoted = quoted.unwrap_or_default();
        let mut context = Self {
            bytes,
            quoted,
            is_unsure,
            runs_what_it_computes: false,
            moves_nothing: false,
            keeps_variables: true,
        };
        if kind != TextKind::Prose {
            context.runs_what_it_computes =
                context.expands_to_program() || context.sources() || evaluates(text, kind);
            context.moves_nothing = kind == TextKind::Command
                && !without_null_redirections(text).contains(['$', '`', '|', '<', '>', '('])
                && !words(&unquoted(text)).any(|word| RENAMERS.contains(&word));
            context.keeps_variables = kind != TextKind::Command || context.keeps_variables(text);
        }
        context
    }

    /// Whether a shell uses variables only by expansion. A pattern could match any word, so it counts as a use.
    fn keeps_variables(&self, text: &str) -> bool {
        let is_named_directory = |pair: &[u8]| matches!(pair, [b'~', next] if next.is_ascii_alphanumeric() || b"+-_.\"\'\\".contains(next));
        let is_several = text.trim_end().contains([';', '&', '\n']);
        let is_pattern = |at: usize| b"{*?[".contains(&self.bytes[at]) && self.enclosing(at).is_none();
        let uses_one = self.bytes.windows(2).any(is_named_directory)
            || words(&unquoted(text)).any(|word| SHELL_OPTIONS.contains(&word))
            || (is_several && (0..self.bytes.len()).any(is_pattern));
        !uses_one
    }

    /// Whether the value at `start` is assigned to a variable that a shell may use without an expansion.
    pub(super) fn is_in_use_by_shell(&self, start: usize) -> bool {
        let Some(word) = self.word_start(start) else { return true };
        let prefix = &self.bytes[word..start];
        let name = prefix.split(|byte| matches!(byte, b'=' | b'+')).next().unwrap_or_default();
        is_assignment(prefix) && (OF_THE_SHELL.contains(&name) || !self.keeps_variables)
    }

    /// Whether the text may run a program that it computes at run time: then no part of it is certainly mere data.
    pub(super) fn runs_what_it_computes(&self) -> bool {
        self.runs_what_it_computes
    }

    /// Whether every value is used only by the program before it.
    pub(super) fn moves_nothing(&self) -> bool {
        self.moves_nothing
    }

    fn expands_to_program(&self) -> bool {
        let is_mark = |byte: u8| matches!(byte, b'$' | b'`');
        let mut places = self.bytes.iter().enumerate().filter(|(_, byte)| is_mark(**byte));
        places.any(|(at, _)| self.is_in_place_of_program(at, Subject::Expansion))
    }

    /// Whether a file is read as a script: `. file`.
    fn sources(&self) -> bool {
        let is_dot = |(_, pair): &(usize, &[u8])| matches!(pair, [b'.', b' ' | b'\t']);
        let mut places = self.bytes.windows(2).enumerate().filter(is_dot);
        places.any(|(at, _)| {
            self.word_start(at) == Some(at) && self.is_in_place_of_program(at, Subject::Expansion)
        })
    }

    /// Whether the text from `start` to `end` may be (a part of) the name of a program or variable, a text to evaluate, or the
    /// target of a redirection.
    pub(super) fn may_be_name(&self, start: usize, end: usize) -> bool {
        is_in_variable(&self.bytes[..start])
            || is_name_of_more(&self.bytes[end..])
            || self.is_in_place_of_program(start, Subject::Value { end })
    }

    /// Whether the value at `start` may be an operand: a separate word behind an option that may take no value
    /// (`dropdb --no-password production`), or a word behind a program that looks like an assignment (`tee password=x`).
    pub(super) fn may_be_operand(&self, start: usize) -> bool {
        let Some(word) = self.word_start(start) else { return true };
        let (blanks, before) = split_blanks(&self.bytes[..word]);
        let word_before = self.word_before(before.len());
        let prefix = &self.bytes[word..start];
        if is_assignment(prefix) {
            let begins_command = matches!(before.last(), None | Some(b'\n' | b';' | b'&' | b'{'));
            return !begins_command
                && !word_before
                    .is_some_and(|word| is_assignment(word) || matches!(word, b"export" | b"env"));
        }
        let is_behind_option = || word_before.is_none_or(|word| word.starts_with(b"-"));
        blanks > 0 && is_only_quotes(prefix) && is_behind_option()
    }

    fn is_in_place_of_program(&self, start: usize, subject: Subject) -> bool {
        if self.is_unsure || is_escaped(&self.bytes[..start]) || self.is_first_word(start, subject) {
            return true;
        }
        // a whole string may be the name of a program: `"a b c"`
        self.enclosing(start).is_some_and(|string| self.is_first_word(string.open, Subject::String))
    }

    fn is_first_word(&self, start: usize, subject: Subject) -> bool {
        let Some(word) = self.word_start(start) else { return true };
        // the sign of a line of a diff is not a part of the word
        let is_signed = word < start
            && matches!(self.bytes[word], b'+' | b'-')
            && self.bytes[..word].last().is_none_or(|byte| *byte == b'\n');
        let prefix = &self.bytes[word + usize::from(is_signed)..start];
        let is_value = matches!(subject, Subject::Value { .. });
        let is_whole = matches!(subject, Subject::Value { end } if self.is_whole_string(prefix, end));
        let (blanks, before) = split_blanks(&self.bytes[..word]);
        match before.last() {
            Some(b'(') if blanks == 0 && is_call(before) && is_whole => false,
            Some(b'{') if blanks == 0 => !prefix.contains(&b':') && !is_assignment(prefix),
            // any word can be the target of a redirection: `> TOKEN=x` is a file of that name
            Some(b'<' | b'>') => true,
            None | Some(b'\n' | b';' | b'|' | b'&' | b'(' | b')' | b'`' | b'{' | b'}') => {
                !is_assignment(prefix)
            }
            Some(_) => match self.word_before(before.len()) {
                None => true,
                Some(word) if takes_text(word) => {
                    let unquoted = prefix.strip_prefix(b"'").or_else(|| prefix.strip_prefix(b"\""));
                    // the content of the text is examined separately
                    subject != Subject::String && !is_assignment(unquoted.unwrap_or(prefix))
                }
                Some(word) if is_before_program(word) => !is_assignment(prefix),
                // the beginning of a longer string, which may be a command
                Some(_) => is_value && !prefix.is_empty() && is_only_quotes(prefix) && !is_whole,
            },
        }
    }

    /// The string that contains `at`.
    fn enclosing(&self, at: usize) -> Option<Quoted> {
        let index = self.quoted.partition_point(|string| string.close < at);
        self.quoted.get(index).copied().filter(|string| string.open < at)
    }

    /// The string that closes right before `at`.
    fn string_before(&self, at: usize) -> Option<Quoted> {
        let index = self.quoted.partition_point(|string| string.close < at).checked_sub(1)?;
        self.quoted.get(index).copied().filter(|string| string.close + 1 == at)
    }

    /// The word that ends at `end`, without its quotes; none if its start is unclear: `A="x y" program`.
    fn word_before(&self, end: usize) -> Option<&[u8]> {
        let floor = self.enclosing(end).map_or(0, |string| string.open + 1);
        let mut at = end;
        while at > floor {
            if let Some(string) = self.string_before(at) {
                at = string.open;
                continue;
            }
            match self.bytes[at - 1] {
                byte if byte.is_ascii_whitespace() || b";|&(".contains(&byte) => {
                    // an escaped blank is a part of the word
                    if self.bytes[..at - 1].last() == Some(&b'\\') {
                        return None;
                    }
                    break;
                }
                b')' | b'`' | b'<' | b'>' | b'}' => return None,
                // a name in JSON is a word of its own, whatever is around it
                b'"' | b'\'' | b'\\' if !self.bytes[at - 1..end].ends_with(b"\":") => return None,
                _ => at -= 1,
            }
            if end - at > LONGEST_WORD {
                return None;
            }
        }
        Some(self.bytes[at..end].trim_quotes())
    }

    /// The start of the word that contains `end`; none if it is far away or unclear.
    fn word_start(&self, end: usize) -> Option<usize> {
        let is_boundary = |byte: u8| byte.is_ascii_whitespace() || b";|&()<>`{}".contains(&byte);
        let mut at = end;
        while let Some(before) = at.checked_sub(1) {
            if let Some(string) = self.string_before(at) {
                at = string.open;
            } else if is_boundary(self.bytes[before]) {
                break;
            } else {
                at = before;
            }
            if end - at > LONGEST_WORD {
                return None;
            }
        }
        match &self.bytes[..at] {
            // a line that continues between two words
            [.., b' ' | b'\t', b'\\', b'\n'] => Some(at),
            // an escaped blank is a part of the word, and a line may continue within a word
            [.., b'\\', _] => None,
            _ => Some(at),
        }
    }

    /// Whether the quotes in `prefix` are closed at `end`.
    fn is_whole_string(&self, prefix: &[u8], end: usize) -> bool {
        let closing: Vec<u8> = prefix.iter().rev().copied().collect();
        let behind = &self.bytes[end..];
        let is_closed = match closing.as_slice() {
            [quote] => behind.first() == Some(quote),
            // the quotes of `'\''…'\''` and `\"…\"` are symmetric, except for the position of the backslash
            [_, ..] => behind.starts_with(prefix) || behind.starts_with(&closing),
            [] => false,
        };
        is_closed && is_only_quotes(prefix)
    }
}

/// The text without redirections that discard output or join stdout and stderr.
fn without_null_redirections(text: &str) -> String {
    ["2>&1", "&>/dev/null", "2>/dev/null", "2> /dev/null", ">/dev/null", "> /dev/null"]
        .iter()
        .fold(text.to_owned(), |text, harmless| text.replace(harmless, " "))
}

/// The text without its quotes, at every depth: `sh""opt` is `shopt`.
fn unquoted(text: &str) -> String {
    text.replace(['"', '\'', '\\'], "")
}

/// Whether the text behind `before` belongs to an escape: `\e`, `\x24`, `\u0041`.
fn is_escaped(before: &[u8]) -> bool {
    let digits =
        before.iter().rev().take(LONGEST_ESCAPE).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    before[..before.len() - digits].last() == Some(&b'\\')
}

/// Whether `before` ends within or behind the name of a variable, such as `$HOME`. Text there changes the name.
fn is_in_variable(before: &[u8]) -> bool {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let length = before.iter().rev().take_while(is_part).count();
    before[..before.len() - length].last() == Some(&b'$')
}

/// Whether the text before `behind` may be (the beginning of) the name of an assignment. A word continues behind an escaped
/// line end.
fn is_name_of_more(behind: &[u8]) -> bool {
    matches!(behind, [b'=', ..] | [b'+', b'=', ..] | [b'\\', b'\n', ..])
}

fn is_only_quotes(prefix: &[u8]) -> bool {
    prefix.iter().all(|byte| matches!(byte, b'"' | b'\'' | b'\\'))
}

/// A call in code, such as `f(`; `$(`, `<(` and `(` begin a command.
fn is_call(before: &[u8]) -> bool {
    matches!(before, [.., name, b'('] if name.is_ascii_alphanumeric() || *name == b'_')
}

/// `NAME=` or `NAME+=`, with or without the beginning of a value.
fn is_assignment(word: &[u8]) -> bool {
    let length = word.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    length > 0 && !word[0].is_ascii_digit() && matches!(&word[length..], [b'=', ..] | [b'+', b'=', ..])
}

/// The number of blanks at the end of a text, and the text before them. An escaped line end counts as a blank.
fn split_blanks(bytes: &[u8]) -> (usize, &[u8]) {
    let mut before = bytes;
    while let [rest @ .., b' ' | b'\t'] | [rest @ .., b'\\', b'\n'] = before {
        before = rest;
    }
    (bytes.len() - before.len(), before)
}

trait TrimQuotes {
    fn trim_quotes(&self) -> &Self;
}

impl TrimQuotes for [u8] {
    fn trim_quotes(&self) -> &Self {
        let is_quote = |byte: &u8| matches!(byte, b'"' | b'\'' | b'\\');
        let start = self.iter().position(|byte| !is_quote(byte)).unwrap_or(self.len());
        let end = self.iter().rposition(|byte| !is_quote(byte)).map_or(start, |last| last + 1);
        &self[start..end]
    }
}

/// Whether the next word is a text that is evaluated: `-c`, `-lc`, `-e`, `--eval`, `eval`.
fn takes_text(word: &[u8]) -> bool {
    let is_short = |flags: &[u8]| {
        flags.iter().all(u8::is_ascii_alphabetic) && matches!(flags.last(), Some(b'c' | b'e' | b'E'))
    };
    match word {
        b"eval" | b"trap" | b"--eval" | b"--command" | b"--exec" | b"--execute" => true,
        [b'-', flags @ ..] => is_short(flags) && flags.len() <= 4,
        _ => false,
    }
}

fn is_before_program(word: &[u8]) -> bool {
    let name = word.rsplit(|byte| *byte == b'/').next().unwrap_or(word);
    let Ok(name) = str::from_utf8(name) else { return false };
    is_assignment(word)
        || name == "."
        || name.starts_with("-exec")
        || name.starts_with("-ok")
        || BEFORE_PROGRAM.contains(&name)
        || is_interpreter(name)
}

fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.contains(&name) || name.starts_with("python") || name.starts_with("pypy")
}

/// The words of a text, without the directories of programs.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_inside = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    text.split(move |char| !is_inside(char)).filter(|word| !word.is_empty())
}

/// Whether the text passes a text to a program that runs it.
fn evaluates(text: &str, kind: TextKind) -> bool {
    // arithmetic evaluates names without `$`
    let calculates = || text.contains("((") || text.contains("$[") || words(text).any(|word| word == "let");
    let decodes = || words(text).any(|word| DECODERS.contains(&word));
    words(text).any(|word| EVALUATORS.contains(&word))
        || (kind == TextKind::Command && (interprets(text) || calculates() || decodes()))
}

/// Whether an interpreter may get its program from the text. `python3 script.py` gets it from a file.
fn interprets(text: &str) -> bool {
    let is_inside = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    let mut rest = text;
    while let Some(at) = rest.find(is_inside) {
        let length = rest[at..].find(|char| !is_inside(char)).unwrap_or(rest.len() - at);
        let (word, behind) = rest[at..].split_at(length);
        let argument = behind.trim_start_matches([' ', '\t']);
        let begins_name = |char: char| char.is_ascii_alphanumeric() || "/._~".contains(char);
        let is_script = argument.len() < behind.len()
            && (argument.starts_with(begins_name) || argument.starts_with("-m "));
        if is_interpreter(word) && !is_script && !behind.starts_with(['/', '=', ':', '@']) {
            return true;
        }
        rest = behind;
    }
    false
}
