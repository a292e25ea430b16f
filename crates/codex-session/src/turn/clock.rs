//! Counts the milliseconds in which Codex could work. The clock is paused while a person is asked.

use super::Millis;

#[derive(Debug)]
pub(super) struct WorkClock {
    consumed_ms: Millis,
    /// Since when it runs; `None` while a person is asked or the connection is down.
    running_since: Option<Millis>,
    last_activity: Millis,
}

impl WorkClock {
    pub(super) fn new(now: Millis) -> Self {
        Self { consumed_ms: 0, running_since: Some(now), last_activity: now }
    }

    /// Starts or pauses.
    pub(super) fn run(&mut self, run: bool, now: Millis) {
        match (run, self.running_since) {
            (true, None) => {
                self.running_since = Some(now);
                // Idle time starts again: during the pause Codex was not expected to work.
                self.last_activity = now;
            }
            (false, Some(since)) => {
                self.consumed_ms += now.saturating_sub(since);
                self.running_since = None;
            }
            _ => {}
        }
    }

    pub(super) fn active(&mut self, now: Millis) {
        self.last_activity = now;
    }

    pub(super) fn worked_ms(&self, now: Millis) -> Millis {
        self.consumed_ms + self.running_since.map_or(0, |since| now.saturating_sub(since))
    }

    pub(super) fn idle_ms(&self, now: Millis) -> Millis {
        if self.running_since.is_some() { now.saturating_sub(self.last_activity) } else { 0 }
    }

    /// When the work reaches `limit`, if the clock runs on.
    pub(super) fn work_reaches(&self, limit: Millis, now: Millis) -> Option<Millis> {
        self.running_since.map(|_| now.saturating_add(limit.saturating_sub(self.worked_ms(now))))
    }

    /// When the idle time reaches `limit`, if the clock runs on.
    pub(super) fn idle_reaches(&self, limit: Millis) -> Option<Millis> {
        self.running_since.map(|_| self.last_activity.saturating_add(limit))
    }
}
