//! Formats durations, ages and counts for people, and times for JSON.

use codex_bridge_core::task::TimeMs;
use jiff::Timestamp;

/// The present time in milliseconds since 1970.
pub fn now_ms() -> TimeMs {
    Timestamp::now().as_millisecond()
}

/// A duration: `0.4 s`, `12 s`, `3 min 05 s`, `2 h 10 min`.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..10 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A duration on a running clock: `0:07`, `12:30`, `1:02:03`.
pub fn clock(ms: u64) -> String {
    let seconds = ms / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds % 3600 / 60, seconds % 60);
    if hours == 0 { format!("{minutes}:{seconds:02}") } else { format!("{hours}:{minutes:02}:{seconds:02}") }
}

/// How long ago: `now`, `5 s`, `12 min`, `3 h`, `2 d`.
pub fn age(ms: u64) -> String {
    match ms / 1000 {
        0 => "now".to_owned(),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// A count of tokens: `873`, `1.2k`, `45k`, `1.3M`.
pub fn tokens(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..10_000 => format!("{}.{}k", count / 1000, count % 1000 / 100),
        10_000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// `1 file`, `3 files`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The text in one line, with one blank for every run of white space.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A time as JSON has it.
pub fn rfc3339(ms: TimeMs) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::{age, clock, counted, duration, tokens};

    #[test]
    fn durations_lose_what_does_not_matter() {
        let shown: Vec<String> = [0, 450, 12_300, 185_000, 7_800_000].map(duration).into();
        assert_eq!(shown, ["0.0 s", "0.4 s", "12 s", "3 min 05 s", "2 h 10 min"]);
        assert_eq!([7_000, 750_000, 3_723_000].map(clock), ["0:07", "12:30", "1:02:03"]);
        assert_eq!(
            [0, 5_000, 720_000, 10_800_000, 200_000_000].map(age),
            ["now", "5 s", "12 min", "3 h", "2 d"]
        );
    }

    #[test]
    fn counts_are_short() {
        assert_eq!([0, 873, 1234, 45_678, 1_300_000].map(tokens), ["0", "873", "1.2k", "45k", "1.3M"]);
        assert_eq!((counted(1, "file"), counted(2, "file")), ("1 file".into(), "2 files".into()));
    }
}
