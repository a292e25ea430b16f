//! Resolves targets. A target is `NAME` or `NAME:PLACE`; `TYPE:NAME` and `TYPE:NAME:PLACE` mean the same, such as
//! `webhook:ci`.

use std::sync::Arc;
use std::time::Duration;

use codex_bridge_core::outbox::sender::{Refusal, Seen, Unknown};
use codex_bridge_core::outbox::{Attempt, Content, Notice, Outcome, Repeats, Sender};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::Channel;
use super::registry::Registry;
use super::settings::Kind;

/// The pause before a delivery to a channel that is not served is retried.
const RETRY_NOT_SERVED: Duration = Duration::from_secs(10);
/// The same shortly after the daemon has started, when channels are still being opened.
const RETRY_AT_STARTUP: Duration = Duration::from_secs(1);
/// How long the daemon counts as just started.
const STARTUP: Duration = Duration::from_secs(30);

/// A channel that a target may name, with the place in it.
pub struct Candidate<'a> {
    /// The channel's name.
    pub name: String,
    /// The place.
    pub place: &'a str,
    /// The served channel, else the configured one, else why there is neither.
    pub channel: Result<Arc<dyn Channel>, String>,
    /// Whether the channel has to be served before it can send.
    pub receives: bool,
    /// Whether the channel was served before and its kind can receive, whatever its present configuration.
    pub was_served: bool,
    /// Whether the channel's kind can receive.
    pub can_receive: bool,
    /// Whether the channel is configured in the old spelling.
    pub has_platform_table: bool,
}

impl Candidate<'_> {
    fn check(&self) -> Result<(), String> {
        self.channel.clone()?.check_place(self.place)
    }

    /// Whether the channel can take the delivery. Words of a conversation need a channel that reaches the place; everything
    /// else needs a place that callers may name.
    fn can_take(&self, is_conversation: bool) -> bool {
        match &self.channel {
            // The conversation is from a time when the channel was served: the delivery waits until it is served again.
            _ if is_conversation && self.was_served && !self.receives => true,
            Ok(channel) if is_conversation && self.receives => channel.reaches(self.place),
            Ok(channel) => channel.check_place(self.place).is_ok(),
            // The configuration may be corrected; words of a conversation wait for that.
            Err(_) => self.receives && is_conversation,
        }
    }

    /// Whether a target of `[notify]` takes precedence. In the old spelling a bot sent only to numeric chats, and only if
    /// somebody could write to it.
    fn yields_to_notify(&self, is_conversation: bool) -> bool {
        self.has_platform_table && (self.place.starts_with('@') || (!self.receives && !is_conversation))
    }

    /// Whether a delivery waits until a channel that only sends by its configuration is run with an `allow` list. A channel
    /// that was never run so has no conversations: it only gets replies of hooks, to places that callers may name.
    fn waits_until_served(&self, is_conversation: bool, fits: bool) -> bool {
        (self.was_served && (is_conversation || !fits)) || (self.can_receive && is_conversation && !fits)
    }
}

/// The place of a target, if the target names this channel. An empty place is the channel itself.
pub fn place_in<'a>(target: &'a str, name: &str) -> Option<&'a str> {
    let rest = target.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(':').filter(|place| !place.is_empty()) }
}

enum Route<'a> {
    /// To this place of this channel.
    Channel(Arc<dyn Channel>, &'a str),
    /// To a channel that exists but is not served now.
    NotServed,
    /// Nowhere, for this reason.
    None(String),
}

impl Registry {
    /// Where a delivery goes. The place in a receiving channel was checked when the delivery was accepted, and is not checked
    /// again.
    fn route<'a>(&self, target: &'a str, notice: &Notice) -> Route<'a> {
        let is_conversation = match &notice.content {
            Content::Reply(_) | Content::Reminder(_) => true,
            Content::Asks(asks) => asks.in_conversation,
            Content::Finished(_) | Content::Test => false,
        };
        let mut candidates = self.candidates(target);
        candidates.sort_by_key(|candidate| candidate.yields_to_notify(is_conversation));
        let fitting = candidates.iter().find(|candidate| candidate.can_take(is_conversation));
        let fits = fitting.is_some();
        let Some(chosen) = fitting.or(candidates.first()) else { return Route::None(unknown_target(target)) };
        match &chosen.channel {
            _ if chosen.receives => {
                let served = self.channel(&chosen.name);
                served.map_or(Route::NotServed, |channel| Route::Channel(channel, chosen.place))
            }
            _ if chosen.waits_until_served(is_conversation, fits) => Route::NotServed,
            Ok(channel) if fits => Route::Channel(channel.clone(), chosen.place),
            // The configuration has changed since the delivery was accepted. Once it is corrected, the delivery can be retried.
            _ => Route::None(chosen.check().err().unwrap_or_else(|| unknown_target(target))),
        }
    }
}

fn unknown_target(target: &str) -> String {
    let platform = target.split(':').next().unwrap_or_default();
    let why = if Kind::named(platform).is_some() {
        "the channel is not configured"
    } else {
        "no channel has this name"
    };
    why.to_owned()
}

impl Sender for Registry {
    fn check(&self, target: &str) -> Result<(), Unknown> {
        let candidates = self.candidates(target);
        if candidates.iter().any(|candidate| candidate.check().is_ok()) {
            return Ok(());
        }
        let why = candidates
            .first()
            .and_then(|candidate| candidate.check().err())
            .unwrap_or_else(|| unknown_target(target));
        let known = self.targets().into_iter().filter_map(|channel| channel.targets.ok()).flatten().collect();
        Err(Unknown { target: target.to_owned(), why, known })
    }

    fn repeats(&self, attempt: &Attempt) -> Repeats {
        match self.route(&attempt.target, &attempt.notice) {
            Route::Channel(channel, place) => channel.repeats(place),
            // Nothing is sent.
            Route::NotServed | Route::None(_) => Repeats::MayDouble,
        }
    }

    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome> {
        async move {
            match self.route(&attempt.target, &attempt.notice) {
                Route::Channel(channel, place) => channel.send(place, &attempt).await,
                // The delivery is retried until the channel is served again.
                Route::NotServed => {
                    let wait = if self.uptime() < STARTUP { RETRY_AT_STARTUP } else { RETRY_NOT_SERVED };
                    Outcome::failed(Refusal::NotBefore(wait), "the channel is not served now")
                }
                Route::None(why) => Outcome::failed(Refusal::Never, why),
            }
        }
        .boxed()
    }

    fn look(&self, attempt: &Attempt) -> BoxFuture<'_, Result<Seen, String>> {
        let attempt = attempt.clone();
        async move {
            match self.route(&attempt.target, &attempt.notice) {
                Route::Channel(channel, _) => channel.look(&attempt).await,
                Route::NotServed | Route::None(_) => Ok(Seen::No),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
