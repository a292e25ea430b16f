//! Names of files that people send: one path component that is safe in a directory and in a prompt. Pure.

use redact::plain::plain;

use super::super::MessageId;

/// The longest name in a directory, without its prefix; file systems allow 255 bytes.
const NAME_BYTES: usize = 100;
/// The longest extension that a name keeps when it is cut.
const EXTENSION_BYTES: usize = 16;
/// How many characters of a name are shown.
const SHOWN_CHARS: usize = 100;

/// The name under which a file of a message is written. It is the same for every attempt, and no other file of a message
/// has it. Its prefix makes it mean nothing to any program: it is never `AGENTS.md`, `.bashrc` or `Makefile`.
pub fn file_name(message_id: &MessageId, number: u32, name: &str) -> String {
    let id = message_id.as_str();
    let id: String =
        id.strip_prefix("in-").unwrap_or(id).chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{id}-{number}-{}", component(name))
}

/// One path component without anything that a shell, a terminal or a reader could take for something else.
fn component(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let safe = |char: char| {
        if char.is_alphanumeric() || matches!(char, '.' | '_' | '-' | '+') { char } else { '_' }
    };
    let name: String = plain(last).chars().map(safe).collect();
    let name = name.trim_start_matches(['.', '-', '_', '+']).trim_end_matches(['.', '_']);
    if name.is_empty() { "file".to_owned() } else { cut(name) }
}

/// A name that is not too long. It keeps its extension.
fn cut(name: &str) -> String {
    if name.len() <= NAME_BYTES {
        return name.to_owned();
    }
    let extension = name.rfind('.').map(|at| &name[at..]).filter(|text| text.len() <= EXTENSION_BYTES);
    let extension = extension.unwrap_or_default();
    let room = name.floor_char_boundary(NAME_BYTES - extension.len());
    format!("{}{extension}", &name[..room])
}

/// A name for people and for the model: one line, not too long, and without what would show it as another one.
pub fn shown_name(name: &str) -> String {
    let shown = plain(name).split_whitespace().collect::<Vec<_>>().join(" ");
    // A bracket would end the line that names the file.
    let shown: String =
        shown.chars().map(|char| if matches!(char, '[' | ']') { '_' } else { char }).collect();
    if shown.chars().nth(SHOWN_CHARS).is_none() {
        return shown;
    }
    shown.chars().take(SHOWN_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_component_that_means_nothing_to_any_program() {
        let check = |name: &str, expected: &str| {
            assert_eq!(file_name(&"in-0a1b".into(), 2, name), format!("0a1b-2-{expected}"), "{name:?}");
        };
        check("notes.txt", "notes.txt");
        check("größer 日本.md", "größer_日本.md");
        check("../../x", "x");
        check("/etc/passwd", "passwd");
        check("C:\\temp\\a.txt", "a.txt");
        check(".bashrc", "bashrc");
        check("..", "file");
        check("", "file");
        check("-rf", "rf");
        check("a\u{202e}txt.exe\u{0}\n", "atxt.exe");
        check("$(touch x);`id`.sh", "touch_x___id_.sh");
        check("AGENTS.md", "AGENTS.md");
        let long = file_name(&"in-0a1b".into(), 1, &format!("{}.json", "x".repeat(300)));
        assert!(long.len() < 120 && long.ends_with("x.json"), "{long}");
        let long = file_name(&"in-0a1b".into(), 1, &"ä".repeat(300));
        assert!(long.len() < 120 && long.ends_with('ä'), "{long}");
    }

    #[test]
    fn a_shown_name_is_one_line_that_ends_no_bracket() {
        assert_eq!(shown_name("a]\n[file: b"), "a_ _file: b");
        assert_eq!(shown_name("a\u{202e}b"), "ab");
        assert_eq!(shown_name(&"x".repeat(300)).chars().count(), 100);
    }
}
