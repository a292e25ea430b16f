//! Shows senders at once what becomes of their messages: that Codex works, that a message waits its turn, or that it was added
//! to the running turn. On platforms without such signs a short line says it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use codex_bridge_core::Chats;
use codex_bridge_core::bridge::Error;
use codex_bridge_core::inbox::{ChannelName, Message, MessageKind, MessageState, Party};
use codex_bridge_core::store::MessageFilter;
use codex_bridge_core::task::TimeMs;
use futures_util::future::pending;
use jiff::Timestamp;
use tokio::time::{Instant, timeout};

use super::settings::Service;
use super::targets::place_in;
use super::{Acknowledges, ChannelError, Mark};

/// How often a place is told that Codex works: a platform shows it for about five seconds.
const WORKING_EVERY: Duration = Duration::from_secs(4);
/// The pause between two looks at the messages.
const LOOK_DELAY: Duration = Duration::from_millis(100);

/// How long after it was written a message gets a line.
const FRESH_MS: TimeMs = 60_000;
/// How many of the waiting messages are looked at.
const WAITING: u32 = 200;

/// Shows signs until an error.
pub async fn run(chats: &Chats, service: &Service) -> ChannelError {
    let (name, signs) = (&service.rules.channel, service.channel.acknowledges());
    if signs.is_none() && !service.says_receipts {
        return pending().await;
    }
    let mut changes = chats.changes();
    let mut state = State::default();
    loop {
        let unfinished = match unfinished(chats, name).await {
            Ok(unfinished) => unfinished,
            Err(error) => return error.into(),
        };
        for (message, mark) in state.new_marks(&unfinished) {
            if let Err(error) = show_mark(chats, signs, message, mark).await {
                return error.into();
            }
        }
        if let Some(signs) = signs {
            for place in state.places_to_tell(chats, name, &unfinished).await {
                signs.working(&place).await;
            }
        }
        let pause = if state.told_at.is_empty() { Duration::MAX } else { WORKING_EVERY };
        timeout(pause, changes.changed()).await.ok();
        tokio::time::sleep(LOOK_DELAY).await;
    }
}

/// The messages that are worked on and the last that wait, the oldest first.
async fn unfinished(chats: &Chats, name: &ChannelName) -> Result<Vec<Message>, Error> {
    let running = MessageFilter {
        channel: Some(name.clone()),
        states: vec![MessageState::Running],
        ..MessageFilter::default()
    };
    let waiting =
        MessageFilter { states: vec![MessageState::Received], limit: Some(WAITING), ..running.clone() };
    let mut messages = chats.messages(&waiting).await?;
    messages.extend(chats.messages(&running).await?);
    messages.reverse();
    Ok(messages)
}

async fn show_mark(
    chats: &Chats,
    signs: Option<&dyn Acknowledges>,
    message: &Message,
    mark: Mark,
) -> Result<(), Error> {
    let is_shown = match signs {
        Some(signs) => signs.mark(message, mark).await,
        None => false,
    };
    // Of what was written long ago nobody waits for a sign.
    if is_shown || Timestamp::now().as_millisecond() - message.sent_at > FRESH_MS {
        return Ok(());
    }
    let words = match mark {
        Mark::Queued => "This waits its turn: Codex is still at work on what was written before.",
        Mark::Added => "This was added to what Codex is working on.",
    };
    chats.say_of(message, mark.as_str(), words).await
}

#[derive(Default)]
struct State {
    /// The marks that were shown.
    shown: BTreeMap<String, Mark>,
    /// When a place was last told that Codex works.
    told_at: BTreeMap<String, Instant>,
}

impl State {
    /// The messages of people that get a mark now.
    fn new_marks<'a>(&mut self, unfinished: &'a [Message]) -> Vec<(&'a Message, Mark)> {
        let is_open = |id: &str| unfinished.iter().any(|message| message.id.as_str() == id);
        self.shown.retain(|id, _| is_open(id));
        let mut busy = BTreeSet::new();
        let mut marks = Vec::new();
        for message in unfinished {
            let is_first = busy.insert(&message.conversation);
            let mark = match (message.kind, message.state) {
                (MessageKind::Prompt, MessageState::Received) if !is_first => Mark::Queued,
                (MessageKind::Steer, MessageState::Running) if message.sealed_text.is_none() => Mark::Added,
                _ => continue,
            };
            let is_new = self.shown.insert(message.id.0.clone(), mark) != Some(mark);
            if is_new && message.party == Party::Person {
                marks.push((message, mark));
            }
        }
        marks
    }

    /// The places to be told that Codex works there. Not while it waits for a decision.
    async fn places_to_tell(
        &mut self,
        chats: &Chats,
        name: &ChannelName,
        unfinished: &[Message],
    ) -> Vec<String> {
        let mut working = BTreeSet::new();
        for message in unfinished.iter().filter(|message| message.kind == MessageKind::Prompt) {
            let waits = match &message.task_id {
                Some(task_id) => chats
                    .bridge()
                    .open_requests(Some(task_id.clone()))
                    .await
                    .is_ok_and(|open| !open.is_empty()),
                None => false,
            };
            if !waits {
                working.extend(place_in(&message.reply_to, name.as_str()).map(str::to_owned));
            }
        }
        self.told_at.retain(|place, _| working.contains(place));
        let now = Instant::now();
        working.retain(|place| self.told_at.get(place).is_none_or(|at| now - *at >= WORKING_EVERY));
        self.told_at.extend(working.iter().map(|place| (place.clone(), now)));
        working.into_iter().collect()
    }
}
