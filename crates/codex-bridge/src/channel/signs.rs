//! Shows senders at once what becomes of their messages: that Codex works, that a message waits its turn, or that it was added
//! to the running turn. On platforms without such signs a short line says it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use codex_bridge_core::Chats;
use codex_bridge_core::bridge::Error;
use codex_bridge_core::inbox::{ChannelName, Message, MessageKind, MessageState, Party};
use codex_bridge_core::store::MessageFilter;
use codex_bridge_core::task::{TaskId, TimeMs};
use futures_util::future::pending;
use tokio::time::{Instant, timeout};

use super::progress::{now, running_tasks};
use super::settings::Service;
use super::targets::place_in;
use super::{Acknowledges, ChannelError, Mark};

/// How often a place is told that Codex works: a platform shows it for about five seconds.
const WORKING_EVERY: Duration = Duration::from_secs(4);
/// The pause between two looks at the messages.
const LOOK_DELAY: Duration = Duration::from_millis(100);
/// How long after it was written a message gets a line.
const FRESH_MS: TimeMs = 60_000;
/// How many of the waiting messages, and of those that are worked on, are looked at.
const MAX_MESSAGES: u32 = 200;
/// How many messages get a mark in one look. Further ones get none.
const MAX_MARKS: usize = 20;

/// Shows signs for as long as the channel is served.
pub async fn run(chats: &Chats, service: &Service) -> ChannelError {
    let (name, signs) = (&service.rules.channel, service.channel.acknowledges());
    if signs.is_none() && !service.says_receipts {
        return pending().await;
    }
    let mut changes = chats.changes();
    let mut state = State::since(now());
    let mut is_failing = false;
    loop {
        let shown = state.show_all(chats, name, signs).await;
        // A failure that lasts is logged once.
        if let Some(error) = shown.as_ref().err().filter(|_| !is_failing) {
            tracing::warn!(channel = name.as_str(), %error, "what becomes of messages cannot be shown; it is retried");
        }
        is_failing = shown.is_err();
        let pause = if matches!(shown, Ok(Shown::AtRest)) { Duration::MAX } else { WORKING_EVERY };
        timeout(pause, changes.changed()).await.ok();
        tokio::time::sleep(LOOK_DELAY).await;
    }
}

/// The messages that are worked on and the last that wait, the oldest first.
async fn unfinished(chats: &Chats, name: &ChannelName) -> Result<Vec<Message>, Error> {
    let running = MessageFilter {
        channel: Some(name.clone()),
        states: vec![MessageState::Running],
        limit: Some(MAX_MESSAGES),
        ..MessageFilter::default()
    };
    let waiting = MessageFilter { states: vec![MessageState::Received], ..running.clone() };
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
    if is_shown || now() - message.sent_at > FRESH_MS {
        return Ok(());
    }
    let words = match mark {
        Mark::Read => return Ok(()),
        Mark::Queued => "This waits its turn: Codex is still at work on what was written before.",
        Mark::Added => "This was added to what Codex is working on.",
    };
    chats.say_of(message, mark.as_str(), words).await
}

/// What a look at the messages found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// A prompt is being worked on.
    AtWork,
    /// Nothing changes without news.
    AtRest,
}

struct State {
    /// When the channel began to be served. What happened to messages before that is not shown.
    began_at: TimeMs,
    /// The marks that were shown.
    shown: BTreeMap<String, Mark>,
    /// When a place was last told that Codex works.
    told_at: BTreeMap<String, Instant>,
}

impl State {
    fn since(began_at: TimeMs) -> Self {
        Self { began_at, shown: BTreeMap::new(), told_at: BTreeMap::new() }
    }

    async fn show_all(
        &mut self,
        chats: &Chats,
        name: &ChannelName,
        signs: Option<&dyn Acknowledges>,
    ) -> Result<Shown, Error> {
        let unfinished = unfinished(chats, name).await?;
        let marks_all = signs.is_some_and(Acknowledges::marks_every_message);
        for (message, mark) in self.new_marks(&unfinished, marks_all) {
            show_mark(chats, signs, message, mark).await?;
        }
        let Some(signs) = signs else { return Ok(Shown::AtRest) };
        let is_turn = |one: &&Message| one.kind == MessageKind::Prompt && one.state == MessageState::Running;
        let turns: Vec<&Message> = unfinished.iter().filter(is_turn).collect();
        if turns.is_empty() {
            self.told_at.clear();
            return Ok(Shown::AtRest);
        }
        let working = working_tasks(chats).await?;
        for place in self.places_to_tell(name, &turns, &working) {
            signs.working(&place).await;
        }
        Ok(Shown::AtWork)
    }

