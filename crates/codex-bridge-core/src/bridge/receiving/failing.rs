//! What becomes of a message with which something goes wrong: it is tried again later, and given up in the end. Nothing
//! of that stops the others; only what is wrong with the store as a whole does.

use std::time::{Duration, Instant};

use super::super::{Bridge, Error};
use super::{Inbox, LOOK_AGAIN};
use crate::inbox::{MessageId, Rules, State};
use crate::store::MessageFilter;
use crate::task::TimeMs;

/// A message that failed is left alone for so long; then twice as long, and so on.
const FIRST_PAUSE_MS: TimeMs = 2_000;
/// The pause is doubled so often at most: some eight minutes.
const MOST_DOUBLINGS: u32 = 8;
/// One whose failure cannot even be written is left alone for so long.
const SET_ASIDE: Duration = Duration::from_secs(10);

impl Error {
    /// Whether nothing else would do better now.
    pub(super) fn is_of_all(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_of_all())
    }
}

impl Inbox {
    fn set_aside(&self, id: &MessageId) {
        let mut aside = self.aside();
        let now = Instant::now();
        aside.retain(|_, until| *until > now);
        aside.insert(id.clone(), now + SET_ASIDE);
    }

    /// For how long a message is left alone.
    pub(super) fn is_aside_for(&self, id: &MessageId) -> Option<Duration> {
        let until = self.aside().get(id).copied()?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }
}

impl Bridge {
    /// Notes what went wrong with one message; says after how long to look at it again.
    pub(super) async fn fail(&self, rules: &Rules, id: &MessageId, error: &Error) -> Result<Duration, Error> {
        match self.failed(rules, id, error).await {
            Err(error) if !error.is_of_all() => {
                self.inner.inbox.set_aside(id);
                Ok(SET_ASIDE)
            }
            noted => noted,
        }
    }

    /// The same beside the loop: it is woken when this is over, and must find nothing to do at once.
    pub(super) async fn fail_beside(&self, rules: &Rules, id: &MessageId, error: &Error) {
        if error.is_of_all() || self.fail(rules, id, error).await.is_err() {
            self.inner.inbox.set_aside(id);
        }
    }

    /// Tries again later; or gives a message up, and tells its sender once.
    async fn failed(&self, rules: &Rules, id: &MessageId, error: &Error) -> Result<Duration, Error> {
        // As it stands: some of what was to be done may have been.
        let now = MessageFilter { id: Some(id.clone()), ..MessageFilter::default() };
        let found = self.inner.store.messages(&now).await?.into_iter().next();
        let open = found.filter(|message| matches!(message.state, State::Received | State::Running));
        let Some(mut message) = open else { return Ok(LOOK_AGAIN) };
        message.attempts += 1;
        message.error = Some(self.inner.shown_error(&error.to_string()));
        // What is refused today is refused tomorrow.
        let is_hopeless = matches!(error, Error::Refused(_));
        if !is_hopeless && message.attempts < rules.attempts {
            let pause = pause_ms(message.attempts);
            message.next_at = self.inner.now() + pause;
            self.save_message(&mut message).await?;
            return Ok(Duration::from_millis(pause.unsigned_abs()));
        }
        message.state = State::Dead;
        let why = message.error.clone().unwrap_or_default();
        let text = format!("Nothing could be done with this message: {why}. It is not tried again.");
        self.reply(message, None, &text).await?;
        Ok(LOOK_AGAIN)
    }
}

/// How long a message is left alone that failed so often.
fn pause_ms(failures: u32) -> TimeMs {
    FIRST_PAUSE_MS << failures.saturating_sub(1).min(MOST_DOUBLINGS)
}

#[cfg(test)]
mod tests {
    use super::{Error, pause_ms};

    #[test]
    fn what_breaks_one_change_off_is_not_of_all() {
        assert!(!Error::CutOff.is_of_all());
    }

    #[test]
    fn pauses_begin_with_the_first_and_double_up_to_a_bound() {
        let pauses = [1, 2, 3, 9, 10, u32::MAX].map(pause_ms);
        assert_eq!(pauses, [2_000, 4_000, 8_000, 512_000, 512_000, 512_000]);
    }
}
