//! What people read for the words that programs use: states, decisions, kinds of requests.

use codex_bridge_core::task::{ShownStatus, Status, TimeMs};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::amount;

/// A state as a badge: its words, and the tone that gives its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Badge {
    /// What it says.
    pub words: &'static str,
    /// `live`, `wait`, `good`, `bad` or `quiet`.
    pub tone: &'static str,
}

/// The badge of a status.
pub fn badge(status: ShownStatus) -> Badge {
    let tone = match status {
        ShownStatus::WaitingForApproval | ShownStatus::WaitingForUserInput => "wait",
        ShownStatus::Stored(status) => match status {
            Status::Starting | Status::Working | Status::Interrupting => "live",
            Status::Completed => "good",
            Status::Failed | Status::Lost => "bad",
            Status::Queued | Status::Cancelled => "quiet",
            Status::Paused => "wait",
        },
    };
    Badge { words: status.word(), tone }
}

/// A time as a person reads it on a page, in UTC: the script shows it in theirs.
pub fn moment(ms: TimeMs) -> String {
    let moment = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// How long ago: `now`, `5 s ago`.
pub fn ago(ms: TimeMs, now: TimeMs) -> String {
    match amount::age(elapsed_ms(ms, now)) {
        now if now == "now" => now,
        age => format!("{age} ago"),
    }
}

/// The time between two moments; none if the clock went back.
pub fn elapsed_ms(from: TimeMs, to: TimeMs) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or_default()
}

/// The button of a decision: its words, what it means, and its look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    /// What is sent.
    pub decision: String,
    /// What it says.
    pub words: &'static str,
    /// What it means.
    pub meaning: String,
    /// `yes`, `no` or `more`.
    pub look: &'static str,
}

impl Button {
    /// Whether it agrees to what is asked.
    pub fn is_yes(&self) -> bool {
        self.look != "no"
    }
}

/// The button of a decision that a request offers; answers have a form of their own. Each says in itself what it does: it
/// may be read without what stands around it.
pub fn button(decision: &str) -> Option<Button> {
    let (words, meaning, look) = match decision {
        "accept" => ("Approve once", "Yes, this one time", "yes"),
        "acceptForSession" => {
            ("Approve for this task", "Yes, and what stands under Session, without asking again", "more")
        }
        "acceptAlways" => ("Approve always", "Yes, for good: in every task, without asking", "more"),
        "decline" => ("Decline", "No; Codex goes on without it", "no"),
        "cancel" => ("Decline and stop", "No, and the turn ends", "no"),
        _ => return None,
    };
    Some(Button { decision: decision.to_owned(), words, meaning: meaning.to_owned(), look })
}

/// A count as a person reads it: `1,600`.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut read = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            read.push(',');
        }
        read.push(digit);
    }
    read
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counts_are_read_in_thousands() {
        assert_eq!([0, 63, 999, 1600, 1_234_567].map(count), ["0", "63", "999", "1,600", "1,234,567"]);
    }
}
