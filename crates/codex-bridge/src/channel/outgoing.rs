//! The way out for what channels say: targets of a channel that is served go through it, all others the usual way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codex_bridge_core::outbox::sender::{Refusal, Seen, Unknown};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats, Sender};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::Channel;
use super::registry::Registry;

/// When it is tried again to say something on a channel that is not served.
const NOT_SERVED: Duration = Duration::from_secs(10);
/// The same at the beginning, when channels are just being opened.
const NOT_YET_SERVED: Duration = Duration::from_secs(1);
/// How long the beginning is.
const BEGINNING: Duration = Duration::from_secs(30);

/// A sender that knows the channels.
pub struct Outgoing {
    channels: Arc<Registry>,
    others: Arc<dyn Sender>,
    begun: Instant,
}

impl Outgoing {
    /// Channels first, then the others.
    pub fn new(channels: Arc<Registry>, others: Arc<dyn Sender>) -> Self {
        Self { channels, others, begun: Instant::now() }
    }

    /// The channel of a target, and the place in it.
    fn channel<'a>(&self, target: &'a str) -> Option<(Arc<dyn Channel>, &'a str)> {
        let (name, place) = parts(target)?;
        Some((self.channels.channel(name)?, place))
    }

    /// What can be named of the channels, for people.
    fn places(&self) -> Vec<String> {
        let of_channel = |name: String| {
            let guide = self.channels.guide(&name).and_then(Result::ok);
            let places = guide.map(|channel| channel.places()).unwrap_or_default();
            places.into_iter().map(move |place| format!("{name}:{place}"))
        };
        self.channels.names().into_iter().flat_map(of_channel).collect()
    }

    /// Whether there is such a place in the channel of a target; none if there is no such channel. What waits for a channel
    /// is not looked at again when it goes out, so one that is not served says it as it is configured.
    fn check_place(&self, target: &str) -> Option<Result<(), String>> {
        let (name, place) = parts(target)?;
        Some(self.channels.guide(name)?.and_then(|channel| channel.check_place(place)))
    }

    /// Whether a target is of a channel that the operator has, but which is not served now.
    fn is_resting(&self, target: &str) -> bool {
        parts(target).is_some_and(|(name, _)| self.channels.is_known(name))
    }
}

/// The channel and the place of a target. A plugin's can be named as such.
fn parts(target: &str) -> Option<(&str, &str)> {
    target.strip_prefix("plugin:").unwrap_or(target).split_once(':')
}

impl Sender for Outgoing {
    fn check(&self, target: &str) -> Result<(), Unknown> {
        let of_channel = self.check_place(target);
        if of_channel == Some(Ok(())) {
            return Ok(());
        }
        // What the channel does not know, the operator may have configured as a target.
        let Err(mut unknown) = self.others.check(target) else { return Ok(()) };
        if let Some(Err(why)) = of_channel {
            unknown.why = why;
        }
        unknown.known.extend(self.places());
        Err(unknown)
    }

    fn repeats(&self, target: &str) -> Repeats {
        match self.channel(target) {
            Some((channel, place)) => channel.repeats(place),
            None => self.others.repeats(target),
        }
    }

    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome> {
        async move {
            match self.channel(&attempt.target) {
                Some((channel, place)) => channel.send(place, &attempt).await,
                // It goes out when the channel is served again.
                None if self.is_resting(&attempt.target) => {
                    let wait = if self.begun.elapsed() < BEGINNING { NOT_YET_SERVED } else { NOT_SERVED };
                    Outcome::failed(Refusal::NotBefore(wait), "the channel is not served now")
                }
                None => self.others.send(attempt).await,
            }
        }
        .boxed()
    }

    fn look(&self, attempt: &Attempt) -> BoxFuture<'_, Result<Seen, String>> {
        let attempt = attempt.clone();
        async move {
            match self.channel(&attempt.target) {
                Some((channel, place)) => channel.look(place, &attempt).await,
                None => self.others.look(&attempt).await,
            }
        }
        .boxed()
    }
}
