//! Folds long output: shows its beginning and its end, and counts the lines between.

/// Lines shown at the beginning.
const HEAD: usize = 4;
/// Lines shown at the end. More than at the beginning, because errors come last.
const TAIL: usize = 6;

/// One entry of a folded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold<'a> {
    /// A line.
    Line(&'a str),
    /// The number of lines that are not shown.
    Hidden(usize),
}

/// Folds a text. Empty lines at both ends are dropped, and a single line is never hidden.
pub fn fold(text: &str) -> Vec<Fold<'_>> {
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(lines.len());
    let lines = &lines[first..];
    if lines.len() <= HEAD + TAIL + 1 {
        return lines.iter().map(|line| Fold::Line(line)).collect();
    }
    let hidden = lines.len() - HEAD - TAIL;
    let head = lines[..HEAD].iter().map(|line| Fold::Line(line));
    let tail = lines[lines.len() - TAIL..].iter().map(|line| Fold::Line(line));
    head.chain([Fold::Hidden(hidden)]).chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::{Fold, fold};

    fn numbered(count: usize) -> String {
        (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_short_text_is_shown_whole_without_its_empty_ends() {
        assert_eq!(fold("\n\na\n\nb\n\n"), [Fold::Line("a"), Fold::Line(""), Fold::Line("b")]);
        assert_eq!(fold(""), []);
        assert_eq!(fold("\n \n"), []);
    }

    #[test]
    fn a_long_text_shows_its_beginning_and_its_end() {
        let text = numbered(30);
        let folded = fold(&text);
        assert_eq!(folded[..2], [Fold::Line("1"), Fold::Line("2")]);
        assert_eq!(folded[4], Fold::Hidden(20));
        assert_eq!(folded.last(), Some(&Fold::Line("30")));
        assert_eq!(folded.len(), 11);
    }

    #[test]
    fn one_line_is_never_hidden_alone() {
        let text = numbered(11);
        assert!(fold(&text).iter().all(|fold| matches!(fold, Fold::Line(_))));
    }
}
