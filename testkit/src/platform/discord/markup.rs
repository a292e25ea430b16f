//! Discord's Markdown, as its programs show it: what people read, and which parts of it look or act in a special way. Written
//! from the documentation of the formatting and from how the programs behave, with regular expressions' lack of nesting.

/// What people see of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// The text without marks.
    pub text: String,
    /// What is special, in order: its kind and its text.
    pub marks: Vec<(&'static str, String)>,
}

impl Shown {
    /// The texts of one kind.
    pub fn of_kind(&self, kind: &str) -> Vec<&str> {
        self.marks.iter().filter(|(of, _)| *of == kind).map(|(_, text)| text.as_str()).collect()
    }

    fn mark(&mut self, kind: &'static str, text: &str) {
        self.marks.push((kind, text.to_owned()));
    }
}

/// Shows the content of a message.
pub fn shown(content: &str) -> Shown {
    let mut shown = Shown::default();
    parse(content, true, &mut shown);
    shown
}

fn parse(content: &str, begins_line: bool, shown: &mut Shown) {
    let mut at = 0;
    while at < content.len() {
        let rest = &content[at..];
        let before = &content[..at];
        let is_begin = begins_line
            && before.rsplit('\n').next().unwrap_or_default().trim().is_empty()
            && (before.is_empty() || before.ends_with(['\n', ' ', '\t']));
        let taken = line_mark(rest, is_begin, shown)
            .or_else(|| escape(rest, shown))
            .or_else(|| code(rest, shown))
            .or_else(|| angle(rest, shown))
            .or_else(|| link(rest, shown))
            .or_else(|| style(rest, before, shown))
            .or_else(|| address(rest, before, shown))
            .or_else(|| named(rest, shown));
        at += taken.unwrap_or_else(|| {
            let char = rest.chars().next().map_or("", |char| &rest[..char.len_utf8()]);
            shown.text.push_str(char);
            char.len()
        });
    }
}

/// Headings, quotes and lists.
fn line_mark(rest: &str, is_begin: bool, shown: &mut Shown) -> Option<usize> {
    if !is_begin {
        return None;
    }
    let marks = [
        ("heading", "# "),
        ("heading", "## "),
        ("heading", "### "),
        ("small", "-# "),
        ("quote", "> "),
        ("quote", ">>> "),
        ("list", "- "),
        ("list", "* "),
        ("list", "+ "),
    ];
    if let Some((kind, mark)) = marks.into_iter().find(|(_, mark)| rest.starts_with(mark)) {
        shown.mark(kind, mark);
        return Some(mark.len());
    }
    let digits = rest.len() - rest.trim_start_matches(|char: char| char.is_ascii_digit()).len();
    let is_list = digits > 0 && rest[digits..].starts_with(". ");
    is_list.then(|| {
        shown.mark("list", &rest[..digits]);
        digits + 2
    })
}

fn escape(rest: &str, shown: &mut Shown) -> Option<usize> {
    let next = rest.strip_prefix('\\')?.chars().next()?;
    if next.is_ascii_alphanumeric() || next.is_whitespace() {
        return None;
    }
    shown.text.push(next);
    Some(1 + next.len_utf8())
}

fn code(rest: &str, shown: &mut Shown) -> Option<usize> {
    if let Some(inner) = rest.strip_prefix("```")
        && let Some(end) = inner.find("```").filter(|end| !inner[..*end].trim().is_empty())
    {
        let code = &inner[..end];
        let is_name = |line: &str| {
            !line.is_empty()
                && line.chars().all(|char| char.is_ascii_alphanumeric() || "_+-.#".contains(char))
        };
        let code = match code.split_once('\n') {
            Some((name, code)) if is_name(name) => {
                shown.mark("language", name);
                code
            }
            Some(("", code)) => code,
            _ => code,
        };
        let code = code.strip_suffix('\n').unwrap_or(code);
        shown.text.push_str(code);
        shown.mark("block", code);
        return Some(3 + end + 3);
    }
    let ticks = rest.len() - rest.trim_start_matches('`').len();
    if ticks == 0 {
        return None;
    }
    let mut from = ticks;
    while let Some(at) = rest[from..].find('`').map(|at| from + at) {
        let run = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        if run == ticks && at > ticks {
            shown.text.push_str(&rest[ticks..at]);
            shown.mark("code", &rest[ticks..at]);
            return Some(at + ticks);
        }
        from = at + run;
    }
    None
}

