//! The hop mark on messages between agents: how many bridges a text has passed. Two bridges that answer each other
//! would never end; the mark tells them when to stop. Pure.

/// The beginning of the mark.
const MARK: &str = "[codex-bridge hop ";

/// How many bridges a text has passed, by its last mark.
pub fn of(text: &str) -> u32 {
    let Some(at) = text.rfind(MARK) else { return 0 };
    let digits: String = text[at + MARK.len()..].chars().take_while(char::is_ascii_digit).collect();
    // A number that is too large counts as too many hops.
    if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u32::MAX) }
}

/// The last line of a reply to another agent: the message that it answers, and the hops so far.
pub fn mark(answers: &str, hops: u32) -> String {
    format!("[re: {answers}] {MARK}{}]", hops.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::{mark, of};

    #[test]
    fn each_of_us_counts_one_more() {
        assert_eq!(of("please look"), 0);
        let first = mark("row-1", 0);
        assert_eq!((first.as_str(), of(&first)), ("[re: row-1] [codex-bridge hop 1]", 1));
        assert_eq!(of(&format!("{first} and more {}", mark("row-2", of(&first)))), 2);
    }

    #[test]
    fn a_mark_that_is_tampered_with_does_not_begin_anew() {
        assert_eq!(of("[codex-bridge hop 99999999999999]"), u32::MAX);
        assert_eq!(of("[codex-bridge hop x]"), 0);
    }
}
