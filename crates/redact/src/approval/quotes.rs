//! Quotes of a shell: which stretches of a text are quoted, and what Codex hands to its shell.
//!
//! Both give up (`None`) where it takes more than a few rules to be sure.

use crate::text::is_space;

/// A quoted stretch: the places of its opening and its closing quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quoted {
    pub(super) open: usize,
    pub(super) close: usize,
}

/// The quoted stretches of a text in their order.
pub(super) fn stretches(bytes: &[u8]) -> Option<Vec<Quoted>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let close = match byte {
            b'\\' => {
                at += 2;
                continue;
            }
            b'\'' if at > 0 && bytes[at - 1] == b'$' => escaped_end(bytes, at)?,
            b'\'' => at + 1 + bytes[at + 1..].iter().position(|byte| *byte == b'\'')?,
            b'"' => {
                let close = escaped_end(bytes, at)?;
                // in what is expanded there, quotes begin anew
                let string = &bytes[at..=close];
                let begins = |at: usize| {
                    string[at] == b'`' || (string[at] == b'$' && !is_plain_variable(&string[at..]))
                };
                if (0..string.len()).any(begins) {
                    return None;
                }
                close
            }
            b'`' => return None,
            b'#' if at == 0 || is_space(bytes[at - 1]) => return None,
            b'<' if bytes.get(at + 1) == Some(&b'<') => return None,
            b'$' if bytes.get(at + 1) == Some(&b'{') && !is_plain_variable(&bytes[at..]) => return None,
            _ => {
                at += 1;
                continue;
            }
        };
        found.push(Quoted { open: at, close });
        at = close + 1;
    }
    Some(found)
}

/// `$NAME`, `${NAME}`, `$1`, or a dollar sign that expands to nothing.
fn is_plain_variable(text: &[u8]) -> bool {
    match text {
        [_, b'(' | b'[', ..] => false,
        [_, b'{', name @ ..] => {
            let length =
                name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
            length > 0 && name.get(length) == Some(&b'}')
        }
        _ => true,
    }
}

/// Where the quote closes that opens at `open`, in which a backslash escapes.
fn escaped_end(bytes: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            _ if byte == bytes[open] => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// The command that Codex gives to a shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unwrapped {
    pub(super) command: String,
    /// For each byte of the command, where it stands in the whole.
    pub(super) origins: Vec<usize>,
}

/// What the shell gets of `/bin/bash -lc '…'`, as every command of Codex looks.
pub(super) fn unwrapped(text: &str) -> Option<Unwrapped> {
    let mut words = text.splitn(3, ' ');
    let (shell, flag) = (words.next()?, words.next()?);
    words.next()?;
    let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let is_shell = matches!(shell.rsplit('/').next()?, "bash" | "sh" | "zsh" | "dash" | "ksh");
    if !is_shell || !shell.bytes().all(is_path) || !matches!(flag, "-c" | "-lc") {
        return None;
    }
    one_word(text.as_bytes(), shell.len() + flag.len() + 2)
}

/// The last word of a command line, without its quotes; none if it is not the last.
fn one_word(bytes: &[u8], from: usize) -> Option<Unwrapped> {
    let (mut word, mut origins) = (Vec::new(), Vec::new());
    let mut at = from;
    let mut quote = None;
    while let Some(&byte) = bytes.get(at) {
        let taken = match (quote, byte) {
            (Some(open), _) if byte == open => {
                quote = None;
                None
            }
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                None
            }
            (Some(b'"'), b'\\') if bytes.get(at + 1).is_some_and(|next| b"$`\"\\".contains(next)) => {
                at += 1;
                Some(bytes[at])
            }
            (Some(b'"'), b'$' | b'`') => return None,
            (None, b'\\') => {
                at += 1;
                Some(*bytes.get(at)?)
            }
            (None, _) if !(byte.is_ascii_alphanumeric() || b"_./:=@%+,-".contains(&byte)) => return None,
            _ => Some(byte),
        };
        if let Some(taken) = taken {
            word.push(taken);
            origins.push(at);
        }
        at += 1;
    }
    let command = String::from_utf8(word).ok().filter(|_| quote.is_none())?;
    Some(Unwrapped { command, origins })
}
