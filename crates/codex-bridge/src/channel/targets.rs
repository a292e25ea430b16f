//! Where a target leads: to a place of a channel. A target is `NAME` or `NAME:PLACE`; `TYPE:NAME` and `TYPE:NAME:PLACE` mean
//! the same, such as `webhook:ci`.

use std::sync::Arc;
use std::time::Duration;

use codex_bridge_core::outbox::sender::{Refusal, Seen, Unknown};
use codex_bridge_core::outbox::{Attempt, Content, Notice, Outcome, Repeats, Sender};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::Channel;
use super::registry::Registry;
use super::settings::Kind;

/// When it is tried again to say something on a channel that is not served.
const NOT_SERVED: Duration = Duration::from_secs(10);
/// The same at the beginning, when channels are just being opened.
const NOT_YET_SERVED: Duration = Duration::from_secs(1);
/// How long the beginning is.
const BEGINNING: Duration = Duration::from_secs(30);

/// A channel that a target may lead to, and where it would go there.
pub struct Candidate<'a> {
    /// The channel's name.
    pub name: String,
    /// The place.
    pub place: &'a str,
    /// The channel that is served, or else as it is configured, or why neither is there.
    pub channel: Result<Arc<dyn Channel>, String>,
    /// Whether it has to be served before anything is said there.
    pub receives: bool,
    /// Whether it was served once and, by its kind, can be again, however it is configured now.
    pub was_served: bool,
    /// Whether its kind can receive.
    pub can_receive: bool,
    /// Whether it is configured in the old spelling.
    pub has_own_table: bool,
}

impl Candidate<'_> {
    fn check(&self) -> Result<(), String> {
        self.channel.clone()?.check_place(self.place)
    }

    /// What is said in a conversation goes out by its channel if that reaches the place, everything else if callers may
    /// name the place.
    fn fits(&self, is_said_there: bool) -> bool {
        match &self.channel {
            // Its conversations are from when it was served: their words wait until it is served again.
            _ if is_said_there && self.was_served && !self.receives => true,
            Ok(channel) if is_said_there && self.receives => channel.reaches(self.place),
            Ok(channel) => channel.check_place(self.place).is_ok(),
            // How it is configured may be put right; what it was asked waits for that.
            Err(_) => self.receives && is_said_there,
        }
    }

    /// Whether `[notify]` comes first: in the old spelling, a bot sent only to numbers, and only if somebody may write to it.
    fn yields(&self, is_said_there: bool) -> bool {
        self.has_own_table && (self.place.starts_with('@') || (!self.receives && !is_said_there))
    }

    /// Whether something waits until a channel that only sends by the file is run for people. One that never was has no
    /// conversations: it gets only the replies of hooks, to places that callers may name.
    fn waits(&self, is_said_there: bool, fits: bool) -> bool {
        (self.was_served && (is_said_there || !fits)) || (self.can_receive && is_said_there && !fits)
    }
}

/// The place of a target in the channel of this name, if it is one of it. An empty place is the channel itself.
pub fn place_in<'a>(target: &'a str, name: &str) -> Option<&'a str> {
    let rest = target.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(':').filter(|place| !place.is_empty()) }
}

/// Which way something goes.
enum Way<'a> {
    /// By this channel, to this place.
    Channel(Arc<dyn Channel>, &'a str),
    /// By a channel that the operator has, but which is not served now.
    Resting,
    /// Nowhere, for this reason.
    None(String),
}

impl Registry {
    /// Which way it goes. What was accepted for a channel that receives is not looked at again when it goes out.
    fn way<'a>(&self, target: &'a str, notice: &Notice) -> Way<'a> {
        let is_said_there = match &notice.content {
            Content::Reply(_) | Content::Reminder(_) => true,
            Content::Asks(asks) => asks.in_conversation,
            Content::Finished(_) | Content::Test => false,
        };
        let mut candidates = self.candidates(target);
        candidates.sort_by_key(|one| one.yields(is_said_there));
        let fitting = candidates.iter().find(|one| one.fits(is_said_there));
        let fits = fitting.is_some();
        let Some(chosen) = fitting.or(candidates.first()) else { return Way::None(nowhere(target)) };
        match &chosen.channel {
            _ if chosen.receives => {
                let served = self.channel(&chosen.name);
                served.map_or(Way::Resting, |channel| Way::Channel(channel, chosen.place))
            }
            _ if chosen.waits(is_said_there, fits) => Way::Resting,
            Ok(channel) if fits => Way::Channel(channel.clone(), chosen.place),
            // The configuration has changed since; once it is put right, somebody can retry it.
            _ => Way::None(chosen.check().err().unwrap_or_else(|| nowhere(target))),
        }
    }
}

/// Why a target leads nowhere.
fn nowhere(target: &str) -> String {
    let platform = target.split(':').next().unwrap_or_default();
    let why =
        if Kind::named(platform).is_some() { "it is not configured" } else { "there is no such platform" };
    why.to_owned()
}

impl Sender for Registry {
    fn check(&self, target: &str) -> Result<(), Unknown> {
        let candidates = self.candidates(target);
        if candidates.iter().any(|one| one.check().is_ok()) {
            return Ok(());
        }
        let why = candidates.first().and_then(|one| one.check().err()).unwrap_or_else(|| nowhere(target));
        let known = self.survey().into_iter().filter_map(|one| one.targets.ok()).flatten().collect();
        Err(Unknown { target: target.to_owned(), why, known })
    }

    fn repeats(&self, attempt: &Attempt) -> Repeats {
        match self.way(&attempt.target, &attempt.notice) {
            Way::Channel(channel, place) => channel.repeats(place),
            // Nothing is sent.
            Way::Resting | Way::None(_) => Repeats::MayDouble,
        }
    }

    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome> {
        async move {
            match self.way(&attempt.target, &attempt.notice) {
                Way::Channel(channel, place) => channel.send(place, &attempt).await,
                // It goes out when the channel is served again.
                Way::Resting => {
                    let wait = if self.age() < BEGINNING { NOT_YET_SERVED } else { NOT_SERVED };
                    Outcome::failed(Refusal::NotBefore(wait), "the channel is not served now")
                }
                Way::None(why) => Outcome::failed(Refusal::Never, why),
            }
        }
        .boxed()
    }

    fn look(&self, attempt: &Attempt) -> BoxFuture<'_, Result<Seen, String>> {
        let attempt = attempt.clone();
        async move {
            match self.way(&attempt.target, &attempt.notice) {
                Way::Channel(channel, _) => channel.look(&attempt).await,
                Way::Resting | Way::None(_) => Ok(Seen::No),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
