//! The way out for what channels say: targets of a channel that is served go through it, all others the usual way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codex_bridge_core::outbox::sender::{Refusal, Seen, Unknown};
use codex_bridge_core::outbox::{Attempt, Content, Notice, Outcome, Repeats, Sender};
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

    /// Which way it goes. The same target may be a channel's and one that is configured: what is said in a conversation
    /// goes out by its channel if that reaches the place, everything else if the place is one of the channel's own.
    fn way<'a>(&self, target: &'a str, notice: &Notice) -> Way<'a> {
        let Some((name, place)) = parts(target) else { return Way::Others };
        let Some(guide) = self.channels.guide(name) else { return Way::Others };
        let is_said_there = match &notice.content {
            Content::Reply(_) | Content::Reminder(_) => true,
            Content::Asks(asks) => asks.in_conversation,
            Content::Rest(_) | Content::Test => false,
        };
        let is_of_channel = match guide {
            Ok(channel) if is_said_there => channel.reaches(place),
            Ok(channel) => channel.check_place(place).is_ok(),
            // How it is configured may be put right; what it was asked waits for that.
            Err(_) => is_said_there,
        };
        if !is_of_channel && self.others.check(target).is_ok() {
            return Way::Others;
        }
        self.channels.channel(name).map_or(Way::Resting, |channel| Way::Channel(channel, place))
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
}

/// Which way something goes.
enum Way<'a> {
    /// By this channel, to this place.
    Channel(Arc<dyn Channel>, &'a str),
    /// By a channel that the operator has, but which is not served now.
    Resting,
    /// The usual way.
    Others,
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

    fn repeats(&self, attempt: &Attempt) -> Repeats {
        match self.way(&attempt.target, &attempt.notice) {
            Way::Channel(channel, place) => channel.repeats(place),
            // Nothing is sent before it is served again.
            Way::Resting => Repeats::MayDouble,
            Way::Others => self.others.repeats(attempt),
        }
    }

    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome> {
        async move {
            match self.way(&attempt.target, &attempt.notice) {
                Way::Channel(channel, place) => channel.send(place, &attempt).await,
                // It goes out when the channel is served again.
                Way::Resting => {
                    let wait = if self.begun.elapsed() < BEGINNING { NOT_YET_SERVED } else { NOT_SERVED };
                    Outcome::failed(Refusal::NotBefore(wait), "the channel is not served now")
                }
                Way::Others => self.others.send(attempt).await,
            }
        }
        .boxed()
    }

    fn look(&self, attempt: &Attempt) -> BoxFuture<'_, Result<Seen, String>> {
        let attempt = attempt.clone();
        async move {
            match self.way(&attempt.target, &attempt.notice) {
                Way::Channel(channel, place) => channel.look(place, &attempt).await,
                Way::Resting | Way::Others => self.others.look(&attempt).await,
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use codex_bridge_core::inbox::Rules;
    use codex_bridge_core::outbox::Occasion;
    use serde_json::json;

    use super::*;
    use crate::channel::settings::{Mark, Opened};
    use crate::channel::telegram::Telegram;

    /// Targets that are configured.
    struct Configured(&'static [&'static str]);

    impl Sender for Configured {
        fn check(&self, target: &str) -> Result<(), Unknown> {
            let unknown = Unknown { target: target.to_owned(), why: String::new(), known: Vec::new() };
            if self.0.contains(&target) { Ok(()) } else { Err(unknown) }
        }

        fn repeats(&self, _attempt: &Attempt) -> Repeats {
            Repeats::MayDouble
        }

        fn send(&self, _attempt: Attempt) -> BoxFuture<'_, Outcome> {
            std::future::ready(Outcome::delivered(None)).boxed()
        }
    }

    /// A bot that rests, and targets of another one.
    fn outgoing() -> Outgoing {
        let settings = serde_json::from_value(json!({ "token": "4711:token" })).unwrap();
        let bot = Telegram::new("telegram", &settings, &["42".to_owned()], &|_| None).unwrap();
        let rules = Rules::new("telegram", Vec::new(), BTreeMap::new());
        let channels = Arc::new(Registry::default());
        let opened = Opened { channel: Arc::new(bot), rules, mark: Mark::default(), works_here: false };
        channels.configured("telegram", Ok(opened));
        Outgoing::new(channels, Arc::new(Configured(&["telegram:@ops", "telegram:-5", "exec:mail"])))
    }

    fn notice(occasion: Occasion) -> Notice {
        let fields = json!({
            "event": occasion, "task_id": "codex-0123456789ab", "status": "working", "prompt": "", "cwd": "/", "at": 0,
        });
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn what_is_accepted_goes_out_the_way_for_which_it_was_accepted() {
        let outgoing = outgoing();
        let check = |target: &str, occasion: Occasion, is_of_channel: bool| {
            assert_eq!(outgoing.check(target), Ok(()), "{target}");
            let way = outgoing.way(target, &notice(occasion));
            assert_eq!(matches!(way, Way::Resting), is_of_channel, "{target} {occasion:?}");
        };
        check("telegram:42", Occasion::Completed, true);
        check("telegram:42", Occasion::Approval, true);
        // No bot can be asked by this name, so it is none of the channel's.
        check("telegram:@ops", Occasion::Completed, false);
        check("telegram:@ops", Occasion::Approval, false);
        check("telegram:@ops", Occasion::Reply, false);
        check("telegram:-5", Occasion::Completed, false);
        check("telegram:-5", Occasion::Approval, false);
        check("exec:mail", Occasion::Completed, false);
    }

    #[test]
    fn whoever_wrote_is_answered_by_the_channel_wherever_they_wrote() {
        let outgoing = outgoing();
        let mut asked = notice(Occasion::Question);
        let Content::Asks(asks) = &mut asked.content else { panic!("{asked:?}") };
        asks.in_conversation = true;
        for (target, notice) in [("telegram:-5", notice(Occasion::Reply)), ("telegram:-1001", asked)] {
            assert!(matches!(outgoing.way(target, &notice), Way::Resting), "{target}");
        }
        assert!(outgoing.check("telegram:-1001").is_err(), "and nobody else may name that place");
    }
}
