//! Decides when a delivery is retried and when it is given up. Pure: time and chance come in as numbers.
//!
//! Eight attempts take about a day: at once, then after 5 s, 1 min, 5 min, 30 min, 2 h, 6 h and 15 h. Each wait is up
//! to a fifth longer, so that deliveries that failed together are not retried together. A target that says how long to
//! wait gets at least that long (at most a day), and the wait costs no attempt. After three days a delivery is given
//! up. Time in which it could not be tried does not count.
//!
//! An attempt that ended with its daemon says nothing about the target, so it costs no attempt. It is repeated with
//! growing waits, because the delivery itself may be what kills the daemon.

use super::sender::{Outcome, Refusal};
use crate::task::TimeMs;

const SECOND_MS: TimeMs = 1_000;
const MINUTE_MS: TimeMs = 60 * SECOND_MS;
const HOUR_MS: TimeMs = 60 * MINUTE_MS;

/// The waits between the attempts.
const WAITS_MS: [TimeMs; 7] =
    [5 * SECOND_MS, MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 6 * HOUR_MS, 15 * HOUR_MS];
/// The waits after attempts that ended with the daemon. The last one repeats.
const WAITS_AFTER_BREAKS_MS: [TimeMs; 8] =
    [0, 0, SECOND_MS, 5 * SECOND_MS, 30 * SECOND_MS, 2 * MINUTE_MS, 10 * MINUTE_MS, 30 * MINUTE_MS];
/// The longest wait that a target can ask for.
const LONGEST_WAIT_MS: TimeMs = 24 * HOUR_MS;
/// A delivery older than this is given up.
const OLDEST_MS: TimeMs = 72 * HOUR_MS;

/// What is known when an attempt has ended.
#[derive(Debug, Clone, Copy)]
pub struct Tried {
    /// How many attempts of this kind there were before.
    pub attempts: u32,
    /// The start of the delivery's age.
    pub since: TimeMs,
    /// Now.
    pub now: TimeMs,
    /// A random number, which spreads the attempts.
    pub chance: u64,
}

/// What happens to a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The delivery is done.
    Delivered,
    /// The delivery is retried.
    Again {
        /// When.
        at: TimeMs,
        /// How many attempts there were.
        attempts: u32,
    },
    /// The delivery is given up.
    Dead {
        /// Whether all other deliveries to this target are given up too.
        target_gone: bool,
    },
}

/// Decides about a delivery after an attempt with this outcome.
pub fn next(tried: Tried, outcome: &Outcome) -> Next {
    let (attempts, wait) = match outcome {
        Outcome::Delivered { .. } => return Next::Delivered,
        Outcome::Failed { refusal: Refusal::Never, .. } => return Next::Dead { target_gone: false },
        Outcome::Failed { refusal: Refusal::Gone, .. } => return Next::Dead { target_gone: true },
        Outcome::Failed { refusal: Refusal::NotBefore(wait), .. } => {
            let asked = TimeMs::try_from(wait.as_millis()).unwrap_or(TimeMs::MAX);
            (tried.attempts, asked.clamp(SECOND_MS, LONGEST_WAIT_MS))
        }
        Outcome::Failed { refusal: Refusal::Later, .. } => {
            let Some(wait) = WAITS_MS.get(tried.attempts as usize) else {
                return Next::Dead { target_gone: false };
            };
            (tried.attempts + 1, *wait)
        }
    };
    match again(tried, wait) {
        Some(at) => Next::Again { at, attempts },
        None => Next::Dead { target_gone: false },
    }
}

/// When to retry a delivery whose attempt ended with the daemon; `None` if it would be too old.
pub fn after_break(tried: Tried) -> Option<TimeMs> {
    let last = WAITS_AFTER_BREAKS_MS.len() - 1;
    again(tried, WAITS_AFTER_BREAKS_MS[last.min(tried.attempts as usize)])
}

/// The start of a delivery's age, moved by the time in which it was due but not tried.
pub fn since(counted_from: TimeMs, due_at: TimeMs, now: TimeMs) -> TimeMs {
    counted_from + (now - due_at).max(0)
}

