//! Labels for people: of states, times, decisions and counts.

use codex_bridge_core::request::DecisionWord;
use codex_bridge_core::task::{ShownStatus, Status, TimeMs};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::amount;

/// The badge of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Badge {
    /// The text.
    pub words: &'static str,
    /// The tone, which gives the colour: `live`, `wait`, `good`, `bad` or `quiet`.
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

/// A time in UTC. The script converts it to local time.
pub fn moment(ms: TimeMs) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// How long ago: `now`, `5 s ago`.
pub fn ago(ms: TimeMs, now: TimeMs) -> String {
    match amount::age(elapsed_ms(ms, now)) {
        now if now == "now" => now,
        age => format!("{age} ago"),
    }
}

/// The time between two moments; 0 if the clock was set back.
pub fn elapsed_ms(from: TimeMs, to: TimeMs) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or_default()
}

/// The button of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    /// The decision that it sends.
    pub decision: DecisionWord,
    /// The label.
    pub label: &'static str,
    /// The effect.
    pub meaning: String,
    /// The CSS class: `yes`, `no` or `more`.
    pub class: &'static str,
}

impl Button {
    /// Whether the decision approves the request.
    pub fn is_approval(&self) -> bool {
        self.class != "no"
    }
}

/// The button of a decision. `None` for answers and forms, which have their own button.
pub fn button(decision: &DecisionWord) -> Option<Button> {
    let label = decision.label()?;
    let (meaning, class) = match decision {
        DecisionWord::Accept => ("Yes, once", "yes"),
        DecisionWord::AcceptForSession => {
            ("Yes, and do not ask again in this task for what is listed under Session", "more")
        }
        DecisionWord::AcceptAlways => ("Yes, always, in every thread", "more"),
        DecisionWord::Decline => ("No. Codex continues without it", "no"),
        _ => ("No, and end the turn", "no"),
    };
    Some(Button { decision: decision.clone(), label, meaning: meaning.to_owned(), class })
}

/// A count with thousands separators: `1,600`.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 63, 999, 1600, 1_234_567].map(count), ["0", "63", "999", "1,600", "1,234,567"]);
    }
}
