//! The mark on what agents say to each other: how many of us it has passed. Two of us that answer each other would never
//! end; whoever reads the mark knows when to be silent. Pure.

/// How the mark begins.
const MARK: &str = "[codex-bridge hop ";

/// How many of us a text has passed: what its last mark says.
pub fn of(text: &str) -> u32 {
    let Some(at) = text.rfind(MARK) else { return 0 };
    let digits: String = text[at + MARK.len()..].chars().take_while(char::is_ascii_digit).collect();
    // A number beyond all measure has passed too many.
    if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u32::MAX) }
}

/// The last line of what another agent is told: what it answers, and how far it has come.
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