/// The end of a wait; `None` if the delivery would be too old by then.
fn again(tried: Tried, wait: TimeMs) -> Option<TimeMs> {
    let spread = i64::try_from(tried.chance % 1_000).unwrap_or_default();
    let at = tried.now + wait + wait * spread / 5_000;
    (at <= tried.since + OLDEST_MS).then_some(at)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: TimeMs = 1_000_000;

    fn failed(refusal: Refusal) -> Outcome {
        Outcome::Failed { refusal, in_doubt: false, error: "no".to_owned() }
    }

    fn after(attempts: u32, refusal: Refusal) -> Next {
        next(Tried { attempts, since: NOW, now: NOW, chance: 0 }, &failed(refusal))
    }

    #[test]
    fn each_attempt_waits_longer_and_the_eighth_is_the_last() {
        let mut waits = Vec::new();
        let mut attempts = 0;
        while let Next::Again { at, attempts: tried } = after(attempts, Refusal::Later) {
            assert_eq!(tried, attempts + 1);
            waits.push(at - NOW);
            attempts = tried;
        }
        assert_eq!(waits, WAITS_MS);
        assert_eq!(attempts + 1, 8);
        assert!(waits.is_sorted());
        let all: TimeMs = waits.iter().sum();
        assert!((22 * HOUR_MS..24 * HOUR_MS).contains(&all), "{all}");
        assert_eq!(after(7, Refusal::Later), Next::Dead { target_gone: false });
    }

    #[test]
    fn what_failed_together_is_not_tried_together() {
        let at =
            |chance| match next(Tried { attempts: 4, since: NOW, now: NOW, chance }, &failed(Refusal::Later))
            {
                Next::Again { at, .. } => at - NOW,
                other => panic!("{other:?}"),
            };
        let waits: Vec<TimeMs> = [0, 1, 500, 999, 1_000, u64::MAX].map(at).into();
        assert!(
            waits.iter().all(|wait| (2 * HOUR_MS..2 * HOUR_MS + 24 * MINUTE_MS).contains(wait)),
            "{waits:?}"
        );
        assert!(waits[1] < waits[2] && waits[2] < waits[3], "{waits:?}");
    }

    #[test]
    fn a_target_that_asks_for_time_gets_it_and_it_costs_no_attempt() {
        let wait = |seconds| Refusal::NotBefore(Duration::from_secs(seconds));
        assert_eq!(after(3, wait(90)), Next::Again { at: NOW + 90 * SECOND_MS, attempts: 3 });
        assert_eq!(after(0, wait(0)), Next::Again { at: NOW + SECOND_MS, attempts: 0 });
        assert_eq!(after(0, wait(u64::MAX)), Next::Again { at: NOW + LONGEST_WAIT_MS, attempts: 0 });
        // Not for ever.
        let old = Tried { attempts: 0, since: NOW - OLDEST_MS, now: NOW, chance: 0 };
        assert_eq!(next(old, &failed(wait(1))), Next::Dead { target_gone: false });
    }

    /// What becomes of one that breaks off again and again, each time as soon as it is tried.
    fn break_off_again_and_again(since: TimeMs) -> Vec<TimeMs> {
        let (mut waits, mut tried) = (Vec::new(), Tried { attempts: 0, since, now: since, chance: 0 });
        while let Some(at) = after_break(tried) {
            waits.push(at - tried.now);
            tried = Tried { attempts: tried.attempts + 1, now: at, ..tried };
        }
        waits
    }

    #[test]
    fn what_breaks_off_is_repeated_later_and_later_and_given_up_for_its_age_alone() {
        let waits = break_off_again_and_again(NOW);
        assert!(waits.is_sorted(), "{waits:?}");
        assert!(
            waits[..3].iter().all(|wait| *wait <= SECOND_MS),
            "the first ones cost next to nothing: {waits:?}"
        );
        assert_eq!(waits.last(), Some(&(30 * MINUTE_MS)));
        let all: TimeMs = waits.iter().sum();
        assert!((OLDEST_MS - HOUR_MS..=OLDEST_MS).contains(&all), "{all}");
    }

    #[test]
    fn time_in_which_nobody_could_try_it_makes_nothing_older() {
        let (written, week) = (NOW, 7 * 24 * HOUR_MS);
        // Never tried before a week had passed; then each time when it was due, but for another week.
        let first = written + week;
        let counted = since(written, written, first);
        assert_eq!(counted, first);
        let Next::Again { at: due, .. } =
            next(Tried { attempts: 0, since: counted, now: first, chance: 0 }, &failed(Refusal::Later))
        else {
            panic!("given up at its first failure")
        };
        assert_eq!(since(counted, due, due), counted, "its own waits do count");
        let second = due + week;
        let counted = since(counted, due, second);
        let tried = Tried { attempts: 1, since: counted, now: second, chance: 0 };
        assert!(matches!(next(tried, &failed(Refusal::Later)), Next::Again { .. }));
        // A clock that was set back.
        assert_eq!(since(written, due, written), written);
    }

    #[test]
    fn a_refusal_for_good_is_the_end_at_once() {
        assert_eq!(after(0, Refusal::Never), Next::Dead { target_gone: false });
        assert_eq!(after(0, Refusal::Gone), Next::Dead { target_gone: true });
        let done = Outcome::delivered(None);
        assert_eq!(next(Tried { attempts: 9, since: 0, now: NOW, chance: 0 }, &done), Next::Delivered);
    }
}
