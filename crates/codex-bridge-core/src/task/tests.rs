use serde_json::json;

use super::{Limits, ShownStatus, Status, Task, Tokens, Usage, Used, Waived};
use crate::store::conformance::samples;

fn limited(limits: Limits, used: Used, tokens: u64) -> Task {
    let total = Tokens { total: tokens, ..Tokens::default() };
    let usage = Some(Usage { total, ..Usage::default() });
    Task { limits, used, usage, ..samples::new_task(1) }
}

#[test]
fn usage_is_read_as_it_is_written() {
    let count = Tokens { total: 5, input: 3, cached_input: 1, output: 2, reasoning_output: 1 };
    let usage = Usage { last: count, total: count, context_window: Some(7) };
    let written = serde_json::to_value(usage).unwrap();
    assert_eq!(written["total"]["cached_input"], json!(1));
    assert_eq!(serde_json::from_value::<Usage>(written).unwrap(), usage);
}

#[test]
fn continuing_beyond_the_turns_gives_one_more() {
    let limits = Limits { turns: Some(2), ..Limits::default() };
    let mut task = limited(limits, Used { turns: 1, ..Used::default() }, 0);
    task.waive_reached_limits();
    assert_eq!(task.used.waived, Waived::default(), "within the limit nothing is waived");
    for turns in 2..5 {
        task.used.turns = turns;
        assert!(!task.has_turn_left());
        task.waive_reached_limits();
        assert!(task.has_turn_left());
    }
}

#[test]
fn continuing_beyond_time_or_tokens_gives_as_much_again() {
    let limits = Limits { work_ms: Some(60_000), tokens: Some(100), ..Limits::default() };
    let mut task = limited(limits, Used { work_ms: 61_000, ..Used::default() }, 150);
    assert_eq!(task.work_left_ms(), Some(0));
    task.waive_reached_limits();
    assert_eq!((task.work_left_ms(), task.token_limit()), (Some(60_000), Some(250)));
    task.waive_reached_limits();
    assert_eq!((task.work_left_ms(), task.token_limit()), (Some(60_000), Some(250)), "not twice");
}

#[test]
fn a_status_has_one_word_for_programs_and_one_for_people() {
    for status in ShownStatus::ALL {
        let word = serde_json::json!(status.as_str());
        assert_eq!(serde_json::to_value(status).unwrap(), word);
        assert_eq!(serde_json::from_value::<ShownStatus>(word).unwrap(), status);
        let by_hyphens = status.word().replace(' ', "-");
        for shown in [status.as_str(), status.word(), &status.to_string(), &by_hyphens] {
            assert_eq!(shown.parse(), Ok(status), "whatever is shown is a filter");
        }
    }
    for status in Status::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        assert!(ShownStatus::ALL.contains(&ShownStatus::Stored(status)));
    }
    assert!(serde_json::from_value::<ShownStatus>("asleep".into()).is_err());
    let unknown = "asleep".parse::<ShownStatus>().unwrap_err();
    assert!(unknown.starts_with("unknown status \"asleep\": use queued, starting"), "{unknown}");
}
