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
fn a_status_has_one_word_wherever_it_is_written() {
    for status in ShownStatus::ALL {
        let word = serde_json::json!(status.as_str());
        assert_eq!(serde_json::to_value(status).unwrap(), word);
        assert_eq!(serde_json::from_value::<ShownStatus>(word).unwrap(), status);
        assert_eq!(status.as_str().parse(), Ok(status));
    }
    for status in Status::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        assert!(ShownStatus::ALL.contains(&ShownStatus::Stored(status)));
    }
    assert!(serde_json::from_value::<ShownStatus>("asleep".into()).is_err());
    assert_eq!("asleep".parse::<ShownStatus>(), Err("unknown status asleep".to_owned()));
}