    /// The messages of people that get a mark now.
    fn new_marks<'a>(&mut self, unfinished: &'a [Message], marks_all: bool) -> Vec<(&'a Message, Mark)> {
        let open: HashSet<&str> = unfinished.iter().map(|message| message.id.as_str()).collect();
        self.shown.retain(|id, _| open.contains(id.as_str()));
        let mut busy = BTreeSet::new();
        let mut marks = Vec::new();
        for message in unfinished {
            let is_behind = message.kind == MessageKind::Prompt && !busy.insert(&message.conversation);
            let mark = match (message.kind, message.state) {
                (MessageKind::Prompt, MessageState::Received) if is_behind => Mark::Queued,
                // One that waited has its mark already.
                (MessageKind::Prompt, _) if marks_all && !self.shown.contains_key(message.id.as_str()) => {
                    Mark::Read
                }
                (MessageKind::Steer, MessageState::Running) if message.sealed_text.is_none() => Mark::Added,
                _ => continue,
            };
            let is_new = self.shown.insert(message.id.0.clone(), mark) != Some(mark);
            if is_new && message.party == Party::Person && message.updated_at >= self.began_at {
                marks.push((message, mark));
            }
        }
        marks.truncate(MAX_MARKS);
        marks
    }

    /// The places of these turns that are to be told now that Codex works there.
    fn places_to_tell(
        &mut self,
        name: &ChannelName,
        turns: &[&Message],
        working: &BTreeSet<TaskId>,
    ) -> Vec<String> {
        let is_working = |turn: &&&Message| turn.task_id.as_ref().is_some_and(|id| working.contains(id));
        let places =
            turns.iter().filter(is_working).filter_map(|turn| place_in(&turn.reply_to, name.as_str()));
        let mut places: BTreeSet<String> = places.map(str::to_owned).collect();
        self.told_at.retain(|place, _| places.contains(place));
        let now = Instant::now();
        places.retain(|place| self.told_at.get(place).is_none_or(|at| now - *at >= WORKING_EVERY));
        self.told_at.extend(places.iter().map(|place| (place.clone(), now)));
        places.into_iter().collect()
    }
}

/// The tasks on which Codex works. Not those that wait for a decision, for room or for a limit.
async fn working_tasks(chats: &Chats) -> Result<BTreeSet<TaskId>, Error> {
    let mut working = running_tasks(chats).await?;
    for request in chats.bridge().open_requests(None).await? {
        working.remove(&request.task_id);
    }
    Ok(working)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting(number: u32, kind: MessageKind) -> Message {
        serde_json::from_value(json!({
            "id": format!("in-{number:032x}"), "channel": "chat", "external_id": number.to_string(), "conversation": "room",
            "sender_id": "42", "sender_name": "Ada", "party": "person", "room": "direct", "hops": 0, "reply_to": "chat:room",
            "summary": "look", "kind": kind, "state": "received", "attempts": 0, "next_at": 0, "sent_at": 0,
            "received_at": 0, "updated_at": 0,
        }))
        .unwrap()
    }

    #[test]
    fn a_channel_that_begins_again_marks_only_what_is_new() {
        let all: Vec<Message> = (1..=200).map(|number| waiting(number, MessageKind::Prompt)).collect();
        let mut state = State::since(1);
        assert_eq!(state.new_marks(&all, false), []);
        let new = Message { updated_at: 1, received_at: 1, ..waiting(201, MessageKind::Prompt) };
        let all: Vec<Message> = all.into_iter().chain([new]).collect();
        let marked: Vec<&str> =
            state.new_marks(&all, false).iter().map(|(one, _)| one.external_id.as_str()).collect();
        assert_eq!(marked, ["201"]);
        assert_eq!(state.new_marks(&all, false), [], "once");
        assert_eq!(State::since(0).new_marks(&all, false).len(), MAX_MARKS, "not as many calls as messages");
    }

    #[test]
    fn a_message_waits_only_for_what_is_worked_on() {
        let all = [waiting(1, MessageKind::UrgentCommand), waiting(2, MessageKind::Prompt)];
        assert_eq!(State::since(0).new_marks(&all, false), [], "/status before it is no work of Codex");
        let all = [waiting(1, MessageKind::Prompt), waiting(2, MessageKind::Prompt)];
        assert_eq!(State::since(0).new_marks(&all, false), [(&all[1], Mark::Queued)]);
    }

    #[test]
    fn only_where_codex_works_it_is_shown() {
        let task = TaskId::from("codex-1");
        let turn = Message {
            state: MessageState::Running,
            task_id: Some(task.clone()),
            ..waiting(1, MessageKind::Prompt)
        };
        let mut state = State::since(0);
        let mut told = |working: &[&TaskId]| {
            let working = working.iter().map(|id| (*id).clone()).collect();
            state.places_to_tell(&"chat".into(), &[&turn], &working)
        };
        assert_eq!(told(&[]), [""; 0], "its task waits");
        assert_eq!((told(&[&task]), told(&[&task])), (vec!["room".to_owned()], Vec::new()));
    }
}