/// Mentions, emoji, times and addresses between `<` and `>`.
fn angle(rest: &str, shown: &mut Shown) -> Option<usize> {
    let inner = rest.strip_prefix('<')?;
    let end = inner.find('>')?;
    let inner = &inner[..end];
    if inner.contains("://") && !inner.contains([' ', '\n', '<']) {
        shown.text.push_str(inner);
        shown.mark("address", inner);
        return Some(end + 2);
    }
    let digits = |text: &str| !text.is_empty() && text.chars().all(|char| char.is_ascii_digit());
    let is_mention =
        inner.strip_prefix(['@', '#']).is_some_and(|id| digits(id.trim_start_matches(['!', '&'])));
    let parts: Vec<&str> = inner.split(':').collect();
    let is_other = matches!(parts[..], ["t", time, ..] if digits(time.trim_start_matches('-')))
        || matches!(parts[..], ["" | "a", name, id] if !name.is_empty() && digits(id))
        || matches!(parts[..], [name, id] if name.starts_with('/') && digits(id));
    (is_mention || is_other).then(|| {
        shown.text.push_str(&rest[..end + 2]);
        shown.mark("mention", &rest[..end + 2]);
        end + 2
    })
}

/// `[text](address)`. A text that looks like an address is shown with all marks.
fn link(rest: &str, shown: &mut Shown) -> Option<usize> {
    let inner = rest.strip_prefix('[')?;
    let (text, behind) = inner.split_once("](")?;
    let (address, length) = match behind.strip_prefix('<') {
        Some(inner) => inner.split_once(">)").map(|(address, _)| (address, address.len() + 3))?,
        None => behind.split_once(')').map(|(address, _)| (address, address.len() + 1))?,
    };
    let has_open = text.char_indices().any(|(at, char)| "[]".contains(char) && !text[..at].ends_with('\\'));
    if text.is_empty()
        || has_open
        || text.contains("://")
        || !address.contains("://")
        || address.contains(char::is_whitespace)
    {
        return None;
    }
    let mut part = Shown::default();
    parse(text, false, &mut part);
    shown.text.push_str(&part.text);
    shown.mark("link", &format!("{} → {address}", part.text));
    shown.marks.extend(part.marks);
    Some(1 + text.len() + 2 + length)
}

fn style(rest: &str, before: &str, shown: &mut Shown) -> Option<usize> {
    let (kind, mark, end) = strong(rest).or_else(|| plain_pair(rest)).or_else(|| emphasis(rest, before))?;
    let mut part = Shown::default();
    parse(&rest[mark..end], false, &mut part);
    shown.text.push_str(&part.text);
    shown.mark(kind, &part.text);
    shown.marks.extend(part.marks);
    Some(end + mark)
}

/// The first place in a text, behind its mark, that ends it.
fn closing(rest: &str, mark: &str, is_end: impl Fn(usize) -> bool) -> Option<usize> {
    let mut at = mark.len();
    while at < rest.len() {
        if at > mark.len() && rest[at..].starts_with(mark) && is_end(at) {
            return Some(at);
        }
        at += rest[at..].chars().next()?.len_utf8();
    }
    None
}

fn strong(rest: &str) -> Option<(&'static str, usize, usize)> {
    let (kind, mark) =
        [("bold", "**"), ("underline", "__")].into_iter().find(|(_, mark)| rest.starts_with(mark))?;
    let escaped = |at: usize| rest[..at].len() - rest[..at].trim_end_matches('\\').len();
    let end = closing(rest, mark, |at| escaped(at) % 2 == 0 && !rest[at + 2..].starts_with(&mark[..1]))?;
    Some((kind, 2, end))
}

fn plain_pair(rest: &str) -> Option<(&'static str, usize, usize)> {
    let (kind, mark) =
        [("struck", "~~"), ("spoiler", "||")].into_iter().find(|(_, mark)| rest.starts_with(mark))?;
    Some((kind, 2, closing(rest, mark, |_| true)?))
}

fn emphasis(rest: &str, before: &str) -> Option<(&'static str, usize, usize)> {
    let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let is_star = rest
        .strip_prefix('*')
        .is_some_and(|inner| !inner.is_empty() && !inner.starts_with(char::is_whitespace));
    if is_star {
        let is_end = |at: usize| {
            !rest[at + 1..].starts_with('*')
                && !rest[..at].ends_with('*')
                && !rest[..at].ends_with(char::is_whitespace)
        };
        return Some(("italic", 1, closing(rest, "*", is_end)?));
    }
    if rest.starts_with('_') && !before.ends_with(is_word) {
        let is_end = |at: usize| !rest[..at].ends_with('\\') && !rest[at + 1..].starts_with(is_word);
        return Some(("italic", 1, closing(rest, "_", is_end)?));
    }
    None
}

/// An address in the text.
fn address(rest: &str, before: &str, shown: &mut Shown) -> Option<usize> {
    let begins = rest.starts_with("https://") || rest.starts_with("http://");
    if !begins || before.ends_with(|char: char| char.is_ascii_alphanumeric()) {
        return None;
    }
    let end = rest.find(|char: char| char.is_whitespace() || char == '<').unwrap_or(rest.len());
    let address = rest[..end].trim_end_matches(['.', ',', ':', ';', '"', '\'', ']']);
    (address.len() > "https://".len()).then(|| {
        shown.text.push_str(address);
        shown.mark("address", address);
        address.len()
    })
}

/// Emoji by name.
fn named(rest: &str, shown: &mut Shown) -> Option<usize> {
    let (name, _) = rest.strip_prefix(':')?.split_once(':')?;
    let is_name =
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || "_+-".contains(char));
    is_name.then(|| {
        shown.text.push_str(&rest[..name.len() + 2]);
        shown.mark("emoji", name);
        name.len() + 2
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_shown_as_discord_shows_them() {
        let check = |content: &str, text: &str, marks: &[(&'static str, &str)]| {
            let marks: Vec<_> = marks.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect();
            assert_eq!(shown(content), Shown { text: text.to_owned(), marks }, "{content:?}");
        };
        check(
            "**a** *b* ~~c~~ __d__ ||e||",
            "a b c d e",
            &[("bold", "a"), ("italic", "b"), ("struck", "c"), ("underline", "d"), ("spoiler", "e")],
        );
        check("snake_case_x 2 * 3 * 4", "snake_case_x 2 * 3 * 4", &[]);
        check("\\*a\\* \\\\ \\x", "*a* \\ \\x", &[]);
        check("```rust\nfn x() {}\n```", "fn x() {}", &[("language", "rust"), ("block", "fn x() {}")]);
        check("`a*b*` ``c`d``", "a*b* c`d", &[("code", "a*b*"), ("code", "c`d")]);
        check(
            "# x\n> y\n- z\n1. w",
            "x\ny\nz\nw",
            &[("heading", "# "), ("quote", "> "), ("list", "- "), ("list", "1")],
        );
        check(
            "<@42> <https://x.example/a_b_c>",
            "<@42> https://x.example/a_b_c",
            &[("mention", "<@42>"), ("address", "https://x.example/a_b_c")],
        );
        check(
            "[a](<https://x.example>) :smile:",
            "a :smile:",
            &[("link", "a → https://x.example"), ("emoji", "smile")],
        );
        check(
            "https://x.example/a\\_b.",
            "https://x.example/a\\_b.",
            &[("address", "https://x.example/a\\_b")],
        );
    }
}
